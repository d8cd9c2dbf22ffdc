//! The one lexer: amounts, days, times and ids of a folded text, of documents and of evidence alike.

use std::ops::Range;

use loop_core::types::is_unspaced;

use crate::words::{Dimension, Unit, WORDS};

/// A number with what it measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amount {
    /// Without its sign, with its scale word: `4.2 million` is 4200000.
    pub(crate) number: f64,
    /// As the other way to write numbers reads it: `1.234` is 1.234 and 1234.
    pub(crate) other: Option<f64>,
    /// What one more in its last written digit adds.
    pub(crate) step: f64,
    /// How many digits count: without zeros in front.
    pub(crate) digits: usize,
    pub(crate) unit: Option<Unit>,
    pub(crate) currency: Option<&'static str>,
    /// Whether a word says that it is rounded, or a scale word that its last digits are not written.
    pub(crate) is_about: bool,
    /// What its scale word multiplies it by.
    pub(crate) scale: f64,
    /// Whether a word says that it is a bound: `over`, `nearly`.
    pub(crate) is_loose: bool,
    /// Whether it is written in words.
    pub(crate) in_words: bool,
    /// Whether it is a year of accounts: `FY2019`.
    pub(crate) is_fiscal: bool,
}

impl Amount {
    /// A number that is nothing but digits, as a field of JSON has it.
    pub(crate) fn plain(number: f64) -> Self {
        Self {
            number,
            other: None,
            step: 0.0,
            digits: 0,
            unit: None,
            currency: None,
            is_about: false,
            scale: 1.0,
            is_loose: false,
            in_words: false,
            is_fiscal: false,
        }
    }

    /// Whether both are of one currency, as far as they say it: any may be meant by `$` that is called a dollar.
    pub(crate) fn may_be_currency(&self, other: &Self) -> bool {
        let (Some(one), Some(other)) = (self.currency, other.currency) else { return true };
        one == other || is_dollar(one) && other == "$" || one == "$" && is_dollar(other)
    }

    pub(crate) fn is_bare(&self) -> bool {
        self.unit.is_none() && self.currency.is_none()
    }

    /// What one more in its last digit that is not zero adds.
    pub(crate) fn round(&self) -> f64 {
        let mut round = self.step;
        while round > 0.0
            && round * 10.0 <= self.number
            && (self.number / (round * 10.0)).fract().abs() < 1e-9
        {
            round *= 10.0;
        }
        round
    }

    /// Whether it may be a year.
    pub(crate) fn is_year(&self) -> bool {
        self.is_bare() && self.step == 1.0 && self.digits == 4 && (1_000.0..2_200.0).contains(&self.number)
    }
}

/// Whether `$` may mean this currency.
pub(crate) fn is_dollar(code: &str) -> bool {
    matches!(code, "$" | "usd" | "cad" | "aud" | "nzd" | "hkd" | "sgd" | "mxn")
}

/// A day, or a month or a year without its days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) year: Option<i32>,
    pub(crate) month: u8,
    pub(crate) day: Option<u8>,
    /// Whether month and day may be meant the other way round: `04/05/2026`.
    pub(crate) swaps: bool,
}

impl Day {
    fn of(year: Option<i32>, month: u32, day: Option<u32>, swaps: bool) -> Option<Self> {
        let small = |number: u32| u8::try_from(number).ok();
        let (month, day) = if swaps && month > 12 { (day?, Some(month)) } else { (month, day) };
        let swaps = swaps && day.is_some_and(|day| day <= 12);
        let is_day = (1..=12).contains(&month) && day.is_none_or(|day| (1..=31).contains(&day));
        let day = match day {
            Some(day) => Some(small(day)?),
            None => None,
        };
        is_day.then_some(Self { year, month: small(month)?, day, swaps })
    }

    /// Days since 1 January 1970. `None`: it has no year.
    pub(crate) fn number(&self) -> Option<i64> {
        // Howard Hinnant, "chrono-compatible low-level date algorithms", `days_from_civil`.
        let (month, day) = (i64::from(self.month), i64::from(self.day.unwrap_or(1)));
        let year = i64::from(self.year?) - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let of_era = year - era * 400;
        let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
        Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
    }

