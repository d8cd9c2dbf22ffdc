//! One tool call: dispatched through the registry, with a model to ask where that was granted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::{
    CallExtent, CostMode, EventKind, Evidence, FinishReason, Observation, Received, Run, RunTool,
    SubCallBudget, TraceParent, Usage,
};
use loop_llm::{
    ChatModel, ErrorPhase, LlmError, LlmErrorKind, Message, ModelEvent, ModelReply, ModelRequest, OutputCap,
    RequestMeta, RequestPurpose,
};
use loop_prompts::{FilterQuestion, Prompts};
use loop_tools::{
    AskError, AskModel, ChoiceRequest, Credentials, EarlierResult, Registry, SubCallReply, ToolContext,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::model::Settled;
use crate::waits::{Hear, Quiet, Waits};

/// What a tool call needs of its run; taken before the call, so that the run is free meanwhile.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) command: RunTool,
    context: ToolContext,
    markdown_chars: usize,
}

impl Dispatch {
    pub(crate) fn new(
        run: &Run,
        command: RunTool,
        (model, prompts, registry): (&Arc<dyn ChatModel>, &Arc<Prompts>, &Registry),
        cancel: CancellationToken,
        traceparent: Option<TraceParent>,
        hear: impl FnOnce() -> Hear,
    ) -> Self {
        let item = &run.started().item;
        // Parallel other calls of the batch never share it, every retry of one action reuses it (S4-30).
        let key = run.idempotency_key(&command.key);
        let (title, trace) = (Arc::clone(&item.title), Arc::clone(run.trace_id()));
        let mut context = ToolContext::of_run(item.scope.clone(), title, Arc::clone(&key), trace, cancel)
            .with_traceparent(traceparent);
        if registry.reads_results(&command.tool) {
            context = context.with_results(run.evidence().iter().map(earlier).collect());
        }
        if let Some(budget) = command.sub_call {
            let asker = Asker {
                model: Arc::clone(model),
                prompts: Arc::clone(prompts),
                id: Arc::clone(&run.spec().model(run.auxiliary_tier()).model),
                budget,
                hear: hear(),
                meta: RequestMeta {
                    run: Arc::clone(&run.id().0),
                    key,
                    purpose: Some(RequestPurpose::Filter),
                    attempt: command.attempt,
                    timeout_ms: command.sub_call.map(|budget| budget.timeout_ms),
                    strict_cost: run.spec().limits.cost_mode == CostMode::Strict,
                    traceparent,
                },
            };
            context = context.with_ask(Arc::new(asker), budget.timeout_ms);
        }
        Self { context, markdown_chars: run.spec().limits.markdown_chars as usize, command }
    }

    /// Runs the tool and says how it ended. The call is put together before it is awaited, so that its future holds it once.
    pub(crate) fn run(
        self,
        registry: &Registry,
        credentials: &Credentials,
    ) -> impl Future<Output = Settled> + Send + use<> {
        let Self { command, context, markdown_chars } = self;
        let (key, attempt) = (command.key, command.attempt);
        // What the core rebuilt is a value.
        let parameters = command.parameters.value().unwrap_or(&Value::Null);
        let (tool, limit) = (&command.tool, command.timeout_ms);
        // It ends in time, and at once when it is cancelled, whatever the tool does.
        let call = registry.dispatch(tool, parameters, context, credentials, limit, markdown_chars);
        async move {
            let observation = bounded(call.await).into();
            Settled::of(EventKind::ToolFinished { key, attempt, observation })
        }
    }
}

/// A settled result, for a tool that reads it again.
fn earlier(evidence: &Evidence) -> EarlierResult {
    EarlierResult {
        id: evidence.id,
        tool: Arc::clone(&evidence.tool),
        data: evidence.observation.data.clone(),
    }
}

/// An observation without its raw data where that is too large to be kept: what the model reads, and how it ended, stay.
fn bounded(mut observation: Observation) -> Observation {
    if observation.data.is_longer_than(MAX_DATA_BYTES) {
        let bytes = observation.data.len();
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

/// Drains a call, and tells how long nothing comes.
async fn complete(
    model: &dyn ChatModel,
    request: &ModelRequest,
    mut quiet: Quiet<'_>,
) -> Result<ModelReply, LlmError> {
    let mut events = quiet.during(model.stream(request)).await?;
    while let Some(event) = quiet.during(events.next()).await {
        if !matches!(event, Ok(ModelEvent::KeepAlive)) {
            quiet.ends();
        }
        if let ModelEvent::Finished(reply) = event? {
            return Ok(OutputCap::of(request.max_output_tokens).hold(*reply));
        }
    }
    Err(LlmError::new(LlmErrorKind::StreamInterrupted, ErrorPhase::Stream, "the reply ended without its end"))
}

/// The cheap model behind a smart tool, within what was granted.
struct Asker {
    model: Arc<dyn ChatModel>,
    prompts: Arc<Prompts>,
    id: Arc<str>,
    budget: SubCallBudget,
    /// Hears what the question waits for.
    hear: Hear,
    meta: RequestMeta,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("model", &self.id).field("budget", &self.budget).finish_non_exhaustive()
    }
}

#[async_trait]
impl AskModel for Asker {
    async fn choose(&self, request: &ChoiceRequest) -> Result<SubCallReply, AskError> {
        let prompt = self.prompts.filter(FilterQuestion {
            title: &request.title,
            target: request.target.as_deref(),
            instruction: request.instruction.as_deref(),
            results: &request.candidates,
            bytes: self.budget.bytes,
        });
        let messages = prompt.turns.iter().map(|turn| Message::user(turn.text()));
        // The question ends with its time, and the tool with the run: no stop has to end its wait.
        let waits = Arc::new(Waits::new(&CancellationToken::new()));
        let request = ModelRequest {
            progress: waits.listener(&self.hear),
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
        let requested = complete(self.model.as_ref(), &request, Quiet::new(&waits, &self.hear));
        match tokio::time::timeout(limit, requested).await.unwrap_or_else(late) {
            Ok(reply) => {
                let is_cut = reply.finish == FinishReason::Capped;
                let extent = if is_cut { CallExtent::Open } else { CallExtent::Ended };
                let received = Received { bytes: reply.bytes(), extent, ..Received::default() };
                let (text, usage, served_model) = (reply.text.to_string(), reply.usage, reply.served_model);
                Ok(SubCallReply { text, usage, received, served_model })
            }
            Err(error) => {
                let reported = error.partial.as_ref().and_then(|partial| partial.usage);
                // A call that no model saw costs nothing.
                let usage = if error.is_free() { Some(Usage::default()) } else { reported };
                let bytes = error.partial.as_ref().map_or(0, |partial| partial.bytes());
                let reported = error.partial.as_ref().and_then(|partial| partial.usage_so_far);
                let reported = reported.unwrap_or_default();
                let received = Received { bytes, extent: error.extent(), reported };
                let served_model = error.partial.as_ref().and_then(|partial| partial.served_model.clone());
                Err(AskError { message: error.to_string(), usage, received, served_model })
            }
        }
    }
}
