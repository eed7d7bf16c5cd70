//! Files beside tables, and Parquet files made of rows.

pub mod packing;
pub mod parquet_file;
pub mod csv_file;
pub mod file_table;
pub mod parquet_writer;
