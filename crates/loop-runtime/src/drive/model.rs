//! One call to a model: its stream is read piece by piece and cut off in time, and everything that was received counts.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use loop_core::reply::{FinishReason, Reply};
use loop_core::run::{CallModel, PersonRequest};
use loop_core::secrets::Secrets;
use loop_core::spec::{CostMode, Execution, MAX_REQUESTED_CALLS};
use loop_core::types::{
    CallExtent, FailureKind, ModelFailure, Receipt, RequestPart, Slot, Tier, ToolCall, Usage,
};
use loop_core::{EventKind, Run};
use loop_llm::codec::{Memory, OutputCap, short_line};
use loop_llm::error::{ErrorDetail, Partial, RequestChange, RetryAdvice};
use loop_llm::model::{ReplyEnd, masked};
use loop_llm::options::Caching;
use loop_llm::request::{AssistantTurn, RequestMeta};
use loop_llm::{ChatModel, ErrorPhase, LlmError, Message, ModelEvent, ModelReply, ModelRequest, ToolChoice};
use loop_prompts::Prompt;
use tokio::time::Instant;

use crate::drive::conversation::Conversation;
use crate::drive::eager::Collector;
use crate::watch::events::ReplyPart;
use crate::watch::waits::{CallEvent, OnEvent, SilenceTimer, Waits};

/// The model of each tier.
#[derive(Clone, Debug)]
pub struct Models {
    /// Selects tools, filters results and repairs contracts.
    pub selector: Arc<dyn ChatModel>,
    /// Analyses and revises.
    pub base: Arc<dyn ChatModel>,
    /// A more capable model, for passes after low confidence.
    pub escalated: Arc<dyn ChatModel>,
    /// Another route, for the rest of a run whose model is unavailable.
    pub fallback: Arc<dyn ChatModel>,
}

impl Models {
    /// One model for every tier.
    pub fn one(model: Arc<dyn ChatModel>) -> Self {
        Self {
            selector: Arc::clone(&model),
            base: Arc::clone(&model),
            escalated: Arc::clone(&model),
            fallback: model,
        }
    }

    /// The credentials that they use.
    pub(crate) fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        for model in [&self.selector, &self.base, &self.escalated, &self.fallback] {
            secrets.extend(&model.secrets());
        }
        secrets
    }

    pub(crate) fn of(&self, tier: Tier) -> &Arc<dyn ChatModel> {
        match tier {
            Tier::Selector => &self.selector,
            Tier::Base => &self.base,
            Tier::Escalated => &self.escalated,
            Tier::Fallback => &self.fallback,
        }
    }
}

/// The neutral request of a granted call. `memory` is what encoders keep of the conversation that it continues.
pub(crate) fn request(
    run: &Run,
    call: &CallModel,
    max_output_tokens: u64,
    prompt: &Prompt,
    memory: Memory,
) -> ModelRequest {
    ModelRequest {
        model: Arc::clone(&run.spec().model(call.tier).model),
        system: Arc::clone(&prompt.system),
        messages: prompt.turns.clone(),
        max_output_tokens: Some(max_output_tokens),
        // The calls of one run begin alike.
        cache: Caching::hint(Arc::clone(&run.id().0)),
        meta: meta(run, call),
        memory,
        ..ModelRequest::default()
    }
}

/// The neutral request of a granted call where calls are native. The messages are borrowed, and come back with what it
/// settles as.
pub(crate) fn native_request(
    run: &Run,
    call: &CallModel,
    max_output_tokens: u64,
    conversation: &mut Conversation,
    memory: Memory,
) -> ModelRequest {
    let left_out = |part| run.left_out().contains(&part);
    let mut messages = conversation.borrow();
    if left_out(RequestPart::LateInstruction) {
        messages = in_turns(messages);
    }
    let tool_choice = match call.key.slot {
        // The prompt says whether tools may be called, and a call of the last reply is not run.
        _ if left_out(RequestPart::ToolChoice) => ToolChoice::Auto,
        // The tools stay, so that the prefix stays the same.
        Slot::Final => ToolChoice::None,
        // It has to end with a call.
        _ if run.spec().protocol.output().is_some() => ToolChoice::Prefer,
        _ => ToolChoice::Auto,
    };
    ModelRequest {
        model: Arc::clone(&run.spec().model(call.tier).model),
        system: Arc::clone(conversation.system()),
        messages,
        tools: Arc::clone(conversation.tools()),
        tool_choice,
        one_call_at_a_time: run.spec().protocol.execution() == Execution::Single
            && !left_out(RequestPart::OneCall),
        max_output_tokens: Some(max_output_tokens),
        cache: Caching::hint(Arc::clone(&run.id().0)),
        meta: meta(run, call),
        memory,
        ..ModelRequest::default()
    }
}

