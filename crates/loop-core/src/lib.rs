//! The pure decision gate of a self-terminating AI loop: facts go in, wishes come out.
//!
//! A run analyses a work item with a model, decides what it still needs, fetches that with tools, and refines its
//! answer, until it is sure or a limit is reached. This crate holds every decision of that loop and nothing else.
//!
//! # What it does not do
//!
//! It has no clock, no randomness, no files, no network, no threads, no `async` and no prompt text. It calls no model
//! and runs no tool. Whoever drives it does that, and tells it what happened. The same events give the same state,
//! the same decisions and the same wishes: on the first run, after a crash, in a test, on another machine.
//!
//! # The nouns
//!
//! - A [`Run`] is one work item's way through the loop: a plain value that can be cloned, compared and stored.
//! - An [`Event`] is a fact from the world. [`Run::apply`] is the only way in; what cannot follow is [`Rejected`].
//! - A [`Command`] is a wish, read from the state by [`Run::commands`]. [`Run::deadline`] says when to come back.
//! - A [`Note`] is what was decided while an event was applied, and why, as data. The journal keeps both.
//! - The [`Outcome`] is the document, the evidence, the reason of the stop with all that was true, and the bill.
//!
//! # A complete run
//!
//! ```
//! use loop_core::*;
//!
//! let spec: RunSpec = serde_json::from_str(r##"{
//!     "version": 1, "domain": "helpdesk",
//!     "protocol": {"type": "document", "sections": [{"id": "situation", "heading": "Situation"}]},
//!     "tools": [{"name": "fetch_device", "description": "Device details", "args": {"type": "object"},
//!                "effect": "read", "timeout_ms": 12000, "attempts": 2}],
//!     "picking": {"enabled": false},
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
//! while let Some(wish) = run.commands().into_iter().next() {
//!     let fact = match wish {
//!         Command::CallModel(CallModel { key, attempt, granted: None, .. }) => {
//!             let size = PromptSize { bytes: 2_000, shared_bytes: 0 };
//!             let Quote { tier, max_output_tokens, reserve } = run.quote(&key, size).expect("it fits");
//!             Fact::CallStarted { key, attempt, tier, prompt_bytes: size.bytes, shared_bytes: 0,
//!                                 prompt_hash: none, max_output_tokens, reserve }
//!         }
//!         Command::CallModel(CallModel { key, attempt, .. }) => {
//!             let (sure, actions) = if run.evidence().is_empty() { ("low", ask) } else { ("high", "[]") };
//!             let text = format!("## Situation\nFull.\n```json\n\
//!                 {{\"analysis_confidence\": \"{sure}\", \"ai_actions\": {actions}}}\n```\n");
//!             let reply = Reply::text(text);
//!             Fact::ModelReplied { key, attempt, reply }
//!         }
//!         Command::RunTool(RunTool { key, attempt, .. }) => {
//!             let observation = Observation::new(Status::Ok, "found", "disk: 100 %", "{\"disk\": 100}");
//!             Fact::ToolFinished { key, attempt, observation }
//!         }
//!         other => unreachable!("not in this run: {other:?}"),
//!     };
//!     run.apply(&Event { at: run.now().plus(1), fact })?;
//! }
//! let outcome = run.outcome().expect("nothing is wished any more");
//! assert_eq!(outcome.stop.reason(), StopReason::Confident);
//! assert_eq!((outcome.totals.passes, outcome.totals.tool_calls), (2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to read on
//!
//! `docs/driving.md` tells step by step how to drive a run without our runtime, with `examples/driving.rs` beside it.
//! The crate `loop-runtime` is such a driver, with tokio and a durable journal.

mod action;
mod args;
mod canonical;
mod citation;
mod command;
mod contract;
mod cost_limit;
mod data;
mod document;
mod event;
mod failure;
mod gate;
mod ids;
mod item;
mod judge;
mod layout;
mod ledger;
mod limits;
mod members;
mod money;
mod near;
mod note;
mod observation;
mod origin;
mod outcome;
pub mod policy;
mod policy_spec;
mod proposal;
mod protocol;
mod protocol_spec;
pub mod repeats;
mod reply;
mod run;
mod spec;
mod steps;
mod stop;
mod stop_names;
mod stop_own;
mod trouble;
mod unseen;
mod verdict;

pub use action::{Action, JudgedAction, Priority};
pub use args::{ArgSpec, ArgType, Misfit};
pub use canonical::{canonical, digest, digest_text};
pub use citation::citations;
pub use command::{CallModel, Command, RunTool, SubCallBudget, Validate};
pub use cost_limit::{CostLimit, LimitWithoutPrice, NotUsd};
pub use data::Data;
pub use document::{BadCitation, Document, Merge, MergeContext, Section, SectionChange};
pub use event::{
    CallExtent, Event, Fact, FinishReason, History, NativeCall, Overridden, PersonAnswer, Provenance,
    Received, Refusal, Reply, Reserve, SaveResult, Started, StopMode, Validation,
};
pub use failure::{FailureKind, ModelFailure};
pub use ids::{CommandKey, Digest, EvidenceId, InvalidDigest, InvalidKey, Millis, RunId, Slot};
pub use item::{Scope, WorkItem};
pub use limits::{CostMode, Limits, MAX_ASKED_CALLS};
pub use money::{PicoUsd, Price, PriceAbove, Rates, Spend, Usage};
pub use near::edits;
pub use note::{Decision, Note, PickedBy};
pub use observation::{Observation, Status, SubCallUse};
pub use origin::ResultOrigin;
pub use outcome::{
    Effects, Evidence, Outcome, Output, PassSummary, Rejection, Saved, ServedCall, StoppedIn, Totals,
};
pub use policy_spec::{
    Breakers, OnDenied, OnDuplicate, OnInvalid, OnToolError, RepeatScope, Repeats, Resolve, Taint, ThreeTier,
    ToolPolicy, ToolRepeats,
};
pub use proposal::{Ending, Proposal, Refused};
pub use protocol_spec::{
    Cite, ConversationSpec, DocumentSpec, ErrorStyle, Execution, NonceMode, OutputSpec, ProtocolSpec,
    SectionSpec,
};
pub use reply::{LiveText, Oddity, PREAMBLE, ProposedSection};
pub use run::{
    AnswerFault, Ask, Asked, Attempt, AttemptState, Batch, Call, Cut, Facts, PassRecord, Phase, Poll,
    PromptSize, Quote, Rejected, Run, StartedCall, State, Told, Work,
};
pub use spec::{
    DefaultCall, Effect, GateSettings, ModelSpec, Models, Picking, RunSpec, SPEC_VERSION, SpecNames, Stale,
    Tier, ToolSpec,
};
pub use stop::{
    Certificate, Change, Condition, Confidence, Measure, StopClass, StopReason, TierCause, TierChange,
    Written,
};
pub use stop_own::{InvalidReason, OwnReason, ReasonName};
pub use unseen::{is_blank, is_unseen};
pub use verdict::{Breaker, DeniedBy, Limit, RepeatRule, Verdict};
