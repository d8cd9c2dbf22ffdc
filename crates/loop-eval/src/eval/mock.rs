//! Mocked tools: with results from a case, or dry runs of effects.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::types::Scope;
use loop_tools::{Credentials, Failure, Tool, ToolContext, ToolDeclaration, ToolResult};
use serde_json::{Map, Value};

use crate::case::{MockStatus, MockedOutcome};

/// The time limit, in milliseconds, of a mocked tool that times out.
const LATE_MS: u64 = 40;
/// The default milliseconds after which a pending tool is asked again.
const POLL_MS: u64 = 1;

/// Calls of mocked tools that no outcome of the case matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surplus(Arc<Mutex<Vec<String>>>);

impl Surplus {
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for each call without an outcome.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }
}

/// A tool that returns the outcomes of a case in order.
pub(crate) struct MockedTool {
    declaration: ToolDeclaration,
    outcomes: Mutex<Vec<MockedOutcome>>,
    given: usize,
    beyond: Surplus,
}

impl MockedTool {
    /// A mock of the declared tool. If an outcome is a timeout, the tool's time limit is shortened, so that the eval
    /// does not wait for it.
    pub(crate) fn new(mut declaration: ToolDeclaration, outcomes: &[MockedOutcome], beyond: Surplus) -> Self {
        if outcomes.iter().any(|outcome| outcome.status == MockStatus::Timeout) {
            let longest = outcomes.iter().map(|outcome| outcome.delay_ms).max().unwrap_or_default();
            declaration.timeout_ms = declaration.timeout_ms.min(LATE_MS + longest);
        }
        Self { declaration, outcomes: Mutex::new(outcomes.to_vec()), given: outcomes.len(), beyond }
    }

    /// The next outcome for these parameters.
    fn take(&self, parameters: &Value) -> Option<MockedOutcome> {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |outcome: &MockedOutcome| {
            outcome.parameters.as_ref().is_none_or(|wanted| parameters.as_object() == Some(wanted))
        };
        let at = outcomes.iter().position(fits)?;
        match outcomes.get(at) {
            Some(outcome) if outcome.repeats => Some(outcome.clone()),
            Some(_) => Some(outcomes.remove(at)),
            None => None,
        }
    }
}

#[async_trait]
impl Tool for MockedTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, _: &Credentials) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let Some(outcome) = self.take(&parameters) else {
            let line = format!(
                "`{name}` was called with {parameters}, and the case has no outcome left for it ({} given)",
                self.given
            );
            self.beyond.lock().push(line);
            return ToolResult::failed(name, title, "the case has no outcome for this call");
        };
        if outcome.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(outcome.delay_ms)).await;
        }
        let status = outcome.status;
        let kind = match status {
            MockStatus::Ok => return success(name, title, &context.scope, outcome),
            MockStatus::MalformedResult => {
                // A success that shows nothing is none.
                let data = outcome.data.unwrap_or_else(|| "broken".into());
                return ToolResult::ok(name, "", "", data);
            }
            MockStatus::Timeout => std::future::pending().await,
            // Not by `panic!`, whose hook would tell the terminal of what is meant to happen.
            MockStatus::Panic => std::panic::resume_unwind(Box::new(
                reason(&outcome, "the mocked tool breaks down").to_owned(),
            )),
            MockStatus::Pending => {
                return ToolResult::pending(name, title, outcome.retry_after_ms.unwrap_or(POLL_MS));
            }
            MockStatus::Empty => Failure::Empty,
            MockStatus::RetryableError => Failure::Retryable,
            MockStatus::PermanentError => Failure::Permanent,
            MockStatus::InvalidInput => Failure::InvalidInput,
        };
        let message = if kind == Failure::Empty { "No data found" } else { "failed" };
        let mut result = ToolResult::failure(name, title, reason(&outcome, message), kind);
        result.data = outcome.data.unwrap_or_default();
        if let Some(markdown) = outcome.markdown {
            (result.markdown, result.title) = (markdown, None);
        }
        result
    }
}

fn reason<'a>(outcome: &'a MockedOutcome, otherwise: &'a str) -> &'a str {
    if outcome.reason.is_empty() { outcome.summary.as_deref().unwrap_or(otherwise) } else { &outcome.reason }
}

fn success(name: &str, title: &str, scope: &Scope, outcome: MockedOutcome) -> ToolResult {
    let MockedOutcome { reason, data, markdown, summary, .. } = outcome;
    let rows = data.as_ref().and_then(Value::as_array).filter(|rows| rows.iter().all(Value::is_object));
    let mut result = match (rows, data.as_ref()) {
        (Some(rows), _) if markdown.is_none() => ToolResult::found(name, title, scope, rows.clone()),
        (_, Some(data)) => ToolResult::value(name, data.clone()),
        (_, None) => {
            let text = markdown.clone().unwrap_or(if reason.is_empty() { "done".to_owned() } else { reason });
            ToolResult::value(name, text.into())
        }
    };
    result.markdown = markdown.unwrap_or(result.markdown);
    result.summary = summary.unwrap_or(result.summary);
    result
}

/// A tool with effects that a case does not mock. It reports success and changes nothing.
pub(crate) struct DryTool(pub(crate) ToolDeclaration);

#[async_trait]
impl Tool for DryTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, parameters: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        let data: Map<String, Value> = parameters.as_object().cloned().unwrap_or_default();
        let text = format!("done: {}", Value::Object(data.clone()));
        ToolResult::ok(&*self.0.name, "done", text, Value::Object(data))
    }
}