    /// The day with this number.
    pub(crate) fn of_number(number: i64) -> Self {
        let number = number + 719_468;
        let era = number.div_euclid(146_097);
        let of_era = number - era * 146_097;
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        let small = |number: i64| u8::try_from(number).unwrap_or(1);
        Self { year: i32::try_from(year).ok(), month: small(month), day: Some(small(day)), swaps: false }
    }
}

/// What a value of a text is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Amount(Amount),
    Day(Day),
    /// Seconds since midnight, and whether it says the seconds.
    Time(u32, bool),
    /// An id, a host name, a version, an address: letters and digits in one piece.
    Id,
    /// A quarter or a half of a year: `Q4`.
    Period,
    /// A duration in parts, in seconds: `3 h 45 min`.
    Span(f64),
}

/// A value, and where it is in the folded text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundValue {
    pub(crate) range: Range<usize>,
    pub(crate) value: Value,
}

/// Reads the values of a folded text, in order. `comma`: whether a comma is the decimal sign where that is not clear.
pub(crate) fn values(text: &str, comma: bool) -> Vec<FoundValue> {
    let lexer = Lexer { text, bytes: text.as_bytes(), comma };
    let mut found: Vec<FoundValue> = Vec::new();
    let mut at = 0;
    while let Some(byte) = lexer.bytes.get(at) {
        if !(byte.is_ascii_alphanumeric() || *byte >= 0x80) {
            at += 1;
            continue;
        }
        let Some(next) = lexer.value(at) else {
            at = lexer.word_end(at);
            continue;
        };
        at = next.range.end.max(at + 1);
        // `2026-11-26T03:10:00Z`.
        if matches!(next.value, Value::Day(_)) && lexer.byte(at) == b't' && lexer.is_digit(at + 1) {
            at += 1;
        }
        match (found.last_mut(), next.value) {
            // `3-6 %`, `3 to 6 GB`: the first is one of these, too.
            (Some(FoundValue { value: Value::Amount(first), range }), Value::Amount(second))
                if first.is_bare() && second.digits > 0 && lexer.is_range(range.end, next.range.start) =>
            {
                (first.unit, first.currency) = (second.unit, second.currency);
            }
            // `15 to 22 July`.
            (Some(FoundValue { value, range }), Value::Day(day))
                if lexer.is_range(range.end, next.range.start) =>
            {
                if let Value::Amount(amount) = value
                    && let Some(of_month) =
                        (1..=31).find(|it| amount.is_bare() && f64::from(*it) == amount.number)
                {
                    *value = Value::Day(Day { day: Some(of_month), ..day });
                }
            }
            // `3 h 45 min`.
            (Some(FoundValue { value, range }), Value::Amount(Amount { number, unit: Some(unit), .. }))
                if unit.dimension == Dimension::Time
                    && text
                        .get(range.end..next.range.start)
                        .is_some_and(|it| matches!(it.trim(), "" | "and" | "und" | "et" | "y")) =>
            {
                let before = match value {
                    Value::Amount(Amount { number, unit: Some(unit), .. })
                        if unit.dimension == Dimension::Time =>
                    {
                        Some(*number * unit.factor)
                    }
                    Value::Span(seconds) => Some(*seconds),
                    _ => None,
                };
                if let Some(before) = before {
                    *value = Value::Span(before + number * unit.factor);
                    range.end = next.range.end;
                    continue;
                }
            }
            _ => {}
        }
        found.push(next);
    }
    found
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    comma: bool,
}

/// In so many bytes before a number are its currency and the word that says that it is rounded.
const BEFORE: usize = 12;
/// Longer runs of letters and digits are no ids: they are cut off, so that each byte is read a bounded number of times.
const MAX_RUN: usize = 120;

impl<'a> Lexer<'a> {
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn is_digit(&self, at: usize) -> bool {
        self.byte(at).is_ascii_digit()
    }

    fn is_word(&self, at: usize) -> bool {
        let byte = self.byte(at);
        byte.is_ascii_alphanumeric() || byte >= 0x80
    }

