//! Values that result from what a record of evidence has: with a value that the document states, from two values of a record
//! that has few, or from the sum of a record. The operations are those of the [parent](super).

use super::{MAX_SHARES, Term, Wanted, base_of, is_share_of};
use crate::decimal::{Decimal, Number};
use crate::formula::Formula;
use crate::mates::{self, Record};
use crate::operations::Operations;
use crate::unit::{Dimension, Unit};
use crate::value::{Measured, Value};

/// How a value results from one that the document states and the other values of the record that has it. `is_whole`: whether
/// it is the second number of `2 of 89`.
pub(crate) fn with_record(
    open: &Value,
    stated: &Value,
    mates: &[&Value],
    (named, is_whole): (Operations, bool),
    first_year: Option<i32>,
) -> Option<Formula> {
    let wanted = Wanted::of(open, named)?;
    let is_short = !wanted.is_long;
    if is_short && !((wanted.is_change || is_whole) && wanted.is_of_two_digits()) {
        return None;
    }
    let may_be =
        |mate: &Value| !open.has_unit() || wanted.is_percent() || stated.has_unit() || mate.has_unit();
    let mut shares = MAX_SHARES;
    // A share is one of what has the same unit, where the record has that.
    let has_own = wanted.is_share() && mates.iter().any(|mate| is_share_of(stated, mate));
    mates.iter().find_map(|mate| {
        let typed = mates::in_dimension(mate, stated).filter(|_| !has_own);
        let kinds = [Some((*mate).clone()), typed].into_iter().flatten();
        kinds.filter(may_be).find_map(|mate| {
            if wanted.is_share() {
                if !is_share_of(stated, &mate) {
                    return None;
                }
                shares = shares.checked_sub(1)?;
            }
            let pair = [(stated, &mate), (&mate, stated)];
            pair.into_iter()
                .find_map(|(a, b)| {
                    wanted.result(a, b, first_year).filter(|it| is_whole || wanted.allows(it, (a, b)))
                })
                .filter(|formula| match formula {
                    Formula::Shifted => false,
                    Formula::Difference => !is_short || wanted.is_change,
                    Formula::SumOfAmounts => !is_short || is_whole,
                    _ => !is_short,
                })
                .or_else(|| wanted.rest_of(stated, &mate))
        })
    })
}

/// How a value results from two values of a record of a piece of evidence that has few, where the sentence names the operation.
pub(crate) fn with_few(
    open: &Value,
    few: &Record<'_>,
    named: Operations,
    first_year: Option<i32>,
) -> Option<Formula> {
    let wanted = Wanted::of(open, named)?;
    let is_named = wanted.is_named || wanted.is_unlikely();
    if !wanted.is_long || !is_named || wanted.is_share() {
        return None;
    }
    let may_be = |one: &Value, two: &Value| {
        !open.has_unit() || wanted.is_percent() || one.has_unit() || two.has_unit()
    };
    let names = |formula: &Formula| match formula {
        Formula::SumOfAmounts => named.sum && !few.is_column,
        Formula::Difference => true,
        Formula::PercentageOfDifference => named.difference || named.follows,
        Formula::Shifted => false,
        _ => named.follows || named.difference,
    };
    let all = || few.values.iter().map(|value| Term { value, before: 0 }).collect::<Vec<Term<'_>>>();
    if named.sum
        && !few.is_column
        && let Some((formula, _)) = wanted.sum_of_three(&all())
    {
        return Some(formula);
    }
    few.values.iter().enumerate().find_map(|(at, one)| {
        few.values.iter().skip(at + 1).filter(|two| may_be(one, two)).find_map(|two| {
            let pair = [(one, two), (two, one)];
            let result =
                |(a, b)| wanted.result(a, b, first_year).filter(|formula| wanted.allows(formula, (a, b)));
            pair.into_iter().find_map(result).filter(names)
        })
    })
}

