//! Days and times of day, as sentences write them.

use crate::chunk::{Chunk, folded};
use crate::date::{Day, Time, compact_day, month_of, offset_of, split_offset, time_of};
use crate::decimal::{Decimal, Number};
use crate::reader::Reader;
use crate::unit::Unit;
use crate::value::{Found, Measured, Reads, Value};
use loop_core::types::{Locale, is_unspaced};

/// Whether a text begins as a number without a sign below zero does.
fn begins_as_number(text: &str) -> bool {
    text.as_bytes().first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'+')
}

impl Reader<'_> {
    pub(super) fn relative(&mut self, at: usize, text: &str) -> Option<usize> {
        let days = match &*folded(text) {
            "today" | "heute" | "aujourd'hui" | "hoy" | "今日" => {
                // `As of today` says when it is written.
                let before = at.checked_sub(1).and_then(|before| self.get(before));
                if before.is_some_and(|it| matches!(it.text, "of" | "Stand")) {
                    return None;
                }
                0
            }
            "yesterday" | "gestern" | "hier" | "ayer" | "昨日" => -1,
            "vorgestern" | "avant-hier" | "anteayer" | "一昨日" => -2,
            _ if text.starts_with(is_unspaced) => {
                let (word, days) = match text.find("一昨日") {
                    Some(begin) => (begin.."一昨日".len() + begin, -2),
                    None => (text.find("昨日").map(|begin| begin.."昨日".len() + begin)?, -1),
                };
                let chunk = self.get(at)?;
                let range = chunk.at + word.start..chunk.at + word.end;
                self.found.push(Found { range, value: Value::RelativeDay(days) });
                return Some(1);
            }
            _ => return None,
        };
        // `hier` is a place in German, and `morgen` the morning.
        if text.eq_ignore_ascii_case("hier") && self.locale != Locale::Fr {
            return None;
        }
        Some(self.push(at, at, Value::RelativeDay(days)))
    }

    /// A time of day, with what follows it: `14:05 Uhr`, `2 pm`, `2:30 p.m.`
    pub(super) fn time(&mut self, at: usize, text: &str) -> Option<usize> {
        // No form below begins otherwise.
        if !begins_as_number(text) {
            return None;
        }
        let half = |word: &str| match &*folded(word).replace('.', "") {
            "am" => Some(false),
            "pm" => Some(true),
            _ => None,
        };
        let twelve =
            |hour: u32, is_pm: bool| (1..=12).contains(&hour).then(|| hour % 12 + if is_pm { 12 } else { 0 });
        let next = self.next(at).map(|next| next.text);
        // `8-10 am` is a range of hours, and not an offset.
        if text.contains(['-', '\u{2013}']) && !text.contains([':', 'T', 'h']) {
            let (first, second) = text.split_once(['-', '\u{2013}'])?;
            let is_pm = next.and_then(half);
            is_pm.or((next == Some("Uhr")).then_some(false))?;
            let hour = |text: &str| {
                let hour: u32 = Some(text).filter(|text| text.len() <= 2)?.parse().ok()?;
                let hour = if let Some(is_pm) = is_pm { twelve(hour, is_pm)? } else { hour };
                Time::new(hour, 0, None)
            };
            let (first, second) = (hour(first)?, hour(second)?);
            self.push(at, at, Value::Time(first));
            if self.reads == Reads::Measures {
                // A text may say both without what is behind them.
                for time in [first, second] {
                    let value = Value::whole(u64::from(time.minutes / 60 % 12));
                    self.push(at, at, value);
                }
            }
            return Some(self.push(at, at + 1, Value::Time(second)));
        }
        // `08:00-13:00` has two times. In evidence the second may be an offset, too.
        if let Some((first, second)) = text.split_once(['-', '\u{2013}'])
            && let (Some(first), Some(second)) = (time_of(first), time_of(second))
        {
            self.push(at, at, Value::Time(first));
            let read = self.push(at, at, Value::Time(second));
            if self.reads == Reads::All {
                return Some(read);
            }
        }
        let (text, offset) = split_offset(text);
        if let Some(time) = time_of(text) {
            if let Some(is_pm) = next.and_then(half) {
                let hour = twelve(time.minutes / 60, is_pm)?;
                let time = Time::new(hour, time.minutes % 60, time.seconds)?;
                return Some(self.push(at, at + 1, Value::Time(time)));
            }
            let behind = self.get(at + 1).filter(|it| matches!(it.before, "" | "("));
            return Some(match behind.and_then(|it| offset_of(it.text)).filter(|_| offset.is_none()) {
                Some(offset) => self.clock_time(at, at + 1, time, Some(offset)),
                None => self.clock_time(at, at, time, offset),
            });
        }
        // `7.45 am`, `7.45 Uhr`.
        if let Some((hour, minute)) = text.split_once('.')
            && minute.len() == 2
            && let Some(is_pm) =
                next.and_then(|next| half(next).map(Some).or((next == "Uhr").then_some(None)))
            && let (Ok(hour), Ok(minute)) = (hour.parse::<u32>(), minute.parse::<u32>())
        {
            let hour = match is_pm {
                Some(is_pm) => twelve(hour, is_pm)?,
                None => hour,
            };
            let time = Time::new(hour, minute, None)?;
            return Some(self.push(at, at + 1, Value::Time(time)));
        }
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (hour, rest) = text.split_at_checked(digits)?;
        let hour: u32 = (1..=2).contains(&hour.len()).then(|| hour.parse().ok()).flatten()?;
        if let Some(is_pm) = half(rest) {
            let time = Time::new(twelve(hour, is_pm)?, 0, None)?;
            return Some(self.push(at, at, Value::Time(time)));
        }
        let next = next.filter(|_| rest.is_empty())?;
        let minute_at = |at: usize| {
            let minute = self.get(at).filter(|it| it.before.is_empty() && it.text.len() <= 2)?;
            minute.text.parse::<u32>().ok().filter(|minute| *minute < 60)
        };
        if next == "h"
            && self.locale == Locale::Fr
            && let Some(minute) = minute_at(at + 2)
        {
            let time = Time::new(hour, minute, None)?;
            return Some(self.push(at, at + 2, Value::Time(time)));
        }
        if next.starts_with('時') && !next.starts_with("時間") {
            let minute =
                minute_at(at + 2).filter(|_| self.get(at + 3).is_some_and(|it| it.text.starts_with('分')));
            // `午後2時`.
            let before = at.checked_sub(1).and_then(|at| self.get(at)).map_or("", |it| it.text);
            let hour = if before.ends_with("午後") { twelve(hour, true)? } else { hour };
            let time = Time::new(hour, minute.unwrap_or(0), None)?;
            let to = if minute.is_some() { at + 3 } else { at + 1 };
            return Some(self.push_to(at, to, '時'.len_utf8(), Value::Time(time)));
        }
        // `à 10 h` is a time, and `de 10 h` may be a duration.
        let before = at.checked_sub(1).and_then(|at| self.get(at)).map_or("", |it| it.text);
        let is_at = self.locale == Locale::Fr && matches!(before, "à" | "vers" | "dès" | "avant" | "après");
        let hour = match half(next) {
            Some(is_pm) => twelve(hour, is_pm)?,
            None if next == "Uhr" || next == "h" && is_at => hour,
            None => return None,
        };
        let time = Time::new(hour, 0, None)?;
        Some(self.push(at, at + 1, Value::Time(time)))
    }

    /// A time with its offset, if it is known. A document's is compared in UTC where it names one; evidence has the time as
    /// written, and in UTC.
    pub(super) fn clock_time(&mut self, from: usize, to: usize, time: Time, offset: Option<i32>) -> usize {
        let in_utc = time.in_utc(offset.unwrap_or(0));
        match self.reads {
            Reads::All if offset.is_some() => self.push(from, to, Value::Time(in_utc)),
            Reads::All => self.push(from, to, Value::Time(time)),
            Reads::Measures => {
                self.push(from, to, Value::Time(in_utc));
                self.push(from, to, Value::Time(time))
            }
        }
    }

    /// `26 November 2026`, `26. November`, `26 de noviembre de 2026`, `2026年11月26日`.
    pub(super) fn written_day(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        // No form below begins otherwise.
        if !begins_as_number(chunk.text) {
            return None;
        }
        let number = |chunk: &Chunk<'_>| chunk.text.parse::<u32>().ok();
        if let Some(next) =
            self.get(at + 1).filter(|next| next.is_joined && next.text.starts_with(['年', '月']))
        {
            let (year, month_at) = match next.text.starts_with('年') {
                true => (Some(i32::try_from(number(chunk)?).ok()?), at + 2),
                false => (None, at),
            };
            let month = number(self.get(month_at)?)?;
            self.get(month_at + 1).filter(|next| next.text.starts_with('月'))?;
            let day = number(self.get(month_at + 2)?)?;
            self.get(month_at + 3).filter(|next| next.text.starts_with('日'))?;
            let day = Value::Day(Day::new(year, month, day)?);
            return Some(self.push_to(at, month_at + 3, '日'.len_utf8(), day));
        }
        let ordinal = chunk.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_ordinal = matches!(chunk.text.get(ordinal.len()..)?, "" | "st" | "nd" | "rd" | "th" | "er");
        let day: u32 = (is_ordinal && ordinal.len() <= 2).then(|| ordinal.parse().ok()).flatten()?;
        let skip =
            |at: usize| at + usize::from(self.get(at).is_some_and(|it| matches!(it.text, "de" | "of")));
        let is_range = self.get(at + 1).is_some_and(|it| {
            matches!(it.text, "to" | "until" | "bis" | "au" | "al" | "and" | "und" | "et" | "y" | "zum")
        });
        // `el 12 y el 13 de septiembre`.
        let is_article =
            |it: &Chunk<'_>| matches!(it.text, "el" | "zum" | "dem" | "den" | "the" | "le" | "al");
        let second = at + 2 + usize::from(is_range && self.get(at + 2).is_some_and(is_article));
        let month_at = skip(if is_range { second + 1 } else { at + 1 });
        let chunk = if is_range {
            self.get(second).filter(|it| it.text.starts_with(|c: char| c.is_ascii_digit()))?
        } else {
            chunk
        };
        // `26. November`, but not `26, November`.
        let is_next = matches!(chunk.after, "" | ".") && self.get(month_at)?.before.is_empty();
        let month = is_next.then(|| month_of(self.get(month_at)?.text)).flatten()?;
        let year_at = skip(month_at + 1);
        let year = self
            .year(year_at)
            .filter(|_| matches!(self.get(month_at).map(|it| it.after), Some("" | "," | ".")));
        let day = Day::new(year, month, day)?;
        if is_range {
            // The second day is read by itself.
            return Some(self.push(at, at, Value::Day(day)));
        }
        Some(self.push(at, if year.is_some() { year_at } else { month_at }, Value::Day(day)))
    }

    /// `le 11`, `el día 12`: a day of the month that another sentence names.
    pub(super) fn day_alone(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at).filter(|it| it.before.is_empty() && it.text.len() <= 2)?;
        if let Some(next) = self.get(at + 1).filter(|next| next.is_joined && next.text.starts_with('日')) {
            let rest = next.text.strip_prefix('日').unwrap_or_default();
            let before = at.checked_sub(1).and_then(|at| self.get(at)).map_or("", |it| it.text);
            let is_span = ["あと", "残り"].iter().any(|word| before.ends_with(word))
                || ["後", "前", "以内", "遅れ"].iter().any(|word| rest.starts_with(word));
            if self.reads == Reads::All && is_span {
                let number = Number::read(chunk.text, self.locale)?;
                let value = self.amount_of(at, "", number, Measured::Unit(Unit::named("day")?));
                return Some(self.push_to(at, at + 1, '日'.len_utf8(), value));
            }
            let is_day = ["は", "に", "の", "が", "から", "まで", "と", "付", "で"]
                .iter()
                .any(|word| rest.starts_with(word))
                || rest.is_empty() && !self.get(at + 2).is_some_and(|it| it.is_joined);
            let day =
                Some(chunk.text).filter(|_| is_day)?.parse().ok().filter(|day| (1..=31).contains(day))?;
            let value = Value::Day(Day { year: None, month: 0, day });
            return Some(self.push_to(at, at + 1, '日'.len_utf8(), value));
        }
        let before =
            |n: usize| at.checked_sub(n).and_then(|at| self.get(at)).filter(|it| it.after.is_empty());
        let first = before(1).map(|it| folded(it.text))?;
        let is_day = match self.locale {
            Locale::Fr => &*first == "le",
            Locale::Es => &*first == "día",
            _ => false,
        };
        let day: u32 =
            Some(chunk.text).filter(|_| is_day)?.parse().ok().filter(|day| (1..=31).contains(day))?;
        // A noun behind it is what it counts.
        let ends = !chunk.after.is_empty()
            || self.get(at + 1).is_none_or(|next| {
                !next.before.is_empty()
                    || next.text.len() < 3
                    || matches!(next.text, "dans" | "dentro" | "pour" | "para")
            });
        ends.then(|| self.push(at, at, Value::Day(Day { year: None, month: 0, day })))
    }

    /// Days and times that only systems write so: `0540` on a line with a day, `05/01` before a time, and `00:03:51.0`, which
    /// may be a duration too.
    pub(super) fn short_forms(&mut self, at: usize, text: &str) {
        // Most numbers have neither four digits nor a sign in them.
        let has_sign = text.bytes().any(|byte| matches!(byte, b'/' | b':' | b'+'));
        if !has_sign && !(4..=6).contains(&text.len()) {
            return;
        }
        let Some(chunk) = self.get(at) else { return };
        let range = chunk.at..chunk.end();
        let two = |text: &str| (text.len() == 2).then(|| text.parse::<u32>().ok()).flatten();
        let digits = text.split_once('+').map_or(text, |(digits, _)| digits);
        let has_zone = digits.ends_with(['Z', 'z', 'L']);
        let digits = digits.trim_end_matches(['Z', 'z', 'L']);
        if digits.len() == 4
            && let Some((hour, minute)) = digits.split_at_checked(2)
            && let (Some(hour), Some(minute)) = (two(hour), two(minute))
            && let Some(time) = Time::new(hour, minute, None)
            && (self.is_near_compact_day(at) || has_zone)
        {
            self.found.push(Found { range: range.clone(), value: Value::Time(time) });
        }
        let is_first = text.len() == 5;
        let short = |text: &str| (text.len() <= 2).then(|| text.parse::<u32>().ok()).flatten();
        if let Some((one, two)) =
            text.split_once('/').and_then(|(one, other)| Some((short(one)?, short(other)?)))
            && (is_first || self.next(at).is_some_and(|next| time_of(next.text).is_some()))
        {
            for (month, day) in [(one, two), (two, one)] {
                if let Some(day) = Day::new(None, month, day) {
                    self.found.push(Found { range: range.clone(), value: Value::Day(day) });
                }
            }
        }
        let mut parts = text.split(':');
        if let (Some(hours), Some(minutes), Some(seconds), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
            && hours.len() <= 3
            && let (Some(hours), Some(minutes), Some(seconds)) =
                (hours.parse::<u64>().ok(), two(minutes), Decimal::of_json(seconds))
            && let Some(whole) = Decimal::whole(hours * 3_600 + u64::from(minutes) * 60).plus(seconds)
            && !text.contains('-')
        {
            let number = Number { amount: whole, places: 0, significant: 1 };
            let value = self.amount_of(at, "", number, Measured::Unit(Unit::SECONDS));
            self.found.push(Found { range, value });
        }
    }

    /// Whether a day such as `30OCT` is on the same line, a few words away.
    fn is_near_compact_day(&self, at: usize) -> bool {
        let is_day = |at: usize| self.get(at).is_some_and(|it| compact_day(it.text).is_some());
        let mut before = at;
        for _ in 0..6 {
            if self.get(before).is_none_or(|it| it.is_first) || before == 0 {
                break;
            }
            before -= 1;
            if is_day(before) {
                return true;
            }
        }
        (at + 1..at + 6).take_while(|at| self.get(*at).is_some_and(|it| !it.is_first)).any(is_day)
    }

    /// `6-14 February 2027`: both days.
    pub(super) fn days_of_range(&mut self, at: usize, text: &str) -> Option<usize> {
        // `26.–28.` has nine bytes.
        if text.len() > 9 {
            return None;
        }
        let (first, last) = text.split_once(['-', '\u{2013}'])?;
        let number = |text: &str| {
            let digits = text.trim_end_matches('.');
            (digits.len() <= 2).then(|| digits.parse::<u32>().ok()).flatten()
        };
        let (first, last) = (number(first)?, number(last)?);
        let chunk = self.get(at)?;
        let skip =
            |at: usize| at + usize::from(self.get(at).is_some_and(|it| matches!(it.text, "de" | "of")));
        let month_at = skip(at + 1);
        let next = self.get(month_at).filter(|it| matches!(chunk.after, "" | ".") && it.before.is_empty())?;
        let month = month_of(next.text)?;
        let year_at = skip(month_at + 1);
        let year = self.year(year_at).filter(|_| matches!(next.after, "" | "," | "."));
        let (first, last) = (Day::new(year, month, first)?, Day::new(year, month, last)?);
        self.push(at, at, Value::Day(first));
        Some(self.push(at, if year.is_some() { year_at } else { month_at }, Value::Day(last)))
    }

    fn year(&self, at: usize) -> Option<i32> {
        let text = self.get(at)?.text;
        let is_year = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_year.then(|| text.parse().ok()).flatten().filter(|year| (1900..=2200).contains(year))
    }

    /// `November 26, 2026`, `Nov 26`.
    pub(super) fn month_first(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        let month =
            Some(chunk.text).filter(|text| text.starts_with(char::is_uppercase)).and_then(month_of)?;
        let day_at =
            self.get(at + 1).filter(|next| next.before.is_empty() && matches!(chunk.after, "" | "."))?;
        let digits = day_at.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let day: u32 = (digits.len() <= 2).then(|| digits.parse().ok()).flatten()?;
        let year = self.year(at + 2).filter(|_| matches!(day_at.after, "" | ","));
        let day = Day::new(year, month, day)?;
        Some(self.push(at, at + 1 + usize::from(year.is_some()), Value::Day(day)))
    }
}
