//! The pure decision gate of a self-terminating AI loop: facts go in, wishes come out.

mod action;
mod args;
mod canonical;
mod citation;
mod command;
mod contract;
mod document;
mod event;
mod gate;
mod ids;
mod item;
mod judge;
mod layout;
mod ledger;
mod money;
mod near;
mod note;
mod observation;
mod outcome;
mod proposal;
mod protocol;
mod reply;
mod run;
mod spec;
mod stop;

pub use action::{Action, JudgedAction, Priority, Verdict};
pub use args::{ArgSpec, ArgType, Misfit};
pub use canonical::{canonical, digest, digest_text};
pub use citation::citations;
pub use command::{CallModel, Command, RunTool, SubCallBudget};
pub use document::{BadCitation, Document, Merge, MergeContext, Section, SectionChange};
pub use event::{
    Event, Fact, FinishReason, ModelFailure, PersonAnswer, Refusal, Reply, Reserve, SaveResult, Started,
    StopMode,
};
pub use ids::{CommandKey, Digest, EvidenceId, InvalidDigest, InvalidKey, Millis, RunId, Slot};
pub use item::{Scope, WorkItem};
pub use money::{PicoUsd, Price, Spend, Usage};
pub use note::{Decision, Note, PickedBy};
pub use observation::{Observation, Status, SubCallUse};
pub use outcome::{Evidence, Outcome, Saved, Totals};
pub use proposal::Proposal;
pub use reply::{LiveText, Oddity, PREAMBLE, ProposedSection};
pub use run::{
    Ask, Batch, Call, Facts, PassRecord, Phase, PromptSize, Quote, Rejected, Run, StartedCall, State, Work,
};
pub use spec::{
    DefaultCall, DocumentSpec, Effect, GateSettings, Limits, ModelSpec, Models, NonceMode, Picking,
    ProtocolSpec, RunSpec, SPEC_VERSION, SectionSpec, Tier, ToolSpec,
};
pub use stop::{Certificate, Change, Condition, Confidence, Measure, StopClass, StopReason};
