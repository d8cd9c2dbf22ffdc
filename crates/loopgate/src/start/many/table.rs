//! The result of a batch: a table of its items, the totals, and how to continue.

use std::collections::BTreeMap;

use loop_core::StopReason;
use loop_core::types::PicoUsd;
use loop_runtime::report::{BatchLine, BatchState};

use crate::output::{columns, cut, one_line};

/// The most characters of an item's id and of a reason in the table at a terminal. Elsewhere nothing is cut.
const MAX_ITEM: usize = 32;
const MAX_REASON: usize = 48;

/// One row for each item, in this order.
pub(super) fn table(lines: &[BatchLine], is_cut: bool) -> String {
    let mut rows = vec![["item", "outcome", "reason", "passes", "cost", "run"].map(str::to_owned)];
    rows.extend(lines.iter().map(|line| row(line, is_cut)));
    columns(&rows, "  ")
}

fn row(line: &BatchLine, is_cut: bool) -> [String; 6] {
    let outcome = match (line.state, &line.class) {
        (BatchState::Ended, Some(class)) => class.clone(),
        (BatchState::Pruned, _) => PRUNED.to_owned(),
        (state, _) => state.name().to_owned(),
    };
    let is_marked = line.done_before && line.state != BatchState::Pruned;
    let outcome = if is_marked { format!("{outcome} (before)") } else { outcome };
    // What an ended run says is why it is not saved, and has a line of its own.
    let message = line.message.as_ref().filter(|_| line.state != BatchState::Ended);
    let reason = message.or(line.reason.as_ref());
    let cell = |text: &str, max: usize| if is_cut { cut(text, max) } else { one_line(text).into_owned() };
    // Of a pruned run neither is known any more.
    let is_known = line.run.is_some() && line.state != BatchState::Pruned;
    let known = |text: String| if is_known { text } else { String::new() };
    [
        cell(&line.item, MAX_ITEM),
        outcome,
        reason.map_or_else(String::new, |reason| cell(reason, MAX_REASON)),
        known(line.passes.to_string()),
        known(PicoUsd(line.cost_pico_usd).to_string()),
        line.run.clone().unwrap_or_default(),
    ]
}

/// The table's entry for an item whose run was pruned.
const PRUNED: &str = "done (pruned)";

/// Lines on standard error about an item that is done: why it failed, and why its outcome is not saved.
pub(super) fn notes(line: &BatchLine) -> Vec<String> {
    let item = one_line(&line.item);
    let mut notes = Vec::new();
    let why = if line.state == BatchState::Failed { &line.message } else { &line.reason };
    if let Some(why) = why.as_ref().filter(|_| line.exit_code == FAILED && !line.done_before) {
        notes.push(format!("item {item}: failed: {why}"));
    }
    if is_unsaved(&line) {
        notes.extend(line.message.iter().map(|why| format!("item {item}: {why}")));
    }
    notes
}

/// The exit code of an item that failed.
const FAILED: u8 = 6;

/// Whether the outcome of a run could not be saved.
fn is_unsaved(line: &&BatchLine) -> bool {
    line.state == BatchState::Ended && !line.done_before && line.message.is_some()
}

/// The number of items with each outcome, and the cost of this start, for standard error.
pub(super) fn summary(lines: &[BatchLine]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        let name = match (line.state, line.class.as_deref()) {
            (BatchState::Ended, Some(class)) => class,
            (BatchState::Pruned, _) => PRUNED,
            (state, _) => state.name(),
        };
        *counts.entry(name).or_default() += 1;
    }
    let counts: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    let before = lines.iter().filter(|line| line.done_before).count();
    let before = match before {
        0 => String::new(),
        1 => "; 1 was done before".to_owned(),
        before => format!("; {before} were done before"),
    };
    let unsaved = lines.iter().filter(is_unsaved).count();
    let unsaved = if unsaved > 0 { format!("; {unsaved} not saved") } else { String::new() };
    // An item that is given twice is run once.
    let costs: BTreeMap<&str, u64> = lines
        .iter()
        .filter(|line| !line.done_before)
        .filter_map(|line| Some((line.run.as_deref()?, line.cost_pico_usd)))
        .collect();
    let cost = costs.into_values().fold(PicoUsd(0), |sum, cost| sum.plus(PicoUsd(cost)));
    vec![
        String::new(),
        format!("batch:   {}{before}{unsaved}", counts.join(", ")),
        format!("cost:    {cost} in this start"),
    ]
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What the same command would do next. `None`: everything is done.
pub(super) fn how_to_continue(lines: &[BatchLine]) -> Option<String> {
    let is = |state| lines.iter().filter(|line| line.state == state).count();
    let by_budget = StopReason::SharedBudgetExceeded;
    let is_cut_off = |line: &&BatchLine| {
        line.reason.as_deref() == Some(by_budget.name())
            && line.class.as_deref() == Some(by_budget.class().name())
    };
    let cut_off = lines.iter().filter(is_cut_off).count();
    let left = is(BatchState::NotStarted) + cut_off;
    let failed = lines.iter().filter(|line| line.exit_code == FAILED).count();
    let waiting = is(BatchState::Waiting);
    let mut parts = Vec::new();
    if left > 0 {
        let items = counted(left, "item that is not done", "items that are not done");
        parts.push(format!("the same command continues with {items}"));
    }
    if failed > 0 {
        let items = counted(failed, "failed item", "failed items");
        parts.push(format!("--retry-failed begins {items} again"));
    }
    if waiting > 0 {
        let items = counted(waiting, "item waits", "items wait");
        parts.push(format!("`loopgate pending` lists what {items} for"));
    }
    if let Some(run) = lines.iter().find(is_unsaved).and_then(|line| line.run.as_deref()) {
        let others = match lines.iter().filter(is_unsaved).count() {
            1 => "",
            _ => ", and so for each run that is not saved",
        };
        parts.push(format!("`loopgate resume {run} --save` saves its outcome{others}"));
    }
    (!parts.is_empty()).then(|| format!("next:    {}", parts.join("; ")))
}
