//! Events: what happened, in the past tense. The journal is a list of them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::Reply;
use crate::run::budget::Reserve;
use crate::run::check::CheckResult;
use crate::run::parent::Parent;
use crate::types::{
    Approver, Arguments, ChildUse, CommandKey, Digest, Millis, ModelFailure, Observation, PicoUsd, RunId,
    SubCallUse, Taint, Tier, WorkItem, is_default,
};

/// Something that happened, and when the driver learned of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since the run's start, never less than in the event before. The driver sets it. A fork counts from
    /// its parent's start.
    pub at: Millis,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Exhaustive by intent: a new event must break the build at every place that has to decide about it.
///
/// Large values are boxed or shared, because every event takes the space of the largest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The run began. Always the first event, and never another.
    Started(Box<Started>),
    /// A model call was granted and is about to be sent.
    CallStarted {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The granted tier.
        tier: Tier,
        /// Size of the rendered prompt, in bytes.
        prompt_bytes: u64,
        /// Bytes that the prompt shares with the main call before it on the same tier; 0 if none.
        shared_bytes: u64,
        /// The digest of the rendered prompt.
        prompt_hash: Digest,
        /// Maximum output tokens of the call.
        max_output_tokens: u64,
        /// What the call reserves until it settles.
        reserve: Reserve,
    },
    /// A call to a model was refused by [`Run::quote`](crate::Run::quote).
    CallRefused {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// Size of the rendered prompt, in bytes.
        prompt_bytes: u64,
        /// Bytes that the prompt shares with the main call before it on the same tier; 0 if none.
        shared_bytes: u64,
        /// The reason.
        refusal: Refusal,
    },
    /// A model's reply is complete.
    ModelReplied {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The reply.
        reply: Box<Reply>,
    },
    /// A model call failed, before or after its first byte.
    ModelFailed {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The failure.
        failure: Box<ModelFailure>,
    },
    /// A read is about to start, although the reply that requests it is still being received.
    EagerStarted {
        /// The key of the model call whose reply is being received.
        call: CommandKey,
        /// The try of the model call, from 1.
        call_attempt: u32,
        /// The action's key.
        key: CommandKey,
        /// The try of the action, from 1.
        attempt: u32,
        /// The tool's name as the model wrote it.
        name: Arc<str>,
        /// The arguments as the model wrote them.
        arguments: Arguments,
    },
    /// A tool call that changes something is about to start.
    ToolStarted {
        /// The action's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
    },
    /// A tool call ended: with a result, a failure, a timeout or a cancellation.
    ToolFinished {
        /// The action's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The result.
        observation: Arc<Observation>,
    },
    /// A run that was called as a tool waits for people, and its driver left it. It continues when the caller is resumed.
    RunWaits {
        /// The action's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// What it has used so far.
        used: Box<ChildUse>,
    },
    /// A person answered about an action.
    PersonAnswered {
        /// The action's key.
        key: CommandKey,
        /// The answer.
        answer: PersonAnswer,
        /// The [`binding`](crate::Run::binding) that the person saw. It must be the action's own. `None`: not
        /// checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        binding: Option<Digest>,
    },
    /// A person whom the driver knows approved an action. The action runs once `gate.approvals` people have approved
    /// it.
    ApprovedBy {
        /// The action's key.
        key: CommandKey,
        /// Who approved it.
        by: Approver,
        /// The [`binding`](crate::Run::binding) that the person saw. It must be the action's own. `None`: not
        /// checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        binding: Option<Digest>,
    },
    /// A person gave an instruction. The next pass's prompt holds it.
    Instruction {
        /// The instruction. An empty one is rejected.
        text: Arc<str>,
    },
    /// A person or the calling program requested a stop.
    StopRequested {
        /// At the next gate, or now.
        how: StopMode,
    },
    /// A stop at the next gate was withdrawn before it took effect.
    StopWithdrawn,
    /// The instant of [`Run::deadline`](crate::Run::deadline) has passed.
    DeadlineReached,
    /// A driver took the run over after an earlier driver ended.
    Resumed {
        /// Milliseconds without a driver. They do not count against the wall clock.
        away_ms: u64,
        /// The program of the new driver. `None`: that of the driver before it, or it is not stated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Box<Program>>,
    },
    /// A check that asks a model is about to start.
    CheckStarted {
        /// The check's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
    },
    /// A document or an output was checked.
    Checked {
        /// The check's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The result.
        result: CheckResult,
        /// What the model call of a checker used. `None`: none was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<Box<SubCallUse>>,
    },
    /// A try to save the outcome ended.
    SaveFinished {
        /// The try, from 1.
        attempt: u32,
        /// Where the outcome was saved, or why it was not.
        result: SaveResult,
    },
}

impl EventKind {
    /// The event's name in the journal, for example `tool_finished`.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// The data of the first event: the run's input, and the digests of its spec, prompts and tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Started {
    /// The run's id.
    pub run: RunId,
    /// Wall-clock time of the start, in milliseconds since 1970 (UTC). Data only.
    pub unix_ms: u64,
    /// The offset from UTC that the run reads days and times by, in minutes, from `gate.utc_offset`. It is stored so that a
    /// replay on another machine reads `yesterday` as the same day.
    #[serde(default, skip_serializing_if = "is_default")]
    pub utc_offset: i32,
    /// A random text that marks the contract block and the evidence fences of this run.
    pub nonce: Arc<str>,
    /// The work item.
    pub item: WorkItem,
    /// The digest of the [`RunSpec`](crate::RunSpec).
    pub spec: Digest,
    /// The digest of limits and gate settings.
    pub policy: Digest,
    /// The digest of the prompt templates.
    pub prompts: Digest,
    /// The digest of the tool manifest.
    pub tools: Digest,
    /// The messages that a conversation continues. `None`: it begins with the work item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// The program that began the run, and the settings that replaced the domain's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provenance: Provenance,
    /// The run whose work this one continues: of a fork, a retry and a salvaged run. `None`: it began with its work
    /// item alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<Parent>>,
}

