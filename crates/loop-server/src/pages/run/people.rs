//! The people part of a run's page: each request with its answer, and the instructions.

use loop_core::run::{PersonAnswer, PersonRequest};
use loop_core::types::{CommandKey, Millis};
use loop_core::{EventKind, policy};
use maud::{Markup, html};

use super::AppliedEntry;
use super::shown::{PagePosition, anchor, nothing};
use crate::pages::text::{CutText, TextBudget, rest, t};

/// The most bytes of all parameters on a page. The page of a pending request shows all of its parameters.
const ROOM: usize = 512 * 1024;
const MAX_PARAMETERS: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct PeoplePart {
    lines: Vec<PersonRow>,
    room: TextBudget,
    /// The requests that are open.
    open: Vec<(CommandKey, usize)>,
    id: String,
}

impl Default for PeoplePart {
    fn default() -> Self {
        Self { lines: Vec::new(), room: TextBudget::new(ROOM), open: Vec::new(), id: String::new() }
    }
}

#[derive(Debug)]
struct PersonRow {
    from: u64,
    at: Millis,
    what: PersonAct,
}

#[derive(Debug)]
enum PersonAct {
    Requested(Box<Request>),
    Instructed(String),
    Stop(&'static str),
}

#[derive(Debug)]
struct Request {
    key: CommandKey,
    tool: String,
    effect: &'static str,
    is_question: bool,
    why: String,
    reason: String,
    shown: CutText,
    bytes: u64,
    warnings: Vec<String>,
    approvals: u32,
    deadline: Option<Millis>,
    /// Approvals and answers, each with its event.
    answers: Vec<(u64, Millis, String)>,
    /// The event that ended it. `None`: it is open.
    ended: Option<u64>,
}

impl PeoplePart {
    fn push(&mut self, from: u64, at: Millis, what: PersonAct) {
        self.lines.push(PersonRow { from, at, what });
    }

    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        if seen.at == 0 {
            self.id = seen.run.id().to_string();
        }
        let (at, ms) = (seen.at, seen.event.at);
        match &seen.event.kind {
            EventKind::PersonAnswered { key, answer, .. } => {
                let text = match answer {
                    PersonAnswer::Approved => "approved".to_owned(),
                    PersonAnswer::Denied { why } if why.is_empty() => "denied".to_owned(),
                    PersonAnswer::Denied { why } => format!("denied: {why}"),
                    PersonAnswer::Answered { text } => format!("answered: {text}"),
                };
                self.answer(*key, at, ms, text);
            }
            EventKind::ApprovedBy { key, by, .. } => self.answer(*key, at, ms, format!("approved by {by}")),
            EventKind::Instruction { text } => {
                self.push(at, ms, PersonAct::Instructed(text.to_string()));
            }
            EventKind::StopRequested { how } => {
                let how = match how {
                    loop_core::run::StopMode::AtGate => "A stop at the next gate was requested.",
                    loop_core::run::StopMode::Now => "A stop at once was requested.",
                };
                self.push(at, ms, PersonAct::Stop(how));
            }
            EventKind::StopWithdrawn => {
                self.push(at, ms, PersonAct::Stop("The stop was withdrawn."));
            }
            _ => {}
        }
        let asked = seen.run.requested();
        let over: Vec<usize> = self
            .open
            .extract_if(.., |(key, _)| !asked.iter().any(|requested| requested.key == *key))
            .map(|(_, line)| line)
            .collect();
        for line in over {
            if let Some(PersonRow { what: PersonAct::Requested(request), .. }) = self.lines.get_mut(line) {
                request.ended = Some(at);
                if request.answers.last().is_none_or(|(answered, ..)| *answered != at) {
                    request.answers.push((at, ms, "no answer in time, which counts as a denial".to_owned()));
                }
            }
        }
        for requested in asked {
            if !self.open.iter().any(|(key, _)| *key == requested.key) {
                self.open.push((requested.key, self.lines.len()));
                let request = self.request(&requested);
                self.push(at, ms, PersonAct::Requested(Box::new(request)));
            }
        }
    }

    fn request(&mut self, requested: &PersonRequest) -> Request {
        let shown = policy::shown(&requested.parameters);
        Request {
            key: requested.key,
            tool: requested.tool.to_string(),
            effect: requested.effect.name(),
            is_question: requested.is_question,
            why: requested.why.clone(),
            reason: requested.reason.to_string(),
            shown: self.room.take(&shown.text, MAX_PARAMETERS),
            bytes: shown.bytes,
            warnings: shown.warnings,
            approvals: requested.approvals,
            deadline: requested.deadline,
            answers: Vec::new(),
            ended: None,
        }
    }

    fn answer(&mut self, key: CommandKey, at: u64, ms: Millis, text: String) {
        let line = self.open.iter().find(|(open, _)| *open == key).map(|(_, line)| *line);
        if let Some(PersonRow { what: PersonAct::Requested(request), .. }) =
            line.and_then(|line| self.lines.get_mut(line))
        {
            request.answers.push((at, ms, text));
        }
    }

    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        html! {
            (nothing(shown, self.lines.first().map(|line| line.from), "No person has had anything to do with this run."))
            @if !self.lines.is_empty() { ol.cards.plain {
                @for line in &self.lines {
                    li data-from=(line.from) hidden[shown.is_before(line.from)] {
                        p.quiet { "after " (line.at.in_seconds()) " s, event " (line.from) }
                        @match &line.what {
                            PersonAct::Instructed(text) => { p { "A person instructed: " (t(text)) } }
                            PersonAct::Stop(what) => { p { (what) } }
                            PersonAct::Requested(request) => { (request.html(line.from, &self.id, shown)) }
                        }
                    }
                }
            } }
        }
    }
}

impl Request {
    fn html(&self, from: u64, id: &str, shown: &PagePosition) -> Markup {
        let kind = if self.is_question { "Asked a question through" } else { "Asked to approve" };
        let people = self.approvals;
        html! {
            p.top {
                (kind) " " strong { (t(&self.tool)) } " "
                a href={ "#a" (anchor(self.key)) } { (t(&self.key.to_string())) }
                @if !self.is_question { " " span.pill.plain { "effect " (self.effect) } }
            }
            p { "Asked because " (t(&self.why)) "." @if !self.reason.is_empty() { " The model says: " (t(&self.reason)) } }
            pre tabindex="0" { (t(&self.shown.text)) }
            (rest(&self.shown, &shown.rest))
            p.quiet { (self.bytes) " bytes" @if let Some(deadline) = self.deadline { ", until " (deadline.in_seconds()) " s after the start" }
                @if people > 1 { ", " (people) " people have to approve it" } }
            @for warning in &self.warnings { p.warn { "Mind: " (t(warning)) } }
            @for (at, ms, answer) in &self.answers {
                p data-from=(at) hidden[shown.is_before(*at)] { strong { (t(answer)) } " " span.quiet { "after " (ms.in_seconds()) " s, event " (at) } }
            }
            @let until = self.ended;
            p data-from=(from) data-until=[until] hidden[shown.is_before(from) || until.is_some_and(|until| shown.at >= until)] {
                span.pill.warn { "waits" }
                @if until.is_none() && shown.place.is_server() { " " a href={ "/runs/" (id) "/approve" } { "Decide" } }
            }
        }
    }
}
