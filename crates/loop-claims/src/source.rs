//! A piece of evidence as it is searched: its amounts with their fields, days, times, words, and the groups of numbers that
//! belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value as Json;

use crate::compute::Candidates;
use crate::fold::{Folded, spaced, words};
use crate::record::{NamedUnit, records, values_of_cells};
use crate::slip::{digits, is_one_off, slip_keys};
use crate::table::{Rows, lines, rows, scale_of, writes_commas};
use crate::value::{Amount, Day, FoundValue, Value, is_hash, values};
use crate::words::{Index, Unit, WORDS};

/// An amount of a source.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) amount: Amount,
    pub(crate) at: TextRange,
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
pub(crate) type Quantity = (f64, Option<f64>);

/// Where a value is in the text of its source. `None`: in its data.
pub(crate) type TextRange = Option<Range<usize>>;

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

/// Longer groups of numbers are not computed with.
pub(crate) const MAX_GROUP: usize = 60;
/// So many groups of one source are computed with.
const MAX_GROUPS: usize = 400;
/// So many days are what others are counted from.
const MAX_DAYS: usize = 64;
/// So many points in time are compared with each other.
pub(crate) const MAX_STAMPS: usize = 60;

#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) fields: Vec<Box<str>>,
    /// The units of its amounts, each once.
    pub(crate) units: Vec<Unit>,
    /// The numbers as they are written, in order, each with its entry.
    raw: Vec<(f64, u32)>,
    /// Those with a unit, in the base unit of their dimension.
    base: Vec<(f64, u32)>,
    /// The first days, in their order.
    pub(crate) days: Vec<Day>,
    /// Each day, month and year that it names, with its first place.
    dates: Index<DateKey, TextRange>,
    /// Each time that it names, with its first place.
    times: Index<TimeKey, TextRange>,
    /// Seconds since 1970 of its days with their times.
    pub(crate) stamps: Vec<i64>,
    /// Numbers that belong together: columns, rows, lines, records.
    groups: Vec<Vec<f64>>,
    /// How many there are of something: entries of a list, rows, lines, equal values of a column.
    pub(crate) counts: BTreeSet<u64>,
    /// The patterns that it has, each with its first place in the text.
    pub(crate) has: BTreeMap<usize, TextRange>,
    /// Names that fields of its records have, by each of their words.
    pub(crate) names: BTreeMap<Box<str>, Box<str>>,
    /// Whether it is a text without data and tables.
    pub(crate) is_prose: bool,
    /// Whether it has data: an object or a list.
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
    pub(crate) of_record: NamedUnit,
    candidates: [OnceLock<Candidates>; 2],
    slips: OnceLock<Index<String, usize>>,
}

/// The first letters of a word: enough to know it again in another form.
pub(crate) fn stem(word: &str) -> Box<str> {
    word.chars().take(5).collect()
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
    /// Reads a text and data. `start`: when the run started, which durations are counted to, in seconds since 1970.
    pub(crate) fn read(text: &str, data: Option<&Json>, patterns: &Patterns, start: Option<i64>) -> Self {
        let mut source = Self { text: text.to_owned(), scale: 1.0, ..Self::default() };
        source.has_data = data.is_some_and(|data| data.is_object() || data.is_array());
        source.read_text(text, patterns);
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
        let begin = folded
            .text
            .get(..folded.text.floor_char_boundary(3_000.min(folded.text.len())))
            .unwrap_or_default();
        let rows = rows(&folded.text);
        self.scale = scale_of(begin, !rows.rows.is_empty());
        self.is_prose = !self.has_data && rows.rows.len() < 3;
        self.read_rows(&folded, &rows, true);
    }

    /// Reads the values of a text with its tables. `has_places`: whether places in it are places of the source.
    pub(crate) fn read_rows(
        &mut self,
        folded: &Folded<'_>,
        Rows { rows, are_delimited }: &Rows,
        has_places: bool,
    ) {
        self.note_absent(&folded.text);
        let found = match are_delimited {
            true => values_of_cells(&folded.text, rows),
            false => values(&folded.text, writes_commas(&folded.text)),
        };
        self.take(has_places.then_some(folded), folded, &found);
        if *are_delimited {
            self.relate(&records(&folded.text, rows).iter().collect::<Vec<_>>());
        }
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
        let mut columns: Vec<Vec<Quantity>> = Vec::new();
        let mut entries: BTreeMap<&str, u64> = BTreeMap::new();
        for row in rows {
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
    pub(crate) fn take(&mut self, places: Option<&Folded<'_>>, folded: &Folded<'_>, found: &[FoundValue]) {
        let mut last_day: Option<(Day, usize)> = None;
        for FoundValue { range, value } in found {
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

    pub(crate) fn day(&mut self, day: Day, at: TextRange) {
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

    pub(crate) fn time(&mut self, seconds: u32, is_exact: bool, at: TextRange) {
        let minute = seconds / 60;
        let exact = if is_exact { TimeKey::Second(seconds) } else { TimeKey::AnySecond(minute) };
        for key in [exact, TimeKey::Minute(minute), TimeKey::Zoned(minute % 30)] {
            self.times.entry(key).or_insert_with(|| at.clone());
        }
    }

    /// Where it names a day: the same day, month and year, as far as the asked one says them.
    pub(crate) fn place_of_day(&self, asked: &Day) -> Option<&TextRange> {
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

    pub(crate) fn place_of_year(&self, year: i32) -> Option<&TextRange> {
        self.dates.get(&DateKey::Year(year))
    }

    /// Where it names a time of day, with 12 or 24 hours.
    pub(crate) fn place_of_time(&self, seconds: u32, is_exact: bool, is_zoned: bool) -> Option<&TextRange> {
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
    pub(crate) fn note_absent(&mut self, folded: &str) {
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
    pub(crate) fn group(&mut self, numbers: &[Quantity]) {
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

    fn index(&mut self, start: Option<i64>) {
        let order = |list: &mut Vec<(f64, u32)>| list.sort_by(|one, two| one.0.total_cmp(&two.0));
        for (at, entry) in self.entries.iter().enumerate() {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let Amount { number, other, unit, .. } = entry.amount;
            self.units.extend(unit.filter(|unit| !self.units.contains(unit)));
            for number in std::iter::once(number).chain(other) {
                self.raw.push((number, at));
                if self.scale != 1.0 && entry.at.is_some() {
                    self.raw.push((number * self.scale, at));
                }
                self.base.extend(unit.map(|unit| (number * unit.factor, at)));
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
