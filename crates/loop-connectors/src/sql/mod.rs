//! SQLite: a database that is only read, and a tool over one query.

mod database;
mod query;
mod tool;

pub use database::Database;
pub use query::ROWS_MAX;
pub use tool::SqlTool;
