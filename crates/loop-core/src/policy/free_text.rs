//! The values that a person's text gives. A value counts only between boundaries that the person wrote: as a line or
//! field of its own, as a whole word, or as a phrase in quotes, after a colon or in an address.
//!
//! A part of a longer word never counts: not `brien@x.example` in `o'brien@x.example`, not `https://x.example` in
//! `https://x.example/pay`. A common word such as `all`, `general` or `admin` counts only alone in a field or in
//! quotes. A number in a sentence is an amount, a day or a count as well as an id: for an id it counts only alone in a
//! field, or after a word that names it.

use crate::policy::forms::Canonical;
use crate::policy::scalar::Scalar;
use crate::policy::sought::{Needle, is_named};

/// The longest name of a field, in bytes.
const LONGEST_KEY: usize = 64;

/// Opening characters that may precede a word without a closing partner, because that may follow some words later.
const OPEN: [char; 6] = ['(', '[', '<', '"', '“', '«'];

/// Closing characters that may follow a word without an opening partner.
const CLOSED: [char; 6] = [')', ']', '>', '"', '”', '»'];

/// The maximum words of a name.
const NAME_WORDS: usize = 5;

/// The number of capital letters that make a word a name, such as `EPAM` or `McKay`: every sentence starts with one.
const CAPITALS: usize = 2;

/// Signs before a number or a name that say that it is one of a series.
const NUMBER_SIGNS: [char; 2] = ['#', '№'];

/// Delimiters that must be on both sides of a word or on neither.
const PAIRS: [(char, char); 14] = [
    ('(', ')'),
    ('[', ']'),
    ('<', '>'),
    ('"', '"'),
    ('“', '”'),
    ('«', '»'),
    ('{', '}'),
    ('\'', '\''),
    ('‘', '’'),
    ('‹', '›'),
    ('`', '`'),
    ('*', '*'),
    ('_', '_'),
    ('~', '~'),
];

/// Delimiters that mark the word between them as a value.
const QUOTES: [char; 7] = ['"', '“', '«', '\'', '‘', '‹', '`'];

/// Whether a text gives this value.
pub(crate) fn gives(text: &str, wanted: &Needle<'_>) -> bool {
    let as_written = wanted.scalar.may_stand_in(text)
        && (as_field(text, &wanted.scalar) || as_word(text, wanted) || as_phrase(text, &wanted.scalar));
    as_written || in_other_form(text, &wanted.scalar)
}

/// Whether a text has this name of one or more capitalised words. That alone does not give it.
pub(crate) fn has_name(text: &str, wanted: &Needle<'_>) -> bool {
    let Scalar::Text(name) = &wanted.scalar else { return false };
    let is_capital = |word: &str| word.starts_with(char::is_uppercase);
    name.split(' ').count() <= NAME_WORDS
        && name.split(' ').all(is_capital)
        && phrases(text, name)
            .any(|(_, behind)| ends_phrase(behind) || behind.starts_with(char::is_whitespace))
}

/// Whether a text has these words in any place, between characters that are not part of a word.
pub(crate) fn mentions(text: &str, words: &str) -> bool {
    phrases(text, words).any(|(_, behind)| ends_phrase(behind) || behind.starts_with(char::is_whitespace))
}

/// Whether words next to each other are the value: in quotes, after the name of a field, as a part of an address, or all of
/// them capitalised or with a digit.
fn as_phrase(text: &str, wanted: &Scalar) -> bool {
    let Scalar::Text(phrase) = wanted else { return false };
    if is_number(wanted) || phrase.contains('@') || !phrase.contains(char::is_alphanumeric) {
        return false;
    }
    let is_own = |word: &str| {
        word.starts_with(|c: char| c.is_uppercase()) || word.contains(|c: char| c.is_ascii_digit())
    };
    let is_name = phrase.contains(' ')
        && phrase.contains(|c: char| c.is_ascii_digit())
        && phrase.split(' ').all(is_own);
    phrases(text, phrase).any(|(before, behind)| {
        let ends = ends_phrase(behind);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let own = line.trim_end();
        let segment =
            |own: &str| own.rsplit([',', ';', '.', '(', ':']).next().unwrap_or_default().trim().to_owned();
        let follows =
            |sign: char| own.strip_suffix(sign).filter(|own| own.len() + 1 < line.len()).map(segment);
        is_quoted(before, behind)
            || ends && follows(':').is_some_and(|key| is_key(&key))
            || ends && follows(',').is_some_and(|part| part.contains(|c: char| c.is_ascii_digit()))
            || is_name && (ends || behind.starts_with(char::is_whitespace))
    })
}

