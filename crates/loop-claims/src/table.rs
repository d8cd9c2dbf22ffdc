//! Lines and tables of a text, and how it writes its numbers.

use std::ops::Range;

/// Whether a text writes `1,5` and not `1.5`.
pub(crate) fn writes_commas(folded: &str) -> bool {
    let bytes = folded.as_bytes();
    let decimal = |mark: u8| {
        bytes.windows(3).enumerate().any(|(at, it)| {
            let is_after = |by: usize| bytes.get(at + by).is_some_and(u8::is_ascii_digit);
            matches!(it, [before, middle, after] if before.is_ascii_digit() && *middle == mark && after.is_ascii_digit())
                && !(is_after(3) && is_after(4))
        })
    };
    decimal(b',') && !decimal(b'.')
}

/// What a caption says that the numbers of a table are in.
pub(crate) fn scale_of(begin: &str, is_table: bool) -> f64 {
    let scales = [("thousand", 1e3), ("'000", 1e3), ("000s", 1e3), ("million", 1e6), ("billion", 1e9)];
    let says = |word: &str| match is_table {
        true => begin.contains(word),
        false => ["in {}", "({}", "{}s, except", "{}s of", "$ {}"]
            .iter()
            .any(|form| begin.contains(&form.replace("{}", word))),
    };
    scales.iter().find(|(word, _)| says(word)).map_or(1.0, |(_, scale)| *scale)
}

pub(crate) fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        (!line.trim().is_empty()).then_some(start..start + line.trim_end().len())
    })
}

/// The tables of a text.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Of each row the ranges of its cells.
    pub(crate) rows: Vec<Vec<Range<usize>>>,
    /// Whether a character parts the cells, and the first row names the columns: CSV.
    pub(crate) are_delimited: bool,
}

/// The rows of the CSV of a text, else of its Markdown tables.
pub(crate) fn rows(text: &str) -> Rows {
    let delimited =
        [(b';', 1), (b'\t', 1), (b',', 2)].into_iter().find_map(|(mark, least)| delimited(text, mark, least));
    if let Some(rows) = delimited {
        return Rows { rows, are_delimited: true };
    }
    let is_row = |line: &Range<usize>| {
        let line = text.get(line.clone()).unwrap_or_default();
        line.matches('|').count() > 1
            && !line.chars().all(|c| c.is_whitespace() || matches!(c, '|' | ':' | '-'))
    };
    let cells_of = |line: Range<usize>| {
        let part = text.get(line.clone()).unwrap_or_default();
        let inner = part.trim_start_matches(['|', ' ']);
        cells(line.start + (part.len() - inner.len()), inner.trim_end_matches(['|', ' ']), b'|')
    };
    Rows { rows: lines(text).filter(is_row).map(cells_of).collect(), are_delimited: false }
}

/// The first three and more lines that have equally many cells, the first of them without a number: names of columns.
fn delimited(text: &str, mark: u8, least: usize) -> Option<Vec<Vec<Range<usize>>>> {
    // A comma in prose is followed by a space.
    let is_prose =
        |line: &Range<usize>| mark == b',' && text.get(line.clone()).is_some_and(|it| it.contains(", "));
    let all = lines(text).map(|line| match is_prose(&line) {
        true => Vec::new(),
        false => cells(line.start, text.get(line).unwrap_or_default(), mark),
    });
    let mut rows: Vec<Vec<Range<usize>>> = Vec::new();
    for row in all {
        if row.len() > least && rows.first().is_none_or(|first| first.len() == row.len()) {
            rows.push(row);
        } else if rows.len() > 2 {
            break;
        } else {
            rows = if row.len() > least { vec![row] } else { Vec::new() };
        }
    }
    let is_name = |cell: &Range<usize>| {
        text.get(cell.clone()).is_some_and(|it| it.trim_matches([' ', '"']).starts_with(char::is_alphabetic))
    };
    (rows.len() > 2 && rows.first()?.iter().all(is_name)).then_some(rows)
}

/// The cells of a line that begins at this place. A quoted one may hold the mark.
fn cells(start: usize, line: &str, mark: u8) -> Vec<Range<usize>> {
    let (mut from, mut is_quoted, mut cells) = (0, false, Vec::new());
    for (at, byte) in line.bytes().enumerate() {
        is_quoted ^= byte == b'"' && mark != b'|';
        if byte == mark && !is_quoted {
            cells.push(start + from..start + at);
            from = at + 1;
        }
    }
    cells.push(start + from..start + line.len());
    cells
}
