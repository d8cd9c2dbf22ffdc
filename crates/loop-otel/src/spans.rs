//! Converts the journal entries of a run to spans, metrics and log records.
//!
//! Spans get the times of the journal, in whole milliseconds, so that a parent always covers its children.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::run::{Decision, PersonAnswer, RunTool, RunTrace, Started};
use loop_core::types::{CommandKey, Cost, Millis, PicoUsd, RunId, SpanId, StopClass, Tier, Usage};
use loop_core::{EventKind, Note, Run, RunSpec};
use loop_runtime::journal::Entry;
use loop_runtime::observe::{CallNews, TraceSampler};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, Link, SpanKind, Status};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::data::{self, Attributes, Record};
use crate::meter::{self, Labels};
use crate::names::{self, provider};
use crate::send::scope;
use crate::shared::OtelState;

/// A run, as far as its entries were received.
#[derive(Debug)]
pub(crate) struct RunSpans {
    pub(crate) started: Arc<Started>,
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) place: RunTrace,
    pub(crate) is_sampled: bool,
    pub(crate) open_calls: BTreeMap<(CommandKey, u32), OpenCall>,
    pub(crate) tools: BTreeMap<(CommandKey, u32), OpenTool>,
    /// The model's own ids of tool calls, by the keys of their actions.
    pub(crate) call_ids: BTreeMap<CommandKey, Arc<str>>,
    pass: Option<OpenPass>,
    events: Vec<Event>,
    passes: u32,
    pub(crate) model_calls: u32,
    pub(crate) tool_calls: u32,
    usage: Usage,
    cost: Cost,
    pub(crate) is_compacted: bool,
    stopped: Option<(String, StopClass, String)>,
    /// The instant of the last entry.
    last: Millis,
    /// The instant of the last entry that is not about saving the outcome.
    active: Millis,
    /// The sequence number of the next entry.
    next: u64,
    /// The entry after which the driver left the run.
    left: Option<u64>,
    missed: u64,
}

/// A model call that has not ended.
#[derive(Debug, Default)]
pub(crate) struct OpenCall {
    pub(crate) at: Millis,
    pub(crate) tier: Option<Tier>,
    pub(crate) max_tokens: u64,
    pub(crate) events: Vec<Event>,
}

/// A tool call that has not ended.
#[derive(Debug)]
pub(crate) struct OpenTool {
    pub(crate) at: Millis,
    pub(crate) tool: Arc<str>,
    /// Its idempotency key.
    pub(crate) key: Arc<str>,
    pub(crate) parameters: Option<loop_core::types::Arguments>,
    pub(crate) is_eager: bool,
}

#[derive(Debug)]
struct OpenPass {
    number: u32,
    at: Millis,
    confidence: Option<&'static str>,
}

impl RunSpans {
    /// A run in its state before a driver begins. `earlier` are the entries of earlier drivers.
    pub(crate) fn new(run: &Run, earlier: &[Entry], sampler: &dyn TraceSampler, shared: &OtelState) -> Self {
        let started = Arc::new(run.started().clone());
        let place = started.trace();
        let began = started.parent.as_deref().map_or(Millis(0), loop_core::run::Parent::began_at);
        let mut spans = Self {
            place,
            is_sampled: sampler.samples(&place),
            spec: Arc::clone(run.spec()),
            started,
            open_calls: BTreeMap::new(),
            tools: BTreeMap::new(),
            call_ids: BTreeMap::new(),
            pass: None,
            events: Vec::new(),
            passes: 0,
            model_calls: 0,
            tool_calls: 0,
            usage: Usage::default(),
            cost: Cost::default(),
            is_compacted: false,
            stopped: None,
            last: began,
            active: began,
            next: 0,
            left: None,
            missed: 0,
        };
        for entry in earlier {
            spans.apply(entry, Export { shared, sends: false });
        }
        spans
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.started.run
    }

    pub(crate) fn run_id(&self) -> String {
        self.run().as_str().to_owned()
    }

    /// A tool call begins.
    pub(crate) fn dispatched(&mut self, call: &RunTool, key: &Arc<str>, at: Millis) {
        let (tool, key) = (Arc::clone(&call.tool), Arc::clone(key));
        let open = OpenTool { at, tool, key, parameters: Some(call.parameters.clone()), is_eager: false };
        let known = self.tools.insert((call.key, call.attempt), open);
        if known.is_some_and(|known| known.is_eager)
            && let Some(open) = self.tools.get_mut(&(call.key, call.attempt))
        {
            open.is_eager = true;
        }
    }