    fn part(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    /// The end of the run of letters and digits at `at`.
    fn word_end(&self, at: usize) -> usize {
        let rest = self.part(at..self.bytes.len());
        let first = rest.chars().next().is_some_and(is_unspaced);
        let word = rest
            .char_indices()
            .take_while(|(_, c)| (c.is_alphanumeric() || *c == '°') && is_unspaced(*c) == first)
            .last();
        word.map_or_else(
            || at + rest.chars().next().map_or(1, char::len_utf8),
            |(end, c)| at + end + c.len_utf8(),
        )
    }

    /// The run of letters, digits and what joins them.
    fn run(&self, at: usize) -> &'a str {
        let rest = self.part(at..self.bytes.len());
        let is_inside = |c: char| c.is_alphanumeric() && !is_unspaced(c) || "-_./@#:*+&~".contains(c);
        let end = rest
            .char_indices()
            .take(MAX_RUN)
            .find(|(_, c)| !is_inside(*c))
            .map_or(MAX_RUN.min(rest.len()), |(end, _)| end);
        let run = rest.get(..rest.floor_char_boundary(end)).unwrap_or_default();
        run.trim_end_matches(|c: char| !c.is_alphanumeric())
    }

    fn value(&self, at: usize) -> Option<FoundValue> {
        let found = |end: usize, value: Value| Some(FoundValue { range: at..end, value });
        if let Some((end, day)) = self.day(at) {
            return found(end, Value::Day(day));
        }
        let is_digit = self.is_digit(at);
        if is_digit && let Some((end, seconds, is_exact)) = self.time(at) {
            return found(end, Value::Time(seconds, is_exact));
        }
        let run = self.run(at);
        if run.bytes().any(|byte| byte.is_ascii_digit() || byte == b'@') {
            if is_id(run) {
                return found(at + run.len(), Value::Id);
            }
            if let Some((head, tail)) = run.split_at_checked(1)
                && matches!(head, "q" | "h")
                && matches!(tail, "1" | "2" | "3" | "4")
            {
                return found(at + 2, Value::Period);
            }
            // `FY2019`, `CY19`.
            let year = run
                .strip_prefix("fy")
                .or(run.strip_prefix("cy"))
                .map(|it| it.trim_start_matches(['-', '\'']));
            if let Some(Ok(year)) = year.filter(|it| matches!(it.len(), 2 | 4)).map(str::parse::<f64>) {
                let number = if year < 100.0 { year + 2_000.0 } else { year };
                let amount = Amount { step: 1.0, digits: 4, is_fiscal: true, ..Amount::plain(number) };
                return found(at + run.len(), Value::Amount(amount));
            }
        }
        if is_digit {
            return self.amount(at);
        }
        let word_end = self.word_end(at);
        if let Some(number) = WORDS.numbers.get(self.part(at..word_end)) {
            let digits = if *number < 10.0 { 1 } else { 2 };
            let amount = Amount { step: 1.0, digits, in_words: true, ..Amount::plain(*number) };
            return Some(self.measured(at, word_end, amount));
        }
        // `USD500`.
        let letters = run.bytes().take_while(u8::is_ascii_alphabetic).count();
        let is_money = WORDS.currencies.contains_key(run.get(..letters).unwrap_or_default());
        if is_money && self.is_digit(at + letters) { self.amount(at + letters) } else { None }
    }

    /// A whole number of at most `most` digits.
    fn whole(&self, at: usize, most: usize) -> Option<(usize, u32)> {
        let end = (at..at + most + 1).find(|at| !self.is_digit(*at))?;
        let number = self.part(at..end).parse().ok()?;
        Some((end, number))
    }

    /// The month that a word at `at` names.
    fn month(&self, at: usize) -> Option<(usize, u32)> {
        let end = self.word_end(at);
        let month = *WORDS.months.get(self.part(at..end))?;
        Some((end, u32::from(month)))
    }

    /// Skips each of these once, where it is there.
    fn skip(&self, at: usize, words: &[&str]) -> usize {
        words.iter().fold(at, |at, word| {
            if self.part(at..self.bytes.len()).starts_with(word) { at + word.len() } else { at }
        })
    }

    fn year(&self, at: usize) -> Option<(usize, i32)> {
        let (end, year) = self.whole(at, 4)?;
        (end == at + 4 && (1_500..2_200).contains(&year) && !self.is_word(end))
            .then_some((end, i32::try_from(year).ok()?))
    }

    /// Whether a unit follows: `Februar 1510 kWh`.
    fn is_measured(&self, at: usize) -> bool {
        let next = self.skip(at, &[" "]);
        let unit = self.part(next..self.word_end(next));
        WORDS.units.contains_key(unit) && unit.len() > 1
    }

