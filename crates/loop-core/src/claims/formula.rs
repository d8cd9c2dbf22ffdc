//! How a value was computed from evidence.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::claims::decimal::Decimal;
use crate::claims::unit::{Dimension, Unit};
use crate::claims::value::{Measured, Value};

/// How a value was computed from evidence: one operation, which the sentence names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Formula {
    /// It is a number of the evidence, rounded to the digits that are written.
    Rounded,
    /// It is how many records there are: all of a list, or those of one value.
    Count {
        /// The list, or the field and its value.
        of: Arc<str>,
    },
    /// It is the sum of a field over the records of a list.
    Sum {
        /// The field.
        of: Arc<str>,
    },
    /// It is the difference of the two other amounts of the sentence.
    Difference,
    /// It is how many percent the first of two amounts is of the second, as `3 of 12` in the sentence.
    Percentage,
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rounded => f.write_str("rounded"),
            Self::Count { of } => write!(f, "count of {of}"),
            Self::Sum { of } => write!(f, "sum of {of}"),
            Self::Difference => f.write_str("difference of the two other amounts"),
            Self::Percentage => f.write_str("percentage of the two other amounts"),
        }
    }
}

/// What a sentence says of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operations {
    pub(crate) sum: bool,
    pub(crate) count: bool,
    pub(crate) difference: bool,
}

impl Operations {
    /// The operations that these folded words name.
    pub(crate) fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut named = Self::default();
        for word in words {
            named.sum |= SUM.contains(&word);
            named.count |= COUNT.contains(&word) || SUM.contains(&word);
            named.difference |= DIFFERENCE.contains(&word);
        }
        named
    }
}

const SUM: [&str; 20] = [
    "total",
    "totals",
    "totalling",
    "totaling",
    "sum",
    "altogether",
    "together",
    "combined",
    "overall",
    "add",
    "adds",
    "insgesamt",
    "zusammen",
    "summe",
    "gesamt",
    "somme",
    "suma",
    "ensemble",
    "合計",
    "計",
];

const COUNT: [&str; 16] = [
    "count", "number", "there", "found", "lists", "listed", "returned", "has", "have", "all", "anzahl",
    "gibt", "hay", "nombre", "número", "件",
];

const DIFFERENCE: [&str; 18] = [
    "difference",
    "less",
    "more",
    "fewer",
    "higher",
    "lower",
    "above",
    "below",
    "increase",
    "increased",
    "decrease",
    "decreased",
    "dropped",
    "grew",
    "differenz",
    "unterschied",
    "différence",
    "diferencia",
];

/// The dimension and the size of an amount, for computing.
fn base_of(value: &Value) -> Option<(Option<Dimension>, Decimal)> {
    let Value::Amount { number, measured, .. } = value else { return None };
    match measured {
        Measured::Nothing | Measured::Noun(_) => Some((None, number.amount)),
        Measured::Unit(unit) => {
            unit.in_base(number.amount).next().map(|(dimension, base)| (Some(dimension), base))
        }
    }
}

/// The amounts of a sentence that can be computed from its others: their places in it, and how. `values` are those of the
/// sentence with whether each is grounded; `between` is the text between each and the next.
pub(crate) fn computed(
    values: &[(&Value, bool)],
    between: &[&str],
    named: Operations,
) -> BTreeMap<usize, (Formula, [usize; 2])> {
    let mut found = BTreeMap::new();
    let is_open = |at: usize| values.get(at).is_some_and(|(_, is_grounded)| !is_grounded);
    let grounded: Vec<usize> = values
        .iter()
        .enumerate()
        .filter(|(_, (value, is_grounded))| *is_grounded && matches!(value, Value::Amount { .. }))
        .map(|(at, _)| at)
        .collect();
    if named.difference {
        for at in (0..values.len()).filter(|at| is_open(*at)) {
            let Some((dimension, amount)) = values.get(at).and_then(|(value, _)| base_of(value)) else {
                continue;
            };
            let of_kind: Vec<(usize, Decimal)> = grounded
                .iter()
                .filter_map(|other| {
                    Some((*other, base_of(values.get(*other)?.0).filter(|(it, _)| *it == dimension)?.1))
                })
                .collect();
            // One pair, or there would be a pair for every number.
            let [(first, one), (second, two)] = of_kind.as_slice() else { continue };
            if one.plus(two.negated()).map(Decimal::absolute) == Some(amount.absolute()) {
                found.insert(at, (Formula::Difference, [*first, *second]));
            }
        }
    }
    // `3 of 12`.
    let is_share =
        |text: &str| matches!(text.trim(), "of" | "of the" | "out of" | "von" | "sur" | "de" | "/");
    let pair = between
        .iter()
        .copied()
        .position(is_share)
        .filter(|at| grounded.contains(at) && grounded.contains(&(at + 1)));
    if let Some(first) = pair {
        let of = |at: usize| values.get(at).and_then(|(value, _)| base_of(value));
        for at in (0..values.len()).filter(|at| is_open(*at)) {
            let Some((Value::Amount { number, measured: Measured::Unit(unit), .. }, _)) = values.get(at)
            else {
                continue;
            };
            let (Some((one_kind, part)), Some((two_kind, whole))) = (of(first), of(first + 1)) else {
                continue;
            };
            // The noun is behind the second number alone.
            let is_alike = one_kind == two_kind || one_kind.is_none();
            let places = u32::try_from(number.places).unwrap_or(0);
            if *unit == Unit::PERCENT && is_alike && part.percent_of(whole, places) == Some(number.amount) {
                found.insert(at, (Formula::Percentage, [first, first + 1]));
            }
        }
    }
    found
}
