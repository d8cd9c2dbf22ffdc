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

/// What a tool or a model needs to be written: the attribute for their traits, the token that they watch.
pub use async_trait::async_trait;
pub use tokio_util::sync::CancellationToken;
