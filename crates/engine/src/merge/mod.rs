//! Rows of several pieces in key order, and what equal keys come to.

pub mod disjoint;
pub mod merger;
pub mod piece_source;
pub mod passing;
pub mod key_table;
pub mod resolving;
