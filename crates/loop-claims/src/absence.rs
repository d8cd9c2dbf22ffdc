//! Statements that something does not exist.

use std::borrow::Cow;
use std::ops::Range;

use crate::chunk::{Chunk, folded, with_folded};
use crate::number_word;
use crate::scan::same;
use crate::unit::Unit;
use loop_core::types::{Locale, is_unspaced};

/// A statement of absence: where it is, and the words for what is absent, shortened to their stems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    pub(crate) range: Range<usize>,
    /// Empty: nothing at all was found.
    pub(crate) nouns: Vec<Box<str>>,
    /// Whether it says of what exists that it did not do or have something: `no consent covers her`. The evidence of that is
    /// what it has instead.
    pub(crate) is_partial: bool,
}

/// The words of a noun phrase that are kept.
const WORDS: usize = 3;

/// The statements of absence in a sentence.
#[cfg(test)]
pub(crate) fn absences(sentence: &str, locale: Locale) -> Vec<Absence> {
    absences_of(&crate::chunk::chunks(sentence), locale)
}

/// The statements of absence in a sentence, by its chunks.
pub(crate) fn absences_of(chunks: &[Chunk<'_>], locale: Locale) -> Vec<Absence> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(chunk) = chunks.get(at) {
        with_folded(chunk.text, |word| {
            if chunk.text.starts_with(is_unspaced) {
                found.extend(japanese(chunk));
            } else if says_before(chunks, at, word) {
                let before = clause(chunks, at);
                let nouns: Vec<Box<str>> = before.iter().filter_map(|chunk| noun(chunk.text)).collect();
                if let Some(first) = before.first().filter(|_| !nouns.is_empty()) {
                    found.push(Absence { range: first.at..chunk.end(), nouns, is_partial: false });
                }
            } else if NO.contains(&word) {
                if let Some((last, nouns)) = nouns_after(chunks, at, locale) {
                    let end = chunks.get(last).map_or(chunk.end(), Chunk::end);
                    let is_partial = is_partial(chunks, at, last);
                    found.push(Absence { range: chunk.at..end, nouns, is_partial });
                    at += 1;
                }
            } else if matches!(word, "nothing" | "nichts" | "rien" | "nada") && says_found(chunks, at) {
                found.push(Absence { range: chunk.at..chunk.end(), nouns: Vec::new(), is_partial: false });
            } else if matches!(word, "not" | "doesn't" | "don't" | "couldn't" | "wasn't")
                && says_found(chunks, at)
            {
                let before = clause(chunks, at);
                let nouns: Vec<Box<str>> = before.iter().filter_map(|chunk| noun(chunk.text)).collect();
                if let Some(first) = before.first().filter(|_| !nouns.is_empty()) {
                    found.push(Absence { range: first.at..chunk.end(), nouns, is_partial: false });
                }
            }
        });
        at += 1;
    }
    found
}

