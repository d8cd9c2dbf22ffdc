//! A piece of evidence as it is searched: its amounts with their fields, days, times, words, and the groups of numbers that
//! belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value as Json};

use crate::compute::Candidates;
use crate::fold::{Folded, spaced, words};
use crate::value::{Amount, Day, Found, Value, values};
use crate::words::{Index, Unit, WORDS};

/// An amount of a source.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) amount: Amount,
    /// Where it is in the source's text. `None`: in its data.
    pub(crate) at: Option<Range<usize>>,
    /// The path of its field in the data, in [`Source::fields`].
    pub(crate) field: Option<usize>,
}

/// The texts that are searched word by word: ids, quotations and the words of names.
#[derive(Debug)]
pub(crate) struct Patterns {
    automaton: Option<AhoCorasick>,
}

impl Patterns {
    pub(crate) fn new(texts: &[String]) -> Self {
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(texts).ok();
        Self { automaton: automaton.filter(|_| !texts.is_empty()) }
    }
}

/// A number, and the factor to the base unit of its dimension. `None`: it has no unit.
type Measured = (f64, Option<f64>);

/// Where a value is in the text of its source. `None`: in its data.
pub(crate) type Place = Option<Range<usize>>;

/// What a day may be asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DateKey {
    Year(i32),
    /// A month, and its year if both say it.
    Month(u8, Option<i32>),
    Day(u8, u8, Option<i32>),
    /// A day of the evidence that has no year.
    AnyYear(u8, u8),
}

/// What a time of day may be asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TimeKey {
    Second(u32),
    /// Of a time whose seconds are not written.
    Minute(u32),
    AnySecond(u32),
    /// Of any zone: minutes within the half hour.
    Zoned(u32),
}

/// In longer groups of numbers pairs are not searched.
const MAX_GROUP: usize = 60;
const MAX_GROUPS: usize = 400;
/// So many fields of a record are multiplied with each other.
const MAX_FACTORS: usize = 4;
/// So many fields of a record are what its numbers are grouped by.
const MAX_MARKS: usize = 6;
/// So many days are what others are counted from.
const MAX_DAYS: usize = 64;
/// So many points in time are compared with each other.
const MAX_STAMPS: usize = 60;

#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) fields: Vec<Box<str>>,
    /// The numbers as they are written, in order, each with its entry.
    raw: Vec<(f64, u32)>,
    /// Those with a unit, in the base unit of their dimension.
    base: Vec<(f64, u32)>,
    /// The first days, in their order.
    pub(crate) days: Vec<Day>,
    /// Each day, month and year that it names, with its first place.
    dates: Index<DateKey, Place>,
    /// Each time that it names, with its first place.
    times: Index<TimeKey, Place>,
    /// Seconds since 1970 of its days with their times.
    pub(crate) stamps: Vec<i64>,
    pub(crate) groups: Vec<Vec<f64>>,
    /// How many there are of something: entries of a list, rows, lines, equal values of a column.
    pub(crate) counts: BTreeSet<u64>,
    /// The patterns that it has, each with its first place in the text.
    pub(crate) has: BTreeMap<usize, Option<Range<usize>>>,
    /// Names that fields of its records have, by each of their words.
    pub(crate) names: BTreeMap<Box<str>, Box<str>>,
    /// Whether it is a text without data and tables.
    pub(crate) is_prose: bool,
    pub(crate) has_data: bool,
    /// The forms of its ids.
    pub(crate) forms: BTreeSet<Box<str>>,
    pub(crate) currencies: BTreeSet<&'static str>,
    /// The first letters of the words near one that says that there is none.
    pub(crate) absent: BTreeSet<Box<str>>,
    /// Whether the tool said that there is nothing.
    pub(crate) is_empty: bool,
    /// What a caption says that its numbers are in: `in thousands`.
    pub(crate) scale: f64,
    /// The same groups in the base units of their numbers, where any has one.
    in_base: Vec<Vec<f64>>,
    /// The unit and the currency that a field of the record says for its numbers.
    of_record: (Option<Unit>, Option<&'static str>),
    candidates: [OnceLock<Candidates>; 2],
    slips: OnceLock<Index<String, usize>>,
}