/// The program that began a run, and the settings that the caller gave instead of the domain's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// The program's name and version, for example `loopgate 0.1.0`. Empty: not stated.
    pub program: Arc<str>,
    /// The [revision of its decisions](crate::run::DECISIONS). 0: not stated.
    #[serde(skip_serializing_if = "is_default")]
    pub decisions: u32,
    /// The settings, in the order given. Empty if there are none. None holds a credential.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<Overridden>,
    /// The version of the price table that came with the program. Empty: not stated.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub prices: Arc<str>,
    /// The call by which another run began it, as a tool of its own. `None`: no run did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_by: Option<Box<CalledBy>>,
    /// The durable engine that drives the run, for example `restate`. Nothing else may continue it. Empty: none does.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub engine: Arc<str>,
}

/// The call by which a run began another one, and what the called run receives from its caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CalledBy {
    /// The run that called.
    pub run: RunId,
    /// The run at the top of the tree.
    pub root: RunId,
    /// The key of the action.
    pub key: CommandKey,
    /// The caller's taint at the call. The run begins with it.
    pub taint: Taint,
    /// The root's work item. It gives authority in place of the run's own item, which a model wrote.
    pub item: WorkItem,
    /// What people wrote in addition to that item, as far as the caller knew it. It gives authority as well.
    pub user_texts: Vec<Arc<str>>,
}

/// A program that drives runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Its name and version, for example `loopgate 0.1.0`. Empty: not stated.
    pub name: Arc<str>,
    /// The [revision of its decisions](crate::run::DECISIONS). 0: not stated.
    pub decisions: u32,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "a program that does not name itself" } else { &*self.name };
        write!(f, "{name} (decisions {})", self.decisions)
    }
}

impl Program {
    /// The program that drove a run last, by the events of its journal.
    pub fn last_of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Self {
        events.into_iter().fold(Self::default(), |last, event| match &event.kind {
            EventKind::Started(started) => {
                let Provenance { program, decisions, .. } = &started.provenance;
                Self { name: Arc::clone(program), decisions: *decisions }
            }
            EventKind::Resumed { by: Some(by), .. } => (**by).clone(),
            _ => last,
        })
    }
}

/// A setting that the caller gave instead of the domain's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Overridden {
    /// Its dotted path, for example `limits.passes`, or `profile`.
    pub setting: Arc<str>,
    /// The value as it was given.
    pub value: Arc<str>,
}

/// The messages that a run continues. It answers the last of them. The core reads only the fields here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct History {
    /// How many messages there are, each tool result counted as one.
    pub messages: u32,
    /// How many of them `limits.messages` counts. `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<u32>,
    /// Bytes of everything in them that a model reads.
    pub bytes: u64,
    /// The messages, in the driver's own form. Opaque to the core.
    pub json: Arc<str>,
    /// The taint of a run that reads them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub taint: Taint,
    /// Fingerprints of calls in them whose effect is in doubt.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub doubts: BTreeSet<Digest>,
    /// The arguments of the tool calls in them, each once. A result that repeats them is an echo, not a
    /// source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested: Vec<Arguments>,
    /// What the user wrote in them: messages, instructions, and answers to questions. Nothing that a model, a tool or the
    /// loop worded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_texts: Vec<Arc<str>>,
}

/// Why the core refuses a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The remaining cost budget does not cover it.
    Cost,
    /// The remaining token budget does not cover it.
    Tokens,
    /// `limits.model_calls` is used up.
    ModelCalls,
    /// The prompt does not fit into the model's context.
    Context,
    /// A cost limit is set, and the price of the model is not known.
    UnknownPrice,
    /// The budget that the run shares with other runs does not cover it. If the run itself would grant the call, this
    /// refusal lowers what the run may use of the shared budget from now on.
    SharedBudget {
        /// The amount that the shared budget leaves this run, in pico-dollars.
        left: PicoUsd,
    },
    /// The run does not command such a call.
    NotCommanded,
}

impl Refusal {
    /// The refusal's name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The answer of a person about an action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PersonAnswer {
    /// The action may run, once.
    Approved,
    /// The action may not run.
    Denied {
        /// The reason, for the model. It may be empty.
        why: Arc<str>,
    },
    /// The answer to a question.
    Answered {
        /// The answer, for the model.
        text: Arc<str>,
    },
}

/// How a stop is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// Nothing new is started. The run stops when everything in flight has settled.
    AtGate,
    /// Everything in flight is cancelled.
    Now,
}

/// How a try to save ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum SaveResult {
    /// The outcome is saved.
    Saved {
        /// Where it was saved, for people: a path or an address.
        location: Arc<str>,
    },
    /// The outcome is not saved.
    Failed {
        /// One line for people.
        message: Arc<str>,
        /// When to try again, since the start of the run. `None`: it is not tried again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Millis>,
    },
}
