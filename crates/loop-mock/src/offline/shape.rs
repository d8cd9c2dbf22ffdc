//! Formats of names, by which the stub finds the values in a text that a tool can look up.

use std::cell::OnceCell;
use std::cmp::Reverse;

use regex::{Regex, RegexBuilder};

use crate::offline::words::{is_path, names, paths};

/// The most words of a name.
const WORDS: usize = 4;

/// The most bytes of a name.
const LONG: usize = 200;

/// The most bytes of a compiled pattern, since patterns are untrusted.
const COMPILED: usize = 1 << 20;

/// Words that a format must not match, since otherwise any word would match.
const PLAIN: [&str; 4] = ["the", "printer", "Disk", "a"];

/// The format of a name.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// An e-mail address.
    Mail,
    /// The path of a file.
    Path,
    /// A URL.
    Url,
    /// A pattern that matches the whole name.
    Form {
        form: Regex,
        /// Whether names can contain spaces.
        is_spaced: bool,
        /// Whether names must contain a digit.
        has_digit: bool,
    },
}

/// A part of an example: a run of letters or digits with its length, or a separator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Letters(usize),
    Digits(usize),
    /// Letters and digits in any order, as in hexadecimal numbers.
    Mixed(usize),
    Mark(char),
}

/// The shortest and the longest length of each part.
type Lengths = Vec<(usize, usize)>;

impl Piece {
    /// The lengths of two parts, the shorter one first. `None`: they are of different kinds.
    fn joined(self, other: &Self) -> Option<(usize, usize)> {
        let range = |a: usize, b: usize| Some((a.min(b), a.max(b)));
        match (self, *other) {
            (Self::Letters(a), Self::Letters(b))
            | (Self::Digits(a), Self::Digits(b))
            | (Self::Mixed(a), Self::Mixed(b)) => range(a, b),
            (Self::Mark(a), Self::Mark(b)) if a == b => Some((1, 1)),
            _ => None,
        }
    }
}

impl Shape {
    /// The formats of a parameter's examples. Examples that are plain words have none.
    ///
    /// Runs of letters and digits have the length in the examples. For examples that differ only in lengths, any length
    /// in between matches.
    pub(super) fn of_examples(examples: &[&str]) -> Vec<Self> {
        let mut shapes = Vec::new();
        // A class of all letters there are makes a large expression.
        let is_ascii = examples.iter().all(|example| example.is_ascii());
        let mut forms: Vec<(Vec<Piece>, Lengths)> = Vec::new();
        for example in examples.iter().map(|example| example.trim()) {
            if example.starts_with("https://") || example.starts_with("http://") {
                shapes.push(Self::Url);
            } else if is_path(example) {
                shapes.push(Self::Path);
            } else if example.contains('@') && !example.contains(' ') {
                shapes.extend(is_mail(example).then_some(Self::Mail));
            } else if let Some(pieces) = pieces(example) {
                let own = || pieces.iter().filter_map(|piece| piece.joined(piece)).collect();
                let known = forms.iter_mut().find(|(known, _)| {
                    known.len() == pieces.len()
                        && known.iter().zip(&pieces).all(|(a, b)| a.joined(b).is_some())
                });
                match known {
                    Some((_, ranges)) => {
                        for ((low, high), piece) in ranges.iter_mut().zip(&pieces) {
                            let (a, b) = piece.joined(piece).unwrap_or((*low, *high));
                            (*low, *high) = ((*low).min(a), (*high).max(b));
                        }
                    }
                    None => forms.push((pieces.clone(), own())),
                }
            }
        }
        shapes.extend(forms.iter().filter_map(|(pieces, ranges)| Self::of_pieces(pieces, ranges, is_ascii)));
        shapes
    }

