//! Drives a [`Run`](loop_core::Run): calls models, runs tools, keeps the journal, saves the outcome.
//!
//! **What it is.** The one place where a loop touches the world. **What it does not do.** It decides nothing: what
//! is wished comes from `loop-core`, and every decision is durable before anything follows from it. **The nouns.** A
//! [`Loop`] is spec, tools, models and prompts put together; a [`Handle`] is a run on its way; a [`Journal`] is where
//! it is written down; a [`Report`] is the outcome as JSON.
//!
//! A whole program: a tool, a model (here the stand-in that needs no network), a work item.
//!
//! ```
//! use std::sync::Arc;
//! use loop_runtime::{
//!     Effect, Loop, ModelSpec, Models, Offline, Registry, RunSpec, SectionSpec, ToolContext, ToolDeclaration, ToolResult, WorkItem,
//! };
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let jobs = ToolDeclaration::new("fetch_backups").description("Fetch backup jobs.").effect(Effect::Read);
//!     let tools = Registry::builder().tool_fn(jobs, |_, context: ToolContext, _| async move {
//!         ToolResult::found("fetch_backups", "Backups", &context.scope, vec![serde_json::json!({"job": "B-7", "last": "failed"})])
//!     });
//!     let sections = [SectionSpec::new("findings", "Findings").required().cited()];
//!     let spec = RunSpec::document("help", sections, ModelSpec::new("offline", "offline-1"));
//!     let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
//!     let outcome = Loop::new(spec, tools.build()?, Models::one(Arc::new(Offline::new()))).run(item).await?;
//! #   assert_eq!(outcome.stop.reason(), loop_runtime::StopReason::Confident, "{outcome:#?}");
//! #   assert!(outcome.document.to_markdown().contains("[E1]"));
//!     Ok(println!("{}", outcome.document.to_markdown()))
//! }
//! ```
//!
//! # Four ways to run
//!
//! The same machine stands behind each, and for the same events it leaves the same journal.
//!
//! - **Awaited**: [`Loop::run`] gives the outcome; dropping its future ends the run.
//! - **By a handle**: [`RunRequest::start`] lets the run continue by itself; [`Handle`] has `events`, `stop` and `wait`.
//! - **As a stream**: [`RunRequest::stream`] continues only while it is polled, one recorded entry at a time; not polling
//!   it is a pause.
//! - **From a queue**: [`Loop::run_all`] and [`Loop::queue`] run many items, so many at a time.
//!
//! [`Loop::with_observer`] adds callbacks to all of them. An [`Observer`] can neither slow nor break a run: it has a
//! thread of its own and a bounded queue, misses pieces of replies first when it falls behind, and is told how many
//! ([`RunEvent::Lost`]); a panic in it is counted ([`Observed`]).

mod agent;
mod alarm;
mod callbacks;
mod driver;
mod events;
mod explain;
mod files;
mod forecast;
mod handle;
mod journal;
mod legs;
mod model;
mod observer;
mod parts;
mod people;
mod priced;
mod queue;
mod report;
mod request;
mod save;
mod served;
mod sink;
mod stream;
mod talk;
mod tool;
mod uses;
mod validate;
mod waits;

pub use agent::{
    Agent, AgentBuilder, AgentError, AgentHandle, AgentModel, AgentOutput, AgentRequest, AgentStream, Answer,
    BuildError, Extracted, Meta, OutputTool, Plain, Reflected, Text,
};
pub use callbacks::{CallbackError, CallbackReturn, Callbacks, Progress};
pub use events::{CallNews, Events, ReplyPart, RunEvent};
pub use explain::explain;
pub use forecast::{Bound, Forecast};
pub use handle::{Driven, Handle, Remote, Waiting};
pub use journal::{
    Entry, Header, Journal, JournalError, MemoryJournal, NoJournal, Recorded, RunLine, RunWriter,
    SqliteJournal,
};
pub use model::Models;
pub use observer::{Observed, Observer};
pub use parts::{Loop, StartError, expire, replay};
pub use people::{AskedOnce, PeopleReport, ToldReport};
pub use priced::Priced;
pub use report::{
    Action, AskedReport, CallReport, ConditionReport, Evidence, Item, OutputReport, OverriddenReport,
    PassReport, REPORT_VERSION, RejectionReport, Report, SavedReport, Section, Sections, Stop,
    StoppedInReport, Totals, call_warnings,
};
pub use request::RunRequest;
pub use save::{HttpTarget, SaveError, SaveTarget, Saver, TargetError};
pub use stream::RunStream;
pub use uses::{ToolUse, ToolUses};
pub use validate::Validator;

// What a short program needs beside its own tools and models.
pub use loop_core::{
    Asked, Effect, ErrorStyle, Execution, Fact, GateSettings, Limits, ModelSpec, Note, Outcome, PersonAnswer,
    PicoUsd, Price, Repeats, RunId, RunSpec, SectionSpec, StopClass, StopMode, StopReason, ToolPolicy,
    Verdict, WorkItem,
};
pub use loop_llm::{ChatModel, HttpModel, Message, Profile, Scripted, ScriptedReply};
#[cfg(feature = "offline")]
pub use loop_offline::Offline;
pub use loop_prompts::{Prompts, markdown_of};
pub use loop_tools::{CancellationToken, Registry, ToolContext, ToolDeclaration, ToolResult};
