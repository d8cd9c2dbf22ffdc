//! How a value was computed from evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decimal::Decimal;
use crate::operations::Operations;
use crate::unit::{Dimension, Unit};
use crate::value::{Measured, Value};
use loop_core::types::EvidenceId;

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
    /// It is the average of a field over the records of a list.
    Average {
        /// The field.
        of: Arc<str>,
    },
    /// It is the difference of the two other amounts of the sentence.
    Difference,
    /// It is the sum of the other amounts of the sentence.
    SumOfAmounts,
    /// It is how many percent one of two amounts is of the other, as `3 of 12` in the sentence; or so many percent of an amount.
    Percentage,
    /// It is one of two values of the sentences times the other.
    Product,
    /// It is one of two values of the sentences divided by the other.
    Quotient,
    /// It is the time between two fields of a record.
    Between {
        /// The fields.
        of: Arc<str>,
    },
    /// It is a day or a time of the sentences, so much earlier or later as they say.
    Shifted,
    /// It is how many percent the difference of two amounts is of one of them.
    PercentageOfDifference,
    /// It is the result of the calculation that the sentence writes out: `4,420.00 × 3 / 65`.
    Written,
}

impl Formula {
    /// Whether it computes a value, and does not only round one.
    pub(crate) fn is_operation(&self) -> bool {
        *self != Self::Rounded
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rounded => f.write_str("rounded"),
            Self::Count { of } => write!(f, "count of {of}"),
            Self::Sum { of } => write!(f, "sum of {of}"),
            Self::Average { of } => write!(f, "average of {of}"),
            Self::Difference => f.write_str("difference of the two other amounts"),
            Self::SumOfAmounts => f.write_str("sum of the other amounts"),
            Self::Percentage => f.write_str("percentage of the two other amounts"),
            Self::Product => f.write_str("product of two other amounts"),
            Self::Quotient => f.write_str("quotient of two other amounts"),
            Self::Between { of } => write!(f, "time between {of}"),
            Self::Shifted => f.write_str("another day or time, and the duration between"),
            Self::PercentageOfDifference => f.write_str("change in percent of the two other amounts"),
            Self::Written => f.write_str("the calculation of the sentence"),
        }
    }
}

/// The dimension and the size of an amount, for computing.
fn base_of(value: &Value) -> Option<(Option<Dimension>, Decimal)> {
    let (number, measured) = match value {
        Value::Amount { number, measured, .. } => (number, measured),
        // Between two times of day is a duration.
        Value::Time(time) => {
            let seconds = u64::from(time.minutes) * 60 + u64::from(time.seconds.unwrap_or(0));
            let (dimension, base) = Unit::SECONDS.in_base(Decimal::whole(seconds)).next()?;
            return Some((Some(dimension), base));
        }
        Value::Day(_) | Value::RelativeDay(_) | Value::Text { .. } => return None,
    };
    match measured {
        Measured::Nothing | Measured::Noun(_) => Some((None, number.amount)),
        Measured::Unit(unit) => {
            unit.in_base(number.amount).next().map(|(dimension, base)| (Some(dimension), base))
        }
    }
}

/// A sentence with more values names no operands.
pub(crate) const MAX_VALUES: usize = 64;

/// An amount of a sentence, for computing with it.
pub(crate) struct Operand<'a> {
    pub(crate) value: &'a Value,
    pub(crate) is_grounded: bool,
    /// What its part of the sentence cites. Parts that cite something else are about something else.
    pub(crate) cited: &'a [EvidenceId],
    /// The text between it and the next value of the sentence.
    pub(crate) between: &'a str,
}

impl Operand<'_> {
    fn base(&self) -> Option<(Option<Dimension>, Decimal)> {
        base_of(self.value)
    }

    fn is_percent(&self) -> bool {
        matches!(self.value, Value::Amount { measured: Measured::Unit(unit), .. } if *unit == Unit::PERCENT)
    }
}

