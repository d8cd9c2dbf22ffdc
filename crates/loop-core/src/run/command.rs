//! Commands of a run, in the imperative. They are read from the state, never queued.

use std::sync::Arc;

use crate::run::check::CheckWhat;
use crate::spec::Limits;
use crate::types::{Action, Arguments, CommandKey, Effect, Lease, Millis, Tier};

/// Something that the driver must do for the run. Exhaustive by intent: a new command must break every driver's
/// build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Call a model: render the prompt, ask [`Run::quote`](crate::Run::quote), announce the call, then send it.
    CallModel(CallModel),
    /// Run a tool. A call that changes something is announced first.
    RunTool(RunTool),
    /// Ask a person about an action.
    AskPerson {
        /// The action's key.
        key: CommandKey,
        /// What would run: the tool's own name and the rebuilt parameters.
        action: Action,
        /// When the time to answer ends, since the start of the run. No answer by then is a denial. `None`: it does not
        /// end.
        deadline: Option<Millis>,
    },
    /// Check a document or an output. A check with a sub-call is announced first.
    Check(Check),
    /// Cancel a call or an action in flight, and settle it.
    Abort {
        /// The key of the call or action.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
    },
    /// Save the outcome.
    Save {
        /// The try, from 1.
        attempt: u32,
    },
}

/// A model call that the driver must make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallModel {
    /// The call's key.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// The tier that is due. The quote may grant another.
    pub tier: Tier,
    /// The granted output tokens. `None`: the call is not announced yet, and must not be sent.
    pub granted: Option<u64>,
    /// Milliseconds after which the driver must settle the call as failed.
    pub timeout_ms: u64,
}

/// A document or an output that the driver must check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The check's key.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// What is to be checked.
    pub what: CheckWhat,
    /// Whether the check may be started: it is announced, or needs no announcement.
    pub announced: bool,
    /// Milliseconds after which the driver must settle the check as broken.
    pub timeout_ms: u64,
    /// What a checker that asks a model may spend. `None`: it may not ask.
    pub sub_call: Option<SubCallBudget>,
}

/// A tool call that the driver must run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTool {
    /// The action's key. [`Run::idempotency_key`](crate::Run::idempotency_key) makes the tool's idempotency key of it.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// Rebuilt parameters, as canonical JSON.
    pub parameters: Arguments,
    /// The tool's effect.
    pub effect: Effect,
    /// Whether the call may be started: it is announced, or needs no announcement.
    pub announced: bool,
    /// Milliseconds after which the driver must settle the call as timed out.
    pub timeout_ms: u64,
    /// What a smart tool may spend on a model call. `None`: it uses its code fallback.
    pub sub_call: Option<SubCallBudget>,
    /// What a run of its own may use. `None`: the tool is not a run.
    pub lease: Option<Lease>,
}

/// The budget of the model call of a smart tool or of a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct SubCallBudget {
    /// Maximum input, in bytes.
    pub bytes: u64,
    /// Maximum output tokens.
    pub output_tokens: u64,
    /// Time limit in milliseconds.
    pub timeout_ms: u64,
}

impl SubCallBudget {
    /// The budget of a sub-call under these limits.
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            bytes: limits.sub_call_bytes,
            output_tokens: limits.sub_call_tokens,
            timeout_ms: limits.sub_call_ms,
        }
    }
}