/// The messages with instructions as the user's, and a turn of the model before each message of the user.
fn in_turns(messages: Vec<Message>) -> Vec<Message> {
    let mut turns: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        if is_late(turns.last(), &message) {
            turns.push(Message::Assistant(AssistantTurn { text: "OK.".into(), ..AssistantTurn::default() }));
        }
        turns.push(match message {
            Message::Operator { text } => Message::user(text),
            Message::User { .. } | Message::Assistant(_) | Message::Tool { .. } => message,
        });
    }
    turns
}

/// Whether some servers refuse this message after the one before it.
fn is_late(before: Option<&Message>, message: &Message) -> bool {
    let is_ours = match message {
        Message::User { .. } | Message::Operator { .. } => true,
        Message::Assistant(_) | Message::Tool { .. } => false,
    };
    is_ours && before.is_some_and(|before| !matches!(before, Message::Assistant(_)))
}

fn meta(run: &Run, call: &CallModel) -> RequestMeta {
    RequestMeta {
        run: Arc::clone(&run.id().0),
        key: call.key.to_string().into(),
        purpose: Some(call.key.slot.into()),
        attempt: call.attempt,
        timeout_ms: Some(call.timeout_ms),
        strict_cost: run.spec().limits.cost_mode == CostMode::Strict,
        traceparent: None,
    }
}

/// Makes the call and says how it ended; `retry_at` of a failure is left to the driver, who has the clock and cancels
/// the call when its end has come.
///
/// The request is boxed: a future has room for its arguments twice.
pub(crate) async fn call(
    model: Arc<dyn ChatModel>,
    mut request: Box<ModelRequest>,
    command: CallModel,
    ends: Instant,
    waits: Arc<Waits>,
    hear: OnEvent,
    early: Option<Collector>,
) -> WorkEnd {
    let (key, attempt) = (command.key, command.attempt);
    let mut received = StreamProgress { early, extent: CallExtent::Ended, ..StreamProgress::default() };
    request.progress = waits.listener(&hear);
    let result = tokio::select! {
        biased;
        () = waits.cancel.cancelled() => {
            // What was never sent costs nothing.
            let phase = if waits.is_free() { ErrorPhase::Encode } else { ErrorPhase::Stream };
            Err(match Instant::now() < ends {
                true => LlmError::new(FailureKind::Cancelled, phase, "the run stopped"),
                false => {
                    let message = format!("no whole reply after {} ms", command.timeout_ms);
                    LlmError::new(FailureKind::Timeout, phase, message)
                }
            })
        },
        result = AssertUnwindSafe(drain(model.as_ref(), &request, &mut received, &waits, &hear)).catch_unwind() => {
            result.unwrap_or_else(|_| Err(panicked()))
        }
    };
    let result = result.and_then(|reply| if request.tools.is_empty() { Ok(reply) } else { readable(reply) });
    let messages = Some(std::mem::take(&mut request.messages));
    match result {
        Ok(reply) => {
            let (calls, has_new_ids) = named(&reply.tool_calls, key.pass);
            let reported = received.usage.filter(|_| reply.usage.is_none()).unwrap_or_default();
            let received =
                Receipt { bytes: received.bytes.max(reply.bytes()), extent: received.extent, reported };
            let reply = Reply {
                received,
                text: Arc::clone(reply.shown()),
                calls,
                unread_calls: reply.unread_calls,
                reasoning: Some(Arc::clone(&reply.reasoning)).filter(|reasoning| !reasoning.is_empty()),
                finish: reply.finish,
                refusal: reply.refusal.clone().filter(|_| !reply.text.is_empty()),
                usage: reply.usage,
                cost: reply.cost,
                // Results would not find their calls in it.
                raw: reply.raw.filter(|_| !has_new_ids).map(|raw| Arc::clone(raw.text())),
                served_model: reply.served_model,
                warnings: reply.warnings,
            };
            WorkEnd { messages, ..WorkEnd::of(EventKind::ModelReplied { key, attempt, reply: reply.into() }) }
        }
        Err(error) => {
            let retry = match error.retry {
                RetryAdvice::Never | RetryAdvice::AfterChange(_) => None,
                RetryAdvice::After(delay) => Some(delay),
                // Half a second, then one, then two.
                RetryAdvice::Backoff => Some(Duration::from_millis(500 << attempt.saturating_sub(1).min(4))),
            };
            let refused = refused(&error, &request, messages.as_deref().unwrap_or_default(), key.slot);
            let failure = failure(error, received, OutputCap::of_request(&request));
            let failure = ModelFailure { refused, ..failure };
            WorkEnd {
                retry,
                messages,
                ..WorkEnd::of(EventKind::ModelFailed { key, attempt, failure: failure.into() })
            }
        }
    }
}