/// What follows `no`: the last chunk of the words, and the words. `None`: it is not about something that could exist.
fn nouns_after(chunks: &[Chunk<'_>], at: usize, locale: Locale) -> Option<(usize, Vec<Box<str>>)> {
    // `None of the six beds`.
    let is_none = matches!(&*folded(chunks.get(at)?.text), "none");
    let skipped = if is_none {
        let small = |it: &&Chunk<'_>| matches!(it.text, "of" | "the" | "these" | "those");
        chunks.iter().skip(at + 1).take_while(small).count()
    } else {
        0
    };
    let at = at + skipped;
    // `none is missing`.
    if is_none && chunks.iter().skip(at + 1).take(3).any(|it| MISSING.contains(&&*folded(it.text))) {
        return None;
    }
    let first = chunks.get(at + 1).filter(|next| next.before.is_empty())?;
    // `no veinte` corrects a number, and `zero per cent` is one.
    let (word, next) = (folded(chunks.get(at)?.text), folded(first.text));
    let is_number = first.text.starts_with(|c: char| c.is_ascii_digit())
        || word == "no" && number_word::is_number(&next)
        || word == "zero" && (Unit::named(&next).is_some() || next == "per");
    let is_verb = locale == Locale::Es && word == "no" && !is_spanish_existence(&next)
        // `sin vender`.
        || word == "sin" && ["ar", "er", "ir"].iter().any(|end| next.ends_with(end));
    if is_number || is_verb || !chunks.get(at)?.after.is_empty() || OTHER.contains(&&*next) {
        return None;
    }
    let mut nouns = Vec::new();
    let mut end = at + 1;
    for (place, next) in chunks.iter().enumerate().skip(at + 1).take(WORDS) {
        let words = next.text.split('-').filter_map(noun);
        let had = nouns.len();
        nouns.extend(words);
        if nouns.len() > had {
            end = place;
        }
        if !next.after.is_empty() {
            break;
        }
    }
    (!nouns.is_empty()).then_some((end, nouns))
}

/// Whether a Spanish verb behind `no` says that something does not exist. Of other verbs `no` is `not`.
fn is_spanish_existence(word: &str) -> bool {
    const VERBS: [&str; 16] = [
        "hay",
        "hubo",
        "había",
        "existe",
        "existen",
        "existía",
        "tiene",
        "tienen",
        "tenía",
        "incluye",
        "incluyen",
        "contiene",
        "contienen",
        "queda",
        "quedan",
        "muestra",
    ];
    VERBS.contains(&word)
}

/// Whether a verb other than `to be` or `to have` follows `no` and what it is about.
fn is_partial(chunks: &[Chunk<'_>], at: usize, last: usize) -> bool {
    let is_english = chunks.get(at).is_some_and(|it| matches!(&*folded(it.text), "no" | "none"));
    if !is_english {
        return false;
    }
    // A plural noun looks the same, and no object follows it.
    let mut behind = chunks.iter().enumerate().skip(at + 2).take(last.saturating_sub(at));
    behind.any(|(place, it)| {
        let object = chunks.get(place + 1).filter(|_| it.after.is_empty());
        is_third_person(&folded(it.text)) && object.is_some_and(|it| OBJECTS.contains(&&*folded(it.text)))
    })
}

/// Words that an object begins with.
const OBJECTS: &[&str] = &[
    "her", "him", "it", "them", "the", "a", "an", "this", "that", "these", "those", "any", "his", "its",
    "their", "our", "us", "me", "you", "your", "my", "all", "both", "either", "each", "every",
];

/// Whether a word may be a verb of a third person: `covers`.
fn is_third_person(word: &str) -> bool {
    word.len() > 3
        && word.ends_with('s')
        && !word.ends_with("ss")
        && !FOUND.contains(&word)
        && !NOT_VERBS.contains(&word)
        && same(stem(word)) == stem(word)
}

/// Words behind what does not exist that are not such a verb.
const NOT_VERBS: &[&str] =
    &["days", "hours", "weeks", "months", "years", "this", "does", "belongs", "always", "thus"];

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

/// The few chunks before this one, without those of another clause.
fn clause<'a, 'b>(chunks: &'a [Chunk<'b>], at: usize) -> &'a [Chunk<'b>] {
    let near = chunks.get(at.saturating_sub(5)..at).unwrap_or_default();
    let own = near.iter().rposition(|chunk| !chunk.after.is_empty()).map_or(0, |last| last + 1);
    near.get(own..).unwrap_or_default()
}

/// Whether a German `nicht` or `keine` is about what is before it: `Ein Auftrag existiert nicht`, `Zutritte gibt es keine`.
fn says_before(chunks: &[Chunk<'_>], at: usize, word: &str) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|at| chunks.get(at)).map(|it| folded(it.text));
    let is_word = matches!(word, "nicht" | "kein" | "keine" | "keinen" | "keiner");
    if !is_word {
        return false;
    }
    match (before(1).as_deref(), before(2).as_deref()) {
        (Some("es"), Some("gibt")) => {
            chunks.get(at + 1).is_none_or(|next| !next.before.is_empty()) || word == "nicht"
        }
        (Some("existiert" | "existieren"), _) => true,
        _ => word == "nicht" && says_found(chunks, at) && before(1).is_some(),
    }
}

/// `失敗はありません`: what is before the particle.
fn japanese(chunk: &Chunk<'_>) -> Option<Absence> {
    const MARKS: [&str; 8] = [
        "はありません",
        "はなかった",
        "はない",
        "は見つかりません",
        "がありません",
        "は存在しません",
        "はゼロ",
        "はなし",
    ];
    let end = MARKS.iter().find_map(|mark| chunk.text.find(mark))?;
    // `ではない` says that it is something else.
    let before = chunk.text.get(..end).filter(|before| !before.ends_with('で'))?;
    // What is behind the last particle.
    let begin = before.rfind(['は', 'が', 'の', 'た', 'る', 'な']).map_or(0, |at| at + 'は'.len_utf8());
    let word = before.get(begin..).filter(|word| !word.is_empty())?;
    let known = JAPANESE.iter().find(|(name, _)| word.ends_with(name));
    let nouns = vec![known.map_or(ANYTHING, |(_, stem)| *stem).into()];
    let length =
        MARKS.iter().find(|mark| chunk.text.get(end..).is_some_and(|rest| rest.starts_with(**mark)))?.len();
    Some(Absence { range: chunk.at + begin..chunk.at + end + length, nouns, is_partial: false })
}

/// Represents a noun that is not known: any list or number that is empty.
pub(crate) const ANYTHING: &str = "*";

/// Nouns, and the stems of the fields that they are called in.
const JAPANESE: &[(&str, &str)] = &[
    ("失敗", "failed"),
    ("失敗したジョブ", "failed"),
    ("エラー", "error"),
    ("スナップショット", "snapshot"),
    ("警告", "alert"),
    ("アラート", "alert"),
    ("返金", "refund"),
];

/// A word without the accents of its letters.
pub(crate) fn unaccented(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return Cow::Borrowed(word);
    }
    let plain = |c: char| match c {
        'à' | 'á' | 'â' | 'ä' => 'a',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ò' | 'ó' | 'ô' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        'ñ' => 'n',
        'ç' => 'c',
        c => c,
    };
    Cow::Owned(word.chars().map(plain).collect())
}

