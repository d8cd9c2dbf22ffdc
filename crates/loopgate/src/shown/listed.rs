//! Runs of a journal as lines.

use anstyle::{AnsiColor, Style};
use loop_core::StopReason;
use loop_core::types::{Cost, PicoUsd, StopClass};
use loop_inspect::listed::{ListedRun, ListedState, ListedTotals};
use loop_runtime::report::counted;

use super::outcome::cost;
use super::status::dollars;
use crate::output::{
    Line, count, cut, grouped, row, screen::columns_of, screen::fit, screen::in_locale, time,
};

/// A run in a line for programs, with tabs between its fields: its id, when it began, its domain and item, how it stopped,
/// how long it took, what it cost, and its title with its tags.
pub(crate) fn one(text: &mut String, listed: &ListedRun) {
    let ListedRun { run, started_unix_ms, domain, item, .. } = listed;
    let fields = [
        run.clone(),
        time(*started_unix_ms),
        cut(domain, MAX_ID_CHARS),
        cut(item, MAX_ID_CHARS),
        stop(listed),
        listed.elapsed_ms.map_or_else(|| "-".to_owned(), span),
        cost(&spent(listed)),
        titled(listed),
    ];
    row(text, fields.join("\t").trim_end());
}

/// The title of a run with its tags.
fn titled(listed: &ListedRun) -> String {
    let tags: String = listed.tags.iter().map(|tag| format!(" #{}", cut(tag, MAX_ID_CHARS))).collect();
    let imported = if listed.imported { " (imported)" } else { "" };
    format!("{}{tags}{imported}", cut(&listed.title, MAX_TITLE_CHARS))
}

/// How a run stopped, or what it does.
fn stop(listed: &ListedRun) -> String {
    if let Some(trouble) = &listed.trouble {
        return format!("damaged: {}", cut(trouble, MAX_TITLE_CHARS));
    }
    let entries = || format!("{}, {}", listed.state.name(), counted(listed.entries, "entry"));
    let stop = listed.reason.as_deref().map_or_else(entries, |reason| cut(reason, MAX_ID_CHARS));
    // A class that the reason alone does not say, for example of a run whose effect is in doubt.
    let own = StopReason::all().iter().find(|own| own.name() == stop).map(|own| own.class().name());
    match listed.class.as_deref().filter(|class| Some(*class) != own) {
        Some(class) => format!("{stop} ({class})"),
        None => stop,
    }
}

fn spent(listed: &ListedRun) -> Cost {
    Cost { known: PicoUsd(listed.cost.pico_usd), unknown_calls: listed.cost.unpriced_calls }
}

/// A column of the table.
struct Column {
    title: &'static str,
    /// What has a higher rank is left out first; 0 is never left out.
    rank: u8,
    /// To how many columns it is shortened. `None`: it is shown whole.
    least: Option<usize>,
    /// Whether it has the colour of how the run ended.
    is_colored: bool,
}

const fn column(title: &'static str, rank: u8, least: Option<usize>) -> Column {
    Column { title, rank, least, is_colored: matches!(title.as_bytes(), b"" | b"REASON") }
}

const COLUMNS: [Column; 8] = [
    column("", 0, None),
    column("RUN", 0, None),
    column("AGE", 1, None),
    column("REASON", 2, Some(6)),
    column("ITEM", 3, Some(6)),
    column("COST", 4, None),
    column("TIME", 5, None),
    column("DOMAIN", 6, Some(6)),
];

/// Runs in a table for people, of at most so many columns: a run's item and reason are shortened, its id never. `now` is in
/// milliseconds since 1970.
pub(crate) fn table(runs: &[ListedRun], now: u64, columns: usize) -> Vec<Line> {
    let rows: Vec<[String; 8]> = runs.iter().map(|run| cells(run, now)).collect();
    let natural: [usize; 8] = std::array::from_fn(|at| {
        let title = COLUMNS.get(at).map_or(0, |column| column.title.len());
        rows.iter().map(|row| row.get(at).map_or(0, |cell| columns_of(cell))).fold(title, usize::max)
    });
    let widths = widths(natural, columns);
    let line = |cells: &[String; 8], style: Option<Style>| {
        let (mut line, mut gap) = (Line::new(), String::new());
        for ((cell, width), column) in cells.iter().zip(widths).zip(&COLUMNS) {
            let Some(width) = width else { continue };
            let cell = fit(cell, width);
            line = match style.filter(|_| column.is_colored) {
                Some(style) => line.plain(&gap).styled(style, &cell),
                None => line.plain(&gap).plain(&cell),
            };
            gap = " ".repeat(width.saturating_sub(columns_of(&cell)) + 1);
        }
        line
    };
    let titles = COLUMNS.map(|column| column.title.to_owned());
    let rows = runs.iter().zip(&rows).map(|(run, cells)| line(cells, Some(glyph(run).1)));
    std::iter::once(line(&titles, None)).chain(rows).collect()
}

