//! The data of a piece of evidence: records and lists of JSON, with what the names of their fields say.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Map, Value as Json};

use crate::fold::{Folded, words};
use crate::source::{Entry, MAX_GROUP, Source, stem};
use crate::table::{Rows, rows, writes_commas};
use crate::value::{Amount, Day, FoundValue, Value, values};
use crate::words::{Unit, WORDS};

/// The unit and the currency that a name or a field says.
pub(crate) type NamedUnit = (Option<Unit>, Option<&'static str>);

/// So many fields of a record are multiplied with each other.
const MAX_FACTORS: usize = 4;
/// So many fields of a record are what its numbers are grouped by.
const MAX_MARKS: usize = 6;
/// So many bytes of the name of a field are read.
const MAX_NAME: usize = 80;
/// So many rows of a table are related to each other.
const MAX_ROWS: usize = 400;
/// So many names of a path are shown.
const SHOWN: usize = 3;

impl Source {
    /// Reads a value of JSON. `seen` collects its texts.
    pub(crate) fn walk(&mut self, json: &Json, path: &mut Vec<Box<str>>, seen: &mut String) {
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
                self.note_name(text);
                let first = self.entries.len();
                let rows = if text.contains('\n') { rows(&folded.text) } else { Rows::default() };
                self.read_rows(&folded, &rows, false);
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
                        // `p99`.
                        let numbers =
                            folded.text.split(|c: char| !c.is_ascii_digit()).filter_map(|it| it.parse().ok());
                        let entry = |number| Entry { amount: Amount::plain(number), at: None, field: None };
                        self.entries.extend(numbers.map(entry));
                    }
                    path.push(Folded::of(cut(name)).text.into());
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
                let numbers =
                    members.iter().filter_map(|(name, value)| Some((number_of(value)?, factor_of(name))));
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
        self.relate(&items.iter().filter_map(Json::as_object).collect::<Vec<_>>());
    }

    /// Notes what belongs together in a list of records.
    pub(crate) fn relate(&mut self, records: &[&Map<String, Json>]) {
        let mut columns: BTreeMap<&str, Vec<&Json>> = BTreeMap::new();
        for (name, value) in records.iter().flat_map(|record| record.iter()) {
            columns.entry(name).or_default().push(value);
        }
        for (name, column) in columns {
            let (parts, factor) = (parts_of(name), factor_of(name));
            let numbers = column.iter().filter_map(|value| Some((number_of(value)? / parts, factor)));
            self.group(&numbers.collect::<Vec<_>>());
            let mut equal: BTreeMap<String, u64> = BTreeMap::new();
            for value in column {
                if !value.is_array() && !value.is_object() {
                    *equal.entry(value.to_string()).or_default() += 1;
                }
            }
            self.counts.extend(equal.values());
        }
        self.group_by_values(records);
        // Price and quantity: what two fields of each record multiply to.
        let fields: BTreeSet<&str> =
            records.iter().take(MAX_GROUP).flat_map(|record| record.keys().map(String::as_str)).collect();
        let number = |record: &Map<String, Json>, field: &str| {
            record.get(field).and_then(Json::as_f64).map(|number| number.abs() / parts_of(field))
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
        let mut groups: BTreeMap<(&str, String, &str), Vec<f64>> = BTreeMap::new();
        for record in records.iter().take(MAX_GROUP) {
            let marks = record
                .iter()
                .filter(|(_, value)| value.is_boolean() || value.as_str().is_some_and(|it| it.len() < 40));
            for (name, mark) in marks.take(MAX_MARKS) {
                for (field, value) in record.iter().filter(|(_, value)| value.is_number()).take(MAX_MARKS) {
                    let number = value.as_f64().unwrap_or(0.0).abs();
                    groups.entry((name, mark.to_string(), field)).or_default().push(number);
                }
            }
        }
        for ((.., field), group) in groups.iter().filter(|(_, it)| (2..records.len()).contains(&it.len())) {
            let (parts, factor) = (parts_of(field), factor_of(field));
            self.group(&group.iter().map(|number| (number / parts, factor)).collect::<Vec<_>>());
        }
    }

    /// What the name of a field says of its number, else what its record says.
    fn unit_of(&self, path: &[Box<str>]) -> NamedUnit {
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
        let name =
            path.get(path.len().saturating_sub(SHOWN)..).unwrap_or_default().join(".").into_boxed_str();
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
}

/// The records of a table whose first row names the columns.
pub(crate) fn records(text: &str, rows: &[Vec<Range<usize>>]) -> Vec<Map<String, Json>> {
    let cell = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default().trim_matches([' ', '"']);
    let Some((names, rows)) = rows.split_first() else { return Vec::new() };
    let value = |cell: &str| match cell.parse::<serde_json::Number>() {
        Ok(number) => Json::Number(number),
        Err(_) => cell.into(),
    };
    let record = |row: &Vec<Range<usize>>| {
        names.iter().zip(row).map(|(name, it)| (cell(name).to_owned(), value(cell(it)))).collect()
    };
    rows.iter().take(MAX_ROWS).map(record).collect()
}

/// The values of the cells of such a table and of the text around it, the bare ones with what their column says.
pub(crate) fn values_of_cells(text: &str, rows: &[Vec<Range<usize>>]) -> Vec<FoundValue> {
    let part = |range: Range<usize>, comma: bool| {
        let mut found = values(text.get(range.clone()).unwrap_or_default(), comma);
        for FoundValue { range: at, .. } in &mut found {
            *at = at.start + range.start..at.end + range.start;
        }
        found
    };
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Vec::new() };
    let (from, to) = (first.first().map_or(0, |it| it.start), last.last().map_or(0, |it| it.end));
    let said: Vec<NamedUnit> =
        first.iter().map(|name| unit_of(&[cut(text.get(name.clone()).unwrap_or_default()).into()])).collect();
    let comma = writes_commas(text.get(from..to).unwrap_or_default());
    let mut all = part(0..from, comma);
    for row in rows {
        for (cell, (unit, currency)) in row.iter().zip(&said) {
            let mut found = part(cell.clone(), comma);
            for FoundValue { value, .. } in &mut found {
                if let Value::Amount(amount) = value
                    && amount.is_bare()
                {
                    (amount.unit, amount.currency) = (*unit, *currency);
                }
            }
            all.append(&mut found);
        }
    }
    all.append(&mut part(to..text.len(), comma));
    all
}

/// The number of a field: a number, or the first of a text.
fn number_of(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64().map(f64::abs),
        Json::String(text) if text.len() < 40 && text.contains(|c: char| c.is_ascii_digit()) => {
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
fn said_by(members: &Map<String, Json>, around: NamedUnit) -> NamedUnit {
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
fn unit_of(path: &[Box<str>]) -> NamedUnit {
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

/// The factor to the base unit that the name of a field says.
fn factor_of(name: &str) -> Option<f64> {
    unit_of(&[Folded::of(cut(name)).text.into()]).0.map(|unit| unit.factor)
}

/// What a number of a field is divided by: it may be in cents.
fn parts_of(name: &str) -> f64 {
    if is_cents(name) { 100.0 } else { 1.0 }
}

/// A name of a field, as far as it is read.
fn cut(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_NAME.min(name.len()))).unwrap_or_default()
}
