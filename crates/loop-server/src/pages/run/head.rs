//! The head of a run's page: the item, its status at an event, and its totals.

use std::sync::Arc;

use loop_core::types::{Cost, PicoUsd, Totals};
use loop_core::{Run, StopReason, WorkItem};
use loop_runtime::journal::Recorded;
use loop_runtime::report::{explain, warnings};
use maud::{Markup, html};

use super::AppliedEntry;
use super::shown::PagePosition;
use crate::pages::runs::encoded;
use crate::pages::span::Changing;
use crate::pages::text::{CutText, TextBudget, counted, duration, grouped, t, time};

/// The most bytes of a work item.
const MAX_ITEM_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Head {
    id: String,
    domain: String,
    item: WorkItem,
    item_text: CutText,
    unix_ms: u64,
    /// The run that it was forked or retried from.
    parent: Option<String>,
    /// The run that called it as a tool.
    caller: Option<String>,
    /// Lines about the origin of the run.
    origin: Vec<String>,
    unverified: Option<Arc<str>>,
    status: Changing<Status>,
    figures: [(&'static str, Changing<String>); 6],
    warnings: Changing<Vec<String>>,
    has_ended: bool,
    waits: bool,
    /// Milliseconds that a run in progress has taken at the time of rendering. `None`: it is not in progress.
    clock: Option<u64>,
}

/// The status of a run at an event: a word, a CSS class and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Status {
    word: String,
    look: &'static str,
    sentence: String,
}

/// The CSS class of a class of stops.
pub(in crate::pages) fn look_of(class: &str) -> &'static str {
    match class {
        "answered" => "good",
        "partial" | "waiting" | "needs_human" => "warn",
        "failed" | "in_doubt" | "refused" | "damaged" => "bad",
        _ => "plain",
    }
}

impl Status {
    fn of(run: &Run) -> Self {
        if let Some(outcome) = run.outcome() {
            let class = outcome.stop.class;
            return Self {
                word: match outcome.stop.also_has(StopReason::EffectNotDone) {
                    true => format!("{}: effect not done", class.name().replace('_', " ")),
                    false => class.name().replace('_', " "),
                },
                look: look_of(class.name()),
                sentence: format!("{}: {}", outcome.stop.name(), explain(&outcome.stop)),
            };
        }
        let waits = run.requested().len() as u64;
        if waits > 0 {
            let sentence = format!("{} for a person.", counted(waits, "action waits", "actions wait"));
            return Self { word: "waiting".to_owned(), look: "warn", sentence };
        }
        let phase = run.phase().name().replace('_', " ");
        let pass = run.pass();
        Self { word: "running".to_owned(), look: "plain", sentence: format!("{phase}, pass {pass}") }
    }
}

/// A cost in a list of figures.
pub(in crate::pages) fn cost(cost: &Cost) -> String {
    if cost.total().is_none() && cost.known == PicoUsd::default() {
        "unknown".to_owned()
    } else {
        cost.to_string()
    }
}

/// The title of a run.
pub(in crate::pages) fn title_of(item: &WorkItem) -> String {
    format!("{} {}: {}", item.kind, item.id, item.title)
}

