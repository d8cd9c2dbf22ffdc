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
use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use loop_core::types::{Arguments, Observation, Status, SubCallUse};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::apart::apart;
use crate::ask::{AskModel, Metered};
use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::judge::{Reading, judge, unknown_tool};
use crate::registry::{Entry, Registry};
use crate::result::{ToolResult, UNKNOWN_ERROR};

/// A time limit beyond which no clock reaches: a year.
const LONGEST_MS: u64 = 365 * 24 * 3_600_000;

/// One call for [`Registry::dispatch_all`].
#[derive(Clone, Debug)]
pub struct ToolInvocation {
    /// The tool's name or an alias.
    pub name: Arc<str>,
    /// The parameters as JSON, not yet checked.
    pub parameters: Value,
    /// Whom and what the call concerns, and what the tool may use.
    pub context: ToolContext,
    /// Milliseconds after which the call is cancelled.
    pub timeout_ms: u64,
    /// Maximum characters of Markdown that the model reads.
    pub markdown_cap: usize,
}

impl Registry {
    /// What came back from one call, with the defaults of its schema for what is not given: never a panic and never an error (S0-81, S0-86, S0-129).
    ///
    /// Where there are several threads the tool runs in a task of its own. When its time is up, when `context.cancel` is cancelled, or when
    /// this future is dropped, the task is aborted and the token that the tool got is cancelled (S0-d6). The
    /// Markdown is cut to `markdown_cap` characters (S0-123); the data is kept whole. Must be called inside a
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
        let parameters = &self.with_defaults(name, parameters);
        let given = || Given::Value(parameters.clone().into_owned());
        ended(
            self.begun(name, (parameters, given), context, credentials, timeout_ms, markdown_cap),
            markdown_cap,
        )
    }

    /// The parameters, and what the tool's schema declares for those that are not given. A run has filled them in before.
    fn with_defaults<'a>(&self, name: &str, parameters: &'a Value) -> Cow<'a, Value> {
        let schema = self.entry(name).map(|entry| &entry.declaration.schema);
        let declared = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        let mut filled = Cow::Borrowed(parameters);
        for (name, member) in declared.into_iter().flatten() {
            if let Some(default) = member.get("default").filter(|default| !default.is_null())
                && parameters.get(name).is_none()
                && let Some(given) = filled.to_mut().as_object_mut()
            {
                given.insert(name.clone(), default.clone());
            }
        }
        filled
    }

    /// As [`dispatch`](Self::dispatch), with arguments that are shared with the call in place of copied. Without a value
    /// they are `null`.
    pub fn dispatch_shared(
        &self,
        name: &str,
        arguments: &Arguments,
        context: ToolContext,
        credentials: &Credentials,
        timeout_ms: u64,
        markdown_cap: usize,
    ) -> impl Future<Output = Observation> + Send + use<> {
        let parameters = arguments.value().unwrap_or(&Value::Null);
        let given = || Given::Arguments(arguments.clone());
        ended(
            self.begun(name, (parameters, given), context, credentials, timeout_ms, markdown_cap),
            markdown_cap,
        )
    }

    /// The call, or the observation of one that cannot be made.
    fn begun(
        &self,
        name: &str,
        (parameters, given): (&Value, impl FnOnce() -> Given),
        context: ToolContext,
        credentials: &Credentials,
        timeout_ms: u64,
        markdown_cap: usize,
    ) -> Result<Running, Box<Observation>> {
        match self.entry(name) {
            None => Err(Box::new(unknown_tool(name, &self.similar(name), markdown_cap))),
            Some(entry) => match entry.schema.violations(parameters) {
                Some(message) => {
                    let reading = Reading { title: &entry.declaration.title, cap: markdown_cap };
                    Err(Box::new(reading.failed(Status::InvalidInput, &message)))
                }
                None => Ok(Running::new(entry, given(), context, credentials.clone(), timeout_ms)),
            },
        }
    }

    /// What of `parameters` does not fit the schema of the tool `name`, at most three schema violations; `None` where everything
    /// does, and for a name that no tool has.
    pub fn schema_violations(&self, name: &str, parameters: &Value) -> Option<String> {
        self.entry(name).and_then(|entry| entry.schema.violations(parameters))
    }

    /// What came back from each call, in the order of the calls (S0-93, S0-122).
    ///
    /// They run in parallel and all of them settle: none waits for another, and none fails for another.
    pub async fn dispatch_all(
        &self,
        calls: Vec<ToolInvocation>,
        credentials: &Credentials,
    ) -> Vec<Observation> {
        let dispatched = calls.into_iter().map(async |call: ToolInvocation| {
            let ToolInvocation { name, parameters, context, timeout_ms, markdown_cap } = call;
            self.dispatch(&name, &parameters, context, credentials, timeout_ms, markdown_cap).await
        });
        join_all(dispatched).await
    }
}

/// What the tool is called with.
enum Given {
    Value(Value),
    Arguments(Arguments),
}

impl Given {
    fn value(&self) -> &Value {
        match self {
            Self::Value(value) => value,
            Self::Arguments(arguments) => arguments.value().unwrap_or(&Value::Null),
        }
    }
}

/// What came back from a call that was begun.
async fn ended(begun: Result<Running, Box<Observation>>, markdown_cap: usize) -> Observation {
    match begun {
        Err(refused) => *refused,
        Ok(running) => running.settled(markdown_cap).await,
    }
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
    meter: Option<Arc<Metered>>,
}

impl Running {
    fn new(
        entry: &Entry,
        given: Given,
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
        let meter = context.ask.take().map(|model| Arc::new(Metered::new(model)));
        context.ask = meter.clone().map(|meter| meter as Arc<dyn AskModel>);
        let _leaving = context.cancel.clone().drop_guard();
        let tool = Arc::clone(&entry.tool);
        let call = Box::pin(async move { tool.call_with(given.value(), &context, &credentials).await });
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
