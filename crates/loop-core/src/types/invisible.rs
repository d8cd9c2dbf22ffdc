//! Invisible characters: the one list by which outside text is cleaned and compared.

use std::borrow::Cow;

/// Whether a text has no visible character. Joiners, variation selectors, control characters and letters that are drawn
/// as a blank do not count as visible.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || is_invisible(c) || is_drawn_as_nothing(c))
}

/// Whether a cleaned text keeps this character: line feeds, tabs, and every character that is neither a control
/// character nor [invisible](is_invisible). Prompts, tool results and people's answers are cleaned by it.
pub fn is_clean(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c))
}

/// Whether every character of a text [is clean](is_clean).
pub fn is_clean_text(text: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.get(plain_run(rest.as_bytes())..).unwrap_or_default();
        if rest.is_empty() {
            return true;
        }
        // Bytes leave it open here, so characters are looked at up to where the next look at the bytes begins.
        let mut seen = 0;
        for c in rest.chars() {
            if !is_clean(c) {
                return false;
            }
            seen += c.len_utf8();
            if seen >= CHUNK {
                break;
            }
        }
        rest = rest.get(seen..).unwrap_or_default();
    }
}

/// A text without the characters that are not [clean](is_clean).
pub fn cleaned(text: &str) -> Cow<'_, str> {
    match is_clean_text(text) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().filter(|c| is_clean(*c)).collect()),
    }
}

/// Whether a text is visible ASCII with single spaces between its words, and nothing before or after them.
pub fn is_plain_line(text: &str) -> bool {
    let bytes = text.as_bytes();
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    let is_spaced = || !pairs.fold(false, |found, (one, next)| found | (*one == b' ' && *next == b' '));
    let has_break = || bytes.iter().fold(false, |found, byte| found | matches!(byte, b'\n' | b'\t'));
    plain_run(bytes) == bytes.len()
        && bytes.first() != Some(&b' ')
        && bytes.last() != Some(&b' ')
        && !has_break()
        && is_spaced()
}

/// How many bytes are looked at together.
const CHUNK: usize = 64;

/// The length of a beginning that is ASCII and clean: chunks of it, or all of it. The byte behind it begins a character.
fn plain_run(bytes: &[u8]) -> usize {
    let (chunks, end) = bytes.as_chunks::<CHUNK>();
    let is_plain = |chunk: &[u8; CHUNK]| {
        // Without a branch for each word, so that many are looked at together.
        chunk.as_chunks::<8>().0.iter().fold(0, |found, word| found | unplain(*word)) == 0
    };
    let whole = chunks.iter().take_while(|chunk| is_plain(chunk)).count();
    if whole < chunks.len() {
        return whole * CHUNK;
    }
    let mut last = [b' '; CHUNK];
    if let Some(start) = last.get_mut(..end.len()) {
        start.copy_from_slice(end);
    }
    if is_plain(&last) { bytes.len() } else { whole * CHUNK }
}

/// 0 if these bytes are ASCII and clean.
fn unplain(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    // The high bit of each byte says whether the byte is at least so much. Bytes beyond ASCII spoil that of others, and have
    // it set themselves.
    let at_least = |least: u64| word.wrapping_add(ONES * (0x80 - least));
    // Tabs and line feeds follow each other.
    let is_other_control = !at_least(0x20) & (!at_least(0x09) | at_least(0x0b));
    (word | at_least(0x7f) | is_other_control) & (ONES * 0x80)
}

/// Whether this character only changes how its neighbours are drawn, as several scripts and emoji need it: joiners, the
/// grapheme joiner, variation selectors of text and emoji. Names and secrets are compared without them.
pub fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{34f}' | '\u{fe0e}' | '\u{fe0f}')
}

/// Whether this character is drawn as nothing by itself, although a text may need it.
pub(crate) fn is_drawn_as_nothing(c: char) -> bool {
    match c {
        // Fillers of Hangul, a Khmer inherent vowel, the blank of Braille.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' => true,
        c => is_joiner(c),
    }
}

/// Whether this character is invisible but changes what is read: direction marks, zero-width characters, line
/// separators, invisible operators, tags, hidden variation selectors, private use.
///
/// [Joiners](is_joiner) and control characters are not among them. The caller decides which line breaks stay.
pub fn is_invisible(c: char) -> bool {
    match c {
        // Soft hyphen, Arabic letter mark, Mongolian vowel separator, zero-width space, direction marks.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' => true,
        // Line separators, embeddings and overrides; word joiner, invisible operators, isolates.
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Byte order mark, interlinear annotation.
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Variation selectors can carry bytes, tags spell ASCII.
        '\u{fe00}'..='\u{fe0d}' | '\u{e0000}'..='\u{e0fff}' => true,
        // Private use: how a reader sees these is unknown.
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{cleaned, is_blank, is_clean, is_clean_text, is_plain_line};

    #[test]
    fn a_character_that_is_not_clean_is_found_wherever_it_stands() {
        // I-24: around the places where one look at the bytes ends and the next begins.
        let every = (0..=0x2ff).chain([0x200b, 0x200d, 0xfeff, 0xe0041, 0x1f44d]).filter_map(char::from_u32);
        for hidden in every {
            for before in (0..20).chain(55..75).chain([127, 128, 129]) {
                for filler in ["x", "é", "👍"] {
                    let text = format!("{}{hidden}{}", filler.repeat(before), "x".repeat(before % 7));
                    assert_eq!(is_clean_text(&text), is_clean(hidden), "{text:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_and_characters_agree(text in "([a-z ]{0,70}|[\\x00-\\x7f]|\\PC|\u{200b}|\u{85}){0,8}") {
            prop_assert_eq!(is_clean_text(&text), text.chars().all(is_clean));
            let kept: String = text.chars().filter(|c| is_clean(*c)).collect();
            prop_assert_eq!(cleaned(&text), kept);
        }

        #[test]
        fn a_plain_line_is_what_its_words_make(text in "([a-z~! ]{0,9}|[ ]{1,2}|[\\x00-\\x7f]|é){0,4}") {
            let is_visible = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            let joined = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(is_plain_line(&text), is_visible && joined == text);
        }
    }

    #[test]
    fn a_text_of_joiners_fillers_and_control_characters_alone_is_blank() {
        assert!(is_blank("\u{200b}\u{200d}\u{2060}\u{feff}\u{fe0f}\u{3164}\u{0}\u{1b} \n"));
        // What joins something is part of it.
        assert!(!is_blank("\u{1f469}\u{200d}\u{1f4bb}"));
        assert!(!is_blank("\u{200d}."));
    }
}