/// The sum of all amounts of one kind in a record, of which its fields are the parts: `passed`, `failed` and `skipped`.
pub(crate) fn whole_of(open: &Value, record: &Record<'_>, named: Operations) -> Option<Formula> {
    let Value::Amount { number, measured, .. } = open else { return None };
    // The digits as written, with the zeros at its end.
    let digits = number.significant + usize::try_from(-number.places).unwrap_or(0);
    if record.is_column || digits < 2 {
        return None;
    }
    let is_short = digits < 3;
    let unit = |value: &Value| match value {
        Value::Amount { measured: Measured::Unit(unit), .. } => Some(unit.clone()),
        _ => None,
    };
    let own = if let Measured::Unit(unit) = measured { Some(unit.clone()) } else { None };
    let sum_of = |of: Option<&Unit>| {
        let parts = record.values.iter().filter(|value| unit(value).as_ref() == of);
        let parts: Vec<Decimal> = parts
            .filter_map(
                |value| if let Value::Amount { number, .. } = value { Some(number.amount) } else { None },
            )
            .collect();
        let sum = parts.iter().try_fold(Decimal::whole(0), |sum, part| sum.plus(*part))?;
        let is_whole = match is_short {
            true => named.sum && parts.len() > 2,
            false => parts.len() > 2 || parts.len() == 2 && (named.sum || own.is_none()),
        };
        (is_whole && sum == number.amount).then_some(Formula::SumOfAmounts)
    };
    sum_of(own.as_ref()).or_else(|| sum_of(None))
}

/// What the evidence must have so that a value results from it and another value of its sentence, with the operation. The values
/// are those of the sentence, with its numbers in words.
pub(crate) fn of_evidence<'a>(
    value: &Value,
    others: impl Iterator<Item = &'a Value>,
) -> Vec<(Value, Formula)> {
    let Value::Amount { number, measured, .. } = value else { return Vec::new() };
    let is_money = matches!(measured, Measured::Unit(unit) if unit.currency().is_some());
    let zeros = usize::try_from(-number.places).unwrap_or(0);
    if number.significant + zeros < 3 || !is_money && number.significant < 3 {
        return Vec::new();
    }
    let like = |amount: Decimal| Value::Amount {
        // Nothing is rounded to it.
        number: Number { amount, places: 0, significant: 0 },
        measured: measured.clone(),
        other: None,
        is_about: false,
    };
    let own = base_of(value).and_then(|(dimension, _)| dimension);
    let mut found: Vec<(Value, Formula)> = Vec::new();
    for other in others {
        let (Some((dimension, _)), Value::Amount { number: by, .. }) = (base_of(other), other) else {
            continue;
        };
        if other == value || by.amount.is_negative() {
            continue;
        }
        if dimension == own {
            // `£7,000 above the asking price`, next to the price that was paid.
            let (Some((_, one)), Some((_, two))) = (base_of(value), base_of(other)) else { continue };
            let is_same = matches!((value, other), (Value::Amount { measured: a, .. }, Value::Amount { measured: b, .. }) if a == b);
            if is_same && own.is_some() && number.significant + zeros > 3 && one != two {
                found.extend(number.amount.plus(by.amount).map(|sum| (like(sum), Formula::Difference)));
                let rest = by.amount.plus(number.amount.negated()).filter(|rest| !rest.is_negative());
                found.extend(rest.map(|rest| (like(rest), Formula::Difference)));
            }
            continue;
        }
        let exact = |by: Decimal, formula: Formula| {
            let of = number.amount.quotient(by, DIGITS)?;
            (of.product(by)? == number.amount).then(|| (like(of), formula))
        };
        match dimension {
            Some(Dimension::Percent) => {
                let share = by.amount.over_power_of_ten(2);
                let rest = share.and_then(|share| Decimal::whole(1).plus(share.negated()));
                found.extend(share.and_then(|share| exact(share, Formula::Percentage)));
                found.extend(
                    rest.filter(|rest| !rest.is_negative()).and_then(|rest| exact(rest, Formula::Percentage)),
                );
            }
            Some(Dimension::Time) => {}
            _ if by.amount != Decimal::whole(1) => found.extend(exact(by.amount, Formula::Product)),
            _ => {}
        }
    }
    found.truncate(MAX_OPERANDS);
    found
}

/// How many values of the evidence are looked for at most for one of a sentence.
const MAX_OPERANDS: usize = 8;

/// How many digits behind the point a quotient has.
const DIGITS: u32 = 4;
