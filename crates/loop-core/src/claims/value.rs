//! Checkable values: what of a text can be compared with evidence.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::claims::chunk::{Chunk, chunks, folded, is_unspaced};
use crate::claims::date::{Day, Time, day_of, instant_of, month_of, time_of};
use crate::claims::decimal::{Decimal, Number};
use crate::claims::name;
use crate::claims::unit::{Unit, currency_of, currency_of_code, power_of};
use crate::types::{Locale, steps};

/// What a value of a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// A number without a unit, or with a noun behind it: `port 443`, `3 jobs`.
    Number,
    /// A number with a unit: `42 GB`, `3 hours`.
    Quantity,
    /// An amount of a currency.
    Money,
    /// A percentage.
    Percentage,
    /// A day, also one that is named from the start of the run: `yesterday`.
    Date,
    /// A time of day.
    Time,
    /// An id with digits in it: `INV-2044`, `web-1`.
    Id,
    /// A host name, a file name, an address of the internet.
    Host,
    /// An e-mail address.
    Email,
    /// A version: `v1.2`, `1.2.3`.
    Version,
    /// A text in quotation marks.
    Quote,
    /// A name of more than one word with capitals.
    Name,
    /// That something does not exist.
    Absence,
}

impl ValueKind {
    /// The name in JSON, for example `quantity`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Quantity => "quantity",
            Self::Money => "money",
            Self::Percentage => "percentage",
            Self::Date => "date",
            Self::Time => "time",
            Self::Id => "id",
            Self::Host => "host",
            Self::Email => "email",
            Self::Version => "version",
            Self::Quote => "quote",
            Self::Name => "name",
            Self::Absence => "absence",
        }
    }
}

/// What the number of an amount counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    Nothing,
    /// A word behind the number, folded.
    Noun(Box<str>),
    Unit(Unit),
}

/// A value as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Amount {
        number: Number,
        measured: Measured,
        /// The number as another locale reads it, where it differs.
        other: Option<Decimal>,
        /// Whether the text says that it is rounded.
        is_about: bool,
    },
    Day(Day),
    /// Days after the start of the run.
    RelativeDay(i64),
    Time(Time),
    /// The words of a text, folded, in order. `also`: the words of a shorter text that may be meant.
    Text {
        kind: ValueKind,
        words: Vec<Box<str>>,
        also: Option<Vec<Box<str>>>,
    },
}

/// A value and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) range: Range<usize>,
    pub(crate) value: Value,
}

impl Value {
    pub(crate) fn kind(&self) -> ValueKind {
        use crate::claims::unit::Dimension;
        match self {
            Self::Amount { measured: Measured::Unit(unit), .. } => match unit.dimension {
                Dimension::Money(_) => ValueKind::Money,
                Dimension::Percent => ValueKind::Percentage,
                Dimension::Bytes
                | Dimension::BinaryBytes
                | Dimension::Time
                | Dimension::Mass
                | Dimension::Length
                | Dimension::Other(_) => ValueKind::Quantity,
            },
            Self::Amount { .. } => ValueKind::Number,
            Self::Day(_) | Self::RelativeDay(_) => ValueKind::Date,
            Self::Time(_) => ValueKind::Time,
            Self::Text { kind, .. } => *kind,
        }
    }
}

/// Which values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// All, as a document states them.
    All,
    /// Amounts, days and times. Texts are searched in another way.
    Measures,
}

/// The values of a text, in order.
pub(crate) fn values(text: &str, locale: Locale, reads: Reads) -> Vec<Found> {
    // Most texts of evidence have no digit at all.
    if reads == Reads::Measures && !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let chunks = chunks(text);
    let quotes = if reads == Reads::All { name::quotes(text) } else { Vec::new() };
    let mut reader = Reader { chunks: &chunks, locale, reads, found: Vec::new() };
    let (mut at, mut quote) = (0, 0);
    while let Some(chunk) = chunks.get(at) {
        steps::count(1);
        if let Some(range) = quotes.get(quote) {
            if chunk.at >= range.end {
                quote += 1;
                continue;
            }
            if chunk.at >= range.start {
                let inner = text.get(range.clone()).unwrap_or_default();
                let words = words(inner);
                let is_text =
                    words.len() > 1 || inner.len() > 3 && inner.contains(|c: char| c.is_ascii_digit());
                if is_text {
                    let value = Value::Text { kind: ValueKind::Quote, words, also: None };
                    reader.found.push(Found { range: range.clone(), value });
                    while chunks.get(at).is_some_and(|chunk| chunk.at < range.end) {
                        at += 1;
                    }
                    quote += 1;
                    continue;
                }
                quote += 1;
            }
        }
        at += reader.read(at).max(1);
    }
    reader.found
}

