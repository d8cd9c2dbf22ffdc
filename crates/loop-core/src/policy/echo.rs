//! Echo detection: whether a value went into a tool call in any spelling. If so, a tool result with that value is an
//! echo and not a source.
//!
//! Tools rewrite their arguments: in another case, without blanks, accents or leading zeros. Where it is uncertain
//! whether a value went in, it counts as an echo, and an approver is asked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

use crate::policy::scalar::Scalar;
use crate::types::Arguments;

/// A value with fewer letters and digits occurs in other values by chance.
const LEAST: usize = 4;

/// The arguments of a call, in the forms in which a value is searched for.
pub(crate) struct RequestedValues {
    /// Every text, number and member name, unescaped.
    texts: Vec<String>,
    /// Their letters and digits, concatenated.
    letters: String,
    /// Their runs of letters and digits.
    runs: Vec<String>,
}

impl RequestedValues {
    /// The values in the arguments of a call.
    pub(crate) fn of(parameters: &Arguments) -> Self {
        let mut texts = Vec::new();
        match parameters.value() {
            Ok(value) => collect(value, &mut texts),
            Err(_) => texts.push(parameters.to_string()),
        }
        let runs = texts.iter().flat_map(|text| text.split(|c: char| !is_letter(c)));
        let runs = runs.map(letters).filter(|run| !run.is_empty()).collect();
        Self { letters: texts.iter().map(|text| letters(text)).collect(), runs, texts }
    }

    /// Whether they contain a value in any spelling.
    pub(crate) fn holds(&self, wanted: &Scalar) -> bool {
        let word = letters(wanted.text());
        let by_letters = if word.chars().count() < LEAST {
            false
        } else if word.chars().all(char::is_numeric) {
            self.holds_digits(&word, wanted.text().contains('.'))
        } else {
            self.letters.contains(&word)
        };
        by_letters || self.holds_word(wanted.text(), &word)
    }

    /// Whether adjacent runs are these digits. Zeros before the first are ignored, and those after the last if the
    /// number has a point.
    fn holds_digits(&self, word: &str, has_point: bool) -> bool {
        let wanted = word.trim_start_matches('0');
        let short = if has_point { wanted.trim_end_matches('0') } else { wanted };
        (0..self.runs.len()).any(|from| {
            let mut digits = String::new();
            for run in self.runs.iter().skip(from) {
                digits.push_str(if digits.is_empty() { run.trim_start_matches('0') } else { run });
                let rest = digits.strip_prefix(short);
                if rest.is_some_and(|rest| has_point && rest.bytes().all(|c| c == b'0') || digits == wanted) {
                    return true;
                }
                if rest.is_none() && !short.starts_with(&digits) {
                    return false;
                }
            }
            false
        })
    }

    /// Whether one of the texts, or a word of one, is the value or the same number.
    fn holds_word(&self, wanted: &str, word: &str) -> bool {
        let number = number(wanted);
        // The digits of 10.0 are those of 100.
        let is_fraction = number.is_some() && wanted.contains('.');
        let is_same = |part: &str| {
            part.eq_ignore_ascii_case(wanted)
                || letters(part) == word && !is_fraction
                || number.is_some() && self::number(part) == number
        };
        self.texts.iter().any(|text| {
            let commas = text.replace(',', ".");
            is_same(text) || [text, &commas].into_iter().any(|text| text.split(is_gap).any(is_same))
        })
    }
}

/// The texts that went into tool calls, from which a tool may compose a value.
#[derive(Default)]
pub(crate) struct SentTexts {
    /// Their letters and digits, each with the first pass that used it.
    parts: BTreeMap<String, u32>,
}

impl SentTexts {
    /// Adds the arguments of a call of this pass.
    pub(crate) fn add(&mut self, requested: &RequestedValues, pass: u32) {
        for text in &requested.texts {
            let part = letters(text);
            if !part.is_empty() {
                let first = self.parts.entry(part).or_insert(pass);
                *first = pass.min(*first);
            }
        }
    }

