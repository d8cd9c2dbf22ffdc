//! The spans of calls: to models and to tools.

use std::sync::Arc;

use loop_core::{
    CommandKey, EventKind, Millis, ModelFailure, Note, Observation, PicoUsd, Reply, Slot, SpanId, Status,
    SubCallUse, Tier, Usage,
};
use loop_runtime::journal::Entry;

use crate::content;
use crate::data::{Attributes, Record, Span, SpanKind};
use crate::meter;
use crate::model::{CallName, CallTiming};
use crate::names::{self, provider};
use crate::spans::{OpenCall, OpenTool, Out, RunSpans, with_usage};

impl RunSpans {
    /// A model call has ended.
    pub(crate) fn call_ends(
        &mut self,
        call: (CommandKey, u32),
        ended: Result<&Reply, &ModelFailure>,
        entry: &Entry,
        out: Out<'_>,
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
            .with(names::PASS, key.pass)
            .with_some(names::REQUEST_MAX_TOKENS, (max_tokens > 0).then_some(max_tokens))
            .with_some(names::ATTEMPT, (attempt > 1).then_some(attempt))
            .with_some(names::CONVERSATION_COMPACTED, self.is_compacted.then_some(true));
        let charged = charged(entry, key, attempt);
        let attributes = with_charge(attributes, charged);
        let served = match &ended {
            Ok(reply) => reply.served_model.as_deref(),
            Err(failure) => failure.served_model.as_deref(),
        };
        let finish = match ended {
            Ok(reply) => content::finish_reason(reply.finish),
            Err(_) => "error",
        };
        let attributes = attributes
            .with(names::FINISH_REASONS, crate::data::Value::Texts(vec![finish.to_owned()]))
            .with_some(names::RESPONSE_MODEL, served)
            .with_some(names::ERROR_TYPE, error);
        let attributes = with_timing(attributes, timing.as_ref());
        let model = self.spec.model(tier).model.to_string();
        let mut span = Span {
            kind: SpanKind::Client,
            events,
            error: ended.err().map(|failure| failure.message.to_string()),
            attributes: attributes.clone(),
            ..self.span(
                id,
                Some(SpanId::of_pass(self.run(), key.pass)),
                format!("{} {model}", names::CHAT),
                (began, at),
            )
        };
        let config = &out.shared.config;
        if out.sends && config.content_in_spans {
            span.attributes = with_content(span.attributes, timing.as_ref(), ended.ok());
        }
        let (start_ms, end_ms) = (span.start_ms, span.end_ms);
        self.send(out, span);
        self.measure(tier, timing.as_ref(), end_ms.saturating_sub(start_ms), error, out);
        if out.sends && config.content_in_events {
            let attributes = with_content(attributes.clone(), timing.as_ref(), ended.ok());
            let record = self.record(names::CALL_DETAILS_EVENT, String::new(), id, end_ms);
            self.tell(out, Record { attributes, ..record });
        }
        if let Err(failure) = ended {
            let attributes = attributes
                .with(names::EXCEPTION_TYPE, failure.kind.name())
                .with(names::EXCEPTION_MESSAGE, &*failure.message);
            let record = self.record(names::CALL_EXCEPTION_EVENT, failure.line().to_string(), id, end_ms);
            self.tell(out, Record { is_warning: true, attributes, ..record });
        }
    }

