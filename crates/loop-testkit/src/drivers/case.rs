//! A case of the driver suite as data: a setup, the behaviour of models, tools and people, and how the run ends.

use loop_core::run::PersonAnswer;
use loop_core::types::{Digest, FailureKind};
use loop_core::{EventKind, StopReason};

use crate::{DraftReply, Setup};

/// A run that every driver has to drive in the same way.
#[derive(Clone, Debug)]
pub struct DriverCase {
    /// A name for messages.
    pub name: &'static str,
    /// The setup of the run. Its tools are those of [`TOOLS`](super::TOOLS).
    pub setup: Setup,
    /// The behaviour of the model, call by call, for calls of every purpose and tier.
    pub models: Vec<ModelPlay>,
    /// The behaviour of tools with a target, call by call. The last one of a list repeats.
    pub tools: Vec<(&'static str, Vec<ToolPlay>)>,
    /// The results of the validator, output by output: `None`, or what is wrong.
    pub validations: Vec<Option<&'static str>>,
    /// Answers that people give at once, by the key of the action. Other questions are not answered.
    pub answers: Vec<(&'static str, PersonAnswer)>,
    /// A stop or an instruction that the run receives. `None`: none.
    pub said: Option<TimedEvent>,
    /// The driver stops once, while the call of this target is in flight, and another driver continues. `None`: it does
    /// not stop.
    pub dies: Option<&'static str>,
    /// Why the run ends.
    pub ends: StopReason,
}

/// The behaviour of a model for one call.
#[derive(Clone, Debug)]
pub struct ModelPlay {
    /// Milliseconds until the call ends.
    pub after_ms: u64,
    /// How the call ends.
    pub end: ModelEnd,
}

/// How a call to a model ends.
#[derive(Clone, Debug)]
pub enum ModelEnd {
    /// With this reply.
    Replies(Box<DraftReply>),
    /// Before the request is sent. It costs nothing.
    Fails {
        /// The kind of failure.
        kind: FailureKind,
        /// Milliseconds after which the call may be made again. `None`: it may not.
        retry_ms: Option<u64>,
    },
    /// After this part of the reply. The provider reports its usage. It can be retried after 500 ms.
    BreaksOff(Box<DraftReply>),
    /// Only when it is cancelled.
    Hangs,
}

/// The behaviour of a tool for one call.
#[derive(Clone, Debug)]
pub struct ToolPlay {
    /// Milliseconds until the call ends.
    pub after_ms: u64,
    /// How the call ends.
    pub end: ToolEnd,
}

/// How a tool call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEnd {
    /// With this text.
    Finds(&'static str),
    /// With a failure that can be retried.
    FailsForNow,
    /// With a permanent failure.
    Fails,
    /// Not yet: the tool is asked again after this many milliseconds.
    Pending(u64),
    /// With an unknown outcome of its effect.
    InDoubt,
    /// Only when it is cancelled.
    Hangs,
}

/// A stop or an instruction that a run receives.
#[derive(Clone, Debug)]
pub struct TimedEvent {
    /// The target of a call, which must be in flight then.
    pub during: &'static str,
    /// Milliseconds after the start of the call.
    pub after_ms: u64,
    /// A stop or an instruction.
    pub kind: EventKind,
}

/// A model that replies after this many milliseconds.
pub fn replies(after_ms: u64, reply: DraftReply) -> ModelPlay {
    ModelPlay { after_ms, end: ModelEnd::Replies(reply.into()) }
}

/// A tool that returns this text after this many milliseconds.
pub fn finds(after_ms: u64, text: &'static str) -> ToolPlay {
    ToolPlay { after_ms, end: ToolEnd::Finds(text) }
}

impl DriverCase {
    /// A case without tools and people.
    pub fn new(
        name: &'static str,
        setup: Setup,
        models: impl IntoIterator<Item = ModelPlay>,
        ends: StopReason,
    ) -> Self {
        Self {
            name,
            setup,
            models: models.into_iter().collect(),
            tools: Vec::new(),
            validations: Vec::new(),
            answers: Vec::new(),
            said: None,
            dies: None,
            ends,
        }
    }

    /// Adds the behaviour of the tools with a target.
    pub fn tool(mut self, target: &'static str, plays: impl IntoIterator<Item = ToolPlay>) -> Self {
        self.tools.push((target, plays.into_iter().collect()));
        self
    }

    /// Answers for people.
    pub fn answer(mut self, key: &'static str, answer: PersonAnswer) -> Self {
        self.answers.push((key, answer));
        self
    }

    /// Adds a stop or an instruction during a call.
    pub fn say(self, during: &'static str, after_ms: u64, kind: EventKind) -> Self {
        Self { said: Some(TimedEvent { during, after_ms, kind }), ..self }
    }

    /// The behaviour of a tool in the `nth` call with a target, from 0.
    pub fn tool_play(&self, target: &str, nth: usize) -> ToolPlay {
        let plays = self.tools.iter().find(|(of, _)| *of == target).map(|(_, plays)| plays.as_slice());
        let play = plays.and_then(|plays| plays.get(nth).or(plays.last()));
        play.cloned().unwrap_or(ToolPlay { after_ms: 10, end: ToolEnd::Fails })
    }

    /// The result of the validator for the `nth` output, from 0.
    pub fn validation(&self, nth: usize) -> Option<&'static str> {
        self.validations.get(nth).copied().flatten()
    }
}

/// A person who approves what was shown.
pub const YES: PersonAnswer = PersonAnswer::Approved;

/// A placeholder for the digest of a prompt, since the drivers of tests do not render prompts.
pub(super) fn prompt_digest() -> Digest {
    crate::digest()
}
