//! Similar names: suggestions for an unknown tool name. They are never run.

use std::sync::Arc;

/// Names longer than this, in bytes, have no similar names.
const LONGEST: usize = 128;

/// At most three names similar to `name`, nearest first. Empty for an empty name. `known` are names, each with its
/// aliases.
pub(crate) fn similar_names<'a>(
    name: &str,
    known: impl IntoIterator<Item = (&'a Arc<str>, &'a [Arc<str>])>,
) -> Vec<Arc<str>> {
    let wanted = name.trim().to_lowercase();
    if wanted.is_empty() || wanted.len() > LONGEST {
        return Vec::new();
    }
    let mut similar: Vec<(usize, &Arc<str>)> = known
        .into_iter()
        .filter_map(|(name, aliases)| {
            let names = std::iter::once(name).chain(aliases);
            let distance = names.filter_map(|known| distance(&wanted, &known.to_lowercase())).min()?;
            Some((distance, name))
        })
        .collect();
    similar.sort();
    similar.into_iter().take(3).map(|(_, name)| Arc::clone(name)).collect()
}

/// The edit distance of two similar names. `None`: they are not similar. Similar names differ by at most a third of the
/// longer one, or one contains the other.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    let edits = edits(wanted, known);
    let longest = wanted.chars().count().max(known.chars().count());
    let contains = wanted.len() >= 4 && (known.contains(wanted) || wanted.contains(known));
    (edits * 3 <= longest || contains).then_some(edits)
}

/// The edit distance: insertions, deletions, replacements, and swaps of neighbours (optimal string alignment).
///
/// It costs the product of both lengths, so limit the length of untrusted texts.
pub fn edits(a: &str, b: &str) -> usize {
    strsim::osa_distance(a, b)
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
        assert_eq!(edits("ab", "ba"), 1);
        assert_eq!(edits("é", "e"), 1);
    }
}
