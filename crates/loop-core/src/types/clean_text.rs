//! Whole texts that are cleaned: many bytes are looked at together, and characters only where bytes leave it open.

use std::borrow::Cow;

use crate::types::invisible::is_clean;
use crate::types::json_text::ONES;

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

/// A text without the characters that are not [clean](is_clean); the text itself where all are.
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
    plain_run(bytes) == bytes.len()
        && bytes.first() != Some(&b' ')
        && bytes.last() != Some(&b' ')
        && !bytes.contains(&b'\n')
        && !bytes.contains(&b'\t')
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
    let word = u64::from_le_bytes(word);
    // The high bit of each byte says whether the byte is at least so much. Bytes beyond ASCII spoil that of others, and have
    // it set themselves.
    let at_least = |least: u64| word.wrapping_add(ONES * (0x80 - least));
    // Tabs and line feeds follow each other.
    let is_other_control = !at_least(0x20) & (!at_least(0x09) | at_least(0x0b));
    (word | at_least(0x7f) | is_other_control) & (ONES * 0x80)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
