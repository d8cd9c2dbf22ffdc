//! Spans of model calls and tool calls.

use std::sync::Arc;

use loop_core::reply::Reply;
use loop_core::types::{
    CommandKey, Millis, ModelFailure, Observation, PicoUsd, Slot, SpanId, Status, SubCallUse, Tier, Usage,
};
use loop_core::{EventKind, Note};
use loop_runtime::journal::Entry;
use opentelemetry::trace::{Event, SpanKind, Status as SpanStatus};
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents};

use crate::content;
use crate::data::{self, Attributes, Record};
use crate::meter;
use crate::model::{CallName, CallTiming};
use crate::names::{self, provider};
use crate::spans::{Export, OpenCall, OpenTool, RunSpans, record, with_usage};

impl RunSpans {
    /// Ends the span of a model call.
    pub(crate) fn call_ends(
        &mut self,
        call: (CommandKey, u32),
        ended: Result<&Reply, &ModelFailure>,
        entry: &Entry,
        out: Export<'_>,
    ) {
        let at = entry.event.at;
        let (key, attempt) = call;
        // One that was announced by an entry that was missed began at the latest with the entry before.
        let unannounced = OpenCall { at, ..OpenCall::default() };
        let OpenCall { at: began, tier, max_tokens, events } =
            self.open_calls.remove(&call).unwrap_or(unannounced);
        let id = SpanId::of_call(self.run(), key, attempt);
        let timing = self.timing((key.to_string().into(), attempt), /*is_inner*/ false, out);
        let tier = tier.unwrap_or(Tier::Base);
        let error = ended.err().map(|failure| failure.kind.name());
        let attributes = self
            .call_attributes(tier, purpose(key.slot))
            .with(names::KEY, key.to_string())
            .count(names::PASS, key.pass)
            .count_some(names::REQUEST_MAX_TOKENS, max_tokens)
            .with_some(names::ATTEMPT, (attempt > 1).then_some(i64::from(attempt)))
            .with_some(names::CONVERSATION_COMPACTED, self.is_compacted.then_some(true));
        let charged = charged(entry, key, attempt);
        let attributes = with_charge(attributes, charged);
        let served = match &ended {
            Ok(reply) => reply.served_model.as_deref(),
            Err(failure) => failure.served_model.as_deref(),
        }
        .map(str::to_owned);
        let finish = match ended {
            Ok(reply) => content::finish_reason(reply.finish),
            Err(_) => "error",
        };
        let attributes = attributes
            .with(names::FINISH_REASONS, Value::Array(Array::String(vec![finish.into()])))
            .with_some(names::RESPONSE_MODEL, served)
            .with_some(names::ERROR_TYPE, error);
        let attributes = with_timing(attributes, timing.as_ref());
        let model = self.spec.model(tier).model.to_string();
        let mut span = SpanData {
            span_kind: SpanKind::Client,
            events: span_events(events),
            status: failed(ended.err().map(|failure| failure.message.to_string())),
            ..self.span(
                id,
                Some(SpanId::of_pass(self.run(), key.pass)),
                format!("{} {model}", names::CHAT),
                (began, at),
            )
        };
        self.measure(tier, timing.as_ref(), data::seconds(&span), error, out);
        let config = &out.shared.config;
        let content = |asked: bool| match asked && out.sends {
            true => with_content(attributes.clone(), timing.as_ref(), ended.ok()),
            false => attributes.clone(),
        };
        if config.content_in_events {
            let attributes = content(true);
            out.tell(Record { attributes, ..record(names::CALL_DETAILS_EVENT, String::new(), &span) });
        }
        span.attributes = content(config.content_in_spans).0;
        if let Err(failure) = ended {
            let attributes = attributes
                .with(names::EXCEPTION_TYPE, failure.kind.name())
                .with(names::EXCEPTION_MESSAGE, failure.message.to_string());
            let record = record(names::CALL_EXCEPTION_EVENT, failure.line().to_string(), &span);
            out.tell(Record { is_warning: true, attributes, ..record });
        }
        self.send(out, span);
    }