    /// An attempt of the client failed during a model call.
    pub(crate) fn news(&mut self, key: CommandKey, attempt: u32, news: &CallNews) {
        let unix_ms = crate::unix_ms();
        if let (Some(open), CallNews::Retrying { wait_ms, kind, status, message, .. }) =
            (self.open_calls.get_mut(&(key, attempt)), news)
        {
            let attributes = Attributes::default()
                .with(names::ERROR_TYPE, kind.name())
                .count(names::TRY_WAIT, *wait_ms)
                .with(names::TRY_MESSAGE, message.to_string())
                .with_some(names::TRY_STATUS, status.map(i64::from));
            open.events.push(data::event(names::RETRY_EVENT, unix_ms, attributes));
        }
    }

    /// Entries were lost.
    pub(crate) fn missed(&mut self, entries: u64) {
        self.missed += entries;
        self.next += entries;
    }

    /// The driver leaves the run: no entry follows from this number on.
    pub(crate) fn leaves(&mut self, next: u64) {
        self.left = Some(next);
    }

    /// Whether a driver continues the run after the last driver of this process. Entries of that driver that were not
    /// received yet come first.
    pub(crate) fn continues(&mut self, earlier: &[Entry]) -> bool {
        self.left.take_if(|left| *left == earlier.len() as u64).is_some()
    }

    /// Whether no further entry follows.
    pub(crate) fn is_settled(&self) -> bool {
        self.left.is_some_and(|left| self.next >= left)
    }

    /// Whether the driver has left and entries are still missing.
    pub(crate) fn is_settling(&self) -> bool {
        self.left.is_some()
    }

    /// Receives one entry.
    pub(crate) fn hear(&mut self, entry: &Entry, shared: &OtelState) {
        self.apply(entry, Export { shared, sends: true });
    }

