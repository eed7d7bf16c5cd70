//! Rows added one by one or in small batches, and committed in larger ones by a thread in the background.

pub mod writer_options;
pub mod add;
pub mod growing_rows;
pub mod open_batch;
pub mod failed_rows;
pub mod gone_columns;
pub mod batch_commit;
pub mod row_queue;
pub mod table_writer;
pub mod database_writer;
