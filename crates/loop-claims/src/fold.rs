//! Text as it is compared: small letters without accents, one form of each dash, quotation mark and space.

use std::borrow::Cow;
use std::ops::Range;

use loop_core::types::is_unspaced;
use unicode_normalization::UnicodeNormalization;

/// A folded text, with where each of its bytes was.
#[derive(Debug)]
pub(crate) struct Folded<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Of each byte of `text`, and of its end, where it was. `None`: where it is.
    at: Option<Vec<u32>>,
}

impl<'a> Folded<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        if text.is_ascii() {
            let is_small = !text.bytes().any(|byte| byte.is_ascii_uppercase());
            let text = if is_small { text.into() } else { text.to_ascii_lowercase().into() };
            return Self { text, at: None };
        }
        let mut folded = String::with_capacity(text.len());
        let mut places = Vec::with_capacity(text.len() + 1);
        for (at, c) in text.char_indices() {
            let place = u32::try_from(at).unwrap_or(u32::MAX);
            fold(c, &mut folded);
            places.resize(folded.len(), place);
        }
        places.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        Self { text: folded.into(), at: Some(places) }
    }

    /// Where a range of the folded text was.
    pub(crate) fn range(&self, range: Range<usize>) -> Range<usize> {
        let Some(places) = &self.at else { return range };
        let place = |at: usize| places.get(at).or(places.last()).map_or(0, |place| *place as usize);
        place(range.start)..place(range.end)
    }
}

fn fold(c: char, into: &mut String) {
    let folded = match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '\u{2018}' | '\u{2019}' | '\u{2032}' => "'",
        '\u{201c}'..='\u{201f}' | '«' | '»' | '「' | '」' | '『' | '』' => "\"",
        '\u{a0}' | '\u{202f}' | '\u{2000}'..='\u{200a}' | '\u{3000}' => " ",
        'æ' | 'Æ' => "ae",
        'ł' | 'Ł' => "l",
        'ø' | 'Ø' => "o",
        'œ' | 'Œ' => "oe",
        'ß' => "ss",
        'ı' => "i",
        'μ' => "µ",
        '²' => "2",
        '³' => "3",
        // Marks that are written over the letter before them, and characters without a width.
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => "",
        '！'..='～' => {
            let ascii = u32::from(c).checked_sub(0xfee0).and_then(char::from_u32).unwrap_or(c);
            return into.push(ascii.to_ascii_lowercase());
        }
        // A letter with an accent is the letter.
        _ => match std::iter::once(c).nfd().next().filter(char::is_ascii_alphabetic) {
            Some(letter) => return into.push(letter.to_ascii_lowercase()),
            None => return into.extend(c.to_lowercase()),
        },
    };
    into.push_str(folded);
}

/// The words of a folded text, each between single spaces: what an id, a name or a quotation is searched in. The places
/// are those of the words in the folded text.
pub(crate) fn spaced(folded: &str) -> (String, Vec<(u32, u32)>) {
    let mut text = String::with_capacity(folded.len() + 2);
    let mut places = Vec::new();
    text.push(' ');
    for range in words(folded) {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        places.push((place(text.len()), place(range.start)));
        text.push_str(folded.get(range).unwrap_or_default());
        text.push(' ');
    }
    (text, places)
}

/// The words of a folded text: runs of letters and digits. A letter of a script without spaces is a word of its own.
pub(crate) fn words(folded: &str) -> impl Iterator<Item = Range<usize>> {
    let mut chars = folded.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.by_ref().find(|(_, c)| c.is_alphanumeric())?;
        let mut end = start + first.len_utf8();
        while let Some((at, c)) =
            chars.next_if(|(_, c)| c.is_alphanumeric() && !is_unspaced(*c) && !is_unspaced(first))
        {
            end = at + c.len_utf8();
        }
        Some(start..end)
    })
}
