//! Suggests a known name for one that is misspelled.

use loop_core::types::edits;

/// The known name that is most similar to `name`, if it is similar enough for a typo.
pub(crate) fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let max = (name.chars().count() / 3).max(1);
    let distances = known.into_iter().map(|known| (edits(&lower, &known.to_lowercase()), known));
    distances
        .filter(|(distance, _)| *distance <= max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// `did you mean …?` if a known name is similar, else the list of known names.
pub(crate) fn hint<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    there_is: &str,
) -> String {
    if let Some(similar) = similar(name, known.clone()) {
        return format!("did you mean `{similar}`?");
    }
    let all: Vec<String> = known.into_iter().map(|known| format!("`{known}`")).collect();
    if all.is_empty() { format!("{there_is} none") } else { format!("{there_is} {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["effect", "enabled", "passes"];
        assert_eq!(similar("efect", known), Some("effect"));
        assert_eq!(similar("effcet", known), Some("effect"));
        assert_eq!(similar("Enabled", known), Some("enabled"));
        assert_eq!(similar("budget", known), None);
        assert_eq!(hint("budget", ["a", "b"], "there are"), "there are `a`, `b`");
        assert_eq!(hint("x", [], "there are"), "there are none");
    }
}
