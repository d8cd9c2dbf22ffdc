//! Renders pending requests for people.

use std::path::Path;

use loop_core::Run;
use loop_core::policy::shown;
use loop_core::run::PersonRequest;
use loop_core::types::{Millis, Scope};
use loop_runtime::report::{EffectPlanReport, PersonRequestReport};

use crate::output::{at_journal, count, one_line, time};

/// The most lines of the document that an approver sees next to the request.
const DOCUMENT_LINES: usize = 8;

/// The pending requests of a run for people: its plan, each action with its exact arguments, and the commands that
/// answer. `manifest` is that of its tools.
pub(crate) fn in_words(state: &Run, manifest: &str, now: Millis, journal: Option<&Path>) -> String {
    let started = state.started();
    let (run, item) = (&started.run, &started.item);
    let mut text = String::new();
    let mut row = |line: String| {
        text.push_str(&one_line(&line));
        text.push('\n');
    };
    row(format!("run {run}: {} {}: {}", item.kind, item.id, item.title));
    let scope = scope_of(&item.scope);
    if !scope.is_empty() {
        row(format!("  what the item concerns, which a tool may use as well: {scope}"));
    }
    plan_lines(state).into_iter().for_each(|line| row(format!("  {line}")));
    let at = at_journal(journal);
    let document = state.document().to_markdown();
    let mut written = document.lines().filter(|line| !line.trim().is_empty());
    let beginning: Vec<&str> = written.by_ref().take(DOCUMENT_LINES).collect();
    if !beginning.is_empty() {
        row("  the document so far:".to_owned());
        beginning.into_iter().for_each(|line| row(format!("  | {line}")));
        let more = written.count() as u64;
        if more > 0 {
            row(format!("  | … and {}: loopgate show {run}{at}", count(more, "more line")));
        }
    }
    for requested in &state.requested() {
        let PersonRequest { key, id, tool, is_question, deadline, binding, .. } = requested;
        row(String::new());
        row(format!("  {key}  {tool}  ({}, the model calls it {id})", kind_of(requested)));
        for by in &requested.approvers {
            row(format!("    approved by {by}; another token has to approve it as well"));
        }
        details(state, manifest, requested).into_iter().for_each(|line| row(format!("    {line}")));
        let until = deadline.map(|deadline| time(started.unix_ms_at(deadline)));
        match deadline.zip(until) {
            None => row("    no deadline: it waits until it is answered".to_owned()),
            Some((deadline, until)) if deadline > now => {
                let left = left(deadline.since(now));
                row(format!("    until {until} UTC ({left} left), then it counts as a denial"));
            }
            Some((_, until)) => {
                row(format!("    its time was over at {until} UTC, which counts as a denial"));
                row(format!("    loopgate resume {run}{at}"));
                continue;
            }
        }
        let bound = format!("--binding {}", binding.short());
        if requested.approvals > 1 {
            let people = requested.approvals;
            row(format!("    {people} tokens of `loopgate serve` have to approve it"));
        } else {
            let yes = if *is_question { "answer" } else { "approve" };
            let stated = if *is_question { " TEXT" } else { "" };
            row(format!("    loopgate {yes} {run} {key}{stated} {bound}{at}"));
        }
        row(format!("    loopgate deny {run} {key} --why TEXT {bound}{at}"));
    }
    text
}

/// The time left, in its largest unit.
fn left(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// The scope of a work item, which a tool gets without the model, so that no parameter shows it.
fn scope_of(scope: &Scope) -> String {
    let Scope { account, account_name, asset, person, item: _ } = scope;
    let all = [("account", account), ("account_name", account_name), ("asset", asset), ("person", person)];
    let given = all.into_iter().filter_map(|(key, value)| Some(format!("{key} {}", value.as_deref()?)));
    given.collect::<Vec<_>>().join(", ")
}

/// The kind of a request: an answer, or approval of an effect.
pub(crate) fn kind_of(requested: &PersonRequest) -> String {
    if requested.is_question {
        "a question".to_owned()
    } else {
        format!("effect {}", requested.effect.name())
    }
}

/// A run's plan, in lines. Empty if it has none.
pub(crate) fn plan_lines(state: &Run) -> Vec<String> {
    let Some(plan) = EffectPlanReport::of(state) else { return Vec::new() };
    let slots = plan.slots.iter().map(|slot| format!("- {slot}"));
    std::iter::once(format!("{}:", plan.giver())).chain(slots).collect()
}

/// The details of an action for a decision, in lines: what its tool does and connects to, all parameters with invisible
/// characters spelled out, what is easily overlooked, the origin of each value, and why approval is needed.
pub(crate) fn details(state: &Run, manifest: &str, requested: &PersonRequest) -> Vec<String> {
    let report = PersonRequestReport::new(state, manifest, requested);
    let shown = shown(&requested.parameters);
    let mut lines = Vec::new();
    lines.extend(Some(report.description).filter(|it| !it.is_empty()).map(|it| format!("it does: {it}")));
    lines.extend(report.connects_to.map(|place| format!("it connects to: {place}")));
    lines.extend(shown.text.lines().map(str::to_owned));
    lines.push(format!("{}, {}", count(shown.bytes, "byte"), count(shown.values, "value")));
    lines.extend(shown.warnings.iter().map(|warning| format!("mind: {warning}")));
    for it in &report.origins {
        let authority = if it.authority { ", which says whom it reaches" } else { "" };
        lines.push(format!("{}{authority}: {}", it.pointer, it.in_words()));
    }
    if report.origins_left_out > 0 {
        lines.push(format!("mind: {} more are not traced", count(report.origins_left_out, "value")));
    }
    lines.extend(report.slot.map(|slot| format!("it fits the plan: {slot}")));
    lines.push(format!("asked because: {}", requested.why));
    if !requested.reason.is_empty() {
        lines.push(format!("the model says: {}", requested.reason));
    }
    lines
}