    fn apply(&mut self, entry: &Entry, out: Export<'_>) {
        let at = entry.event.at;
        self.next = entry.seq + 1;
        match &entry.event.kind {
            EventKind::CallStarted { key, attempt, tier, max_output_tokens, .. } => {
                self.enter(key.pass, at, out);
                self.model_calls += 1;
                let (tier, max_tokens) = (Some(*tier), *max_output_tokens);
                let open = OpenCall { at, tier, max_tokens, events: Vec::new() };
                self.open_calls.insert((*key, *attempt), open);
            }
            EventKind::ModelReplied { key, attempt, reply } => {
                self.call_ends((*key, *attempt), Ok(reply), entry, out);
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                self.call_ends((*key, *attempt), Err(failure), entry, out);
            }
            EventKind::EagerStarted { key, attempt, name, .. } => {
                let (tool, key_text) = (Arc::clone(name), key.to_string().into());
                let open = OpenTool { at, tool, key: key_text, parameters: None, is_eager: true };
                // It may have been dispatched before this is heard.
                self.tools.entry((*key, *attempt)).or_insert(open).is_eager = true;
            }
            EventKind::ToolFinished { key, attempt, observation } => {
                let began = self.tools.get(&(*key, *attempt)).map_or(at, |open| open.at);
                self.enter(key.pass, began, out);
                self.tool_ends((*key, *attempt), observation, entry, out);
            }
            EventKind::Checked { key, attempt, used, .. } => {
                if let Some(used) = used {
                    self.check_ends((*key, *attempt), used, self.last, entry, out);
                }
            }
            EventKind::PersonAnswered { key, answer, .. } => {
                let answer = match answer {
                    PersonAnswer::Approved => "approved",
                    PersonAnswer::Denied { .. } => "denied",
                    PersonAnswer::Answered { .. } => "answered",
                };
                self.person(key, answer, at);
            }
            EventKind::ApprovedBy { key, .. } => self.person(key, "approved", at),
            EventKind::Resumed { away_ms, .. } => {
                let attributes = Attributes::default().count(names::AWAY_MS, *away_ms);
                self.event(names::RESUMED_EVENT, attributes, at);
            }
            EventKind::Started(_)
            | EventKind::CallRefused { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::RunWaits { .. }
            | EventKind::Instruction { .. }
            | EventKind::StopRequested { .. }
            | EventKind::StopWithdrawn
            | EventKind::DeadlineReached
            | EventKind::CheckStarted { .. }
            | EventKind::SaveFinished { .. } => {}
        }
        for note in &entry.notes {
            self.note(note, at, out);
        }
        self.last = self.last.max(at);
        if !matches!(entry.event.kind, EventKind::SaveFinished { .. }) {
            self.active = self.last;
        }
    }

    fn note(&mut self, note: &Note, at: Millis, out: Export<'_>) {
        match note {
            Note::ActionJudged(judged) => {
                self.call_ids.insert(judged.key, Arc::clone(&judged.action.id));
            }
            Note::CallCharged { usage, cost, tier, .. } => self.charge(usage, *cost, *tier, out),
            Note::Lost { key, attempt } => self.lost((*key, *attempt), at, out),
            Note::ReplyRead { pass, confidence, .. } => {
                self.passes = self.passes.max(*pass);
                if let Some(open) = self.pass.as_mut().filter(|open| open.number == *pass) {
                    open.confidence = Some(confidence.name());
                }
            }
            Note::Compacted { .. } => self.is_compacted = true,
            Note::GateDecided { pass, confidence, decision } => {
                self.gate(*pass, confidence.name(), decision, at, out);
            }
            Note::Stopped { certificate } | Note::StopSettled { certificate } => {
                let reason = certificate.reason().name().to_owned();
                let line = loop_runtime::report::explain(certificate);
                self.stopped = Some((reason, certificate.class, line));
            }
            _ => {}
        }
    }

    /// Adds the cost of a call.
    fn charge(&mut self, usage: &Usage, cost: Option<PicoUsd>, tier: Tier, out: Export<'_>) {
        self.usage = self.usage.plus(usage);
        self.cost.add(cost);
        let labels = self.model_labels(tier);
        match cost {
            Some(cost) => out.record(meter::COST, &labels, cost.as_usd()),
            None => out.record(meter::UNPRICED_CALLS, &labels, 1.0),
        }
        for (instrument, tokens) in [
            (meter::INPUT_TOKENS, usage.total_input()),
            (meter::OUTPUT_TOKENS, usage.total_output()),
            (meter::CACHE_READ_TOKENS, usage.cache_read),
            (meter::CACHE_WRITE_TOKENS, usage.cache_write_short.saturating_add(usage.cache_write_long)),
            (meter::REASONING_TOKENS, usage.reasoning),
        ] {
            if tokens > 0 {
                out.record(instrument, &labels, tokens as f64);
            }
        }
        out.record(meter::CALL_INPUT, &labels, usage.total_input() as f64);
        out.record(meter::CALL_OUTPUT, &labels, usage.total_output() as f64);
    }

    /// Begins the pass of an entry, unless it has begun, and ends the one before it.
    pub(crate) fn enter(&mut self, number: u32, at: Millis, out: Export<'_>) {
        if self.pass.as_ref().is_some_and(|open| open.number >= number) {
            return;
        }
        self.close_pass(self.active, out);
        self.pass = Some(OpenPass { number, at, confidence: None });
    }

    fn close_pass(&mut self, at: Millis, out: Export<'_>) {
        let Some(OpenPass { number, at: began, confidence }) = self.pass.take() else { return };
        let attributes = Attributes::default()
            .count(names::PASS, number)
            .with(names::RUN_ID, self.run_id())
            .with_some(names::CONFIDENCE, confidence);
        let (id, parent) = (SpanId::of_pass(self.run(), number), Some(self.place.span));
        let name = format!("pass {number}");
        self.send(out, SpanData { attributes: attributes.0, ..self.span(id, parent, name, (began, at)) });
    }

    fn gate(&self, pass: u32, confidence: &'static str, decision: &Decision, at: Millis, out: Export<'_>) {
        let attributes = Attributes::default().count(names::PASS, pass).with(names::CONFIDENCE, confidence);
        let (name, attributes) = match decision {
            Decision::Act { runs, asks } => {
                ("act", attributes.count(names::DECISION_RUNS, *runs).count(names::DECISION_ASKS, *asks))
            }
            Decision::Check { runs } => ("check", attributes.count(names::DECISION_RUNS, *runs)),
            Decision::Revise { .. } => ("revise", attributes),
            Decision::FinalPass { cause } => {
                ("final_pass", attributes.with(names::STOP_REASON, cause.reason.name().to_owned()))
            }
            Decision::Stop(certificate) => {
                ("stop", attributes.with(names::STOP_REASON, certificate.reason().name().to_owned()))
            }
        };
        let attributes = attributes.with(names::DECISION, name);
        let id = SpanId::of_gate(self.run(), pass);
        // Before the first pass there is nothing that it belongs to but the run.
        let is_open = self.pass.as_ref().is_some_and(|open| open.number == pass);
        let parent = if is_open { SpanId::of_pass(self.run(), pass) } else { self.place.span };
        let span = self.span(id, Some(parent), "gate".to_owned(), (at, at));
        self.send(out, SpanData { attributes: attributes.0, ..span });
        let mut labels = self.domain_labels();
        labels.push(KeyValue::new(names::DECISION, name));
        out.record(meter::GATE_DECISIONS, &labels, 1.0);
    }

    fn person(&mut self, key: &CommandKey, answer: &'static str, at: Millis) {
        let attributes =
            Attributes::default().with(names::KEY, key.to_string()).with("loopgate.person.answer", answer);
        self.event(names::PERSON_EVENT, attributes, at);
    }

    fn event(&mut self, name: &'static str, attributes: Attributes, at: Millis) {
        self.events.push(data::event(name, self.unix_ms(at), attributes));
    }

    /// Ends the reporting of a run. Its span ends if the run has.
    pub(crate) fn end(mut self, shared: &OtelState) {
        let out = Export { shared, sends: true };
        let Some((reason, class, line)) = self.stopped.take() else { return };
        let open: Vec<_> = self.tools.keys().copied().collect();
        open.into_iter().for_each(|call| self.lost(call, self.active, out));
        self.close_pass(self.active, out);
        let spec = &self.spec;
        let attributes = Attributes::default()
            .with(names::OPERATION, names::INVOKE_AGENT)
            .with(names::AGENT_NAME, spec.domain.to_string())
            .with(names::DOMAIN, spec.domain.to_string())
            .with(names::PROVIDER, provider(&spec.models.base.provider).to_owned())
            .with(names::REQUEST_MODEL, spec.models.base.model.to_string())
            .with(names::CONVERSATION_ID, self.run_id())
            .with(names::RUN_ID, self.run_id())
            .with(names::ITEM_ID, self.started.item.id.to_string())
            .with(names::STOP_REASON, reason.clone())
            .with(names::STOP_CLASS, class.name())
            .count(names::PASSES, self.passes)
            .count(names::MODEL_CALLS, self.model_calls)
            .count(names::TOOL_CALLS, self.tool_calls);
        let attributes = with_cost(with_usage(attributes, &self.usage), self.cost)
            .with_some(names::TAKEOVER, self.started.parent.as_ref().map(|parent| parent.how.name()))
            .count_some(names::ENTRIES_MISSED, self.missed)
            .with_some(names::ERROR_TYPE, is_error(class).then(|| reason.clone()));
        let submitter = self.place.submitter.map(|submitter| submitter.span);
        let mut links = SpanLinks::default();
        let parent = self.started.parent_trace();
        links
            .links
            .extend(parent.map(|parent| Link::with_context(data::context(parent.trace, parent.span, true))));
        let mut events = SpanEvents::default();
        events.events = std::mem::take(&mut self.events);
        let began = self.started.parent.as_deref().map_or(Millis(0), loop_core::run::Parent::began_at);
        let name = format!("{} {}", names::INVOKE_AGENT, spec.domain);
        let span = SpanData {
            parent_span_is_remote: submitter.is_some(),
            links,
            events,
            status: if is_error(class) { Status::error(line.clone()) } else { Status::Unset },
            attributes: attributes.0.clone(),
            ..self.span(self.place.span, submitter, name, (began, self.last))
        };
        let mut labels = self.domain_labels();
        let mut of_run = labels.clone();
        of_run.push(KeyValue::new(names::REQUEST_MODEL, spec.models.base.model.to_string()));
        of_run.extend(is_error(class).then(|| KeyValue::new(names::ERROR_TYPE, reason.clone())));
        out.record(meter::RUN_DURATION, &of_run, data::seconds(&span));
        out.record(meter::RUN_CALLS, &labels, self.model_calls.into());
        out.record(meter::RUN_TOOL_CALLS, &labels, self.tool_calls.into());
        labels.push(KeyValue::new(names::STOP_CLASS, class.name()));
        labels.push(KeyValue::new(names::STOP_REASON, reason));
        out.record(meter::RUNS_STOPPED, &labels, 1.0);
        let is_warning = class != StopClass::Answered;
        let record = Record { is_warning, attributes, ..record(names::STOPPED_EVENT, line, &span) };
        self.send(out, span);
        out.tell(record);
    }

    /// A span of this run between two instants, without attributes.
    pub(crate) fn span(
        &self,
        id: SpanId,
        parent: Option<SpanId>,
        name: String,
        (start, end): (Millis, Millis),
    ) -> SpanData {
        let start_time = data::time(self.unix_ms(start));
        SpanData {
            span_context: data::context(self.place.trace, id, self.is_sampled),
            parent_span_id: data::parent_id(parent),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time,
            end_time: start_time.max(data::time(self.unix_ms(end))),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: scope(),
        }
    }

    pub(crate) fn send(&self, out: Export<'_>, span: SpanData) {
        if out.sends && self.is_sampled {
            out.shared.sender.send_span(span);
        }
    }

    pub(crate) fn unix_ms(&self, at: Millis) -> u64 {
        self.started.unix_ms_at(at)
    }

    pub(crate) fn domain_labels(&self) -> Labels {
        let domain = &self.spec.domain;
        [names::AGENT_NAME, names::DOMAIN].map(|name| KeyValue::new(name, domain.to_string())).into()
    }

    /// The labels of a call on a tier.
    pub(crate) fn model_labels(&self, tier: Tier) -> Labels {
        let model = self.spec.model(tier);
        vec![
            KeyValue::new(names::OPERATION, names::CHAT),
            KeyValue::new(names::PROVIDER, provider(&model.provider).to_owned()),
            KeyValue::new(names::REQUEST_MODEL, model.model.to_string()),
            KeyValue::new(names::DOMAIN, self.spec.domain.to_string()),
        ]
    }
}

/// The destination of spans. Nothing is sent for entries of other drivers, which sent them themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Export<'a> {
    pub(crate) shared: &'a OtelState,
    pub(crate) sends: bool,
}

