//! Citations: `[E1]` or `[E1, E3]` outside of code.

use std::collections::BTreeMap;

use crate::reply::markdown::Layout;
use crate::types::{EvidenceId, is_unspaced, steps};

/// The evidence that a body cites, each once, in order of number.
pub fn citations(body: &str) -> Vec<EvidenceId> {
    let mut cited: Vec<EvidenceId> = cited_in(body).into_iter().flat_map(|(_, ids)| ids).collect();
    cited.sort_unstable();
    cited.dedup();
    cited
}

/// The citations of a body in their order: each bracket as it is written, and the evidence that it cites.
pub(crate) fn cited_in(body: &str) -> Vec<(&str, Vec<EvidenceId>)> {
    let mut cited = Vec::new();
    // Fences are of these characters, and most sentences have none.
    if !body.bytes().any(|byte| matches!(byte, b'`' | b'~')) {
        prose(body, &mut cited);
        return cited;
    }
    let layout = Layout::of(body);
    let mut at = 0;
    for block in &layout.blocks {
        prose(body.get(at..block.whole.start).unwrap_or_default(), &mut cited);
        at = block.whole.end;
    }
    prose(body.get(at..).unwrap_or_default(), &mut cited);
    cited
}

/// Whether a body has text of its own: a letter or a digit outside of citations.
pub(crate) fn has_words(body: &str) -> bool {
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('[') {
        steps::count(before.len() + 1);
        if before.contains(char::is_alphanumeric) {
            return true;
        }
        rest = citation(after).map_or(after, |(_, after)| after);
    }
    rest.contains(char::is_alphanumeric)
}

/// How many words of its own a body has outside of citations: runs of letters and digits, and each character of a script
/// without spaces.
pub(crate) fn own_words(body: &str) -> usize {
    let mut words = 0;
    let mut count = |text: &str| {
        let mut is_inside = false;
        for c in text.chars() {
            steps::count(1);
            let is_word = c.is_alphanumeric();
            words += usize::from(is_word && (!is_inside || is_unspaced(c)));
            is_inside = is_word;
        }
    };
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('[') {
        count(before);
        rest = citation(after).map_or(after, |(_, after)| after);
    }
    count(rest);
    words
}

/// The evidence cited by the citation that begins here, and the text after it. `text` follows the opening bracket.
/// `None`: it is not a citation.
fn citation(text: &str) -> Option<(Vec<EvidenceId>, &str)> {
    // Only these characters occur in a citation, so no text is scanned from two brackets.
    let is_inside = |c: char| matches!(c, 'E' | '0'..='9' | ',' | ';') || c.is_whitespace();
    let (inner, rest) = text.split_at(text.find(|c| !is_inside(c)).unwrap_or(text.len()));
    steps::count(inner.len());
    Some((numbers(inner)?, rest.strip_prefix(']')?))
}

fn prose<'t>(text: &'t str, cited: &mut Vec<(&'t str, Vec<EvidenceId>)>) {
    let ticks = tick_runs(text);
    let mut next_run = 0;
    let mut at = 0;
    let next = |at: usize| {
        let mut rest = text.as_bytes().get(at..)?.iter();
        rest.position(|byte| matches!(byte, b'[' | b'`')).map(|found| at + found)
    };
    while let Some(start) = next(at) {
        steps::count(1);
        at = start + 1;
        if let Some(inner) = text.get(at..).filter(|_| text.as_bytes().get(start) == Some(&b'[')) {
            if let Some((ids, after)) = citation(inner) {
                at = text.len() - after.len();
                cited.push((text.get(start..at).unwrap_or_default(), ids));
            }
        } else {
            while ticks.get(next_run).is_some_and(|run| run.start < start) {
                next_run += 1;
            }
            at = ticks.get(next_run).map_or(at, |run| run.code_end);
        }
    }
}

/// A run of backticks outside of fences.
struct TickRun {
    start: usize,
    /// The end of the code span that it opens, or of the run itself if no run of the same length follows.
    code_end: usize,
}

fn tick_runs(text: &str) -> Vec<TickRun> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('`')).map(|found| at + found) {
        let length = text.bytes().skip(start).take_while(|byte| *byte == b'`').count();
        steps::count(length);
        at = start + length;
        runs.push(TickRun { start, code_end: at });
    }
    let mut following: BTreeMap<usize, usize> = BTreeMap::new();
    for run in runs.iter_mut().rev() {
        let own_end = run.code_end;
        if let Some(end) = following.insert(own_end - run.start, own_end) {
            run.code_end = end;
        }
    }
    runs
}

fn numbers(inner: &str) -> Option<Vec<EvidenceId>> {
    inner
        .split([',', ';'])
        .map(|part| {
            let digits = part.trim().strip_prefix('E')?;
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok().map(EvidenceId)).flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(body: &str, expected: &[u32]) {
        let expected: Vec<EvidenceId> = expected.iter().copied().map(EvidenceId).collect();
        assert_eq!(citations(body), expected, "{body}");
    }

    #[test]
    fn citations_stand_outside_of_code() {
        check("full [E1], and [E3, E2]; again [E1].", &[1, 2, 3]);
        check("`[E1]` and ``x ` [E2]`` but [E4]", &[4]);
        check("```\n[E1]\n```\n[E2]\n~~~\n[E3]\n", &[2]);
        check("[E], [e1], [E1x], [F1], [E1 E2], E5, [E99999999999]", &[]);
        check("[see [E7]] and [E8](link)", &[7, 8]);
        check("an open ` tick [E1]", &[1]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(body in "[\\[\\]E0-9,; `~\n#é]{0,60}") {
            citations(&body);
        }
    }
}
