//! The reader of values: what begins at a chunk.

use crate::chunk::{Chunk, with_folded};
use crate::date::{Day, Timestamp, compact_day, day_of, exchanged, instant_of};
use crate::decimal::{Decimal, Number};
use crate::name;
use crate::unit::Unit;
use crate::value::{Found, Measured, Reads, Value, ValueKind, words};
use loop_core::types::{Locale, is_unspaced};

/// What follows a name in Japanese.
const NAME_ENDS: &[&str] =
    &["様", "さん", "氏", "は", "が", "の", "で", "と", "に", "を", "も", "によ", "から"];

fn is_han(c: char) -> bool {
    matches!(c, '\u{3005}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

fn first_length(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// The seconds of `PT14M22S`.
fn iso_duration(text: &str) -> Option<Decimal> {
    let mut rest = text.strip_prefix("PT")?;
    let mut total = Decimal::whole(0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, unit) = rest.split_at_checked(end)?;
        let seconds = match unit.get(..1)? {
            "H" => 3_600,
            "M" => 60,
            "S" => 1,
            _ => return None,
        };
        total = total.plus(Decimal::of_json(number)?.times(seconds)?)?;
        rest = unit.get(1..)?;
    }
    Some(total)
}

/// The seconds of `1h23m`, `12m40s`, `3d4h`, `2h05`: parts from large to small, two at least.
fn compact_duration(text: &str) -> Option<Decimal> {
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    let is_short = (4..=16).contains(&text.len()) && text.is_ascii();
    if !begins || !is_short || !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    let (mut rest, mut total, mut largest, mut parts) = (text, Decimal::whole(0), u64::MAX, 0);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, behind) = rest.split_at_checked(digits).filter(|_| (1..=4).contains(&digits))?;
        let letters = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, behind) = behind.split_at_checked(letters)?;
        let seconds = match unit {
            "d" => 86_400,
            "h" | "hr" | "hrs" => 3_600,
            "m" | "min" | "mins" => 60,
            "s" | "sec" => 1,
            // `2h05`.
            "" if largest == 3_600 && number.len() == 2 && behind.is_empty() => 60,
            _ => return None,
        };
        if seconds >= largest {
            return None;
        }
        total = total.plus(Decimal::of_json(number)?.times(seconds)?)?;
        (largest, parts, rest) = (seconds, parts + 1, behind);
    }
    (parts > 1).then_some(total)
}

/// A name without the ending of what belongs to it, and without the article before it in French.
fn owner(text: &str) -> &str {
    let text = name::without_article(text);
    text.strip_suffix("'s").or_else(|| text.strip_suffix("\u{2019}s")).unwrap_or(text)
}

pub(super) struct Reader<'a> {
    pub(super) chunks: &'a [Chunk<'a>],
    pub(super) locale: Locale,
    /// The run's offset from UTC, in minutes.
    pub(super) clock: i32,
    pub(super) reads: Reads,
    pub(super) found: Vec<Found>,
}

impl<'a> Reader<'a> {
    pub(super) fn get(&self, at: usize) -> Option<&'a Chunk<'a>> {
        self.chunks.get(at)
    }

    /// The chunk after this one, where nothing but a space is between them.
    pub(super) fn next(&self, at: usize) -> Option<&'a Chunk<'a>> {
        let next = self.get(at + 1)?;
        (self.get(at)?.after.is_empty() && next.before.is_empty()).then_some(next)
    }

    pub(super) fn push(&mut self, from: usize, to: usize, value: Value) -> usize {
        let (Some(first), Some(last)) = (self.get(from), self.get(to)) else { return 1 };
        self.found.push(Found { range: first.at..last.end(), value });
        to - from + 1
    }

    /// As [`push`](Self::push), of a value that ends so many bytes after the begin of its last chunk: in a text without spaces
    /// the sentence continues in it.
    pub(super) fn push_to(&mut self, from: usize, to: usize, bytes: usize, value: Value) -> usize {
        let (Some(first), Some(last)) = (self.get(from), self.get(to)) else { return 1 };
        self.found.push(Found { range: first.at..last.at + bytes.min(last.text.len()), value });
        // The rest of the last chunk may be the begin of a name.
        if bytes < last.text.len() { to - from } else { to - from + 1 }
    }

