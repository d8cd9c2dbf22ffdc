//! Model wrappers that time calls: the time to the first chunk, and what only the client knows of a call.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::secrets::Secrets;
use loop_core::types::TraceParent;
use loop_llm::scripted::RequestPurpose;
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelRequest};

use crate::content;
use crate::shared::OtelState;

/// The timing of a model call, which the journal does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallTiming {
    /// Seconds from the request to the first chunk of the reply.
    pub(crate) first_chunk: Option<f64>,
    /// Seconds from the request to the end of the reply.
    pub(crate) whole: f64,
    /// When it was sent and when it ended, in milliseconds since 1970 (UTC).
    pub(crate) start_ms: u64,
    pub(crate) end_ms: u64,
    /// The provider's id of the reply.
    pub(crate) reply: Option<String>,
    pub(crate) is_streamed: bool,
    /// The kind of its failure.
    pub(crate) error: Option<&'static str>,
    pub(crate) input: Option<String>,
    pub(crate) system: Option<String>,
}

/// The identification of a call in its request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallName {
    pub(crate) run: Arc<str>,
    /// The key within the run, or the idempotency key of the tool for a model call by a tool.
    pub(crate) key: Arc<str>,
    pub(crate) attempt: u32,
    pub(crate) is_inner: bool,
}

/// A model that times its calls.
pub(crate) struct TimedModel {
    pub(crate) inner: Arc<dyn ChatModel>,
    pub(crate) shared: Arc<OtelState>,
}

impl fmt::Debug for TimedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ChatModel for TimedModel {
    fn secrets(&self) -> Secrets {
        self.inner.secrets()
    }

    fn masks(&self) -> bool {
        self.inner.masks()
    }

    fn resumes(&self, run: &str, answered: &[RequestPurpose]) {
        self.inner.resumes(run, answered);
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let is_inner = matches!(request.meta.purpose, Some(RequestPurpose::Filter | RequestPurpose::Opinion));
        let mut watch = Watch::new(&self.shared, is_inner, request);
        let begun = match request.meta.traceparent {
            // A tool was given its own span, and its question to a model is a call within that.
            Some(given) if is_inner && self.shared.config.traces() => {
                let mut request = request.clone();
                request.meta.traceparent = Some(TraceParent { span: given.span.inner(), ..given });
                self.inner.stream(&request).await
            }
            _ => self.inner.stream(request).await,
        };
        match begun {
            Ok(events) => Ok(events.inspect(move |event| watch.hear(event)).boxed()),
            Err(error) => {
                watch.timing.error = Some(error.kind.name());
                Err(error)
            }
        }
    }
}

/// Stores the timing of a call when it ends, even if the caller drops it.
struct Watch {
    shared: Arc<OtelState>,
    name: Option<CallName>,
    began: Instant,
    timing: CallTiming,
}

impl Watch {
    fn new(shared: &Arc<OtelState>, is_inner: bool, request: &ModelRequest) -> Self {
        let keeps = shared.config.keeps_content();
        let timing = CallTiming {
            start_ms: crate::unix_ms(),
            is_streamed: !request.no_stream,
            input: keeps.then(|| content::input(request)),
            system: keeps.then(|| content::system(request)).flatten(),
            ..CallTiming::default()
        };
        let (run, key, attempt) =
            (Arc::clone(&request.meta.run), Arc::clone(&request.meta.key), request.meta.attempt);
        let name = Some(CallName { run, key, attempt, is_inner });
        Self { shared: Arc::clone(shared), name, began: Instant::now(), timing }
    }

    fn hear(&mut self, event: &Result<ModelEvent, LlmError>) {
        match event {
            Ok(ModelEvent::Started { reply, .. }) => {
                if let Some(reply) = reply {
                    self.timing.reply = Some(reply.to_string());
                }
            }
            Ok(ModelEvent::KeepAlive | ModelEvent::Usage(_)) => {}
            Ok(ModelEvent::Finished(reply)) => {
                if let Some(reply) = &reply.reply {
                    self.timing.reply = Some(reply.to_string());
                }
            }
            Ok(_) => {
                self.timing.first_chunk.get_or_insert_with(|| self.began.elapsed().as_secs_f64());
            }
            Err(error) => self.timing.error = Some(error.kind.name()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.timing.whole = self.began.elapsed().as_secs_f64();
        self.timing.end_ms = crate::unix_ms();
        if let Some(name) = self.name.take() {
            self.shared.keep_timing(name, std::mem::take(&mut self.timing));
        }
    }
}