    /// A tool call has ended.
    pub(crate) fn tool_ends(
        &mut self,
        call: (CommandKey, u32),
        observation: &Observation,
        entry: &Entry,
        out: Out<'_>,
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
            if let Some(parameters) = &open.parameters {
                attributes.set(names::TOOL_ARGUMENTS, content::of_tool(parameters.text()));
            }
            attributes.set(names::TOOL_RESULT, content::of_tool(&observation.markdown));
        }
        let span = Span {
            attributes,
            // The summary of a failure may repeat what a server said.
            error: error.map(str::to_owned),
            ..self.tool_span(call, &open, at)
        };
        let seconds = span.end_ms.saturating_sub(span.start_ms) as f64 / 1_000.0;
        if let Some(used) = &observation.sub_call {
            self.sub_call(call, &open.key, &span, used, charged(entry, key, attempt), out);
        }
        self.send(out, span);
        self.measure_tool(&open.tool, seconds, error, out);
    }

    /// A call that an earlier driver left in flight, or that the end of the run cut off.
    pub(crate) fn lost(&mut self, call: (CommandKey, u32), at: Millis, out: Out<'_>) {
        let id = SpanId::of_call(self.run(), call.0, call.1);
        if let Some(OpenCall { at: began, tier, events, .. }) = self.open_calls.remove(&call) {
            let tier = tier.unwrap_or(Tier::Base);
            let attributes = self.call_attributes(tier, purpose(call.0.slot)).with(names::ERROR_TYPE, LOST);
            let name = format!("{} {}", names::CHAT, self.spec.model(tier).model);
            let parent = Some(SpanId::of_pass(self.run(), call.0.pass));
            let span = self.span(id, parent, name, (began, at));
            let (kind, error) = (SpanKind::Client, Some(LOST.to_owned()));
            self.send(out, Span { kind, events, attributes, error, ..span });
        }
        if let Some(open) = self.tools.remove(&call) {
            let attributes = self.tool_attributes(call, &open).with(names::ERROR_TYPE, LOST);
            let span = self.tool_span(call, &open, at);
            self.send(out, Span { attributes, error: Some(LOST.to_owned()), ..span });
        }
    }

    /// The question of a smart tool to a model.
    fn sub_call(
        &mut self,
        (key, attempt): (CommandKey, u32),
        name: &Arc<str>,
        tool: &Span,
        used: &SubCallUse,
        charged: Option<(&Usage, Option<PicoUsd>)>,
        out: Out<'_>,
    ) {
        self.model_calls += 1;
        let id = SpanId::of_call(self.run(), key, attempt).inner();
        let timing = self.timing((Arc::clone(name), attempt), /*is_inner*/ true, out);
        let tier = Tier::Selector;
        let attributes = self
            .call_attributes(tier, "filter")
            .with_some(names::RESPONSE_MODEL, used.served_model.as_deref())
            .with_some(names::ERROR_TYPE, timing.as_ref().and_then(|timing| timing.error));
        let attributes = with_timing(with_charge(attributes, charged), timing.as_ref());
        let within = |unix_ms: u64| unix_ms.clamp(tool.start_ms, tool.end_ms.max(tool.start_ms));
        let (start_ms, end_ms) = timing
            .as_ref()
            .map_or((tool.start_ms, tool.end_ms), |timing| (within(timing.start_ms), within(timing.end_ms)));
        let span_name = format!("{} {}", names::CHAT, self.spec.model(tier).model);
        let error = timing.as_ref().and_then(|timing| timing.error);
        let span = Span {
            kind: SpanKind::Client,
            parent: Some(tool.id),
            id,
            name: span_name,
            start_ms,
            end_ms,
            attributes,
            events: Vec::new(),
            link: None,
            error: error.map(str::to_owned),
            trace: tool.trace,
        };
        self.send(out, span);
        self.measure(tier, timing.as_ref(), end_ms.saturating_sub(start_ms), error, out);
    }

    /// What the client knows of a call.
    fn timing(&self, (key, attempt): (Arc<str>, u32), is_inner: bool, out: Out<'_>) -> Option<CallTiming> {
        let run = Arc::clone(&self.run().0);
        out.shared.take_timing(&CallName { run, key, attempt, is_inner })
    }

    fn measure(
        &self,
        tier: Tier,
        timing: Option<&CallTiming>,
        journaled_ms: u64,
        error: Option<&'static str>,
        out: Out<'_>,
    ) {
        let seconds = timing.map_or(journaled_ms as f64 / 1_000.0, |timing| timing.whole);
        let mut labels = self.model_labels(tier);
        if let Some(first) = timing.and_then(|timing| timing.first_chunk) {
            out.record(meter::CALL_FIRST_CHUNK, labels.clone(), first);
        }
        labels.extend(error.map(|error| (names::ERROR_TYPE, error.to_owned())));
        out.record(meter::CALL_DURATION, labels, seconds);
    }

    fn measure_tool(&self, tool: &str, seconds: f64, error: Option<&'static str>, out: Out<'_>) {
        let mut labels = self.domain_labels();
        labels.push((names::TOOL_NAME, tool.to_owned()));
        labels.extend(error.map(|error| (names::ERROR_TYPE, error.to_owned())));
        out.record(meter::TOOL_DURATION, labels, seconds);
    }

    fn call_attributes(&self, tier: Tier, purpose: &'static str) -> Attributes {
        let model = self.spec.model(tier);
        Attributes::default()
            .with(names::OPERATION, names::CHAT)
            .with(names::PROVIDER, provider(&model.provider))
            .with(names::REQUEST_MODEL, &*model.model)
            .with(names::AGENT_NAME, &*self.spec.domain)
            .with(names::CONVERSATION_ID, self.run().as_str())
            .with(names::PURPOSE, purpose)
            .with(names::TIER, tier.name())
    }

    fn tool_attributes(&self, (key, attempt): (CommandKey, u32), open: &OpenTool) -> Attributes {
        Attributes::default()
            .with(names::OPERATION, names::EXECUTE_TOOL)
            .with(names::TOOL_NAME, &*open.tool)
            .with(names::TOOL_TYPE, "function")
            .with(names::AGENT_NAME, &*self.spec.domain)
            .with(names::KEY, key.to_string())
            .with(names::PASS, key.pass)
            .with_some(names::TOOL_CALL_ID, self.call_ids.get(&key).map(|id| &**id))
            .with_some(names::ATTEMPT, (attempt > 1).then_some(attempt))
            .with_some(names::EAGER, open.is_eager.then_some(true))
    }

    fn tool_span(&self, (key, attempt): (CommandKey, u32), open: &OpenTool, at: Millis) -> Span {
        let parent = Some(SpanId::of_pass(self.run(), key.pass));
        let name = format!("{} {}", names::EXECUTE_TOOL, open.tool);
        self.span(SpanId::of_call(self.run(), key, attempt), parent, name, (open.at, at))
    }
}

/// What a call used and cost, as the core charged it.
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
        .with_some(names::RESPONSE_ID, timing.reply.as_deref())
        .with_some(names::TIME_TO_FIRST_CHUNK, timing.first_chunk)
}

fn with_content(attributes: Attributes, timing: Option<&CallTiming>, reply: Option<&Reply>) -> Attributes {
    attributes
        .with_some(names::SYSTEM_INSTRUCTIONS, timing.and_then(|timing| timing.system.as_deref()))
        .with_some(names::INPUT_MESSAGES, timing.and_then(|timing| timing.input.as_deref()))
        .with_some(names::OUTPUT_MESSAGES, reply.map(content::output))
}

fn purpose(slot: Slot) -> &'static str {
    match slot {
        Slot::Select => "select",
        Slot::Repair => "repair",
        Slot::Opinion => "opinion",
        Slot::Final => "final",
        Slot::Main | Slot::Action(_) | Slot::Validate | Slot::Save | Slot::Inherited(_) => "main",
    }
}

/// Whether a tool has failed: not where it found nothing, is not ready, or was not run.
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

/// The error of a call whose end was not seen.
const LOST: &str = "lost";
