//! One tool call: dispatched through the registry, with a model to ask where that was granted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loop_core::{
    CallExtent, CostMode, Fact, FinishReason, Observation, Received, Run, RunTool, SubCallBudget, Usage,
};
use loop_llm::{ChatModel, ErrorPhase, LlmError, LlmErrorKind, Message, ModelRequest, RequestMeta, complete};
use loop_prompts::{FilterQuestion, Prompts};
use loop_tools::{Answer, AskError, AskModel, ChoiceRequest, Credentials, Registry, ToolContext};
use tokio_util::sync::CancellationToken;

use crate::model::Settled;

/// What a tool call needs of its run; taken before the call, so that the run is free meanwhile.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) wish: RunTool,
    context: ToolContext,
    markdown_chars: usize,
}

impl ToolCall {
    pub(crate) fn new(
        run: &Run,
        wish: RunTool,
        model: &Arc<dyn ChatModel>,
        prompts: &Arc<Prompts>,
        cancel: CancellationToken,
    ) -> Self {
        let item = &run.started().item;
        // Parallel siblings never share it, every retry of one action reuses it (S4-30).
        let key: Arc<str> = format!("{}/{}", run.id(), wish.key).into();
        let mut context = ToolContext::new(item.scope.clone(), Arc::clone(&item.title), Arc::clone(&key))
            .with_trace(Arc::clone(run.trace_id()))
            .with_cancel(cancel);
        if let Some(budget) = wish.sub_call {
            let asker = Asker {
                model: Arc::clone(model),
                prompts: Arc::clone(prompts),
                id: Arc::clone(&run.spec().model(run.small_tier()).model),
                budget,
                meta: RequestMeta {
                    run: Arc::clone(&run.id().0),
                    key,
                    attempt: wish.attempt,
                    timeout_ms: wish.sub_call.map(|budget| budget.timeout_ms),
                    strict_cost: run.spec().limits.cost_mode == CostMode::Strict,
                },
            };
            context = context.with_ask(Arc::new(asker), budget.timeout_ms);
        }
        Self { context, markdown_chars: run.spec().limits.markdown_chars as usize, wish }
    }

    /// Runs the tool and says how it ended.
    pub(crate) async fn run(self, registry: Registry, credentials: Credentials) -> Settled {
        let Self { wish, context, markdown_chars } = self;
        let call = loop_tools::ToolCall {
            name: Arc::clone(&wish.tool),
            parameters: serde_json::from_str(&wish.parameters).unwrap_or_default(),
            context,
            timeout_ms: wish.timeout_ms,
            markdown_cap: markdown_chars,
        };
        // It ends in time, and at once when it is cancelled, whatever the tool does.
        let observation = bounded(registry.dispatch_one(call, credentials).await);
        Settled::of(Fact::ToolFinished { key: wish.key, attempt: wish.attempt, observation })
    }
}

/// An observation without its raw data where that is too large to be kept: what the model reads, and how it ended, stay.
fn bounded(mut observation: Observation) -> Observation {
    let bytes = observation.data.len();
    if bytes > MAX_DATA_BYTES {
        let left_out = format!(
            "the tool's data of {bytes} bytes is left out, since an entry of the journal takes {MAX_DATA_BYTES}; let the \
             tool return less"
        );
        observation.data = "null".into();
        observation.warnings.push(left_out.into());
    }
    observation
}

/// How many bytes of JSON a tool's data may be.
const MAX_DATA_BYTES: usize = 8 << 20;

/// The cheap model behind a smart tool, within what was granted.
#[derive(Debug)]
struct Asker {
    model: Arc<dyn ChatModel>,
    prompts: Arc<Prompts>,
    id: Arc<str>,
    budget: SubCallBudget,
    meta: RequestMeta,
}

#[async_trait]
impl AskModel for Asker {
    async fn choose(&self, request: &ChoiceRequest) -> Result<Answer, AskError> {
        let prompt = self.prompts.filter(FilterQuestion {
            title: &request.title,
            target: request.target.as_deref(),
            results: &request.candidates,
            bytes: self.budget.bytes,
        });
        let messages = prompt.turns.iter().map(|turn| Message::user(turn.text()));
        let request = ModelRequest {
            model: Arc::clone(&self.id),
            system: prompt.system.clone(),
            messages: messages.collect(),
            max_output_tokens: Some(self.budget.output_tokens),
            meta: self.meta.clone(),
            ..ModelRequest::default()
        };
        let limit = Duration::from_millis(self.budget.timeout_ms);
        let late = |_| {
            let message = format!("no whole reply after {} ms", self.budget.timeout_ms);
            Err(LlmError::new(LlmErrorKind::Timeout, ErrorPhase::Stream, message))
        };
        match tokio::time::timeout(limit, complete(self.model.as_ref(), &request)).await.unwrap_or_else(late)
        {
            Ok(reply) => {
                let is_cut = reply.finish == FinishReason::Capped;
                let extent = if is_cut { CallExtent::Open } else { CallExtent::Ended };
                let received = Received { bytes: reply.bytes(), extent, ..Received::default() };
                Ok(Answer { text: reply.text.to_string(), usage: reply.usage, received })
            }
            Err(error) => {
                let told = error.partial.as_ref().and_then(|partial| partial.usage);
                // A call that no model saw costs nothing.
                let usage = if error.is_free() { Some(Usage::default()) } else { told };
                let bytes = error.partial.as_ref().map_or(0, |partial| partial.bytes());
                let reported = error.partial.as_ref().and_then(|partial| partial.usage_so_far);
                let reported = reported.unwrap_or_default();
                let received = Received { bytes, extent: error.extent(), reported };
                Err(AskError { message: error.to_string(), usage, received })
            }
        }
    }
}
