//! The words of a text of evidence, and which of them a document has.

use std::ops::Range;

use crate::chunk::folded;

/// A word of a text: where it is, and as it is written.
pub(super) struct TextWord<'a> {
    text: &'a str,
    pub(super) range: Range<usize>,
    pub(super) word: &'a str,
    /// Whether the text is of ASCII characters.
    is_ascii: bool,
}

impl TextWord<'_> {
    /// Whether a dash or an underscore joins it to the word before and to the word after.
    pub(super) fn is_glued(&self) -> (bool, bool) {
        (is_glue_before(self.text, self.range.start), is_glue_after(self.text, self.range.end))
    }
}

/// The words of a text, in their order.
pub(super) fn text_words(text: &str) -> impl Iterator<Item = TextWord<'_>> {
    let (bytes, is_ascii) = (text.as_bytes(), text.is_ascii());
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = match is_ascii {
            true => at + bytes.get(at..)?.iter().position(u8::is_ascii_alphanumeric)?,
            false => at + begin(text.get(at..)?)?,
        };
        let rest = bytes.get(from..)?;
        at = match is_ascii {
            true => from + rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len()),
            false => from + end(text.get(from..).unwrap_or_default()),
        };
        Some(TextWord { text, range: from..at, word: text.get(from..at).unwrap_or_default(), is_ascii })
    })
}

/// Whether a byte is an ASCII letter or a digit, by a table: most of the time goes into asking this.
#[inline]
fn is_of_word(byte: u8) -> bool {
    const OF_WORD: [bool; 256] = of_word();
    OF_WORD.get(usize::from(byte)).copied().unwrap_or(false)
}

#[expect(
    clippy::indexing_slicing,
    reason = "the table has a place for each byte, and is made by the compiler"
)]
const fn of_word() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = u8::MIN;
    loop {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

/// Calls `each` with each word of a text that the vocabulary may have, and with `None` for each other word.
#[inline]
pub(super) fn known_words<'a>(
    text: &'a str,
    vocabulary: &Vocabulary,
    mut each: impl FnMut(Option<TextWord<'a>>),
) {
    if !text.is_ascii() {
        text_words(text).for_each(|it| each(Some(it).filter(|it| vocabulary.may_have(it))));
        return;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        let from = at;
        at += 1;
        if !is_of_word(*first) {
            continue;
        }
        while bytes.get(at).is_some_and(|byte| is_of_word(*byte)) {
            at += 1;
        }
        if !vocabulary.may_have_length(*first, at - from) {
            each(None);
            continue;
        }
        let word = text.get(from..at).unwrap_or_default();
        let it = TextWord { text, range: from..at, word, is_ascii: true };
        each(Some(it).filter(|it| vocabulary.may_have_hash(hash(it.word))));
    }
}

/// Where the first word of a text begins.
#[inline]
fn begin(text: &str) -> Option<usize> {
    let at = text.as_bytes().iter().position(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())?;
    if text.as_bytes().get(at).is_some_and(u8::is_ascii) {
        return Some(at);
    }
    Some(at + text.get(at..)?.find(char::is_alphanumeric)?)
}

/// Where the word that a text begins with ends.
#[inline]
fn end(text: &str) -> usize {
    let at = text.as_bytes().iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(text.len());
    let rest = text.get(at..).unwrap_or_default();
    match rest.bytes().next().is_none_or(|byte| byte.is_ascii()) {
        true => at,
        false => at + rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()),
    }
}

fn is_glue_before(text: &str, at: usize) -> bool {
    let mut before = text.get(..at).unwrap_or_default().chars().rev();
    matches!(before.next(), Some('-' | '_')) && before.next().is_some_and(char::is_alphanumeric)
}

fn is_glue_after(text: &str, at: usize) -> bool {
    let mut after = text.get(at..).unwrap_or_default().chars();
    matches!(after.next(), Some('-' | '_')) && after.next().is_some_and(char::is_alphanumeric)
}

/// Says of most words that a document does not have them, without folding them: first by the length and the first byte, then by
/// a filter of Bloom with one hash.
#[derive(Debug)]
pub(super) struct Vocabulary {
    blocks: Vec<u64>,
    /// By the first byte: the lengths, as bits.
    lengths: Vec<u64>,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self { blocks: vec![0; BLOCKS], lengths: vec![0; FIRST_BYTES] }
    }
}

/// How many first bytes there are.
const FIRST_BYTES: usize = 256;

/// In how many numbers the bits of the filter are.
const BLOCKS: usize = 256;

impl Vocabulary {
    /// Adds a folded word.
    pub(super) fn add(&mut self, word: &str) {
        let (block, bit) = place(hash(word));
        if let Some(block) = self.blocks.get_mut(block) {
            *block |= bit;
        }
        let first = word.as_bytes().first().map_or(0, u8::to_ascii_lowercase);
        if let Some(lengths) = self.lengths.get_mut(usize::from(first)) {
            *lengths |= bit_of(word.len());
        }
    }

    /// Whether a word may be one that was added.
    #[inline]
    pub(super) fn may_have(&self, it: &TextWord<'_>) -> bool {
        if it.is_ascii { self.may_have_any_case(it.word) } else { self.may_have_any_case(&folded(it.word)) }
    }

    /// The same of a folded word, and of one of ASCII characters.
    #[inline]
    fn may_have_any_case(&self, word: &str) -> bool {
        let first = word.as_bytes().first().copied().unwrap_or(0);
        self.may_have_length(first, word.len()) && self.may_have_hash(hash(word))
    }

    /// Whether a word of this length that begins with this byte may be one that was added.
    #[inline]
    fn may_have_length(&self, first: u8, length: usize) -> bool {
        let lengths = self.lengths.get(usize::from(first.to_ascii_lowercase()));
        lengths.is_some_and(|lengths| lengths & bit_of(length) != 0)
    }

    fn may_have_hash(&self, hash: u64) -> bool {
        let (block, bit) = place(hash);
        self.blocks.get(block).is_some_and(|block| block & bit != 0)
    }
}

/// The bit of a length. Very long words have one bit.
fn bit_of(length: usize) -> u64 {
    1 << length.min(63)
}

fn place(hash: u64) -> (usize, u64) {
    let bits = usize::try_from((hash >> 40) & 0x3fff).unwrap_or(0);
    (bits / 64, 1 << (bits % 64))
}

/// FNV-1a over the letters, small and large ones alike.
fn hash(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_text_are_its_runs_of_letters_and_digits() {
        let words: Vec<(&str, (bool, bool))> =
            text_words(" web-1, Zürich_2 (été) 42.5€ ").map(|it| (it.word, it.is_glued())).collect();
        assert_eq!(
            words,
            [
                ("web", (false, true)),
                ("1", (true, false)),
                ("Zürich", (false, true)),
                ("2", (true, false)),
                ("été", (false, false)),
                ("42", (false, false)),
                ("5", (false, false)),
            ]
        );
        assert_eq!(text_words("…—").count(), 0);
    }

    #[test]
    fn a_word_that_was_added_is_known_in_capitals_too() {
        let mut known = Vocabulary::default();
        known.add("zürich");
        known.add("inv");
        let may_have = |text: &str| {
            let found: Vec<bool> = text_words(text).map(|it| known.may_have(&it)).collect();
            let mut all = Vec::new();
            known_words(text, &known, |it| all.push(it.is_some()));
            assert_eq!(found, all, "{text}");
            found.into_iter().all(|it| it)
        };
        assert!(may_have("ZÜRICH") && may_have("Inv") && may_have("Zürich INV"));
        assert!(!may_have("backup") && !may_have("inn") && !may_have("Zürich in"));
    }
}
