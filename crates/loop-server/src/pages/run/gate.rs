//! The gate part of a run's page: the decision after each pass, the use of every limit, and what would have continued
//! the run.

use loop_core::run::{Decision, SelectedBy};
use loop_core::types::{Confidence, RunId};
use loop_core::{Note, Run};
use loop_inspect::diff::decided;
use loop_inspect::why::{Continuation, LimitUse, Why, WhyCondition};
use loop_runtime::journal::Recorded;
use maud::{Markup, html};

use super::AppliedEntry;
use super::shown::{PagePosition, nothing};
use crate::pages::text::{heads, t};

#[derive(Debug, Default)]
pub(super) struct GatePart {
    decisions: Vec<GateRow>,
    /// The event of the outcome. `None`: there is none.
    ended: Option<u64>,
    /// What would have continued the run, from that event on.
    continuation: Option<(u64, Continuation)>,
}

/// A decision.
#[derive(Debug)]
struct GateRow {
    at: u64,
    pass: u32,
    what: String,
    is_stop: bool,
    /// The stated confidence of the pass. `None`: the protocol has no confidence, or there was no pass.
    confidence: Option<(Confidence, Option<Confidence>, String)>,
    conditions: Vec<WhyCondition>,
    limits: Vec<LimitUse>,
    missing: Vec<String>,
    /// Other decisions of the same event.
    others: Vec<String>,
}

impl GatePart {
    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        if seen.run.outcome().is_some() {
            self.ended.get_or_insert(seen.at);
        }
        for note in &seen.entry.notes {
            match note {
                Note::GateDecided { pass, decision, .. } => {
                    let conditions = match decision {
                        Decision::Stop(certificate) => WhyCondition::all(certificate),
                        Decision::FinalPass { cause } => vec![WhyCondition::new(cause)],
                        Decision::Act { .. } | Decision::Check { .. } | Decision::Revise { .. } => Vec::new(),
                    };
                    let is_stop = matches!(decision, Decision::Stop(_));
                    self.add(seen, *pass, decided(decision), is_stop, conditions);
                }
                Note::Stopped { certificate } => {
                    // A stop that the gate decided after a pass is there already.
                    if self.decisions.last().is_some_and(|last| last.is_stop && last.at == seen.at) {
                        continue;
                    }
                    let what = format!("stops: {}", certificate.name());
                    self.add(seen, seen.run.pass(), what, true, WhyCondition::all(certificate));
                }
                Note::Selected { by, runs } => {
                    let by = match by {
                        SelectedBy::Selector => "the auxiliary model selected".to_owned(),
                        SelectedBy::Defaults { why } => format!("the default tools, because {why}:"),
                    };
                    self.add(seen, 0, format!("selection: {by} {runs} to run"), false, Vec::new());
                }
                _ => {}
            }
        }
        let others = seen.entry.notes.iter().filter_map(other);
        match self.decisions.last_mut().filter(|last| last.at == seen.at) {
            Some(last) => last.others.extend(others),
            None => {
                let others: Vec<String> = others.collect();
                if !others.is_empty() {
                    self.add(seen, seen.run.pass(), "continues".to_owned(), false, Vec::new());
                    self.decisions
                        .iter_mut()
                        .next_back()
                        .into_iter()
                        .for_each(|last| last.others = others.clone());
                }
            }
        }
    }

    fn add(
        &mut self,
        seen: &AppliedEntry<'_>,
        pass: u32,
        what: String,
        is_stop: bool,
        conditions: Vec<WhyCondition>,
    ) {
        let run = seen.run;
        let record = run.passes().iter().find(|record| record.pass == pass);
        let record = record.filter(|_| run.spec().protocol.properties().states_confidence);
        self.decisions.push(GateRow {
            at: seen.at,
            pass,
            what,
            is_stop,
            confidence: record.map(|record| {
                let measured = record.calibrated.map(|it| it.measured);
                (record.confidence, measured, record.confidence_reason.to_string())
            }),
            conditions,
            limits: LimitUse::of(run),
            missing: if run.passes().is_empty() {
                Vec::new()
            } else {
                run.missing().iter().map(ToString::to_string).collect()
            },
            others: Vec::new(),
        });
    }

    pub(super) fn end(&mut self, id: &RunId, recorded: &Recorded, run: &Run) {
        let Some(at) = self.ended.filter(|_| run.outcome().is_some()) else { return };
        let continuation = Why::of(id, recorded).ok().and_then(|why| why.continuation);
        self.continuation = continuation.map(|continuation| (at, continuation));
    }

    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        html! {
            (nothing(shown, self.decisions.first().map(|line| line.at), "The gate has decided nothing yet."))
            // The newest is first, for it says why the run is where it is.
            @let (last, before) = self.decisions.split_last().unzip();
            @if let Some(line) = last { (line.html(shown)) }
            @if let Some((at, continuation)) = &self.continuation {
                div.decision data-from=(at) hidden[shown.is_before(*at)] {
                    h3 { "What would have continued it" }
                    (continued(continuation))
                }
            }
            @for line in before.into_iter().flatten().rev() { (line.html(shown)) }
        }
    }
}

