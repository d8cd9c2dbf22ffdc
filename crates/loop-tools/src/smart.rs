//! Smart tools: they fetch many results and return a few. A model may choose which.
//!
//! ```text
//! fetch ─▶ candidates ─▶ enough of them, and a sub-call granted? ─ yes ─▶ ask ─▶ names some? ─ yes ─▶ those
//!                                        │ no                              │ no, error, late
//!                                        ▼                                 ▼
//!                                   the code's ranking ◀───────────────────┘
//! ```

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use loop_core::types::SubCallUse;
use serde_json::Value;

use crate::ask::{AskModel, ChoiceRequest};
use crate::context::{Credentials, ToolContext};
use crate::declaration::ToolDeclaration;
use crate::result::{ToolResult, heading};
use crate::selection::{KEPT, selection};
use crate::text::one_line;
use crate::tool::Tool;

pub use crate::smart_rows::{RowFilter, SmartRows};

/// The fewest candidates about which a model is asked.
pub const AI_FILTER_THRESHOLD: usize = 5;

/// The most time of its own that a tool keeps back from a sub-call, so that there is time for the code's
/// ranking.
const KEPT_BACK: Duration = Duration::from_millis(250);

/// One fetched item that a smart tool may return.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The item in one line. It is all that a model sees when it chooses.
    pub line: String,
    /// The whole item as Markdown, for the model that works on the work item.
    pub markdown: String,
    /// The whole item as JSON, for programs.
    pub data: Value,
}

/// Where a smart tool's candidates come from.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// The declaration of the tool. [`Smart`] adds that it is smart.
    fn declaration(&self) -> &ToolDeclaration;

    /// Fetches all candidates, without a model.
    ///
    /// # Errors
    /// The result that the tool returns instead, such as a failure.
    async fn fetch(
        &self,
        parameters: &Value,
        context: &ToolContext,
        credentials: &Credentials,
    ) -> Result<Vec<Candidate>, ToolResult>;

    /// What makes a candidate relevant, for the model that chooses. `None` unless a source says more than its target.
    fn instruction(&self) -> Option<&str> {
        None
    }

    /// What a call looks for: the parameter `target`, unless a source has another.
    fn target<'a>(&self, parameters: &'a Value) -> Option<&'a str> {
        parameters.get("target").and_then(Value::as_str)
    }

    /// The Markdown of the kept candidates, without a heading: theirs, one after another, unless a source has a better form.
    fn markdown(&self, kept: &[&Candidate]) -> String {
        let bodies: Vec<&str> = kept.iter().map(|candidate| candidate.markdown.trim()).collect();
        bodies.join("\n\n")
    }

    /// The positions of the candidates to keep, best first, when no model chooses.
    ///
    /// By default: the three whose line has most words of the parameter `target`, and of equal ones those that were
    /// fetched first.
    fn fallback(&self, parameters: &Value, candidates: &[Candidate]) -> Vec<usize> {
        best_by_words(self.target(parameters), candidates, KEPT)
    }
}

/// A tool that fetches many candidates and returns a few.
///
/// A model is asked only when a sub-call was granted and there are enough candidates. If it does not answer in time or
/// names no candidate, [`Source::fallback`] chooses.
pub struct Smart<S> {
    source: S,
    declaration: ToolDeclaration,
    threshold: usize,
}

/// Who chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChosenBy {
    Model,
    Code,
}

impl<S: Source> Smart<S> {
    /// The tool over `source`, with a threshold of [`AI_FILTER_THRESHOLD`].
    pub fn new(source: S) -> Self {
        let declaration = source.declaration().clone().smart(true);
        Self { source, declaration, threshold: AI_FILTER_THRESHOLD }
    }

    /// Sets the fewest candidates about which a model is asked.
    #[must_use]
    pub fn threshold(mut self, threshold: usize) -> Self {
        self.threshold = threshold;
        self
    }

    /// The code's ranking, without what it names wrongly; the first ones if it names nothing.
    fn ranked(&self, parameters: &Value, candidates: &[Candidate]) -> Vec<usize> {
        let mut is_open = vec![true; candidates.len()];
        let mut kept = self.source.fallback(parameters, candidates);
        kept.retain(|at| is_open.get_mut(*at).is_some_and(std::mem::take));
        if kept.is_empty() { (0..candidates.len().min(KEPT)).collect() } else { kept }
    }

