//! Decimal numbers as integers with a scale, and how a number is written in a text.

use crate::locale::Written;
use loop_core::types::Locale;

/// A number with more digits is an id and not an amount.
const MAX_DIGITS: usize = 27;

/// An exact decimal number, without zeros at its end. The order is for maps, and not by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decimal {
    unscaled: i128,
    scale: u32,
}

impl Decimal {
    pub(crate) fn whole(number: u64) -> Self {
        Self { unscaled: i128::from(number), scale: 0 }
    }

    fn new(unscaled: i128, scale: u32) -> Self {
        if scale == 0 {
            return Self { unscaled, scale };
        }
        let (mut unscaled, mut scale) = (unscaled, scale);
        if let Ok(mut small) = i64::try_from(unscaled) {
            while scale > 0 && small % 10 == 0 {
                (small, scale) = (small / 10, scale - 1);
            }
            return Self { unscaled: i128::from(small), scale };
        }
        while scale > 0 && unscaled % 10 == 0 {
            (unscaled, scale) = (unscaled / 10, scale - 1);
        }
        Self { unscaled, scale }
    }

    /// The number with these digits before and after the point. `None`: it has none, or too many.
    fn of_digits(is_negative: bool, whole: &str, part: &str) -> Option<Self> {
        if whole.len() + part.len() > MAX_DIGITS {
            return None;
        }
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = is_digits(whole) && is_digits(part) && !(whole.is_empty() && part.is_empty());
        is_number
            .then(|| Self::of_bytes(is_negative, whole.bytes().chain(part.bytes()), part.len()))
            .flatten()
    }

    /// The number with these digits, so many of which are behind the point. What is not a digit is passed over.
    fn of_bytes(is_negative: bool, digits: impl Iterator<Item = u8>, places: usize) -> Option<Self> {
        let digits = digits.filter(u8::is_ascii_digit).map(|byte| byte - b'0');
        // Most numbers are short, and 64 bits are faster than 128.
        let (mut small, mut large, mut many) = (0_u64, 0_i128, 0);
        for digit in digits {
            many += 1;
            if many > MAX_DIGITS {
                return None;
            }
            match many {
                ..=18 => small = small * 10 + u64::from(digit),
                19 => large = i128::from(small) * 10 + i128::from(digit),
                _ => large = large * 10 + i128::from(digit),
            }
        }
        let unscaled = if many > 18 { large } else { i128::from(small) };
        let scale = u32::try_from(places).ok()?;
        Some(Self::new(if is_negative { -unscaled } else { unscaled }, scale))
    }

