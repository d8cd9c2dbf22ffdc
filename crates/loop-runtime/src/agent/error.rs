//! How an agent ended: the data of every run, and the errors of runs without an answer.

use std::fmt;
use std::sync::Arc;

use loop_core::gate::{Condition, Measure};
use loop_core::types::{RunId, StopClass, Totals};
use loop_core::{Outcome, StopReason};

use crate::drive::start_error::StartError;
use crate::watch::explain::explain;
use crate::watch::steps::StepError;
use crate::watch::uses::ToolUse;

/// The totals and the outcome of a run, successful or not.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The run's id.
    pub run: RunId,
    /// Tokens, cost, calls and time over all passes and attempts.
    pub totals: Totals,
    /// Milliseconds from the start of the run to its end.
    pub latency_ms: u64,
    /// How many attempts at an output were begun; 0 in a conversation.
    pub attempts: u32,
    /// Errors and panics of observers in place. They changed nothing. Empty if there were none.
    pub observer_errors: Vec<StepError>,
    /// What each tool was used for.
    pub tools: Vec<ToolUse>,
    /// Everything else: the reason, the evidence, each call with its verdict.
    pub outcome: Outcome,
}

impl Meta {
    pub(super) fn new(outcome: Outcome, observer_errors: Vec<StepError>, tools: Vec<ToolUse>) -> Self {
        Self {
            run: outcome.run.clone(),
            totals: outcome.totals,
            latency_ms: outcome.totals.wall_ms,
            attempts: outcome.attempts,
            observer_errors,
            tools,
            outcome,
        }
    }

    /// Why it ended.
    pub fn reason(&self) -> StopReason {
        self.outcome.stop.reason()
    }

    pub(super) fn has_answered(&self) -> bool {
        self.outcome.stop.class == StopClass::Answered
    }
}

/// Why an agent has no answer. Every error of a run that began holds its [`Meta`].
///
/// Where `main` returns it, Rust prints its `Debug` form: the message, the run and what it cost, on one line. `{:#?}` shows
/// the whole [`Meta`] too.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The run did not begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The passes are used up.
    #[error("Max iterations reached: {iterations} of {limit}{}", of_attempt(*.attempt))]
    MaxIterations {
        /// The attempt, from 1; 0 in a conversation.
        attempt: u32,
        /// How many passes the run took.
        iterations: u32,
        /// The limit, in passes.
        limit: u32,
        /// Cost, evidence and everything else that is known.
        meta: Box<Meta>,
    },
    /// `submit` was called before there was an output.
    #[error(
        "the model submitted before it gave an output (attempt {attempt}); say in the instructions which comes first"
    )]
    SubmitBeforeOutput {
        /// The attempt, from 1.
        attempt: u32,
        /// Cost, evidence and everything else that is known.
        meta: Box<Meta>,
    },
    /// The reply calls no tool in a protocol that requires a call.
    #[error("invalid response: {message}")]
    InvalidResponse {
        /// What is wrong with it.
        message: String,
        /// Cost, evidence and everything else that is known.
        meta: Box<Meta>,
    },
    /// The run was cancelled.
    #[error("cancelled in phase {phase} of pass {pass}{}", of_attempt(*.attempt))]
    Cancelled {
        /// `start` before the first call, `iteration` while a model or tools ran, `validation` after that.
        phase: &'static str,
        /// The pass, from 1; 0 before the first call.
        pass: u32,
        /// The attempt, from 1; 0 in a conversation.
        attempt: u32,
        /// Cost, evidence and everything else that is known.
        meta: Box<Meta>,
    },
    /// No attempt returned a valid output.
    #[error("no valid output in {attempts} attempts; the last was rejected: {message}")]
    MaxAttempts {
        /// How many attempts there were.
        attempts: u32,
        /// What was wrong with the last output.
        message: String,
        /// Cost, evidence and everything else that is known.
        meta: Box<Meta>,
    },
    /// The outcome of an effect is unknown. Check it before anything is tried again.
    #[error("the outcome of {} is unknown; look whether it happened before anything is tried again. {explanation}", effects.join(", "))]
    InDoubt {
        /// The key and the tool of each such effect.
        effects: Vec<Arc<str>>,
        /// One or two sentences about the stop.
        explanation: String,
        /// Cost, evidence, the answer if there is one, and everything else that is known.
        meta: Box<Meta>,
    },
    /// The run ended for another reason: a limit, a refusal, a failed model or tool, or a person who is needed.
    #[error("{explanation}")]
    Stopped {
        /// The reason.
        reason: StopReason,
        /// One or two sentences.
        explanation: String,
        /// Cost, evidence and everything else that is known.
        meta: Box<Meta>,
    },
}

