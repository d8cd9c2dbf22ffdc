//! Dates and times, as texts write them.

use std::sync::LazyLock;

use crate::chunk::folded;
use crate::known::Known;
use crate::locale::Written;
use loop_core::types::Locale;

/// A day. Without a year where the text names none, and of the month 0 where it names no month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day {
    pub(crate) year: Option<i32>,
    pub(crate) month: u32,
    pub(crate) day: u32,
}

/// A time of day. Without seconds where the text names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    pub(crate) minutes: u32,
    pub(crate) seconds: Option<u32>,
    /// Whether it is the time in UTC of a text that names its offset. Else it is the time as written.
    pub(crate) is_utc: bool,
}

impl Day {
    pub(crate) fn new(year: Option<i32>, month: u32, day: u32) -> Option<Self> {
        let is_leap = year.is_none_or(|year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let last = match month {
            4 | 6 | 9 | 11 => 30,
            2 if is_leap => 29,
            2 => 28,
            1..=12 => 31,
            _ => return None,
        };
        let is_year = year.is_none_or(|year| (1900..=2200).contains(&year));
        (is_year && (1..=last).contains(&day)).then_some(Self { year, month, day })
    }

    /// The days since 1970. `None`: it has no year.
    pub(crate) fn unix_days(self) -> Option<i64> {
        if self.month == 0 {
            return None;
        }
        // The same algorithm the other way round.
        let shifted_year = i64::from(self.year?) - i64::from(self.month <= 2);
        let (era, of_era) = (shifted_year.div_euclid(400), shifted_year.rem_euclid(400));
        let month = i64::from(if self.month > 2 { self.month - 3 } else { self.month + 9 });
        let of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
    }

    /// The day of an instant, by UTC.
    pub(crate) fn of_unix_days(days: i64) -> Option<Self> {
        // The civil calendar, counted from the first of March of the year 0 (H. Hinnant, "chrono-compatible low-level date
        // algorithms").
        let shifted = days.checked_add(719_468)?;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self::new(Some(i32::try_from(year).ok()?), u32::try_from(month).ok()?, u32::try_from(day).ok()?)
    }
}

impl Time {
    pub(crate) fn new(hour: u32, minute: u32, seconds: Option<u32>) -> Option<Self> {
        let is_time = hour < 24 && minute < 60 && seconds.is_none_or(|seconds| seconds < 61);
        is_time.then_some(Self { minutes: hour * 60 + minute, seconds, is_utc: false })
    }

    /// The time in UTC, of a time that is written with this offset.
    pub(crate) fn in_utc(self, offset: i32) -> Self {
        Self { is_utc: true, ..self.later(-offset) }
    }

    /// The time so many minutes later.
    pub(crate) fn later(self, minutes: i32) -> Self {
        let of_day = (i64::from(self.minutes) + i64::from(minutes)).rem_euclid(1_440);
        Self { minutes: u32::try_from(of_day).unwrap_or(self.minutes), ..self }
    }

