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
//! # What it is not
//!
//! It makes no decisions of the loop: [`loop_core::Run`] decides, and this crate carries its commands out. It is not a
//! client of one provider (that is `loop-llm`), and it reads no configuration files (that is `loop-domain`).
//!
//! # A runner
//!
//! A [`Runner`] is a spec, tools and models put together, and an [`Agent`] is a short way to one. This runner turns a
//! work item into a document, with the offline stub, which needs no network:
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
//! All four leave the same journal for the same events, and every decision is durable before anything follows from it.
//!
//! - **Awaited**: [`Runner::run`] returns the outcome. Dropping its future ends the run.
//! - **By a handle**: [`RunRequest::start`](run::RunRequest::start) lets the run continue by itself.
//!   [`Handle`](run::Handle) has `events`, `stop` and `wait`.
//! - **As a stream**: [`RunRequest::stream`](run::RunRequest::stream) continues only while it is polled, one recorded
//!   entry at a time. Not polling it is a pause.
//! - **From a queue**: [`Runner::run_all`] and [`Runner::queue`] run many items, at most a given number at a time.
//!
//! [`Runner::with_observer`] adds observers to all of them. An [`Observer`](observe::Observer) can neither slow nor
//! break a run, because it has a thread of its own and a bounded queue. When it falls behind, it misses pieces of replies
//! first, and receives the number of what it missed ([`RunEvent::Lost`](observe::RunEvent::Lost)). A panic in it is
//! counted ([`Observed`](observe::Observed)).
//!
//! # The modules
//!
//! | module | what you find there |
//! |---|---|
//! | [`agent`] | the builder of an agent, its requests, streams and handles, its errors |
//! | [`tools`] | declarations with effects, functions as tools, the trait [`Tool`](tools::Tool), MCP servers (feature `mcp`) |
//! | [`models`] | models by name, the trait [`ChatModel`](models::ChatModel), requests and replies, prices |
//! | [`spec`] | the configuration of a run: sections, limits, gate, taint, repeats, prompts |
//! | [`run`] | a run under way: requests, handles, streams, stops, forks, validators |
//! | [`people`] | requests to people, their answers and their instructions |
//! | [`journal`] | the crate `loop-journal`: where runs are recorded, from where they are resumed and replayed |
//! | [`observe`] | the events of a run, and observers |
//! | [`report`] | the outcome as JSON, and a stop in sentences |
//! | [`save`] | where outcomes are saved: a file or a URL |
//! | [`budget`] | budgets that runs share: of a day, of a month, of a batch |
//! | [`hooks`] | messages about a run to other programs: it waits for a person, it has ended |
//! | [`again`] | renders the prompts of a recorded run again, and repeats its reads |
//! | [`engine`] | runs on a durable execution engine such as Restate |

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

/// Tools: declarations with their effects, the trait, the registry, results, and how often each tool was used.
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

/// Models: by name or of your own, over HTTP or without a network, with their prices.
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

/// The configuration of a run: its spec, limits, sections, gate and prompts.
pub mod spec {
    pub use loop_core::RunSpec;
    pub use loop_core::spec::{
        CostLimit, ErrorStyle, Execution, GateSettings, Limits, Repeats, SectionSpec, TaintRule,
    };
    pub use loop_core::types::PicoUsd;
    pub use loop_prompts::Prompts;
}

/// A run under way: requests, handles, streams, stops, verdicts and forks.
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

/// The events of a run, and observers that receive them, on threads of their own or on the run's task.
pub mod observe {
    pub use crate::watch::events::{CallNews, Events, ReplyPart, RunEvent};
    pub use crate::watch::observer::{Observed, Observer};
    pub use crate::watch::steps::{Progress, Step, StepError, steps};
    pub use crate::watch::trace::TraceSampler;
}