    /// Reads what begins at a chunk. Returns how many chunks it has; 0: nothing begins here.
    pub(super) fn read(&mut self, at: usize) -> usize {
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
            if !has_digit
                && let Some(read) = self
                    .relative(at, text)
                    .or_else(|| self.japanese_name(at))
                    .or_else(|| self.number_word(at))
            {
                return read;
            }
        }
        let is_lettered = text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
        if has_digit && is_lettered {
            if let Some(read) = self
                .iso_duration(at, text)
                .or_else(|| self.part_of_year(at, text))
                .or_else(|| self.amount(at))
            {
                return read;
            }
        } else if has_digit {
            if let Some(instant) = instant_of(text, self.locale) {
                return self.instant(at, instant);
            }
            if self.reads == Reads::Measures {
                self.short_forms(at, text);
            }
            if let Some(read) = self.days_of_range(at, text) {
                return read;
            }
            // The point of `26.11.` is punctuation of the chunk.
            let is_pointed = self.locale == Locale::De && chunk.after.starts_with('.');
            let pointed = || is_pointed.then(|| day_of(&format!("{text}."), self.locale)).flatten();
            if let Some(day) = day_of(text, self.locale).or_else(pointed).or_else(|| compact_day(text)) {
                // Evidence has the order of its own country.
                if self.reads == Reads::Measures
                    && let Some(other) = exchanged(text, day)
                {
                    self.push(at, at, Value::Day(other));
                }
                return self.push(at, at, Value::Day(day));
            }
            if let Some(seconds) = compact_duration(text) {
                let number = Number { amount: seconds, places: 0, significant: 1 };
                let value = self.amount_of(at, "", number, Measured::Unit(Unit::SECONDS));
                let is_open = text.ends_with(|c: char| c.is_ascii_digit());
                // `17h42` is a time as well, and in a document that only.
                if is_open && let Some(read) = self.time(at, text) {
                    if self.reads == Reads::Measures {
                        self.push(at, at, value);
                    }
                    return read;
                }
                return self.push(at, at, value);
            }
            // `2028-04` names a year.
            if self.reads == Reads::Measures
                && let Some((year, month)) = text.split_once('-')
                && (year.len(), month.len()) == (4, 2)
                && let (Ok(year), Ok(1..=12)) = (year.parse::<u64>(), month.parse::<u32>())
            {
                return self.push(at, at, Value::whole(year));
            }
            let read = self.time(at, text).or_else(|| self.written_day(at));
            let read = read.or_else(|| (self.reads == Reads::All).then(|| self.day_alone(at)).flatten());
            if let Some(read) = read.or_else(|| self.amount(at)) {
                return read;
            }
            if self.reads == Reads::Measures
                && let Some(read) = self.day_number(at, text)
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

    /// `PT14M22S` of evidence.
    fn iso_duration(&mut self, at: usize, text: &str) -> Option<usize> {
        let seconds = iso_duration(text).filter(|_| self.reads == Reads::Measures)?;
        let number = Number { amount: seconds, places: 0, significant: 1 };
        let value = self.amount_of(at, "", number, Measured::Unit(Unit::SECONDS));
        Some(self.push(at, at, value))
    }

    /// `mid-2031` names a year.
    fn part_of_year(&mut self, at: usize, text: &str) -> Option<usize> {
        // The year has four digits.
        let end = text.len().checked_sub(5).filter(|_| (7..=11).contains(&text.len()))?;
        if text.as_bytes().get(end) != Some(&b'-') {
            return None;
        }
        let (word, year) = text.split_once('-')?;
        let is_part = |word: &str| {
            matches!(word, "mid" | "early" | "late" | "end" | "mitte" | "anfang" | "ende" | "mi" | "fin")
        };
        let year: u64 =
            (year.len() == 4 && with_folded(word, is_part)).then(|| year.parse().ok()).flatten()?;
        Some(self.push(at, at, Value::whole(year)))
    }

    /// An instant: its day and its time. Of evidence by the clock of the run too, and in UTC.
    fn instant(&mut self, at: usize, instant: Timestamp) -> usize {
        if self.reads == Reads::Measures {
            for (day, time) in instant.readings(self.clock) {
                for value in day.map(Value::Day).into_iter().chain(time.map(Value::Time)) {
                    self.push(at, at, value);
                }
            }
            return 1;
        }
        self.push(at, at, Value::Day(instant.day));
        self.clock_time(at, at, instant.time, instant.offset)
    }

    /// E-mail addresses and addresses of the internet.
    fn address(&mut self, at: usize, text: &str) -> Option<usize> {
        if !text.bytes().any(|byte| matches!(byte, b'@' | b':')) {
            return None;
        }
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

    /// `佐藤 美咲さん`: characters of names around one space, before an ending.
    fn japanese_name(&mut self, at: usize) -> Option<usize> {
        let (first, second) = (self.get(at)?, self.next(at)?);
        let is_name = |c: char| is_han(c) || is_unspaced(c);
        if second.is_joined || !first.text.ends_with(is_han) || !second.text.starts_with(is_name) {
            return None;
        }
        let family_at = first.text.rfind(|c: char| !is_han(c));
        let family_at = family_at.map_or(0, |at| at + first.text.get(at..).map_or(0, first_length));
        let family = first.text.get(family_at..)?;
        let ends = second.text.char_indices().find(|(at, _)| {
            second.text.get(*at..).is_some_and(|rest| NAME_ENDS.iter().any(|end| rest.starts_with(end)))
        });
        let given = second.text.get(..ends.map_or(second.text.len(), |(at, _)| at))?;
        let is_short = |text: &str| (1..=3).contains(&text.chars().count());
        if !is_short(family) || !is_short(given) {
            return None;
        }
        let words = vec![family.into(), given.into()];
        let range = first.at + family_at..second.at + given.len();
        self.found.push(Found { range, value: Value::Text { kind: ValueKind::Name, words, also: None } });
        Some(1)
    }

    /// Ids, hosts, versions and names.
    fn named(&mut self, at: usize, has_digit: bool) -> Option<usize> {
        let text = self.get(at)?.text;
        if let Some(kind) = name::kind_of(text, has_digit) {
            return Some(self.push(at, at, Value::Text { kind, words: words(text), also: None }));
        }
        let name = name::name_at(self.chunks, at, self.locale)?;
        let Some((first, last)) = name.words else { return Some(name.passed) };
        let end = self.get(last)?.end();
        let text_of = |from: usize| {
            (from..=last)
                .filter_map(|at| self.get(at))
                .flat_map(|it| match it.end() == end {
                    true => words(owner(it.text)),
                    // `Caulker's Wynd` is a name as it is.
                    false => words(name::without_article(it.text)),
                })
                .collect::<Vec<_>>()
        };
        // A sentence begins with a capital, whatever its first word is.
        let capitals =
            (first..=last).filter_map(|at| self.get(at)).filter(|it| it.text.starts_with(char::is_uppercase));
        // A role may be before a name: `Koordination Liesbeth Kranz`.
        let is_long = capitals.count() > 2;
        // `M. Halloran` is `Margaret Halloran`.
        let is_initial = self.get(first).is_some_and(|it| it.text.chars().count() == 1);
        let also = (is_long || is_initial && last > first).then(|| text_of(first + 1));
        let value = Value::Text { kind: ValueKind::Name, words: text_of(first), also };
        self.push(first, last, value);
        Some(name.passed)
    }

    /// `the 29th` of evidence or of the work item: a day of any month.
    fn day_number(&mut self, at: usize, text: &str) -> Option<usize> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_ordinal = matches!(text.get(digits.len()..)?, "st" | "nd" | "rd" | "th");
        let day: u32 = (is_ordinal && digits.len() <= 2).then(|| digits.parse().ok()).flatten()?;
        (1..=31).contains(&day).then(|| self.push(at, at, Value::Day(Day { year: None, month: 0, day })))
    }

    /// `60-119 min`: both numbers.
    fn range(&mut self, at: usize, text: &str) -> Option<usize> {
        if text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) {
            return None;
        }
        let (first, second) = text.split_once(['-', '\u{2013}'])?;
        let ends = Number::read(first, self.locale).zip(Number::read(second, self.locale))?;
        let measured = self.measured(at);
        for number in [ends.0, ends.1] {
            let value = self.amount_of(at, "", number, measured.clone());
            self.push(at, at, value);
        }
        Some(1)
    }

    /// Amounts, days and times inside of a chunk that is none as a whole: `port=443`, `user:42`.
    fn parts(&mut self, at: usize) -> usize {
        let Some(chunk) = self.get(at) else { return 0 };
        let is_all = self.reads == Reads::All;
        let is_between = |c: char| match c {
            // `24/7`.
            '/' => !is_all,
            ',' => !is_all,
            c => matches!(c, '=' | ':' | ';' | '|' | '<' | '>' | '{' | '}' | '[' | ']' | '(' | ')' | '"'),
        };
        if !is_all && let Some(read) = self.range(at, chunk.text) {
            return read;
        }
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
