//! Drives a [`Run`](loop_core::Run): calls models, runs tools, keeps the journal, saves the outcome.
//!
//! **What it is.** The one place where a loop touches the world. **What it does not do.** It decides nothing: what
//! is wished comes from `loop-core`, and every decision is durable before anything follows from it. **The nouns.** A
//! [`Loop`] is spec, tools, models and prompts put together; a [`Handle`] is a run on its way; a [`Journal`] is where
//! it is written down; a [`Report`] is the outcome as JSON.

mod driver;
mod explain;
mod journal;
mod model;
mod parts;
mod report;
mod save;
mod signal;
mod tool;

pub use explain::explain;
pub use journal::{
    Entry, Header, Journal, JournalError, MemoryJournal, Recorded, RunLine, RunWriter, SqliteJournal,
};
pub use model::Models;
pub use parts::{Handle, Loop, Remote, StartError, replay};
pub use report::{
    Action, ConditionReport, Evidence, Item, REPORT_VERSION, Report, SavedReport, Section, Sections, Stop, Totals,
};
pub use save::{SaveError, SaveTarget, Saver};
pub use signal::Signal;

// What a short program needs beside its own tools and models.
pub use loop_core::{Outcome, RunId, RunSpec, StopClass, StopMode, StopReason, WorkItem};
pub use loop_llm::{ChatModel, Offline, Scripted};
pub use loop_prompts::Prompts;
pub use loop_tools::{Registry, ToolContext, ToolDeclaration, ToolResult};
