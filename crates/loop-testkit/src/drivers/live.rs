//! The models and tools of a case, for a driver that calls real ones.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::EventKind;
use loop_core::types::FailureKind;
use loop_llm::error::{Partial, RetryAdvice};
use loop_llm::scripted::nonce_of;
use loop_llm::{ChatModel, ErrorPhase, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_tools::{Failure, Registry, ToolDeclaration, ToolResult};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::MESSAGE;
use super::case::{DriverCase, ModelEnd, ToolEnd, ToolPlay};
use super::cases::tools;
use crate::{DraftReply, NONCE};

/// Sends a run [`EventKind::StopRequested`] or [`EventKind::Instruction`].
pub type SendEvent = Box<dyn Fn(&EventKind) + Send + Sync>;

/// The models, tools and people of a case, for a driver with a clock of its own.
#[derive(Clone)]
pub struct LiveOutside(Arc<LiveInner>);

struct LiveInner {
    case: DriverCase,
    state: Mutex<LiveState>,
    tell: Mutex<Option<SendEvent>>,
    dies: Notify,
}

#[derive(Default)]
struct LiveState {
    model_calls: usize,
    tool_calls: BTreeMap<String, usize>,
    validations: usize,
    has_died: bool,
}

impl fmt::Debug for LiveOutside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveOutside").field(&self.0.case.name).finish()
    }
}

impl LiveOutside {
    /// The outside of the runs of this case.
    pub fn new(case: &DriverCase) -> Self {
        let (case, state) = (case.clone(), Mutex::default());
        Self(Arc::new(LiveInner { case, state, tell: Mutex::default(), dies: Notify::new() }))
    }

    /// Sets how the case sends messages to the run in progress.
    pub fn telling(&self, tell: SendEvent) {
        *self.0.tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(tell);
    }

    /// The model of every tier.
    pub fn model(&self) -> Arc<dyn ChatModel> {
        Arc::new(self.clone())
    }

    /// The result of the validator for the next output.
    ///
    /// # Errors
    /// What is wrong with the output.
    pub fn validate(&self) -> Result<(), String> {
        let nth = self.with(|state| {
            state.validations += 1;
            state.validations - 1
        });
        self.0.case.validation(nth).map_or(Ok(()), |message| Err(message.to_owned()))
    }

    /// Waits until the driver has to stop: a call of the case's target is in flight.
    pub async fn dies(&self) {
        self.0.dies.notified().await;
    }

    /// The tools.
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::builder();
        for tool in tools() {
            let outside = self.clone();
            let declaration = ToolDeclaration::new(Arc::clone(&tool.name))
                .title(Arc::clone(&tool.name))
                .schema(json!({
                    "type": "object",
                    "properties": {"target": {"type": "string"}},
                    "required": ["target"],
                }))
                .effect(tool.effect)
                .timeout_ms(tool.timeout_ms)
                .attempts(tool.attempts)
                .policy(tool.policy.clone());
            let name = Arc::clone(&tool.name);
            registry = registry.tool_fn(declaration, move |parameters: Value, _, _| {
                let (outside, name) = (outside.clone(), Arc::clone(&name));
                async move { outside.called(&name, &parameters).await }
            });
        }
        registry.build().unwrap_or_else(|error| panic!("the tools of the cases: {error}"))
    }

    async fn called(&self, tool: &str, parameters: &Value) -> ToolResult {
        let target = parameters.get("target").and_then(Value::as_str).unwrap_or_default().to_owned();
        let case = &self.0.case;
        let (nth, dies) = self.with(|state| {
            let calls = state.tool_calls.entry(target.clone()).or_default();
            *calls += 1;
            let dies = case.dies == Some(&*target) && !state.has_died;
            state.has_died |= dies;
            (*calls - 1, dies)
        });
        if dies {
            self.0.dies.notify_one();
        }
        if let Some(said) = case.said.as_ref().filter(|said| said.during == target) {
            let (outside, said) = (self.clone(), said.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(said.after_ms)).await;
                let tell = outside.0.tell.lock().unwrap_or_else(PoisonError::into_inner);
                tell.iter().for_each(|tell| tell(&said.kind));
            });
        }
        let ToolPlay { after_ms, end } = case.tool_play(&target, nth);
        if end == ToolEnd::Hangs {
            return std::future::pending().await;
        }
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        let failed = |kind| ToolResult::failure(tool, tool, MESSAGE, kind);
        match end {
            ToolEnd::Finds(text) => ToolResult::ok(tool, "found", text, json!({"text": text})),
            ToolEnd::FailsForNow => failed(Failure::Retryable),
            ToolEnd::Fails | ToolEnd::Hangs => failed(Failure::Permanent),
            ToolEnd::InDoubt => failed(Failure::InDoubt),
            ToolEnd::Pending(again_ms) => {
                ToolResult { retry_after_ms: Some(again_ms), ..failed(Failure::Pending) }
            }
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut LiveState) -> T) -> T {
        change(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl ChatModel for LiveOutside {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let nth = self.with(|state| {
            state.model_calls += 1;
            state.model_calls - 1
        });
        let Some(play) = self.0.case.models.get(nth) else {
            let message = "the case has no reply left";
            return Err(LlmError::new(FailureKind::ScriptExhausted, ErrorPhase::Encode, message));
        };
        if matches!(play.end, ModelEnd::Hangs) {
            return std::future::pending().await;
        }
        tokio::time::sleep(Duration::from_millis(play.after_ms)).await;
        let written = |draft: &DraftReply| {
            let nonce = nonce_of(request).unwrap_or(NONCE);
            let reply = ModelReply::text(draft.whole_text().replace(NONCE, nonce), draft.usage);
            ModelReply { tool_calls: draft.calls.clone(), finish: draft.finish, ..reply }
        };
        match &play.end {
            ModelEnd::Replies(draft) => {
                let whole = written(draft);
                let text = ModelEvent::TextDelta { text: Arc::clone(&whole.text) };
                Ok(futures::stream::iter([Ok(text), Ok(ModelEvent::Finished(Box::new(whole)))]).boxed())
            }
            ModelEnd::BreaksOff(draft) => {
                let ModelReply { text, usage, .. } = written(draft);
                let broken = FailureKind::StreamInterrupted;
                let mut error = LlmError::new(broken, ErrorPhase::Stream, MESSAGE);
                error.retry = RetryAdvice::After(Duration::from_millis(500));
                error.partial = Some(Partial { text: Arc::clone(&text), usage, ..Partial::default() }.into());
                Ok(futures::stream::iter([Ok(ModelEvent::TextDelta { text }), Err(error)]).boxed())
            }
            ModelEnd::Fails { kind, retry_ms } => {
                let mut error = LlmError::new(*kind, ErrorPhase::Connect, MESSAGE);
                let after = |ms: u64| RetryAdvice::After(Duration::from_millis(ms));
                error.retry = retry_ms.map_or(RetryAdvice::Never, after);
                Err(error)
            }
            ModelEnd::Hangs => std::future::pending().await,
        }
    }
}
