//! Tools that are made from configuration rather than from code.
//!
//! Each connector turns one source into a [`Tool`](crate::Tool):
//!
//! | tool | source | feature |
//! |---|---|---|
//! | [`SqlTool`] | a query or a change over a SQLite file | `connectors` |
//! | [`DocsTool`] | a folder of documents | `connectors` |
//! | `HttpTool` | one request to a server | `http` |
//! | `CommandTool` | a program, on Unix | `command` |
//! | `FilesTool` | the files of a folder | `files` |
//! | `PostgresTool` | a query or a change over a PostgreSQL database | `postgres` |
//! | `McpTool` | a tool that a server of the Model Context Protocol offers, on Unix | `mcp` |
//!
//! An error in the configuration is reported when the tool is made, in one line ([`ConnectorError`]). An error in a call is
//! a failed result.
//!
//! What it does not do: it reads no configuration file, decides nothing, and writes to no source that was not opened for it
//! ([`Database::open_writable`], [`Database::working_copy`]): every query has a connection that cannot write. Beyond that it
//! writes a database made from a script ([`Database::made_from`]).
//!
//! ```
//! use loop_tools::connectors::{Database, SqlTool};
//! use loop_core::types::{Effect, Scope, Status};
//! use loop_tools::{Credentials, Registry, ToolContext, ToolDeclaration};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let script = folder.path().join("shop.sql");
//! std::fs::write(&script, "CREATE TABLE stock (name, pieces, account_id); INSERT INTO stock VALUES ('nut', 7, 'a');")?;
//!
//! let database = Database::made_from(&script, &folder.path().join("cache"))?;
//! let declaration = ToolDeclaration::new("fetch_stock")
//!     .description("Fetch how many pieces of a part are in stock")
//!     .schema(json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] }))
//!     .effect(Effect::Read);
//! let query = "SELECT name, pieces FROM stock WHERE name = :name AND account_id = :scope_account";
//! let registry = Registry::builder().tool(SqlTool::new(declaration, &database, query)?).build()?;
//!
//! let scope = Scope { account: Some("a".into()), ..Scope::default() };
//! let context = ToolContext::new(scope, "Out of nuts", "run-1/1/action-0");
//! let seen = registry
//!     .dispatch("fetch_stock", &json!({ "name": "nut" }), context, &Credentials::none(), 12_000, 4_000)
//!     .await;
//! assert_eq!(seen.status, Status::Ok);
//! assert_eq!(&*seen.markdown, "## Stock — a\n\n| name | pieces |\n| --- | --- |\n| nut | 7 |");
//! # Ok(())
//! # }
//! ```

mod charset;
#[cfg(all(feature = "command", unix))]
mod command;
mod docs;
mod error;
#[cfg(any(all(feature = "command", unix), feature = "files"))]
mod fence;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "http")]
mod http;
#[cfg(all(feature = "mcp", unix))]
mod mcp;
#[cfg(any(all(feature = "command", unix), feature = "http"))]
mod placeholders;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(all(test, feature = "mcp", unix))]
mod renderings_tests;
mod scope;
mod sql;
#[cfg(any(feature = "http", feature = "postgres"))]
mod tls;
mod trouble;

#[cfg(all(feature = "command", unix))]
pub use command::{
    COMMAND_BYTES_MAX, CommandOutput, CommandSettings, CommandTool, HookCommand, SandboxFolders,
    SandboxSupport, kill_commands,
};
pub use docs::{DocsTool, FILE_BYTES_MAX, FILES_MAX, documents_below};
pub use error::ConnectorError;
#[cfg(feature = "files")]
pub use files::{FILES_BYTES_MAX, FILES_RESULTS_MAX, FilesSettings, FilesTool, FilesWork};
#[cfg(feature = "http")]
pub use http::{HTTP_BYTES_MAX, HttpAuth, HttpDefinition, HttpPages, HttpPaging, HttpTool, Webhook};
#[cfg(all(feature = "mcp", unix))]
pub use mcp::{
    MCP_MESSAGE_BYTES_MAX, McpClient, McpError, McpHttp, McpManifest, McpProgram, McpResource,
    McpResourceTool, McpSettings, McpTool, McpToolSpec, McpTransport,
};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresLogin, PostgresReport, PostgresSettings, PostgresTls, PostgresTool};
pub use sql::{
    BUSY_TIMEOUT, CELL_BYTES_MAX, Database, RESULT_BYTES_MAX, ROWS_MAX, SqlTool, TableInfo, TableLink, quoted,
};
