//! Prints the outcome of a run: the result on standard output, and the summary on standard error.

use loop_claims::Claim;
use loop_core::gate::Measure;
use loop_core::run::SaveState;
use loop_core::types::{Cost, PicoUsd, StopClass, Totals};
use loop_core::{Outcome, StopReason};
use loop_runtime::Runner;
use loop_runtime::budget::{BudgetUse, SharedBudget, Span};
use loop_runtime::report::{counted, explain, warnings};

use super::grounding;
use crate::output::stream;

/// Prints the result of a run: its document, its answer, or its valid output. At a terminal, contradicted values have a
/// mark.
pub(crate) fn print_result(outcome: &Outcome, claims: &[Claim]) {
    if let Some(answer) = &outcome.answer {
        return stream::print(&format!("{}\n", answer.trim_end()));
    }
    let Some(output) = outcome.output.as_ref().filter(|output| output.valid) else {
        return stream::print(&grounding::shown(&outcome.document, claims).to_markdown());
    };
    let value = serde_json::from_str::<serde_json::Value>(&output.value);
    let pretty = value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    stream::print_json(&format!("{}\n", pretty.as_deref().unwrap_or(&output.value)));
}

/// The runs that this one called, each with its stop reason and usage, which the totals include.
fn called(outcome: &Outcome) {
    let called = outcome.evidence.iter().filter_map(|it| Some((it, it.observation.child.as_deref()?)));
    for (evidence, child) in called.clone().take(MAX_CALLED) {
        let Some(run) = &child.run else {
            stream::note(format!("called:  {} {}: it did not begin", evidence.id, evidence.tool));
            continue;
        };
        let reason = if child.reason.is_empty() { "not ended" } else { &*child.reason };
        let effects = match child.effects.is_none() {
            true => String::new(),
            false => format!(", effects: {}", child.effects),
        };
        let calls = counted(child.model_calls, "model call");
        stream::note(format!(
            "called:  {} {} {run}: {reason}, {calls}, {}{effects}",
            evidence.id, evidence.tool, child.cost
        ));
    }
    let more = called.count().saturating_sub(MAX_CALLED);
    if more > 0 {
        stream::note(format!("called:  {more} more; `loopgate report {}` lists them", outcome.run));
    }
}

/// The most called runs that are named.
const MAX_CALLED: usize = 8;

/// Prints the reason, undone actions, the cost, and who wrote the document, on standard error.
pub(crate) fn summary(outcome: &Outcome, claims: &[Claim], wrote: &[String]) {
    let stop = &outcome.stop;
    stream::note("");
    stream::note(format!("stopped: {} ({}). {}", stop.name(), stop.class.name(), explain(stop)));
    if !outcome.missing.is_empty() {
        let missing: Vec<&str> = outcome.missing.iter().map(AsRef::as_ref).collect();
        stream::note(format!("missing: {}", missing.join(", ")));
    }
    if let Some(line) = grounding::line(claims) {
        stream::note(format!("values:  {line}"));
    }
    if let Some(output) = outcome.output.as_ref().filter(|output| !output.valid) {
        let why = outcome.rejection.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        stream::note(format!("invalid: {}{why}", output.value));
    }
    doubts(outcome);
    warned(outcome);
    if stop.class == StopClass::NeedsHuman {
        stream::note("over:    nothing waits in this run any more; what is left is for a person to do");
    }
    for action in outcome.undone().take(MAX_UNDONE) {
        stream::note(format!(
            "undone:  {} {} ({})",
            action.tool_name(),
            action.parameters,
            action.reason(&outcome.evidence)
        ));
    }
    let more = outcome.undone().count().saturating_sub(MAX_UNDONE);
    if more > 0 {
        stream::note(format!("undone:  {more} more; `loopgate show {}` lists them", outcome.run));
    }
    if outcome.totals.unread_calls > 0 {
        let unread = outcome.totals.unread_calls;
        stream::note(format!("undone:  {unread} calls beyond limits.requested_calls of one reply; not read"));
    }
    stream::note(format!("totals:  {}", bill(&outcome.totals)));
    called(outcome);
    wrote.iter().for_each(stream::note);
    match &outcome.saved {
        Some(loop_core::run::SaveState::At { location }) => stream::note(format!("saved:   {location}")),
        Some(loop_core::run::SaveState::Not { message }) => {
            stream::note(format!("saved:   no: {message}; the journal has it"))
        }
        None => {}
    }
    stream::note(format!("run:     {}", outcome.run));
}