/// How wide each column is. `None`: there is no room for it.
fn widths(natural: [usize; 8], columns: usize) -> [Option<usize>; 8] {
    let mut widths: [Option<usize>; 8] = std::array::from_fn(|at| {
        let least = COLUMNS.get(at).and_then(|column| column.least);
        let natural = natural.get(at).copied().unwrap_or_default();
        Some(least.map_or(natural, |least| natural.min(least)))
    });
    let used = |widths: &[Option<usize>; 8]| -> usize {
        widths.iter().flatten().map(|width| width + 1).sum::<usize>().saturating_sub(1)
    };
    while used(&widths) > columns {
        let shown =
            widths.iter_mut().zip(&COLUMNS).filter(|(width, column)| width.is_some() && column.rank > 0);
        let Some((width, _)) = shown.max_by_key(|(_, column)| column.rank) else { break };
        *width = None;
    }
    let mut free = columns.saturating_sub(used(&widths));
    while free > 0 {
        let wider = widths
            .iter_mut()
            .zip(natural)
            .filter_map(|(width, natural)| width.as_mut().filter(|width| **width < natural));
        let taken = wider.take(free).map(|width| *width += 1).count();
        if taken == 0 {
            break;
        }
        free -= taken;
    }
    widths
}

fn cells(run: &ListedRun, now: u64) -> [String; 8] {
    let item = cut(&format!("{} {}", run.item, titled(run)), MAX_ID_CHARS + MAX_TITLE_CHARS);
    [
        in_locale(glyph(run).0),
        run.run.clone(),
        ago(now.saturating_sub(run.started_unix_ms)),
        stop(run),
        item,
        match run.cost.usd {
            Some(_) => dollars(PicoUsd(run.cost.pico_usd)),
            None => cost(&spent(run)),
        },
        run.elapsed_ms.map_or_else(String::new, span),
        cut(&run.domain, MAX_ID_CHARS),
    ]
}

/// A sign of how a run ended or what it does, and its colour.
fn glyph(run: &ListedRun) -> (&'static str, Style) {
    let class = StopClass::ALL.iter().find(|class| Some(class.name()) == run.class.as_deref());
    let (glyph, color) = match (run.state, class) {
        (ListedState::Damaged, _) => ("✗", AnsiColor::Red),
        (ListedState::Running, _) => ("●", AnsiColor::Cyan),
        (ListedState::Waiting, _) => ("?", AnsiColor::Magenta),
        (ListedState::Interrupted, _) => ("!", AnsiColor::Yellow),
        (ListedState::Ended, Some(StopClass::Answered)) => ("✓", AnsiColor::Green),
        (ListedState::Ended, Some(StopClass::NeedsHuman)) => ("?", AnsiColor::Magenta),
        (ListedState::Ended, Some(StopClass::InDoubt)) => ("!", AnsiColor::Red),
        (ListedState::Ended, Some(StopClass::Failed | StopClass::Refused)) => ("✗", AnsiColor::Red),
        (ListedState::Ended, Some(StopClass::Partial | StopClass::Cancelled) | None) => {
            ("-", AnsiColor::Yellow)
        }
    };
    (glyph, color.on_default())
}

/// How long ago something was, in its largest unit.
fn ago(ms: u64) -> String {
    match ms / 1_000 {
        0..60 => "now".to_owned(),
        seconds @ 60..3_600 => format!("{}m ago", seconds / 60),
        seconds @ 3_600..172_800 => format!("{}h ago", seconds / 3_600),
        seconds => format!("{}d ago", seconds / 86_400),
    }
}

/// A span of time.
fn span(ms: u64) -> String {
    match ms / 1_000 {
        0..60 => format!("{:.1}s", ms as f64 / 1_000.0),
        seconds @ 60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds @ 3_600..172_800 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        seconds => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_the_terminal_and_keeps_the_ids() {
        let natural = [1, 36, 7, 9, 70, 9, 5, 8];
        for columns in 38..160 {
            let found = widths(natural, columns);
            let used = found.iter().flatten().map(|width| width + 1).sum::<usize>() - 1;
            assert!(used <= columns && found[1] == Some(36), "{columns}: {found:?}");
        }
        // What has no room is left out by its rank, and the id is whole in any terminal.
        assert_eq!(widths(natural, 20), [Some(1), Some(36), None, None, None, None, None, None]);
        assert_eq!(widths(natural, 46), [Some(1), Some(36), Some(7), None, None, None, None, None]);
        assert_eq!(widths(natural, 200), natural.map(Some));
    }

    #[test]
    fn times_are_short() {
        let minute = 60_000;
        assert_eq!(
            [ago(0), ago(minute), ago(130 * minute), ago(72 * 60 * minute)],
            ["now", "1m ago", "2h ago", "3d ago"]
        );
        assert_eq!(
            [span(400), span(61_000), span(124 * minute), span(75 * 60 * minute)],
            ["0.4s", "1m01s", "2h04m", "3d03h"]
        );
    }
}