/// The part of this request that the provider refuses, where it has the part: by name, or as one that it has not had
/// before its last answer.
fn refused(
    error: &LlmError,
    request: &ModelRequest,
    messages: &[Message],
    slot: Slot,
) -> Option<RequestPart> {
    let RetryAdvice::AfterChange(change) = error.retry else { return None };
    let has_late = |messages: &[Message]| {
        messages.iter().any(|message| matches!(message, Message::Operator { .. }))
            || messages.iter().zip(messages.iter().skip(1)).any(|(before, it)| is_late(Some(before), it))
    };
    let answered = messages.iter().rposition(|message| matches!(message, Message::Assistant(_)));
    let has_choice = request.tool_choice != ToolChoice::Auto;
    match change {
        RequestChange::LeaveToolChoice if has_choice => Some(RequestPart::ToolChoice),
        RequestChange::LeaveOneCall if request.one_call_at_a_time => Some(RequestPart::OneCall),
        RequestChange::InstructAsUser if has_late(messages) => Some(RequestPart::LateInstruction),
        RequestChange::LeaveNew => {
            let is_first = answered.is_none();
            let new = messages.get(answered.unwrap_or(0)..).unwrap_or_default();
            [
                (has_choice && (is_first || slot == Slot::Final), RequestPart::ToolChoice),
                (has_late(new), RequestPart::LateInstruction),
                (request.one_call_at_a_time && is_first, RequestPart::OneCall),
            ]
            .into_iter()
            .find_map(|(is_new, part)| is_new.then_some(part))
        }
        RequestChange::LeaveToolChoice
        | RequestChange::LeaveOneCall
        | RequestChange::InstructAsUser
        | RequestChange::StripReasoning
        | RequestChange::RebuildState
        | RequestChange::OtherApi
        | RequestChange::Feedback => None,
    }
}

/// The reply, unless it was to call tools and its calls are garbled: nothing of it is run then, nor taken for an answer.
fn readable(reply: ModelReply) -> Result<ModelReply, LlmError> {
    if reply.stop != Some(ReplyEnd::MalformedToolCall) {
        return Ok(reply);
    }
    let message =
        reply.stop_detail.as_deref().unwrap_or("the reply was to call tools, and its calls are garbled");
    let mut error = LlmError::new(FailureKind::MalformedToolCall, ErrorPhase::Stream, message);
    let ModelReply { text, reasoning, usage, .. } = reply;
    error.partial = Some(Partial { text, reasoning, usage, ..Partial::default() }.into());
    Err(error)
}

/// The calls of a reply, each with an id of its own, and whether one had to be made.
fn named(calls: &[ToolCall], pass: u32) -> (Vec<ToolCall>, bool) {
    let mut named: Vec<ToolCall> = Vec::with_capacity(calls.len());
    // Those of a few calls are compared one by one.
    let mut further: BTreeSet<Arc<str>> = BTreeSet::new();
    // The number that the next made id may have, at least that of its call: each is tried once.
    let mut number = 1_u32;
    let mut has_new_ids = false;
    for (nth, call) in (1..).zip(calls) {
        number = number.max(nth);
        let mut id = Arc::clone(&call.id);
        let is_taken =
            |id: &Arc<str>| named.iter().take(FEW_CALLS).any(|other| other.id == *id) || further.contains(id);
        while id.is_empty() || is_taken(&id) {
            id = format!("call_{pass}_{number}").into();
            number = number.saturating_add(1);
            has_new_ids = true;
        }
        if named.len() >= FEW_CALLS {
            further.insert(Arc::clone(&id));
        }
        let (name, arguments) = (Arc::clone(&call.name), call.arguments.clone());
        named.push(ToolCall { id, name, arguments });
    }
    (named, has_new_ids)
}

