//! The page of guard scores.

use super::score::{Group, Labelled, Score, Table};
use super::show::{GROUPS, percent, ratio};
use crate::page::{Page, PageCell};

/// How many lines of details a page has.
const MAX_DETAILS: usize = 500;

/// The page of a finished table. The same table always gives the same page.
pub fn page(table: &Table) -> String {
    let mut page = Page::new("Guard scores", "");
    let Some(first) = table.scores.first() else { return page.finish() };
    let groups = [first.successful, first.failed, first.unknown];
    let runs: u64 = groups.iter().map(|group| group.runs).sum();
    let calls: u64 = groups.iter().map(|group| group.calls).sum();
    page.paragraph(&format!(
        "{runs} recorded runs with {calls} calls. Each row is a policy against repeats, and what it would have refused."
    ));
    for (title, select) in GROUPS {
        if select(first).runs > 0 {
            group(&mut page, title, &table.scores, *select);
        }
    }
    page.heading("All runs");
    let rows = table.scores.iter().map(|score| {
        let stop = score.stop.map_or_else(|| "-".to_owned(), |stop| stop.to_string());
        vec![PageCell::text(&score.policy), PageCell::number(stop), PageCell::number(score.calls_saved)]
    });
    page.table(&["policy", "stop at", "calls saved"], rows);
    page.paragraph(
        "Stop at: the median position of the first refused call. Calls saved: calls lost in failed runs and in loops, which \
         would have been useless.",
    );
    labelled(&mut page, &table.scores);
    let details = table.details();
    if !details.is_empty() {
        page.heading("Details");
        page.list(details.lines().take(MAX_DETAILS));
        let more = details.lines().count().saturating_sub(MAX_DETAILS);
        if more > 0 {
            page.paragraph(&format!("{more} more; the command prints all of them."));
        }
    }
    page.finish()
}

fn group(page: &mut Page, title: &str, scores: &[Score], select: fn(&Score) -> Group) {
    let first = scores.first().map(select).unwrap_or_default();
    let mut heading = title.chars();
    let heading: String = heading.next().into_iter().flat_map(char::to_uppercase).chain(heading).collect();
    page.heading(&format!("{heading}: {} with {} calls", first.runs, first.calls));
    let rows = scores.iter().map(|score| {
        let of = select(score);
        vec![
            PageCell::text(&score.policy),
            PageCell::number(of.runs_hit),
            PageCell::number(percent(of.runs_hit, of.runs)),
            PageCell::number(of.calls_lost),
            PageCell::number(percent(of.calls_lost, of.calls)),
            PageCell::number(of.new_refused),
        ]
    });
    page.table(&["policy", "runs hit", "of runs", "calls lost", "of calls", "new refused"], rows);
    let rows = scores.iter().map(|score| {
        let of = select(score);
        vec![
            PageCell::text(&score.policy),
            PageCell::number(of.runs_met),
            PageCell::number(percent(of.runs_met, of.runs)),
            PageCell::number(of.notes),
            PageCell::number(of.refused),
            PageCell::number(of.new_refused),
            PageCell::number(of.runs_stopped),
        ]
    });
    let heads = ["by grade", "runs met", "of runs", "notes", "refused", "new refused", "runs stopped"];
    page.table(&heads, rows);
}

fn labelled(page: &mut Page, scores: &[Score]) {
    let labelled: Vec<(&str, &Labelled)> =
        scores.iter().filter_map(|score| Some((&*score.policy, score.labelled.as_ref()?))).collect();
    let Some((_, first)) = labelled.first() else { return };
    page.heading(&format!("Labelled: {} loops and {} productive runs", first.loops, first.productive));
    let rows = labelled.iter().map(|(policy, of)| {
        vec![
            PageCell::text(*policy),
            PageCell::number(of.caught),
            PageCell::number(ratio(of.caught, of.loops)),
            PageCell::number(of.early),
            PageCell::number(of.late_by.map_or_else(|| "-".to_owned(), |late| late.to_string())),
            PageCell::number(of.false_positives),
            PageCell::number(ratio(of.false_positives, of.productive)),
            PageCell::number(of.noted),
        ]
    });
    let heads =
        ["policy", "caught", "recall", "early", "late by", "false positives", "of productive runs", "noted"];
    page.table(&heads, rows);
}