    fn of_pieces(pieces: &[Piece], ranges: &[(usize, usize)], is_ascii: bool) -> Option<Self> {
        let letter = if is_ascii { "[A-Za-z]" } else { r"\p{L}" };
        let mut form = String::new();
        for (piece, (low, high)) in pieces.iter().zip(ranges) {
            match piece {
                Piece::Letters(_) => form.push_str(&format!("{letter}{{{low},{high}}}")),
                Piece::Digits(_) => form.push_str(&format!("[0-9]{{{low},{high}}}")),
                Piece::Mixed(_) => form.push_str(&format!("[A-Za-z0-9]{{{low},{high}}}")),
                Piece::Mark(mark) => form.push_str(&regex::escape(&mark.to_string())),
            }
        }
        let has_digit = pieces.iter().any(|piece| matches!(piece, Piece::Mixed(_)));
        Self::compiled(&form, pieces.contains(&Piece::Mark(' ')), has_digit)
    }

    /// The format that a JSON Schema pattern requires. `None`: the pattern is too complex, or matches any word.
    pub(super) fn of_pattern(pattern: &str) -> Option<Self> {
        let is_spaced = pattern.contains(' ') || pattern.contains(r"\s");
        let shape = Self::compiled(pattern, is_spaced, false)?;
        (!PLAIN.iter().all(|word| shape.fits(word))).then_some(shape)
    }

    fn compiled(form: &str, is_spaced: bool, has_digit: bool) -> Option<Self> {
        let whole = format!("^(?:{form})$");
        let form = RegexBuilder::new(&whole).size_limit(COMPILED).dfa_size_limit(COMPILED).build().ok()?;
        Some(Self::Form { form, is_spaced, has_digit })
    }

    /// Whether a name has this format.
    pub(super) fn fits(&self, name: &str) -> bool {
        match self {
            Self::Mail => is_mail(name),
            Self::Path => is_path(name),
            Self::Url => name.starts_with("https://") || name.starts_with("http://"),
            Self::Form { form, has_digit, .. } => {
                form.is_match(name) && (!has_digit || name.bytes().any(|byte| byte.is_ascii_digit()))
            }
        }
    }

    fn is_spaced(&self) -> bool {
        matches!(self, Self::Form { is_spaced: true, .. })
    }
}

/// The possible names in a text, split once for the parameters of all tools.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    pub(super) text: &'a str,
    /// Whether paths count as names.
    with_paths: bool,
    /// Words and paths with their positions.
    words: Vec<PlacedPiece<'a>>,
    /// Two to four consecutive words, for formats with spaces.
    groups: OnceCell<Vec<PlacedPiece<'a>>>,
}

/// A part of a text and its byte offset.
type PlacedPiece<'a> = (usize, &'a str);

impl<'a> Candidates<'a> {
    /// The possible names in a text. Paths are included with `with_paths`.
    pub(super) fn of(text: &'a str, with_paths: bool) -> Self {
        let mut words = bare(text);
        words.extend(names(text));
        if with_paths {
            words.extend(paths(text));
        }
        Self { text, with_paths, words: placed(text, words), groups: OnceCell::new() }
    }

    /// The names that have one of the formats, in the order of the text.
    pub(super) fn find(&self, shapes: &[Shape]) -> Vec<&'a str> {
        let spaced = shapes.iter().any(Shape::is_spaced);
        let groups = spaced.then(|| self.groups.get_or_init(|| placed(self.text, groups(self.text))));
        let has_shape = |name: &str| {
            let mut shapes = shapes.iter().filter(|shape| self.with_paths || !matches!(shape, Shape::Path));
            shapes.any(|shape| shape.fits(name))
        };
        let all = self.words.iter().chain(groups.into_iter().flatten());
        let mut found: Vec<PlacedPiece<'a>> = all.copied().filter(|(_, name)| has_shape(name)).collect();
        // Of two that begin at one place, the longer one.
        found.sort_by_key(|(at, name)| (*at, Reverse(name.len())));
        let mut ends = 0;
        found.retain(|(at, name)| {
            let is_apart = *at >= ends;
            if is_apart {
                ends = at + name.len();
            }
            is_apart
        });
        found.into_iter().map(|(_, name)| name).collect()
    }
}