impl Export<'_> {
    pub(crate) fn record(&self, instrument: &'static meter::Instrument, labels: &[KeyValue], value: f64) {
        if self.sends {
            self.shared.sender.meter.record(instrument, labels, value);
        }
    }

    pub(crate) fn tell(&self, record: Record) {
        if self.sends {
            self.shared.sender.send_record(record);
        }
    }
}

/// A log record at the end of a span, without attributes.
pub(crate) fn record(name: &'static str, body: String, span: &SpanData) -> Record {
    let (time, context) = (span.end_time, span.span_context.clone());
    Record { time, is_warning: false, name, body, attributes: Attributes::default(), context }
}

/// Whether a class of stops is an error. A stop by a person, a pending decision and a partial result are not.
fn is_error(class: StopClass) -> bool {
    matches!(class, StopClass::Failed | StopClass::InDoubt)
}

pub(crate) fn with_usage(attributes: Attributes, usage: &Usage) -> Attributes {
    attributes
        .count(names::USAGE_INPUT, usage.total_input())
        .count(names::USAGE_OUTPUT, usage.total_output())
        .count_some(names::USAGE_CACHE_READ, usage.cache_read)
        .count_some(names::USAGE_CACHE_WRITE, usage.cache_write_short.saturating_add(usage.cache_write_long))
        .count_some(names::USAGE_REASONING, usage.reasoning)
        .with_some(names::ESTIMATED, usage.estimated.then_some(true))
}

/// Adds the cost, unless it is unknown.
fn with_cost(attributes: Attributes, cost: Cost) -> Attributes {
    attributes
        .with_some(names::COST, cost.total().map(PicoUsd::as_usd))
        .count_some(names::COST_UNKNOWN_CALLS, cost.unknown_calls)
}
