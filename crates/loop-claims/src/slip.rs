//! Numbers that differ in a digit: more likely a slip than a result.

use crate::value::Amount;

/// The digits of an amount: all that are written, and without the zeros at their end.
pub(crate) fn digits(amount: &Amount) -> [String; 2] {
    let step = if amount.step > 0.0 { amount.step.min(1.0) } else { 1.0 };
    let written = format!("{:.0}", amount.number / step);
    let fraction = format!("{}", amount.number).replace('.', "");
    let short = fraction.trim_matches('0').to_owned();
    [written, short]
}

/// What rows of digits have in common that differ in one, or in the order of two.
pub(crate) fn slip_keys(digits: &str) -> Vec<String> {
    if !(3..=15).contains(&digits.len()) {
        return Vec::new();
    }
    let mut sorted: Vec<u8> = digits.bytes().collect();
    sorted.sort_unstable();
    let masked = (0..digits.len()).map(|at| {
        format!("{}.{}", digits.get(..at).unwrap_or_default(), digits.get(at + 1..).unwrap_or_default())
    });
    masked.chain([String::from_utf8_lossy(&sorted).into_owned()]).collect()
}

/// Whether two rows of digits differ in one, or in two that are exchanged.
pub(crate) fn is_one_off(one: &str, other: &str) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let differ: Vec<(u8, u8)> =
        one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).take(3).collect();
    match differ.as_slice() {
        [_] => true,
        [(a, b), (c, d)] => a == d && b == c,
        _ => false,
    }
}