    /// Ends the span of a tool call.
    pub(crate) fn tool_ends(
        &mut self,
        call: (CommandKey, u32),
        observation: &Observation,
        entry: &Entry,
        out: Export<'_>,
    ) {
        let (key, attempt) = call;
        let Some(open) = self.tools.remove(&call) else {
            // It was not dispatched here: by an earlier driver, or not at all.
            if !out.sends {
                self.tool_calls += 1;
            }
            return;
        };
        self.tool_calls += 1;
        let at = entry.event.at;
        let status = observation.status;
        let error = is_failure(status).then(|| status.name());
        let mut attributes = self
            .tool_attributes(call, &open)
            .with(names::TOOL_STATUS, status.name())
            .with_some(names::ERROR_TYPE, error);
        if out.sends && out.shared.config.content_in_spans {
            let arguments =
                open.parameters.as_ref().map(|parameters| content::of_tool(parameters.text()).to_owned());
            attributes = attributes
                .with_some(names::TOOL_ARGUMENTS, arguments)
                .with(names::TOOL_RESULT, content::of_tool(&observation.markdown).to_owned());
        }
        let span = SpanData {
            attributes: attributes.0,
            // The summary of a failure may repeat what a server said.
            status: failed(error.map(str::to_owned)),
            ..self.tool_span(call, &open, at)
        };
        self.measure_tool(&open.tool, data::seconds(&span), error, out);
        if let Some(used) = &observation.sub_call {
            let asked = SideQuestion {
                call,
                name: Arc::clone(&open.key),
                tier: Tier::Selector,
                purpose: "filter",
                parent: span.span_context.span_id(),
                times: (span.start_time, span.end_time),
            };
            self.sub_call(asked, used, charged(entry, key, attempt), out);
        }
        self.send(out, span);
    }

    /// Ends the span of a call without a recorded end: an earlier driver left it in flight, or the end of the run
    /// cancelled it.
    pub(crate) fn lost(&mut self, call: (CommandKey, u32), at: Millis, out: Export<'_>) {
        let id = SpanId::of_call(self.run(), call.0, call.1);
        if let Some(OpenCall { at: began, tier, events, .. }) = self.open_calls.remove(&call) {
            let tier = tier.unwrap_or(Tier::Base);
            let attributes = self.call_attributes(tier, purpose(call.0.slot)).with(names::ERROR_TYPE, LOST);
            let name = format!("{} {}", names::CHAT, self.spec.model(tier).model);
            let parent = Some(SpanId::of_pass(self.run(), call.0.pass));
            let span = self.span(id, parent, name, (began, at));
            let (span_kind, events, attributes) = (SpanKind::Client, span_events(events), attributes.0);
            self.send(
                out,
                SpanData { span_kind, events, attributes, status: SpanStatus::error(LOST), ..span },
            );
        }
        if let Some(open) = self.tools.remove(&call) {
            let attributes = self.tool_attributes(call, &open).with(names::ERROR_TYPE, LOST);
            let span = self.tool_span(call, &open, at);
            self.send(out, SpanData { attributes: attributes.0, status: SpanStatus::error(LOST), ..span });
        }
    }

    /// Adds the span of the model call of a check.
    pub(crate) fn check_ends(
        &mut self,
        call: (CommandKey, u32),
        used: &SubCallUse,
        began: Millis,
        entry: &Entry,
        out: Export<'_>,
    ) {
        let (key, attempt) = call;
        let opinion = self.spec.gate.second_opinion;
        let asked = SideQuestion {
            call,
            name: format!("{}/{key}", self.run()).into(),
            tier: opinion.map_or(Tier::Selector, |it| it.tier),
            purpose: "opinion",
            parent: data::sdk_id(SpanId::of_pass(self.run(), key.pass)),
            times: (data::time(self.unix_ms(began)), data::time(self.unix_ms(entry.event.at))),
        };
        self.sub_call(asked, used, charged(entry, key, attempt), out);
    }

