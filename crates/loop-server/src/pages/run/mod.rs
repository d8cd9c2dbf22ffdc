//! The page of one run: what was known when, what it cost, and why it stopped.
//!
//! [`OneRunPage::of`] reads a recorded run event by event, and stores for everything on the page the events at which it
//! is visible. [`run`] renders that. The page at event 37 and the slider at 37 show the same, since both hide what does
//! not belong to event 37.

mod actions;
mod calls;
mod calls_html;
mod claims;
mod document;
mod events;
mod evidence;
mod gate;
mod head;
mod label;
mod money;
mod people;
mod prompts;
mod shown;

use std::sync::Arc;

use loop_core::types::RunId;
use loop_core::{Event, EventKind, Rejected, Run};
use loop_runtime::journal::{Entry, Recorded, ReplayError};
use loop_runtime::run::StartError;
use loop_runtime::spec::Prompts;
use maud::{Markup, html};

use super::shell::{self, PagePlace};
use super::text::t;
use shown::PagePosition;

pub(super) use actions::plan_html;
pub(super) use document::diff_html;
#[cfg(feature = "http")]
pub(super) use head::title_of;
pub(super) use head::{cost, look_of};
pub use label::LabelPart;
pub(super) use shown::anchor;

/// Options of a run's page.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneRunView<'a> {
    /// The event to show, from 0. `None`: the last.
    pub at: Option<u64>,
    /// Where the page is served or stored.
    pub place: PagePlace,
    /// Whether the caller may begin a run of the same item.
    pub begins_again: bool,
    /// The templates of the run's prompts. `None`, or others than the run used: prompts are not shown.
    pub prompts: Option<&'a Prompts>,
    /// The wall time in milliseconds since 1970 (UTC) if a driver is at work, so that the run's clock runs. `None`: it
    /// does not.
    pub now: Option<u64>,
    /// The URL of the run's event stream, so that the page updates itself. Empty: it does not.
    pub events: &'a str,
    /// How to get the rest of a cut text, for example `loopgate show RUN --json`. Empty: by that command.
    pub rest: &'a str,
    /// The label part. `None`: the run has no label, and the reader may not set one.
    pub label: Option<&'a LabelPart>,
}

/// The content of a run's page.
#[derive(Debug)]
pub struct OneRunPage {
    shown: PagePosition,
    stream: String,
    /// The entry that does not follow from the ones before it, and why. Entries after it are not shown.
    broken: Option<String>,
    head: head::Head,
    calls: calls::Calls,
    document: document::DocumentPart,
    gate: gate::GatePart,
    money: money::CostPart,
    actions: actions::Actions,
    evidence: evidence::EvidencePart,
    people: people::PeoplePart,
    prompts: prompts::PromptPart,
    events: events::Events,
    label: LabelPart,
}

/// An entry that was applied. The state before it is gone.
struct AppliedEntry<'a> {
    /// Its number.
    at: u64,
    event: &'a Event,
    entry: &'a Entry,
    /// The run after it.
    run: &'a Run,
}

impl OneRunPage {
    /// Reads a recorded run for its page. The page ends at the first entry that does not follow from the ones before
    /// it.
    ///
    /// # Errors
    /// The entries do not begin with the start of a run under the recorded spec.
    pub fn of(id: &RunId, recorded: &Recorded, view: OneRunView<'_>) -> Result<Self, StartError> {
        let broken = |rejected| StartError::Replay(ReplayError::Broken { run: id.clone(), seq: 0, rejected });
        let first = recorded.entries.first().ok_or_else(|| broken(Rejected::NotTheStart("nothing")))?;
        let (mut run, _) = Run::open(&first.event, Arc::clone(&recorded.spec)).map_err(broken)?;
        let last = recorded.entries.len().saturating_sub(1) as u64;
        let rest = if view.rest.is_empty() {
            format!("loopgate show {id} --json has all of it")
        } else {
            view.rest.to_owned()
        };
        let shown = PagePosition {
            at: view.at.unwrap_or(last).min(last),
            last,
            place: view.place,
            begins_again: view.begins_again,
            rest,
        };
        let mut page = Self {
            shown,
            stream: view.events.to_owned(),
            broken: None,
            head: head::Head::new(recorded, &run),
            calls: calls::Calls::default(),
            document: document::DocumentPart::default(),
            gate: gate::GatePart::default(),
            money: money::CostPart::default(),
            actions: actions::Actions::default(),
            evidence: evidence::EvidencePart::default(),
            people: people::PeoplePart::default(),
            prompts: prompts::PromptPart::default(),
            events: events::Events::default(),
            label: view.label.cloned().unwrap_or_default(),
        };
        page.see(first, &run);
        for entry in recorded.entries.iter().skip(1) {
            page.money.before(&run, entry);
            if let Err(rejected) = run.apply(&entry.event) {
                page.broken = Some(format!("entry {}: {rejected}", entry.seq));
                page.shown.last = entry.seq.saturating_sub(1);
                page.shown.at = page.shown.at.min(page.shown.last);
                break;
            }
            page.see(entry, &run);
        }
        page.end(id, recorded, &run, view);
        Ok(page)
    }

