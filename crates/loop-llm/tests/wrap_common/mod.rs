//! A model that does as it is told, one step for each call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::types::{FailureKind, Usage};
use loop_llm::error::RetryAdvice;
use loop_llm::{ChatModel, ErrorPhase, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};
use tokio::time::Instant;

/// What happens to one call.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// It fails before the reply begins.
    Refuse(LlmError),
    /// It gives these events, with a pause before each.
    Give(Vec<Result<ModelEvent, LlmError>>, Duration),
    /// It never answers.
    Hang,
    /// It gives a word and then nothing more.
    HangAfterWord,
}

/// A model that takes one step for each call, and says "ok" when there is none left.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    pub(crate) steps: Mutex<VecDeque<Step>>,
    pub(crate) calls: Mutex<Vec<(Instant, ModelRequest)>>,
    pub(crate) under_way: Arc<AtomicUsize>,
    pub(crate) most_at_once: AtomicUsize,
}

impl Fake {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Arc<Self> {
        Arc::new(Self { steps: Mutex::new(steps.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Seconds from `began` to each call.
    pub(crate) fn seconds(&self, began: Instant) -> Vec<u64> {
        self.calls.lock().unwrap().iter().map(|(at, _)| (*at - began).as_secs()).collect()
    }
}

/// Counts a call as long as it lives.
struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ChatModel for Fake {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        self.calls.lock().unwrap().push((Instant::now(), request.clone()));
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let live = Live(Arc::clone(&self.under_way));
        let step = self.steps.lock().unwrap().pop_front();
        match step.unwrap_or_else(|| Step::Give(stated("ok"), Duration::ZERO)) {
            Step::Refuse(error) => Err(error),
            Step::Hang => std::future::pending().await,
            Step::HangAfterWord => {
                let word = futures::stream::iter([Ok(text("word"))]).chain(futures::stream::pending());
                Ok(word
                    .map(move |item| {
                        let _ = &live;
                        item
                    })
                    .boxed())
            }
            Step::Give(events, pause) => {
                let paced = futures::stream::iter(events).then(move |item| async move {
                    tokio::time::sleep(pause).await;
                    item
                });
                Ok(paced
                    .map(move |item| {
                        let _ = &live;
                        item
                    })
                    .boxed())
            }
        }
    }
}

pub(crate) fn text(text: &str) -> ModelEvent {
    ModelEvent::TextDelta { text: text.into() }
}

/// A reply of these tokens in the end.
pub(crate) fn finished(text: &str, tokens: u64) -> ModelEvent {
    let usage = Usage { input: tokens, ..Usage::default() };
    ModelEvent::Finished(Box::new(ModelReply::text(text, Some(usage))))
}

/// The events of a whole reply.
pub(crate) fn stated(word: &str) -> Vec<Result<ModelEvent, LlmError>> {
    vec![Ok(text(word)), Ok(finished(word, 1))]
}

/// An error with the advice of its kind, as a server gives it.
pub(crate) fn error(kind: FailureKind) -> LlmError {
    let status = match kind {
        FailureKind::Timeout | FailureKind::Connection => {
            return LlmError::new(kind, ErrorPhase::Connect, "no");
        }
        FailureKind::RateLimited => 429,
        FailureKind::Overloaded => 529,
        FailureKind::ServerError => 500,
        _ => 400,
    };
    let mut error = LlmError::new(kind, ErrorPhase::Headers, "no");
    error.detail.get_or_insert_default().status = Some(status);
    error
}

/// An error of a server that names a delay.
pub(crate) fn asks(kind: FailureKind, seconds: u64) -> LlmError {
    LlmError { retry: RetryAdvice::After(Duration::from_secs(seconds)), ..error(kind) }
}

/// A reply that breaks off after a word.
pub(crate) fn broken(kind: FailureKind) -> Step {
    Step::Give(vec![Ok(text("w")), Err(LlmError::new(kind, ErrorPhase::Stream, "no"))], Duration::ZERO)
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest::new("m", "s", "u")
}

/// A request whose caller waits so long.
pub(crate) fn patient(seconds: u64) -> ModelRequest {
    let mut request = request();
    request.meta.timeout_ms = Some(seconds * 1_000);
    request
}
