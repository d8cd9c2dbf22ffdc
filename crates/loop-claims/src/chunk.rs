//! A text as chunks: runs without white space, without the punctuation around them.

use std::borrow::Cow;
use std::ops::Range;

use crate::steps;
use loop_core::types::{is_invisible, is_joiner, is_unspaced};

/// A run of characters without white space. Where Japanese or Chinese characters meet others, another chunk begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    /// Without the punctuation around it.
    pub(crate) text: &'a str,
    /// Where `text` begins, in bytes.
    pub(crate) at: usize,
    /// The punctuation before it.
    pub(crate) before: &'a str,
    /// The punctuation after it.
    pub(crate) after: &'a str,
    /// Whether it follows the chunk before it without white space.
    pub(crate) is_joined: bool,
    /// Whether a line ends between the chunk before it and this one.
    pub(crate) is_first: bool,
}

impl Chunk<'_> {
    pub(crate) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// The chunks of a text, in order.
pub(crate) fn chunks(text: &str) -> Vec<Chunk<'_>> {
    split(text, false)
}

/// The same of a text of evidence, where what separates cells and fields separates chunks too.
pub(crate) fn cells(text: &str) -> Vec<Chunk<'_>> {
    split(text, true)
}

/// The one chunk of a text of evidence, such as an id. `None`: it may have more.
pub(crate) fn only_cell(text: &str) -> Option<Chunk<'_>> {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-'..=b'/' | b':' | b'_');
    let is_one = !text.is_empty() && text.as_bytes().iter().all(is_inside);
    is_one.then(|| {
        steps::count(text.len());
        ascii_chunk(text, 0..text.len(), false)
    })
}

/// Whether a chunk of evidence ends with this character: a separator of cells, or a comma that is not in a number.
fn ends_cell(text: &str, at: usize, c: char) -> bool {
    match c {
        ';' | '|' | '=' | '<' | '>' | '{' | '}' | '[' | ']' | '"' => true,
        ',' => {
            let is_digit =
                |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
            !(is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)))
        }
        _ => false,
    }
}

fn split(text: &str, has_cells: bool) -> Vec<Chunk<'_>> {
    if text.is_ascii() { split_ascii(text, has_cells) } else { split_any(text, has_cells) }
}

/// A run of characters as a chunk.
fn chunk(text: &str, run: Range<usize>, is_joined: bool, is_first: bool) -> Chunk<'_> {
    let whole = text.get(run.clone()).unwrap_or_default();
    let start = whole.find(is_part).unwrap_or(whole.len());
    let stop = whole.rfind(is_last_part).map_or(start, |at| {
        at + whole.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
    });
    let stop = stop.max(start);
    Chunk {
        text: whole.get(start..stop).unwrap_or_default(),
        at: run.start + start,
        before: whole.get(..start).unwrap_or_default(),
        after: whole.get(stop..).unwrap_or_default(),
        is_joined,
        is_first,
    }
}

/// Nearly all texts of evidence are ASCII, where only white space and the ends of cells and links separate chunks.
fn split_ascii(text: &str, has_cells: bool) -> Vec<Chunk<'_>> {
    let bytes = text.as_bytes();
    steps::count(bytes.len());
    // Most texts are short.
    let mut found = Vec::with_capacity(bytes.len().min(128) / 8 + 1);
    let mut line_ended = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if is_ascii_space(*byte) {
            line_ended |= *byte == b'\n';
            at += 1;
            continue;
        }
        let from = at;
        at += 1;
        while let Some(byte) = bytes.get(at) {
            if is_ascii_space(*byte) {
                break;
            }
            at += 1;
            let is_end = match byte {
                b']' => has_cells || bytes.get(at) == Some(&b'('),
                b',' => has_cells && ends_cell(text, at - 1, ','),
                b';' | b'|' | b'=' | b'<' | b'>' | b'{' | b'}' | b'[' | b'"' => has_cells,
                _ => false,
            };
            if is_end {
                break;
            }
        }
        found.push(ascii_chunk(text, from..at, std::mem::take(&mut line_ended)));
    }
    found
}

