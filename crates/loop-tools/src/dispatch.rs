//! The dispatcher: one call of one tool, which always ends in an observation.
//!
//! ```text
//! name ─▶ resolve ─▶ schema ─▶ task ─▶ result ─▶ judge ─▶ clean, cut ─▶ Observation
//!          │           │         │                 │
//!          ▼           ▼         ▼                 ▼
//!     unknown tool  invalid   panic, timeout,   nothing found,
//!                   input     cancelled         malformed
//! ```

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use loop_core::types::{Arguments, Observation, Status, SubCallUse};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::apart::apart;
use crate::ask::{AskModel, MeteredModel};
use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::judge::{Reading, judge, unknown_tool};
use crate::registry::{Entry, Registry};
use crate::result::{ToolResult, UNKNOWN_ERROR};

/// A time limit beyond which no clock reaches: a year.
const LONGEST_MS: u64 = 365 * 24 * 3_600_000;

impl Registry {
    /// Runs one call and returns its observation, never a panic and never an error. Arguments are read as a run reads
    /// them (defaults, whole numbers).
    ///
    /// On a runtime with several threads the tool runs in a task of its own. When its time is up, when `context.cancel`
    /// is cancelled, or when this future is dropped, the task is aborted and the token that the tool received is
    /// cancelled. The Markdown is cut to `markdown_cap` characters; the data is kept whole. Must be called inside a
    /// tokio runtime with time.
    pub fn dispatch(
        &self,
        name: &str,
        parameters: &Value,
        context: ToolContext,
        credentials: &Credentials,
        timeout_ms: u64,
        markdown_cap: usize,
    ) -> impl Future<Output = Observation> + Send + use<> {
        let read = match self.entry(name) {
            Some(entry) => entry.spec.args.rebuild(parameters).map_err(|violation| {
                let all = entry.schema.violations(parameters);
                invalid(entry, &all.unwrap_or_else(|| violation.to_string()), markdown_cap)
            }),
            None => Ok(Value::Null),
        };
        let begun = read.map(|mut read| {
            // What is not declared is for the schema to judge: nothing has dropped it before.
            if let (Some(read), Some(given)) = (read.as_object_mut(), parameters.as_object()) {
                for (name, value) in given {
                    read.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            Arguments::from(read.to_string())
        });
        let begun = begun.and_then(|arguments| {
            self.begin(name, &arguments, context, credentials, timeout_ms, markdown_cap)
        });
        ended(begun, markdown_cap)
    }

    /// As [`dispatch`](Self::dispatch), with arguments that are shared instead of copied. If they cannot be parsed,
    /// they count as `null`.
    pub fn dispatch_shared(
        &self,
        name: &str,
        arguments: &Arguments,
        context: ToolContext,
        credentials: &Credentials,
        timeout_ms: u64,
        markdown_cap: usize,
    ) -> impl Future<Output = Observation> + Send + use<> {
        ended(self.begin(name, arguments, context, credentials, timeout_ms, markdown_cap), markdown_cap)
    }

    /// How `parameters` violate the schema of the tool `name`, at most three schema violations. `None`: they match it,
    /// or no tool has this name.
    pub fn schema_violations(&self, name: &str, parameters: &Value) -> Option<String> {
        self.entry(name).and_then(|entry| entry.schema.violations(parameters))
    }

    fn begin(
        &self,
        name: &str,
        arguments: &Arguments,
        context: ToolContext,
        credentials: &Credentials,
        timeout_ms: u64,
        cap: usize,
    ) -> Result<Running, Box<Observation>> {
        let Some(entry) = self.entry(name) else {
            return Err(Box::new(unknown_tool(name, &self.similar(name), cap)));
        };
        match entry.schema.violations(value_of(arguments)) {
            Some(message) => Err(invalid(entry, &message, cap)),
            None => Ok(Running::new(entry, arguments.clone(), context, credentials.clone(), timeout_ms)),
        }
    }
}

/// What is said of arguments that do not fit.
fn invalid(entry: &Entry, message: &str, cap: usize) -> Box<Observation> {
    let reading = Reading { title: &entry.declaration.title, cap };
    Box::new(reading.failed(Status::InvalidInput, message))
}

/// Runs what began.
async fn ended(begun: Result<Running, Box<Observation>>, cap: usize) -> Observation {
    match begun {
        Err(refused) => *refused,
        Ok(running) => running.settled(cap).await,
    }
}

/// The value of arguments; `null` where they have none.
fn value_of(arguments: &Arguments) -> &Value {
    arguments.value().unwrap_or(&Value::Null)
}

/// A call that is to be run within its time. The call itself is boxed: each layer of a future has room for what it is given
/// and for what it awaits.
struct Running {
    declaration: Arc<ToolDeclaration>,
    call: BoxFuture<'static, ToolResult>,
    outer: CancellationToken,
    /// Cancels what the tool got when it is left.
    _leaving: DropGuard,
    deadline: Instant,
    timeout_ms: u64,
    meter: Option<Arc<MeteredModel>>,
}

impl Running {
    fn new(
        entry: &Entry,
        arguments: Arguments,
        mut context: ToolContext,
        credentials: Credentials,
        timeout_ms: u64,
    ) -> Self {
        let outer = context.cancel.clone();
        // What the tool passes on is not its own.
        if !std::mem::replace(&mut context.is_own_token, false) {
            // A child, so that one tool that is late does not stop the others.
            context.cancel = outer.child_token();
        }
        let deadline = Instant::now() + Duration::from_millis(timeout_ms.min(LONGEST_MS));
        context.deadline = Some(deadline);
        let meter = context.ask.take().map(|model| Arc::new(MeteredModel::new(model)));
        context.ask = meter.clone().map(|meter| meter as Arc<dyn AskModel>);
        let _leaving = context.cancel.clone().drop_guard();
        let tool = Arc::clone(&entry.tool);
        let call =
            Box::pin(async move { tool.call_with(value_of(&arguments), &context, &credentials).await });
        let declaration = Arc::clone(&entry.declaration);
        Self { declaration, call, outer, _leaving, deadline, timeout_ms, meter }
    }

    /// Runs the tool, and says what its question to a model used, however it ended.
    async fn settled(self, cap: usize) -> Observation {
        let Self { declaration, call, outer, _leaving, deadline, timeout_ms, meter } = self;
        let reading = Reading { title: &declaration.title, cap };
        let mut called = pin!(called(call, reading));
        // Most tools answer at once, and need neither a listener nor a timer.
        let mut limits = None;
        let ended = poll_fn(|cx| {
            if let Poll::Ready(ended) = called.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let (cancelled, late) = limits.get_or_insert_with(|| {
                let cancelled = outer.clone().cancelled_owned();
                (Box::pin(cancelled), Box::pin(tokio::time::sleep_until(deadline)))
            });
            if cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(reading.failed(Status::Cancelled, "cancelled")));
            }
            ready!(late.as_mut().poll(cx));
            Poll::Ready(Err(reading.failed(Status::Timeout, &format!("timeout after {timeout_ms} ms"))))
        });
        let (observation, claimed) = match ended.await {
            Ok(result) => {
                let claimed = result.sub_call.clone();
                (judge(&declaration, result, cap), claimed)
            }
            Err(broken) => (broken, None),
        };
        let metered = meter.and_then(|meter| meter.used());
        // What it cost is measured; whether it was of use only the tool can say.
        let answered = claimed.as_ref().is_some_and(|claimed| claimed.answered);
        let sub_call = metered.map(|metered| SubCallUse { answered, ..metered });
        Observation { sub_call: sub_call.or(claimed).map(Box::new), ..observation }
    }
}

/// What `call` comes to, or what is to be said where it comes to nothing (T1). Dropping it drops the call.
async fn called(
    call: BoxFuture<'static, ToolResult>,
    reading: Reading<'_>,
) -> Result<ToolResult, Observation> {
    let ended = apart(call).await.ok_or_else(|| reading.failed(Status::Cancelled, "cancelled"))?;
    ended.map_err(|payload| panicked(&*payload, reading))
}

fn panicked(payload: &(dyn Any + Send), reading: Reading<'_>) -> Observation {
    let message = panic_message(payload)
        .map_or_else(|| UNKNOWN_ERROR.to_owned(), |message| format!("the tool panicked: {message}"));
    reading.failed(Status::PermanentError, &message)
}

fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
