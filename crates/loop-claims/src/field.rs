//! What the name of a field says of its values. Records have the same few names, so each is read once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::absence::{stem, unaccented};
use crate::chunk::{folded, readable};
use crate::priced::is_price_folded;
use crate::scan::{Query, Scan};
use crate::unit::{Unit, minor_of_field};
use crate::value::{Found, Reads, values};

/// Longer names name nothing.
const MAX_NAME: usize = 100;

/// More names are read again each time.
const MAX_NAMES: usize = 4_096;

/// The name of a field, read.
#[derive(Debug, Default)]
pub(super) struct FieldName {
    /// As written. Empty: it is too long.
    pub(super) name: Box<str>,
    pub(super) unit: Option<Unit>,
    /// The unit behind `per`.
    pub(super) rate: Option<Unit>,
    /// The power of ten of the smallest coin, and its currency.
    pub(super) minor: Option<(u32, Option<&'static str>)>,
    pub(super) is_price: bool,
    /// Whether it holds bytes where it names no unit.
    pub(super) is_size: bool,
    /// The same of seconds or milliseconds.
    pub(super) is_duration: bool,
    /// Whether a number in it may be an instant.
    pub(super) is_instant: bool,
    /// Whether it is nothing but the name of a unit, such as `days` of a list of them.
    pub(super) is_unit: bool,
    /// Whether it is a rate or a share, of which 0.19 is 19 %.
    pub(super) is_share: bool,
    /// Whether it holds the value of a record that names its unit in another field.
    pub(super) is_measure: bool,
    /// Whether what it names is not there: `missing_document`.
    pub(super) is_missing: bool,
    /// Its words, shortened to their stems.
    pub(super) stems: Vec<Box<str>>,
    /// As a text, where it may be part of one: with spaces between its words.
    pub(super) spaced: Box<str>,
    /// What of its words has to be looked up.
    pub(super) words: NameWords,
    /// The amounts, days and times in it.
    pub(super) found: Vec<Found>,
}

/// What of the words of a name has to be looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NameWords {
    /// It has no words.
    #[default]
    None,
    /// No document that is looked for has one of them.
    Others,
    /// A document may have one of them, or one negates the others.
    Wanted,
}

impl FieldName {
    fn new(name: &str, query: &Query) -> Self {
        let (locale, clock) = (query.locale, query.clock);
        let text = readable(name);
        let found = match text.bytes().any(|byte| byte.is_ascii_digit()) {
            true => values(&spread(&text), locale, clock, Reads::Measures),
            false => Vec::new(),
        };
        let spaced: Box<str> = text.replace('_', " ").into();
        let words = Scan::words_of_name(query, &spaced);
        if name.len() > MAX_NAME {
            return Self { spaced, words, found, ..Self::default() };
        }
        let folded = folded(name);
        let has = |words: &[&str]| words.iter().any(|word| folded.contains(word));
        Self {
            name: name.into(),
            unit: Unit::of_field(name),
            rate: Unit::of_rate(name),
            minor: minor_of_field(name),
            is_price: is_price_folded(&folded),
            is_size: has(SIZES),
            is_duration: has(DURATIONS),
            is_unit: Unit::named(&folded).is_some(),
            is_share: ["rate", "ratio", "share", "discount", "fraction", "satz", "taux", "tasa"]
                .iter()
                .any(|word| folded.contains(word)),
            is_missing: has(&["missing", "absent", "lacking", "fehlend", "manquant", "faltante", "不足"]),
            is_measure: MEASURES.contains(&&*folded),
            is_instant: INSTANTS.iter().any(|end| folded.ends_with(end)),
            stems: unaccented(&folded)
                .split(|c: char| !c.is_alphabetic())
                .filter(|word| word.len() > 2)
                .map(|word| stem(word).into())
                .collect(),
            spaced,
            words,
            found,
        }
    }
}

/// The names that were read since a section was added.
#[derive(Debug, Default)]
pub(super) struct FieldNames {
    known: BTreeMap<Box<str>, usize>,
    read: Vec<Follows>,
    /// The one that was asked for last.
    last: usize,
}

/// A name, and the name that followed it when it was asked for before: records have their names in one order.
#[derive(Debug)]
struct Follows {
    field: Arc<FieldName>,
    next: usize,
}

impl FieldNames {
    pub(super) fn get(&mut self, name: &str, query: &Query) -> Arc<FieldName> {
        let next = self.read.get(self.last).map_or(0, |last| last.next);
        if let Some(expected) = self.read.get(next).filter(|it| &*it.field.name == name) {
            self.last = next;
            return Arc::clone(&expected.field);
        }
        if let Some(at) = self.known.get(name).copied() {
            if let Some(last) = self.read.get_mut(self.last) {
                last.next = at;
            }
            self.last = at;
            return self.read.get(at).map(|it| Arc::clone(&it.field)).unwrap_or_default();
        }
        let fresh = Arc::new(FieldName::new(name, query));
        if self.known.len() < MAX_NAMES && name.len() <= MAX_NAME {
            let at = self.read.len();
            self.known.insert(name.into(), at);
            self.read.push(Follows { field: Arc::clone(&fresh), next: at + 1 });
            self.last = at;
        }
        fresh
    }
}

/// Words in the name of a field that holds bytes, where it names no unit.
const SIZES: &[&str] =
    &["size", "bytes", "length", "used", "free", "available", "capacity", "memory", "quota", "limit"];

/// Words in the name of a field that holds seconds or milliseconds, where it names no unit.
const DURATIONS: &[&str] = &[
    "duration",
    "elapsed",
    "uptime",
    "age",
    "took",
    "latency",
    "timeout",
    "lasted",
    "runtime",
    "wait",
    "dauer",
    "durée",
    "duree",
    "duracion",
    "duración",
    "length",
    "talk",
    "hold",
    "downtime",
    "delay",
    "laufzeit",
    "espera",
    "attente",
    "retard",
    "retraso",
    "時間",
];

/// Names of fields whose unit is in another field of the record.
const MEASURES: &[&str] = &[
    "value", "result", "reading", "amount", "quantity", "min", "max", "mean", "avg", "average", "median",
    "low", "high", "limit", "target", "current", "wert", "messwert", "menge", "valeur", "valor", "数値",
    "値",
];

/// Ends of the name of a field that holds an instant.
const INSTANTS: &[&str] = &["at", "time", "date", "timestamp", "ts", "ms", "unix"];

/// The name of a field with spaces between its words: `last_90_days`, `failedLogons24h`.
fn spread(name: &str) -> String {
    let mut spread = String::with_capacity(name.len() + 8);
    let mut was_letter = false;
    for c in name.chars() {
        if c == '_' || c.is_ascii_digit() && was_letter {
            spread.push(' ');
        }
        if c != '_' {
            spread.push(c);
        }
        was_letter = c.is_alphabetic();
    }
    spread
}