impl GateRow {
    fn html(&self, shown: &PagePosition) -> Markup {
        html! {
            div.decision data-from=(self.at) hidden[shown.is_before(self.at)] {
                h3 {
                    @if self.pass == 0 { "Before pass 1" } @else { "After pass " (self.pass) }
                    ": " (t(&self.what))
                    " " a.quiet href="#slider" data-at=(self.at) { "event " (self.at) }
                }
                @if let Some((confidence, measured, reason)) = &self.confidence {
                    p { "Stated confidence: " strong { (confidence.name()) } @if let Some(measured) = measured { ", measured " (measured.name()) } @if !reason.is_empty() { ", “" (t(reason)) "”" } }
                }
                @if !self.missing.is_empty() { p { "Missing: " (t(&self.missing.join(", "))) } }
                @for other in &self.others { p { (t(other)) } }
                @if !self.conditions.is_empty() {
                    div.wide tabindex="0" role="region" aria-label="Conditions that were true" {
                        table {
                            caption { "Conditions that were true; the first decided" }
                            (heads(&["condition", "value", "threshold", "smallest change", "in words"]))
                            tbody {
                                @for it in &self.conditions {
                                    tr {
                                        th scope="row" { (t(&it.reason)) }
                                        td { (t(&it.value)) }
                                        td { (t(it.threshold.as_deref().unwrap_or("none"))) }
                                        td { @match &it.change { Some(change) => { code { (t(change)) } }, None => { "no setting" } } }
                                        td { (t(&it.explanation)) }
                                    }
                                }
                            }
                        }
                    }
                }
                details.more {
                    summary { "Limits at this event" }
                    table {
                        (heads(&["limit", "#used", "#threshold", "reached"]))
                        tbody {
                            @for limit in &self.limits {
                                tr {
                                    th scope="row" { code { (t(&limit.setting)) } }
                                    td.n { (t(&limit.used)) }
                                    td.n { (t(limit.limit.as_deref().unwrap_or("none"))) }
                                    td { @if limit.reached { strong.warn { "reached" } } @else { "no" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A decision that is not the gate's.
fn other(note: &Note) -> Option<String> {
    match note {
        Note::TierChanged { from, to, why } => Some(format!(
            "The next main call is made on the {} tier in place of {}: {}.",
            to.name(),
            from.name(),
            why.words()
        )),
        Note::CallRefused { key, refusal } => {
            Some(format!("The model call {key} was refused: {}.", refusal.name().replace('_', " ")))
        }
        Note::OutputRejected { attempt, by, message } => {
            Some(format!("The output of attempt {attempt} was rejected by {by}: {message}"))
        }
        Note::CallsNotRead { call, limit, count } => {
            Some(format!("{count} calls of {call} were not read: limits.requested_calls is {limit}."))
        }
        Note::Compacted { through, .. } => Some(format!(
            "The conversation up to pass {through} is shown in short from now on: a call did not fit."
        )),
        _ => None,
    }
}

fn continued(continuation: &Continuation) -> Markup {
    match continuation {
        Continuation::With { changes, next, at_least } => html! {
            ul { @for change in changes {
                li { code { (t(&change.setting)) " = " (t(&change.to)) } " in place of " code { (t(&change.from)) } }
            } }
            p { "Then: " (t(next)) "." @if *at_least { " The next call is checked against the same limit again, and may need more." } }
        },
        Continuation::NoSetting { reason, explanation } => html! {
            p { "No setting decides " code { (t(reason)) } ". " (t(explanation)) }
        },
        Continuation::Unknown { why } => html! { p { "It cannot be computed: " (t(why)) "." } },
    }
}