    /// A hash of the number and of what it is looked for as.
    #[inline]
    pub(crate) fn hash(self, salt: u64) -> u64 {
        let bytes = self.unscaled.to_le_bytes();
        let [low, high] = [bytes.first_chunk::<8>(), bytes.last_chunk::<8>()]
            .map(|half| half.map_or(0, |half| u64::from_le_bytes(*half)));
        let mixed = low ^ high.rotate_left(32) ^ (u64::from(self.scale) << 56) ^ salt.rotate_left(17);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// A number as JSON writes it.
    pub(crate) fn of_json(text: &str) -> Option<Self> {
        let (is_negative, digits) = match text.as_bytes() {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        // Most numbers are short and without an exponent, and most texts are not numbers.
        let (mut number, mut many, mut places) = (0_i64, 0, None);
        for byte in digits {
            match byte {
                b'0'..=b'9' if many < 18 => {
                    number = number * 10 + i64::from(byte - b'0');
                    many += 1;
                    places = places.map(|places: u32| places + 1);
                }
                b'.' if places.is_none() => places = Some(0),
                b'0'..=b'9' | b'e' | b'E' => return Self::of_any_json(text),
                _ => return None,
            }
        }
        let number = if is_negative { -number } else { number };
        (many > 0).then(|| Self::new(i128::from(number), places.unwrap_or(0)))
    }

    fn of_any_json(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, digits) = match mantissa.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let number = Self::of_digits(is_negative, whole, part)?;
        match u32::try_from(exponent) {
            Ok(up) => number.times_power_of_ten(up),
            Err(_) => {
                let scale = number.scale.checked_add(exponent.unsigned_abs())?;
                (scale < 60).then(|| Self::new(number.unscaled, scale))
            }
        }
    }

    pub(crate) fn times_power_of_ten(self, power: u32) -> Option<Self> {
        let kept = self.scale.saturating_sub(power);
        let factor = 10_i128.checked_pow(power - (self.scale - kept))?;
        Some(Self::new(self.unscaled.checked_mul(factor)?, kept))
    }

    pub(crate) fn over_power_of_ten(self, power: u32) -> Option<Self> {
        let scale = self.scale.checked_add(power)?;
        (scale < 60).then(|| Self::new(self.unscaled, scale))
    }

    pub(crate) fn times(self, factor: u64) -> Option<Self> {
        Some(Self::new(self.unscaled.checked_mul(i128::from(factor))?, self.scale))
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        Some(Self::new(self.at_scale(scale)?.checked_add(other.at_scale(scale)?)?, scale))
    }

    pub(crate) fn negated(self) -> Self {
        Self { unscaled: -self.unscaled, ..self }
    }

    pub(crate) fn absolute(self) -> Self {
        Self { unscaled: self.unscaled.abs(), ..self }
    }

    pub(crate) fn is_negative(self) -> bool {
        self.unscaled < 0
    }

    /// The number with so many digits after the point; of a negative number of places, that many digits before it are
    /// zeros. A half is rounded away from zero.
    pub(crate) fn rounded(self, places: i32) -> Option<Self> {
        let drop = i64::from(self.scale) - i64::from(places);
        let Ok(drop) = u32::try_from(drop) else { return Some(self) };
        let small = || {
            let (number, factor) = (i64::try_from(self.unscaled).ok()?, power_of_ten(drop)?);
            number.checked_add(factor / 2 * number.signum())?.checked_div(factor).map(i128::from)
        };
        let large = || {
            let factor = 10_i128.checked_pow(drop)?;
            self.unscaled.checked_add(factor / 2 * self.unscaled.signum())?.checked_div(factor)
        };
        let kept = small().or_else(large)?;
        match u32::try_from(places) {
            Ok(scale) => Some(Self::new(kept, scale)),
            Err(_) => Self { unscaled: kept, scale: 0 }.times_power_of_ten(places.unsigned_abs()),
        }
    }

    /// It divided by a whole number, rounded to so many digits after the point as [`rounded`](Self::rounded) says.
    pub(crate) fn divided(self, by: u64, places: i32) -> Option<Self> {
        // The digits that are kept, and one to round by; for a negative number of places no more than the units.
        let kept = u32::try_from(places).unwrap_or(0) + 1;
        let more = kept.saturating_sub(self.scale);
        // Most amounts are small, and 64 bits are faster than 128.
        let small = || {
            let number = i64::try_from(self.unscaled).ok()?.checked_mul(power_of_ten(more)?)?;
            number.checked_div(i64::try_from(by).ok()?).map(i128::from)
        };
        let large = || self.unscaled.checked_mul(10_i128.checked_pow(more)?)?.checked_div(i128::from(by));
        let exact = small().or_else(large)?;
        Self { unscaled: exact, scale: self.scale + more }.rounded(places)
    }

    pub(crate) fn product(self, other: Self) -> Option<Self> {
        let scale = self.scale.checked_add(other.scale).filter(|scale| *scale < 60)?;
        Some(Self::new(self.unscaled.checked_mul(other.unscaled)?, scale))
    }

    /// It divided by another number, with so many digits after the point, the last of which is cut.
    pub(crate) fn quotient(self, by: Self, digits: u32) -> Option<Self> {
        let scale = self.scale.max(by.scale);
        let (part, whole) = (self.at_scale(scale)?, by.at_scale(scale)?);
        let exact = part.checked_mul(10_i128.checked_pow(digits)?)?.checked_div(whole)?;
        Some(Self::new(exact, digits))
    }

    /// So many percent of it.
    pub(crate) fn percent(self, percent: Self) -> Option<Self> {
        let scale = self.scale.checked_add(percent.scale)?.checked_add(2)?;
        (scale < 60).then_some(())?;
        Some(Self::new(self.unscaled.checked_mul(percent.unscaled)?, scale))
    }

    /// How many percent it is of another number, rounded to so many digits after the point.
    pub(crate) fn percent_of(self, whole: Self, places: u32) -> Option<Self> {
        let scale = self.scale.max(whole.scale);
        let (part, whole) = (self.at_scale(scale)?, whole.at_scale(scale)?);
        // Two more digits, and one to round by.
        let factor = 10_i128.checked_pow(places.checked_add(3)?)?;
        let exact = part.checked_mul(factor)?.checked_div(whole)?;
        Self::new(exact, places + 1).rounded(i32::try_from(places).ok()?)
    }

    /// The whole number, if it is one and not negative.
    pub(crate) fn to_whole(self) -> Option<u64> {
        (self.scale == 0).then(|| u64::try_from(self.unscaled).ok()).flatten()
    }

    fn at_scale(self, scale: u32) -> Option<i128> {
        self.unscaled.checked_mul(10_i128.checked_pow(scale.checked_sub(self.scale)?)?)
    }
}

/// A power of ten. `None`: it has more than 18 zeros.
#[inline]
fn power_of_ten(zeros: u32) -> Option<i64> {
    const POWERS: [i64; 19] = [
        1,
        10,
        100,
        1_000,
        10_000,
        100_000,
        1_000_000,
        10_000_000,
        100_000_000,
        1_000_000_000,
        10_000_000_000,
        100_000_000_000,
        1_000_000_000_000,
        10_000_000_000_000,
        100_000_000_000_000,
        1_000_000_000_000_000,
        10_000_000_000_000_000,
        100_000_000_000_000_000,
        1_000_000_000_000_000_000,
    ];
    POWERS.get(usize::try_from(zeros).ok()?).copied()
}

/// A number as a text writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) amount: Decimal,
    /// The digits after the point as written; negative for the zeros at the end of a whole number.
    pub(crate) places: i32,
    /// The digits that are not zeros at the begin of the number, or at the end of a whole number.
    pub(crate) significant: usize,
}

