//! The name that was probably meant.

/// The known name that is nearest to `name`, where it is near enough to be a slip.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let most = (name.chars().count() / 3).max(1);
    let distances = known.into_iter().map(|known| (distance(&lower, &known.to_lowercase()), known));
    distances
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// `did you mean …?` where a name is near, else the list of what there is.
pub(crate) fn hint<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    there_is: &str,
) -> String {
    if let Some(near) = near(name, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    let all: Vec<String> = known.into_iter().map(|known| format!("`{known}`")).collect();
    if all.is_empty() { format!("{there_is} none") } else { format!("{there_is} {}", all.join(", ")) }
}

/// How many letters must be put in, taken out, replaced or swapped with a neighbour.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (row, x) in a.chars().enumerate() {
        let mut line = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let at = |line: &[usize], column: usize| line.get(column).copied().unwrap_or(usize::MAX - 1);
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
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["effect", "enabled", "passes"];
        assert_eq!(near("efect", known), Some("effect"));
        assert_eq!(near("effcet", known), Some("effect"));
        assert_eq!(near("Enabled", known), Some("enabled"));
        assert_eq!(near("budget", known), None);
        assert_eq!(hint("budget", ["a", "b"], "there are"), "there are `a`, `b`");
        assert_eq!(hint("x", [], "there are"), "there are none");
    }

    #[test]
    fn distances_count_edits() {
        for (a, b, expected) in
            [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3), ("é", "e", 1)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
