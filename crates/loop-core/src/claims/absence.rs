//! Statements that something does not exist.

use std::ops::Range;

use crate::claims::chunk::{Chunk, chunks, folded};

/// A statement of absence: where it is, and the words for what is absent, shortened to their stems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    pub(crate) range: Range<usize>,
    /// Empty: nothing at all was found.
    pub(crate) nouns: Vec<Box<str>>,
}

/// The words of a noun phrase that are kept.
const WORDS: usize = 3;

/// The statements of absence in a sentence.
pub(crate) fn absences(sentence: &str) -> Vec<Absence> {
    let chunks = chunks(sentence);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(chunk) = chunks.get(at) {
        let word = folded(chunk.text);
        if NO.contains(&&*word) {
            let nouns = nouns_after(&chunks, at);
            if let Some((last, nouns)) = nouns {
                found.push(Absence { range: chunk.at..last, nouns });
                at += 1;
            }
        } else if matches!(&*word, "nothing" | "nichts" | "rien" | "nada") && says_found(&chunks, at) {
            found.push(Absence { range: chunk.at..chunk.end(), nouns: Vec::new() });
        } else if matches!(&*word, "not" | "doesn't" | "don't" | "couldn't" | "wasn't")
            && says_found(&chunks, at)
        {
            let before = chunks.get(at.saturating_sub(5)..at).unwrap_or_default();
            let nouns: Vec<Box<str>> = before.iter().filter_map(|chunk| noun(chunk.text)).collect();
            if let Some(first) = before.first().filter(|_| !nouns.is_empty()) {
                found.push(Absence { range: first.at..chunk.end(), nouns });
            }
        }
        at += 1;
    }
    found
}

/// What follows `no`: the end of the words, and the words. `None`: it is not about something that could exist.
fn nouns_after(chunks: &[Chunk<'_>], at: usize) -> Option<(usize, Vec<Box<str>>)> {
    let first = chunks.get(at + 1).filter(|next| next.before.is_empty())?;
    let is_number = first.text.starts_with(|c: char| c.is_ascii_digit());
    if is_number || !chunks.get(at)?.after.is_empty() || OTHER.contains(&&*folded(first.text)) {
        return None;
    }
    let mut nouns = Vec::new();
    let mut end = first.end();
    for next in chunks.iter().skip(at + 1).take(WORDS) {
        let words = next.text.split('-').filter_map(noun);
        let had = nouns.len();
        nouns.extend(words);
        if nouns.len() > had {
            end = next.end();
        }
        if !next.after.is_empty() {
            break;
        }
    }
    (!nouns.is_empty()).then_some((end, nouns))
}

/// Whether one of the next words says that it was looked for.
fn says_found(chunks: &[Chunk<'_>], at: usize) -> bool {
    for chunk in chunks.iter().skip(at + 1).take(3) {
        if FOUND.contains(&&*folded(chunk.text)) {
            return true;
        }
        if !chunk.after.is_empty() {
            return false;
        }
    }
    false
}

fn noun(text: &str) -> Option<Box<str>> {
    let word = folded(text);
    let is_word = word.chars().count() > 2 && word.chars().all(|c| c.is_alphabetic() || c == '-');
    (is_word && !SMALL.contains(&&*word) && !FOUND.contains(&&*word)).then(|| stem(&word).into())
}

/// A word without its ending: `jobs` and `job` are one.
pub(crate) fn stem(word: &str) -> &str {
    for ending in ["ies", "es", "en", "s", "e", "y"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() > 2
        {
            return stem;
        }
    }
    word
}

const NO: &[&str] = &[
    "no", "none", "zero", "kein", "keine", "keinen", "keiner", "aucun", "aucune", "ningún", "ninguna",
    "ningun", "sin",
];

/// Words behind `no` that make another statement.
const OTHER: &[&str] = &[
    "longer", "more", "less", "later", "sooner", "need", "one", "doubt", "matter", "further", "action",
    "way", "idea", "problem", "risk", "reason", "better", "change", "changes", "impact", "mehr", "está",
    "harm", "role", "rolle", "los", "las", "veo", "es", "hace", "sign",
];

const FOUND: &[&str] = &[
    "found",
    "exist",
    "exists",
    "existed",
    "present",
    "available",
    "configured",
    "listed",
    "returned",
    "recorded",
    "registered",
    "gefunden",
    "vorhanden",
    "existiert",
    "trouvé",
    "trouvée",
    "existe",
    "encontrado",
    "encontró",
    "there",
    "scheduled",
    "matched",
];

const SMALL: &[&str] = &[
    "the", "was", "were", "are", "has", "had", "have", "for", "and", "that", "this", "with", "could", "did",
    "does", "been", "any", "der", "die", "das", "wurde", "wurden", "konnte", "les",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_absence_name_what_is_absent() {
        let nouns = |text: &str| -> Vec<Vec<String>> {
            absences(text).iter().map(|it| it.nouns.iter().map(ToString::to_string).collect()).collect()
        };
        assert_eq!(nouns("No backup exists [E3]."), [["backup"]]);
        assert_eq!(nouns("There are no open tickets."), [["open", "ticket"]]);
        assert_eq!(nouns("The backup was not found."), [["backup"]]);
        assert_eq!(nouns("Kein Backup vorhanden."), [["backup"]]);
        assert_eq!(nouns("Nothing was found."), [Vec::<String>::new()]);
        for text in ["It is no longer full.", "It did not start.", "No, it failed.", "No action is needed."] {
            assert!(absences(text).is_empty(), "{text}");
        }
    }
}
