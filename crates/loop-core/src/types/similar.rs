//! Similar names: what an unknown tool's name may have meant. They are suggested, never run.

use std::sync::Arc;

/// A name longer than this, in bytes, is near to nothing.
const LONGEST: usize = 128;

/// At most three names that come near `name`, nearest first; none for an empty name. `known` are names, each with others
/// that mean it.
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

/// Edits between two names if they are near: a third of the longer one at most, or one within the other.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    let edits = edits(wanted, known);
    let longest = wanted.chars().count().max(known.chars().count());
    let contains = wanted.len() >= 4 && (known.contains(wanted) || wanted.contains(known));
    (edits * 3 <= longest || contains).then_some(edits)
}

/// How many letters must be put in, taken out, replaced or swapped with a neighbour to make `b` of `a`.
///
/// It costs the product of both lengths, so bound what comes from outside.
pub fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (row, x) in a.chars().enumerate() {
        let mut line = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let mut cost = (at(&above, column) + usize::from(x != *y))
                .min(at(&above, column + 1) + 1)
                .min(at(&line, column) + 1);
            let neighbour = column.checked_sub(1).and_then(|left| b.get(left));
            if last == Some(*y) && neighbour == Some(&x) {
                cost = cost.min(at(&before, column - 1) + 1);
            }
            line.push(cost);
        }
        before = std::mem::replace(&mut above, line);
        last = Some(x);
    }
    above.last().copied().unwrap_or_default()
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
