//! What a record of evidence has next to a value: a document that states one of two fields and what follows from both need
//! not state the other.
//!
//! Pairs are made only of a value that the document states and the other values of a record that has it, or of a piece of
//! evidence that is as small as a record.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::date::{Day, Time};
use crate::decimal::{Decimal, Number};
use crate::unit::{Dimension, Unit};
use crate::value::{Measured, Value};

/// A record with more values is a list, whose fields do not belong together.
const MAX_VALUES: usize = 16;

/// Of a piece of evidence so many values are kept.
const MAX_KEPT: usize = 20_000;

/// A piece of evidence with no more values is one record.
const MAX_SMALL: usize = 14;

/// The columns of a longer list are not records.
const MAX_ROWS: usize = 6;

/// The values of a record.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) values: Cow<'a, [Value]>,
    /// Whether they are those of one field in all records of a list: the sum of some of them says nothing.
    pub(super) is_column: bool,
}

/// The values of the records of a piece of evidence, in its order.
#[derive(Debug, Default)]
pub(super) struct Mates {
    records: Vec<Kept>,
    /// The values of all records. They share one allocation.
    values: Vec<Value>,
    /// The values of the records that are open: those of the innermost last.
    open_values: Vec<Value>,
    /// Where each record that is open begins there: the innermost last.
    open: Vec<usize>,
    /// How many records there were where each list began that is open.
    lists: Vec<usize>,
}

/// Where the values of a record are.
#[derive(Clone, Debug)]
struct Kept {
    range: Range<usize>,
    is_column: bool,
}

impl Mates {
    /// A record begins: an object, or a line of a text.
    pub(super) fn begin(&mut self) {
        if self.open.is_empty() {
            self.open_values.reserve(2 * MAX_VALUES);
        }
        self.open.push(self.open_values.len());
    }

    /// A list of records begins.
    pub(super) fn begin_list(&mut self) {
        self.begin();
        self.lists.push(self.records.len());
    }

    /// The list ends. What each record has belongs to it alone; of a short list, the columns are records too.
    pub(super) fn end_list(&mut self) {
        if let Some(begin) = self.open.pop() {
            self.open_values.truncate(begin);
        }
        let Some(first) = self.lists.pop() else { return };
        let rows = self.records.get(first..).unwrap_or_default();
        let width = rows.first().map_or(0, |row| row.range.len());
        if !(2..=MAX_ROWS).contains(&rows.len()) || rows.iter().any(|row| row.range.len() != width) {
            return;
        }
        let columns: Vec<Vec<Value>> = (0..width)
            .map(|at| {
                let of_row = |row: &Kept| self.values_of(row).get(at).cloned();
                rows.iter().filter_map(of_row).collect::<Vec<Value>>()
            })
            .filter(|column| {
                column.iter().all(|value| matches!(value, Value::Amount { .. }))
                    && column.windows(2).all(|pair| pair.first() != pair.last())
            })
            .collect();
        for column in columns {
            let begin = self.values.len();
            if begin + column.len() <= MAX_KEPT {
                self.values.extend(column);
                self.records.push(Kept { range: begin..self.values.len(), is_column: true });
            }
        }
    }

    /// The record ends. What it has belongs to the record around it too, if that is little: `price: {amount, currency}`.
    pub(super) fn end(&mut self) {
        let Some(begin) = self.open.pop() else { return };
        let own = self.open_values.get(begin..).unwrap_or_default();
        let many = own.len();
        let is_of_outer =
            many <= 4 && self.open.last().is_some_and(|outer| begin - outer + many <= MAX_VALUES);
        let first = self.values.len();
        if (1..=MAX_VALUES).contains(&many) && first + many <= MAX_KEPT {
            match is_of_outer {
                true => self.values.extend_from_slice(own),
                false => self.values.extend(self.open_values.drain(begin..)),
            }
            self.records.push(Kept { range: first..self.values.len(), is_column: false });
        }
        if !is_of_outer {
            self.open_values.truncate(begin);
        }
    }

    fn push(&mut self, value: Value) {
        let Some(begin) = self.open.last() else { return };
        let own = self.open_values.get(*begin..).unwrap_or_default();
        if own.len() <= MAX_VALUES && !own.contains(&value) {
            self.open_values.push(value);
        }
    }

    fn values_of(&self, record: &Kept) -> &[Value] {
        self.values.get(record.range.clone()).unwrap_or_default()
    }

    pub(super) fn amount(&mut self, amount: Decimal, unit: Option<&Unit>) {
        if self.open.is_empty() || amount == Decimal::whole(0) {
            return;
        }
        let is_short = amount.to_whole().is_some_and(|whole| whole < 10);
        let number = Number { amount, places: 0, significant: if is_short { 1 } else { 3 } };
        let measured = unit.map_or(Measured::Nothing, |unit| Measured::Unit(unit.clone()));
        self.push(Value::Amount { number, measured, other: None, is_about: false });
    }

