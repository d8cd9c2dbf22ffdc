//! One question to a model outside of the passes: of a smart tool, or of a second opinion. It is granted by the core.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loop_core::Run;
use loop_core::reply::FinishReason;
use loop_core::run::SubCallBudget;
use loop_core::spec::CostMode;
use loop_core::types::{CallExtent, CommandKey, FailureKind, Receipt, SubCallUse, Tier, TraceParent, Usage};
use loop_llm::codec::OutputCap;
use loop_llm::request::RequestMeta;
use loop_llm::scripted::RequestPurpose;
use loop_llm::{ChatModel, ErrorPhase, LlmError, Message, ModelEvent, ModelReply, ModelRequest};
use loop_prompts::Prompt;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::drive::model::bytes_of;
use crate::watch::waits::{OnEvent, SilenceTimer, Waits};

/// A granted question to a model, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SubCall {
    pub(crate) budget: SubCallBudget,
    pub(crate) tier: Tier,
    model: Arc<str>,
    meta: RequestMeta,
}

impl SubCall {
    /// The question that a run grants under this key.
    pub(crate) fn of(
        run: &Run,
        (key, attempt): (CommandKey, u32),
        purpose: RequestPurpose,
        budget: SubCallBudget,
        traceparent: Option<TraceParent>,
    ) -> Self {
        let tier = run.sub_call_tier(&key);
        let meta = RequestMeta {
            run: Arc::clone(&run.id().0),
            key: run.idempotency_key(&key),
            purpose: Some(purpose),
            attempt,
            timeout_ms: Some(budget.timeout_ms),
            strict_cost: run.spec().limits.cost_mode == CostMode::Strict,
            traceparent,
        };
        Self { budget, tier, model: Arc::clone(&run.spec().model(tier).model), meta }
    }

    /// Asks, within what was granted. It ends in its time, whatever the model does.
    pub(crate) async fn ask(&self, model: &dyn ChatModel, prompt: &Question, hear: &OnEvent) -> SubReply {
        // The question ends with its time, and who asks with the run: no stop has to end its wait.
        let waits = Arc::new(Waits::new(&CancellationToken::new()));
        let request = ModelRequest {
            progress: waits.listener(hear),
            model: Arc::clone(&self.model),
            system: Arc::clone(&prompt.system),
            messages: prompt.turns.clone(),
            max_output_tokens: Some(self.budget.output_tokens),
            meta: self.meta.clone(),
            ..ModelRequest::default()
        };
        let limit = Duration::from_millis(self.budget.timeout_ms);
        let late = |_| {
            let message = format!("no whole reply after {} ms", self.budget.timeout_ms);
            Err(LlmError::new(FailureKind::Timeout, ErrorPhase::Stream, message))
        };
        let requested = complete(model, &request, SilenceTimer::new(&waits, hear));
        SubReply::of(tokio::time::timeout(limit, requested).await.unwrap_or_else(late))
    }
}

/// The text of a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    system: Arc<str>,
    turns: Vec<Message>,
}

impl Question {
    pub(crate) fn of(prompt: Prompt) -> Self {
        Self { system: prompt.system, turns: prompt.turns }
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.system.len() + self.turns.iter().map(Message::bytes).sum::<usize>()) as u64
    }
}

/// What came of a question, and what it used.
#[derive(Debug)]
pub(crate) struct SubReply {
    pub(crate) reply: Result<ModelReply, String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) received: Receipt,
    pub(crate) served_model: Option<Arc<str>>,
}

impl SubReply {
    fn of(result: Result<ModelReply, LlmError>) -> Self {
        match result {
            Ok(reply) => {
                let is_cut = reply.finish == FinishReason::Capped;
                let extent = if is_cut { CallExtent::Open } else { CallExtent::Ended };
                let received = Receipt { bytes: reply.bytes(), extent, ..Receipt::default() };
                let (usage, served_model) = (reply.usage, reply.served_model.clone());
                Self { reply: Ok(reply), usage, received, served_model }
            }
            Err(error) => {
                let partial = error.partial.as_ref();
                // A call that no model saw costs nothing.
                let reported = partial.and_then(|partial| partial.usage);
                let usage = if error.is_free() { Some(Usage::default()) } else { reported };
                let bytes = partial.map_or(0, |partial| partial.bytes());
                let reported = partial.and_then(|partial| partial.usage_so_far).unwrap_or_default();
                let received = Receipt { bytes, extent: error.extent(), reported };
                let served_model = partial.and_then(|partial| partial.served_model.clone());
                Self { reply: Err(error.to_string()), usage, received, served_model }
            }
        }
    }

    /// What it used, of a question whose answer was used or not.
    pub(crate) fn used(&self, answered: bool) -> SubCallUse {
        let (usage, received, served_model) = (self.usage, self.received, self.served_model.clone());
        SubCallUse { answered, usage, received, served_model }
    }
}

/// Drains a call, and tells how long nothing comes.
async fn complete(
    model: &dyn ChatModel,
    request: &ModelRequest,
    mut quiet: SilenceTimer<'_>,
) -> Result<ModelReply, LlmError> {
    let mut events = quiet.during(model.stream(request)).await?;
    let cap = OutputCap::of_request(request);
    let (mut text, mut bytes) = (String::new(), 0_u64);
    while let Some(event) = quiet.during(events.next()).await {
        if !matches!(event, Ok(ModelEvent::KeepAlive)) {
            quiet.ends();
        }
        let event = event?;
        bytes = bytes.saturating_add(bytes_of(&event));
        if let ModelEvent::TextDelta { text: piece } = &event {
            text.push_str(piece);
        }
        if let ModelEvent::Finished(reply) = event {
            return Ok(cap.hold(*reply));
        }
        if bytes > cap.bytes as u64 {
            return Ok(cap.cut(&text, /*usage*/ None));
        }
    }
    Err(LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "the reply ended without its end"))
}