    /// Whether a value consists of two or more of these texts, in any order, that were used in `pass` or before. A
    /// short value may do so by chance and does not count.
    pub(crate) fn make(&self, wanted: &Scalar, pass: u32) -> bool {
        let word: Vec<char> = letters(wanted.text()).chars().collect();
        if word.len() < LEAST {
            return false;
        }
        let parts: BTreeSet<Vec<char>> = self
            .parts
            .iter()
            .filter(|(_, first)| **first <= pass)
            .map(|(part, _)| part.chars().collect())
            .collect();
        let lengths: BTreeSet<usize> =
            parts.iter().map(Vec::len).filter(|length| *length < word.len()).collect();
        // For each position, whether parts reach it. The whole value is not among the parts, so at least two are
        // needed.
        let mut reached = vec![false; word.len() + 1];
        for at in 0..word.len() {
            if at == 0 || reached.get(at) == Some(&true) {
                for length in &lengths {
                    let is_part = word.get(at..at + length).is_some_and(|piece| parts.contains(piece));
                    if let Some(place) = reached.get_mut(at + length).filter(|_| is_part) {
                        *place = true;
                    }
                }
            }
        }
        reached.last() == Some(&true)
    }
}

/// Collects the texts, numbers and member names in a value.
fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => texts.push(number.to_string()),
        Value::String(text) => texts.push(text.clone()),
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, texts)),
        Value::Object(members) => {
            for (name, member) in members {
                texts.push(name.clone());
                collect(member, texts);
            }
        }
    }
}

