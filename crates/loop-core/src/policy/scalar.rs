//! Equality of a call's value and a source's value: exact, except that a number equals its text where that is
//! unambiguous.

use serde_json::Value;

use crate::types::{is_drawn_as_nothing, is_invisible};

/// The maximum bytes of a value that a source can authorise. An approver cannot compare a longer one by eye.
const LONGEST: usize = 2_048;

/// A text, number or boolean of an authority-bearing parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Text(String),
    /// As in canonical JSON.
    Number(String),
    Truth(bool),
}

impl Scalar {
    /// The scalar in a value. `None` for lists, objects and null.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => Some(Self::Number(number.to_string())),
            Value::Bool(truth) => Some(Self::Truth(*truth)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The text that is searched for in sources.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
            Self::Truth(true) => "true",
            Self::Truth(false) => "false",
        }
    }

    /// Whether an approver who reads it sees all of it: it is short, has no unclear characters and no outer white
    /// space.
    pub(crate) fn is_plain(&self) -> bool {
        let text = self.text();
        !text.is_empty() && text.len() <= LONGEST && text.trim() == text && !text.contains(is_unclear)
    }

    /// Whether a scalar of a source equals this value: the same text or the same number. A number also equals the text
    /// of exactly this number, and a text of digits the number with these digits.
    pub(crate) fn is(&self, known: &Value) -> bool {
        match known {
            Value::String(known) => self.is_text(known),
            Value::Number(known) => self.is_text(&known.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }

    /// Whether this text equals the value.
    pub(crate) fn is_text(&self, known: &str) -> bool {
        match self {
            Self::Text(text) => text == known,
            Self::Number(_) => self.is_number(known),
            // A boolean in a source says nothing about this parameter.
            Self::Truth(_) => false,
        }
    }

    /// A fast check whether a longer text can contain the value. It has false positives: a number with other zeros, and
    /// any text with a backslash, which may be an escape.
    pub(crate) fn may_stand_in(&self, text: &str) -> bool {
        let needle = match self {
            Self::Number(number) => decimal(number).map_or(number.as_str(), |(_, whole, _)| whole),
            Self::Text(_) | Self::Truth(_) => self.text(),
        };
        text.contains(needle) || text.contains('\\')
    }

    /// Whether it is a number that equals this text.
    pub(crate) fn is_number(&self, text: &str) -> bool {
        let Self::Number(number) = self else { return false };
        number == text || decimal(number).is_some_and(|number| decimal(text) == Some(number))
    }
}

/// Whether an approver could overlook this character or take it for a space. It is escaped where parameters are shown,
/// and a value that contains it is never authorised.
pub(crate) fn is_unclear(c: char) -> bool {
    c.is_control() || is_hidden(c) || (c.is_whitespace() && c != ' ')
}

/// Whether a character is invisible, or is drawn as a blank although it is not one.
fn is_hidden(c: char) -> bool {
    match c {
        // Mongolian variation selectors, and the replacement characters.
        '\u{180b}'..='\u{180f}' | '\u{fffc}' | '\u{fffd}' => true,
        // Joiners and fillers are needed in texts, but not in the name of a recipient.
        c => is_invisible(c) || is_drawn_as_nothing(c),
    }
}

/// A decimal number without exponent: whether it is negative, the digits before the point, the digits after it without
/// zeros at the end. Leading zeros stay: `007` is not a number in JSON but a name made of digits.
fn decimal(text: &str) -> Option<(bool, &str, &str)> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, part) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some((whole, part)) => (whole, part),
        None => (digits, ""),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let part = part.trim_end_matches('0');
    let is_zero = whole == "0" && part.is_empty();
    Some((negative && !is_zero, whole, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_decimal_has_digits_on_both_sides_of_its_point() {
        assert_eq!(decimal("-7.50"), Some((true, "7", "5")));
        for text in ["", "-", ".5", "7.", "x.5", "5.x", "x", "7.5.1", "--7"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_is_itself_and_no_other() {
        let cases = [
            (json!("a"), json!("a"), true),
            (json!("a"), json!("A"), false),
            (json!("a"), json!("a "), false),
            (json!("é"), json!("e\u{301}"), false),
            (json!("7"), json!(7), true),
            (json!("7.0"), json!(7), false),
            (json!("07"), json!(7), false),
            (json!(7), json!("7"), true),
            (json!(7), json!("07"), false),
            (json!(7), json!("+7"), false),
            (json!(7), json!(" 7"), false),
            (json!(7), json!("7,0"), false),
            (json!(7), json!(7.0), true),
            (json!(7.5), json!("7.50"), true),
            (json!(7.5), json!(".5"), false),
            (json!(7), json!("7."), false),
            (json!(0), json!("-0"), true),
            (json!(-7), json!(7), false),
            (json!(-7), json!("-7"), true),
            (json!(1e30), json!(1e30), true),
            (json!(1e30), json!("1000000000000000000000000000000"), false),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64), false),
            (json!(true), json!(true), false),
            (json!("true"), json!(true), false),
            (json!("a"), json!(["a"]), false),
            (json!("null"), json!(null), false),
        ];
        for (wanted, known, expected) in cases {
            let scalar = Scalar::of(&wanted);
            assert_eq!(scalar.is_some_and(|scalar| scalar.is(&known)), expected, "{wanted} and {known}");
        }
    }
}
