//! SQLite: a database, and a tool over one query or one change.

mod change;
mod database;
mod given;
mod query;
mod tool;

pub use database::Database;
pub use query::{CELL_BYTES_MAX, RESULT_BYTES_MAX, ROWS_MAX};
pub use tool::SqlTool;
