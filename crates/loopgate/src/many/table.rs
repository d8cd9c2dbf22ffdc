//! The end of a batch: a table of its items, the totals, and how to continue.

use std::collections::BTreeMap;

use loop_core::{PicoUsd, StopReason};
use loop_runtime::report::{BatchLine, BatchState};

use crate::stream::cut;

/// The most characters of an item's id and of a reason in the table.
const MAX_ITEM: usize = 32;
const MAX_REASON: usize = 48;

/// One row for each item, in this order.
pub(super) fn table(lines: &[BatchLine]) -> String {
    let mut rows = vec![["item", "outcome", "reason", "passes", "cost", "run"].map(str::to_owned)];
    rows.extend(lines.iter().map(row));
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(line: &BatchLine) -> [String; 6] {
    let outcome = match (line.state, &line.class) {
        (BatchState::Ended, Some(class)) => class.clone(),
        (state, _) => state.name().to_owned(),
    };
    let outcome = if line.done_before { format!("{outcome} (before)") } else { outcome };
    let reason = line.message.as_ref().or(line.reason.as_ref());
    let cost = match line.run {
        Some(_) => PicoUsd(line.cost_pico_usd).to_string(),
        None => String::new(),
    };
    [
        cut(&line.item, MAX_ITEM),
        outcome,
        reason.map_or_else(String::new, |reason| cut(reason, MAX_REASON)),
        if line.run.is_some() { line.passes.to_string() } else { String::new() },
        cost,
        line.run.clone().unwrap_or_default(),
    ]
}

/// How many items there are of each outcome, and what this start cost, for standard error.
pub(super) fn summary(lines: &[BatchLine]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        let name = match (line.state, line.class.as_deref()) {
            (BatchState::Ended, Some(class)) => class,
            (state, _) => state.name(),
        };
        *counts.entry(name).or_default() += 1;
    }
    let counts: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    let before = lines.iter().filter(|line| line.done_before).count();
    let before = if before > 0 { format!("; {before} were done before") } else { String::new() };
    // An item that is given twice is run once.
    let costs: BTreeMap<&str, u64> = lines
        .iter()
        .filter(|line| !line.done_before)
        .filter_map(|line| Some((line.run.as_deref()?, line.cost_pico_usd)))
        .collect();
    let cost = costs.into_values().fold(PicoUsd(0), |sum, cost| sum.plus(PicoUsd(cost)));
    vec![
        String::new(),
        format!("batch:   {}{before}", counts.join(", ")),
        format!("cost:    {cost} in this start"),
    ]
}

/// What the same command does next. `None`: everything is done.
pub(super) fn how_to_continue(lines: &[BatchLine]) -> Option<String> {
    let is = |state| lines.iter().filter(|line| line.state == state).count();
    let by_budget = StopReason::SharedBudgetExceeded;
    let is_cut_off = |line: &&BatchLine| {
        line.reason.as_deref() == Some(by_budget.name())
            && line.class.as_deref() == Some(by_budget.class().name())
    };
    let cut_off = lines.iter().filter(is_cut_off).count();
    let left = is(BatchState::NotStarted) + cut_off;
    let failed = lines.iter().filter(|line| line.exit_code == 6).count();
    let waiting = is(BatchState::Waiting);
    let mut parts = Vec::new();
    if left > 0 {
        parts.push(format!("the same command continues with {left} items that are not done"));
    }
    if failed > 0 {
        parts.push(format!("--retry-failed begins {failed} failed items again"));
    }
    if waiting > 0 {
        parts.push(format!("`loopgate pending` lists what {waiting} items wait for"));
    }
    (!parts.is_empty()).then(|| format!("next:    {}", parts.join("; ")))
}
