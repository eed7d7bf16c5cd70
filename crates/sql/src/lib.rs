//! SQL.