    fn day(&self, at: usize) -> Option<(usize, Day)> {
        if !self.is_digit(at) {
            // `November 25, 2026`, `Nov. 25`, `November 2026`.
            let (end, month) = self.month(at)?;
            let next = self.skip(end, &[".", ",", " "]);
            if next == end {
                return None;
            }
            let of_year = self.year(self.skip(next, &["of ", "de "]));
            if let Some((end, year)) = of_year.filter(|(end, _)| !self.is_measured(*end)) {
                return Some((end, Day::of(Some(year), month, None, false)?));
            }
            let (end, day) = self.whole(next, 2)?;
            let end =
                [&["st"][..], &["nd"], &["rd"], &["th"]].iter().fold(end, |end, word| self.skip(end, word));
            if self.is_word(end) || self.byte(end) == b':' || self.byte(end) == b'.' && self.is_digit(end + 1)
            {
                return None;
            }
            let of_year = self.year(self.skip(end, &[",", " "])).filter(|(year, _)| *year > end + 4);
            let (end, year) = of_year.map_or((end, None), |(end, year)| (end, Some(year)));
            return Some((end, Day::of(year, month, Some(day), false)?));
        }
        let (end, first) = self.whole(at, 4)?;
        let mark = self.byte(end);
        if end == at + 4 {
            // `2026-11-26`, `2026/11/26`, `2026年11月26日`.
            let is_mark = matches!(mark, b'-' | b'/' | b'.');
            let year = Some(i32::try_from(first).ok()?);
            let next = if is_mark { end + 1 } else { self.skip(end, &["年"]) };
            let (end, month) = self.whole(next, 2).filter(|_| next > end)?;
            let is_same = is_mark && self.byte(end) == mark;
            let next = if is_same { end + 1 } else { self.skip(end, &["月"]) };
            let Some((end, day)) = self.whole(next, 2).filter(|_| next > end) else {
                // `2026-11`, `2026年11月`.
                let is_month = !self.is_digit(next) && (mark == b'-' && end == at + 7 || next > end);
                return if is_month && !self.is_word(next) {
                    Some((next, Day::of(year, month, None, false)?))
                } else {
                    None
                };
            };
            let end = self.skip(end, &["日"]);
            return if self.is_digit(end) {
                None
            } else {
                Some((end, Day::of(year, month, Some(day), false)?))
            };
        }
        if end > at + 2 {
            return None;
        }
        if matches!(mark, b'.' | b'/' | b'-')
            && let Some((second_end, second)) = self.whole(end + 1, 2)
            && self.byte(second_end) == mark
            && let Some((end, year)) = self.whole(second_end + 1, 4)
            && (end == second_end + 5 || end == second_end + 3 && mark != b'-')
            && !self.is_word(end)
            && !(self.byte(end) == b'.' && self.is_digit(end + 1))
        {
            let year = i32::try_from(if year < 100 { year + 2_000 } else { year }).ok();
            // `4/5/2026` is a day of April or of May; `4.5.2026` is one of May.
            let day = Day::of(year, second, Some(first), mark == b'/' || first <= 12 && second > 12)?;
            return Some((end, day));
        }
        if self.part(end..self.bytes.len()).starts_with("月") {
            let (end, day) = self.whole(self.skip(end, &["月"]), 2)?;
            return Some((self.skip(end, &["日"]), Day::of(None, first, Some(day), false)?));
        }
        // `25 November 2026`, `25th of November`, `25. November`.
        let next = ["st", "nd", "rd", "th", "er", "."].iter().fold(end, |end, word| self.skip(end, &[word]));
        let next = self.skip(next, &[" ", "-", "of ", "de "]);
        let (end, month) = if next > end { self.month(next)? } else { return None };
        let of_year = self
            .year(self.skip(end, &[".", ",", " ", "-", "de ", "del "]))
            .filter(|(year, _)| *year > end + 4);
        let (end, year) = of_year.map_or((end, None), |(end, year)| (end, Some(year)));
        Some((end, Day::of(year, month, Some(first), false)?))
    }

