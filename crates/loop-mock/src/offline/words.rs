//! Words and their stems, by which the stub compares texts.

use std::collections::BTreeSet;

/// Stop words, in alphabetical order.
const STOP: [&str; 99] = [
    "a", "about", "after", "again", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "could", "did", "do", "does", "for", "from", "get", "give", "had", "has",
    "have", "her", "him", "his", "how", "if", "in", "into", "is", "it", "its", "just", "may", "me", "might",
    "more", "most", "my", "no", "not", "of", "off", "on", "one", "only", "or", "our", "out", "over", "own",
    "please", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "to", "too", "two", "under", "up", "us", "use", "used", "using", "very", "was",
    "we", "were", "what", "when", "where", "which", "while", "who", "why", "will", "with", "would", "you",
    "your",
];

/// The stems of a text's words, without stop words and numbers.
pub(super) fn stems(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter_map(|word| stem(&word.to_lowercase()))
        .collect()
}

/// How many stems two texts share.
pub(super) fn overlap(a: &BTreeSet<String>, b: &BTreeSet<String>) -> usize {
    a.intersection(b).count()
}

/// The stem of a lower-case word; `None` for stop words, short words and numbers.
pub(super) fn stem(word: &str) -> Option<String> {
    let word = word.trim_matches('\'').trim_end_matches("'s");
    if word.chars().count() < 3 || STOP.binary_search(&word).is_ok() || !word.chars().any(char::is_alphabetic)
    {
        return None;
    }
    for ending in
        ["ations", "ation", "ings", "ing", "ies", "ied", "ers", "ed", "es", "er", "ly", "y", "s", "e"]
    {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() >= 3
        {
            return Some(stem.to_owned());
        }
    }
    Some(word.to_owned())
}

/// A number and its noun: `1 word`, `2 words`.
pub(super) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The words of a text that may be names, kept whole with `-`, `.`, `@` and `_` inside.
pub(super) fn names(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || "-.@_".contains(c)))
        .map(|word| word.trim_matches(['-', '.', '_', '@']))
        .filter(|word| word.len() >= 3)
        .collect()
}

/// The words of a text that may be file paths: with a `/` inside, and a file extension.
pub(super) fn paths(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .filter(|word| !word.contains("://"))
        .flat_map(|word| word.split(|c: char| !(c.is_alphanumeric() || "-./@_+".contains(c))))
        .map(|word| word.trim_matches(['-', '.', '/']))
        .filter(|word| is_path(word))
        .collect()
}

pub(super) fn is_path(word: &str) -> bool {
    let parts = word.rsplit_once('/');
    let has_file = parts.is_some_and(|(folder, file)| !folder.is_empty() && file.contains('.'));
    has_file && !word.contains("://") && !word.contains(char::is_whitespace)
}

/// The words of an identifier in lower case: `userId` and `user_id` are `user` and `id`.
pub(super) fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut small = false;
    for c in name.chars() {
        let begins = parts.is_empty() || (small && c.is_uppercase());
        small = c.is_lowercase() || c.is_ascii_digit();
        if !c.is_alphanumeric() {
            parts.push(String::new());
            continue;
        }
        if begins {
            parts.push(String::new());
        }
        if let Some(last) = parts.last_mut() {
            last.extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_marks_around_them() {
        assert_eq!(names("(HAR-LT-014), mail a.b@c.example."), ["HAR-LT-014", "mail", "a.b@c.example"]);
    }

    #[test]
    fn paths_are_files_in_folders_and_no_addresses() {
        let text =
            "See `src/run/resume.rs:12`, ./docs/a.md. Not https://host.example/a.b, and/or, main.rs, 1/2.";
        assert_eq!(paths(text), ["src/run/resume.rs", "docs/a.md"]);
    }

    #[test]
    fn a_name_is_its_words() {
        assert_eq!(parts("get_user_byId"), ["get", "user", "by", "id"]);
        assert_eq!(parts("userID"), ["user", "id"]);
        assert_eq!(parts("budget-usd2"), ["budget", "usd2"]);
    }

    #[test]
    fn stems_join_forms_of_a_word() {
        assert_eq!(stems("backups failing"), stems("Backup failed"));
        assert!(stems("the and of 12").is_empty());
    }

    #[test]
    fn stop_words_are_in_the_order_by_which_they_are_found() {
        assert!(STOP.is_sorted());
        assert!(STOP.iter().all(|word| stem(word).is_none()));
    }
}
