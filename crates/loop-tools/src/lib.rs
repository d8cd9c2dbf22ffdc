//! Tools of an AI agent loop: what they declare, what they receive and return, and how a call is checked, run and cut off.
//!
//! A [`Tool`] is one source of data, or one action. It has a [`ToolDeclaration`], receives parameters, a [`ToolContext`]
//! and, separately, [`Credentials`], and returns a [`ToolResult`]. A [`Registry`] holds the tools of a run. Its dispatcher
//! turns each call into a [`loop_core::types::Observation`]: whatever a tool does (panic, hang, lie, flood), the loop gets
//! a status and a text that a model can act on.
//!
//! # What it is not
//!
//! It decides nothing: the core decides which calls may run. It retries nothing, and knows no provider and no wording of
//! prompts. Without the features of `connectors` it opens no connection.
//!
//! # A tool
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
//!
//! # The modules
//!
//! | module | what you find there |
//! |---|---|
//! | [`tool`] | the trait [`Tool`], and the JSON Schema of a Rust type |
//! | [`declaration`] | what a tool declares: names, parameters, effect, limits |
//! | [`context`] | what a tool receives in addition to its parameters: scope, key, cancellation, credentials |
//! | [`result`] | what a tool returns, and the kinds of failure |
//! | [`registry`] | the tools of a run, by name and alias |
//! | [`dispatch`] | one call of one tool, which always ends in an observation |
//! | [`schema`] | compiled JSON Schemas, and violations in words for a model |
//! | [`results`] | a tool that reads more of an earlier result than the prompt shows |
//! | [`smart`] | tools that fetch many results and return a few, which a model may choose |
//! | [`ask`] | the model that a smart tool asks, which the runtime implements |
//! | [`table`] | rows as a Markdown table, JSON as text |
//! | [`text`] | outside text without control characters and invisible characters |
//! | [`mod@files`] | regular files, read without blocking and up to a maximum size |
//! | [`lock`] | the file `tools.lock` with the trusted tool descriptions of MCP servers |
//! | `connectors` | tools made from configuration. Feature `connectors`: SQLite, documents. Features `http`, `command`, `files`, `postgres`, `mcp`: one kind each |

mod apart;
pub mod ask;
#[cfg(feature = "connectors")]
pub mod connectors;
pub mod context;
pub mod declaration;
pub mod dispatch;
mod error;
pub mod files;
mod judge;
pub mod lock;
pub mod registry;
pub mod result;
pub mod results;
pub mod schema;
mod selection;
mod similar;
pub mod smart;
mod smart_rows;
pub mod table;
pub mod text;
pub mod tool;

pub use ask::AskModel;
pub use context::{Credentials, ToolContext};
pub use declaration::{ToolDeclaration, connects_to};
pub use error::RegistryError;
pub use registry::{Registry, RegistryBuilder};
pub use result::{Failure, IntoToolResult, ToolResult};
pub use smart::Smart;
pub use tool::Tool;

/// For implementations of [`Tool`]: the attribute of its async trait, and the token that cancels a call.
pub use async_trait::async_trait;
pub use tokio_util::sync::CancellationToken;
