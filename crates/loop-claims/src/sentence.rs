//! The sentences of a body, with the evidence that each cites.

use std::ops::Range;
use std::sync::Arc;

use crate::fold::Folded;
use crate::words::WORDS;
use loop_core::reply::{citations, fenced};
use loop_core::types::EvidenceId;

/// A sentence, a row of a table or an item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// Where it is in the body.
    pub(crate) range: Range<usize>,
    /// What it rests on: its own citations, else those of the section.
    pub(crate) cited: Arc<[EvidenceId]>,
    /// Whether it has citations itself.
    pub(crate) cites: bool,
}

/// The month that a word names.
fn month_of(word: &str) -> Option<u8> {
    WORDS.months.get(&*Folded::of(word.trim_end_matches('.')).text).copied()
}

/// The sentences of a body, in order, without headings and fenced blocks.
pub(crate) fn sentences(body: &str) -> Vec<Sentence> {
    let of_section: Arc<[EvidenceId]> = citations(body).into();
    let mut found = Vec::new();
    for paragraph in paragraphs(body) {
        let text = body.get(paragraph.clone()).unwrap_or_default();
        for within in split(text) {
            let own = citations(text.get(within.clone()).unwrap_or_default());
            let cites = !own.is_empty();
            let cited = if cites { own.into() } else { Arc::clone(&of_section) };
            let range = paragraph.start + within.start..paragraph.start + within.end;
            found.push(Sentence { range, cited, cites });
        }
    }
    found
}

/// Paragraphs, items of lists and rows of tables.
fn paragraphs(body: &str) -> Vec<Range<usize>> {
    let fences = fenced(body);
    let mut fence = 0;
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut is_open = false;
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let start = at;
        at += line.len();
        while fences.get(fence).is_some_and(|block| block.end <= start) {
            fence += 1;
        }
        if fences.get(fence).is_some_and(|block| block.contains(&start)) {
            is_open = false;
            continue;
        }
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            is_open = false;
            continue;
        }
        // A line in bold letters is a heading too.
        let bold = trimmed.strip_prefix("**").and_then(|rest| rest.trim_end_matches(':').strip_suffix("**"));
        if !is_open
            && trimmed.len() < 80
            && bold.is_some_and(|text| !text.contains("**") && !text.contains("[E"))
        {
            continue;
        }
        let end = start + line.trim_end().len();
        let marker = marker_of(trimmed);
        let is_row = trimmed.starts_with('|');
        if is_row && trimmed.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')) {
            // The line under the names of a table's columns: those are no sentence.
            found.pop();
            is_open = false;
            continue;
        }
        match found.last_mut().filter(|_| is_open && marker.is_none() && !is_row) {
            Some(open) => open.end = end,
            None => found.push(start + indent + marker.unwrap_or(0)..end),
        }
        is_open = !is_row;
    }
    found
}

/// The length of the mark of an item of a list.
fn marker_of(line: &str) -> Option<usize> {
    if let Some(rest) = line.strip_prefix(['-', '*', '+', '•']) {
        return rest.starts_with([' ', '\t']).then_some(line.len() - rest.trim_start().len());
    }
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = line.len() - rest.len();
    let rest = rest.strip_prefix(['.', ')'])?;
    let is_mark = (1..=3).contains(&digits) && rest.starts_with(' ');
    // `26. November` begins a sentence.
    let is_day = rest.split_whitespace().next().is_some_and(|word| month_of(word).is_some());
    (is_mark && !is_day).then_some(line.len() - rest.trim_start().len())
}

/// The sentences of a paragraph.
fn split(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    for (end, c) in text.char_indices() {
        if end < at || !matches!(c, '.' | '!' | '?' | '。' | '！' | '？') {
            continue;
        }
        let after = end + c.len_utf8();
        if !ends(text, end, after, c) {
            continue;
        }
        // What is cited behind the full stop is cited by the sentence before it.
        let close = after + closing(text.get(after..).unwrap_or_default());
        push(text, begin..close, &mut found);
        (begin, at) = (close, close);
    }
    push(text, begin..text.len(), &mut found);
    found
}

fn push(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let part = text.get(range.clone()).unwrap_or_default();
    let start = range.start + (part.len() - part.trim_start().len());
    let end = range.start + part.trim_end().len();
    if start < end {
        found.push(start..end);
    }
}

