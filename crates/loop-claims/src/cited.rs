//! Which citations of a sentence a value rests on.

use std::collections::BTreeSet;
use std::sync::Arc;

use loop_core::reply::citations;
use loop_core::types::EvidenceId;

/// Citations that follow each other, and where they are in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CitationGroup {
    from: usize,
    ids: Arc<[EvidenceId]>,
}

/// The groups of citations of a sentence, in order.
pub(crate) fn groups(sentence: &str) -> Vec<CitationGroup> {
    let mut found: Vec<(usize, Vec<EvidenceId>)> = Vec::new();
    let mut end = 0;
    let next = |at: usize| {
        let bytes = sentence.as_bytes().get(at..)?;
        bytes.windows(2).position(|pair| pair == b"[E").map(|found| at + found)
    };
    while let Some(from) = next(end) {
        let inner = sentence.get(from + 1..).unwrap_or_default();
        let is_inside = |c: char| matches!(c, 'E' | '0'..='9' | ',' | ';' | ' ');
        let length = inner.find(|c| !is_inside(c)).unwrap_or(inner.len());
        let to = (from + length + 2).min(sentence.len());
        let ids = citations(sentence.get(from..to).unwrap_or_default());
        let between = sentence.get(end..from).unwrap_or_default();
        let is_next = between.chars().all(|c| c.is_whitespace() || matches!(c, ',' | ';' | '/' | '+'));
        end = if ids.is_empty() { from + 2 } else { to };
        match found.last_mut().filter(|_| is_next) {
            Some((_, last)) => last.extend(ids),
            None if !ids.is_empty() => found.push((from, ids)),
            None => {}
        }
    }
    // The cells of a row may have their sources in one cell, behind or before.
    if sentence.starts_with('|')
        && let Some((from, _)) = found.first()
    {
        let all: BTreeSet<EvidenceId> = found.iter().flat_map(|(_, ids)| ids).copied().collect();
        return vec![CitationGroup { from: *from, ids: all.into_iter().collect() }];
    }
    found.into_iter().map(|(from, ids)| CitationGroup { from, ids: ids.into() }).collect()
}

/// What a value rests on that ends at this place of its sentence: the citations behind it, else the last ones.
/// `None`: the sentence has none.
pub(crate) fn of(groups: &[CitationGroup], end: usize) -> Option<&[EvidenceId]> {
    let at = groups.partition_point(|group| group.from < end);
    groups.get(at).or(groups.last()).map(|group| &*group.ids)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_value_rests_on_the_citations_behind_it_else_on_the_last_ones() {
        let text = "It has 20 GB [E1], [E3], not 50 GB [E0]; x[E] 7 GB [E2, E4] and 8 GB.";
        let groups = groups(text);
        let cited = |value: &str| -> Vec<u32> {
            let end = text.find(value).map_or(0, |at| at + value.len());
            of(&groups, end).unwrap().iter().map(|id| id.0).collect()
        };
        assert_eq!(cited("20 GB"), [1, 3]);
        assert_eq!(cited("50 GB"), [0]);
        assert_eq!(cited("7 GB"), [2, 4]);
        assert_eq!(cited("8 GB"), [2, 4]);
        assert!(of(&super::groups("none"), 3).is_none());
        let row = super::groups("| taxi [E1] | 42 EUR | over the limit [E3] |");
        assert_eq!(of(&row, 21).unwrap().iter().map(|id| id.0).collect::<Vec<_>>(), [1, 3]);
    }
}