/// How something in flight ended.
#[derive(Debug)]
pub(crate) struct WorkEnd {
    pub(crate) kind: EventKind,
    /// How long to wait before the next try.
    pub(crate) retry: Option<Duration>,
    /// The messages that a call was made with.
    pub(crate) messages: Option<Vec<Message>>,
    /// The number of the dispatch that it settles; 0 where it is not of a tool.
    pub(crate) dispatch: u64,
    /// What a run that was called as a tool asks people.
    pub(crate) asks: Vec<PersonRequest>,
}

impl WorkEnd {
    pub(crate) fn of(kind: EventKind) -> Self {
        Self { kind, retry: None, messages: None, dispatch: 0, asks: Vec::new() }
    }
}

/// What was heard of a reply so far, without secrets.
#[derive(Debug, Default)]
struct StreamProgress {
    text: String,
    /// Bytes of text, reasoning and calls.
    bytes: u64,
    /// How far a reply that is given back came: `Open` where it was cut on this side.
    extent: CallExtent,
    /// The model that serves, where the provider says.
    served_model: Option<Arc<str>>,
    usage: Option<Usage>,
    /// Whether the provider has taken the call: from then on it costs something.
    began: bool,
    /// Collects complete calls. `None`: none of them may start early.
    early: Option<Collector>,
}

async fn drain(
    model: &dyn ChatModel,
    request: &ModelRequest,
    received: &mut StreamProgress,
    waits: &Waits,
    hear: &OnEvent,
) -> Result<ModelReply, LlmError> {
    let mut quiet = SilenceTimer::new(waits, hear);
    let events = quiet.during(model.stream(request)).await?;
    let mut events = if model.masks() { events } else { masked(events, &request.secrets) };
    received.began = true;
    let cap = OutputCap::of_request(request);
    let mut pieces = 0_u32;
    while let Some(event) = quiet.during(events.next()).await {
        if !matches!(event, Ok(ModelEvent::KeepAlive)) {
            quiet.ends();
        }
        pieces = pieces.wrapping_add(1);
        if pieces.is_multiple_of(PIECES_A_TURN) {
            // A stream that is always ready must not keep the run from its clock and from a stop.
            tokio::task::yield_now().await;
        }
        let event = event?;
        received.bytes = received.bytes.saturating_add(bytes_of(&event));
        // Text, reasoning and calls alike. Our own decoders have cut it by then; another model may continue.
        let is_beyond = received.bytes > cap.bytes as u64;
        if let Some(early) = received.early.as_mut().filter(|_| !is_beyond) {
            early.hear(&event);
        }
        match event {
            ModelEvent::TextDelta { text } => {
                if received.text.is_empty() {
                    received.text.reserve(TEXT_BYTES);
                }
                received.text.push_str(&text);
                if !is_beyond {
                    hear(CallEvent::Text(&text));
                }
            }
            ModelEvent::Usage(usage) => received.usage = Some(usage),
            ModelEvent::Finished(reply) => {
                let reply = cap.hold(*reply);
                if reply.finish == FinishReason::Capped && reply.usage.is_none() {
                    received.extent = CallExtent::Open;
                    received.usage = received.usage.filter(|usage| cap.counts(*usage));
                }
                return Ok(reply);
            }
            ModelEvent::Started { model, .. } => received.served_model = model,
            ModelEvent::ReasoningDelta { .. }
            | ModelEvent::ToolCallStarted { .. }
            | ModelEvent::ToolArgumentsDelta { .. }
                if is_beyond => {}
            ModelEvent::ReasoningDelta { text } => hear(CallEvent::Part(ReplyPart::Reasoning { text })),
            ModelEvent::ToolCallStarted { nth, name } if nth < MAX_REQUESTED_CALLS => {
                hear(CallEvent::Part(ReplyPart::ToolCall { nth, name }));
            }
            ModelEvent::ToolArgumentsDelta { nth, text } if nth < MAX_REQUESTED_CALLS => {
                hear(CallEvent::Part(ReplyPart::Arguments { nth, text }));
            }
            ModelEvent::ToolCallStarted { .. } | ModelEvent::ToolArgumentsDelta { .. } => {}
            ModelEvent::ToolCallCompleted { .. } | ModelEvent::KeepAlive => {}
        }
        if is_beyond {
            received.extent = CallExtent::Open;
            received.usage = received.usage.filter(|usage| cap.counts(*usage));
            return Ok(cap.cut(&received.text, /*usage*/ None));
        }
    }
    Err(LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "the reply ended without its end"))
}

