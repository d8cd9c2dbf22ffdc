//! One tool call: dispatched through the registry, with a model to ask where that was granted.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use loop_core::run::RunTool;
use loop_core::types::{
    Arguments, CommandKey, Data, Effect, EvidenceId, Observation, Scope, Tier, TraceParent,
};
use loop_core::{EventKind, Evidence, Run};
use loop_llm::ChatModel;
use loop_llm::scripted::RequestPurpose;
use loop_prompts::{FilterQuestion, Prompts};
use loop_tools::ask::{AskError, ChoiceRequest, SubCallReply};
use loop_tools::results::EarlierResult;
use loop_tools::{AskModel, Credentials, Registry, ToolContext};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::drive::model::WorkEnd;
use crate::drive::sub_call::{Question, SubCall, SubReply};
use crate::watch::waits::OnEvent;

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
    /// Parallel other calls of the batch never share it, every retry of one action reuses it.
    idempotency_key: Arc<str>,
    trace: Arc<str>,
    traceparent: Option<TraceParent>,
    /// The results of the run, of a tool that reads them.
    results: Vec<(EvidenceId, Arc<str>, Data)>,
    /// The question to a model that was granted. `None`: none was.
    sub_call: Option<SubCall>,
    /// Whether it has a lease. Here no run takes it: it is mocked, or an engine drives the caller.
    #[serde(default)]
    is_leased: bool,
    markdown_chars: usize,
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
        let sub_call = command.sub_call.map(|budget| {
            let of = (command.key, command.attempt);
            SubCall::of(run, of, RequestPurpose::Filter, budget, traceparent)
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
            is_leased: command.lease.is_some(),
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
        model: &Arc<dyn ChatModel>,
        prompts: &Arc<Prompts>,
        cancel: CancellationToken,
        hear: impl FnOnce() -> OnEvent,
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
        if let Some(sub_call) = work.sub_call.clone() {
            let timeout_ms = sub_call.budget.timeout_ms;
            let (model, prompts) = (Arc::clone(model), Arc::clone(prompts));
            let asker = SmartToolModel { model, prompts, sub_call, hear: hear() };
            context = context.with_ask(Arc::new(asker), timeout_ms);
        }
        Self { context, work }
    }

    /// Runs the tool and says how it ended. The call is put together before it is awaited, so that its future holds it once.
    pub(crate) fn run(
        self,
        registry: &Registry,
        credentials: &Credentials,
    ) -> impl Future<Output = WorkEnd> + Send + use<> {
        let Self { work, context } = self;
        let (key, attempt, is_leased) = (work.key, work.attempt, work.is_leased);
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
            let mut observation = bounded(observation);
            observation.child = is_leased.then(Box::default);
            let observation = observation.into();
            WorkEnd::of(EventKind::ToolFinished { key, attempt, observation })
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

/// The cheap model behind a smart tool, within what was granted.
struct SmartToolModel {
    model: Arc<dyn ChatModel>,
    prompts: Arc<Prompts>,
    sub_call: SubCall,
    /// Receives what the question waits for.
    hear: OnEvent,
}

impl fmt::Debug for SmartToolModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmartToolModel").field("sub_call", &self.sub_call).finish_non_exhaustive()
    }
}

#[async_trait]
impl AskModel for SmartToolModel {
    async fn choose(&self, request: &ChoiceRequest) -> Result<SubCallReply, AskError> {
        let prompt = self.prompts.filter(FilterQuestion {
            title: &request.title,
            target: request.target.as_deref(),
            instruction: request.instruction.as_deref(),
            results: &request.candidates,
            bytes: self.sub_call.budget.bytes,
        });
        let SubReply { reply, usage, received, served_model } =
            self.sub_call.ask(self.model.as_ref(), &Question::of(prompt), &self.hear).await;
        match reply {
            Ok(reply) => Ok(SubCallReply { text: reply.text.to_string(), usage, received, served_model }),
            Err(message) => Err(AskError { message, usage, received, served_model }),
        }
    }
}