fn noun(text: &str) -> Option<Box<str>> {
    let word = folded(text);
    let is_word = word.chars().count() > 2 && word.chars().all(|c| c.is_alphabetic() || c == '-');
    (is_word && !SMALL.contains(&&*word) && !FOUND.contains(&&*word)).then(|| stem(&unaccented(&word)).into())
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

/// Words that say that something is not there: `none` of them is all.
const MISSING: &[&str] = &["missing", "lost", "absent", "gone", "lacking", "damaged", "late"];

/// Words behind `no` that make another statement.
const OTHER: &[&str] = &[
    "longer",
    "more",
    "less",
    "later",
    "sooner",
    "need",
    "one",
    "doubt",
    "matter",
    "further",
    "action",
    "way",
    "idea",
    "problem",
    "risk",
    "reason",
    "better",
    "change",
    "changes",
    "impact",
    "mehr",
    "está",
    "harm",
    "iva",
    "tva",
    "vat",
    "impuestos",
    "embargo",
    "duda",
    "contar",
    "hurry",
    "rush",
    "wonder",
    "grund",
    "wunder",
    "eile",
    "raison",
    "motivo",
    "missing",
    "lost",
    "late",
    "role",
    "rolle",
    "los",
    "las",
    "veo",
    "es",
    "hace",
    "sign",
    "of",
    "consta",
    "constan",
    "figura",
    "figuran",
    "combination",
    "se",
    "ha",
    "fue",
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
    "eingegangen",
    "angekommen",
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
    "does", "been", "any", "yet", "all", "far", "noch", "bisher", "encore", "aún", "todavía", "once",
    "single", "der", "die", "das", "wurde", "wurden", "konnte", "les", "gibt", "ist", "ein", "eine", "einen",
    "haben", "wir",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_absence_name_what_is_absent() {
        let nouns = |text: &str| -> Vec<Vec<String>> {
            absences(text, Locale::En)
                .iter()
                .map(|it| it.nouns.iter().map(ToString::to_string).collect())
                .collect()
        };
        assert_eq!(nouns("No backup exists [E3]."), [["backup"]]);
        assert_eq!(nouns("There are no open tickets."), [["open", "ticket"]]);
        assert_eq!(nouns("The backup was not found."), [["backup"]]);
        assert_eq!(nouns("Kein Backup vorhanden."), [["backup"]]);
        assert_eq!(nouns("Ein Wareneingang existiert nicht [E2]."), [["wareneingang"]]);
        assert_eq!(nouns("Abgewiesene Zutritte gibt es keine [E1]."), [["abgewiesen", "zutritt"]]);
        assert_eq!(nouns("aucun échec"), [["echec"]]);
        assert_eq!(nouns("失敗はありません"), [["failed"]]);
        assert_eq!(nouns("反則金はありません"), [["*"]]);
        assert_eq!(nouns("Nothing was found."), [Vec::<String>::new()]);
        for text in [
            "91分ではない",
            "It is no longer full.",
            "It did not start.",
            "No, it failed.",
            "No action is needed.",
        ] {
            assert!(absences(text, Locale::En).is_empty(), "{text}");
        }
    }
}