/// Whether a sentence ends with the mark between `at` and `after`.
fn ends(text: &str, at: usize, after: usize, mark: char) -> bool {
    let rest = text.get(after..).unwrap_or_default();
    if matches!(mark, '。' | '！' | '？') || rest.is_empty() {
        return true;
    }
    let rest = rest.trim_start_matches(['"', '\u{201d}', '\u{201c}', '»', ')', '*', '_']);
    let next = rest.trim_start();
    if next.len() == rest.len() && !next.is_empty() {
        return false;
    }
    if mark != '.' {
        return true;
    }
    // A word is short, and only its end is read.
    let before = text.get(..at).unwrap_or_default();
    let word_at = before
        .char_indices()
        .rev()
        .take(24)
        .find(|(_, c)| c.is_whitespace() || *c == '(')
        .map(|(at, c)| at + c.len_utf8());
    let word = before.get(word_at.unwrap_or(0)..).unwrap_or_default();
    if ABBREVIATIONS.contains(&&*word.to_lowercase()) {
        return false;
    }
    // `M. Halloran`, but not `plan B. The next`.
    let next_name = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let mut letters = word.chars();
    if letters.next().is_some_and(char::is_uppercase)
        && letters.next().is_none()
        && next_name.starts_with(char::is_uppercase)
        && !WORDS.plain.contains(&*next_name.to_lowercase())
    {
        return false;
    }
    // `Nov. 27`.
    if next.starts_with(|c: char| c.is_ascii_digit()) && word.len() < 6 && month_of(word).is_some() {
        return false;
    }
    let next_word = next.split_whitespace().next().unwrap_or_default();
    let is_day = word.bytes().all(|byte| byte.is_ascii_digit())
        && month_of(next_word.trim_end_matches([',', ';', ':', '.'])).is_some();
    !is_day && !next.starts_with(char::is_lowercase)
}

/// The length of the quotation marks, brackets and citations behind a full stop.
fn closing(rest: &str) -> usize {
    let mut end =
        rest.len() - rest.trim_start_matches(['"', '\u{201d}', '\u{201c}', '»', ')', '*', '_']).len();
    loop {
        let more = rest.get(end..).unwrap_or_default();
        let bracket = more.trim_start_matches([' ', '\t']);
        let Some(inner) = bracket.strip_prefix("[E") else { return end };
        let stop = inner.find(|c: char| !(c.is_ascii_digit() || matches!(c, 'E' | ',' | ';' | ' ')));
        match stop {
            Some(stop) if inner.get(stop..).is_some_and(|rest| rest.starts_with(']')) => {
                end += more.len() - bracket.len() + 2 + stop + 1;
            }
            Some(_) | None => return end,
        }
    }
}

const ABBREVIATIONS: &[&str] = &[
    "e.g", "i.e", "z.b", "d.h", "bzw", "ca", "approx", "no", "nr", "vs", "mr", "mrs", "ms", "dr", "st",
    "etc", "p.ej", "sr", "sra", "std", "min", "sek", "inc", "ltd", "co", "cf", "fig", "usw", "p",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &[(&str, &[u32])]) {
        let found: Vec<(&str, Vec<u32>)> = sentences(body)
            .into_iter()
            .map(|it| (body.get(it.range).unwrap_or_default(), it.cited.iter().map(|id| id.0).collect()))
            .collect();
        let expected: Vec<(&str, Vec<u32>)> =
            expected.iter().map(|(text, cited)| (*text, cited.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_sentence_rests_on_its_own_citations_else_on_those_of_the_section() {
        check(
            "The job failed at 3.5 GB. [E1] It ran twice, e.g. on Monday [E2].\n\nCheck the disk. Call Dr. Meier.",
            &[
                ("The job failed at 3.5 GB. [E1]", &[1]),
                ("It ran twice, e.g. on Monday [E2].", &[2]),
                ("Check the disk.", &[1, 2]),
                ("Call Dr. Meier.", &[1, 2]),
            ],
        );
        check(
            "It failed. It ran for 3 hours [E4].",
            &[("It failed.", &[4]), ("It ran for 3 hours [E4].", &[4])],
        );
    }

    #[test]
    fn items_rows_and_lines_are_kept_apart_and_code_is_no_sentence() {
        check(
            "# Heading\n- one [E1]\n- two\n  lines [E2]\n1. three\n\n| a | b |\n|---|---|\n| x | 4 [E3] |\n\n```\n5 GB\n```\nEnd.",
            &[
                ("one [E1]", &[1]),
                ("two\n  lines [E2]", &[2]),
                ("three", &[1, 2, 3]),
                ("| x | 4 [E3] |", &[3]),
                ("End.", &[1, 2, 3]),
            ],
        );
        check(
            "Am 26. November fiel es aus. Seitdem nicht.",
            &[("Am 26. November fiel es aus.", &[]), ("Seitdem nicht.", &[])],
        );
        check("容量は42GBです。[E1] 次の文。", &[("容量は42GBです。[E1]", &[1]), ("次の文。", &[1])]);
    }
}
