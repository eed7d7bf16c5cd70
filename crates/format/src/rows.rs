//! Rows as they are stored: encoded keys beside the arrays of all other columns.
//!
//! A [`Layout`] says which column of a table lives where and turns batches into [`Rows`] and back;
//! key columns exist only inside the encoded keys. [`Rows`] are immutable and cheap to clone and
//! slice. What order rows stand in, and what equal keys mean, is left to others.

mod projection;
mod row_order;
mod groups;
mod stored_rows;
mod rows_concat;
mod lists;
mod set_codes;
mod layout;
#[cfg(test)]
pub(crate) mod tests;

pub use groups::Groups;
pub use layout::Layout;
pub use projection::Projection;
pub use rows_concat::RowsConcat;
pub use set_codes::SetCodes;
pub use stored_rows::{CodedTexts, Rows};
