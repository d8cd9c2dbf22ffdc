//! Commands: commands of a run, in the imperative. They are read from the state, never queued.

use std::sync::Arc;

use crate::types::{Action, Arguments, CommandKey, Effect, Millis, Tier};

/// Something that the run wants done. Exhaustive by intent: a new command must break every driver's build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Call a model: render the prompt, ask [`Run::quote`](crate::Run::quote), announce, then send.
    CallModel(CallModel),
    /// Run a tool. One that changes the world is announced first.
    RunTool(RunTool),
    /// Ask a person whether an action may run.
    AskPerson {
        /// Which action.
        key: CommandKey,
        /// What it would do.
        action: Action,
        /// Silence until then is a no.
        deadline: Millis,
    },
    /// Validate an output.
    Validate(Validate),
    /// Cut off what is in flight and settle it.
    Abort {
        /// Which call or action.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
    },
    /// Save the outcome.
    Save {
        /// Which try.
        attempt: u32,
    },
}

/// A commanded call to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallModel {
    /// Which call.
    pub key: CommandKey,
    /// Which try of it, from 1.
    pub attempt: u32,
    /// The tier that it is commanded on.
    pub tier: Tier,
    /// The granted output tokens, once it is announced; only then may it be sent.
    pub granted: Option<u64>,
    /// Milliseconds until the driver must settle it as failed.
    pub timeout_ms: u64,
}

/// A commanded validation of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validate {
    /// Which validation.
    pub key: CommandKey,
    /// Which try of it, from 1.
    pub attempt: u32,
    /// The arguments of the output tool's call, as the model wrote them.
    pub output: Arc<str>,
    /// Milliseconds until the driver must settle it as broken.
    pub timeout_ms: u64,
}

/// A commanded tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTool {
    /// Which action: with the run's id before it, the tool's idempotency key.
    pub key: CommandKey,
    /// Which try of it, from 1.
    pub attempt: u32,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// Rebuilt parameters, as canonical JSON.
    pub parameters: Arguments,
    /// What it does to the world.
    pub effect: Effect,
    /// Whether it is announced, or needs no announcement: only then may it be started.
    pub announced: bool,
    /// Milliseconds until the driver must settle it as timed out.
    pub timeout_ms: u64,
    /// What a smart tool may spend on a call to a model; without it the code fallback is used (S0-65).
    pub sub_call: Option<SubCallBudget>,
}

/// What a smart tool's call to a model may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct SubCallBudget {
    /// Bytes of input.
    pub bytes: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Milliseconds.
    pub timeout_ms: u64,
}
