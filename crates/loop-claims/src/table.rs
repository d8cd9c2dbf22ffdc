//! Tables in texts of evidence: lines of cells under a line of names. A name may say the unit of its column.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{Json, Members};
use crate::steps;
use crate::unit::Unit;

/// A longer line is not a row.
const MAX_LINE: usize = 2_000;

/// The tables of a text.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    /// Each as a list of records.
    pub(super) lists: Vec<Vec<Json<'a>>>,
    /// Where the numbers are whose column says the unit.
    pub(super) measured: Vec<Range<usize>>,
}

/// How the cells of a line are set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    At(char),
    /// Two spaces at least.
    Aligned,
}

/// A cell: its place and its text, without the space around it.
type Cell<'a> = (usize, &'a str);

fn cells(line: &str, at: usize, cut: Cut) -> Vec<Cell<'_>> {
    let mut found = Vec::new();
    let mut add = |from: usize, to: usize| {
        let part = line.get(from..to).unwrap_or_default();
        let start = from + (part.len() - part.trim_start().len());
        found.push((at + start, part.trim()));
    };
    match cut {
        Cut::At(mark) => {
            let trimmed = line.trim_end();
            let mut from = 0;
            for (place, _) in trimmed.match_indices(mark) {
                add(from, place);
                from = place + mark.len_utf8();
            }
            add(from, trimmed.len());
            if mark == '|' {
                found.retain(|(_, cell)| !cell.is_empty());
            }
        }
        Cut::Aligned => {
            let mut from = 0;
            for (place, gap) in line.match_indices("  ") {
                if place >= from {
                    if line.get(from..place).is_some_and(|part| !part.trim().is_empty()) {
                        add(from, place);
                    }
                    from = place + gap.len();
                }
            }
            if line.get(from..).is_some_and(|part| !part.trim().is_empty()) {
                add(from, line.len());
            }
        }
    }
    found
}

/// Whether cells are the names of columns: two at least, each with a letter and not with a long number.
fn are_names(cells: &[Cell<'_>]) -> bool {
    let is_name = |text: &str| {
        text.len() <= 60
            && text.contains(char::is_alphabetic)
            && !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '$' | '€' | '£' | '-' | '+'))
            && !text.contains(':')
    };
    cells.len() > 1 && cells.iter().all(|(_, text)| is_name(text))
}

fn cut_of(line: &str) -> Option<Cut> {
    let cuts = [Cut::At('|'), Cut::At('\t'), Cut::At(';'), Cut::At(','), Cut::Aligned];
    cuts.into_iter().find(|cut| {
        let found = cells(line, 0, *cut);
        let is_sure =
            *cut != Cut::At(',') || found.len() > 2 && found.iter().all(|(_, text)| !text.contains(' '));
        is_sure && are_names(&found)
    })
}

/// The tables of a text: after a line of names, the lines with as many cells.
pub(super) fn tables(text: &str) -> Tables<'_> {
    let mut tables = Tables::default();
    let mut open: Option<(Cut, Vec<Cell<'_>>, Vec<Json<'_>>)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        steps::count(1);
        let start = at;
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        let is_short = line.len() <= MAX_LINE && !line.trim().is_empty();
        if let Some((cut, names, rows)) = &mut open {
            if is_short && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '+' | '=')) {
                continue;
            }
            let row = if is_short { cells(line, start, *cut) } else { Vec::new() };
            if row.len() == names.len() {
                let mut record = Vec::with_capacity(row.len());
                for ((_, name), (place, cell)) in names.iter().zip(&row) {
                    let is_number = cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'))
                        && cell
                            .chars()
                            .all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | ',' | '\''));
                    if is_number && Unit::of_field(name).is_some() {
                        tables.measured.push(*place..place + cell.len());
                    }
                    record.push((Cow::Borrowed(*name), Json::String(Cow::Borrowed(*cell))));
                }
                rows.push(Json::Object(Members::of(record)));
                continue;
            }
            if !rows.is_empty() {
                tables.lists.push(std::mem::take(rows));
            }
            open = None;
        }
        if is_short && let Some(cut) = cut_of(line) {
            open = Some((cut, cells(line, start, cut), Vec::new()));
        }
    }
    if let Some((_, _, rows)) = open.filter(|(_, _, rows)| !rows.is_empty()) {
        tables.lists.push(rows);
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cells_under_names_are_records() {
        for text in [
            "Prices\nSKU        item          price (EUR)\nFS-200     flow sensor   1,850.00\nGW-10      gateway       2,400.00\n\nEnd.",
            "SKU;item;price (EUR)\nFS-200;flow sensor;1,850.00\nGW-10;gateway;2,400.00\n",
            "| SKU | item | price (EUR) |\n|---|---|--:|\n| FS-200 | flow sensor | 1,850.00 |\n| GW-10 | gateway | 2,400.00 |",
        ] {
            let found = tables(text);
            let expected = Json::read(
                r#"[{"SKU": "FS-200", "item": "flow sensor", "price (EUR)": "1,850.00"},
                {"SKU": "GW-10", "item": "gateway", "price (EUR)": "2,400.00"}]"#,
            );
            let lists: Vec<Json<'_>> = found.lists.into_iter().map(Json::Array).collect();
            assert_eq!(lists, expected.into_iter().collect::<Vec<_>>(), "{text}");
            let measured: Vec<Option<&str>> = found.measured.iter().map(|it| text.get(it.clone())).collect();
            assert_eq!(measured, [Some("1,850.00"), Some("2,400.00")]);
        }
        for text in ["", "one line", "a: 1\nb: 2", "It holds, however, 5 GB.\nAnd so on, too, 4."] {
            assert!(tables(text).lists.is_empty(), "{text}");
        }
    }
}
