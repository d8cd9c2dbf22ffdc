//! Bounded AI agent loops: an agent that answers, or a loop that turns a work item into a document, within limits.
//!
//! A first agent: a model by name, a cost limit, one tool, one question.
//!
//! ```no_run
//! use loop_runtime::{Agent, CostLimit, read};
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!
//! let agent = Agent::new("anthropic/claude-haiku-4-5")
//!     .instructions("You calculate with the tools.")
//!     .limit(CostLimit::usd("0.10"))
//!     .tool(read("add", "Adds two numbers"), |it: Add| async move { it.a + it.b })
//!     .build()?;
//! let answer = agent.prompt("2 + 5?").await?;
//! # Ok(println!("{}", answer.text))
//! # }
//! ```
//!
//! # The modules
//!
//! | module | what is in it |
//! |---|---|
//! | [`agent`] | the builder of an agent, its requests, streams and handles, how it ended |
//! | [`tools`] | declarations, effects, policy, the trait of a tool of your own, MCP servers (feature `mcp`) |
//! | [`models`] | models by name, the trait of one of your own, requests and replies, price and window |
//! | [`spec`] | what a run is bound to: sections, the gate, taint, repeats, prompts |
//! | [`run`] | a run under way: requests, handles, streams, stopping, verdicts |
//! | [`people`] | what people are asked, and their answers |
//! | [`journal`] | where runs are journaled and from where they are resumed and replayed |
//! | [`observe`] | events, observers |
//! | [`engine`] | a run that a durable engine drives |
//! | [`report`] | the outcome as JSON and in sentences |
//! | [`again`] | the prompts and reads of a recorded run, once more |
//! | [`save`] | where outcomes are saved |
//!
//! This crate is the one place where a loop touches the world. It decides nothing: commands come from a
//! [`Run`](loop_core::Run), and every decision is durable before anything follows from it. A [`Runner`] is spec, tools, models
//! and prompts put together, and an [`Agent`] is a short way to one.
//!
//! # A loop
//!
//! A work item becomes a document, here with the offline stub, which needs no network:
//!
//! ```
//! use std::sync::Arc;
//! use loop_runtime::models::{ModelSpec, Models, Offline};
//! use loop_runtime::tools::{Registry, ToolContext, ToolResult};
//! use loop_runtime::{Runner, RunSpec, WorkItem, read, spec::SectionSpec};
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let tools = Registry::builder().tool_fn(read("fetch_backups", "Fetch backup jobs."), |_, context: ToolContext, _| async move {
//!         ToolResult::found("fetch_backups", "Backups", &context.scope, vec![serde_json::json!({"job": "B-7", "last": "failed"})])
//!     });
//!     let sections = [SectionSpec::new("findings", "Findings").required().cited()];
//!     let spec = RunSpec::document("help", sections, ModelSpec::new("offline", "offline-1"));
//!     let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
//!     let outcome = Runner::new(spec, tools.build()?, Models::one(Arc::new(Offline::new()))).run(item).await?;
//! #   assert_eq!(outcome.stop.reason(), loop_runtime::StopReason::Confident, "{outcome:#?}");
//! #   assert!(outcome.document.to_markdown().contains("[E1]"));
//!     Ok(println!("{}", outcome.document.to_markdown()))
//! }
//! ```
//!
//! # Four ways to run
//!
//! Each uses the same machine, and for the same events it leaves the same journal.
//!
//! - **Awaited**: [`Runner::run`] gives the outcome; dropping its future ends the run.
//! - **By a handle**: [`RunRequest::start`](run::RunRequest::start) lets the run continue by itself;
//!   [`Handle`](run::Handle) has `events`, `stop` and `wait`.
//! - **As a stream**: [`RunRequest::stream`](run::RunRequest::stream) continues only while it is polled, one recorded entry
//!   at a time; not polling it is a pause.
//! - **From a queue**: [`Runner::run_all`] and [`Runner::queue`] run many items, so many at a time.
//!
//! [`Runner::with_observer`] adds observers to all of them. An [`Observer`](observe::Observer) can neither slow nor
//! break a run: it has a thread of its own and a bounded queue. When it falls behind, it misses pieces of replies
//! first, and receives the number of what it missed ([`RunEvent::Lost`](observe::RunEvent::Lost)). A panic in it is
//! counted ([`Observed`](observe::Observed)).

pub mod agent;
mod drive;
pub mod engine;
mod watch;

// What a first program needs.
pub use agent::{Agent, read, write};
pub use drive::runner::Runner;
pub use drive::{again, hooks, save};
pub use loop_core::spec::CostLimit;
pub use loop_core::{Outcome, RunSpec, StopReason, WorkItem};
pub use loop_journal as journal;
pub use loop_llm::Message;
pub use watch::{people, report};

/// What tools are made of: declarations with their effects, the registry, what a tool returns, what it was used for.
pub mod tools {
    pub use crate::agent::{exec, read, send, write, write_idempotent, write_keyed};
    pub use crate::watch::uses::{ToolUse, ToolUses};
    pub use loop_core::spec::ToolPolicy;
    pub use loop_core::types::Effect;
    pub use loop_prompts::markdown_of;
    pub use loop_tools::{
        Credentials, Failure, Registry, RegistryBuilder, Tool, ToolContext, ToolDeclaration, ToolResult,
        async_trait, connects_to, files,
    };
    #[cfg(all(feature = "mcp", unix))]
    pub use {
        crate::agent::McpServer,
        loop_tools::connectors::{McpHttp, McpProgram, McpSettings, McpTransport},
    };
}

/// The models of a loop: by name or of your own, over HTTP or without a network, with what is known of them.
pub mod models {
    pub use crate::agent::{AgentModel, NamedModel};
    pub use crate::drive::model::Models;
    pub use crate::drive::priced::Priced;
    pub use loop_core::reply::FinishReason;
    pub use loop_core::spec::ModelSpec;
    pub use loop_core::types::{Arguments, FailureKind, Price, ToolCall, Usage};
    pub use loop_llm::request::{AssistantTurn, Author};
    pub use loop_llm::scripted::ScriptedReply;
    pub use loop_llm::{
        ChatModel, ErrorPhase, EventStream, HttpModel, LlmError, ModelEvent, ModelReply, ModelRequest,
        Profile, Scripted, ToolDefinition, ToolOutput,
    };
    #[cfg(feature = "offline")]
    pub use loop_mock::offline::{NotSelected, Offline, not_selected};
    pub use loop_tools::async_trait;
}

/// What a run is bound to: its spec, limits, sections, gate and prompts.
pub mod spec {
    pub use loop_core::RunSpec;
    pub use loop_core::spec::{
        CostLimit, ErrorStyle, Execution, GateSettings, Limits, Repeats, SectionSpec, TaintRule,
    };
    pub use loop_core::types::PicoUsd;
    pub use loop_prompts::Prompts;
}

/// A run under way: how it is requested, driven, stopped and judged.
pub mod run {
    pub use crate::drive::callee::RunAsTool;
    pub use crate::drive::check::Validator;
    pub use crate::drive::expire::{expire, note_alone};
    pub use crate::drive::handle::{DriveResult, Handle, Remote, Waiting};
    pub use crate::drive::request::{Attached, EndedRun, RunRequest};
    pub use crate::drive::start_error::StartError;
    pub use crate::drive::stream::RunStream;
    pub use crate::drive::take_over::Forkable;
    pub use loop_core::run::{NotTakenOver, Parent, ParentEffect, Program, StopMode, Takeover};
    pub use loop_core::types::{RunId, StopClass};
    pub use loop_core::{EventKind, Note, Outcome, StopReason, Verdict};
    pub use loop_tools::CancellationToken;
}

/// Budgets that runs share: of a day, of a month, of a batch.
pub mod budget {
    pub use loop_journal::shared::{
        BudgetLimit, BudgetUse, LedgerAnswer, MemoryLedger, Reservation, SharedBudget, SharedBudgets,
        SharedLedger, Span,
    };
}

/// What happens in a run, for those who watch it: events, observers on threads of their own or on the run's task.
pub mod observe {
    pub use crate::watch::events::{CallNews, Events, ReplyPart, RunEvent};
    pub use crate::watch::observer::{Observed, Observer};
    pub use crate::watch::steps::{Progress, Step, StepError, steps};
    pub use crate::watch::trace::TraceSampler;
}
