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

/// The rows of the Markdown tables of a text, each as the ranges of its cells.
pub(crate) fn rows(text: &str) -> Vec<Vec<Range<usize>>> {
    let is_row = |line: &Range<usize>| {
        let line = text.get(line.clone()).unwrap_or_default();
        line.matches('|').count() > 1
            && !line.chars().all(|c| c.is_whitespace() || matches!(c, '|' | ':' | '-'))
    };
    let cells = |line: Range<usize>| {
        let part = text.get(line.clone()).unwrap_or_default();
        let inner = part.trim_start_matches(['|', ' ']);
        let mut at = line.start + (part.len() - inner.len());
        inner
            .trim_end_matches(['|', ' '])
            .split('|')
            .map(|cell| {
                let start = at;
                at += cell.len() + 1;
                start..start + cell.len()
            })
            .collect()
    };
    lines(text).filter(is_row).map(cells).collect()
}