impl Head {
    pub(super) fn new(recorded: &Recorded, run: &Run) -> Self {
        let started = run.started();
        let mut origin = Vec::new();
        if let Some(history) = &started.history {
            origin.push(format!("It continues {}.", counted(history.messages.into(), "message", "messages")));
        }
        if let Some(parent) = &started.parent {
            origin.push(format!("It continues the work of run {}.", parent.run));
        }
        for it in &started.provenance.overridden {
            origin.push(format!("Set by the caller: {} = {}", it.setting, it.value));
        }
        if let Some(submitter) = started.item.traceparent {
            origin.push(format!("Part of the trace {}.", submitter.trace));
        }
        if !started.provenance.program.is_empty() {
            origin.push(format!("Begun by {}.", started.provenance.program));
        }
        if recorded.imported {
            origin.push("It was imported into this journal.".to_owned());
        }
        let names = ["Passes", "Model calls", "Tool calls", "Tokens", "Cost", "Time"];
        Self {
            id: started.run.to_string(),
            domain: run.spec().domain.to_string(),
            item_text: TextBudget::new(MAX_ITEM_BYTES).take(&started.item.full, MAX_ITEM_BYTES),
            item: WorkItem { full: "".into(), compact: "".into(), ..started.item.clone() },
            unix_ms: started.unix_ms,
            parent: started.parent.as_ref().map(|parent| parent.run.to_string()),
            caller: started.provenance.called_by.as_ref().map(|by| by.run.to_string()),
            origin,
            unverified: recorded.unverified.clone(),
            status: Changing::default(),
            figures: names.map(|name| (name, Changing::default())),
            warnings: Changing::default(),
            has_ended: false,
            waits: false,
            clock: None,
        }
    }

    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        self.status.set(seen.at, Status::of(seen.run));
        self.warnings.set(seen.at, warnings(&seen.run.model_calls(), seen.run.warnings()));
        let Totals { passes, model_calls, tool_calls, usage, cost: spent, wall_ms, .. } = seen.run.totals();
        let elapsed = if seen.run.outcome().is_some() { *wall_ms } else { seen.run.elapsed_ms() };
        let now = [
            grouped((*passes).into()),
            grouped((*model_calls).into()),
            grouped((*tool_calls).into()),
            format!("{}{}", grouped(usage.total()), if usage.estimated { " (estimated)" } else { "" }),
            cost(spent),
            duration(elapsed),
        ];
        for ((_, figure), now) in self.figures.iter_mut().zip(now) {
            figure.set(seen.at, now);
        }
    }

    /// `now`: the wall time, if a driver is at work.
    pub(super) fn end(&mut self, recorded: &Recorded, run: &Run, now: Option<u64>) {
        self.has_ended = run.is_done();
        self.waits = !run.requested().is_empty();
        let last = recorded.entries.last().map(|entry| run.started().unix_ms_at(entry.event.at));
        let since = now.zip(last).map(|(now, last)| now.saturating_sub(last));
        let is_at_work = !self.has_ended && run.requested().is_empty();
        self.clock = since.filter(|_| is_at_work).map(|since| run.elapsed_ms().saturating_add(since));
    }

    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn title(&self) -> String {
        title_of(&self.item)
    }

    /// The work item's text.
    pub(super) fn item(&self) -> &CutText {
        &self.item_text
    }

    /// The run, and its status at the event in one line.
    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        let [.., (_, cost), (_, took)] = &self.figures;
        html! {
            h1 { (t(&self.title())) }
            p.lead {
                "run " code { (t(&self.id)) } " of " strong { (t(&self.domain)) } ", begun " (time(self.unix_ms)) " UTC"
                @if shown.place.is_server() {
                    " · " a href={ "/compare?a=" (encoded(&self.id)) } { "Compare" }
                    @if shown.begins_again { " · " a href={ "/new?from=" (encoded(&self.id)) } { "Run again" } }
                    @if let Some(caller) = &self.caller {
                        " · called by " a href={ "/runs/" (encoded(caller)) } { (t(caller)) }
                    }
                    @if let Some(parent) = &self.parent {
                        " · continues " a href={ "/runs/" (encoded(parent)) } { (t(parent)) }
                        " · " a href={ "/compare?a=" (encoded(parent)) "&b=" (encoded(&self.id)) } { "Compare with it" }
                    }
                }
            }
            @if let Some(why) = &self.unverified {
                p.notice.bad { "This run can be read and cannot be resumed: " (t(why)) }
            }
            p.status {
                @for (span, Status { word, look, sentence }) in self.status.iter() {
                    span data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                        strong.pill.(look) { (t(word)) } " " (t(sentence))
                    }
                }
                " · cost " (values(cost, shown)) " · "
                span #time role="timer" data-clock=[self.clock] { (values(took, shown)) }
            }
        }
    }

    /// The counts of passes, calls and tokens.
    pub(super) fn counts(&self, shown: &PagePosition) -> Markup {
        let [counts @ .., _, _] = &self.figures;
        html! {
            dl.figures {
                @for (name, count) in counts { div { dt { (name) } dd { (values(count, shown)) } } }
            }
        }
    }

    pub(super) fn warnings(&self, shown: &PagePosition) -> Markup {
        html! {
            @for (span, warnings) in self.warnings.iter().filter(|(_, warnings)| !warnings.is_empty()) {
                div.notice.caution data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                    p { strong { (counted(warnings.len() as u64, "warning", "warnings")) } }
                    ul { @for warning in warnings { li { (t(warning)) } } }
                }
            }
        }
    }

    /// The origin of the run.
    pub(super) fn origin(&self) -> Markup {
        html! {
            @if !self.origin.is_empty() {
                details.more #origin {
                    summary { "Where the run comes from" }
                    ul { @for line in &self.origin { li { (t(line)) } } }
                }
            }
        }
    }
}

/// A figure at each event.
fn values(figure: &Changing<String>, shown: &PagePosition) -> Markup {
    html! {
        @for (span, value) in figure.iter() {
            span data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] { (t(value)) }
        }
    }
}
