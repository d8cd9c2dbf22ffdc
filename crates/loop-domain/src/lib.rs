//! A domain folder, read and checked: what the work items, sections, tools, prompts, models and limits are for one kind of work.
//!
//! [`Domain::load`] reads `loopgate.toml` and makes of it what a run needs: the [`RunSpec`](loop_core::RunSpec), the tools, the
//! prompts, the models. [`Domain::item`] reads a work item by the places that the file names. [`Domain::report`] says what
//! there is.
//!
//! What it does not do: it runs nothing and decides nothing. Everything that can be wrong with a folder is said before a run
//! begins, in one line that points at its place ([`DomainError`]).
//!
//! ```
//! use loop_domain::{Domain, LoadOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("notes.md"), "# Shop\nOpen from nine to five.")?;
//! std::fs::write(
//!     folder.path().join("loopgate.toml"),
//!     r#"
//! version = 1
//! name = "shop"
//!
//! [[section]]
//! id = "answer"
//! heading = "Answer"
//! required = true
//!
//! [tools.search]
//! kind = "docs"
//! effect = "read"
//! folder = "."
//! when = "always"
//! "#,
//! )?;
//! let domain = Domain::load(folder.path(), &LoadOptions::default())?;
//! let item = domain.item("# When do you open?\n\nOn a Monday.", "question.md")?;
//! assert_eq!((&*domain.spec.domain, &*item.id, &*item.title), ("shop", "question", "When do you open?"));
//! assert!(domain.registry.resolve("search").is_some());
//! # Ok(())
//! # }
//! ```

pub mod calibration;
mod called;
mod caller;
mod command;
mod config;
mod de;
mod domain;
mod error;
mod file;
mod files;
mod hooks;
#[cfg(feature = "http")]
mod http;
pub mod import;
mod item;
mod item_schema;
mod json;
mod lock;
#[cfg(all(feature = "mcp", unix))]
mod mcp;
#[cfg(not(all(feature = "mcp", unix)))]
#[path = "no_mcp.rs"]
mod mcp;
mod models;
mod money;
#[cfg(feature = "http")]
mod openapi;
mod parts;
mod policy_file;
#[cfg(feature = "postgres")]
mod postgres;
mod preset;
pub mod prices;
mod protocol;
mod remote;
mod report;
pub mod review;
pub mod scaffold;
mod schema;
mod secret;
mod selection;
mod server;
mod settings;
mod similar;
mod smart;
mod spec;
mod tools;
mod tree;
mod user;

pub use caller::outlives_model;
pub use command::kill_commands;
pub use domain::{Domain, LoadOptions};
pub use error::{DomainError, ItemError};
pub use item_schema::ItemSchema;
pub use lock::lock_schema;
pub use policy_file::PolicyFile;
pub use preset::preset;
pub use report::DomainReport;
pub use schema::schema;
pub use secret::may_hold_secret;
pub use selection::ToolSelection;
pub use server::{ConfiguredModel, ServerModel};
pub use user::{UserModel, UserSettings};