/// The occurrences of a phrase between delimiters, each as the text before it and the text behind it.
fn phrases<'t>(text: &'t str, phrase: &str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let is_apart = |before: &str| {
        before
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || QUOTES.contains(&c) || OPEN.contains(&c))
    };
    let found = text
        .match_indices(phrase)
        .filter_map(move |(at, found)| Some((text.get(..at)?, text.get(at + found.len()..)?)));
    found.filter(move |(before, _)| is_apart(before))
}

/// Whether a phrase ends there: at the end of the text or of a line, or before punctuation that no letter follows.
fn ends_phrase(behind: &str) -> bool {
    let rest = behind.trim_start_matches(|c| is_sentence(c) || CLOSED.contains(&c) || QUOTES.contains(&c));
    let possessive = rest.strip_prefix("s ").filter(|_| behind.starts_with(['\'', '’']));
    let is_over = rest.chars().next().is_none_or(char::is_whitespace) || possessive.is_some();
    is_over && (rest.len() < behind.len() || rest.is_empty() || rest.starts_with('\n'))
}

/// Whether the characters around a phrase are a pair of quotes. Punctuation before the second belongs to the sentence.
fn is_quoted(before: &str, behind: &str) -> bool {
    let Some(opened) = before.chars().next_back().filter(|c| QUOTES.contains(c)) else { return false };
    let closing = behind.trim_start_matches(is_sentence).chars().next();
    PAIRS.iter().any(|(opens, closes)| *opens == opened && Some(*closes) == closing)
}

/// Whether a text has the value as an e-mail address, a phone number, an IBAN or a day that is written in another way.
fn in_other_form(text: &str, wanted: &Scalar) -> bool {
    let Scalar::Text(wanted) = wanted else { return false };
    match Canonical::of(wanted) {
        Some(Canonical::Email(address)) => {
            let address = Scalar::Text(address);
            text.contains('@')
                && text.to_ascii_lowercase().split_whitespace().any(|word| is_word(word, &address))
        }
        Some(form) => form.is_in(text),
        None => false,
    }
}

/// Whether a line is the value, alone or after a bullet or a field name.
fn as_field(text: &str, wanted: &Scalar) -> bool {
    let is_wanted = |text: &str| match wanted {
        Scalar::Text(wanted) => text == wanted && wanted.contains(char::is_alphanumeric),
        Scalar::Number(_) => wanted.is_number(text),
        Scalar::Truth(_) => false,
    };
    text.lines().any(|line| {
        let line = line.trim();
        let entry = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line).trim_start();
        let field =
            entry.split_once(": ").filter(|(key, _)| is_key(key)).map(|(_, value)| value.trim_start());
        [Some(line), Some(entry), field].into_iter().flatten().any(is_wanted)
    })
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_KEY && !text.contains(|c: char| c.is_whitespace() || c == ':')
}

/// Whether a whole word of the text is the value. A number that needs a name has it before it, on its own line.
fn as_word(text: &str, Needle { scalar, place }: &Needle<'_>) -> bool {
    let lines = text.lines().enumerate();
    let words: Vec<(usize, &str)> =
        lines.flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word))).collect();
    let needs_name = place.needs_name(is_number(scalar));
    words.iter().enumerate().any(|(at, (line, word))| {
        let at_most = words.get(..at).unwrap_or_default();
        let before = at_most.last().map(|(_, word)| *word).unwrap_or_default();
        let after = words.get(at + 1).map(|(_, word)| *word).unwrap_or_default();
        let earlier = at_most.iter().rev().take_while(|(own, _)| own == line).map(|(_, word)| *word);
        is_word(word, scalar)
            && !is_grouped(before, word, after)
            && (!needs_name || word.contains(NUMBER_SIGNS) || is_named(earlier, &place.names))
    })
}

