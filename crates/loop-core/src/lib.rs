//! The pure decision gate of bounded AI agent loops: events go in, commands come out.
//!
//! A run analyses a work item with a model, decides what it still needs, fetches that with tools, and refines its
//! answer, until its confidence is high or a limit is reached. This crate contains every decision of that loop and
//! nothing else.
//!
//! # What it does not do
//!
//! It has no clock, no randomness, no files, no network, no threads, no `async` and no prompt text. It calls no model
//! and runs no tool. Its driver does that, and reports what happened. The same events give the same state,
//! the same decisions and the same commands: on the first run, after a crash, in a test, on another machine.
//!
//! # The nouns
//!
//! - A [`Run`] is one work item's way through the loop: a plain value that can be cloned, compared and stored.
//! - An [`Event`] is something that happened, and when. [`Run::apply`] is the only way to change a run. An event that
//!   cannot follow is [`Rejected`].
//! - A [`Command`] is what the driver must do, read from the state by [`Run::commands`]. [`Run::deadline`] says when
//!   the driver must report that time has passed.
//! - A [`Note`] is a decision made while an event was applied, with its reason, as data. The journal keeps both.
//! - The [`Outcome`] is the document, the evidence, the stop reason with all conditions that were true, and the cost.
//!
//! # A complete run
//!
//! ```
//! use loop_core::reply::Reply;
//! use loop_core::run::{CallModel, PromptSize, Provenance, RunTool};
//! use loop_core::types::{Digest, Observation, RunId, Status};
//! use loop_core::{Command, Event, EventKind, Facts, Quote, Run, RunSpec, StopReason};
//!
//! let spec: RunSpec = serde_json::from_str(r##"{
//!     "version": 2, "domain": "helpdesk",
//!     "protocol": {"type": "document", "sections": [{"id": "situation", "heading": "Situation"}]},
//!     "tools": [{"name": "fetch_device", "description": "Device details", "args": {"type": "object"},
//!                "effect": "read", "timeout_ms": 12000, "attempts": 2}],
//!     "selection": {"enabled": false},
//!     "models": {"base": {"provider": "fake", "model": "fake", "price": {"input": 1, "output": 4},
//!                "context_tokens": 100000, "max_output_tokens": 4096, "timeout_ms": 60000}}}"##)?;
//! let item = serde_json::from_str(r#"{"id": "T-1", "kind": "ticket", "title": "Disk full",
//!     "full": "web-1 has no space left.", "compact": "web-1 full", "scope": {}}"#)?;
//! let none = Digest::of("none", b"");
//! let provenance = Provenance::default();
//! let facts = Facts { unix_ms: 0, nonce: "k3j9".into(), prompts: none, tools: none, history: None, provenance };
//! let (mut run, _first, _notes) = Run::start(RunId::new("r1"), spec.into(), item, facts);
//!
//! let ask = r#"[{"action_id": "a", "action_type": "fetch_device", "priority": "required"}]"#;
//! while let Some(command) = run.commands().into_iter().next() {
//!     let kind = match command {
//!         Command::CallModel(CallModel { key, attempt, granted: None, .. }) => {
//!             let size = PromptSize { bytes: 2_000, shared_bytes: 0 };
//!             let Quote { tier, max_output_tokens, reserve } = run.quote(&key, size).expect("it fits");
//!             EventKind::CallStarted { key, attempt, tier, prompt_bytes: size.bytes, shared_bytes: 0,
//!                                 prompt_hash: none, max_output_tokens, reserve }
//!         }
//!         Command::CallModel(CallModel { key, attempt, .. }) => {
//!             let (sure, actions) = if run.evidence().is_empty() { ("low", ask) } else { ("high", "[]") };
//!             let text = format!("## Situation\nFull.\n```json\n\
//!                 {{\"analysis_confidence\": \"{sure}\", \"ai_actions\": {actions}}}\n```\n");
//!             let reply = Box::new(Reply::text(text));
//!             EventKind::ModelReplied { key, attempt, reply }
//!         }
//!         Command::RunTool(RunTool { key, attempt, .. }) => {
//!             let observation = Observation::new(Status::Ok, "found", "disk: 100 %", "{\"disk\": 100}");
//!             EventKind::ToolFinished { key, attempt, observation: observation.into() }
//!         }
//!         other => unreachable!("not in this run: {other:?}"),
//!     };
//!     run.apply(&Event { at: run.now().plus(1), kind })?;
//! }
//! let outcome = run.outcome().expect("nothing is commanded any more");
//! assert_eq!(outcome.stop.reason(), StopReason::Confident);
//! assert_eq!((outcome.totals.passes, outcome.totals.tool_calls), (2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The modules
//!
//! In reading order: a module uses only the modules before it, and `cargo xtask layers` checks that. The first page of
//! each states what the module decides, from what, and what it does not read.
//!
//! | module | what you find there |
//! |---|---|
//! | [`types`] | shared types: ids, money, work items, results, evidence |
//! | [`secrets`] | which texts hold a secret, and how it is masked |
//! | [`spec`] | configuration: protocol, tools, models, limits, settings of the gate |
//! | [`reply`] | parses a model's reply into a proposal, and merges it into the document |
//! | [`policy`] | what a call may do |
//! | [`repeats`] | whether a call is a repeat |
//! | [`gate`] | the verdict on each call, and whether the run continues: breakers, certificates |
//! | [`run`] | state, phases, events, commands, notes, quotes, the outcome |
//! | [`invariants`] | whether recorded decisions are sound, for tests and audits |
//!
//! # Where to read on
//!
//! `docs/how-to/drive-the-core.md` shows step by step how to drive a run without `loop-runtime`; `examples/driving.rs`
//! is its code. The crate `loop-runtime` is such a driver, with tokio and a durable journal.

pub mod types;

pub mod secrets;

pub mod spec;

pub mod reply;

pub mod policy;
pub mod repeats;

pub mod gate;

pub mod run;

pub mod invariants;

pub use gate::{Certificate, StopReason, Verdict};
pub use run::{Command, Event, EventKind, Facts, Note, Outcome, Quote, Rejected, Run};
pub use spec::RunSpec;
pub use types::{Evidence, WorkItem};
