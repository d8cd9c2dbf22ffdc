//! What a tool receives in addition to its parameters: whom the work concerns, and, separately, its credentials.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loop_core::types::{Scope, TraceParent};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ask::AskModel;
use crate::results::EarlierResults;

/// Milliseconds for a sub-call, unless the runtime gives another limit.
pub const SUB_CALL_MS: u64 = 10_000;

/// What a tool receives in addition to its parameters: whom and what the work concerns, and what it may use.
#[derive(Clone)]
pub struct ToolContext {
    /// Whom and what the work concerns. The tool restricts its queries to it.
    pub scope: Scope,
    /// The title of the work item, in one line.
    pub item_title: Arc<str>,
    /// The trace id of the run: the caller's, or the run's own id. The same for every call of the run.
    pub trace: Arc<str>,
    /// The span of the call, for what the tool asks of other programs. `None`: the run is not traced.
    pub traceparent: Option<TraceParent>,
    /// The idempotency key, `run/pass/slot`. The same for every try of one action, and different for each action.
    pub key: Arc<str>,
    /// A model for one question about the tool's own result. `None`: no sub-call was granted.
    pub ask: Option<Arc<dyn AskModel>>,
    /// Milliseconds after which a sub-call is cancelled.
    pub sub_call_ms: u64,
    /// The settled results of the run. Empty, unless the tool [reads them](crate::Tool::reads_results).
    pub results: EarlierResults,
    /// Cancelled when the tool must stop. A tool that starts something outside of itself must watch it.
    pub cancel: CancellationToken,
    /// When the dispatcher cuts the tool off; it alone sets this.
    pub(crate) deadline: Option<Instant>,
    /// Whether the token is that of one call alone.
    pub(crate) is_own_token: bool,
}

impl ToolContext {
    /// A context without a model to ask.
    ///
    /// Its trace is the run that the key begins with.
    pub fn new(scope: Scope, item_title: impl Into<Arc<str>>, key: impl Into<Arc<str>>) -> Self {
        let key = key.into();
        let trace: Arc<str> = key.split('/').next().unwrap_or_default().into();
        // Clones of it may be dispatched, and the end of one call is not that of another.
        Self { is_own_token: false, ..Self::of_run(scope, item_title, key, trace, CancellationToken::new()) }
    }

    /// A context without a model to ask, under this trace. The token is that of this call alone: it is cancelled when the
    /// call ends.
    pub fn of_run(
        scope: Scope,
        item_title: impl Into<Arc<str>>,
        key: impl Into<Arc<str>>,
        trace: impl Into<Arc<str>>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            scope,
            item_title: item_title.into(),
            trace: trace.into(),
            traceparent: None,
            key: key.into(),
            ask: None,
            sub_call_ms: SUB_CALL_MS,
            results: EarlierResults::default(),
            cancel,
            deadline: None,
            is_own_token: true,
        }
    }

    /// The context of a call in this span.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: Option<TraceParent>) -> Self {
        self.traceparent = traceparent;
        self
    }

    /// The context with a granted sub-call.
    #[must_use]
    pub fn with_ask(mut self, ask: Arc<dyn AskModel>, sub_call_ms: u64) -> Self {
        self.ask = Some(ask);
        self.sub_call_ms = sub_call_ms;
        self
    }

    /// The context with the settled results of the run.
    #[must_use]
    pub fn with_results(mut self, results: EarlierResults) -> Self {
        self.results = results;
        self
    }

    /// The context with this token; the tool gets a child of it.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self.is_own_token = false;
        self
    }

    /// How long the tool has until it is cut off, or `None` outside a dispatcher.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("scope", &self.scope)
            .field("item_title", &self.item_title)
            .field("trace", &self.trace)
            .field("key", &self.key)
            .field("may_ask", &self.ask.is_some())
            .field("sub_call_ms", &self.sub_call_ms)
            .field("cancelled", &self.cancel.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// Secrets by name. A tool receives them separately from its context.
///
/// It shows only the names, and it cannot be serialised:
///
/// ```compile_fail
/// fn serialisable<T: serde::Serialize>() {}
/// serialisable::<loop_tools::Credentials>();
/// ```
#[derive(Clone, Default)]
pub struct Credentials {
    secrets: Arc<BTreeMap<String, String>>,
}

impl Credentials {
    /// No secrets.
    pub fn none() -> Self {
        Self::default()
    }

    /// The secret of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.secrets.get(name).map(String::as_str)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.secrets.keys().map(String::as_str)
    }
}

impl<N: Into<String>, S: Into<String>> FromIterator<(N, S)> for Credentials {
    fn from_iter<I: IntoIterator<Item = (N, S)>>(secrets: I) -> Self {
        let secrets = secrets.into_iter().map(|(name, secret)| (name.into(), secret.into())).collect();
        Self { secrets: Arc::new(secrets) }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn credentials_show_their_names_and_nothing_else() {
        // S0-66
        let credentials: Credentials = [("crm", "s3cret"), ("api", "t0ken")].into_iter().collect();
        assert_eq!(credentials.get("crm"), Some("s3cret"));
        assert_eq!(credentials.get("other"), None);
        assert_eq!(format!("{credentials:?}"), r#"{"api", "crm"}"#);
        assert_eq!(Credentials::none().names().count(), 0);
    }

    #[test]
    fn a_context_carries_the_scope_and_no_model_unless_granted() {
        // S0-63, S0-65, S0-131, S0-140
        let scope = Scope { account: Some("A-7".into()), ..Scope::default() };
        let context = ToolContext::new(scope.clone(), "Slow laptop", "r/1/action-0");
        assert_eq!(
            (&context.scope, &*context.item_title, &*context.key),
            (&scope, "Slow laptop", "r/1/action-0")
        );
        assert!(context.ask.is_none());
        assert_eq!((context.sub_call_ms, context.remaining()), (10_000, None));
        let shown = format!("{context:?}");
        assert!(shown.contains("Slow laptop") && shown.contains("may_ask: false"), "{shown}");
    }
}