/// The letters and digits of a text, without case, accents and combining marks.
fn letters(text: &str) -> String {
    let apart = text.chars().flat_map(char::to_lowercase).nfkd();
    apart.filter(|c| !is_mark(*c)).map(plain).filter(|c| c.is_alphanumeric()).collect()
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

fn is_gap(c: char) -> bool {
    !(c.is_alphanumeric() || c == '.' || c == '-')
}

/// The digits of a number before and after its point, without its sign, leading zeros, and zeros at the end.
fn number(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(['-', '+', '#']).trim_end_matches(['.', '-']);
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = are_digits(whole) && are_digits(part) && !(whole.is_empty() && part.is_empty());
    is_number.then(|| (whole.trim_start_matches('0'), part.trim_end_matches('0')))
}

/// Whether it is a combining mark, such as an accent or a voicing mark of kana.
fn is_mark(c: char) -> bool {
    canonical_combining_class(c) != 0
}

/// The letter that is written in place of one that Unicode does not take apart.
fn plain(c: char) -> char {
    match c {
        'đ' => 'd',
        'ı' => 'i',
        'ł' => 'l',
        'ø' => 'o',
        'ŧ' => 't',
        'ς' => 'σ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(requested: Value, wanted: Value, expected: bool) {
        let holds = Scalar::of(&wanted)
            .map(|wanted| RequestedValues::of(&Arguments::of(requested.clone())).holds(&wanted));
        assert_eq!(holds, Some(expected), "{requested} and {wanted}");
    }

    #[test]
    fn a_value_is_found_in_every_spelling() {
        for (requested, wanted) in [
            (json!("+1 555 123 4567"), json!("+15551234567")),
            (json!("call (001) 555-123.4567, now"), json!("+15551234567")),
            (json!("4111 1111 1111 1111"), json!("4111111111111111")),
            (json!(["4111", "1111", "1111 1111"]), json!(4_111_111_111_111_111_u64)),
            (json!("042"), json!("42")),
            (json!("042"), json!(42)),
            (json!(42), json!("0042")),
            (json!("No. 0042."), json!(42)),
            (json!("#42,"), json!(42)),
            (json!("-42"), json!("42")),
            (json!("89,90"), json!(89.9)),
            (json!("89.90"), json!("89.9")),
            (json!(".5"), json!(0.5)),
            (json!("1,250.50"), json!(1250.5)),
            (json!("1.250,5"), json!("1250.50")),
            (json!("12 500"), json!(12_500)),
            (json!("４２"), json!(42)),
            (json!("eve@\nevil.example"), json!("eve@evil.example")),
            (json!("eve\t@evil.example"), json!("eve@evil.example")),
            (json!("e\tve"), json!("eve")),
            (json!({"at": "EVE @ EVIL . example"}), json!("eve@evil.example")),
            (json!({"eve@evil.example": 1}), json!("Eve@evil.example")),
            (json!(["eve@", "evil.example"]), json!("eve@evil.example")),
            (json!("jose\u{301}@evil.example"), json!("josé@evil.example")),
            (json!("josé@evil.example"), json!("jose\u{301}@evil.example")),
            (json!("José@evil.example"), json!("jose@evil.example")),
            (json!("jose@evil.example"), json!("josé@evil.example")),
            (json!("Nguye\u{302}\u{303}n"), json!("Nguyễn")),
            (json!("ΟΔΟΣ"), json!("οδος")),
            (json!("и\u{306}од@evil.example"), json!("йод@evil.example")),
            (json!("йод@evil.example"), json!("и\u{306}од@evil.example")),
            (json!("か\u{3099}ん"), json!("がん")),
            (json!("\u{1112}\u{1161}\u{11ab}"), json!("한")),
        ] {
            check(requested.clone(), wanted.clone(), true);
            check(json!({"query": [{"text": requested}]}), wanted, true);
        }
    }

    #[test]
    fn a_value_is_put_together_of_what_went_in_in_any_order() {
        // B12
        let made = |requested: &[Value], wanted: Value, pass| {
            let mut parts = SentTexts::default();
            for (n, requested) in requested.iter().enumerate() {
                parts.add(&RequestedValues::of(&Arguments::of(requested.clone())), n as u32);
            }
            Scalar::of(&wanted).is_some_and(|wanted| parts.make(&wanted, pass))
        };
        let reversed = json!({"host": "evil.example", "name": "eve@"});
        assert!(made(&[reversed], json!("eve@evil.example"), 0));
        let calls = [json!({"q": "evil"}), json!({"q": "@"}), json!({"q": ".example"}), json!({"q": "Eve"})];
        assert!(made(&calls, json!("eve@evil.example"), 3));
        // The last part went in after the value was first returned.
        assert!(!made(&calls, json!("eve@evil.example"), 2));
        assert!(made(&[json!([41, "11"]), json!("1111")], json!(41_111_111), 1));
        assert!(made(&[json!({"a": 12, "b": "50"})], json!(1250), 0));
        assert!(!made(&[json!({"q": "brown"})], json!("ada@brown.example"), 0));
        assert!(!made(&[json!({"q": "brown", "x": "ada"})], json!("ada@brown.example"), 0));
        assert!(!made(&[json!([1, 0])], json!(10), 0));
    }

    #[test]
    fn what_stands_in_another_value_by_chance_did_not_go_in() {
        for (requested, wanted) in [
            (json!({"limit": 17, "at": "1.7"}), json!(7)),
            (json!({"limit": 17, "at": "1.7"}), json!("7")),
            (json!("T-1042"), json!(42)),
            (json!("2026-11-21"), json!(21)),
            (json!("15551234567"), json!("5551234567")),
            (json!("555 123 4567 8"), json!("5551234")),
            (json!(12_500), json!(1250)),
            (json!(125), json!(1250)),
            (json!("1250"), json!(12.5)),
            (json!(100), json!(10.0)),
            (json!("Zoé"), json!("zoe@brown.example")),
            (json!("Иванов"), json!("ivan@brown.example")),
            (json!("и\u{306}од"), json!("ivan@brown.example")),
            (json!("Иванов"), json!("Петров")),
            (json!("everybody"), json!("eve")),
            (json!(true), json!("true")),
            (json!(null), json!("null")),
            (json!({}), json!(1)),
        ] {
            check(json!({"query": requested}), wanted, false);
        }
    }
}
