//! Numbers in texts: written without the machinery of formatting, and read without floating point.

use std::borrow::Cow;

/// Appends `number` in decimal digits.
pub(crate) fn push_number(number: u64, out: &mut String) {
    if number >= 10 {
        push_number(number / 10, out);
    }
    out.push(char::from(b'0' + (number % 10) as u8));
}

/// A JSON text with its large whole numbers in digits alone, such as `9007199254740993.0` and `9.007199254740993e15`: as
/// floating-point numbers they would be rounded.
pub(crate) fn with_digits(text: &str) -> Cow<'_, str> {
    // A number with so many digits in a row has one at a multiple.
    let is_long = text.bytes().skip(LONG - 1).step_by(LONG).any(|byte| byte.is_ascii_digit());
    if !is_long {
        return text.into();
    }
    let (mut out, mut rest, mut in_string) = (String::with_capacity(text.len()), text, false);
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let is_number = !in_string && (first == '-' || first.is_ascii_digit());
        let length = match first {
            '\\' if in_string => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            _ if is_number => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        in_string ^= first == '"';
        let (piece, more) = rest.split_at(length);
        let digits = if is_number { digits_of(piece).filter(|digits| is_large(digits)) } else { None };
        out.push_str(digits.as_deref().unwrap_or(piece));
        rest = more;
    }
    out.into()
}

/// The digits of a whole number with a fraction of zero or an exponent: `5.0`, `1e3`. `None` for any other number.
pub(crate) fn digits_of(number: &str) -> Option<String> {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    let after = after.trim_end_matches('0');
    let zeros = usize::try_from(exponent.parse::<i32>().ok()?).ok()?.checked_sub(after.len())?;
    Some(format!("{before}{after}{}", "0".repeat(zeros.min(MAX_DIGITS))))
}

/// Whether a whole number of 64 bits may be rounded as a floating-point number.
fn is_large(digits: &str) -> bool {
    let kept = i128::from(i64::MIN)..=i128::from(u64::MAX);
    digits.parse().is_ok_and(|whole: i128| kept.contains(&whole) && whole.unsigned_abs() >= 1 << 53)
}

/// Digits in a row of each large whole number, behind the point or before it.
const LONG: usize = 15;
/// No 64-bit number has more digits.
const MAX_DIGITS: usize = 20;

#[cfg(test)]
mod tests {
    use super::{push_number, with_digits};

    // Issue 43, K2
    #[test]
    fn large_whole_numbers_are_written_in_digits() {
        for (number, digits) in [
            ("9007199254740993.0", "9007199254740993"),
            ("-9007199254740993.000", "-9007199254740993"),
            ("9.007199254740993e15", "9007199254740993"),
            ("9007199254740992.0", "9007199254740992"),
            ("9223372036854775807.0", "9223372036854775807"),
            ("18446744073709551615.0", "18446744073709551615"),
            // These stay as they are: small, no whole number, or more than 64 bits.
            ("9007199254740991.0", "9007199254740991.0"),
            ("9007199254740993.5", "9007199254740993.5"),
            ("18446744073709551616.0", "18446744073709551616.0"),
            ("1e300", "1e300"),
            ("9007199254740993", "9007199254740993"),
        ] {
            for (before, after) in [("", ""), ("{\"a\":[", ",1]}"), ("{\"9007199254740993.0\\\"\": ", "}")] {
                let text = |number| format!("{before}{number}{after}");
                assert_eq!(with_digits(&text(number)), text(digits));
            }
        }
    }

    #[test]
    fn numbers_are_written_as_they_are_displayed() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut out = String::new();
            push_number(number, &mut out);
            assert_eq!(out, number.to_string());
        }
    }
}