/// The values of a sentence that result from its other amounts by an operation that it names: the place of each in the sentence,
/// the formula, and the places of the operands. Only the amounts that are named are operands: pairs are not searched for.
pub(crate) fn computed(all: &[Operand<'_>], named: Operations) -> BTreeMap<usize, (Formula, Vec<usize>)> {
    let mut found = BTreeMap::new();
    if all.len() > MAX_VALUES {
        return found;
    }
    for (at, open) in all.iter().enumerate().filter(|(_, it)| !it.is_grounded) {
        let Some((dimension, amount)) = open.base() else { continue };
        let of_kind = |dimension: &Option<Dimension>| -> Vec<(usize, Decimal)> {
            let others = all.iter().enumerate().filter(|(_, it)| it.is_grounded);
            others
                .filter_map(|(at, it)| {
                    it.base().filter(|(kind, _)| kind == dimension).map(|(_, base)| (at, base))
                })
                .collect()
        };
        let result = match open.is_percent() {
            true => from_amounts((all, at), named, amount, &of_kind(&dimension))
                .or_else(|| percentage(all, at, named, of_kind(&None)))
                .or_else(|| {
                    let others = all.iter().filter(|it| it.is_grounded && !it.is_percent());
                    let kinds: BTreeSet<Dimension> = others.filter_map(|it| it.base()?.0).collect();
                    kinds.into_iter().find_map(|kind| percentage(all, at, named, of_kind(&Some(kind))))
                }),
            false if named.difference && dimension == Some(Dimension::Time) => {
                let times: Vec<(usize, Decimal)> = all
                    .iter()
                    .enumerate()
                    .filter(|(_, it)| it.is_grounded && matches!(it.value, Value::Time(_)))
                    .filter_map(|(at, it)| Some((at, it.base()?.1)))
                    .collect();
                from_amounts((all, at), named, amount, &times)
                    .or_else(|| from_amounts((all, at), named, amount, &of_kind(&dimension)))
            }
            false => from_amounts((all, at), named, amount, &of_kind(&dimension)).or_else(|| {
                // `865 kWh, the difference of 41,780 and 40,915`.
                let Value::Amount { number, .. } = open.value else { return None };
                let bare = of_kind(&None);
                let is_bare = dimension.is_some() && of_kind(&dimension).is_empty();
                is_bare.then(|| from_amounts((all, at), named, number.amount, &bare)).flatten()
            }),
        };
        if let Some(result) = result.or_else(|| written(all, open.value)) {
            found.insert(at, result);
        }
    }
    found
}

/// The operator that a word or a sign is.
fn operator(sign: &str) -> Option<char> {
    match sign.trim_matches(['(', ')']) {
        "×" | "x" | "·" | "*" | "mal" | "times" => Some('*'),
        "/" | "÷" | ":" => Some('/'),
        "+" | "plus" => Some('+'),
        "-" | "\u{2212}" | "\u{2013}" | "minus" | "moins" | "menos" => Some('-'),
        _ => None,
    }
}

/// The operators between two values, each with the small number behind it: `× 3 /`. Empty: there is something else.
fn operators(between: &str) -> Vec<(char, Option<Decimal>)> {
    let mut found: Vec<(char, Option<Decimal>)> = Vec::new();
    for word in between.split_whitespace().take(8) {
        let digits = word.trim_matches(['(', ')']);
        let number = || Decimal::of_json(digits).filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()));
        match (operator(word), found.last_mut()) {
            (Some(sign), last) if last.as_ref().is_none_or(|(_, number)| number.is_some()) => {
                found.push((sign, None))
            }
            (None, Some((_, place @ None))) if number().is_some() => *place = number(),
            (None, _) if digits.is_empty() => {}
            _ => return Vec::new(),
        }
    }
    // The last operator is before the next value.
    let is_open = found.last().is_some_and(|(_, number)| number.is_none());
    if is_open { found } else { Vec::new() }
}