    /// The time of day of an instant, by UTC.
    pub(crate) fn of_unix_seconds(seconds: i64) -> Option<Self> {
        let of_day = u32::try_from(seconds.rem_euclid(86_400)).ok()?;
        Self::new(of_day / 3_600, of_day / 60 % 60, Some(of_day % 60))
    }
}

/// The two or three parts of a text of which the first has some digits, at most so many; and the byte between them.
#[inline]
fn parts_of(text: &str, digits: usize) -> Option<(u8, &str, &str, Option<&str>)> {
    let bytes = text.as_bytes();
    let end = bytes.iter().take(digits + 1).position(|byte| !byte.is_ascii_digit()).filter(|end| *end > 0)?;
    let separator = *bytes.get(end)?;
    let (first, rest) = (text.get(..end)?, text.get(end + 1..)?);
    let next = |text: &str| text.as_bytes().iter().position(|byte| *byte == separator);
    let Some(second) = next(rest) else { return Some((separator, first, rest, None)) };
    let third = rest.get(second + 1..)?;
    next(third).is_none().then_some((separator, first, rest.get(..second)?, Some(third)))
}

/// The days that a chunk of digits can name: `2026-11-26`, `26.11.2026`, `11/26/2026`. Where day and month can be
/// exchanged, the locale decides.
pub(crate) fn day_of(text: &str, locale: Locale) -> Option<Day> {
    let (separator, first, second, third) = parts_of(text, 4)?;
    if !matches!(separator, b'-' | b'.' | b'/') {
        return None;
    }
    let number = |part: &str| {
        let digits = Some(part.as_bytes()).filter(|digits| (1..=4).contains(&digits.len()))?;
        let digit = |byte: &u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
        digits.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))
    };
    let (one, two) = (number(first)?, number(second)?);
    let year_of = |part: &str| number(part).and_then(|year| i32::try_from(year).ok());
    match third.filter(|third| !third.is_empty()) {
        Some(third) if first.len() == 4 => Day::new(year_of(first), two, number(third)?),
        Some(third) if third.len() == 4 && first.len() <= 2 => {
            let year = year_of(third);
            let (month, day) = match separator == b'/' && locale.month_first() {
                true => (one, two),
                false => (two, one),
            };
            // One of the two is not a month.
            Day::new(year, month, day).or_else(|| Day::new(year, day, month))
        }
        Some(_) => None,
        // `26.11.` in German.
        None if separator == b'.' && third.is_some() => Day::new(None, two, one),
        None => None,
    }
}

/// The day that digits name if day and month are exchanged. `None`: their order is clear.
pub(crate) fn exchanged(text: &str, day: Day) -> Option<Day> {
    let is_open = text.contains(['/', '.']) && day.day <= 12 && day.day != day.month;
    is_open.then(|| Day::new(day.year, day.day, day.month)).flatten()
}

/// `10AUG`, `01-Dec-2026`, `2-Jan`.
pub(crate) fn compact_day(text: &str) -> Option<Day> {
    let digits = text.bytes().take(3).take_while(u8::is_ascii_digit).count();
    if !(1..=2).contains(&digits) || text.len() > 20 {
        return None;
    }
    let (day, rest) = text.split_at_checked(digits)?;
    let rest = rest.trim_start_matches(['-', '/']);
    let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (month, year) = rest.split_at_checked(letters)?;
    let year = year.trim_start_matches(['-', '/']);
    let year = match year.len() {
        0 => None,
        4 => Some(year.parse().ok()?),
        _ => return None,
    };
    // `5 mar` is a day where a month may follow a number, and `5mar` is nothing.
    let is_month = letters >= 3 && rest.starts_with(char::is_uppercase);
    Day::new(year, month_of(Some(month).filter(|_| is_month)?)?, day.parse().ok()?)
}

/// The time that a chunk names: `14:05`, `14:05:33`, `14h30`.
pub(crate) fn time_of(text: &str) -> Option<Time> {
    let is_utc = matches!(text.as_bytes().last(), Some(b'Z' | b'z'));
    let text = text.get(..text.len() - usize::from(is_utc))?;
    let (separator, hour, minute, seconds) = parts_of(text, 2)?;
    if !matches!(separator, b':' | b'h') || minute.len() != 2 {
        return None;
    }
    let seconds = match seconds {
        Some(seconds) => Some(seconds.split(['.', ',']).next()?.parse().ok()?),
        None => None,
    };
    Time::new(hour.parse().ok()?, minute.parse().ok()?, seconds)
}

/// An instant as a text writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp {
    pub(crate) day: Day,
    pub(crate) time: Time,
    /// The offset from UTC in minutes. `None`: the text names none.
    pub(crate) offset: Option<i32>,
}

