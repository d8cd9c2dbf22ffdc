//! Loads a domain folder: the files with which an operator describes the work items, sections, tools, prompts, models and limits
//! of one kind of work.
//!
//! [`Domain::load`] reads and checks `loopgate.toml` and makes what a run needs: the [`RunSpec`](loop_core::RunSpec), the tools,
//! the prompts and the models. [`Domain::item`] reads a work item. [`Domain::to_loop`] makes the runner.
//!
//! **What it is not.** It makes no decisions and drives no runs: those are `loop-core` and `loop-runtime`. It reports every
//! error of a folder before a run begins, in one line with the file, the line and the column ([`DomainError`]).
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
//!
//! | module or type | what you find there |
//! |---|---|
//! | [`Domain`], [`LoadOptions`] | a loaded domain, and the options that replace its settings |
//! | [`DomainReport`] | what a domain contains, with warnings: what `loopgate domain check` prints |
//! | [`DomainError`], [`ItemError`] | why a domain or a work item cannot be read |
//! | [`ItemSchema`] | the schema of a domain's JSON work items |
//! | [`ToolSelection`] | which tools a run selected before its first pass, and why not the others |
//! | [`ServerModel`], [`ConfiguredModel`] | one model on a server, ready to be called |
//! | [`PolicyFile`] | settings that are laid over the spec of a recorded run, for backtests |
//! | [`preset()`] | named sets of default settings |
//! | [`UserSettings`], [`UserModel`] | the user's `config.toml` |
//! | [`scaffold`] | generates a new domain folder: `loopgate init` |
//! | [`import`] | generates tools from an OpenAPI document |
//! | [`review`] | compares the tools of MCP servers with those that an operator trusts |
//! | [`calibration`] | the file with measured confidence that `gate.calibration` names |
//! | [`prices`] | the user's price file |
//! | [`schema()`], [`lock_schema`] | JSON Schemas of `loopgate.toml` and `tools.lock`, for editors |
//!
//! To read the source, follow [`Domain::load`]. `file` reads `loopgate.toml` into a `tree` and merges the profile and the options,
//! `de` types the tree as `config`, and `spec`, `tools`, `models`, `parts` and `hooks` make the parts of the domain from that.

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
