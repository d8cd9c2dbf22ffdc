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
    let (mut out, mut kept, mut at, mut in_string) = (String::new(), 0, 0, false);
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => {
                in_string = !in_string;
                at += 1;
            }
            b'-' | b'0'..=b'9' if !in_string => {
                let rest = text.get(at..).unwrap_or_default();
                let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
                let number = rest.get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len())).unwrap_or_default();
                if let Some(digits) = digits_of(number).filter(|digits| is_large(digits)) {
                    out.push_str(text.get(kept..at).unwrap_or_default());
                    out.push_str(&digits);
                    kept = at + number.len();
                }
                at += number.len();
            }
            _ => at += 1,
        }
    }
    out.push_str(text.get(kept..).unwrap_or_default());
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
    let whole = digits.parse::<i128>().ok();
    whole.is_some_and(|whole| {
        let is_kept = i64::try_from(whole).is_ok() || u64::try_from(whole).is_ok();
        is_kept && whole.unsigned_abs() >= 1 << 53
    })
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
