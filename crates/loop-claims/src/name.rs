//! Ids, hosts, versions, names of more than one word, and texts in quotation marks.

use std::ops::Range;

use crate::chunk::{Chunk, folded};
use crate::date::month_of;
use crate::locale::Written;
use crate::number_word;
use crate::steps;
use crate::value::ValueKind;
use loop_core::types::Locale;

/// More words are not one name.
const MAX_WORDS: usize = 6;

/// What a chunk without white space is. `None`: a word.
pub(crate) fn kind_of(text: &str, has_digit: bool) -> Option<ValueKind> {
    if has_digit && is_version(text) {
        return Some(ValueKind::Version);
    }
    if is_host(text) {
        return Some(ValueKind::Host);
    }
    (has_digit && is_id(text)).then_some(ValueKind::Id)
}

/// `v1.2`, `1.2.3`, `1.2.3-rc1`.
fn is_version(text: &str) -> bool {
    let (has_v, rest) = match text.strip_prefix(['v', 'V']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let core = rest.split(['-', '+']).next().unwrap_or_default();
    let parts = core.split('.');
    let are_numbers = parts
        .clone()
        .all(|part| !part.is_empty() && part.len() < 10 && part.bytes().all(|byte| byte.is_ascii_digit()));
    let many = parts.count();
    // Four small numbers are an address of the internet.
    are_numbers && (has_v || many > 2) && !is_ipv4(text)
}

fn is_ipv4(text: &str) -> bool {
    let mut parts = text.split('.');
    let small = parts.by_ref().take(4).filter(|part| part.parse::<u8>().is_ok()).count();
    small == 4 && parts.next().is_none()
}

fn is_host(text: &str) -> bool {
    if !text.bytes().any(|byte| byte == b'.') {
        return false;
    }
    if is_ipv4(text.split([':', '/']).next().unwrap_or_default()) {
        return true;
    }
    let host = text.split([':', '/']).next().unwrap_or_default();
    let labels: Vec<&str> = host.split('.').collect();
    let Some((last, rest)) = labels.split_last() else { return false };
    let is_label = |label: &&str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    !rest.is_empty()
        && last.len() > 1
        && last.bytes().all(|byte| byte.is_ascii_lowercase())
        && rest.iter().all(is_label)
        && rest.iter().any(|label| label.len() > 1)
}

fn is_id(text: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '#' | '/' | ':' | '.');
    if !text.chars().all(is_inside) {
        return false;
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
    let has_mark = text.contains(['-', '_', '#']);
    let is_hex = text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_id = match letters {
        0 => {
            text.starts_with('#') && digits > 1
                || has_mark && digits > 4
                || text.starts_with('0') && digits > 2
        }
        _ => has_mark || digits > 3 || is_hex || text.len() > 5 && changes(text) > 2,
    };
    is_id && !KNOWN.iter().any(|known| known.eq_ignore_ascii_case(text))
}

/// How often letters and digits change in a text.
fn changes(text: &str) -> usize {
    let kinds: Vec<bool> = text.chars().map(|c| c.is_ascii_digit()).collect();
    kinds.windows(2).filter(|pair| pair.first() != pair.last()).count()
}

/// Technical words that are no ids.
const KNOWN: &[&str] = &[
    "utf-8",
    "utf-16",
    "sha-1",
    "sha-256",
    "sha-512",
    "x86-64",
    "x86_64",
    "iso-8859-1",
    "http/1.1",
    "http/2",
    "http/3",
    "tls-1.2",
    "tls-1.3",
    "covid-19",
];

/// A name, and how many chunks were looked at.
pub(crate) struct NameAt {
    /// The first and the last chunk of the name. `None`: the words with capitals are not a name.
    pub(crate) words: Option<(usize, usize)>,
    pub(crate) passed: usize,
}

/// The words with capitals that begin at a chunk. `None`: it has no capital.
pub(crate) fn name_at(chunks: &[Chunk<'_>], at: usize, locale: Locale) -> Option<NameAt> {
    let chunk = chunks.get(at)?;
    let begins_short = is_initial(chunk);
    if !is_capital(chunk.text) && !begins_short {
        return None;
    }
    let mut last = at;
    let mut next = at + 1;
    let mut words = 1;
    while words < MAX_WORDS
        && let (Some(before), Some(after)) = (chunks.get(next - 1), chunks.get(next))
        && (before.after.is_empty()
            || is_initial(before)
            || before.after == "." && TITLES.contains(&before.text))
        && after.before.is_empty()
        && !after.is_first
    {
        steps::count(1);
        let is_inside = matches!(after.text, "de" | "van" | "von" | "der" | "den" | "la" | "du" | "da" | "y");
        if is_capital(after.text) || is_initial(after) && words < MAX_WORDS - 1 {
            (last, words) = (next, words + 1);
        } else if !is_inside || locale.capitalises_nouns() || next > last + 2 {
            break;
        }
        next += 1;
    }
    let mut first = at;
    // A month may be a first name, and a day of the week is not.
    let is_other = |at: usize| {
        let word = chunks.get(at).map(|it| folded(it.text));
        word.is_some_and(|word| NOT_NAMES.contains(&&*word) || is_weekday(&word))
    };
    while first < last && is_other(first) {
        first += 1;
    }
    // `So November`, `Enjoy August`.
    while first < last && chunks.get(last).is_some_and(|it| is_of_calendar(it.text)) {
        last -= 1;
    }
    let passed = last - at + 1;
    let title = chunks.get(at).is_some_and(|it| TITLES.contains(&it.text));
    if title && first == at {
        first += 1;
    }
    // Words in capitals alone are a command, or shout.
    let small =
        (first..=last).filter_map(|at| chunks.get(at)).any(|it| it.text.chars().any(char::is_lowercase));
    // In a language with capitals for all nouns only a title makes a name.
    let is_name = match locale.capitalises_nouns() {
        // A sentence begins with a capital, and two nouns seldom follow each other.
        true => (title || begins_short) && first <= last || first < last && small && at > 0,
        false => first < last && small,
    };
    let is_call = chunks.get(last).is_some_and(|it| CALLED.contains(&&*folded(it.text)));
    // `sechs Säcke Fugenmörtel`.
    let is_counted = at.checked_sub(1).and_then(|before| chunks.get(before)).is_some_and(|it| {
        it.after.is_empty()
            && (it.text.bytes().all(|byte| byte.is_ascii_digit()) || number_word::is_number(&folded(it.text)))
    });
    let is_name = is_name && !(is_call && first == last) && !(is_counted && locale.capitalises_nouns());
    Some(NameAt { words: is_name.then_some((first, last)), passed })
}

/// Whether a word names a month or a day of the week, which are part of no name.
fn is_of_calendar(word: &str) -> bool {
    let word = word.trim_end_matches('.');
    word.chars().count() > 3 && (month_of(word).is_some() || is_weekday(&folded(word)))
}

/// Whether a folded word names a day of the week: `mondays` too.
pub(crate) fn is_weekday(word: &str) -> bool {
    WEEKDAYS.contains(&word.strip_suffix('s').unwrap_or(word)) || WEEKDAYS.contains(&word)
}

const WEEKDAYS: &[&str] = &[
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonnabend",
    "sonntag",
    "lundi",
    "mardi",
    "mercredi",
    "jeudi",
    "vendredi",
    "samedi",
    "dimanche",
    "lunes",
    "martes",
    "miércoles",
    "jueves",
    "viernes",
    "sábado",
    "domingo",
];

/// A word without the article of one letter before it, which French and Italian set before a vowel: `L'entretien`.
pub(crate) fn without_article(text: &str) -> &str {
    let mut chars = text.chars();
    let is_article = chars.next().is_some_and(|c| matches!(c, 'l' | 'L' | 'd' | 'D'))
        && chars.next().is_some_and(|c| matches!(c, '\'' | '\u{2019}'));
    if is_article { chars.as_str() } else { text }
}

/// One letter and a point, as of a first name.
fn is_initial(chunk: &Chunk<'_>) -> bool {
    let mut chars = chunk.text.chars();
    chunk.after == "." && chars.next().is_some_and(char::is_uppercase) && chars.next().is_none()
}

fn is_capital(text: &str) -> bool {
    let text = without_article(text);
    let mut chars = text.chars();
    let is_word = text.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '\u{2019}' | '&'));
    is_word && chars.next().is_some_and(char::is_uppercase) && (chars.next().is_some() || text.len() > 1)
}

