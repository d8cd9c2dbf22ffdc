//! Events: facts from the world, in the past tense. The journal is a list of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::Reply;
use crate::types::{
    Arguments, CommandKey, Digest, Millis, ModelFailure, Observation, PicoUsd, RunId, Taint, Tier, WorkItem,
    is_default,
};

/// One fact and when it became known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since the run's start; never less than the event before.
    pub at: Millis,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Exhaustive by intent: a new fact must show every place that has to decide about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The run began. Always the first event, and never another.
    Started(Box<Started>),
    /// A call to a model was granted and is about to be sent.
    CallStarted {
        /// Which call.
        key: CommandKey,
        /// Which try of it, from 1.
        attempt: u32,
        /// The granted tier.
        tier: Tier,
        /// Bytes of the rendered prompt.
        prompt_bytes: u64,
        /// Bytes that it shares with the call before it on the same tier.
        shared_bytes: u64,
        /// Names the rendered prompt.
        prompt_hash: Digest,
        /// The most output tokens that it may write.
        max_output_tokens: u64,
        /// What it is held to cost until it settles.
        reserve: Reserve,
    },
    /// A call to a model was refused by [`Run::quote`](crate::Run::quote).
    CallRefused {
        /// Which call.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
        /// Bytes of the rendered prompt.
        prompt_bytes: u64,
        /// Bytes that it shares with the call before it on the same tier.
        shared_bytes: u64,
        /// Why.
        refusal: Refusal,
    },
    /// A model's reply is complete.
    ModelReplied {
        /// Which call.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
        /// What it said.
        reply: Reply,
    },
    /// A model's call failed, before or after its first byte.
    ModelFailed {
        /// Which call.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
        /// How it failed.
        failure: ModelFailure,
    },
    /// A tool that changes the world is about to be started.
    ToolStarted {
        /// Which action.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
    },
    /// A tool has ended, one way or another.
    ToolFinished {
        /// Which action.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
        /// What came back.
        observation: Observation,
    },
    /// A person decided about an action.
    PersonAnswered {
        /// Which action.
        key: CommandKey,
        /// What they said.
        answer: PersonAnswer,
        /// The [`binding`](crate::Run::binding) of the action as they saw it; where it is given, it must be the
        /// action's own (K8).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        binding: Option<Digest>,
    },
    /// An instruction of a person; it is in the next pass's prompt.
    Instruction {
        /// What.
        text: Arc<str>,
    },
    /// Someone asked for the end (S0-46).
    StopRequested {
        /// At the next gate, or now.
        how: StopMode,
    },
    /// A stop at the next gate was taken back before it took effect (S0-47).
    StopWithdrawn,
    /// The instant named by [`Run::deadline`](crate::Run::deadline) has come.
    DeadlineReached,
    /// The run is driven again after its driver was gone.
    Resumed {
        /// Milliseconds that passed without a driver; they do not count against the wall clock.
        away_ms: u64,
    },
    /// An output was validated.
    Validated {
        /// Which validation.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
        /// What came of it.
        result: Validation,
    },
    /// An attempt to save the outcome has ended.
    SaveFinished {
        /// Which try.
        attempt: u32,
        /// Where it went, or why it did not.
        result: SaveResult,
    },
}

impl EventKind {
    /// The fact's name as it is written, for example `tool_finished`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::CallStarted { .. } => "call_started",
            Self::CallRefused { .. } => "call_refused",
            Self::ModelReplied { .. } => "model_replied",
            Self::ModelFailed { .. } => "model_failed",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolFinished { .. } => "tool_finished",
            Self::PersonAnswered { .. } => "person_answered",
            Self::Instruction { .. } => "instruction",
            Self::StopRequested { .. } => "stop_requested",
            Self::StopWithdrawn => "stop_withdrawn",
            Self::DeadlineReached => "deadline_reached",
            Self::Resumed { .. } => "resumed",
            Self::Validated { .. } => "validated",
            Self::SaveFinished { .. } => "save_finished",
        }
    }
}