    /// `14:30`, `14:30:05`, `3 pm`, `14h30`, `14 Uhr`: seconds since midnight, and whether it says the seconds.
    fn time(&self, at: usize) -> Option<(usize, u32, bool)> {
        let (end, hour) = self.whole(at, 2)?;
        let minutes = |at: usize| {
            let (end, minute) = self.whole(at, 2)?;
            (end == at + 2 && minute < 60).then_some((end, minute))
        };
        let (mut end, minute, second, is_exact) = if self.byte(end) == b':' {
            let (end, minute) = minutes(end + 1)?;
            let second = if self.byte(end) == b':' { minutes(end + 1) } else { None };
            let is_exact = second.is_some();
            let (end, second) = second.unwrap_or((end, 0));
            // `00:03:51.204`.
            let fraction =
                if self.byte(end) == b'.' && self.is_digit(end + 1) { self.digits_end(end + 1) } else { end };
            (fraction, minute, second, is_exact)
        } else if let Some((end, minute)) =
            self.whole(self.skip(end, &["時"]), 2).filter(|(it, minute)| *it > end + 3 && *minute < 60)
        {
            (self.skip(end, &["分"]), minute, 0, false)
        } else if let Some((end, minute)) = minutes(self.skip(end, &[" ", "h", " "]))
            .filter(|(it, _)| *it > end + 2 && self.part(end..*it).contains('h'))
        {
            (end, minute, 0, false)
        } else {
            let hours = self.skip(end, &[" "]);
            let word = self.part(hours..self.word_end(hours));
            let is_clock = matches!(word, "am" | "pm" | "uhr" | "oclock")
                || matches!(self.part(hours..self.bytes.len()).get(..4), Some("a.m." | "p.m."));
            if !is_clock {
                return None;
            }
            (end, 0, 0, false)
        };
        let next = self.skip(end, &[" "]);
        let half = self.part(next..self.bytes.len());
        let is = |letter: &str| {
            [format!("{letter}m"), format!("{letter}.m.")]
                .into_iter()
                .find(|it| half.starts_with(it.as_str()) && !self.is_word(next + it.len()))
        };
        let hour = match (is("a"), is("p")) {
            (Some(word), _) if hour <= 12 => {
                end = next + word.len();
                hour % 12
            }
            (_, Some(word)) if hour <= 12 => {
                end = next + word.len();
                hour % 12 + 12
            }
            _ => hour,
        };
        if hour > 24 || self.is_digit(end) {
            return None;
        }
        let end = if self.part(end..self.bytes.len()).starts_with(" uhr") { end + 4 } else { end };
        Some((end, hour * 3_600 + minute * 60 + second, is_exact))
    }

    fn digits_end(&self, at: usize) -> usize {
        self.bytes
            .iter()
            .skip(at)
            .position(|byte| !byte.is_ascii_digit())
            .map_or(self.bytes.len(), |length| at + length)
    }

    /// Whether two numbers are the ends of a range.
    fn is_range(&self, end: usize, start: usize) -> bool {
        let between = self.part(end..start).trim_matches(|c: char| {
            c == ' ' || WORDS.currencies.contains_key(c.encode_utf8(&mut [0; 4]) as &str)
        });
        let between = between.trim_start_matches('.').trim();
        matches!(between, "-" | "to" | "bis" | "a" | "au" | "al" | "and" | "und" | "et" | "y")
    }

    /// The digits of a number with what separates them: `1,234.5`, `1 234,5`, `1'234`.
    fn number(&self, at: usize) -> (usize, f64, Option<f64>, usize, usize) {
        let mut end = self.digits_end(at);
        let first = end - at;
        // Separators of the digits, and how many follow each.
        let mut groups: Vec<(u8, usize)> = Vec::new();
        loop {
            let mark = self.byte(end);
            let next = self.digits_end(end + 1);
            let length = next.saturating_sub(end + 1);
            let is_group = length == 3 && (first <= 3 || !groups.is_empty());
            let joins = match mark {
                b',' | b'.' => length > 0,
                b' ' | b'\'' => is_group && first <= 3 && groups.iter().all(|(it, _)| *it == mark),
                _ => false,
            };
            // `1,234, 5`: the comma is not part of it. `10.1.2.3` is cut off before.
            if !joins || groups.last().is_some_and(|(_, length)| *length != 3) {
                break;
            }
            groups.push((mark, length));
            end = next;
        }
        let digits: String = self.part(at..end).chars().filter(char::is_ascii_digit).collect();
        let (decimals, other) = match groups.as_slice() {
            [] => (0, None),
            [(mark @ (b',' | b'.'), length)] => {
                let is_group = *length == 3 && first <= 3 && self.byte(at) != b'0';
                let is_decimal = !is_group || (*mark == b',') == self.comma;
                let other = if is_decimal { 0 } else { *length };
                (if is_decimal { *length } else { 0 }, is_group.then_some(other))
            }
            [rest @ .., (mark, length)] => {
                let is_decimal = rest.iter().all(|(it, _)| it != mark) && matches!(mark, b',' | b'.');
                (if is_decimal { *length } else { 0 }, None)
            }
        };
        let whole = digits.parse::<f64>().unwrap_or(0.0);
        let with = |decimals: usize| whole / 10_f64.powi(i32::try_from(decimals).unwrap_or(0));
        let significant = digits.trim_start_matches('0').len();
        (end, with(decimals), other.map(with), decimals, significant)
    }