/// The words of a text, folded: runs of letters and digits.
pub(crate) fn words(text: &str) -> Vec<Box<str>> {
    folded(text)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(Into::into)
        .collect()
}

/// The unit that a word without spaces begins with: the longest.
fn unit_at_start(word: &str) -> Option<Unit> {
    let ends: Vec<usize> = word.char_indices().map(|(at, c)| at + c.len_utf8()).take(4).collect();
    ends.iter().rev().find_map(|end| Unit::named(word.get(..*end)?))
}

/// A name without the ending of what belongs to it.
fn owner(text: &str) -> &str {
    text.strip_suffix("'s").or_else(|| text.strip_suffix("\u{2019}s")).unwrap_or(text)
}

/// Words behind a number that it does not count.
const NOT_NOUNS: &[&str] = &[
    "and", "are", "was", "were", "has", "had", "for", "from", "the", "von", "der", "die", "das", "sind",
    "und", "sur", "des", "les", "est", "sont", "con", "los", "las", "del", "until", "bis", "with", "per",
    "but", "which", "that", "who", "than", "not", "out", "auf", "bei", "its", "into", "instead",
];

/// Whether the word before a number says that it is rounded.
fn is_about(before: &str) -> bool {
    let word = folded(before);
    matches!(
        &*word,
        "about"
            | "around"
            | "approximately"
            | "approx"
            | "roughly"
            | "nearly"
            | "almost"
            | "circa"
            | "ca"
            | "some"
            | "etwa"
            | "rund"
            | "ungefähr"
            | "fast"
            | "environ"
            | "près"
            | "alrededor"
            | "unos"
            | "unas"
            | "aproximadamente"
            | "約"
            | "およそ"
    )
}

struct Reader<'a> {
    chunks: &'a [Chunk<'a>],
    locale: Locale,
    reads: Reads,
    found: Vec<Found>,
}

impl<'a> Reader<'a> {
    fn get(&self, at: usize) -> Option<&'a Chunk<'a>> {
        self.chunks.get(at)
    }

    /// The chunk after this one, where nothing but a space is between them.
    fn next(&self, at: usize) -> Option<&'a Chunk<'a>> {
        let next = self.get(at + 1)?;
        (self.get(at)?.after.is_empty() && next.before.is_empty()).then_some(next)
    }

    fn push(&mut self, from: usize, to: usize, value: Value) -> usize {
        let (Some(first), Some(last)) = (self.get(from), self.get(to)) else { return 1 };
        self.found.push(Found { range: first.at..last.end(), value });
        to - from + 1
    }

    /// As [`push`](Self::push), of a value that ends so many bytes after the begin of its last chunk: in a text without spaces
    /// the sentence continues in it.
    fn push_to(&mut self, from: usize, to: usize, bytes: usize, value: Value) -> usize {
        let (Some(first), Some(last)) = (self.get(from), self.get(to)) else { return 1 };
        self.found.push(Found { range: first.at..last.at + bytes.min(last.text.len()), value });
        to - from + 1
    }

