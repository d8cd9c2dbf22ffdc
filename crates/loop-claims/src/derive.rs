//! Values that result from what the document itself states: from two values of the sentence or of the few before it, or from
//! the sum of several. What a record of evidence gives is in [`records`].
//!
//! Only values that are grounded are computed with, and one operation is made. They are few, so their pairs can be tried
//! without finding a result by chance: values of one or two digits need a word that names the operation.

mod records;

pub(super) use records::{of_evidence, whole_of, with_few, with_record};

use crate::date::{Day, Time};
use crate::decimal::{Decimal, Number};
use crate::formula::Formula;
use crate::operations::Operations;
use crate::unit::{Dimension, Unit};
use crate::value::{Measured, Value};

/// From how many values pairs are made.
const MAX_TERMS: usize = 20;

/// How many pairs are tried for a share in whole percent.
const MAX_SHARES: usize = 4;

/// Of how many amounts three are added.
const MAX_SUMMANDS: usize = 10;

/// How many pairs are tried for another share.
const MAX_RATES: usize = 30;

/// How many values a sum has at most.
const MAX_SUM: usize = 24;

/// A value that may be computed with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term<'a> {
    pub(super) value: &'a Value,
    /// How many sentences before it is.
    pub(super) before: usize,
}

/// What a value of a sentence results from: the operation, and the places of the terms. `terms` are in the order of the
/// document, without the value itself.
pub(super) fn derived(
    open: &Value,
    terms: &[Term<'_>],
    named: Operations,
    first_year: Option<i32>,
) -> Option<(Formula, Vec<usize>)> {
    let wanted = Wanted::of(open, named)?;
    let first = terms.len().saturating_sub(MAX_TERMS);
    let near = || terms.iter().enumerate().skip(first).rev();
    // Of shares in whole percent there are a hundred, so few pairs are tried.
    let mut pairs = match wanted.is_share() {
        true => MAX_SHARES,
        false if wanted.is_percent() => MAX_RATES,
        false => usize::MAX,
    };
    for (at, one) in near() {
        for (other, two) in near().filter(|(other, _)| *other < at) {
            if !wanted.may_be(one.before, two.before) {
                continue;
            }
            if wanted.is_share() && !is_share_of(one.value, two.value) {
                continue;
            }
            pairs = pairs.checked_sub(1)?;
            let pair = [(one.value, two.value), (two.value, one.value)];
            let found = pair.into_iter().find_map(|(a, b)| {
                wanted.result(a, b, first_year).filter(|formula| wanted.allows(formula, (a, b)))
            });
            if let Some(formula) = found {
                return Some((formula, vec![other, at]));
            }
        }
    }
    if let Some(found) = wanted.remainder(terms) {
        return Some(found);
    }
    if !wanted.is_named {
        return None;
    }
    if let Some(found) = wanted.sum_of_three(terms) {
        return Some(found);
    }
    let Kind::Amount { dimension, factor, .. } = &wanted.kind else { return None };
    let mut sum = Decimal::whole(0);
    let mut places = Vec::new();
    for (at, term) in terms.iter().enumerate().rev().take(MAX_SUM) {
        let Some((of, mut base)) = base_of(term.value) else { continue };
        if of.is_none() {
            base = base.times(*factor)?;
        }
        // The cells of a column have their unit in its name.
        let is_cell = of.is_none() && matches!(term.value, Value::Amount { number, .. } if number.places > 0);
        if of != *dimension && !is_cell {
            continue;
        }
        sum = sum.plus(base)?;
        places.push(at);
        if places.len() > 2 && wanted.is_exactly(sum) {
            places.reverse();
            return Some((Formula::SumOfAmounts, places));
        }
    }
    None
}

/// The days that a duration is apart from the start of the run.
pub(super) fn days_apart(open: &Value, start: i64) -> Vec<Day> {
    let days =
        duration_of(open).filter(|seconds| seconds % 86_400 == 0 && *seconds > 0).map(|it| it / 86_400);
    let days = days.into_iter().flat_map(|days| [start.checked_sub(days), start.checked_add(days)]);
    days.flatten().filter_map(Day::of_unix_days).collect()
}

/// The times of day that a duration is apart from a time that its sentence states.
pub(super) fn times_apart(open: &Value, stated: &Value) -> Vec<u32> {
    let (Some(seconds), Value::Time(time)) = (duration_of(open), stated) else { return Vec::new() };
    let Some(minutes) =
        Some(seconds / 60).filter(|minutes| seconds % 60 == 0 && (1..1_440).contains(minutes))
    else {
        return Vec::new();
    };
    let of_day = i64::from(time.minutes);
    [of_day - minutes, of_day + minutes]
        .iter()
        .filter_map(|it| u32::try_from(it.rem_euclid(1_440)).ok())
        .collect()
}

#[derive(Clone, Debug)]
enum Kind {
    Amount { number: Number, dimension: Option<Dimension>, factor: u64, is_about: bool },
    Time(Time),
    Day(Day),
}

/// The value that is looked for.
#[derive(Clone, Debug)]
struct Wanted {
    kind: Kind,
    /// Whether the sentence names an operation, or says that something follows.
    is_named: bool,
    /// Whether it names a sum or a difference.
    is_operation: bool,
    /// Whether it names a difference.
    is_change: bool,
    /// What the sentence says of operations.
    named: Operations,
    /// Whether chance is unlikely to give it.
    is_long: bool,
    /// Whether it is a difference of percentages.
    is_points: bool,
}

/// The dimension and the size of an amount in the smallest unit.
fn base_of(value: &Value) -> Option<(Option<Dimension>, Decimal)> {
    let Value::Amount { number, measured, .. } = value else { return None };
    match measured {
        Measured::Nothing | Measured::Noun(_) => Some((None, number.amount)),
        Measured::Unit(unit) => {
            unit.in_base(number.amount).next().map(|(dimension, base)| (Some(dimension), base))
        }
    }
}

fn seconds_of(time: Time) -> i64 {
    i64::from(time.minutes) * 60 + i64::from(time.seconds.unwrap_or(0))
}

/// A duration in whole seconds.
fn duration_of(value: &Value) -> Option<i64> {
    let (dimension, base) = base_of(value)?;
    let is_time = dimension == Some(Dimension::Time);
    let micros = Some(base).filter(|_| is_time)?.to_whole()?;
    (micros % 1_000_000 == 0).then(|| i64::try_from(micros / 1_000_000).ok()).flatten()
}

/// A whole number of months, or of years.
fn months_of(value: &Value) -> Option<i64> {
    let (dimension, base) = base_of(value)?;
    let is_it = dimension == Some(Dimension::Other("month"));
    Some(base)
        .filter(|_| is_it)?
        .to_whole()
        .and_then(|months| i64::try_from(months).ok())
        .filter(|months| *months > 0)
}

/// Two days with their years: one that names none has that of the other.
fn in_years(one: Day, two: Day, first_year: Option<i32>) -> (Day, Day) {
    let year_of = |day: Day, other: Day| Day { year: day.year.or(other.year).or(first_year), ..day };
    (year_of(one, two), year_of(two, one))
}

/// The whole months from a day to a later one, without that day and with it.
fn months_between(from: Day, to: Day) -> Option<Vec<i64>> {
    let of = |day: Day| Some(i64::from(day.year?) * 12 + i64::from(day.month));
    let months = of(to)? - of(from)?;
    let whole = |to_day: u32| months - i64::from(to_day < from.day);
    let next = to.unix_days()?.checked_add(1).and_then(Day::of_unix_days)?;
    let with_last = of(next)? - of(from)? - i64::from(next.day < from.day);
    let all: Vec<i64> = [whole(to.day), with_last].into_iter().filter(|months| *months > 0).collect();
    Some(all)
}

impl Wanted {
    fn of(open: &Value, named: Operations) -> Option<Self> {
        let is_named = named.sum || named.difference || named.follows;
        let kind = match open {
            Value::Amount { number, measured, is_about, .. } => {
                let (dimension, factor) = match measured {
                    // `1.7 points` are a difference of percentages.
                    Measured::Noun(noun) if is_points(noun) => (Some(Dimension::Percent), 1),
                    Measured::Nothing | Measured::Noun(_) => (None, 1),
                    Measured::Unit(unit) => {
                        unit.factors().next().map(|(dimension, factor)| (Some(dimension), factor))?
                    }
                };
                Kind::Amount { number: *number, dimension, factor, is_about: *is_about }
            }
            Value::Time(time) => Kind::Time(*time),
            Value::Day(day) => Kind::Day(*day),
            Value::RelativeDay(_) | Value::Text { .. } => return None,
        };
        let is_long = match &kind {
            Kind::Amount { number, dimension, .. } => {
                // The digits as written, with the zeros at its end.
                let zeros = usize::try_from(-number.places).unwrap_or(0);
                let is_exact = number.significant > 2
                    || number.significant + zeros > 2 && is_named && dimension.is_some()
                    || number.significant + zeros > 1 && is_named && dimension.is_none()
                    || number.significant > 1 && matches!(measured_of(open), Some(noun) if is_more(noun));
                is_exact
                    || number.places > 0 && number.significant > 1
                    || matches!(
                        dimension,
                        Some(Dimension::Percent | Dimension::Time | Dimension::Other("month"))
                    )
            }
            Kind::Time(_) | Kind::Day(_) => true,
        };
        Some(Self {
            kind,
            is_named,
            is_operation: named.sum || named.difference,
            is_change: named.difference,
            named,
            is_long,
            is_points: measured_of(open).is_some_and(is_points),
        })
    }

    /// Whether it is an amount of two digits.
    fn is_of_two_digits(&self) -> bool {
        let Kind::Amount { number, .. } = &self.kind else { return false };
        let zeros = usize::try_from(-number.places).unwrap_or(0);
        number.significant + zeros > 1 || number.places > 0 && self.named.difference
    }

    /// Whether the sentence names this operation on two values, or the value has so many digits that chance does not give it.
    fn allows(&self, formula: &Formula, (a, b): (&Value, &Value)) -> bool {
        let Kind::Amount { number, dimension, .. } = &self.kind else { return true };
        let named = self.named;
        let is_moment = |value: &Value| !matches!(value, Value::Amount { .. });
        // With a number of one digit any other number is near.
        let is_small = |value: &Value| matches!(base_of(value), Some((None, base)) if base.absolute().to_whole().is_some_and(|it| it < 10));
        let has_small = is_small(a) || is_small(b);
        let is_long = number.significant > 3 && !has_small;
        match formula {
            Formula::SumOfAmounts => named.sum || is_long || named.follows,
            Formula::Difference if is_moment(a) => true,
            Formula::Difference => {
                named.difference || is_long || named.follows && !has_small || self.is_points
            }
            Formula::Product | Formula::Quotient => {
                let is_money = matches!(dimension, Some(Dimension::Money(_)));
                named.follows || named.average || number.significant > if is_money { 2 } else { 3 }
            }
            _ => true,
        }
    }

    /// `39 % paid back` of an amount of which so much is left.
    fn rest_of(&self, whole: &Value, part: &Value) -> Option<Formula> {
        let Kind::Amount { number, dimension: Some(Dimension::Percent), .. } = &self.kind else {
            return None;
        };
        let ((of_whole, whole), (of_part, part)) = (base_of(whole)?, base_of(part)?);
        let rest = whole.plus(part.negated()).filter(|rest| of_whole == of_part && !rest.is_negative())?;
        let places = u32::try_from(number.places).unwrap_or(0);
        (number.significant > 1 && self.is_named && rest.percent_of(whole, places) == Some(number.amount))
            .then_some(Formula::PercentageOfDifference)
    }

    /// Whether two terms so many sentences before may be its operands.
    fn may_be(&self, one: usize, two: usize) -> bool {
        let is_moment = matches!(self.kind, Kind::Time(_) | Kind::Day(_));
        if is_moment && one.max(two) > 3 {
            return false;
        }
        match (one.min(two), one.max(two)) {
            // `0.2 mm above the limit`.
            (0, 0..=1) => self.is_long || self.named.difference && self.is_decimal(),
            (0, 0..=3) => self.is_long,
            (0, _) => self.is_long && self.is_named && !self.is_share(),
            (1, 1) if self.is_percent() => true,
            (1, 1..=4) | (2, 2..=3) => self.is_long && self.is_named,
            (1..=8, 1..=8) => (self.is_named || one == two) && self.is_unlikely(),
            _ => false,
        }
    }

    /// Whether it has so many digits that no two numbers near it give it by chance.
    fn is_unlikely(&self) -> bool {
        let Kind::Amount { number, .. } = &self.kind else { return false };
        let zeros = usize::try_from(-number.places).unwrap_or(0);
        number.significant > 3 || self.is_operation && number.significant + zeros > 2
    }

    fn is_share(&self) -> bool {
        matches!(&self.kind, Kind::Amount { number, .. } if self.is_percent() && number.places <= 0)
            && !self.is_points
    }

    /// Whether it has a unit and digits behind the point.
    fn is_decimal(&self) -> bool {
        matches!(&self.kind, Kind::Amount { number, dimension: Some(_), .. } if number.places > 0)
    }

    fn is_percent(&self) -> bool {
        matches!(self.kind, Kind::Amount { dimension: Some(Dimension::Percent), .. })
    }

    /// Whether an amount in the smallest unit is the wanted one. Of a sum nothing is rounded that the text does not say is.
    fn is_exactly(&self, base: Decimal) -> bool {
        let Kind::Amount { number, factor, is_about, .. } = &self.kind else { return false };
        match is_about {
            true => self.equals(base),
            false => number.amount.absolute().times(*factor) == Some(base.absolute()),
        }
    }

    /// Whether an amount in the smallest unit is the wanted one, or what it is rounded to.
    fn equals(&self, base: Decimal) -> bool {
        let Kind::Amount { number, factor, is_about, .. } = &self.kind else { return false };
        if number.amount.absolute().times(*factor) == Some(base.absolute()) {
            return true;
        }
        let rounds = number.significant > 2 || number.significant > 1 && (number.places > 0 || *is_about);
        rounds
            && base.divided(*factor, number.places).map(Decimal::absolute) == Some(number.amount.absolute())
    }

    /// Whether points are the difference of two amounts of one kind.
    fn differs(&self, a: &Value, b: &Value) -> Option<Formula> {
        let Kind::Amount { number, .. } = &self.kind else { return None };
        let ((of_a, base_a), (of_b, base_b)) = (base_of(a)?, base_of(b)?);
        let difference = base_a.plus(base_b.negated())?.absolute();
        (of_a == of_b && matches!(of_a, None | Some(Dimension::Percent)) && difference == number.amount)
            .then_some(Formula::Difference)
    }

    /// The sum of three of the amounts near it, of which chance gives none.
    fn sum_of_three(&self, terms: &[Term<'_>]) -> Option<(Formula, Vec<usize>)> {
        let Kind::Amount { number, dimension, factor, .. } = &self.kind else { return None };
        if number.significant + usize::try_from(-number.places).unwrap_or(0) < 4 {
            return None;
        }
        // `38 and 31 hours`: the unit is behind the last.
        let own_base = |value: &Value| match base_of(value)? {
            (None, base) if dimension.is_some() => base.times(*factor),
            (of, base) => (of == *dimension).then_some(base),
        };
        let own: Vec<(usize, Decimal)> = terms
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(at, term)| Some((at, own_base(term.value)?)))
            .take(MAX_SUMMANDS)
            .collect();
        for (n, (first, one)) in own.iter().enumerate() {
            for (m, (second, two)) in own.iter().enumerate().skip(n + 1) {
                let pair = one.plus(*two)?;
                let third = own
                    .iter()
                    .skip(m + 1)
                    .find(|(_, three)| pair.plus(*three).is_some_and(|sum| self.is_exactly(sum)));
                if let Some((third, _)) = third {
                    return Some((Formula::SumOfAmounts, vec![*third, *second, *first]));
                }
            }
        }
        None
    }

    /// What is left of the largest amount of the sentence without all others of its kind.
    fn remainder(&self, terms: &[Term<'_>]) -> Option<(Formula, Vec<usize>)> {
        let Kind::Amount { dimension, .. } = &self.kind else { return None };
        let own: Vec<(usize, Decimal)> = terms
            .iter()
            .enumerate()
            .filter(|(_, term)| term.before == 0)
            .filter_map(|(at, term)| {
                base_of(term.value).filter(|(of, _)| of == dimension).map(|(_, base)| (at, base))
            })
            .take(MAX_SUM)
            .collect();
        if own.len() < 3 || !self.is_named {
            return None;
        }
        let all = own.iter().try_fold(Decimal::whole(0), |sum, (_, base)| sum.plus(*base))?;
        // What is left is the largest amount twice, less the sum of all.
        let is_it = own.iter().any(|(_, base)| {
            let twice = base.times(2);
            twice
                .and_then(|twice| twice.plus(all.negated()))
                .is_some_and(|rest| !rest.is_negative() && self.is_exactly(rest))
        });
        is_it.then(|| (Formula::Difference, own.into_iter().map(|(at, _)| at).collect()))
    }

    /// How it results from two values.
    fn result(&self, a: &Value, b: &Value, first_year: Option<i32>) -> Option<Formula> {
        match &self.kind {
            Kind::Time(time) => {
                let Value::Time(other) = a else { return None };
                let by = duration_of(b)?;
                let is_it = |seconds: i64| seconds.rem_euclid(86_400) == seconds_of(*time);
                let other = seconds_of(*other);
                (is_it(other + by) || is_it(other - by)).then_some(Formula::Shifted)
            }
            Kind::Day(day) => {
                let Value::Day(other) = a else { return None };
                let (day, other) = in_years(*day, *other, first_year);
                if let Some(months) = months_of(b) {
                    let of = |day: Day| Some(i64::from(day.year?) * 12 + i64::from(day.month));
                    // A year from 1 October ends on 30 September.
                    let next = day.unix_days()?.checked_add(1).and_then(Day::of_unix_days)?;
                    let is_it = day.day == other.day && (of(day)? - of(other)?).abs() == months
                        || next.day == other.day && of(next)? - of(other)? == months;
                    return is_it.then_some(Formula::Shifted);
                }
                let by = duration_of(b)?;
                let days = Some(by / 86_400).filter(|days| by % 86_400 == 0 && *days > 0)?;
                let difference = day.unix_days()? - other.unix_days()?;
                (difference.abs() == days).then_some(Formula::Shifted)
            }
            Kind::Amount { number, dimension, .. } => self
                .of_times(dimension, a, b, first_year)
                .or_else(|| self.of_amounts(number, dimension, a, b)),
        }
    }

    /// The time between two times of day, or two days.
    fn of_times(
        &self,
        dimension: &Option<Dimension>,
        a: &Value,
        b: &Value,
        first_year: Option<i32>,
    ) -> Option<Formula> {
        if let (Some(Dimension::Other("month")), Value::Day(a), Value::Day(b)) = (dimension, a, b) {
            let Kind::Amount { number, factor, .. } = &self.kind else { return None };
            let stated = i64::try_from(number.amount.times(*factor)?.to_whole()?).ok()?;
            let (a, b) = in_years(*a, *b, first_year);
            let is_it = months_between(b, a)?.into_iter().any(|months| {
                // `eight years and two months`: each part is a value.
                stated == months || months > 12 && (stated == months - months % 12 || stated == months % 12)
            });
            return is_it.then_some(Formula::Difference);
        }
        if *dimension != Some(Dimension::Time) {
            return None;
        }
        let seconds = match (a, b) {
            (Value::Time(a), Value::Time(b)) => (seconds_of(*a) - seconds_of(*b)).rem_euclid(86_400),
            (Value::Day(a), Value::Day(b)) => {
                let (a, b) = in_years(*a, *b, first_year);
                a.unix_days()?.checked_sub(b.unix_days()?)?.checked_mul(86_400)?
            }
            _ => return None,
        };
        let seconds = Decimal::whole(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?);
        let (_, base) = Unit::SECONDS.in_base(seconds).next()?;
        self.equals(base).then_some(Formula::Difference)
    }

    fn of_amounts(
        &self,
        number: &Number,
        dimension: &Option<Dimension>,
        a: &Value,
        b: &Value,
    ) -> Option<Formula> {
        if self.is_points && *dimension == Some(Dimension::Percent) {
            let bare = self.differs(a, b);
            if bare.is_some() {
                return bare;
            }
        }
        let ((of_a, base_a), (of_b, base_b)) = (base_of(a)?, base_of(b)?);
        let (Value::Amount { number: number_a, .. }, Value::Amount { number: number_b, .. }) = (a, b) else {
            return None;
        };
        let places = u32::try_from(number.places).unwrap_or(0);
        if *dimension == Some(Dimension::Percent) && of_a == of_b && of_a != *dimension && !self.is_points {
            // Of small numbers there are too many shares.
            if number_a.significant.max(number_b.significant) < 2 {
                return None;
            }
            // `6 %` is exact or wrong: of one digit nothing is rounded.
            let places = if number.significant < 2 && number.places <= 0 { 2 } else { places };
            let is_it = |part: Decimal, whole: Decimal| {
                part != whole
                    && part.percent_of(whole, places).map(Decimal::absolute) == Some(number.amount.absolute())
            };
            if is_it(base_a, base_b) {
                return Some(Formula::Percentage);
            }
            let difference = base_a.plus(base_b.negated())?;
            let is_change = self.is_change && is_it(difference, base_a);
            return is_change.then_some(Formula::PercentageOfDifference);
        }
        // `15 more than the 30 minutes`: the unit is that of the others.
        let units = |value: &Value| match value {
            Value::Amount { measured: Measured::Unit(unit), .. } => Some(unit.clone()),
            _ => None,
        };
        if dimension.is_none()
            && of_a.is_some()
            && units(a) == units(b)
            && (self.is_operation || number.significant > 3)
        {
            let (one, two) = (number_a.amount, number_b.amount);
            if one.plus(two.negated()).is_some_and(|difference| difference.absolute() == number.amount) {
                return Some(Formula::Difference);
            }
            if one.plus(two) == Some(number.amount) {
                return Some(Formula::SumOfAmounts);
            }
        }
        if of_a == *dimension && of_b == *dimension {
            if base_a.plus(base_b).is_some_and(|sum| self.is_exactly(sum)) {
                return Some(Formula::SumOfAmounts);
            }
            if base_a.plus(base_b.negated()).is_some_and(|difference| self.is_exactly(difference)) {
                return Some(Formula::Difference);
            }
        }
        // So many percent of an amount, and what is then left of it or comes on top.
        if of_b == *dimension && of_a == Some(Dimension::Percent) && *dimension != of_a {
            let part = base_b.percent(number_a.amount)?;
            let rest = base_b.plus(part.negated())?;
            let whole = base_b.plus(part)?;
            return [part, rest, whole].into_iter().any(|it| self.equals(it)).then_some(Formula::Percentage);
        }
        // So many times an amount, and an amount divided by a number. What is counted has another unit, or none.
        let is_counted = of_a != of_b || of_a.is_none();
        if of_b == *dimension && is_counted && !number_a.amount.is_negative() {
            if base_b.product(number_a.amount).is_some_and(|product| self.equals(product)) {
                return Some(Formula::Product);
            }
            let digits = u32::try_from(number.places.max(0)).ok()?.checked_add(4)?;
            let quotient = base_b.quotient(number_a.amount, digits);
            return quotient.is_some_and(|quotient| self.equals(quotient)).then_some(Formula::Quotient);
        }
        // `64.85` of two numbers of which the text names the unit of one only.
        let factor = |value: &Value| match value {
            Value::Amount { measured: Measured::Unit(unit), .. } => {
                unit.factors().next().map(|(_, factor)| factor)
            }
            _ => None,
        };
        let is_or_bare = |of: &Option<Dimension>| of.is_none() || of == dimension;
        if dimension.is_none() || number.significant < 3 || !(is_or_bare(&of_a) && is_or_bare(&of_b)) {
            return None;
        }
        let Kind::Amount { factor: own, .. } = &self.kind else { return None };
        let by = factor(a).or(factor(b)).unwrap_or(*own);
        let (one, two) = (number_a.amount.times(by)?, number_b.amount.times(by)?);
        if one.plus(two.negated()).is_some_and(|difference| self.is_exactly(difference)) {
            return Some(Formula::Difference);
        }
        one.plus(two).is_some_and(|sum| self.is_exactly(sum)).then_some(Formula::SumOfAmounts)
    }
}

/// Whether two values are amounts of one kind.
fn is_share_of(one: &Value, two: &Value) -> bool {
    base_of(one)
        .zip(base_of(two))
        .is_some_and(|((one, _), (two, _))| one == two && one != Some(Dimension::Percent))
}

fn measured_of(value: &Value) -> Option<&str> {
    match value {
        Value::Amount { measured: Measured::Noun(noun), .. } => Some(noun),
        _ => None,
    }
}

/// Whether the word behind a number says that it is a difference: `15 more than`.
fn is_more(noun: &str) -> bool {
    matches!(
        noun,
        "more"
            | "less"
            | "fewer"
            | "too"
            | "above"
            | "below"
            | "over"
            | "mehr"
            | "weniger"
            | "zu"
            | "plus"
            | "moins"
            | "más"
            | "menos"
    )
}

fn is_points(noun: &str) -> bool {
    matches!(noun, "points" | "point" | "punkte" | "punkten" | "puntos" | "ポイント" | "ポ")
}