impl Number {
    /// Reads a number with its separators. `None`: it is not one in this locale, such as a version or a name of digits.
    pub(crate) fn read<'a>(text: &'a str, locale: Locale) -> Option<Self> {
        let (is_negative, text) = match text.strip_prefix(['-', '\u{2212}']) {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, part) = split(text, locale)?;
        // The separators of thousands are not digits.
        let digits = |text: &'a str| text.bytes().filter(u8::is_ascii_digit);
        let (of_whole, of_part) = (digits(whole).count(), part.len());
        if of_whole > 1 && whole.starts_with('0') || of_whole + of_part > MAX_DIGITS {
            return None;
        }
        let amount = Decimal::of_bytes(is_negative, digits(whole).chain(digits(part)), of_part)?;
        let is_zero = |byte: &u8| *byte == b'0';
        let zeros = digits(whole).rev().take_while(is_zero).count();
        let places = match i32::try_from(of_part).ok()? {
            0 if zeros < of_whole => -i32::try_from(zeros).ok()?,
            places => places,
        };
        let before = digits(whole).chain(digits(part)).take_while(is_zero).count();
        let behind = if part.is_empty() { zeros } else { 0 };
        let significant = (of_whole + of_part).saturating_sub(before + behind);
        Some(Self { amount, places, significant })
    }

    /// A small number that a word names.
    pub(crate) fn whole(number: u64) -> Self {
        Self { amount: Decimal::whole(number), places: 0, significant: 1 }
    }

    pub(crate) fn times_power_of_ten(self, power: u32) -> Option<Self> {
        let places = self.places - i32::try_from(power).ok()?;
        Some(Self { amount: self.amount.times_power_of_ten(power)?, places, ..self })
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, '.' | ',' | '\'' | '\u{2019}' | ' ' | '\u{a0}' | '\u{202f}')
}