/// Prints the warnings on standard error.
pub(crate) fn warned(outcome: &Outcome) {
    for warning in warnings(&outcome.calls, &outcome.warnings) {
        stream::note(format!("warning: {warning}"));
    }
}

/// Prints on standard error the effects that were owed and did not happen, and those with an unknown outcome.
pub(crate) fn doubts(outcome: &Outcome) {
    for condition in &outcome.stop.also {
        if let Measure::NotDone(effects) = &condition.value {
            // Of one condition all are planned, or none is.
            let what = if condition.reason == StopReason::EffectBlocked { "not planned" } else { "not done" };
            effects.iter().for_each(|effect| stream::note(format!("{what}: {effect}")));
        }
    }
    for condition in outcome.stop.also.iter().filter(|condition| condition.reason == StopReason::InDoubt) {
        let effects = match &condition.value {
            Measure::Names(effects) => effects.join(", "),
            other => other.to_string(),
        };
        stream::note(format!(
            "in doubt: {effects}: it may or may not have happened; look before anything is done again"
        ));
    }
}

/// The most undone actions that are listed. The rest is counted.
const MAX_UNDONE: usize = 20;

/// Totals in one line.
pub(crate) fn bill(totals: &Totals) -> String {
    let mark = if totals.usage.estimated { " (in part estimated)" } else { "" };
    format!(
        "{}, {}, {}, {}{mark}, {}, {:.1} s",
        counted(totals.passes, "pass"),
        counted(totals.model_calls, "model call"),
        counted(totals.tool_calls, "tool call"),
        counted(totals.usage.total(), "token"),
        cost(&totals.cost),
        totals.wall_ms as f64 / 1_000.0,
    )
}

/// A cost in a list of figures.
pub(crate) fn cost(spend: &Cost) -> String {
    if spend.total().is_none() && spend.known == PicoUsd::default() {
        "cost unknown".to_owned()
    } else {
        spend.to_string()
    }
}

/// Whether the run has an answer that is saved where it should be, and its outcome in a line.
pub(crate) fn ended(outcome: &Outcome) -> (bool, String) {
    let (reason, class) = (outcome.stop.name(), outcome.stop.class);
    let not_saved = match &outcome.saved {
        Some(SaveState::Not { message }) => format!("; not saved: {message}"),
        Some(SaveState::At { .. }) | None => String::new(),
    };
    let is_well = class == StopClass::Answered && not_saved.is_empty();
    (is_well, format!("{reason} ({}){not_saved}", class.name()))
}

/// The use of each shared budget, a line each. A budget that cannot be read is left out.
pub(crate) async fn budget_lines(runner: &Runner) -> Vec<String> {
    let Some(shared) = runner.shared_budgets() else { return Vec::new() };
    let taken = shared.taken().await.unwrap_or_default();
    let line = |(budget, taken): (SharedBudget, BudgetUse)| {
        let (whose, raise) = match budget.span {
            Span::Day => ("of this day by UTC", "[budget] day_usd"),
            Span::Month => ("of this month by UTC", "[budget] month_usd"),
            Span::Batch => ("of this batch", "--budget-usd"),
            Span::TokenDay => ("of this token on this day by UTC", "day_usd of the token"),
        };
        let reserved = match taken.reserved.0 {
            0 => String::new(),
            _ => format!(", {} reserved", taken.reserved),
        };
        format!("budget:  {whose}: {} of {} spent{reserved} ({raise})", taken.spent, budget.limit)
    };
    taken.into_iter().map(line).collect()
}