    /// Reads what begins at a chunk. Returns how many chunks it has; 0: nothing begins here.
    fn read(&mut self, at: usize) -> usize {
        let Some(chunk) = self.get(at) else { return 0 };
        let text = chunk.text;
        if text.is_empty() {
            return 0;
        }
        let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
        if self.reads == Reads::All {
            if let Some(read) = self.address(at, text) {
                return read;
            }
            if !has_digit && let Some(read) = self.relative(at, text) {
                return read;
            }
        }
        if has_digit {
            if let Some((day, time)) = instant_of(text, self.locale) {
                self.push(at, at, Value::Day(day));
                return self.push(at, at, Value::Time(time));
            }
            if let Some(day) = day_of(text, self.locale) {
                return self.push(at, at, Value::Day(day));
            }
            if let Some(read) =
                self.time(at, text).or_else(|| self.written_day(at)).or_else(|| self.amount(at))
            {
                return read;
            }
        } else {
            if let Some(read) = self.month_first(at).or_else(|| self.code_first(at)) {
                return read;
            }
        }
        if self.reads == Reads::All
            && let Some(read) = self.named(at, has_digit)
        {
            return read;
        }
        if has_digit { self.parts(at) } else { 0 }
    }

    /// E-mail addresses and addresses of the internet.
    fn address(&mut self, at: usize, text: &str) -> Option<usize> {
        let kind = match text.split_once('@') {
            Some((local, host)) if !local.is_empty() && host.contains('.') && !host.contains('@') => {
                ValueKind::Email
            }
            Some(_) => return None,
            None if text.contains("://") => ValueKind::Host,
            None => return None,
        };
        Some(self.push(at, at, Value::Text { kind, words: words(text), also: None }))
    }