    /// The unit word at `at`: letters, `%`, `km/h`, `°c`.
    fn unit_word(&self, at: usize) -> Option<(usize, &'a str)> {
        let rest = self.part(at..self.bytes.len());
        let first = rest.chars().next()?;
        if "%$€£¥₹".contains(first) {
            return Some((at + first.len_utf8(), rest.get(..first.len_utf8())?));
        }
        if is_unspaced(first) {
            let longest = [4, 3, 2, 1].into_iter().find_map(|count| {
                let end = rest.char_indices().nth(count).map_or(rest.len(), |(end, _)| end);
                let word = rest.get(..end)?;
                is_measure(word).then_some((at + end, word))
            });
            return longest;
        }
        if !(first.is_alphabetic() || first == '°') {
            return None;
        }
        let mut end = self.word_end(at);
        if self.byte(end) == b'/' {
            let rate = self.word_end(end + 1);
            if is_measure(self.part(at..rate)) {
                end = rate;
            }
        }
        Some((end, self.part(at..end)))
    }

    fn amount(&self, at: usize) -> Option<FoundValue> {
        let (number_end, number, other, decimals, digits) = self.number(at);
        let amount = Amount {
            step: 10_f64.powi(-i32::try_from(decimals).unwrap_or(0)),
            digits,
            other,
            ..Amount::plain(number)
        };
        Some(self.measured(at, number_end, amount))
    }

    /// A number with what is before and behind it.
    fn measured(&self, at: usize, number_end: usize, mut amount: Amount) -> FoundValue {
        let (mut start, mut end) = (at, number_end);
        // What is before it: `$`, `USD `, `-`, `~`.
        let before = self.part(self.text.floor_char_boundary(at.saturating_sub(BEFORE))..at);
        let near = before.trim_end_matches(['-', '(', '+', '*']);
        let near = near.strip_suffix(' ').unwrap_or(near);
        let word_at =
            near.char_indices().rev().take_while(|(_, c)| c.is_alphanumeric() || "$€£¥₹".contains(*c)).last();
        let word = word_at.map_or("", |(from, _)| near.get(from..).unwrap_or_default());
        let symbol = word
            .chars()
            .next_back()
            .map_or("", |c| word.get(word.len() - c.len_utf8()..).unwrap_or_default());
        let named = |word: &str| WORDS.currencies.get(word).map(|code| (*code, word.len()));
        let is_code = matches!(word.len(), 3 | 4) || !word.is_ascii();
        let money = if is_code || word.ends_with(['$', '€', '£', '¥', '₹']) {
            named(word).or_else(|| named(symbol))
        } else {
            None
        };
        if let Some((code, length)) = money {
            amount.currency = Some(code);
            let behind = before.len() - near.len();
            start = at - behind - length;
        }
        // What is behind it, up to two words.
        let mut unit = None;
        for _ in 0..3 {
            let is_glued = end == number_end;
            let next = match self.byte(end) {
                b' ' | b'-' | b'_' => end + 1,
                _ => end,
            };
            let Some((word_end, word)) = self.unit_word(next) else { break };
            let is_own = next == number_end && is_glued;
            // `per cent`, `percentage points`.
            let second = self.skip(word_end, &[" "]);
            let second_end = self.word_end(second);
            let pair = format!("{word}_{}", self.part(second..second_end));
            if unit.is_none()
                && amount.currency.is_none()
                && let Some(known) = WORDS.units.get(pair.as_str())
            {
                (unit, end) = (Some(*known), second_end);
                continue;
            }
            let is_letter = word.len() == 1 && word.is_ascii() && word != "$" && word != "%";
            let scale = WORDS.scales.get(word).filter(|_| {
                !is_letter
                    || is_own && (amount.currency.is_some() || matches!(word, "k" | "b"))
                    || word == "m" && amount.currency.is_some()
            });
            if let Some(scale) = scale.filter(|_| unit.is_none()) {
                amount.number *= scale;
                amount.scale *= scale;
                amount.step *= scale;
                amount.other = amount.other.map(|other| other * scale);
                amount.is_about = true;
                end = word_end;
            } else if let Some(code) =
                WORDS.currencies.get(word).filter(|_| amount.currency.is_none() && unit.is_none())
            {
                amount.currency = Some(code);
                end = word_end;
            } else if let Some(known) =
                WORDS.units.get(word).filter(|_| unit.is_none() && amount.currency.is_none())
            {
                unit = Some(*known);
                end = word_end;
            } else {
                break;
            }
        }
        amount.unit = unit;
        let said = before.get(..before.len() - (at - start)).unwrap_or_default();
        let mut words =
            said.rsplit(|c: char| !(c.is_alphanumeric() || "~≈".contains(c))).filter(|it| !it.is_empty());
        let word = words.next().unwrap_or_default();
        amount.is_loose = WORDS.loose.contains(word);
        amount.is_about |= amount.is_loose || WORDS.about.contains(word);
        FoundValue { range: start..end, value: Value::Amount(amount) }
    }
}