const TITLES: [&str; 16] = [
    "Mr", "Mrs", "Ms", "Dr", "Prof", "Herr", "Herrn", "Frau", "Señor", "Señora", "Monsieur", "Madame",
    "Miss", "Sr", "Sra", "Mme",
];

/// What a letter may call a person behind a title, instead of by name.
const CALLED: &[&str] = &[
    "kollege",
    "kollegen",
    "kollegin",
    "kolleginnen",
    "doktor",
    "professor",
    "professorin",
    "direktor",
    "direktorin",
    "präsident",
    "präsidentin",
    "nachbar",
    "nachbarin",
];

/// Whether a word with a capital begins a sentence rather than a name.
pub(crate) fn is_no_name(word: &str) -> bool {
    NOT_NAMES.contains(&&*folded(word))
}

/// Words that a sentence begins with, and that are part of no name.
const NOT_NAMES: &[&str] = &[
    "ihr",
    "ihre",
    "ihren",
    "ihrem",
    "ihrer",
    "ihnen",
    "sie",
    "unser",
    "unsere",
    "unseren",
    "mein",
    "meine",
    "wir",
    "ich",
    "dear",
    "kind",
    "best",
    "warm",
    "many",
    "good",
    "mit",
    "viele",
    "beste",
    "hi",
    "hello",
    "hey",
    "dear",
    "thanks",
    "thank",
    "cheers",
    "regards",
    "hallo",
    "liebe",
    "lieber",
    "sehr",
    "geehrte",
    "geehrter",
    "danke",
    "bonjour",
    "bonsoir",
    "cher",
    "chère",
    "chers",
    "merci",
    "hola",
    "estimado",
    "estimada",
    "estimados",
    "querido",
    "querida",
    "gracias",
    "monsieur",
    "madame",
    "mme",
    "señor",
    "señora",
    "sr",
    "sra",
    "don",
    "doña",
    "mr",
    "mrs",
    "ms",
    "miss",
    "the",
    "a",
    "an",
    "this",
    "that",
    "these",
    "those",
    "in",
    "on",
    "at",
    "for",
    "from",
    "if",
    "when",
    "while",
    "after",
    "before",
    "no",
    "all",
    "each",
    "every",
    "please",
    "contact",
    "ask",
    "tell",
    "call",
    "email",
    "customer",
    "user",
    "per",
    "and",
    "or",
    "but",
    "since",
    "because",
    "however",
    "also",
    "both",
    "it",
    "its",
    "he",
    "she",
    "they",
    "his",
    "her",
    "their",
    "our",
    "we",
    "i",
    "you",
    "your",
    "as",
    "by",
    "to",
    "with",
    "without",
    "der",
    "die",
    "das",
    "le",
    "la",
    "les",
    "el",
    "los",
    "un",
    "une",
    "una",
    "am",
    "auf",
    "uhr",
    "bitte",
    "im",
    "seit",
    "bei",
    "nach",
    "gestern",
    "heute",
    "herr",
    "frau",
    "firma",
    "kunde",
    "kundin",
    "merge",
    "according",
    "check",
    "see",
    "notify",
    "assign",
    "escalate",
    "restart",
    "verify",
    "confirm",
    "inform",
    "open",
    "close",
    "use",
    "run",
    "set",
    "send",
    "let",
    "is",
    "are",
    "was",
    "has",
    "only",
    "then",
    "there",
    "add",
    "so",
    "ein",
    "eine",
    "einen",
    "einem",
    "einer",
    "des",
    "du",
    "au",
    "del",
    "al",
    "en",
    "enjoy",
    "our",
    "until",
    "between",
    "by",
    "yes",
    "not",
    "now",
    "next",
    "last",
    "zum",
    "zur",
    "vom",
    "für",
    "von",
    "que",
    "pour",
    "para",
    "sin",
    "con",
    "ohne",
    "sans",
    "avec",
    "su",
    "sus",
    "votre",
    "notre",
    "son",
    "sa",
    "ses",
    "ce",
    "cette",
    "este",
    "esta",
    "dieser",
    "diese",
    "dieses",
];

/// The texts between quotation marks, without the marks, in order.
pub(crate) fn quotes(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<(char, usize)> = None;
    for (at, c) in text.char_indices() {
        match open {
            Some((closing, start)) if c == closing || closing == '\u{201c}' && c == '\u{201d}' => {
                if at > start {
                    found.push(start..at);
                }
                open = None;
            }
            Some(_) => {}
            None => {
                open = closing_of(c).map(|closing| (closing, at + c.len_utf8()));
            }
        }
    }
    found
}

fn closing_of(c: char) -> Option<char> {
    Some(match c {
        '"' => '"',
        '\u{201c}' => '\u{201d}',
        // German quotation marks end with the one that English ones begin with.
        '\u{201e}' => '\u{201c}',
        '«' => '»',
        '「' => '」',
        '『' => '』',
        _ => return None,
    })
}