/// The first letters of a word: enough to know it again in another form.
pub(crate) fn stem(word: &str) -> Box<str> {
    word.chars().take(5).collect()
}

/// Whether it is a number of a commit, or another one in hexadecimal digits.
pub(crate) fn is_hash(id: &str) -> bool {
    id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The form of an id: `a-9` of `AC-57173`.
pub(crate) fn form(id: &str) -> Box<str> {
    if is_hash(id) {
        return "hash".into();
    }
    if id.contains('@') {
        return "@".into();
    }
    let mut form = String::new();
    for c in id.chars() {
        let kind = if c.is_ascii_digit() {
            '9'
        } else if c.is_alphabetic() {
            'a'
        } else {
            c
        };
        if !(kind.is_alphanumeric() && form.ends_with(kind)) {
            form.push(kind);
        }
    }
    form.into()
}

impl Source {
    /// Reads a text and data. `day`: the start of the run, which spans are counted from, in seconds since 1970.
    pub(crate) fn read(text: &str, data: Option<&Json>, patterns: &Patterns, start: Option<i64>) -> Self {
        let mut source = Self { text: text.to_owned(), scale: 1.0, ..Self::default() };
        source.read_text(text, patterns);
        source.has_data = data.is_some_and(|data| data.is_object() || data.is_array());
        source.is_prose = !source.has_data && rows(text).len() < 3;
        if let Some(data) = data {
            let mut seen = String::new();
            source.walk(data, &mut Vec::new(), &mut seen);
            source.find(&Folded::of(&seen), patterns, false);
        }
        source.index(start);
        source
    }

    fn read_text(&mut self, text: &str, patterns: &Patterns) {
        let folded = Folded::of(text);
        self.find(&folded, patterns, true);
        self.note_absent(&folded.text);
        let begin = folded
            .text
            .get(..folded.text.floor_char_boundary(3_000.min(folded.text.len())))
            .unwrap_or_default();
        let rows = rows(&folded.text);
        self.scale = scale_of(begin, !rows.is_empty());
        let comma = writes_commas(&folded.text);
        let found = values(&folded.text, comma);
        self.take(Some(&folded), &folded, &found);
        // Rows, columns and lines of numbers.
        let numbers = |range: &Range<usize>| {
            let from = found.partition_point(|it| it.range.start < range.start);
            let end = range.end;
            found.iter().skip(from).take_while(move |it| it.range.end <= end).filter_map(|it| {
                match it.value {
                    Value::Amount(amount) => Some((amount.number, amount.unit.map(|unit| unit.factor))),
                    _ => None,
                }
            })
        };
        let mut columns: Vec<Vec<Measured>> = Vec::new();
        let mut entries: BTreeMap<&str, u64> = BTreeMap::new();
        for row in &rows {
            self.group(&row.iter().flat_map(numbers).collect::<Vec<_>>());
            for (at, cell) in row.iter().enumerate() {
                if columns.len() <= at {
                    columns.push(Vec::new());
                }
                if let Some(column) = columns.get_mut(at) {
                    column.extend(numbers(cell).next());
                }
                *entries.entry(folded.text.get(cell.clone()).unwrap_or_default().trim()).or_default() += 1;
            }
        }
        self.counts.extend(entries.values());
        let lines: Vec<Range<usize>> = lines(&folded.text).collect();
        if rows.is_empty() {
            let mut last = Vec::new();
            for line in &lines {
                let of_line: Vec<_> = numbers(line).collect();
                last.extend(of_line.last());
                self.group(&of_line);
            }
            columns.push(last);
        }
        columns.iter().for_each(|column| self.group(column));
        let count = |all: usize| u64::try_from(all).unwrap_or(0);
        self.counts.insert(count(lines.len()));
        self.counts.insert(count(rows.len().saturating_sub(1)));
    }

    /// Notes what was read of a text. `places`: the text, if places in it are places of the source.
    fn take(&mut self, places: Option<&Folded<'_>>, folded: &Folded<'_>, found: &[Found]) {
        let mut last_day: Option<(Day, usize)> = None;
        for Found { range, value } in found {
            let at = places.map(|places| places.range(range.clone()));
            match value {
                Value::Amount(amount) => self.entries.push(Entry { amount: *amount, at, field: None }),
                Value::Day(day) => {
                    self.day(*day, at);
                    last_day = Some((*day, range.end));
                    self.stamps.extend(day.number().map(|it| it * 86_400));
                }
                Value::Time(seconds, is_exact) => {
                    self.time(*seconds, *is_exact, at);
                    let of_day = last_day.filter(|(_, end)| range.start.saturating_sub(*end) < 8);
                    let day = of_day.map_or(Some(0), |(day, _)| day.number());
                    if of_day.is_some() {
                        self.stamps.pop();
                    }
                    self.stamps.extend(day.map(|it| it * 86_400 + i64::from(*seconds)));
                }
                Value::Span(seconds) => {
                    let unit = WORDS.units.get("s").copied();
                    let amount = Amount { unit, step: 1.0, digits: 4, ..Amount::plain(*seconds) };
                    self.entries.push(Entry { amount, at, field: None });
                }
                Value::Id => {
                    self.forms.insert(form(folded.text.get(range.clone()).unwrap_or_default()));
                }
                Value::Period => {}
            }
        }
    }

    fn day(&mut self, day: Day, at: Place) {
        if self.days.len() < MAX_DAYS {
            self.days.push(day);
        }
        let Day { year, month, day, swaps } = day;
        let mut keys = vec![DateKey::Month(month, None)];
        keys.extend(year.map(DateKey::Year));
        keys.extend(year.map(|year| DateKey::Month(month, Some(year))));
        for (month, day) in
            day.map(|day| (month, day)).into_iter().chain(day.filter(|_| swaps).map(|day| (day, month)))
        {
            keys.push(DateKey::Day(month, day, None));
            keys.push(year.map_or(DateKey::AnyYear(month, day), |year| DateKey::Day(month, day, Some(year))));
        }
        for key in keys {
            self.dates.entry(key).or_insert_with(|| at.clone());
        }
    }

    fn time(&mut self, seconds: u32, is_exact: bool, at: Place) {
        let minute = seconds / 60;
        let exact = if is_exact { TimeKey::Second(seconds) } else { TimeKey::AnySecond(minute) };
        for key in [exact, TimeKey::Minute(minute), TimeKey::Zoned(minute % 30)] {
            self.times.entry(key).or_insert_with(|| at.clone());
        }
    }

    /// Where it names a day: the same day, month and year, as far as the asked one says them.
    pub(crate) fn place_of_day(&self, asked: &Day) -> Option<&Place> {
        let Day { year, month, day, swaps } = *asked;
        let Some(day) = day else { return self.dates.get(&DateKey::Month(month, year)) };
        let of = |month: u8, day: u8| {
            self.dates
                .get(&DateKey::Day(month, day, year))
                .or_else(|| self.dates.get(&DateKey::AnyYear(month, day)))
        };
        of(month, day).or_else(|| if swaps { of(day, month) } else { None })
    }

    pub(crate) fn has_times(&self) -> bool {
        !self.times.is_empty()
    }

    pub(crate) fn place_of_year(&self, year: i32) -> Option<&Place> {
        self.dates.get(&DateKey::Year(year))
    }

    /// Where it names a time of day, with 12 or 24 hours.
    pub(crate) fn place_of_time(&self, seconds: u32, is_exact: bool, is_zoned: bool) -> Option<&Place> {
        const HALF: u32 = 43_200;
        let times = [seconds, (seconds + HALF) % (2 * HALF)];
        let keys = times.into_iter().flat_map(|it| match is_exact {
            true => [TimeKey::Second(it), TimeKey::AnySecond(it / 60)],
            false => [TimeKey::Minute(it / 60); 2],
        });
        let zoned = is_zoned.then_some(TimeKey::Zoned(seconds / 60 % 30));
        keys.chain(zoned).find_map(|key| self.times.get(&key))
    }

    /// Finds the patterns in a text, and the currencies that it names.
    fn find(&mut self, folded: &Folded<'_>, patterns: &Patterns, has_place: bool) {
        for word in folded.text.split(|c: char| !(c.is_alphabetic() || "$€£¥₹".contains(c))) {
            self.currencies.extend(WORDS.currencies.get(word).copied());
        }
        for symbol in ["$", "€", "£", "¥", "₹"] {
            if folded.text.contains(symbol) {
                self.currencies.extend(WORDS.currencies.get(symbol).copied());
            }
        }
        let Some(automaton) = &patterns.automaton else { return };
        let (text, places) = spaced(&folded.text);
        for found in automaton.find_overlapping_iter(&text) {
            self.has.entry(found.pattern().as_usize()).or_insert_with(|| {
                let of = |at: usize| {
                    let index = places.partition_point(|(to, _)| *to as usize <= at).checked_sub(1)?;
                    let (to, from) = places.get(index)?;
                    Some(*from as usize + (at - *to as usize))
                };
                let (start, end) =
                    (of(found.start() + 1)?, of(found.end().saturating_sub(2).max(found.start() + 1))?);
                has_place.then(|| folded.range(start..end + 1))
            });
        }
    }

    /// Notes the words near those that say that there is none.
    fn note_absent(&mut self, folded: &str) {
        const NEAR: usize = 12;
        let all: Vec<&str> = words(folded).filter_map(|range| folded.get(range)).collect();
        let mut until = 0;
        for (at, word) in all.iter().enumerate() {
            if WORDS.none.contains(word) || *word == "0" {
                let from = until.max(at.saturating_sub(NEAR));
                until = all.len().min(at + NEAR);
                self.absent.extend(all.get(from..until).into_iter().flatten().map(|word| stem(word)));
            }
        }
    }

    /// Numbers that belong together.
    fn group(&mut self, numbers: &[Measured]) {
        if !(2..=MAX_GROUP).contains(&numbers.len()) || self.groups.len() >= MAX_GROUPS {
            return;
        }
        self.groups.push(numbers.iter().map(|(number, _)| *number).collect());
        let with_unit: Vec<f64> =
            numbers.iter().filter_map(|(number, factor)| Some(number * (*factor)?)).collect();
        if with_unit.len() > 1 {
            self.in_base.push(with_unit);
        }
    }

    /// Reads a value of JSON. `seen` collects its texts.
    fn walk(&mut self, json: &Json, path: &mut Vec<Box<str>>, seen: &mut String) {
        match json {
            Json::Null | Json::Bool(false) => self.note_path(path),
            Json::Bool(true) => {}
            Json::Number(number) => {
                let Some(number) = number.as_f64() else { return };
                seen.push_str(&json.to_string());
                seen.push('\n');
                if number == 0.0 {
                    self.note_path(path);
                }
                self.number(number.abs(), path);
            }
            Json::String(text) => {
                seen.push_str(text);
                seen.push('\n');
                let folded = Folded::of(text);
                if text.is_empty() {
                    self.note_path(path);
                }
                self.note_absent(&folded.text);
                self.note_name(text);
                let first = self.entries.len();
                let found = values(&folded.text, writes_commas(&folded.text));
                self.take(None, &folded, &found);
                let (unit, currency) = self.unit_of(path);
                let field = self.field(path);
                for entry in self.entries.iter_mut().skip(first) {
                    entry.field = Some(field);
                    if entry.amount.is_bare() {
                        (entry.amount.unit, entry.amount.currency) = (unit, currency);
                    }
                }
            }
            Json::Array(items) => self.list(items, path, seen),
            Json::Object(members) => {
                if members.is_empty() {
                    self.note_path(path);
                }
                let around = self.of_record;
                self.of_record = said_by(members, around);
                for (name, value) in members {
                    seen.push_str(name);
                    seen.push('\n');
                    if name.contains(|c: char| c.is_ascii_digit()) {
                        let folded = Folded::of(name);
                        self.take(None, &folded, &values(&folded.text, false));
                    }
                    path.push(Folded::of(name).text.into());
                    self.walk(value, path, seen);
                    path.pop();
                }
                let parts = members.iter().filter(|(name, _)| {
                    ["first", "last", "given", "family", "surname", "vorname", "nachname"]
                        .iter()
                        .any(|it| name.contains(it))
                });
                let parts: Vec<&str> = parts.filter_map(|(_, value)| value.as_str()).collect();
                if parts.len() == 2 {
                    self.note_name(&parts.join(" "));
                }
                let numbers = members.iter().filter_map(|(name, value)| {
                    let unit = unit_of(&[Folded::of(name).text.into()]).0;
                    Some((number_of(value)?, unit.map(|unit| unit.factor)))
                });
                self.group(&numbers.collect::<Vec<_>>());
                self.of_record = around;
            }
        }
    }

    /// Notes a text that may be a name: two to four words of letters.
    fn note_name(&mut self, text: &str) {
        let folded = Folded::of(text);
        let own: Vec<&str> = words(&folded.text).filter_map(|range| folded.text.get(range)).collect();
        if (2..=4).contains(&own.len())
            && folded.text.chars().all(|c| c.is_alphabetic() || " ,.'-&".contains(c))
        {
            self.names.extend(own.iter().map(|word| ((*word).into(), text.into())));
        }
    }

    fn list(&mut self, items: &[Json], path: &mut Vec<Box<str>>, seen: &mut String) {
        self.counts.insert(u64::try_from(items.len()).unwrap_or(0));
        if items.is_empty() {
            self.note_path(path);
        }
        items.iter().for_each(|item| self.walk(item, path, seen));
        let unit = unit_of(path).0.map(|unit| unit.factor);
        self.group(&items.iter().filter_map(|it| Some((it.as_f64()?, unit))).collect::<Vec<_>>());
        let records: Vec<&Map<String, Json>> = items.iter().filter_map(Json::as_object).collect();
        let mut columns: BTreeMap<&str, Vec<&Json>> = BTreeMap::new();
        for (name, value) in records.iter().flat_map(|record| record.iter()) {
            columns.entry(name).or_default().push(value);
        }
        for (name, column) in columns {
            let in_cents = if is_cents(name) { 100.0 } else { 1.0 };
            let unit = unit_of(&[Folded::of(name).text.into()]).0.map(|unit| unit.factor);
            let numbers = column.iter().filter_map(|value| Some((number_of(value)? / in_cents, unit)));
            self.group(&numbers.collect::<Vec<_>>());
            let mut equal: BTreeMap<String, u64> = BTreeMap::new();
            for value in column {
                *equal.entry(value.to_string()).or_default() += 1;
            }
            self.counts.extend(equal.values());
        }
        self.group_by_values(&records);
        // Price and quantity: what two fields of each record multiply to.
        let fields: BTreeSet<&str> =
            records.iter().take(MAX_GROUP).flat_map(|record| record.keys().map(String::as_str)).collect();
        let number = |record: &Map<String, Json>, field: &str| {
            let in_cents = if is_cents(field) { 100.0 } else { 1.0 };
            record.get(field).and_then(Json::as_f64).map(|number| number.abs() / in_cents)
        };
        let numeric: Vec<&str> = fields
            .into_iter()
            .filter(|field| records.iter().any(|record| number(record, field).is_some()))
            .take(MAX_FACTORS)
            .collect();
        for (at, one) in numeric.iter().enumerate() {
            for other in numeric.iter().skip(at + 1) {
                let products = records
                    .iter()
                    .filter_map(|record| Some((number(record, one)? * number(record, other)?, None)));
                self.group(&products.take(MAX_GROUP).collect::<Vec<_>>());
            }
        }
    }

    /// The numbers of the records that have one value in a field: the amounts of the orders that are late.
    fn group_by_values(&mut self, records: &[&Map<String, Json>]) {
        let mut groups: BTreeMap<(&str, String, &str), Vec<Measured>> = BTreeMap::new();
        for record in records.iter().take(MAX_GROUP) {
            let marks = record
                .iter()
                .filter(|(_, value)| value.is_boolean() || value.as_str().is_some_and(|it| it.len() < 40));
            for (name, mark) in marks.take(MAX_MARKS) {
                for (field, value) in record.iter().filter(|(_, value)| value.is_number()).take(MAX_MARKS) {
                    let unit = unit_of(&[Folded::of(field).text.into()]).0.map(|unit| unit.factor);
                    let in_cents = if is_cents(field) { 100.0 } else { 1.0 };
                    let number = value.as_f64().unwrap_or(0.0).abs() / in_cents;
                    groups.entry((name, mark.to_string(), field)).or_default().push((number, unit));
                }
            }
        }
        groups.values().filter(|it| it.len() < records.len()).for_each(|group| self.group(group));
    }

    /// What the name of a field says of its number, else what its record says.
    fn unit_of(&self, path: &[Box<str>]) -> (Option<Unit>, Option<&'static str>) {
        match unit_of(path) {
            (None, None) => self.of_record,
            said => said,
        }
    }

    fn number(&mut self, number: f64, path: &[Box<str>]) {
        let (unit, currency) = self.unit_of(path);
        let field = Some(self.field(path));
        let name = path.last().map_or("", |name| name);
        let mut add = |number: f64| {
            let amount = Amount { unit, currency, ..Amount::plain(number) };
            self.entries.push(Entry { amount, at: None, field });
        };
        add(number);
        if is_cents(name) {
            add(number / 100.0);
        }
        // Seconds or milliseconds since 1970.
        let is_instant = name.split('_').any(|part| {
            matches!(
                part,
                "at" | "ts" | "time" | "date" | "timestamp" | "epoch" | "unix" | "ms" | "until" | "since"
            )
        });
        let seconds = match number {
            0.9e9..4.2e9 => number,
            0.9e12..4.2e12 => number / 1_000.0,
            _ => return,
        };
        if is_instant {
            #[expect(clippy::cast_possible_truncation, reason = "it is in the range above")]
            let seconds = seconds as i64;
            self.day(Day::of_number(seconds.div_euclid(86_400)), None);
            self.time(u32::try_from(seconds.rem_euclid(86_400)).unwrap_or(0), true, None);
            self.stamps.push(seconds);
        }
    }

    fn field(&mut self, path: &[Box<str>]) -> usize {
        let name: Box<str> = path.join(".").into();
        if self.fields.last() != Some(&name) {
            self.fields.push(name);
        }
        self.fields.len() - 1
    }

    /// Notes that a field says that there is none.
    fn note_path(&mut self, path: &[Box<str>]) {
        let names = path.iter().flat_map(|name| name.split(|c: char| !c.is_alphanumeric()));
        self.absent.extend(names.filter(|it| !it.is_empty()).map(stem));
    }

    fn index(&mut self, start: Option<i64>) {
        let order = |list: &mut Vec<(f64, u32)>| list.sort_by(|one, two| one.0.total_cmp(&two.0));
        for (at, entry) in self.entries.iter().enumerate() {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let Amount { number, other, unit, .. } = entry.amount;
            for number in std::iter::once(number).chain(other) {
                self.raw.push((number, at));
                if self.scale != 1.0 && entry.at.is_some() {
                    self.raw.push((number * self.scale, at));
                }
                if let Some(unit) = unit {
                    self.base.push((number * unit.factor, at));
                }
            }
        }
        order(&mut self.raw);
        order(&mut self.base);
        self.stamps.extend(start);
        self.stamps.sort_unstable();
        self.stamps.dedup();
        self.stamps.truncate(MAX_STAMPS);
    }

    /// The entries whose number as written, or in its base unit, is at most `by` away.
    pub(crate) fn near(&self, is_base: bool, number: f64, by: f64) -> impl Iterator<Item = &Entry> {
        let list = if is_base { &self.base } else { &self.raw };
        let from = list.partition_point(|(it, _)| *it < number - by);
        let near = list.iter().skip(from).take_while(move |(it, _)| *it <= number + by).take(MAX_HITS);
        near.filter_map(|(_, at)| self.entries.get(*at as usize))
    }

    /// What may be computed of its numbers, as they are written or in the base units of their dimensions.
    pub(crate) fn candidates(&self, is_base: bool) -> &Candidates {
        let [raw, base] = &self.candidates;
        match is_base {
            false => raw.get_or_init(|| {
                let all: Vec<f64> = self.entries.iter().map(|entry| entry.amount.number).collect();
                Candidates::of(&self.groups, &all)
            }),
            true => base.get_or_init(|| {
                let all: Vec<f64> = self.base.iter().map(|(number, _)| *number).collect();
                Candidates::of(&self.in_base, &all)
            }),
        }
    }

    /// An entry whose digits are these but for one, or for two that are exchanged.
    pub(crate) fn slip(&self, amount: &Amount) -> Option<&Entry> {
        let slips = self.slips.get_or_init(|| {
            let mut slips = Index::default();
            for (at, entry) in self.entries.iter().enumerate().take(MAX_SLIPS) {
                for key in digits(&entry.amount).iter().flat_map(|digits| slip_keys(digits)) {
                    slips.entry(key).or_insert(at);
                }
            }
            slips
        });
        let near = |digits: &String| {
            slip_keys(digits).into_iter().find_map(|key| {
                let entry = self.entries.get(*slips.get(&key)?)?;
                self::digits(&entry.amount).iter().any(|other| is_one_off(digits, other)).then_some(entry)
            })
        };
        digits(amount).iter().find_map(near)
    }

    /// What the source says at an entry, in a line.
    pub(crate) fn says(&self, entry: &Entry) -> String {
        if let Some(range) = &entry.at {
            let from = self.text.floor_char_boundary(range.start.saturating_sub(40));
            let to = self.text.ceil_char_boundary((range.end + 20).min(self.text.len()));
            let line_from = self
                .text
                .get(from..range.start)
                .and_then(|it| it.rfind('\n'))
                .map_or(from, |at| from + at + 1);
            let line_to =
                self.text.get(range.end..to).and_then(|it| it.find('\n')).map_or(to, |at| range.end + at);
            return self.text.get(line_from..line_to).unwrap_or_default().trim().to_owned();
        }
        let field = entry.field.and_then(|field| self.fields.get(field)).map_or("", |field| field);
        format!("{field}: {}", entry.amount.number)
    }
}

/// Entries with one number that are compared: of many equal ones the first are enough.
const MAX_HITS: usize = 64;

/// So many entries are compared digit by digit.
const MAX_SLIPS: usize = 2_000;

/// The digits of an amount: all that are written, and without the zeros at their end.
fn digits(amount: &Amount) -> [String; 2] {
    let step = if amount.step > 0.0 { amount.step.min(1.0) } else { 1.0 };
    let written = format!("{:.0}", amount.number / step);
    let fraction = format!("{}", amount.number).replace('.', "");
    let short = fraction.trim_matches('0').to_owned();
    [written, short]
}

/// What rows of digits have in common that differ in one, or in the order of two.
fn slip_keys(digits: &str) -> Vec<String> {
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
fn is_one_off(one: &str, other: &str) -> bool {
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

/// The number of a field: a number, or the first of a text.
fn number_of(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64().map(f64::abs),
        Json::String(text) if text.len() < 40 => {
            let folded = Folded::of(text);
            let found = values(&folded.text, writes_commas(&folded.text));
            found
                .into_iter()
                .find_map(|it| if let Value::Amount(amount) = it.value { Some(amount.number) } else { None })
        }
        _ => None,
    }
}

fn is_cents(name: &str) -> bool {
    name.to_ascii_lowercase().split(['_', '-']).any(|part| matches!(part, "cent" | "cents" | "ct" | "pence"))
}

/// What fields such as `currency` and `unit` say for the other numbers of a record.
fn said_by(
    members: &Map<String, Json>,
    around: (Option<Unit>, Option<&'static str>),
) -> (Option<Unit>, Option<&'static str>) {
    let said = members
        .iter()
        .filter_map(|(name, value)| Some((Folded::of(name).text, Folded::of(value.as_str()?).text)));
    let mut found = around;
    for (name, value) in said {
        if ["curr", "devise", "wahr", "waehr", "moneda", "ccy"].iter().any(|it| name.contains(it)) {
            found.1 = WORDS.currencies.get(&*value).copied().or(found.1);
        } else if ["unit", "einheit", "unite", "unidad"].contains(&&*name) {
            found.0 = WORDS.units.get(&*value).copied().or(found.0);
        }
    }
    found
}

/// The unit and the currency that the names of a field and of those around it say, the nearest first.
fn unit_of(path: &[Box<str>]) -> (Option<Unit>, Option<&'static str>) {
    for name in path.iter().rev().take(2) {
        let all = || name.split(|c: char| !c.is_alphanumeric() && c != '%');
        let is_rate = |part: &&str| matches!(*part, "per" | "pro" | "par" | "por" | "je");
        let parts = || {
            let before = all().take_while(|part| !is_rate(part)).collect::<Vec<_>>();
            before.into_iter().rev()
        };
        let mut currencies = all().filter_map(|part| WORDS.currencies.get(part).copied());
        match (currencies.next(), currencies.next()) {
            (Some(currency), None)
                if all().any(|it| is_rate(&it)) || parts().all(|it| !WORDS.units.contains_key(it)) =>
            {
                return (None, Some(currency));
            }
            (Some(_), Some(_)) => return (None, None),
            _ => {}
        }
        let degrees = |part: &str| {
            if name.contains("temp") && matches!(part, "c" | "f") {
                WORDS.units.get(&*format!("°{part}"))
            } else {
                None
            }
        };
        if let Some(unit) = parts().find_map(|part| WORDS.units.get(part).or(degrees(part)).copied()) {
            return (Some(unit), None);
        }
    }
    (None, None)
}

/// Whether a text writes `1,5` and not `1.5`.
fn writes_commas(folded: &str) -> bool {
    let bytes = folded.as_bytes();
    let decimal = |mark: u8| {
        bytes.windows(3).enumerate().any(|(at, it)| {
            let is_after = |by: usize| bytes.get(at + by).is_some_and(u8::is_ascii_digit);
            matches!(it, [before, middle, after] if before.is_ascii_digit() && *middle == mark && after.is_ascii_digit())
                && !(is_after(3) && is_after(4))
        })
    };
    decimal(b',') && !decimal(b'.')
}

/// What a caption says that the numbers of a table are in.
fn scale_of(begin: &str, is_table: bool) -> f64 {
    let scales = [("thousand", 1e3), ("'000", 1e3), ("000s", 1e3), ("million", 1e6), ("billion", 1e9)];
    let says = |word: &str| match is_table {
        true => begin.contains(word),
        false => ["in {}", "({}", "{}s, except", "{}s of", "$ {}"]
            .iter()
            .any(|form| begin.contains(&form.replace("{}", word))),
    };
    scales.iter().find(|(word, _)| says(word)).map_or(1.0, |(_, scale)| *scale)
}

fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        (!line.trim().is_empty()).then_some(start..start + line.trim_end().len())
    })
}

/// The rows of the Markdown tables of a text, each as the ranges of its cells.
fn rows(text: &str) -> Vec<Vec<Range<usize>>> {
    let is_row = |line: &Range<usize>| {
        let line = text.get(line.clone()).unwrap_or_default();
        line.matches('|').count() > 1
            && !line.chars().all(|c| c.is_whitespace() || matches!(c, '|' | ':' | '-'))
    };
    let cells = |line: Range<usize>| {
        let part = text.get(line.clone()).unwrap_or_default();
        let inner = part.trim_start_matches(['|', ' ']);
        let mut at = line.start + (part.len() - inner.len());
        inner
            .trim_end_matches(['|', ' '])
            .split('|')
            .map(|cell| {
                let start = at;
                at += cell.len() + 1;
                start..start + cell.len()
            })
            .collect()
    };
    lines(text).filter(is_row).map(cells).collect()
}