    fn request(&self, parameters: &Value, context: &ToolContext, candidates: &[Candidate]) -> ChoiceRequest {
        ChoiceRequest {
            title: one_line(&context.item_title),
            target: self.source.target(parameters).map(one_line),
            instruction: self.source.instruction().map(one_line),
            candidates: candidates.iter().map(|candidate| one_line(&candidate.line)).collect(),
        }
    }

    fn result(
        &self,
        context: &ToolContext,
        candidates: &[Candidate],
        kept: &[usize],
        by: ChosenBy,
    ) -> ToolResult {
        let kept: Vec<&Candidate> = kept.iter().filter_map(|at| candidates.get(*at)).collect();
        let who = match by {
            ChosenBy::Model => "a model",
            ChosenBy::Code => "code",
        };
        let (shown, all) = (kept.len(), candidates.len());
        let bodies = self.source.markdown(&kept);
        let heading = heading(&self.declaration.title, &context.scope);
        // The count comes first, so that it is still there when the end is cut.
        let markdown = format!("{heading}\n\n_{shown} of {all} items, chosen by {who}._\n\n{bodies}");
        let data: Vec<Value> = kept.iter().map(|candidate| candidate.data.clone()).collect();
        let summary = format!("Found {all} items, kept {shown}, chosen by {who}");
        ToolResult::ok(&*self.declaration.name, summary, markdown, data)
    }
}

#[async_trait]
impl<S: Source> Tool for Smart<S> {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        let candidates = match self.source.fetch(&parameters, context, credentials).await {
            Ok(candidates) => candidates,
            Err(failure) => return failure,
        };
        if candidates.is_empty() {
            return ToolResult::empty(&*self.declaration.name, &self.declaration.title);
        }
        let limit = time_for(context);
        let (named, sub_call) = match &context.ask {
            Some(model) if candidates.len() >= self.threshold && !limit.is_zero() => {
                let request = self.request(&parameters, context, &candidates);
                let (named, used) = ask(&**model, &request, limit).await;
                (named, Some(used))
            }
            _ => (Vec::new(), None),
        };
        let (kept, by) = if named.is_empty() {
            (self.ranked(&parameters, &candidates), ChosenBy::Code)
        } else {
            (named, ChosenBy::Model)
        };
        ToolResult { sub_call, ..self.result(context, &candidates, &kept, by) }
    }
}

impl<S: fmt::Debug> fmt::Debug for Smart<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, declaration, threshold } = self;
        f.debug_struct("Smart")
            .field("tool", &declaration.name)
            .field("source", source)
            .field("threshold", threshold)
            .finish()
    }
}

/// What a model names, and what that used. Whatever goes wrong, it names nothing.
async fn ask(model: &dyn AskModel, request: &ChoiceRequest, limit: Duration) -> (Vec<usize>, SubCallUse) {
    let requested = AssertUnwindSafe(model.choose(request)).catch_unwind();
    match tokio::time::timeout(limit, requested).await {
        Ok(Ok(Ok(answer))) => {
            let named = selection(&answer.text, request.candidates.len());
            let answered = !named.is_empty();
            (named, answer.used(answered))
        }
        Ok(Ok(Err(error))) => (Vec::new(), error.used()),
        Ok(Err(_)) | Err(_) => (Vec::new(), SubCallUse::new(false, None)),
    }
}

/// How long a sub-call may take: what was granted, or less where fetching took most of the tool's own time,
/// since a tool that is cut off has no fallback.
fn time_for(context: &ToolContext) -> Duration {
    let granted = Duration::from_millis(context.sub_call_ms);
    let left = context.remaining().map(|left| left.saturating_sub(KEPT_BACK));
    left.map_or(granted, |left| left.min(granted))
}

/// The positions of the candidates whose line holds most words of the target, in their own order where that is equal.
pub(crate) fn best_by_words(target: Option<&str>, candidates: &[Candidate], max: usize) -> Vec<usize> {
    let target = target.unwrap_or_default().to_lowercase();
    let words: Vec<&str> = target.split_whitespace().collect();
    let hits = |candidate: &Candidate| {
        let line = candidate.line.to_lowercase();
        words.iter().filter(|word| line.contains(**word)).count()
    };
    let mut ranked: Vec<(usize, usize)> =
        candidates.iter().enumerate().map(|(at, candidate)| (hits(candidate), at)).collect();
    ranked.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits));
    ranked.into_iter().take(max).map(|(_, at)| at).collect()
}

#[cfg(test)]
#[path = "smart_tests.rs"]
mod tests;