    fn relative(&mut self, at: usize, text: &str) -> Option<usize> {
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
            _ => return None,
        };
        // `hier` is a place in German, and `morgen` the morning.
        if text.eq_ignore_ascii_case("hier") && self.locale != Locale::Fr {
            return None;
        }
        Some(self.push(at, at, Value::RelativeDay(days)))
    }

    /// A time of day, with what follows it: `14:05 Uhr`, `2 pm`, `2:30 p.m.`
    fn time(&mut self, at: usize, text: &str) -> Option<usize> {
        let half = |word: &str| match &*folded(word).replace('.', "") {
            "am" => Some(false),
            "pm" => Some(true),
            _ => None,
        };
        let twelve =
            |hour: u32, is_pm: bool| (1..=12).contains(&hour).then(|| hour % 12 + if is_pm { 12 } else { 0 });
        let next = self.next(at).map(|next| next.text);
        if let Some(time) = time_of(text) {
            if let Some(is_pm) = next.and_then(half) {
                let hour = twelve(time.minutes / 60, is_pm)?;
                let time = Time::new(hour, time.minutes % 60, time.seconds)?;
                return Some(self.push(at, at + 1, Value::Time(time)));
            }
            return Some(self.push(at, at, Value::Time(time)));
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
            let time = Time::new(hour, minute.unwrap_or(0), None)?;
            let to = if minute.is_some() { at + 3 } else { at + 1 };
            return Some(self.push_to(at, to, '時'.len_utf8(), Value::Time(time)));
        }
        let hour = match half(next) {
            Some(is_pm) => twelve(hour, is_pm)?,
            None if next == "Uhr" => hour,
            None => return None,
        };
        let time = Time::new(hour, 0, None)?;
        Some(self.push(at, at + 1, Value::Time(time)))
    }

    /// `26 November 2026`, `26. November`, `26 de noviembre de 2026`, `2026年11月26日`.
    fn written_day(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
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
        let month_at = skip(if is_range { at + 3 } else { at + 1 });
        let chunk = if is_range {
            self.get(at + 2).filter(|it| it.text.starts_with(|c: char| c.is_ascii_digit()))?
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

    fn year(&self, at: usize) -> Option<i32> {
        let text = self.get(at)?.text;
        let is_year = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_year.then(|| text.parse().ok()).flatten().filter(|year| (1900..=2200).contains(year))
    }

    /// `November 26, 2026`, `Nov 26`.
    fn month_first(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        let month = month_of(chunk.text).filter(|_| chunk.text.starts_with(char::is_uppercase))?;
        let day_at =
            self.get(at + 1).filter(|next| next.before.is_empty() && matches!(chunk.after, "" | "."))?;
        let digits = day_at.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let day: u32 = (digits.len() <= 2).then(|| digits.parse().ok()).flatten()?;
        let year = self.year(at + 2).filter(|_| matches!(day_at.after, "" | ","));
        let day = Day::new(year, month, day)?;
        Some(self.push(at, at + 1 + usize::from(year.is_some()), Value::Day(day)))
    }

    /// `USD 42`.
    fn code_first(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        let code = currency_of_code(chunk.text).or_else(|| {
            let mut symbol = chunk.text.chars();
            currency_of(symbol.next()?).filter(|_| symbol.next().is_none())
        })?;
        let next = self.next(at)?.text;
        let number = Number::read(next, self.locale)?;
        let (number, taken) = self.scaled(at + 1, number);
        let value = self.amount_of(at, next, number, Measured::Unit(Unit::money(code)));
        Some(self.push(at, at + 1 + taken, value))
    }

    /// The number with the word behind it that multiplies it, and how many chunks that is.
    fn scaled(&self, at: usize, number: Number) -> (Number, usize) {
        let scaled = self.next(at).and_then(|next| number.times_power_of_ten(power_of(next.text)?));
        scaled.map_or((number, 0), |number| (number, 1))
    }

    fn amount_of(&self, at: usize, text: &str, number: Number, measured: Measured) -> Value {
        let before = at.checked_sub(1).and_then(|before| self.get(before));
        let is_marked = before.is_some_and(|before| before.after.is_empty() && is_about(before.text));
        let is_about = is_marked || self.get(at).is_some_and(|it| it.text.starts_with(['~', '≈']));
        let other =
            Number::read(text, self.locale.other()).map(|it| it.amount).filter(|it| *it != number.amount);
        Value::Amount { number, measured, other, is_about }
    }

    /// A number with what it counts.
    fn amount(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        let text = chunk.text.trim_start_matches(['~', '≈']);
        let (symbol, text) = match text.chars().next().and_then(currency_of) {
            Some(code) => (Some(code), text.trim_start_matches(|c| currency_of(c).is_some())),
            None => match text.strip_prefix("US$") {
                Some(rest) => (Some("USD"), rest),
                None => (None, text),
            },
        };
        let is_number = |c: char| {
            c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}')
        };
        let sign = text.len() - text.trim_start_matches(['-', '\u{2212}', '+']).len();
        let body = text.get(sign..)?;
        let end = sign + body.find(|c| !is_number(c)).unwrap_or(body.len());
        let (digits, suffix) = text.split_at_checked(end)?;
        let digits_only = digits.trim_end_matches(['.', ',']);
        let (number, joined) = self.spaced(at, Number::read(digits_only, self.locale)?, digits_only, suffix);
        let value_at = at + joined;
        if let Some(code) = symbol {
            let (number, taken) = match suffix {
                "" => self.scaled(value_at, number),
                "k" | "K" => (number.times_power_of_ten(3)?, 0),
                "M" | "m" => (number.times_power_of_ten(6)?, 0),
                _ => return None,
            };
            let value = self.amount_of(at, digits_only, number, Measured::Unit(Unit::money(code)));
            return Some(self.push(at, value_at + taken, value));
        }
        if !suffix.is_empty() {
            // As `df` writes sizes; in a document it may be anything.
            let suffix = match (self.reads, suffix) {
                (Reads::Measures, "K") => "KB",
                (Reads::Measures, "M") => "MB",
                (Reads::Measures, "G") => "GB",
                (Reads::Measures, "T") => "TB",
                (_, suffix) => suffix,
            };
            // `42%`, `42GB`, `42€`. `24-hour` says what kind of thing it is.
            let word = suffix;
            if word.starts_with('-') {
                return word.trim_start_matches('-').chars().all(char::is_alphabetic).then_some(1);
            }
            let mut symbol = word.chars();
            let unit = match (symbol.next().and_then(currency_of), symbol.next()) {
                (Some(code), None) => Unit::money(code),
                _ => Unit::named(word.split('/').next()?)?,
            };
            let value = self.amount_of(at, digits_only, number, Measured::Unit(unit));
            return Some(self.push(at, value_at, value));
        }
        let (number, taken) = self.scaled(value_at, number);
        let last = value_at + taken;
        let measured = self.measured(last);
        let taken = usize::from(!matches!(measured, Measured::Nothing));
        let is_day_unit =
            matches!(&measured, Measured::Unit(unit) if Unit::named("day").is_some_and(|day| day == *unit));
        if is_day_unit
            && self.get(last + 2).is_some_and(|it| it.text.eq_ignore_ascii_case("ago"))
            && let Some(days) = number.amount.to_whole().and_then(|days| i64::try_from(days).ok())
        {
            return Some(self.push(at, last + 2, Value::RelativeDay(-days)));
        }
        // In a document a small number alone counts steps and parts of it.
        let is_alone = measured == Measured::Nothing && digits_only.len() < 2 && self.reads == Reads::All;
        if is_alone && !self.is_part_of_another(last) {
            return Some(1);
        }
        if let Some((whole, to)) = self.duration(last, number, &measured) {
            let value = self.amount_of(at, "", whole, Measured::Unit(Unit::SECONDS));
            return Some(self.push(at, to, value));
        }
        let is_unspaced = taken > 0
            && self.get(last + 1).is_some_and(|it| it.is_joined && it.text.starts_with(is_unspaced));
        let bytes = if is_unspaced { self.unit_length(last + 1, &measured) } else { usize::MAX };
        let value = self.amount_of(at, digits_only, number, measured);
        Some(self.push_to(at, last + taken, bytes, value))
    }

    /// How many bytes of a chunk without spaces are the unit.
    fn unit_length(&self, at: usize, measured: &Measured) -> usize {
        let Some(chunk) = self.get(at) else { return 0 };
        match measured {
            Measured::Unit(_) => {
                let mut ends = chunk.text.char_indices().map(|(at, c)| at + c.len_utf8()).take(4);
                let length =
                    ends.by_ref().filter(|end| chunk.text.get(..*end).and_then(Unit::named).is_some()).last();
                length.unwrap_or(chunk.text.len())
            }
            Measured::Nothing | Measured::Noun(_) => chunk.text.chars().next().map_or(0, char::len_utf8),
        }
    }

    /// `12 min 14 s`: all of it in seconds, and its last chunk. `last` is the chunk of the first number.
    fn duration(&self, last: usize, first: Number, measured: &Measured) -> Option<(Number, usize)> {
        let Measured::Unit(unit) = measured else { return None };
        let mut smallest = unit.seconds()?;
        let mut total = first.amount.times(smallest)?;
        let mut to = last + 1;
        // The parts go from large to small, so there are few.
        while matches!(self.get(to).map(|it| it.after), Some("" | "." | ","))
            && let Some(next) = self.get(to + 1).filter(|it| it.before.is_empty())
            && let Some(part) = Number::read(next.text, self.locale)
            && let Measured::Unit(unit) = self.measured(to + 1)
            && let Some(seconds) = unit.seconds().filter(|seconds| *seconds < smallest)
        {
            total = total.plus(part.amount.times(seconds)?)?;
            (smallest, to) = (seconds, to + 2);
        }
        let whole = Number { amount: total, places: 0, significant: 1 };
        (to > last + 1).then_some((whole, to))
    }

    /// A number whose thousands are set apart by plain spaces, and how many more chunks it has.
    fn spaced(&self, at: usize, number: Number, digits: &str, suffix: &str) -> (Number, usize) {
        if !self.locale.spaces_thousands() || !suffix.is_empty() || !(1..=3).contains(&digits.len()) {
            return (number, 0);
        }
        let mut whole = digits.to_owned();
        let (mut best, mut more) = (number, 0);
        while let Some(next) = self.next(at + more) {
            let is_group =
                next.text.get(..3).is_some_and(|group| group.bytes().all(|byte| byte.is_ascii_digit()));
            if !is_group || more > 8 {
                break;
            }
            whole = format!("{whole} {}", next.text);
            let Some(read) = Number::read(&whole, self.locale) else { break };
            (best, more) = (read, more + 1);
        }
        (best, more)
    }

    /// Whether a number is the first of `3 of 12`.
    fn is_part_of_another(&self, at: usize) -> bool {
        let is_of =
            self.next(at).is_some_and(|next| matches!(next.text, "of" | "out" | "von" | "sur" | "de"));
        let after = [2, 3, 4].iter().filter_map(|more| self.get(at + more));
        is_of && after.take(3).any(|it| it.text.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// What the chunk after a number says that it counts.
    fn measured(&self, at: usize) -> Measured {
        let Some(next) = self.next(at) else {
            // A symbol is punctuation where nothing else is in its chunk.
            return Measured::Nothing;
        };
        let word = next.text.split(['/', '(']).next().unwrap_or_default();
        let mut symbol = word.chars();
        if let (Some(code), None) = (symbol.next().and_then(currency_of), symbol.next()) {
            return Measured::Unit(Unit::money(code));
        }
        if let Some(unit) = Unit::named(word) {
            return Measured::Unit(unit);
        }
        if next.is_joined
            && word.starts_with(is_unspaced)
            && let Some(unit) = unit_at_start(word)
        {
            return Measured::Unit(unit);
        }
        let is_small = NOT_NOUNS.contains(&&*folded(word));
        if next.is_joined
            && let Some(counter) =
                word.chars().next().filter(|c| matches!(c, '件' | '個' | '回' | '名' | '人' | '台' | '行'))
        {
            return Measured::Noun(counter.to_string().into());
        }
        let is_noun =
            !is_small && word.chars().count() > 2 && word.chars().all(|c| c.is_alphabetic() || c == '-');
        if is_noun { Measured::Noun(folded(word).into()) } else { Measured::Nothing }
    }

    /// Ids, hosts, versions and names.
    fn named(&mut self, at: usize, has_digit: bool) -> Option<usize> {
        let text = self.get(at)?.text;
        if let Some(kind) = name::kind_of(text, has_digit) {
            return Some(self.push(at, at, Value::Text { kind, words: words(text), also: None }));
        }
        let name = name::name_at(self.chunks, at, self.locale)?;
        let Some((first, last)) = name.words else { return Some(name.passed) };
        let text_of = |from: usize| {
            (from..=last)
                .filter_map(|at| self.get(at))
                .flat_map(|it| words(owner(it.text)))
                .collect::<Vec<_>>()
        };
        // A sentence begins with a capital, whatever its first word is.
        let capitals =
            (first..=last).filter_map(|at| self.get(at)).filter(|it| it.text.starts_with(char::is_uppercase));
        let also = (first == 0 && capitals.count() > 2).then(|| text_of(first + 1));
        let value = Value::Text { kind: ValueKind::Name, words: text_of(first), also };
        self.push(first, last, value);
        Some(name.passed)
    }

    /// Amounts, days and times inside of a chunk that is none as a whole: `port=443`, `user:42`.
    fn parts(&mut self, at: usize) -> usize {
        let Some(chunk) = self.get(at) else { return 0 };
        let is_all = self.reads == Reads::All;
        let is_between = |c: char| match c {
            // `24/7`.
            '/' => !is_all,
            c => matches!(c, '=' | ':' | ';' | '|' | '<' | '>' | '{' | '}' | '[' | ']' | '(' | ')' | '"'),
        };
        if !chunk.text.contains(is_between) {
            return 0;
        }
        let mut begin = 0;
        for part in chunk.text.split(is_between) {
            let from = chunk.at + begin;
            begin += part.len() + 1;
            let value = match day_of(part, self.locale) {
                Some(day) => Value::Day(day),
                None => {
                    let end = part.find(|c: char| c.is_alphabetic() || c == '%').unwrap_or(part.len());
                    let (digits, unit) = part.split_at_checked(end).unwrap_or((part, ""));
                    let is_alone = digits.len() < 2 && is_all;
                    let measured = match unit {
                        "" if !is_alone => Measured::Nothing,
                        unit => match Unit::named(unit) {
                            Some(unit) => Measured::Unit(unit),
                            None => continue,
                        },
                    };
                    let Some(number) = Number::read(digits, self.locale) else { continue };
                    self.amount_of(at, digits, number, measured)
                }
            };
            self.found.push(Found { range: from..from + part.len(), value });
        }
        1
    }
}
