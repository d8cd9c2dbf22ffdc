//! SQLite: a database, and a tool over one query or one change.

mod change;
mod database;
mod given;
mod query;
mod tool;

pub use database::Database;
pub use query::ROWS_MAX;
pub use tool::SqlTool;
