//! SQLite: a database, and a tool over one query or one change.

mod change;
mod database;
mod query;
pub(crate) mod rows;
mod tables;
mod tool;
pub(crate) mod values;

pub use database::{BUSY_TIMEOUT, Database};
pub use rows::{CELL_BYTES_MAX, RESULT_BYTES_MAX, ROWS_MAX};
pub use tables::{TableInfo, TableLink, quoted};
pub use tool::SqlTool;
