//! What happens outside of a run, as data: a setup, what models and tools do, what people say, and how the run ends.

use loop_core::run::PersonAnswer;
use loop_core::types::{Digest, FailureKind};
use loop_core::{EventKind, StopReason};

use crate::{DraftReply, Setup};

/// A run that every driver has to drive in the same way.
#[derive(Clone, Debug)]
pub struct DriverCase {
    /// A name for messages.
    pub name: &'static str,
    /// What it runs by. The tools are those of [`TOOLS`](super::TOOLS).
    pub setup: Setup,
    /// What the model does, call by call, whatever a call is for and on whichever tier.
    pub models: Vec<ModelPlay>,
    /// What tools do with a target, call by call. A list that is used up repeats its last play.
    pub tools: Vec<(&'static str, Vec<ToolPlay>)>,
    /// What the validator says of outputs, one after the other: nothing, or what is wrong.
    pub validations: Vec<Option<&'static str>>,
    /// What people answer at once when an action with this key is asked about. Other questions are not answered.
    pub answers: Vec<(&'static str, PersonAnswer)>,
    /// What is said to the run while it works. `None`: nothing.
    pub said: Option<TimedEvent>,
    /// The target with whose call in flight the driver ends, once. Another one continues. `None`: it does not end.
    pub dies: Option<&'static str>,
    /// Why the run ends.
    pub ends: StopReason,
}

/// What a model does with a call.
#[derive(Clone, Debug)]
pub struct ModelPlay {
    /// Milliseconds until it does.
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
    /// After this part of the reply, whose tokens the provider reports. It may be made again after 500 ms.
    BreaksOff(Box<DraftReply>),
    /// Not by itself.
    Hangs,
}

/// What a tool does with a call.
#[derive(Clone, Debug)]
pub struct ToolPlay {
    /// Milliseconds until it does.
    pub after_ms: u64,
    /// How the call ends.
    pub end: ToolEnd,
}

/// How a tool call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEnd {
    /// With this text.
    Finds(&'static str),
    /// With a failure that may pass.
    FailsForNow,
    /// With a failure for good.
    Fails,
    /// It has begun something, and is to be asked again after so many milliseconds.
    Pending(u64),
    /// It cannot know whether its effect happened.
    InDoubt,
    /// Not by itself.
    Hangs,
}

/// What is said to a run while it works.
#[derive(Clone, Debug)]
pub struct TimedEvent {
    /// The target whose call has to be in flight.
    pub during: &'static str,
    /// Milliseconds after the start of the call.
    pub after_ms: u64,
    /// A stop or an instruction.
    pub kind: EventKind,
}

/// A model that replies after so many milliseconds.
pub fn replies(after_ms: u64, reply: DraftReply) -> ModelPlay {
    ModelPlay { after_ms, end: ModelEnd::Replies(reply.into()) }
}

/// A tool that finds this after so many milliseconds.
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

    /// Says what the tools do with a target.
    pub fn tool(mut self, target: &'static str, plays: impl IntoIterator<Item = ToolPlay>) -> Self {
        self.tools.push((target, plays.into_iter().collect()));
        self
    }

    /// Answers for people.
    pub fn answer(mut self, key: &'static str, answer: PersonAnswer) -> Self {
        self.answers.push((key, answer));
        self
    }

    /// Says something while a call is in flight.
    pub fn say(self, during: &'static str, after_ms: u64, kind: EventKind) -> Self {
        Self { said: Some(TimedEvent { during, after_ms, kind }), ..self }
    }

    /// What a tool does with the call of a target that is made for the `nth` time, from 0.
    pub fn tool_play(&self, target: &str, nth: usize) -> ToolPlay {
        let plays = self.tools.iter().find(|(of, _)| *of == target).map(|(_, plays)| plays.as_slice());
        let play = plays.and_then(|plays| plays.get(nth).or(plays.last()));
        play.cloned().unwrap_or(ToolPlay { after_ms: 10, end: ToolEnd::Fails })
    }

    /// What the validator says of the `nth` output, from 0.
    pub fn validation(&self, nth: usize) -> Option<&'static str> {
        self.validations.get(nth).copied().flatten()
    }
}

/// A person who approves what is shown.
pub const YES: PersonAnswer = PersonAnswer::Approved;

/// In place of the digest of a prompt, which no driver of a test renders.
pub(super) fn prompt_digest() -> Digest {
    crate::digest()
}