/// What a client that panicked returns: it is not known how far its call came.
fn panicked() -> LlmError {
    let mut error =
        LlmError::new(FailureKind::BadResponse, ErrorPhase::Stream, "the model's client panicked");
    error.detail = Some(ErrorDetail { may_have_begun: true, ..ErrorDetail::default() }.into());
    error
}

/// Bytes that an event adds to what was received.
pub(crate) fn bytes_of(event: &ModelEvent) -> u64 {
    let bytes = match event {
        ModelEvent::TextDelta { text }
        | ModelEvent::ReasoningDelta { text }
        | ModelEvent::ToolArgumentsDelta { text, .. } => text.len(),
        ModelEvent::ToolCallStarted { name, .. } => name.len(),
        ModelEvent::Started { .. }
        | ModelEvent::Usage(_)
        | ModelEvent::ToolCallCompleted { .. }
        | ModelEvent::KeepAlive
        | ModelEvent::Finished(_) => 0,
    };
    bytes as u64
}

fn failure(error: LlmError, received: StreamProgress, cap: OutputCap) -> ModelFailure {
    // A call that no model saw costs nothing; one that it saw costs its reserve unless the provider says.
    let is_free = error.is_free() && !received.began;
    let message = match error.retry {
        RetryAdvice::After(delay) if delay >= LONG_WAIT => {
            format!("{}; it may be tried again in {} s", error.message, delay.as_secs()).into()
        }
        RetryAdvice::After(_) | RetryAdvice::Backoff | RetryAdvice::Never | RetryAdvice::AfterChange(_) => {
            Arc::clone(&error.message)
        }
    };
    // A model that garbled a call may write it well the next time; any other change is not ours to make.
    let retryable = match error.retry {
        RetryAdvice::Never => false,
        RetryAdvice::AfterChange(change) => change == RequestChange::Feedback,
        RetryAdvice::After(_) | RetryAdvice::Backoff => true,
    };
    let reported = error.partial.as_ref().map_or(0, |partial| partial.bytes());
    let bytes = received.bytes.max(reported);
    let extent = match error.extent() {
        // Calls and reasoning that are not in what the error tells were heard all the same.
        CallExtent::NoReply if bytes > 0 => CallExtent::Open,
        extent => extent,
    };
    let served = error.partial.as_ref().and_then(|partial| partial.served_model.clone());
    let served_model = served.or(received.served_model);
    // What the client says at the end counts, also where it takes an earlier count back. What was reported before a reply
    // broke off are not the tokens of the whole.
    let (text, usage, so_far) = match error.partial {
        Some(reported) if reported.text.is_empty() => {
            (received.text.into(), reported.usage, reported.usage_so_far)
        }
        Some(reported) => (reported.text, reported.usage, reported.usage_so_far),
        None => (received.text.into(), None, received.usage),
    };
    ModelFailure {
        refused: None,
        kind: error.kind,
        message: short_line(&message),
        retryable,
        retry_at: None,
        partial: (!text.is_empty()).then(|| cap.hold_text(&text)),
        served_model,
        usage: if is_free { Some(Usage::default()) } else { usage },
        received: Receipt { bytes, extent, reported: so_far.unwrap_or_default() },
    }
}

/// A wait that a person would want to know of.
const LONG_WAIT: Duration = Duration::from_secs(10);
/// Room for the text of a reply, from its first piece on.
const TEXT_BYTES: usize = 256;
/// So many calls are usual in a reply.
const FEW_CALLS: usize = 32;
/// After how many pieces a stream lets others run.
const PIECES_A_TURN: u32 = 64;