/// Whether a value is a number, also as a text: digits with a point or commas, and punctuation around them. With more
/// points it is a version or an address.
fn is_number(wanted: &Scalar) -> bool {
    let Scalar::Text(text) = wanted else { return matches!(wanted, Scalar::Number(_)) };
    let core =
        text.trim_matches(|c: char| OPEN.contains(&c) || CLOSED.contains(&c) || is_sentence(c) || c == '-');
    let is_digits = core.chars().all(|c| c.is_numeric() || matches!(c, '.' | ','));
    is_digits && (core.matches('.').count() < 2 || core.contains(','))
}

/// Whether digits are part of a number with blanks between its thousands.
fn is_grouped(before: &str, word: &str, after: &str) -> bool {
    let digits = |word: &str| {
        let core = word.trim_matches(|c: char| !c.is_ascii_digit());
        core.bytes().all(|byte| byte.is_ascii_digit()).then_some(core.len()).filter(|length| *length > 0)
    };
    let is_group = |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && digits(word) == Some(3);
    let leads = |word: &str| {
        word.ends_with(|c: char| c.is_ascii_digit()) && digits(word).is_some_and(|length| length <= 3)
    };
    (leads(word) && is_group(after)) || (is_group(word) && leads(before))
}

fn is_word(word: &str, wanted: &Scalar) -> bool {
    match wanted {
        Scalar::Text(wanted) => word.match_indices(wanted.as_str()).any(|(at, found)| {
            let (before, behind) = (word.get(..at), word.get(at + found.len()..));
            before.zip(behind).is_some_and(|(before, behind)| is_bounded(before, found, behind))
        }),
        Scalar::Number(_) => is_amount(word, wanted),
        Scalar::Truth(_) => false,
    }
}

/// Whether a word is this number, with currency, brackets and punctuation around it ignored.
fn is_amount(word: &str, wanted: &Scalar) -> bool {
    let is_currency = |c: char| matches!(c, '$' | '€' | '£' | '¥');
    let core = word.trim_start_matches(|c: char| OPEN.contains(&c) || NUMBER_SIGNS.contains(&c));
    let core = core.trim_end_matches(|c: char| CLOSED.contains(&c) || is_sentence(c));
    let core = core.strip_prefix(is_currency).or_else(|| core.strip_suffix(is_currency)).unwrap_or(core);
    wanted.is_number(core)
}

/// Whether the characters around a value within a word are delimiters and not part of it.
fn is_bounded(before: &str, value: &str, behind: &str) -> bool {
    if !is_balanced(value) || !value.contains(char::is_alphanumeric) {
        return false;
    }
    let (before, numbered) = match before.strip_suffix(NUMBER_SIGNS) {
        Some(rest) if value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') => (rest, true),
        _ => (before, false),
    };
    let mut open = Vec::new();
    for c in before.chars() {
        let Some((_, partner)) = PAIRS.iter().find(|(opens, _)| *opens == c) else { return false };
        open.push((c, *partner));
    }
    let innermost = open.last().copied();
    let mut quoted = false;
    for c in behind.chars() {
        match open.last() {
            Some((opened, partner)) if *partner == c => {
                quoted |= innermost.is_some_and(|(inner, _)| inner == *opened) && QUOTES.contains(opened);
                open.pop();
            }
            _ if is_sentence(c) => {}
            None if CLOSED.contains(&c) => {}
            Some(_) | None => return false,
        }
    }
    open.iter().all(|(opened, _)| OPEN.contains(opened)) && (quoted || numbered || is_marked(value))
}

/// Whether a word is marked as a value: it contains a digit, a separator between letters, or capitals enough for a
/// name.
fn is_marked(value: &str) -> bool {
    let inner = value.trim_matches(|c: char| !c.is_alphanumeric());
    value.contains(|c: char| c.is_numeric())
        || inner.contains(['@', '.', '/', '\\', '_', '-', ':'])
        || value.chars().filter(|c| c.is_uppercase()).count() >= CAPITALS
}

/// Whether the brackets in a value are balanced, so that it is not cut off from a longer one.
fn is_balanced(value: &str) -> bool {
    let mut open = Vec::new();
    for c in value.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            '<' => open.push('>'),
            ')' | ']' | '}' | '>' if open.pop() != Some(c) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// Punctuation that may end a word. Not `…`: the text before it may be cut off.
fn is_sentence(c: char) -> bool {
    matches!(c, '.' | ',' | ';' | ':' | '!' | '?')
}