    /// Adds the span of a model call by a smart tool or a check.
    fn sub_call(
        &mut self,
        asked: SideQuestion,
        used: &SubCallUse,
        charged: Option<(&Usage, Option<PicoUsd>)>,
        out: Export<'_>,
    ) {
        let SideQuestion { call: (key, attempt), name, tier, purpose, parent, times: (began, ended) } = asked;
        self.model_calls += 1;
        let id = SpanId::of_call(self.run(), key, attempt).inner();
        let timing = self.timing((name, attempt), /*is_inner*/ true, out);
        let attributes = self
            .call_attributes(tier, purpose)
            .with_some(names::RESPONSE_MODEL, used.served_model.as_deref().map(str::to_owned))
            .with_some(names::ERROR_TYPE, timing.as_ref().and_then(|timing| timing.error));
        let attributes = with_timing(with_charge(attributes, charged), timing.as_ref());
        let within = |unix_ms| data::time(unix_ms).clamp(began, ended);
        let (start_time, end_time) =
            timing.as_ref().map_or((began, ended), |timing| (within(timing.start_ms), within(timing.end_ms)));
        let span_name = format!("{} {}", names::CHAT, self.spec.model(tier).model);
        let error = timing.as_ref().and_then(|timing| timing.error);
        let span = SpanData {
            span_kind: SpanKind::Client,
            parent_span_id: parent,
            start_time,
            end_time,
            attributes: attributes.0,
            status: failed(error.map(str::to_owned)),
            ..self.span(id, None, span_name, (Millis(0), Millis(0)))
        };
        self.measure(tier, timing.as_ref(), data::seconds(&span), error, out);
        self.send(out, span);
    }

    /// The timing of a call, as the client measured it.
    fn timing(&self, (key, attempt): (Arc<str>, u32), is_inner: bool, out: Export<'_>) -> Option<CallTiming> {
        let run = Arc::clone(&self.run().0);
        out.shared.take_timing(&CallName { run, key, attempt, is_inner })
    }

    fn measure(
        &self,
        tier: Tier,
        timing: Option<&CallTiming>,
        journaled: f64,
        error: Option<&'static str>,
        out: Export<'_>,
    ) {
        let seconds = timing.map_or(journaled, |timing| timing.whole);
        let mut labels = self.model_labels(tier);
        if let Some(first) = timing.and_then(|timing| timing.first_chunk) {
            out.record(meter::CALL_FIRST_CHUNK, &labels, first);
        }
        labels.extend(error.map(|error| KeyValue::new(names::ERROR_TYPE, error)));
        out.record(meter::CALL_DURATION, &labels, seconds);
    }

    fn measure_tool(&self, tool: &str, seconds: f64, error: Option<&'static str>, out: Export<'_>) {
        let mut labels = self.domain_labels();
        labels.push(KeyValue::new(names::TOOL_NAME, tool.to_owned()));
        labels.push(KeyValue::new(names::TOOL_TYPE, FUNCTION));
        labels.extend(error.map(|error| KeyValue::new(names::ERROR_TYPE, error)));
        out.record(meter::TOOL_DURATION, &labels, seconds);
    }

    fn call_attributes(&self, tier: Tier, purpose: &'static str) -> Attributes {
        let model = self.spec.model(tier);
        Attributes::default()
            .with(names::OPERATION, names::CHAT)
            .with(names::PROVIDER, provider(&model.provider).to_owned())
            .with(names::REQUEST_MODEL, model.model.to_string())
            .with(names::AGENT_NAME, self.spec.domain.to_string())
            .with(names::CONVERSATION_ID, self.run_id())
            .with(names::PURPOSE, purpose)
            .with(names::TIER, tier.name())
    }