impl Timestamp {
    /// The day and the time by a clock with this offset. `None`: the text names no offset, or no year.
    pub(crate) fn by(self, clock: i32) -> Option<(Day, Time)> {
        let shift = i64::from(clock) - i64::from(self.offset?);
        let minutes = self.day.unix_days()?.checked_mul(1_440)? + i64::from(self.time.minutes) + shift;
        let day = Day::of_unix_days(minutes.div_euclid(1_440))?;
        Some((day, self.time.later(i32::try_from(shift).ok()?)))
    }

    /// The days and times that evidence with this instant has: those as written, in UTC, and by this clock.
    pub(crate) fn readings(self, clock: i32) -> impl Iterator<Item = (Option<Day>, Option<Time>)> {
        let clocks = std::iter::once(0).chain(Some(clock).filter(|clock| *clock != 0));
        let by_clocks = clocks.filter_map(move |clock| self.by(clock));
        let in_utc = self.time.in_utc(self.offset.unwrap_or(0));
        std::iter::once((Some(self.day), None))
            .chain(by_clocks.map(move |(day, time)| (Some(day).filter(|day| *day != self.day), Some(time))))
            .chain([(None, Some(in_utc)), (None, Some(self.time))])
    }

    /// The instant that a text is, with nothing around it.
    pub(crate) fn alone(text: &str, locale: Locale) -> Option<Self> {
        let is_of_instant =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b':' | b'.' | b'+');
        let is_alone = text.as_bytes().get(4) == Some(&b'-')
            && text.as_bytes().last().is_some_and(u8::is_ascii_alphanumeric)
            && text.as_bytes().iter().all(is_of_instant);
        is_alone.then(|| instant_of(text, locale)).flatten()
    }
}

/// The instant that a chunk names, such as `2026-11-26T03:10:00.123+01:00`.
pub(crate) fn instant_of(text: &str, locale: Locale) -> Option<Timestamp> {
    if !text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let at = text.bytes().position(|byte| byte == b'T')?;
    let (day, time) = (text.get(..at)?, text.get(at + 1..)?);
    let (time, offset) = split_offset(time);
    Some(Timestamp { day: day_of(day, locale)?, time: time_of(time)?, offset })
}

/// A time, and the offset behind it.
pub(crate) fn split_offset(text: &str) -> (&str, Option<i32>) {
    let at = text.bytes().position(|byte| matches!(byte, b'+' | b'-' | b'Z' | b'z')).filter(|at| *at > 0);
    match at.and_then(|at| text.split_at_checked(at)) {
        Some((time, offset)) => match offset_of(offset) {
            Some(offset) => (time, Some(offset)),
            None => (text, None),
        },
        None => (text, None),
    }
}

