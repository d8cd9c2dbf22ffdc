//! Observers in place: called on the run's own task before and after its steps. Nothing that they do reaches the run.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use loop_core::types::{RunId, Totals};

use crate::watch::observer::Observer;

/// Where a run is at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run's id.
    pub run: RunId,
    /// The attempt at an output, from 1; 0 in a conversation.
    pub attempt: u32,
    /// The pass, from 1; 0 before the first call.
    pub pass: u32,
    /// Usage and cost so far.
    pub totals: Totals,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum Step<'a> {
    /// An attempt at an output begins.
    AttemptStart,
    /// A pass has ended: its reply was read, and is not asked for again.
    Pass,
    /// A tool is about to run: a helper, or the formatter of an output. Once for a tool that is polled.
    ToolCall {
        /// The tool's name.
        tool: &'a str,
        /// Its input, as JSON.
        input: &'a str,
    },
    /// A tool was run, also where it failed.
    ToolResult {
        /// The tool's name.
        tool: &'a str,
        /// Its input, as JSON.
        input: &'a str,
        /// The result as the model receives it.
        result: &'a str,
    },
    /// An output was rejected.
    ValidationFailure {
        /// `schema`, or the validator's name.
        by: &'a str,
        /// What is wrong.
        message: &'a str,
    },
}

impl Step<'_> {
    /// Its name, for example `tool_call`.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// An error that an observer in place returned, or its panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// The name of the step, for example `tool_call`.
    pub step: &'static str,
    /// The error's or the panic's message.
    pub message: String,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.message)
    }
}

/// An observer in place of a closure over each step.
pub fn steps(
    f: impl Fn(&Progress, Step<'_>) -> Result<(), String> + Send + Sync + 'static,
) -> Arc<dyn Observer> {
    struct Steps<F>(F);
    impl<F: Fn(&Progress, Step<'_>) -> Result<(), String> + Send + Sync> Observer for Steps<F> {
        fn is_in_place(&self) -> bool {
            true
        }

        fn step(&self, at: &Progress, step: Step<'_>) -> Result<(), String> {
            (self.0)(at, step)
        }
    }
    Arc::new(Steps(f))
}

/// Tells observers in place of one run, and keeps their errors.
pub(crate) struct InPlace {
    observers: Vec<Arc<dyn Observer>>,
    errors: Mutex<Vec<StepError>>,
}

impl InPlace {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { observers, errors: Mutex::default() }
    }

    /// Whether there is an observer to tell.
    pub(crate) fn is_needed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// Tells each observer, in the order in which they were added.
    pub(crate) fn tell(&self, at: &Progress, step: Step<'_>) {
        for observer in &self.observers {
            let result = std::panic::catch_unwind(AssertUnwindSafe(|| observer.step(at, step)));
            let result = result.unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic))));
            if let Err(message) = result {
                self.lock().push(StepError { step: step.name(), message });
            }
        }
    }

    /// The errors so far.
    pub(crate) fn errors(&self) -> Vec<StepError> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<StepError>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
