//! One tool call: dispatched through the registry, with a model to ask where that was granted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use loop_core::reply::FinishReason;
use loop_core::run::{RunTool, SubCallBudget};
use loop_core::spec::CostMode;
use loop_core::types::{
    Arguments, CallExtent, CommandKey, Data, Effect, EvidenceId, FailureKind, Observation, Received, Scope,
    Tier, TraceParent, Usage,
};
use loop_core::{EventKind, Evidence, Run};
use loop_llm::codec::OutputCap;
use loop_llm::request::RequestMeta;
use loop_llm::scripted::RequestPurpose;
use loop_llm::{ChatModel, ErrorPhase, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_prompts::{FilterQuestion, Prompts};
use loop_tools::ask::{AskError, ChoiceRequest, SubCallReply};
use loop_tools::results::EarlierResult;
use loop_tools::{AskModel, Credentials, Registry, ToolContext};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::drive::model::{Settled, bytes_of};
use crate::watch::waits::{Hear, Quiet, Waits};

/// A tool call with all that it needs of its run, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ToolWork {
    pub(crate) key: CommandKey,
    pub(crate) attempt: u32,
    pub(crate) tool: Arc<str>,
    pub(crate) parameters: Arguments,
    pub(crate) effect: Effect,
    timeout_ms: u64,
    scope: Scope,
    title: Arc<str>,
    /// Parallel other calls of the batch never share it, every retry of one action reuses it (S4-30).
    idempotency_key: Arc<str>,
    trace: Arc<str>,
    traceparent: Option<TraceParent>,
    /// The results of the run, of a tool that reads them.
    results: Vec<(EvidenceId, Arc<str>, Data)>,
    /// The question to a model that was granted. `None`: none was.
    sub_call: Option<SubCall>,
    markdown_chars: usize,
}

/// A granted question of a tool to a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SubCall {
    budget: SubCallBudget,
    tier: Tier,
    model: Arc<str>,
    meta: RequestMeta,
}

impl ToolWork {
    pub(crate) fn of(
        run: &Run,
        command: RunTool,
        registry: &Registry,
        traceparent: Option<TraceParent>,
    ) -> Self {
        let item = &run.started().item;
        let idempotency_key = run.idempotency_key(&command.key);
        let results = match registry.reads_results(&command.tool) {
            true => run.evidence().iter().map(earlier).collect(),
            false => Vec::new(),
        };
        let sub_call = command.sub_call.map(|budget| SubCall {
            budget,
            tier: run.auxiliary_tier(),
            model: Arc::clone(&run.spec().model(run.auxiliary_tier()).model),
            meta: RequestMeta {
                run: Arc::clone(&run.id().0),
                key: Arc::clone(&idempotency_key),
                purpose: Some(RequestPurpose::Filter),
                attempt: command.attempt,
                timeout_ms: Some(budget.timeout_ms),
                strict_cost: run.spec().limits.cost_mode == CostMode::Strict,
                traceparent,
            },
        });
        Self {
            key: command.key,
            attempt: command.attempt,
            tool: command.tool,
            parameters: command.parameters,
            effect: command.effect,
            timeout_ms: command.timeout_ms,
            scope: item.scope.clone(),
            title: Arc::clone(&item.title),
            idempotency_key,
            trace: Arc::clone(run.trace_id()),
            traceparent,
            results,
            sub_call,
            markdown_chars: run.spec().limits.markdown_chars as usize,
        }
    }

    /// The tier of the model that it may ask. `None`: it may ask none.
    pub(crate) fn asks(&self) -> Option<Tier> {
        self.sub_call.as_ref().map(|sub_call| sub_call.tier)
    }
}

/// A tool call that is ready to be made.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) work: ToolWork,
    context: ToolContext,
}

impl Dispatch {
    pub(crate) fn new(
        work: ToolWork,
        (model, prompts): (&Arc<dyn ChatModel>, &Arc<Prompts>),
        cancel: CancellationToken,
        hear: impl FnOnce() -> Hear,
    ) -> Self {
        let (title, key, trace) =
            (Arc::clone(&work.title), Arc::clone(&work.idempotency_key), Arc::clone(&work.trace));
        let mut context = ToolContext::of_run(work.scope.clone(), title, key, trace, cancel)
            .with_traceparent(work.traceparent);
        if !work.results.is_empty() {
            let results = work.results.iter().cloned();
            context = context
                .with_results(results.map(|(id, tool, data)| EarlierResult { id, tool, data }).collect());
        }
        if let Some(SubCall { budget, model: id, meta, .. }) = work.sub_call.clone() {
            let asker = Asker {
                model: Arc::clone(model),
                prompts: Arc::clone(prompts),
                id,
                budget,
                hear: hear(),
                meta,
            };
            context = context.with_ask(Arc::new(asker), budget.timeout_ms);
        }
        Self { context, work }
    }

    /// Runs the tool and says how it ended. The call is put together before it is awaited, so that its future holds it once.
    pub(crate) fn run(
        self,
        registry: &Registry,
        credentials: &Credentials,
    ) -> impl Future<Output = Settled> + Send + use<> {
        let Self { work, context } = self;
        let (key, attempt) = (work.key, work.attempt);
        let (tool, limit) = (&work.tool, work.timeout_ms);
        // It ends in time, and at once when it is cancelled, whatever the tool does.
        let call = registry.dispatch_shared(
            tool,
            &work.parameters,
            context,
            credentials,
            limit,
            work.markdown_chars,
        );
        // Not a block that awaits it: such a block has room for the call twice.
        call.map(move |observation| {
            let observation = bounded(observation).into();
            Settled::of(EventKind::ToolFinished { key, attempt, observation })
        })
    }
}

/// A settled result, for a tool that reads it again.
fn earlier(evidence: &Evidence) -> (EvidenceId, Arc<str>, Data) {
    (evidence.id, Arc::clone(&evidence.tool), evidence.observation.data.clone())
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

/// The cheap model behind a smart tool, within what was granted.
struct Asker {
    model: Arc<dyn ChatModel>,
    prompts: Arc<Prompts>,
    id: Arc<str>,
    budget: SubCallBudget,
    /// Receives what the question waits for.
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
        // The question ends with its time, and the tool with the run: no stop has to end its wait.
        let waits = Arc::new(Waits::new(&CancellationToken::new()));
        let request = ModelRequest {
            progress: waits.listener(&self.hear),
            model: Arc::clone(&self.id),
            system: prompt.system,
            messages: prompt.turns,
            max_output_tokens: Some(self.budget.output_tokens),
            meta: self.meta.clone(),
            ..ModelRequest::default()
        };
        let limit = Duration::from_millis(self.budget.timeout_ms);
        let late = |_| {
            let message = format!("no whole reply after {} ms", self.budget.timeout_ms);
            Err(LlmError::new(FailureKind::Timeout, ErrorPhase::Stream, message))
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
