//! Tools of an AI loop: what they return, what they receive, how they are found, checked, run and cut off.
//!
//! A [`Tool`] is one source of data, or one action. It declares itself ([`ToolDeclaration`]), is given
//! parameters, a [`ToolContext`] and, separately, [`Credentials`], and hands back a [`ToolResult`]. A
//! [`Registry`] holds the tools of a run, and its dispatcher turns each call into a
//! [`loop_core::types::Observation`]: whatever a tool does (panic, hang, lie, flood), the loop gets a status and a
//! text that a model can act on.
//!
//! The feature `connectors` has tools that are made from configuration: queries, documents, and behind features of their own
//! HTTP, programs, files, PostgreSQL and MCP servers.
//!
//! What it does not do: it decides nothing (which calls may run is the core's business), retries nothing,
//! knows no provider and no wording, and without these features opens no connection. A smart tool ([`Smart`]) asks a model through
//! [`AskModel`], which the runtime implements.
//!
//! ```
//! use loop_core::types::{Effect, Scope, Status};
//! use loop_tools::{Credentials, Registry, ToolContext, ToolDeclaration, ToolResult};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), loop_tools::RegistryError> {
//! let declaration = ToolDeclaration::new("fetch_device_info")
//!     .description("Fetch device details: hardware, OS, network, status")
//!     .when("a device is mentioned")
//!     .alias("fetch_devices")
//!     .schema(json!({
//!         "type": "object",
//!         "properties": { "target": { "type": "string", "minLength": 1 } },
//!         "required": ["target"],
//!     }))
//!     .effect(Effect::Read);
//! let registry = Registry::builder()
//!     .tool_fn(declaration, |parameters: Value, context: ToolContext, _credentials| async move {
//!         let rows = vec![json!({ "name": parameters["target"], "status": "online" })];
//!         ToolResult::found("fetch_device_info", "Device info", &context.scope, rows)
//!     })
//!     .build()?;
//!
//! let scope = Scope { account_name: Some("Contoso".into()), ..Scope::default() };
//! let context = ToolContext::new(scope, "Laptop is slow", "run-1/1/action-0");
//! let parameters = json!({ "target": "LT-7" });
//! let seen = registry
//!     .dispatch("fetch_devices", &parameters, context, &Credentials::none(), 12_000, 4_000)
//!     .await;
//! assert_eq!((seen.status, &*seen.summary), (Status::Ok, "Found 1 items"));
//! assert!(seen.markdown.starts_with("## Device info — Contoso\n\n| name | status |"));
//! # Ok(())
//! # }
//! ```

mod apart;
mod ask;
#[cfg(feature = "connectors")]
pub mod connectors;
mod context;
mod declaration;
mod dispatch;
mod error;
pub mod files;
mod judge;
mod registry;
mod result;
mod results;
mod schema;
mod selection;
mod similar;
mod smart;
mod smart_rows;
mod table;
mod text;
mod tool;

pub use apart::apart;
pub use ask::{AskError, AskModel, ChoiceRequest, SubCallReply};
pub use context::{Credentials, SUB_CALL_MS, ToolContext};
pub use declaration::{ATTEMPTS, TIMEOUT_MS, ToolDeclaration};
pub use dispatch::ToolInvocation;
pub use error::RegistryError;
pub use registry::{ListedName, Registry, RegistryBuilder};
pub use result::{Failure, IntoToolResult, NO_DATA_FOUND, ToolResult, UNKNOWN_ERROR, heading};
pub use results::{EarlierResult, EarlierResults, PAGE_CHARS, ResultsTool};
pub use schema::{SchemaCheck, SchemaError};
pub use smart::{AI_FILTER_THRESHOLD, Candidate, Smart, Source};
pub use smart_rows::{RowFilter, SmartRows};
pub use table::{RENDERED_BYTES, pretty, push_lines};
pub use text::clean;
pub use tool::{KeptTool, Tool, schema_of};

/// What a tool or a model needs to be written: the attribute for their traits, the token that they watch.
pub use async_trait::async_trait;
pub use tokio_util::sync::CancellationToken;