/// The result of a calculation that the sentence writes out: `4,420.00 × 3 / 65`.
fn written(all: &[Operand<'_>], open: &Value) -> Option<(Formula, Vec<usize>)> {
    let Value::Amount { number: wanted, .. } = open else { return None };
    let amount_of = |at: usize| {
        let it = all.get(at).filter(|it| it.is_grounded)?;
        if let Value::Amount { number, .. } = it.value { Some(number.amount) } else { None }
    };
    let digits = u32::try_from(wanted.places.max(0)).ok()?.checked_add(6)?;
    for from in 0..all.len() {
        let Some(first) = amount_of(from) else { continue };
        let (mut sum, mut part, mut at) = (Decimal::whole(0), first, from);
        while let Some(next) = amount_of(at + 1) {
            let signs = all.get(at).map(|it| operators(it.between)).unwrap_or_default();
            if signs.is_empty() {
                break;
            }
            at += 1;
            for (sign, small) in signs {
                let by = small.unwrap_or(next);
                match sign {
                    '*' => part = part.product(by)?,
                    '/' => part = part.quotient(by, digits)?,
                    _ => {
                        sum = sum.plus(part)?;
                        part = if sign == '-' { by.negated() } else { by };
                    }
                }
            }
        }
        let is_it = at > from && sum.plus(part)?.rounded(wanted.places) == Some(wanted.amount);
        if is_it {
            return Some((Formula::Written, (from..=at).collect()));
        }
    }
    None
}

fn from_amounts(
    (all, open): (&[Operand<'_>], usize),
    named: Operations,
    amount: Decimal,
    others: &[(usize, Decimal)],
) -> Option<(Formula, Vec<usize>)> {
    let places = || others.iter().map(|(at, _)| *at).collect();
    if named.sum && others.len() > 1 {
        let sum = others.iter().try_fold(Decimal::whole(0), |sum, (_, other)| sum.plus(*other));
        if sum == Some(amount) {
            return Some((Formula::SumOfAmounts, places()));
        }
        let own = all.get(open).map(|it| it.cited);
        let near: Vec<(usize, Decimal)> =
            others.iter().filter(|(at, _)| all.get(*at).map(|it| it.cited) == own).copied().collect();
        let sum = near.iter().try_fold(Decimal::whole(0), |sum, (_, other)| sum.plus(*other));
        if near.len() > 1 && sum == Some(amount) {
            return Some((Formula::SumOfAmounts, near.iter().map(|(at, _)| *at).collect()));
        }
    }
    if let [(first, one), (second, two)] = others {
        let is_minus = all
            .get(*first)
            .is_some_and(|it| matches!(it.between.trim(), "-" | "\u{2212}" | "\u{2013}" | "minus"));
        let difference = one.plus(two.negated()).map(Decimal::absolute);
        if (named.difference || is_minus) && difference == Some(amount.absolute()) {
            return Some((Formula::Difference, vec![*first, *second]));
        }
    }
    // `20 % of $1,188.00 is $237.60`.
    let mut percent =
        all.iter().enumerate().filter(|(_, it)| it.is_grounded && it.is_percent()).collect::<Vec<_>>();
    percent.dedup_by(|(_, one), (_, two)| one.base() == two.base());
    if let ([(of, percent)], [(whole, base)]) = (percent.as_slice(), others)
        && let Some((_, share)) = percent.base()
        && base.percent(share) == Some(amount)
    {
        return Some((Formula::Percentage, vec![*of, *whole]));
    }
    None
}

/// A percentage of two amounts, or of their difference.
fn percentage(
    all: &[Operand<'_>],
    at: usize,
    named: Operations,
    others: Vec<(usize, Decimal)>,
) -> Option<(Formula, Vec<usize>)> {
    let Value::Amount { number, .. } = all.get(at)?.value else { return None };
    // `6 %` is exact or wrong: of one digit nothing is rounded.
    let is_short = number.significant < 2 && number.places <= 0;
    let places = if is_short { 2 } else { u32::try_from(number.places).unwrap_or(0) };
    // `3 of 12`.
    let is_share =
        |text: &str| matches!(text.trim(), "of" | "of the" | "out of" | "in" | "von" | "sur" | "de" | "/");
    let written = others.windows(2).find_map(|pair| match pair {
        [(first, part), (second, whole)] if second - first == 1 && is_share(all.get(*first)?.between) => {
            Some(((*first, *part), (*second, *whole)))
        }
        _ => None,
    });
    let alone = match others.as_slice() {
        [first, second] => Some((*first, *second)),
        _ => None,
    };
    let ((first, one), (second, two)) = written.or(alone)?;
    let is_it = |part: Decimal, whole: Decimal| {
        part.percent_of(whole, places).map(Decimal::absolute) == Some(number.amount)
    };
    if is_it(one, two) || written.is_none() && is_it(two, one) {
        return Some((Formula::Percentage, vec![first, second]));
    }
    let difference = one.plus(two.negated())?.absolute();
    let is_change = named.difference && (is_it(difference, one) || is_it(difference, two));
    is_change.then(|| (Formula::PercentageOfDifference, vec![first, second]))
}
