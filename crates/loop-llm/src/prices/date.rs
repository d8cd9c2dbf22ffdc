//! Days and hours, in UTC.

use std::fmt;
use std::str::FromStr;

use jiff::civil;

/// Seconds in a day.
pub(super) const DAY: u64 = 86_400;

/// A day of the calendar, in UTC, from 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(civil::Date);

impl Date {
    /// Seconds from 1970 to its first moment.
    pub fn start(self) -> u64 {
        let days = self.0.duration_since(FIRST).as_hours() / 24;
        u64::try_from(days).unwrap_or_default() * DAY
    }
}

/// The day with which the count of seconds begins.
const FIRST: civil::Date = civil::date(1970, 1, 1);

impl FromStr for Date {
    type Err = String;

    /// Reads `2026-11-20`.
    fn from_str(text: &str) -> Result<Self, String> {
        // jiff also reads a day without hyphens and the day of a moment.
        let is_plain = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let date = text.parse().ok().filter(|date| is_plain && *date >= FIRST);
        date.map(Self).ok_or_else(|| format!("`{text}` is not a date; write it as 2026-11-20"))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a moment lies on a day from Monday to Friday.
pub(super) fn is_working_day(at: u64) -> bool {
    // 1970-01-01 was a Thursday.
    (at / DAY + 3) % 7 < 5
}

/// The name with its last eight digits written as a date: some senders leave the hyphens out.
pub(super) fn with_hyphens(name: &str) -> Option<String> {
    let (start, digits) = name.rsplit_once('-')?;
    let is_compact = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (year, rest) = digits.split_at_checked(4).filter(|_| is_compact)?;
    let (month, day) = rest.split_at_checked(2)?;
    let date: Date = format!("{year}-{month}-{day}").parse().ok()?;
    Some(format!("{start}-{date}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn dates_are_read_and_counted() {
        for (text, days) in [("1970-01-01", 0), ("2000-03-01", 11_017), ("2026-11-21", 20_778)] {
            let date: Date = text.parse().unwrap();
            assert_eq!((date.start() / DAY, date.to_string()), (days, text.to_owned()));
        }
        for text in ["", "2026-1-1", "2026-13-01", "2026-02-29", "1969-12-31", "2026-11-20T", "26-11-2020"] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_week_begins_on_a_monday() {
        let monday = "2026-11-16".parse::<Date>().unwrap().start();
        let working: Vec<bool> = (0..8).map(|day| is_working_day(monday + day * DAY)).collect();
        assert_eq!(working, [true, true, true, true, true, false, false, true]);
        assert!(is_working_day(monday + 5 * DAY - 1), "Friday ends at midnight");
    }

    #[test]
    fn a_date_without_hyphens_gets_them() {
        assert_eq!(with_hyphens("gpt-5.2-20251211").as_deref(), Some("gpt-5.2-2025-12-11"));
        for name in ["gpt-5.2", "m-20251341", "20251211", "m-2025121", "m-é0251211"] {
            assert_eq!(with_hyphens(name), None, "{name}");
        }
    }
}