fn is_measure(word: &str) -> bool {
    WORDS.units.contains_key(word) || WORDS.scales.contains_key(word) || WORDS.currencies.contains_key(word)
}

/// Whether it is a number of a commit, or another one in hexadecimal digits.
pub(crate) fn is_hash(id: &str) -> bool {
    id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a run of letters, digits and marks is an id, and not a number with its unit.
fn is_id(run: &str) -> bool {
    let digits = run.bytes().filter(u8::is_ascii_digit).count();
    let letters = run.bytes().filter(u8::is_ascii_alphabetic).count();
    if run.contains('@') {
        return letters > 2 && run.contains('.') && !run.starts_with('@');
    }
    if letters == 0 {
        // A version or an address: `2.14.1`. A number of a card or a phone: `4929-1234-5678`.
        let groups = |mark: char| run.split(mark).count();
        let is_plain =
            run.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'/'));
        let is_grouped = run.split('.').skip(1).all(|group| group.len() == 3);
        return is_plain
            && (groups('.') > 2 && !is_grouped
                || groups('-') > 2
                || digits > 15
                || groups('-') == 2 && digits > 9);
    }
    if digits == 0 {
        return false;
    }
    if is_hash(run) {
        return true;
    }
    let after = run.trim_start_matches(|c: char| {
        c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '-' | '/' | '+' | ':')
    });
    let is_letters = |text: &str| text.chars().all(|c| c.is_alphabetic() || c == '-' || c == '.');
    // `45MB`, `60-day`, `15-year-old`, `3-6km`, `1960s`, `3rd`, `12m40s`.
    if after.len() < run.len() && is_letters(after) {
        return false;
    }
    let is_span = run.starts_with(|c: char| c.is_ascii_digit())
        && run
            .split(|c: char| c.is_ascii_digit())
            .all(|it| matches!(it, "" | "d" | "h" | "m" | "min" | "s" | "ms" | "t" | "." | "-" | ":" | "z"));
    // `FY2019`, `Q4`, `H1`, `USD500`.
    let head: String = run.chars().take_while(|c| c.is_alphabetic()).collect();
    let tail = run.get(head.len()..).unwrap_or_default();
    let is_number = !tail.is_empty()
        && tail.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'-' | b'/'));
    let is_period = is_number
        && (matches!(&*head, "fy" | "cy" | "q" | "h" | "fiscal") && tail.len() < 8
            || head.len() > 1 && WORDS.currencies.contains_key(&*head));
    // `mid-2019`, `pre-1990`, `over-65s`: a word and a number.
    let prefix = matches!(
        &*head,
        "mid" | "pre" | "post" | "under" | "over" | "top" | "non" | "late" | "early" | "age" | "aged"
    ) && tail.starts_with('-');
    !is_span && !is_period && !prefix
}
