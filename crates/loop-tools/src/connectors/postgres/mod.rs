//! PostgreSQL: a source with its connections, and a tool over one query or one change.
//!
//! ```text
//! load    statement: scanned, named placeholders become numbers          (no server)
//! check   prepared and explained on a server, the role looked at         (`Postgres::check`)
//! call    connection of the pool ─▶ BEGIN ─▶ scope and timeouts ─▶ statement ─▶ ROLLBACK or COMMIT ─▶ pool
//!                                        │ cut off
//!                                        ▼
//!                      cancel request, and the connection is closed
//! ```

mod bind;
mod check;
mod connection;
mod decode;
mod failure;
mod login;
mod pool;
mod run;
mod settings;
mod statement;
mod tool;
mod wire;

pub use check::PostgresReport;
pub use settings::{Postgres, PostgresLogin, PostgresSettings, PostgresTls};
pub use tool::PostgresTool;