    pub(super) fn day(&mut self, day: Day) {
        self.push(Value::Day(day));
    }

    pub(super) fn time(&mut self, time: Time) {
        if !time.is_utc {
            self.push(Value::Time(time));
        }
    }

    /// The records as they are looked up.
    pub(super) fn finished(mut self) -> Self {
        while !self.open.is_empty() {
            self.end();
        }
        self.open_values = Vec::new();
        self
    }

    /// All values, of a piece of evidence that has few.
    pub(super) fn small(&self) -> Option<Vec<&Value>> {
        let mut distinct: Vec<&Value> = Vec::new();
        for value in self.values.iter().take(3 * MAX_SMALL) {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        (distinct.len() <= MAX_SMALL).then_some(distinct)
    }

    /// The records of a piece of evidence that has few values.
    pub(super) fn small_records(&self) -> impl Iterator<Item = Record<'_>> {
        let is_small = self.small().is_some();
        let records = self.records.iter().filter(move |_| is_small);
        records.map(|it| Record { values: self.values_of(it).into(), is_column: it.is_column })
    }

    /// The records by their values.
    pub(super) fn index(&self) -> Index<'_> {
        let mut by_value: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (at, record) in self.records.iter().enumerate() {
            for value in self.values_of(record) {
                for key in Key::of(value).into_iter().chain(Key::bare(value)) {
                    let at_value = by_value.entry(key).or_default();
                    if at_value.len() < MAX_RECORDS {
                        at_value.push(at);
                    }
                }
            }
        }
        Index { mates: self, by_value }
    }
}

/// So many records that have a value are looked at.
const MAX_RECORDS: usize = 8;

/// Values that are equal where a document and a field write them in other units of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Amount(Decimal),
    Day(u32, u32),
    Time(u32),
}

impl Key {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Amount { number, measured, .. } => Some(Self::Amount(match measured {
                Measured::Nothing | Measured::Noun(_) => number.amount.absolute(),
                Measured::Unit(unit) => unit.in_base(number.amount).next()?.1.absolute(),
            })),
            Value::Day(day) => Some(Self::Day(day.month, day.day)),
            Value::Time(time) => Some(Self::Time(time.minutes)),
            Value::RelativeDay(_) | Value::Text { .. } => None,
        }
    }

    /// The same of an amount whose unit the evidence does not name.
    fn bare(value: &Value) -> Option<Self> {
        match value {
            Value::Amount { number, measured: Measured::Unit(_), .. } => {
                Some(Self::Amount(number.amount.absolute()))
            }
            _ => None,
        }
    }
}

/// Records by their values.
pub(super) struct Index<'a> {
    mates: &'a Mates,
    by_value: BTreeMap<Key, Vec<usize>>,
}

impl<'a> Index<'a> {
    /// What each record that has this value has for it, its other values, and whether it is a column.
    pub(super) fn of(&self, stated: &Value) -> impl Iterator<Item = (&'a Value, Vec<&'a Value>, bool)> {
        let keys = || Key::of(stated).into_iter().chain(Key::bare(stated));
        let at: BTreeSet<usize> =
            keys().filter_map(|key| self.by_value.get(&key)).flatten().copied().collect();
        let own: Vec<Key> = keys().collect();
        at.into_iter().take(MAX_RECORDS).filter_map(move |at| {
            let record = self.mates.records.get(at)?;
            let is_own = |value: &&Value| {
                Key::of(value).into_iter().chain(Key::bare(value)).any(|key| own.contains(&key))
            };
            let values = self.mates.values_of(record);
            let first = values.iter().find(is_own)?;
            Some((first, values.iter().filter(|value| !is_own(value)).collect(), record.is_column))
        })
    }

    /// Whether the evidence has this day.
    pub(super) fn has_day(&self, day: Day) -> bool {
        self.by_value.contains_key(&Key::Day(day.month, day.day))
    }

    /// Whether the evidence has this time.
    pub(super) fn has_time(&self, minutes: u32) -> bool {
        self.by_value.contains_key(&Key::Time(minutes))
    }
}

/// An amount of a record with the dimension of what it is computed to, where the record names none.
pub(super) fn in_dimension(value: &Value, of: &Value) -> Option<Value> {
    let (
        Value::Amount { number, measured: Measured::Nothing, .. },
        Value::Amount { measured: Measured::Unit(unit), .. },
    ) = (value, of)
    else {
        return None;
    };
    (!matches!(unit.dimension, Dimension::Percent)).then(|| Value::Amount {
        number: *number,
        measured: Measured::Unit(unit.clone()),
        other: None,
        is_about: false,
    })
}