/// What is before the point, with the separators of thousands, and the digits behind it.
fn split(text: &str, locale: Locale) -> Option<(&str, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    if !text.starts_with(is_digit) || !text.ends_with(is_digit) {
        return None;
    }
    let (mut last, mut many) = (None, 0);
    for (at, c) in text.char_indices().filter(|(_, c)| !c.is_ascii_digit()) {
        if !is_separator(c) {
            return None;
        }
        (last, many) = (Some((at, c)), many + 1);
    }
    let Some((at, last)) = last else { return Some((text, "")) };
    let (before, after) = (text.get(..at)?, text.get(at + last.len_utf8()..)?);
    let is_last_the_point = matches!(last, '.' | ',') && !before.contains(last) && {
        let first = text.split(is_separator).next().unwrap_or_default();
        let is_grouped = after.len() == 3 && first.len() <= 3 && first != "0";
        // `1.234` is one thousand in one locale, and a little more than one in another.
        many > 1 || !is_grouped || last == locale.point()
    };
    let (whole, part) = if is_last_the_point { (before, after) } else { (text, "") };
    let mut separators = whole.chars().filter(|c| is_separator(*c));
    let Some(thousands) = separators.next() else { return Some((whole, part)) };
    let mut groups = whole.split(is_separator);
    let is_grouped = groups.next().is_some_and(|first| (1..=3).contains(&first.len()))
        && groups.all(|group| group.len() == 3);
    let is_other = !is_last_the_point || thousands != last;
    (separators.all(|it| it == thousands) && is_grouped && is_other).then_some((whole, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, locale: Locale, expected: Option<&str>) {
        let read = Number::read(text, locale).map(|number| number.amount);
        assert_eq!(read, expected.and_then(Decimal::of_json), "{text} in {locale:?}");
        assert_eq!(read.is_some(), expected.is_some(), "{text} in {locale:?}");
    }

    proptest! {
        #[test]
        fn a_short_number_of_json_is_read_as_any(text in "[-+]?[0-9]{0,20}[.]?[0-9.e]{0,3}[-0-9x]{0,2}") {
            prop_assert_eq!(Decimal::of_json(&text), Decimal::of_any_json(&text));
        }
    }

    #[test]
    fn numbers_are_read_as_the_locale_writes_them() {
        for (text, expected) in [
            ("1,234", "1234"),
            ("1,234.50", "1234.5"),
            ("1.5", "1.5"),
            ("-3", "-3"),
            ("0.001", "0.001"),
            ("12,5", "12.5"),
            ("1'000'000", "1000000"),
            ("1\u{202f}234", "1234"),
            ("1.234.567", "1234567"),
            ("1.234,56", "1234.56"),
            ("0,123", "0.123"),
        ] {
            check(text, Locale::En, Some(expected));
        }
        check("1.234", Locale::En, Some("1.234"));
        check("1.234", Locale::De, Some("1234"));
        check("1,234", Locale::De, Some("1.234"));
        check("1 234,5", Locale::Fr, Some("1234.5"));
        for text in
            ["", "1.2.3", "10.0.0.1", "007", "1,23,456", "12a", "1.", ".5", "1,2345,678", "1234567,890,123"]
        {
            check(text, Locale::En, None);
        }
    }

    #[test]
    fn a_half_is_rounded_away_from_zero() {
        let rounded = |text, places| Decimal::of_json(text).and_then(|it| it.rounded(places));
        for (text, places, expected) in [
            ("41.666", 2, "41.67"),
            ("0.5", 0, "1"),
            ("-0.5", 0, "-1"),
            ("1234", -2, "1200"),
            ("1250", -2, "1300"),
            ("7", 3, "7"),
        ] {
            assert_eq!(rounded(text, places), Decimal::of_json(expected), "{text}");
        }
    }

    #[test]
    fn a_quotient_is_rounded() {
        let divided = |text, by, places| Decimal::of_json(text).and_then(|it| it.divided(by, places));
        for (text, by, places, expected) in [
            ("1536", 1_000, 2, "1.54"),
            ("5400", 3_600, 1, "1.5"),
            ("1999", 1_000, 0, "2"),
            ("123456", 1_000, -1, "120"),
        ] {
            assert_eq!(divided(text, by, places), Decimal::of_json(expected), "{text}");
        }
    }

    #[test]
    fn shares_are_exact() {
        let of = |part: u64, whole, places| Decimal::whole(part).percent_of(Decimal::whole(whole), places);
        assert_eq!(of(1, 3, 1), Decimal::of_json("33.3"));
        assert_eq!(of(2, 3, 0), Decimal::of_json("67"));
        assert_eq!(of(1, 8, 1), Decimal::of_json("12.5"));
        assert_eq!(of(1, 0, 1), None);
    }

    proptest! {
        #[test]
        fn sums_and_differences_cancel(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000, scale in 0_u32..6) {
            let (a, b) = (Decimal::new(a.into(), scale), Decimal::new(b.into(), 2));
            prop_assert_eq!(a.plus(b).and_then(|sum| sum.plus(b.negated())), Some(a));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[-0-9.,' e+\u{a0}]{0,40}") {
            Number::read(&text, Locale::En);
            Number::read(&text, Locale::De);
            Decimal::of_json(&text);
        }
    }
}
