//! Durations between the days and times that the fields of a record have.

use crate::date::{Time, compact_day, day_of, instant_of, time_of};
use crate::json::{Json, Members};
use loop_core::types::Locale;

/// Of a record with more days and times no durations are computed.
const MAX_MOMENTS: usize = 6;

/// A longer text is not a day or a time.
const MAX_TEXT: usize = 40;

/// A day or a time of a record.
#[derive(Clone, Copy, Debug)]
struct Moment<'a> {
    name: &'a str,
    /// Days since 1970. `None`: it is a time of any day.
    day: Option<i64>,
    /// Seconds of the day, of UTC where the text names its offset. `None`: it is a day.
    seconds: Option<i64>,
}

fn seconds_of(time: Time) -> i64 {
    i64::from(time.minutes) * 60 + i64::from(time.seconds.unwrap_or(0))
}

fn moment<'a>(name: &'a str, text: &str, locale: Locale) -> Option<Moment<'a>> {
    if text.len() > MAX_TEXT {
        return None;
    }
    if let Some(instant) = instant_of(text, locale) {
        let offset = i64::from(instant.offset.unwrap_or(0)) * 60;
        let seconds = seconds_of(instant.time) - offset;
        return Some(Moment { name, day: Some(instant.day.unix_days()?), seconds: Some(seconds) });
    }
    if let Some(time) = time_of(text) {
        return Some(Moment { name, day: None, seconds: Some(seconds_of(time)) });
    }
    let (day, time) = text.split_once(' ').map_or((text, None), |(day, time)| (day, Some(time)));
    let day = day_of(day, locale)?.unix_days()?;
    let seconds = match time {
        Some(time) => Some(seconds_of(time_of(time)?)),
        None => None,
    };
    Some(Moment { name, day: Some(day), seconds })
}

/// The seconds between the days and times of records that follow each other, and the name of the field.
pub(super) fn between_records(elements: &[Json<'_>], locale: Locale) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let mut before: Vec<Moment<'_>> = Vec::new();
    for element in elements {
        let Some(members) = element.as_object() else { continue };
        let own: Vec<Moment<'_>> = members
            .iter()
            .filter_map(|(name, value)| moment(name, value.as_str()?, locale))
            .take(MAX_MOMENTS)
            .collect();
        for one in &own {
            let same = before.iter().find(|it| it.name == one.name);
            found.extend(same.and_then(|same| apart(same, one)).map(|apart| (apart, one.name.to_owned())));
        }
        // From the end of one to the begin of the next.
        if let (Some(last), Some(first)) = (before.last().filter(|_| before.len() > 1), own.first()) {
            found
                .extend(apart(last, first).map(|apart| (apart, format!("{} and {}", last.name, first.name))));
        }
        before = own;
    }
    found
}

/// The seconds between the days and times of each line of a text, and between those of lines that follow each other: the
/// first of both, and the last of one and the first of the next.
pub(super) fn between_lines(text: &str, locale: Locale) -> Vec<u64> {
    let mut found = Vec::new();
    let mut before: Vec<Moment<'_>> = Vec::new();
    for line in text.lines() {
        let head = line.get(..line.floor_char_boundary(line.len().min(MAX_LINE))).unwrap_or_default();
        let own = moments(head, locale);
        for (at, one) in own.iter().enumerate() {
            found.extend(own.iter().skip(at + 1).filter_map(|other| apart(one, other)));
        }
        if let Some(first) = own.first() {
            found.extend(before.first().and_then(|before| apart(before, first)));
            found.extend(before.last().filter(|_| before.len() > 1).and_then(|before| apart(before, first)));
            before = own;
        }
    }
    found
}

/// The begin of a line in which moments are looked for.
const MAX_LINE: usize = 120;

/// The days and times of a line, a time on the day before it.
fn moments(line: &str, locale: Locale) -> Vec<Moment<'static>> {
    let mut found: Vec<Moment<'static>> = Vec::new();
    let mut day = None;
    let has_compact_day = line.split_whitespace().any(|word| compact_day(word).is_some());
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '(' | ')' | ',' | ';' | '|' | '\u{2013}');
    for word in line.split(is_end).map(|word| word.trim_end_matches(['.', ':'])) {
        if found.len() >= MAX_MOMENTS || !word.contains(|c: char| c.is_ascii_digit()) {
            continue;
        }
        if let Some(instant) = instant_of(word, locale) {
            let offset = i64::from(instant.offset.unwrap_or(0)) * 60;
            found.push(Moment {
                name: "",
                day: instant.day.unix_days(),
                seconds: Some(seconds_of(instant.time) - offset),
            });
            continue;
        }
        if let Some(read) = day_of(word, locale) {
            day = read.unix_days();
            continue;
        }
        // `19JUN 1305`.
        let digits = word.split_once('+').map_or(word, |(digits, _)| digits);
        let has_zone = digits.ends_with(['Z', 'z']);
        let digits = digits.trim_end_matches(['Z', 'z']);
        if (has_compact_day || has_zone)
            && digits.len() == 4
            && let Some((hour, minute)) = digits.split_at_checked(2)
            && let (Ok(hour), Ok(minute)) = (hour.parse(), minute.parse())
            && let Some(time) = Time::new(hour, minute, None)
        {
            found.push(Moment { name: "", day: None, seconds: Some(seconds_of(time)) });
            continue;
        }
        // `08:20-09:50`.
        for time in word.split('-').filter_map(time_of) {
            found.push(Moment { name: "", day, seconds: Some(seconds_of(time)) });
        }
    }
    if let Some(day) = day.filter(|_| found.is_empty()) {
        found.push(Moment { name: "", day: Some(day), seconds: None });
    }
    found
}

/// The seconds between two moments of one kind.
fn apart(one: &Moment<'_>, two: &Moment<'_>) -> Option<u64> {
    let days = match (one.day, two.day) {
        (Some(one), Some(two)) => two - one,
        (None, None) => 0,
        _ => return None,
    };
    let seconds = match (one.seconds, two.seconds) {
        (Some(one), Some(two)) => two - one,
        (None, None) => 0,
        _ => return None,
    };
    u64::try_from((days * 86_400 + seconds).abs()).ok().filter(|apart| *apart > 0)
}

/// The seconds between each two days or times of a record, and the names of their fields.
pub(super) fn spans(members: &Members<'_>, locale: Locale) -> Vec<(u64, String)> {
    let moments: Vec<Moment<'_>> = members
        .iter()
        .filter_map(|(name, value)| moment(name, value.as_str()?, locale))
        .take(MAX_MOMENTS + 1)
        .collect();
    if moments.len() > MAX_MOMENTS {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, one) in moments.iter().enumerate() {
        for two in moments.iter().skip(at + 1) {
            let Some(between) = apart(one, two) else { continue };
            // Of two times of day either may be the first.
            let other = 86_400_u64.checked_sub(between).filter(|other| one.day.is_none() && *other > 0);
            for between in std::iter::once(between).chain(other) {
                found.push((between, format!("{} and {}", one.name, two.name)));
            }
        }
    }
    found
}
