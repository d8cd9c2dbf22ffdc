//! Runs of a journal as lines.

use loop_core::StopReason;
use loop_inspect::listed::{ListedRun, ListedTotals};
use loop_runtime::report::counted;

use super::outcome::cost;
use crate::output::{count, cut, grouped, row, time};

/// A run in a line.
pub(crate) fn one(text: &mut String, listed: &ListedRun) {
    let ListedRun { run, started_unix_ms, domain, item, title, entries, reason, tags, .. } = listed;
    let (item, title) = (cut(item, MAX_ID_CHARS), cut(title, MAX_TITLE_CHARS));
    let time = time(*started_unix_ms);
    let head = format!("{run}  {time}  {domain:<12} {item:<10}");
    if let Some(trouble) = &listed.trouble {
        return row(text, &format!("{head} damaged: {trouble}"));
    }
    let stop =
        reason.clone().unwrap_or_else(|| format!("{}, {}", listed.state.name(), counted(*entries, "entry")));
    // A class that the reason alone does not say, for example of a run whose effect is in doubt.
    let own = StopReason::all().iter().find(|own| own.name() == stop).map(|own| own.class().name());
    let class = listed.class.as_deref().filter(|class| Some(*class) != own);
    let stop = class.map_or_else(|| stop.clone(), |class| format!("{stop} ({class})"));
    let tags: String = tags.iter().map(|tag| format!(" #{}", cut(tag, MAX_ID_CHARS))).collect();
    let imported = if listed.imported { " (imported)" } else { "" };
    row(text, &format!("{head} {stop:<20} {title}{tags}{imported}"));
}

/// Runs together, in a line.
pub(crate) fn in_words(totals: &ListedTotals) -> String {
    let runs = count(totals.runs, "run");
    let outcomes = totals.by_outcome.iter().map(|(outcome, count)| format!("{} {outcome}", grouped(*count)));
    let outcomes = outcomes.collect::<Vec<_>>().join(", ");
    if outcomes.is_empty() {
        return runs;
    }
    format!("{runs} ({outcomes}), {}", cost(&totals.spent()))
}

/// How much of an item's id is listed, in characters.
const MAX_ID_CHARS: usize = 60;

/// How much of its title is listed, in characters.
const MAX_TITLE_CHARS: usize = 100;
