//! The events part of a run's page, and its slider.

use loop_core::EventKind;
use loop_core::run::{PersonAnswer, SaveResult, StopMode};
use loop_core::types::Millis;
use loop_runtime::report::check_in_words;
use maud::{Markup, html};

use super::shown::PagePosition;
use super::{AppliedEntry, key_of};
use crate::pages::text::{cut, heads, t};

/// The most characters of a line.
const MAX_LINE: usize = 160;

#[derive(Debug, Default)]
pub(super) struct Events {
    lines: Vec<EventRow>,
}

#[derive(Debug)]
struct EventRow {
    at: u64,
    ms: Millis,
    pass: u32,
    name: &'static str,
    key: String,
    what: String,
}

impl Events {
    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        let kind = &seen.event.kind;
        self.lines.push(EventRow {
            at: seen.at,
            ms: seen.event.at,
            pass: seen.run.pass(),
            name: kind.name(),
            key: key_of(kind).map_or_else(String::new, |key| key.to_string()),
            what: cut(&what(seen), MAX_LINE).text,
        });
    }

    fn title(line: &EventRow) -> String {
        let key = if line.key.is_empty() { String::new() } else { format!(" {}", line.key) };
        format!("{}{key}", line.name.replace('_', " "))
    }

    /// The slider. Without scripts it is links to the previous and the next event, if the page is on a server.
    pub(super) fn slider(&self, shown: &PagePosition) -> Markup {
        let PagePosition { at, last, place, .. } = shown;
        html! {
            form.slider #slider method="get" aria-label="The run at an event" {
                label for="at" { "Event" }
                div.steps {
                    button.scripted type="button" data-step="-1" aria-label="Event before" hidden { "‹" }
                    button.scripted type="button" data-step="1" aria-label="Next event" hidden { "›" }
                }
                input.scripted #at type="range" min="0" max=(last) value=(at) aria-describedby="now" hidden;
                @if place.is_server() {
                    noscript {
                        @if *at > 0 { a rel="prev" href={ "?at=" (at - 1) } { "‹ before" } " " }
                        @if at < last { a rel="next" href={ "?at=" (at + 1) } { "next ›" } }
                    }
                }
                output #now for="at" {
                    @for line in &self.lines {
                        span data-from=(line.at) data-until=(line.at + 1) hidden[line.at != *at] {
                            b { (line.at) " / " (last) } " · " (line.ms.in_seconds()) " s · " (t(&Self::title(line)))
                        }
                    }
                }
                button.scripted #newest type="button" hidden { "Newest" }
            }
        }
    }

    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        html! {
            details.more {
                summary { "All events in their order" }
                div.wide tabindex="0" role="region" aria-label="Events" {
                    table {
                        (heads(&["#event", "#after s", "#pass", "what", "key", "with"]))
                        tbody {
                            @for line in &self.lines {
                                tr data-from=(line.at) hidden[shown.is_before(line.at)] {
                                    td.n {
                                        @if shown.place.is_server() {
                                            a href={ "?at=" (line.at) } data-at=(line.at) { (line.at) }
                                        } @else {
                                            a href="#slider" data-at=(line.at) { (line.at) }
                                        }
                                    }
                                    td.n { (line.ms.in_seconds()) }
                                    td.n { (line.pass) }
                                    td.w { (line.name.replace('_', " ")) }
                                    td.w { (t(&line.key)) }
                                    td { (t(&line.what)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The content of an event, in a line.
fn what(seen: &AppliedEntry<'_>) -> String {
    match &seen.event.kind {
        EventKind::Started(started) => format!("{} {}", started.item.kind, started.item.id),
        EventKind::CallStarted { attempt, tier, prompt_bytes, .. } => {
            format!("{} tier, {prompt_bytes} bytes{}", tier.name(), again(*attempt))
        }
        EventKind::CallRefused { refusal, .. } => format!("refused: {}", refusal.name()),
        EventKind::ModelReplied { reply, .. } => {
            format!("{} bytes of text, {} native calls", reply.text.len(), reply.calls.len())
        }
        EventKind::ModelFailed { failure, .. } => failure.message.to_string(),
        EventKind::EagerStarted { name, .. } => format!("{name}, while the reply is received"),
        EventKind::ToolStarted { key, attempt } => {
            let action = seen.run.actions().iter().find(|action| action.key == *key);
            format!("{}{}", action.map_or("", |action| action.tool_name()), again(*attempt))
        }
        EventKind::ToolFinished { observation, .. } => {
            format!("{}: {}", observation.status.name(), observation.summary)
        }
        EventKind::RunWaits { used, .. } => {
            used.run.as_ref().map_or_else(String::new, |run| format!("run {run} waits for a person"))
        }
        EventKind::PersonAnswered { answer, .. } => match answer {
            PersonAnswer::Approved => "approved".to_owned(),
            PersonAnswer::Denied { why } => format!("denied: {why}"),
            PersonAnswer::Answered { text } => format!("answered: {text}"),
        },
        EventKind::ApprovedBy { by, .. } => by.to_string(),
        EventKind::Instruction { text } => text.to_string(),
        EventKind::StopRequested { how: StopMode::AtGate } => "at the next gate".to_owned(),
        EventKind::StopRequested { how: StopMode::Now } => "now".to_owned(),
        EventKind::StopWithdrawn | EventKind::DeadlineReached => String::new(),
        EventKind::Resumed { away_ms, by } => {
            let by = by.as_ref().map_or_else(String::new, |by| format!(", by {by}"));
            format!("after {away_ms} ms without a driver{by}")
        }
        EventKind::CheckStarted { attempt, .. } => format!("it may ask a model{}", again(*attempt)),
        EventKind::Checked { result, .. } => check_in_words(result),
        EventKind::SaveFinished { result, .. } => match result {
            SaveResult::Saved { location } => location.to_string(),
            SaveResult::Failed { message, .. } => message.to_string(),
        },
    }
}

fn again(attempt: u32) -> String {
    if attempt > 1 { format!(", try {attempt}") } else { String::new() }
}