    fn tool_attributes(&self, (key, attempt): (CommandKey, u32), open: &OpenTool) -> Attributes {
        Attributes::default()
            .with(names::OPERATION, names::EXECUTE_TOOL)
            .with(names::TOOL_NAME, open.tool.to_string())
            .with(names::TOOL_TYPE, FUNCTION)
            .with(names::AGENT_NAME, self.spec.domain.to_string())
            .with(names::KEY, key.to_string())
            .count(names::PASS, key.pass)
            .with_some(names::TOOL_CALL_ID, self.call_ids.get(&key).map(Arc::clone))
            .with_some(names::ATTEMPT, (attempt > 1).then_some(i64::from(attempt)))
            .with_some(names::EAGER, open.is_eager.then_some(true))
    }

    fn tool_span(&self, (key, attempt): (CommandKey, u32), open: &OpenTool, at: Millis) -> SpanData {
        let parent = Some(SpanId::of_pass(self.run(), key.pass));
        let name = format!("{} {}", names::EXECUTE_TOOL, open.tool);
        self.span(SpanId::of_call(self.run(), key, attempt), parent, name, (open.at, at))
    }
}

fn span_events(events: Vec<Event>) -> SpanEvents {
    let mut all = SpanEvents::default();
    all.events = events;
    all
}

fn failed(error: Option<String>) -> SpanStatus {
    error.map_or(SpanStatus::Unset, SpanStatus::error)
}

/// The usage and the cost of a call, as the core charged it.
fn charged(entry: &Entry, key: CommandKey, attempt: u32) -> Option<(&Usage, Option<PicoUsd>)> {
    debug_assert!(!matches!(entry.event.kind, EventKind::Started(_)));
    entry.notes.iter().find_map(|note| match note {
        Note::CallCharged { key: of, attempt: tried, usage, cost, .. } if (*of, *tried) == (key, attempt) => {
            Some((usage, *cost))
        }
        _ => None,
    })
}

fn with_charge(attributes: Attributes, charged: Option<(&Usage, Option<PicoUsd>)>) -> Attributes {
    match charged {
        Some((usage, cost)) => {
            with_usage(attributes, usage).with_some(names::COST, cost.map(PicoUsd::as_usd))
        }
        None => attributes,
    }
}

fn with_timing(attributes: Attributes, timing: Option<&CallTiming>) -> Attributes {
    let Some(timing) = timing else { return attributes };
    attributes
        .with(names::REQUEST_STREAM, timing.is_streamed)
        .with_some(names::RESPONSE_ID, timing.reply.clone())
        .with_some(names::TIME_TO_FIRST_CHUNK, timing.first_chunk)
}

fn with_content(attributes: Attributes, timing: Option<&CallTiming>, reply: Option<&Reply>) -> Attributes {
    attributes
        .with_some(names::SYSTEM_INSTRUCTIONS, timing.and_then(|timing| timing.system.clone()))
        .with_some(names::INPUT_MESSAGES, timing.and_then(|timing| timing.input.clone()))
        .with_some(names::OUTPUT_MESSAGES, reply.map(content::output))
}

/// A model call outside of the passes.
struct SideQuestion {
    call: (CommandKey, u32),
    /// As the model client names it.
    name: Arc<str>,
    tier: Tier,
    purpose: &'static str,
    parent: opentelemetry::SpanId,
    times: (std::time::SystemTime, std::time::SystemTime),
}

fn purpose(slot: Slot) -> &'static str {
    match slot {
        Slot::Select => "select",
        Slot::Repair => "repair",
        Slot::Final => "final",
        Slot::Main | Slot::Action(_) | Slot::Check | Slot::Save | Slot::Inherited(_) => "main",
    }
}

/// Whether a status is a failure of the tool. An empty result, a pending one and a call that was not run are not.
fn is_failure(status: Status) -> bool {
    match status {
        Status::Ok
        | Status::Empty
        | Status::Denied
        | Status::Duplicate
        | Status::Skipped
        | Status::Pending => false,
        Status::RetryableError
        | Status::PermanentError
        | Status::InvalidInput
        | Status::MalformedResult
        | Status::Timeout
        | Status::Cancelled
        | Status::InDoubt => true,
    }
}

/// The `gen_ai.tool.type` of each tool: this program executes it.
const FUNCTION: &str = "function";
/// The `error.type` of a call without a recorded end.
const LOST: &str = "lost";