    fn see(&mut self, entry: &Entry, run: &Run) {
        let seen = AppliedEntry { at: entry.seq, event: &entry.event, entry, run };
        self.head.see(&seen);
        self.calls.see(&seen);
        self.document.see(&seen);
        self.gate.see(&seen);
        self.money.see(&seen);
        self.actions.see(&seen);
        self.evidence.see(&seen);
        self.people.see(&seen);
        self.prompts.see(&seen);
        self.events.see(&seen);
    }

    fn end(&mut self, id: &RunId, recorded: &Recorded, run: &Run, view: OneRunView<'_>) {
        self.head.end(recorded, run, view.now);
        self.calls.end(run);
        self.document.end(run, self.evidence.since());
        self.gate.end(id, recorded, run);
        self.evidence.end(run);
        self.evidence.mark(self.document.claims(), self.head.item());
        self.prompts.end(recorded, run, view.prompts);
    }

    /// Whether the run has ended.
    pub fn has_ended(&self) -> bool {
        self.head.has_ended()
    }

    /// Whether it waits for a person.
    #[cfg(feature = "http")]
    pub(super) fn waits(&self) -> bool {
        self.head.waits()
    }

    /// The number of its last event.
    pub fn last_event(&self) -> u64 {
        self.shown.last
    }

    /// The page as HTML.
    pub fn html(&self) -> String {
        shell::page(self.shown.place, &self.head.title(), &self.content())
    }

    /// The content of the page without its head and end.
    pub(super) fn content(&self) -> Markup {
        let shown = &self.shown;
        let (evidence, claims) = (&self.evidence, self.document.claims());
        let why = html! { (self.head.warnings(shown)) (self.gate.html(shown)) };
        let money = html! { (self.head.counts(shown)) (self.money.html(shown)) };
        let found = html! { (self.head.origin()) (evidence.html(shown, self.head.item())) };
        // What a reader came for is first, and how it came to be after it.
        let parts: [(&str, &str, Markup); 10] = [
            (
                "document",
                self.document.title(),
                html! { (self.words()) (self.document.html(shown, evidence)) },
            ),
            ("values", "What is contradicted", claims.html(shown, evidence)),
            ("gate", "Why", why),
            ("money", "Money", money),
            ("actions", "Actions", self.actions.html(shown)),
            ("timeline", "Timeline", self.calls.html(shown)),
            ("evidence", "Evidence", found),
            ("people", "People", self.people.html(shown)),
            ("prompts", "Prompts and replies", self.prompts.html(shown)),
            ("events", "Events", self.events.html(shown)),
        ];
        html! {
            div #run data-run=(t(self.head.id())) data-last=(shown.last) data-ended[self.has_ended()]
                data-events=[Some(&self.stream).filter(|stream| !stream.is_empty())] {
                (self.head.html(shown))
                @if self.has_ended() { (self.label.html(self.head.id())) }
                @if let Some(broken) = &self.broken {
                    p.notice.bad { "The rest of this run cannot be shown. " (t(broken)) }
                }
                (self.events.slider(shown))
                nav.parts aria-label="Parts of this page" {
                    @for (id, title, _) in &parts { a href={ "#" (id) } { (title) } }
                }
                @for (id, title, part) in &parts {
                    section.part id=(id) aria-labelledby={ (id) "-title" } {
                        h2 id={ (id) "-title" } { a.self href={ "#" (id) } { (title) } }
                        (part)
                    }
                }
            }
        }
    }
}

impl OneRunPage {
    /// Where the script shows a reply while it is streamed.
    fn words(&self) -> Markup {
        html! {
            @if !self.stream.is_empty() && !self.has_ended() {
                div #live hidden {
                    p.quiet { "The model is writing this:" }
                    pre role="log" aria-live="polite" aria-label="The reply as it is written" tabindex="0" {}
                }
            }
        }
    }
}

/// The page of a run.
pub fn run(page: &OneRunPage) -> String {
    page.html()
}

/// The key that an event is about.
fn key_of(kind: &EventKind) -> Option<loop_core::types::CommandKey> {
    match kind {
        EventKind::CallStarted { key, .. }
        | EventKind::CallRefused { key, .. }
        | EventKind::ModelReplied { key, .. }
        | EventKind::ModelFailed { key, .. }
        | EventKind::EagerStarted { key, .. }
        | EventKind::ToolStarted { key, .. }
        | EventKind::ToolFinished { key, .. }
        | EventKind::RunWaits { key, .. }
        | EventKind::PersonAnswered { key, .. }
        | EventKind::ApprovedBy { key, .. }
        | EventKind::CheckStarted { key, .. }
        | EventKind::Checked { key, .. } => Some(*key),
        EventKind::Started(_)
        | EventKind::Instruction { .. }
        | EventKind::StopRequested { .. }
        | EventKind::StopWithdrawn
        | EventKind::DeadlineReached
        | EventKind::Resumed { .. }
        | EventKind::SaveFinished { .. } => None,
    }
}