/// The parts of a text that are short enough for a name, each once.
fn placed<'a>(text: &str, pieces: Vec<&'a str>) -> Vec<PlacedPiece<'a>> {
    let at = |piece: &str| (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let short = pieces.into_iter().filter(|piece| piece.len() <= LONG);
    let mut placed: Vec<PlacedPiece<'a>> = short.map(|piece| (at(piece), piece)).collect();
    placed.sort_unstable_by_key(|(at, piece)| (*at, piece.len()));
    placed.dedup_by_key(|(at, piece)| (*at, piece.len()));
    placed
}

/// Punctuation around a word that does not belong to it.
const AROUND: [char; 18] =
    ['.', ',', ';', ':', '!', '?', '(', ')', '[', ']', '{', '}', '<', '>', '"', '\'', '`', '*'];

/// The words of a text without the punctuation around them.
fn bare(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| word.trim_matches(AROUND)).filter(|word| !word.is_empty()).collect()
}

/// Two to four consecutive words of a line, as one piece.
fn groups(text: &str) -> Vec<&str> {
    let mut groups = Vec::new();
    for line in text.lines() {
        let words = bare(line);
        let place = |word: &str| (word.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
        for at in 0..words.len() {
            for last in words.iter().skip(at + 1).take(WORDS - 1) {
                let from = words.get(at).map_or(0, |word| place(word));
                groups.extend(line.get(from..place(last) + last.len()));
            }
        }
    }
    groups
}

/// The parts of an example. `None`: it is plain words, without a digit or separator, or with a word that is neither a
/// number nor in capitals.
fn pieces(example: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    for c in example.chars() {
        let next = match c {
            c if c.is_numeric() => Piece::Digits(1),
            c if c.is_alphabetic() => Piece::Letters(1),
            c => Piece::Mark(c),
        };
        match (pieces.last_mut(), next) {
            (Some(Piece::Letters(n)), Piece::Letters(_)) | (Some(Piece::Digits(n)), Piece::Digits(_)) => {
                *n += 1;
            }
            _ => pieces.push(next),
        }
    }
    let has_digit = pieces.iter().any(|piece| matches!(piece, Piece::Digits(_)));
    let has_mark = pieces.iter().any(|piece| matches!(piece, Piece::Mark(mark) if !mark.is_whitespace()));
    let is_code = |word: &str| {
        word.chars().any(char::is_numeric) || word.chars().all(|c| !c.is_alphabetic() || c.is_uppercase())
    };
    let is_spaced = example.contains(char::is_whitespace);
    let is_name =
        if is_spaced { has_digit && example.split_whitespace().all(is_code) } else { has_digit || has_mark };
    if !is_name || !example.chars().any(char::is_alphanumeric) {
        return None;
    }
    Some(mixed(pieces))
}

/// If letters and digits alternate in one part, all parts are treated so, since they may alternate elsewhere in the
/// next name.
fn mixed(pieces: Vec<Piece>) -> Vec<Piece> {
    let is_mark = |piece: &Piece| matches!(piece, Piece::Mark(_));
    if pieces.split(is_mark).all(|part| part.len() < 3) {
        return pieces;
    }
    let mut all = Vec::new();
    for (n, part) in pieces.split(is_mark).enumerate() {
        let mark = pieces.iter().filter(|piece| is_mark(piece)).nth(n.wrapping_sub(1));
        all.extend(mark.filter(|_| n > 0).copied());
        let length: usize = part
            .iter()
            .map(|piece| match piece {
                Piece::Letters(n) | Piece::Digits(n) | Piece::Mixed(n) => *n,
                Piece::Mark(_) => 0,
            })
            .sum();
        if length > 0 {
            all.push(Piece::Mixed(length));
        }
    }
    all
}

fn is_mail(name: &str) -> bool {
    let Some((user, host)) = name.split_once('@') else { return false };
    !user.is_empty() && host.contains('.') && !host.contains('@') && !name.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(examples: &[&str], text: &'a str) -> Vec<&'a str> {
        Candidates::of(text, /*with_paths*/ true).find(&Shape::of_examples(examples))
    }

    #[test]
    fn a_shape_tells_names_apart() {
        assert_eq!(
            found(&["HAR-LT-014"], "fen-sv-202, BJ-HAR-07, HHAR-LT-014, X-HAR-LT-014"),
            ["fen-sv-202"]
        );
        assert_eq!(found(&["a.b@c.example"], "Mail x@y.example, not x@y."), ["x@y.example"]);
        assert_eq!(
            found(&["slow laptop", "backup", "Windows 11 update"], "slow backup of Windows 11"),
            [""; 0]
        );
        assert_eq!(found(&["src/main.rs"], "see docs/a.md and https://h.example/a.b"), ["docs/a.md"]);
        assert_eq!(
            found(&["https://a.example/1"], "<https://b.example/x?y=1>."),
            ["https://b.example/x?y=1"]
        );
    }

    #[test]
    fn a_name_may_have_any_form_that_an_example_has() {
        for (example, text, name) in [
            ("#1234", "Order (#9876) is late", "#9876"),
            ("4711", "customer 4712, of 2 in 26.", "4712"),
            ("INV 2024 17", "Please pay INV 2025 18.", "INV 2025 18"),
            ("acme/repo#12", "fixed by acme/tool#70?", "acme/tool#70"),
            ("v2.1.0", "since v3.0.3, not 4.0.3", "v3.0.3"),
            (
                "550e8400-e29b-41d4-a716-446655440000",
                "run 0a0a0a0a-aaaa-bbbb-cccc-123456789abc",
                "0a0a0a0a-aaaa-bbbb-cccc-123456789abc",
            ),
            ("9f86d081", "commit deadbee1 of building12", "deadbee1"),
            ("urn:case:88", "see urn:case:10.", "urn:case:10"),
            ("ÄB-1", "für öx-2", "öx-2"),
            ("prod-cluster", "on test-machines or qa-machine", ""),
        ] {
            let expected: Vec<&str> = Some(name).filter(|name| !name.is_empty()).into_iter().collect();
            assert_eq!(found(&[example], text), expected, "{example}");
        }
    }

    #[test]
    fn lengths_between_those_of_two_examples_fit() {
        assert_eq!(found(&["AB-1", "ABCD-100"], "abc-22 a-1 abcde-1 ab-1000"), ["abc-22"]);
        assert_eq!(found(&["123", "12345"], "1234 12 123456"), ["1234"]);
    }

    #[test]
    fn a_pattern_is_read_as_json_schema_means_it() {
        let find = |pattern, text| Candidates::of(text, true).find(Shape::of_pattern(pattern).as_slice());
        assert_eq!(find("^INV-[0-9]+$", "INV-7, XINV-8 and INV-9."), ["INV-7", "INV-9"]);
        assert_eq!(find(r"^[A-Z]{2} \d{4}$", "plate AB 1234, ab 1234"), ["AB 1234"]);
        assert_eq!(find("^a-1$|^b-2$", "a-1 b-2 c-3"), ["a-1", "b-2"]);
        for (pattern, why) in [
            ("^(?=x).*$", "it cannot be compiled without looking ahead"),
            ("(", "it is not an expression"),
            (".*", "any word fits"),
            (r"^\S+$", "any word fits"),
            ("((a{1000}){1000}){1000}", "it is too large"),
        ] {
            assert!(Shape::of_pattern(pattern).is_none(), "{pattern}: {why}");
        }
    }

    #[test]
    fn a_long_text_takes_no_longer_than_its_length() {
        let text = "INV 2024 17 ".repeat(20_000);
        assert_eq!(found(&["INV 2024 17", "a+1"], &text).len(), 20_000);
    }
}
