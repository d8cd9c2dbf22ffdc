//! Callbacks: called in place while a run continues, before and after its steps. Nothing that they do reaches the run.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use loop_core::types::{RunId, Totals};

/// Where a run is when a callback is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run's id.
    pub run: RunId,
    /// The attempt at an output, from 1; 0 in a conversation.
    pub attempt: u32,
    /// The pass, from 1; 0 before the first call.
    pub pass: u32,
    /// What was used so far (S2-89).
    pub totals: Totals,
}

/// An error that a callback returned, or its panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackError {
    /// The name of the callback, for example `on_tool_call`.
    pub callback: &'static str,
    /// The error's or the panic's message.
    pub message: String,
}

impl fmt::Display for CallbackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.callback, self.message)
    }
}

/// What a callback may return: nothing, or a result whose error is collected.
pub trait CallbackReturn {
    /// What it threw, if it did.
    fn thrown(self) -> Option<String>;
}

impl CallbackReturn for () {
    fn thrown(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display> CallbackReturn for Result<(), E> {
    fn thrown(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

type OnStep = Box<dyn Fn(&Progress) -> Option<String> + Send + Sync>;
type OnTool = Box<dyn Fn(&Progress, &str, &str) -> Option<String> + Send + Sync>;

/// The callbacks of a loop, each called in the order in which it was added.
///
/// They are called on the run's own task and should return soon. What they throw is collected and changes nothing.
#[derive(Default)]
pub struct Callbacks {
    attempt_start: Vec<OnStep>,
    pass: Vec<OnStep>,
    tool_call: Vec<OnTool>,
    tool_result: Vec<OnTool>,
    validation_failure: Vec<OnTool>,
}

impl Callbacks {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `f` when an attempt at an output begins.
    #[must_use]
    pub fn on_attempt_start<R: CallbackReturn>(
        mut self,
        f: impl Fn(&Progress) -> R + Send + Sync + 'static,
    ) -> Self {
        self.attempt_start.push(Box::new(move |progress| f(progress).thrown()));
        self
    }

    /// Calls `f` after each pass, once its reply was read.
    #[must_use]
    pub fn on_pass<R: CallbackReturn>(mut self, f: impl Fn(&Progress) -> R + Send + Sync + 'static) -> Self {
        self.pass.push(Box::new(move |progress| f(progress).thrown()));
        self
    }

    /// Calls `f` with a tool's name and its input, as JSON, before it is run: a helper, or the formatter of an output
    /// (S2-43, S2-46).
    #[must_use]
    pub fn on_tool_call<R: CallbackReturn>(
        mut self,
        f: impl Fn(&Progress, &str, &str) -> R + Send + Sync + 'static,
    ) -> Self {
        self.tool_call.push(Box::new(move |progress, tool, input| f(progress, tool, input).thrown()));
        self
    }

    /// Calls `f` with a tool's name and the result as the model receives it, after the tool was run, also where it
    /// failed (S2-44, S2-47).
    #[must_use]
    pub fn on_tool_result<R: CallbackReturn>(
        mut self,
        f: impl Fn(&Progress, &str, &str) -> R + Send + Sync + 'static,
    ) -> Self {
        self.tool_result.push(Box::new(move |progress, tool, result| f(progress, tool, result).thrown()));
        self
    }

    /// Calls `f` with `schema` or the validator's name, and with what is wrong, when an output is rejected.
    #[must_use]
    pub fn on_validation_failure<R: CallbackReturn>(
        mut self,
        f: impl Fn(&Progress, &str, &str) -> R + Send + Sync + 'static,
    ) -> Self {
        self.validation_failure
            .push(Box::new(move |progress, by, message| f(progress, by, message).thrown()));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self { attempt_start, pass, tool_call, tool_result, validation_failure } = self;
        attempt_start.is_empty()
            && pass.is_empty()
            && tool_call.is_empty()
            && tool_result.is_empty()
            && validation_failure.is_empty()
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks")
            .field("attempt_start", &self.attempt_start.len())
            .field("pass", &self.pass.len())
            .field("tool_call", &self.tool_call.len())
            .field("tool_result", &self.tool_result.len())
            .field("validation_failure", &self.validation_failure.len())
            .finish()
    }
}

/// Calls callbacks for one run, and keeps what they throw.
#[derive(Debug)]
pub(crate) struct Caller {
    callbacks: Arc<Callbacks>,
    thrown: Mutex<Vec<CallbackError>>,
}

impl Caller {
    pub(crate) fn new(callbacks: Arc<Callbacks>) -> Self {
        Self { callbacks, thrown: Mutex::default() }
    }

    /// Whether there is a callback to call.
    pub(crate) fn is_needed(&self) -> bool {
        !self.callbacks.is_empty()
    }

    pub(crate) fn attempt_start(&self, progress: &Progress) {
        self.steps("on_attempt_start", &self.callbacks.attempt_start, progress);
    }

    pub(crate) fn pass(&self, progress: &Progress) {
        self.steps("on_pass", &self.callbacks.pass, progress);
    }

    pub(crate) fn tool_call(&self, progress: &Progress, tool: &str, input: &str) {
        self.tools("on_tool_call", &self.callbacks.tool_call, progress, tool, input);
    }

    pub(crate) fn tool_result(&self, progress: &Progress, tool: &str, result: &str) {
        self.tools("on_tool_result", &self.callbacks.tool_result, progress, tool, result);
    }

    pub(crate) fn validation_failure(&self, progress: &Progress, by: &str, message: &str) {
        self.tools("on_validation_failure", &self.callbacks.validation_failure, progress, by, message);
    }

    /// What was thrown so far.
    pub(crate) fn thrown(&self) -> Vec<CallbackError> {
        self.thrown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn steps(&self, name: &'static str, all: &[OnStep], progress: &Progress) {
        for one in all {
            self.call(name, || one(progress));
        }
    }

    fn tools(&self, name: &'static str, all: &[OnTool], progress: &Progress, what: &str, text: &str) {
        for one in all {
            self.call(name, || one(progress, what, text));
        }
    }

    fn call(&self, callback: &'static str, f: impl FnOnce() -> Option<String>) {
        let called = std::panic::catch_unwind(AssertUnwindSafe(f));
        let message = called.unwrap_or_else(|panic| Some(format!("it panicked: {}", panic_text(&*panic))));
        if let Some(message) = message {
            let mut thrown = self.thrown.lock().unwrap_or_else(PoisonError::into_inner);
            thrown.push(CallbackError { callback, message });
        }
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