fn is_ascii_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// A run of ASCII characters as a chunk.
fn ascii_chunk(text: &str, run: Range<usize>, is_first: bool) -> Chunk<'_> {
    let bytes = text.as_bytes().get(run.clone()).unwrap_or_default();
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'-' | b'#' | b'+' | b'%' | b'~');
    let is_last_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'%');
    let start = bytes.iter().position(is_part).unwrap_or(bytes.len());
    let stop = bytes.iter().rposition(is_last_part).map_or(start, |at| at + 1).max(start);
    let (start, stop) = (run.start + start, run.start + stop);
    Chunk {
        text: text.get(start..stop).unwrap_or_default(),
        at: start,
        before: text.get(run.start..start).unwrap_or_default(),
        after: text.get(stop..run.end).unwrap_or_default(),
        is_joined: false,
        is_first,
    }
}

fn split_any(text: &str, has_cells: bool) -> Vec<Chunk<'_>> {
    let mut found = Vec::new();
    let mut begin: Option<(usize, bool, bool)> = None;
    let mut ended_at = usize::MAX;
    let mut line_ended = false;
    let mut push = |from: usize, to: usize, is_joined: bool, is_first: bool| {
        found.push(chunk(text, from..to, is_joined, is_first));
    };
    for (at, c) in text.char_indices() {
        steps::count(1);
        // What separates thousands is inside of a number.
        let is_space = c.is_whitespace() && !is_between_digits(text, at, c);
        match begin {
            Some((from, _, is_joined)) if is_space => {
                push(from, at, is_joined, std::mem::take(&mut line_ended));
                begin = None;
            }
            Some((from, is_cjk, is_joined)) if is_cjk != is_unspaced(c) && is_wordy(c) => {
                push(from, at, is_joined, std::mem::take(&mut line_ended));
                begin = Some((at, is_unspaced(c), true));
            }
            // The text of a link, and its address.
            Some((from, _, is_joined))
                if has_cells && ends_cell(text, at, c)
                    || c == ']' && text.as_bytes().get(at + 1) == Some(&b'(') =>
            {
                push(from, at + c.len_utf8(), is_joined, std::mem::take(&mut line_ended));
                begin = None;
            }
            // What separates clauses separates chunks, and is after the first.
            Some((from, _, is_joined)) if matches!(c, '、' | '。' | '；' | '，') => {
                push(from, at + c.len_utf8(), is_joined, std::mem::take(&mut line_ended));
                begin = None;
            }
            None if !is_space => begin = Some((at, is_unspaced(c), ended_at == at)),
            Some(_) | None => {}
        }
        if is_space {
            ended_at = usize::MAX;
            line_ended |= c == '\n';
        }
    }
    if let Some((from, _, is_joined)) = begin {
        push(from, text.len(), is_joined, line_ended);
    }
    found
}

fn is_wordy(c: char) -> bool {
    c.is_alphanumeric() || is_unspaced(c)
}

fn is_between_digits(text: &str, at: usize, c: char) -> bool {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    matches!(c, '\u{a0}' | '\u{202f}')
        && is_digit(text.get(..at).and_then(|before| before.chars().next_back()))
        && is_digit(text.get(at + c.len_utf8()..).and_then(|after| after.chars().next()))
}

/// Whether a chunk may begin with it.
fn is_part(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(
            c,
            '$' | '€' | '£' | '¥' | '￥' | '₹' | '-' | '\u{2212}' | '#' | '+' | '%' | '％' | '°' | '~' | '≈'
        )
}

/// Whether a chunk may end with it.
fn is_last_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '$' | '€' | '£' | '¥' | '￥' | '₹' | '%' | '％' | '°')
}

/// A text for comparing: small letters, without invisible characters, full-width characters and dashes as plain ones.
pub(crate) fn folded(text: &str) -> Cow<'_, str> {
    // Nearly all texts of evidence are ASCII.
    if text.is_ascii() {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => Cow::Borrowed(text),
        };
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !is_invisible(*c) && !is_joiner(*c)) {
        folded.extend(plain(c).to_lowercase());
    }
    Cow::Owned(folded)
}

