//! Near names: what an unknown tool's name may have meant. They are told, never run (S0-d1, S0-d2).

use std::sync::Arc;

use crate::spec::ToolSpec;

/// At most three names or aliases that come near `name`, nearest first; none for an empty name.
pub(crate) fn near_names(name: &str, tools: &[ToolSpec]) -> Vec<Arc<str>> {
    let wanted = name.trim().to_lowercase();
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(usize, &Arc<str>)> = tools
        .iter()
        .filter_map(|tool| {
            let names = std::iter::once(&tool.name).chain(&tool.aliases);
            let distance = names.filter_map(|known| distance(&wanted, &known.to_lowercase())).min()?;
            Some((distance, &tool.name))
        })
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| Arc::clone(name)).collect()
}

/// Edits between two names if they are near: a third of the longer one at the most, or one within the other.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    let edits = edits(wanted, known);
    let longest = wanted.chars().count().max(known.chars().count());
    let contains = wanted.len() >= 4 && (known.contains(wanted) || wanted.contains(known));
    (edits * 3 <= longest || contains).then_some(edits)
}

/// Levenshtein's distance, over characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, to) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX);
            let cost = (diagonal + usize::from(from != *to)).min(above + 1).min(left + 1);
            diagonal = above;
            if let Some(slot) = row.get_mut(j) {
                *slot = left;
            }
            left = cost;
        }
        if let Some(slot) = row.last_mut() {
            *slot = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("same", "same"), 0);
    }
}
