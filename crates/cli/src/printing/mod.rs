//! What is printed, in which form, and how far long work is.

pub mod noting;
pub mod terminal_text;
pub mod output;
pub mod fitted_table;
pub mod progress;
pub mod pager;