impl fmt::Debug for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            let (message, meta) = (self.to_string(), self.meta());
            return f.debug_struct("AgentError").field("message", &message).field("meta", &meta).finish();
        }
        write!(f, "{self}")?;
        match self.meta() {
            None => Ok(()),
            Some(Meta { run, totals, .. }) => {
                write!(
                    f,
                    " [{}; run {run}, model calls: {}, cost: {}]",
                    self.code(),
                    totals.model_calls,
                    totals.cost
                )
            }
        }
    }
}

fn of_attempt(attempt: u32) -> String {
    if attempt == 0 { String::new() } else { format!(" (attempt {attempt})") }
}

impl AgentError {
    pub(super) fn of(meta: Meta) -> Self {
        let meta = Box::new(meta);
        let stop = &meta.outcome.stop;
        let attempt = meta.outcome.stopped_in.attempt;
        let count = |measure: Option<&Measure>| match measure {
            Some(Measure::Count(count)) => u32::try_from(*count).unwrap_or(u32::MAX),
            _ => 0,
        };
        if stop.class == StopClass::InDoubt {
            let explanation = explain(stop);
            let of = |condition: &Condition| match &condition.value {
                Measure::Names(effects) if condition.reason == StopReason::InDoubt => effects.clone(),
                _ => Vec::new(),
            };
            let effects = stop.also.iter().flat_map(of).collect();
            return Self::InDoubt { effects, explanation, meta };
        }
        match stop.reason() {
            StopReason::MaxPasses => Self::MaxIterations {
                attempt,
                iterations: count(Some(&stop.primary.value)),
                limit: count(stop.primary.threshold.as_ref()),
                meta,
            },
            StopReason::SubmitBeforeOutput => Self::SubmitBeforeOutput { attempt, meta },
            StopReason::InvalidResponse => {
                Self::InvalidResponse { message: stop.primary.value.to_string(), meta }
            }
            StopReason::ManualStop => {
                // A call that is only commanded was not made.
                let pass = if meta.totals.model_calls == 0 { 0 } else { meta.outcome.stopped_in.pass };
                let phase = phase(&meta.outcome.stopped_in.phase, pass);
                Self::Cancelled { phase, pass, attempt, meta }
            }
            StopReason::MaxAttempts => {
                let attempts = meta.outcome.attempts;
                let message = meta.outcome.rejection.as_ref().map_or_else(String::new, ToString::to_string);
                Self::MaxAttempts { attempts, message, meta }
            }
            reason => {
                let explanation = explain(stop);
                // An answer is there, and not all that was asked for happened.
                let is_undone = stop.also_has(StopReason::EffectNotDone);
                let is_answer = matches!(reason, StopReason::Confident | StopReason::Completed);
                let reason = if is_undone && is_answer { StopReason::EffectNotDone } else { reason };
                Self::Stopped { reason, explanation, meta }
            }
        }
    }

    /// The totals and the outcome of the run. `None`: it did not begin.
    pub fn meta(&self) -> Option<&Meta> {
        match self {
            Self::Start(_) => None,
            Self::MaxIterations { meta, .. }
            | Self::SubmitBeforeOutput { meta, .. }
            | Self::InvalidResponse { meta, .. }
            | Self::Cancelled { meta, .. }
            | Self::MaxAttempts { meta, .. }
            | Self::InDoubt { meta, .. }
            | Self::Stopped { meta, .. } => Some(meta),
        }
    }

    /// The error as a code, for example `MAX_ATTEMPTS`. Of [`Stopped`](Self::Stopped) it is the reason in the same
    /// form.
    pub fn code(&self) -> Arc<str> {
        match self {
            Self::Start(_) => "NOT_STARTED".into(),
            Self::MaxIterations { .. } => "MAX_ITERATIONS".into(),
            Self::SubmitBeforeOutput { .. } => "SUBMIT_BEFORE_OUTPUT".into(),
            Self::InvalidResponse { .. } => "INVALID_RESPONSE".into(),
            Self::Cancelled { .. } => "EXECUTION_CANCELLED".into(),
            Self::MaxAttempts { .. } => "MAX_ATTEMPTS".into(),
            Self::InDoubt { .. } => "IN_DOUBT".into(),
            Self::Stopped { reason, .. } => reason.name().to_uppercase().into(),
        }
    }
}

/// The name that [`AgentError::Cancelled`] has for what a run was doing.
fn phase(name: &str, pass: u32) -> &'static str {
    match name {
        _ if pass == 0 => "start",
        "validating" => "validation",
        _ => "iteration",
    }
}
