//! Events: facts from the world, in the past tense. The journal is a list of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::failure::ModelFailure;
use crate::ids::{CommandKey, Digest, Millis, RunId};
use crate::item::WorkItem;
use crate::money::{PicoUsd, Usage};
use crate::observation::Observation;
use crate::policy::Legs;
use crate::spec::{Tier, is_default};

/// One fact and when it became known.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since the run's start; never less than the event before.
    pub at: Millis,
    /// What happened.
    pub fact: Fact,
}

/// What happened. Exhaustive by intent: a new fact must show every place that has to decide about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fact {
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
    /// A person told the run something; it stands in the next pass's prompt.
    Told {
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

impl Fact {
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
            Self::Told { .. } => "told",
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
    pub legs: Legs,
    /// The signatures of the calls in them that may or may not have happened.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub doubts: BTreeSet<Digest>,
    /// The parameters of the tool calls in them, each a JSON text: what a tool returns after it was asked with it is an
    /// echo, whichever turn that was in (K3).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub asked: BTreeSet<Arc<str>>,
}

/// What a call is held to cost until its real usage is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reserve {
    /// Input tokens, estimated.
    pub input_tokens: u64,
    /// Output tokens, at the most.
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
    /// No such call is wished.
    NotWished,
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
            Self::NotWished => "not_wished",
        }
    }
}

/// A model's complete reply, as far as the core reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reply {
    /// The visible text.
    pub text: Arc<str>,
    /// The tools that it calls natively, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<NativeCall>,
    /// How many tools more it calls: calls beyond [`MAX_ASKED_CALLS`](crate::MAX_ASKED_CALLS) are counted and not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread_calls: u32,
    /// What it reasoned, where a provider wants that back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Arc<str>>,
    /// Why the model ended.
    pub finish: FinishReason,
    /// Tokens as reported, or `None`: then they are estimated from what was received.
    pub usage: Option<Usage>,
    /// What was received, by which a call without reported usage is estimated.
    #[serde(default = "Received::ended", skip_serializing_if = "Received::is_ended")]
    pub received: Received,
    /// The cost where the provider itself reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<PicoUsd>,
    /// The provider's whole turn where it must go back unchanged; opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Arc<str>>,
    /// The model that really served, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<Arc<str>>,
    /// What was left out of the request or changed in it, and what was not as it should be in the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
}

impl Reply {
    /// A text that ended by itself, of which nothing else is told.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            calls: Vec::new(),
            unread_calls: 0,
            reasoning: None,
            finish: FinishReason::EndTurn,
            usage: None,
            received: Received::ended(),
            cost: None,
            raw: None,
            served_model: None,
            warnings: Vec::new(),
        }
    }

    /// Bytes of text, reasoning and arguments that are known to have been received.
    pub fn known_bytes(&self) -> u64 {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len());
        let reasoning = self.reasoning.as_ref().map_or(0, |reasoning| reasoning.len());
        let here = self.text.len() + reasoning + calls.sum::<usize>();
        self.received.bytes.max(here as u64)
    }
}

/// A tool that a reply calls natively (S1-26).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NativeCall {
    /// Its name within the reply; its result names it.
    pub id: Arc<str>,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// Its arguments: the text as it came.
    pub arguments: Arc<str>,
}

/// What came of validating an output (S2-4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Validation {
    /// It is what was wanted.
    Valid,
    /// It is not, and the model may mend it.
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

/// Why a model ended its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    EndTurn,
    /// It wants tools run.
    ToolUse,
    /// It was cut at the output limit.
    MaxTokens,
    /// Our own cap cut it, since the provider wrote on far beyond the output limit.
    Capped,
    /// It refused.
    Refusal,
    /// A content filter of the provider stopped it.
    Filtered,
    /// Anything else.
    Other,
}

/// What was received of a reply: what its cost is estimated from where the provider reports no usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Received {
    /// Bytes of text, reasoning and arguments, those that were dropped included; 0 where they were not counted.
    pub bytes: u64,
    /// How far the call came.
    pub extent: CallExtent,
    /// Tokens that the provider reported before the end of the reply. They are not those of the whole, and the estimate is
    /// never below them; zero where it reported none.
    #[serde(skip_serializing_if = "is_default")]
    pub reported: Usage,
}

impl Received {
    /// A reply that the provider ended, whose bytes were not counted apart from what is kept of it.
    pub fn ended() -> Self {
        Self { extent: CallExtent::Ended, ..Self::default() }
    }

    fn is_ended(&self) -> bool {
        *self == Self::ended()
    }
}

/// How far a call came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallExtent {
    /// No model replied: an error status, or a body that is not one of the protocol.
    NoReply,
    /// The provider ended the reply: it generated what was received, and no more.
    Ended,
    /// The provider may have worked on: a timeout, a lost connection, a stream that was cut on this side.
    #[default]
    Open,
}

impl FinishReason {
    /// Whether the end of the reply is missing, because of a limit.
    pub fn is_cut(self) -> bool {
        match self {
            Self::MaxTokens | Self::Capped => true,
            Self::EndTurn | Self::ToolUse | Self::Refusal | Self::Filtered | Self::Other => false,
        }
    }
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