/// The first event's data: the run's input, and the hashes of what it was run with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Started {
    /// The run's name.
    pub run: RunId,
    /// Wall time of the start in milliseconds since 1970, as data.
    pub unix_ms: u64,
    /// A random text that marks the contract block and the evidence fences of this run.
    pub nonce: Arc<str>,
    /// The work item.
    pub item: WorkItem,
    /// Names the [`RunSpec`](crate::RunSpec).
    pub spec: Digest,
    /// Names limits and gate settings.
    pub policy: Digest,
    /// Names the prompt templates.
    pub prompts: Digest,
    /// Names the tool manifest.
    pub tools: Digest,
    /// The messages that a conversation goes on from, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Which program began it, and which settings replaced the domain's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provenance: Provenance,
}

/// Which program began a run, and which settings the caller gave in place of the domain's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The program's name and version, for example `loopgate 0.1.0`; empty where the caller does not say.
    pub program: Arc<str>,
    /// The settings, in the order in which they were given. None holds a credential.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<Overridden>,
}

/// A setting that the caller gave in place of the domain's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Overridden {
    /// Its dotted key, for example `limits.passes`, or `profile`.
    pub setting: Arc<str>,
    /// The value as it was given.
    pub value: Arc<str>,
}

/// The messages before a run, the last of which it answers. Opaque: only their size is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct History {
    /// How many messages, results counted one by one.
    pub messages: u32,
    /// How many of them the limit of messages counts, where not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<u32>,
    /// Bytes of everything in them that a model reads.
    pub bytes: u64,
    /// The messages, in the form of whoever drives the run.
    pub json: Arc<str>,
    /// What stands in them that marks a run which reads it (K2).
    #[serde(default, skip_serializing_if = "is_default")]
    pub taint: Taint,
    /// The signatures of the calls in them that may or may not have happened.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub doubts: BTreeSet<Digest>,
    /// The arguments of the tool calls in them, each once: what a tool returns after it was asked with it is an
    /// echo, whichever turn that was in (K3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested: Vec<Arguments>,
}

/// What a call is held to cost until its real usage is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reserve {
    /// Input tokens, estimated.
    pub input_tokens: u64,
    /// Output tokens, at most.
    pub output_tokens: u64,
    /// Money, or `None` while the price is unknown.
    pub cost: Option<PicoUsd>,
}

/// Why a call may not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The money left is not enough.
    Cost,
    /// The tokens left are not enough.
    Tokens,
    /// No model call is left for it.
    ModelCalls,
    /// It does not fit into the model's context.
    Context,
    /// A cost limit is set and the price is not known.
    UnknownPrice,
    /// No such call is commanded.
    NotCommanded,
}

impl Refusal {
    /// The refusal as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::ModelCalls => "model_calls",
            Self::Context => "context",
            Self::UnknownPrice => "unknown_price",
            Self::NotCommanded => "not_commanded",
        }
    }
}

/// What came of validating an output (S2-4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Validation {
    /// It is what was wanted.
    Valid,
    /// It is not, and the model may repair it.
    Invalid {
        /// `schema`, or the name of the validator.
        by: Arc<str>,
        /// What is wrong, for the model.
        message: Arc<str>,
    },
    /// Nobody can tell: the validator itself failed.
    Broken {
        /// The validator.
        by: Arc<str>,
        /// How.
        message: Arc<str>,
    },
}

/// What a person said to an action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PersonAnswer {
    /// It may run, once.
    Approved,
    /// It may not.
    Denied {
        /// Why, for the model.
        why: Arc<str>,
    },
    /// The answer to a question (S4-37).
    Answered {
        /// The answer, for the model.
        text: Arc<str>,
    },
}

/// How a stop was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// Nothing new is started; it ends when what is in flight has settled.
    AtGate,
    /// What is in flight is cut off.
    Now,
}

/// How an attempt to save ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum SaveResult {
    /// It is saved.
    Saved {
        /// Where.
        location: Arc<str>,
    },
    /// It is not.
    Failed {
        /// One line for people.
        message: Arc<str>,
        /// When to try again, where that makes sense.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Millis>,
    },
}
