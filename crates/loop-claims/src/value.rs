//! Checkable values: what of a text can be compared with evidence.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chunk::{Chunk, cells, chunks, folded, only_cell};
use crate::date::{Day, Time};
use crate::decimal::{Decimal, Number};
use crate::name;
use crate::reader::Reader;
use crate::steps;
use crate::unit::Unit;
use loop_core::types::Locale;

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
        other: Option<Box<Decimal>>,
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
    /// A whole number without a unit.
    pub(crate) fn whole(number: u64) -> Self {
        let number = Number { amount: Decimal::whole(number), places: 0, significant: 0 };
        Self::Amount { number, measured: Measured::Nothing, other: None, is_about: false }
    }

    /// Whether it is an amount with a unit, or not an amount.
    pub(crate) fn has_unit(&self) -> bool {
        !matches!(self, Self::Amount { measured: Measured::Nothing | Measured::Noun(_), .. })
    }

    pub(crate) fn kind(&self) -> ValueKind {
        use crate::unit::Dimension;
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

/// The values of a text, in order. `clock`: the run's offset from UTC in minutes.
pub(crate) fn values(text: &str, locale: Locale, clock: i32, reads: Reads) -> Vec<Found> {
    // Most texts of evidence have no digit at all.
    if reads == Reads::Measures && !text.bytes().fold(false, |has, byte| has | byte.is_ascii_digit()) {
        return Vec::new();
    }
    if reads == Reads::All {
        return values_of(text, &chunks(text), locale, clock, reads);
    }
    match only_cell(text) {
        Some(cell) => values_of(text, &[cell], locale, clock, reads),
        None => values_of(text, &cells(text), locale, clock, reads),
    }
}

/// The same of a text with its chunks.
pub(crate) fn values_of(
    text: &str,
    chunks: &[Chunk<'_>],
    locale: Locale,
    clock: i32,
    reads: Reads,
) -> Vec<Found> {
    let quotes = if reads == Reads::All { name::quotes(text) } else { Vec::new() };
    let mut reader = Reader { chunks, locale, clock, reads, found: Vec::new() };
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
    words_in(&folded(text)).map(Into::into).collect()
}

/// The words of a folded text.
pub(crate) fn words_in(folded: &str) -> impl Iterator<Item = &str> {
    folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}