/// The longest text that is folded without an allocation.
const MAX_SMALL: usize = 24;

/// Gives `work` a text as [`folded`] makes it, most words without an allocation.
#[inline]
pub(super) fn with_folded<T>(text: &str, work: impl FnOnce(&str) -> T) -> T {
    let mut small = [0; MAX_SMALL];
    match small.get_mut(..text.len()).filter(|_| text.is_ascii()) {
        Some(small) => {
            small.copy_from_slice(text.as_bytes());
            small.make_ascii_lowercase();
            work(std::str::from_utf8(small).unwrap_or_default())
        }
        None => work(&folded(text)),
    }
}

/// The plain form of a character.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}' | '\u{2019}' => '\'',
        c => c,
    }
}

/// A text whose numbers can be read: without invisible characters, with plain digits. Most texts are that already.
pub(crate) fn readable(text: &str) -> Cow<'_, str> {
    match !text.is_ascii() && text.contains(is_changed) {
        false => Cow::Borrowed(text),
        true => {
            let kept = text.chars().filter(|c| !is_invisible(*c) && !is_joiner(*c));
            Cow::Owned(kept.map(|c| if is_changed(c) { plain(c) } else { c }).collect())
        }
    }
}

/// Whether a character is left out or replaced for reading.
fn is_changed(c: char) -> bool {
    is_invisible(c) || is_joiner(c) || ('\u{ff01}'..='\u{ff5e}').contains(&c)
}

/// The places in a text, by the places in its [`readable`] form: `places[n]` is where the byte `n` comes from. Empty if both
/// are the same.
pub(crate) fn places(text: &str) -> Vec<usize> {
    if text.is_ascii() || !text.contains(is_changed) {
        return Vec::new();
    }
    let mut places = Vec::with_capacity(text.len());
    for (at, c) in text.char_indices().filter(|(_, c)| !is_invisible(*c) && !is_joiner(*c)) {
        let shown = if is_changed(c) { plain(c) } else { c };
        places.extend(std::iter::repeat_n(at, shown.len_utf8()));
    }
    places.push(text.len());
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_have_no_punctuation_around_them() {
        let text = "(The job, B-7: \"failed\" at 3 %.)";
        let found: Vec<&str> = chunks(text).iter().map(|chunk| chunk.text).collect();
        assert_eq!(found, ["The", "job", "B-7", "failed", "at", "3", "%"]);
        assert!(chunks(text).iter().all(|it| text.get(it.at..it.end()) == Some(it.text)));
        let found: Vec<&str> = chunks("容量は42GBです").iter().map(|chunk| chunk.text).collect();
        assert_eq!(found, ["容量は", "42GB", "です"]);
        let found: Vec<&str> = chunks("1\u{202f}234 €").iter().map(|chunk| chunk.text).collect();
        assert_eq!(found, ["1\u{202f}234", "€"]);
    }

    proptest! {
        #[test]
        fn a_text_is_folded_the_same_with_and_without_an_allocation(text in "[a-zA-Z0-9ÄÉß-]{0,30}") {
            prop_assert_eq!(with_folded(&text, str::to_owned), folded(&text));
        }

        #[test]
        fn a_text_of_ascii_has_the_same_chunks_as_any_text(text in "[a-z0-9 \t\n\x0b\x1c.,;|(\\[\\]\"$-]{0,40}") {
            for has_cells in [false, true] {
                let (one, other) = (split_ascii(&text, has_cells), split_any(&text, has_cells));
                prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
            }
            if let Some(only) = only_cell(&text) {
                prop_assert_eq!(format!("{:?}", [only]), format!("{:?}", cells(&text)));
            }
        }

        #[test]
        fn chunks_are_parts_of_the_text(text in "\\PC{0,60}") {
            for chunk in chunks(&text) {
                prop_assert_eq!(text.get(chunk.at..chunk.end()), Some(chunk.text));
            }
        }
    }
}
