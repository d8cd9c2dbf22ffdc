//! Lists of runs, as lines for programs and as a table for people.

use std::time::SystemTime;

use anstyle::{AnsiColor, Style};
use loop_core::StopReason;
use loop_core::types::PicoUsd;
use loop_inspect::listed::{ListedRun, ListedTotals};
use loop_runtime::journal::unix_ms;
use loop_runtime::report::counted;

use super::outcome::cost;
use super::status::dollars;
use crate::output::{
    TextLine, columns, count, cut, grouped, row, screen::columns_of, screen::fit, screen::in_locale, time,
};

/// A run as a line for programs. Its fields are separated by tabs: id, start, stop, item and title, cost, duration,
/// domain.
pub(crate) fn one(text: &mut String, run: &ListedRun, elapsed_ms: Option<u64>) {
    row(text, &cells(run, elapsed_ms, time(run.started_unix_ms)).join("\t"));
}

/// The fields of a run. `elapsed_ms` is its duration, and `when` its formatted start.
fn cells(run: &ListedRun, elapsed_ms: Option<u64>, when: String) -> [String; 7] {
    let entries = || format!("{}, {}", run.state.name(), counted(run.entries, "entry"));
    let stop = run.reason.clone().unwrap_or_else(entries);
    // A class that the reason alone does not say, for example of a run whose effect is in doubt.
    let own = StopReason::all().iter().find(|own| own.name() == stop).map(|own| own.class().name());
    let class = run.class.as_deref().filter(|class| Some(*class) != own);
    let stop = class.map_or_else(|| stop.clone(), |class| format!("{stop} ({class})"));
    let stop = run.trouble.as_ref().map_or(stop, |trouble| format!("damaged: {trouble}"));
    let tags: String = run.tags.iter().map(|tag| format!(" #{}", cut(tag, MAX_ID_CHARS))).collect();
    let label = run.label.as_ref().map_or_else(String::new, |it| format!(" [{}]", it.label.name()));
    let imported = if run.imported { " (imported)" } else { "" };
    let (id, title) = (cut(&run.item, MAX_ID_CHARS), cut(&run.title, MAX_TITLE_CHARS));
    let is_known = run.cost.unpriced_calls == 0;
    let cost = if is_known { dollars(PicoUsd(run.cost.pico_usd)) } else { "unknown".to_owned() };
    [
        run.run.clone(),
        when,
        cut(&stop, MAX_TITLE_CHARS),
        format!("{id} {title}{tags}{imported}{label}"),
        cost,
        elapsed_ms.map_or_else(|| "-".to_owned(), span),
        cut(&run.domain, MAX_ID_CHARS),
    ]
}

const TITLES: [&str; 7] = ["RUN", "AGE", "REASON", "ITEM", "COST", "TIME", "DOMAIN"];

/// Runs as a table for people with at most `width` columns. The id, the item, the domain and the reason are shortened
/// in this order. A shortened id still names the run in every command.
pub(crate) fn table(runs: &[(ListedRun, Option<u64>)], width: usize) -> Vec<TextLine> {
    let now = unix_ms(SystemTime::now());
    let ago = |run: &ListedRun| format!("{} ago", span(now.saturating_sub(run.started_unix_ms)));
    let rows = runs.iter().map(|(run, elapsed)| cells(run, *elapsed, ago(run)));
    let mut rows: Vec<_> = std::iter::once(TITLES.map(str::to_owned)).chain(rows).collect();
    let excess = |rows: &[[String; 7]]| {
        let all = columns(rows, " ").lines().map(columns_of).max().unwrap_or_default();
        (all + 2).saturating_sub(width)
    };
    if excess(&rows) > 0 {
        let ids = rows.iter_mut().map(|[id, ..]| id);
        ids.filter(|id| id.len() == UUID && id.is_ascii()).for_each(|id| id.truncate(BEGINNING));
    }
    let mut excess = excess(&rows);
    for at in [3, 6, 2] {
        let mut cells: Vec<&mut String> = rows.iter_mut().filter_map(|row| row.get_mut(at)).collect();
        let widest = cells.iter().map(|cell| columns_of(cell)).max().unwrap_or_default();
        let kept = widest.saturating_sub(excess).max(widest.min(LEAST));
        excess = excess.saturating_sub(widest - kept);
        cells.iter_mut().for_each(|cell| **cell = fit(cell, kept));
    }
    let signs = std::iter::once((" ", Style::new())).chain(runs.iter().map(|(run, _)| sign(run)));
    let shown = columns(&rows, " ");
    let line = |(line, (sign, style)): (&str, (&str, Style))| {
        TextLine::new().styled(style, in_locale(sign)).plain(" ").plain(fit(line, width.saturating_sub(2)))
    };
    shown.lines().zip(signs).map(line).collect()
}

/// The characters of a generated id, and of the beginning with its millisecond and counter.
const UUID: usize = 36;
const BEGINNING: usize = 18;

/// The fewest columns of a shortened field.
const LEAST: usize = 6;

/// A sign for how a run ended or what it is doing, with its colour.
fn sign(run: &ListedRun) -> (&'static str, Style) {
    let (sign, color) = match run.outcome() {
        "answered" => ("✓", AnsiColor::Green),
        "refused" | "failed" | "damaged" | "in_doubt" => ("✗", AnsiColor::Red),
        "waiting" | "needs_human" => ("?", AnsiColor::Magenta),
        "running" => ("●", AnsiColor::Cyan),
        _ => ("-", AnsiColor::Yellow),
    };
    (sign, color.on_default())
}

/// A duration in its largest unit.
fn span(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The totals of runs in a line.
pub(crate) fn in_words(totals: &ListedTotals) -> String {
    let runs = count(totals.runs, "run");
    let outcomes = totals.by_outcome.iter().map(|(outcome, count)| format!("{} {outcome}", grouped(*count)));
    let outcomes = outcomes.collect::<Vec<_>>().join(", ");
    if outcomes.is_empty() {
        return runs;
    }
    format!("{runs} ({outcomes}), {}", cost(&totals.spent()))
}

/// The most characters of an item's id.
const MAX_ID_CHARS: usize = 60;

/// The most characters of an item's title.
const MAX_TITLE_CHARS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let minute = 60_000;
        let all = [400, minute, 130 * minute, 72 * 60 * minute].map(span);
        assert_eq!(all, ["0s", "1m", "2h", "3d"]);
    }
}