/// The offset from UTC that a text names, in minutes: `Z`, `UTC`, `+01:00`, `UTC+2`.
pub(crate) fn offset_of(text: &str) -> Option<i32> {
    let rest = ["UTC", "GMT"].iter().find_map(|name| text.strip_prefix(name));
    let rest = match rest {
        Some("") => return Some(0),
        Some(rest) => rest,
        None if matches!(text, "Z" | "z") => return Some(0),
        None => text,
    };
    let (sign, digits) = match rest.strip_prefix('+') {
        Some(digits) => (1, digits),
        None => (-1, rest.strip_prefix(['-', '\u{2212}'])?),
    };
    let plain: String = digits.chars().filter(|c| *c != ':').collect();
    let is_short = (1..=4).contains(&plain.len()) && plain.bytes().all(|byte| byte.is_ascii_digit());
    let number: i32 = is_short.then(|| plain.parse().ok()).flatten()?;
    let (hours, minutes) = if plain.len() > 2 { (number / 100, number % 100) } else { (number, 0) };
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// The month that a word names, in full or by its first letters.
pub(crate) fn month_of(word: &str) -> Option<u32> {
    let word = word.trim_end_matches('.');
    // The longest is `septiembre`; a name has three letters at least.
    if !(3..=12).contains(&word.len()) {
        return None;
    }
    Some(OF_MONTH.bits(&folded(word))).filter(|bits| *bits != 0).map(|bits| bits.trailing_zeros() + 1)
}

/// The names of months, with the bit of the month for each.
static OF_MONTH: LazyLock<Known> = LazyLock::new(|| {
    let months: Vec<(&[&str], u32)> = (0..12).zip(MONTHS).map(|(month, names)| (names, 1 << month)).collect();
    Known::of(&months)
});

const MONTHS: [&[&str]; 12] = [
    &["january", "jan", "januar", "jänner", "janvier", "janv", "enero", "ene"],
    &["february", "feb", "februar", "février", "févr", "febrero"],
    &["march", "mar", "märz", "mrz", "mars", "marzo"],
    &["april", "apr", "avril", "avr", "abril", "abr"],
    &["may", "mai", "mayo"],
    &["june", "jun", "juni", "juin", "junio"],
    &["july", "jul", "juli", "juillet", "juil", "julio"],
    &["august", "aug", "août", "agosto", "ago"],
    &["september", "sep", "sept", "septembre", "septiembre"],
    &["october", "oct", "oktober", "okt", "octobre", "octubre"],
    &["november", "nov", "novembre", "noviembre"],
    &["december", "dec", "dezember", "dez", "décembre", "déc", "diciembre", "dic"],
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_day_is_read_in_the_forms_of_the_locale() {
        let day = Day::new(Some(2026), 11, 26);
        for (text, locale) in [
            ("2026-11-26", Locale::En),
            ("2026/11/26", Locale::Ja),
            ("11/26/2026", Locale::En),
            ("26/11/2026", Locale::En),
            ("26.11.2026", Locale::De),
            ("26/11/2026", Locale::Fr),
        ] {
            assert_eq!(day_of(text, locale), day, "{text}");
        }
        assert_eq!(day_of("04/05/2026", Locale::En), Day::new(Some(2026), 4, 5));
        assert_eq!(day_of("04/05/2026", Locale::Es), Day::new(Some(2026), 5, 4));
        for text in ["2026-13-01", "1.2.3", "10.0.0", "2026-02-30", "1-2", "24/7"] {
            assert_eq!(day_of(text, Locale::En), None, "{text}");
        }
    }

    #[test]
    fn an_instant_is_a_day_and_a_time() {
        let expected = Day::new(Some(2026), 11, 26).zip(Time::new(3, 10, Some(0)));
        for (text, offset) in [
            ("2026-11-26T03:10:00Z", Some(0)),
            ("2026-11-26T03:10:00.123+01:00", Some(60)),
            ("2026-11-26T03:10:00-0530", Some(-330)),
            ("2026-11-26T03:10:00", None),
        ] {
            let read = instant_of(text, Locale::En).unwrap();
            assert_eq!((Some((read.day, read.time)), read.offset), (expected, offset), "{text}");
        }
        let read = instant_of("2026-11-26T23:30:00-05:00", Locale::En).unwrap();
        let by = |clock, day, hour| {
            (read.by(clock), Day::new(Some(2026), 11, day).zip(Time::new(hour, 30, Some(0))))
        };
        for (found, expected) in [by(0, 27, 4), by(60, 27, 5), by(-300, 26, 23)] {
            assert_eq!(found, expected);
        }
        assert_eq!(time_of("25:00"), None);
        assert_eq!(time_of("14h30"), Time::new(14, 30, None));
    }

    #[test]
    fn days_since_1970_are_days_of_the_calendar() {
        for days in [-800_000, -1, 0, 59, 60, 11_016, 20_783, 84_000] {
            assert_eq!(
                Day::of_unix_days(days).and_then(Day::unix_days),
                Some(days).filter(|days| *days > -30_000)
            );
        }
        assert_eq!(Day::of_unix_days(0), Day::new(Some(1970), 1, 1));
        assert_eq!(Day::of_unix_days(20_783), Day::new(Some(2026), 11, 26));
        assert_eq!(Day::of_unix_days(11_016), Day::new(Some(2000), 2, 29));
        assert_eq!(Time::of_unix_seconds(3_661), Time::new(1, 1, Some(1)));
    }
}
