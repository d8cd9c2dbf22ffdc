//! Where a stated value is: in the cited evidence, elsewhere, or nowhere.

use std::collections::BTreeSet;

use crate::compute::{Derivable, computed, is_between};
use crate::source::{Entry, Source, TextRange};
use crate::stated::Needle;
use crate::value::{Amount, Day, is_dollar};
use crate::words::{Dimension, Unit};

/// What the sources say of a value.
#[derive(Debug)]
pub(crate) enum Answer {
    Computed,
    /// Nothing fits, and it should be there. What is there instead, if it is known.
    Wrong(Mismatch),
    /// It cannot be said.
    Unknown(&'static str),
}

/// Why a value is not in a source.
#[derive(Debug)]
pub(crate) enum Mismatch {
    Unit(String),
    Currency(String),
    Other(String),
    Nowhere,
}

/// Where a value is in one source. `None`: it is not there as a copy.
pub(crate) fn copied(stated: &Needle, source: &Source) -> Option<TextRange> {
    match stated {
        Needle::Amount(amount) => amount_in(amount, source),
        Needle::Day(day) => source.place_of_day(day).cloned().or_else(|| day_of_month(day, source)),
        Needle::Time { seconds, is_exact, is_zoned } => {
            // `at 7` for 7 pm.
            let hour = f64::from(seconds / 3_600 % 12);
            let on_the_hour = (seconds % 3_600 == 0).then(|| source.near(false, hour, 0.0).next()).flatten();
            let same = source.place_of_time(*seconds, *is_exact, *is_zoned).cloned();
            same.or_else(|| on_the_hour.map(|entry| entry.at.clone()))
        }
        Needle::Span(seconds) => source
            .near(true, *seconds, 60.5)
            .find(|entry| entry.amount.unit.is_some_and(|unit| unit.dimension == Dimension::Time))
            .map(|entry| entry.at.clone()),
        Needle::Id { whole, parts, .. } => match source.has.get(whole) {
            Some(at) => Some(at.clone()),
            None => parts
                .iter()
                .all(|part| source.has.contains_key(part))
                .then(|| parts.first().and_then(|part| source.has.get(part).cloned().flatten())),
        },
        Needle::Quote(pieces) => {
            let is_there = pieces.iter().all(|piece| source.has.contains_key(piece));
            is_there.then(|| pieces.first().and_then(|piece| source.has.get(piece).cloned().flatten()))
        }
        Needle::Period { forms, .. } => forms.iter().find_map(|form| source.has.get(form)).cloned(),
        Needle::Name { words, .. } => {
            let has = |forms: &Vec<usize>| forms.iter().find_map(|form| source.has.get(form));
            let found: Vec<_> = words.iter().filter_map(has).collect();
            (found.len() * 2 > words.len() || words.is_empty())
                .then(|| found.first().and_then(|at| (*at).clone()))
        }
        Needle::Action { words, .. } => words.iter().find_map(|word| source.has.get(word)).cloned(),
        Needle::Absence(stems) => {
            let says = source.is_empty || stems.iter().take(2).any(|stem| source.absent.contains(stem));
            says.then_some(None)
        }
    }
}

/// Where a list of a month has the number of a day: `December 2027` above `27-31 closed`.
fn day_of_month(asked: &Day, source: &Source) -> Option<TextRange> {
    let is_month = |day: &Day| {
        day.day.is_none() && day.month == asked.month && (day.year == asked.year || asked.year.is_none())
    };
    source.days.iter().any(is_month).then_some(())?;
    source
        .near(false, f64::from(asked.day?), 0.0)
        .find(|entry| entry.amount.is_bare())
        .map(|entry| entry.at.clone())
}

fn amount_in(amount: &Amount, source: &Source) -> Option<TextRange> {
    let Amount { number, other, step, digits, unit, currency, is_about, .. } = *amount;
    let by = if digits < 2 && !is_about { 1e-9 * number.max(1.0) } else { step * 0.5001 };
    let fits_money = |entry: &&Entry| amount.may_be_currency(&entry.amount);
    let is_bare = |entry: &&Entry| entry.amount.unit.is_none();
    // The other reading has three decimals more or less.
    let other = other.map(|other| (other, amount.scale * if other < number { 0.0005 } else { 0.5 }));
    for (number, by) in std::iter::once((number, by)).chain(other) {
        // Where the source has the number with another unit, it does not mean it without one.
        let is_other = |entry: &Entry| unit.zip(entry.amount.unit).is_some_and(|(one, other)| one != other);
        let has_other = source.near(false, number, by).any(is_other);
        let same_unit = |entry: &&Entry| !is_other(entry) && (!has_other || entry.amount.unit == unit);
        if let Some(entry) = source.near(false, number, by).filter(fits_money).find(same_unit) {
            return Some(entry.at.clone());
        }
        let Some(unit) = unit else { continue };
        let same_dimension =
            |entry: &&Entry| entry.amount.unit.is_some_and(|it| it.dimension == unit.dimension);
        let (base, base_by) = (number * unit.factor, by * unit.factor);
        if let Some(entry) = source.near(true, base, base_by).find(same_dimension) {
            return Some(entry.at.clone());
        }
        let bare = match unit.dimension {
            Dimension::Percent => Some((number / 100.0, by / 100.0)),
            Dimension::Time | Dimension::Other("bytes") => Some((base, base_by)),
            Dimension::Other(_) => None,
        };
        if let Some((number, by)) = bare
            && let Some(entry) = source.near(false, number, by).find(is_bare)
        {
            return Some(entry.at.clone());
        }
        // A gigabyte is 1000 or 1024 megabytes.
        if unit.dimension == Dimension::Other("bytes") {
            let powers = (unit.factor.log10() / 3.0).floor().max(1.0);
            let binary = 1.024_f64.powf(powers);
            let near = source.near(true, base * binary, base_by * binary).chain(source.near(
                true,
                base * 1.024,
                base_by * 1.024,
            ));
            if let Some(entry) = near.into_iter().find(same_dimension) {
                return Some(entry.at.clone());
            }
        }
    }
    if amount.is_year()
        && let Some(at) = i32::try_from(whole(number)).ok().and_then(|year| source.place_of_year(year))
    {
        return Some(at.clone());
    }
    let is_count =
        step == 1.0 && currency.is_none() && unit.is_none() && source.counts.contains(&whole(number));
    is_count.then_some(None)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, and not negative")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// What a value is judged by.
pub(crate) struct Context<'a> {
    pub(crate) cited: &'a [&'a Source],
    /// The amounts before it in its section.
    pub(crate) stated: &'a [Amount],
    /// The amounts behind it in its sentence.
    pub(crate) behind: &'a [Amount],
    /// The durations of a day and more that its sentence states, in seconds.
    pub(crate) spans: &'a [f64],
    /// The day on which the run started.
    pub(crate) today: Day,
    /// The currencies that any evidence names.
    pub(crate) currencies: &'a BTreeSet<&'static str>,
}

/// What the cited sources say of a value that none of them has as a copy.
pub(crate) fn judge(value: &Needle, context: &Context<'_>) -> Answer {
    match value {
        Needle::Amount(amount) => judge_amount(amount, context),
        Needle::Day(day) => judge_day(day, context),
        Needle::Span(seconds) if is_between(*seconds, 60.0, 1.0, context.cited) => Answer::Computed,
        Needle::Span(_) => Answer::Unknown("a duration that is not written in the evidence"),
        Needle::Id { form, .. } if !context.cited.iter().any(|source| source.forms.contains(form)) => {
            Answer::Unknown("no id of its form is in the evidence")
        }
        Needle::Period { others, .. } if !has_any(others, context.cited) => {
            Answer::Unknown("a part of a year")
        }
        Needle::Name { own, .. } => {
            let of = |source: &&Source| own.iter().find_map(|word| source.names.get(word).cloned());
            let name = context.cited.iter().find_map(of);
            Answer::Wrong(name.map_or(Mismatch::Nowhere, |name| Mismatch::Other(name.into())))
        }
        Needle::Absence(_)
            if context
                .cited
                .iter()
                .all(|source| source.is_prose && source.forms.is_empty() && source.text.len() > 1_000) =>
        {
            Answer::Unknown("a long text")
        }
        Needle::Action { .. } => Answer::Unknown("whether it happened"),
        Needle::Time { .. } if !speaks_of_times(context.cited) => {
            Answer::Unknown("a time that is counted from another")
        }
        Needle::Time { .. }
        | Needle::Id { .. }
        | Needle::Period { .. }
        | Needle::Quote(_)
        | Needle::Absence(_) => Answer::Wrong(Mismatch::Nowhere),
    }
}

/// Whether the sources have times of day, and no durations that others may be counted by.
fn speaks_of_times(cited: &[&Source]) -> bool {
    let is_short = |entry: &Entry| {
        entry
            .amount
            .unit
            .is_some_and(|unit| unit.dimension == Dimension::Time && (60.0..=3_600.0).contains(&unit.factor))
    };
    cited.iter().any(|source| source.has_times())
        && !cited.iter().flat_map(|source| &source.entries).take(MAX_READ).any(is_short)
}

fn has_any(patterns: &[usize], cited: &[&Source]) -> bool {
    cited.iter().any(|source| patterns.iter().any(|pattern| source.has.contains_key(pattern)))
}

/// A day may be counted from another one: `14 days later, on 21 August`.
fn judge_day(day: &Day, context: &Context<'_>) -> Answer {
    const DAY: f64 = 86_400.0;
    let Some(number) = day.number() else { return Answer::Wrong(Mismatch::Nowhere) };
    if day.day.is_none() && !context.spans.is_empty() {
        return Answer::Unknown("a month that is counted from another");
    }
    let of_evidence =
        context.cited.iter().flat_map(|source| source.entries.iter().take(MAX_READ)).filter_map(|entry| {
            let unit =
                entry.amount.unit.filter(|unit| unit.dimension == Dimension::Time && unit.factor >= DAY)?;
            Some(entry.amount.number * unit.factor)
        });
    let spans: Vec<f64> = context.spans.iter().copied().chain(of_evidence).take(MAX_READ).collect();
    let days = || context.cited.iter().flat_map(|source| &source.days).take(MAX_READ).filter_map(Day::number);
    #[expect(clippy::cast_precision_loss, reason = "days of a calendar")]
    let apart = |from: i64| (number - from).abs() as f64 * DAY;
    // Months and years are not all as long.
    let is_apart = |from: i64| {
        spans
            .iter()
            .any(|span| (apart(from) - span).abs() <= if *span > 27.0 * DAY { 3.0 * DAY } else { 0.5 * DAY })
    };
    match days().any(is_apart) {
        true => Answer::Computed,
        // A day or two off is a slip, and one out of reach of all that are known is counted from none.
        false if days().any(|from| (number - from).abs() < 3) => Answer::Wrong(Mismatch::Nowhere),
        false => {
            let reach = spans.iter().copied().fold(0.0, f64::max) * 2.0 + 7.0 * DAY;
            let is_near = |from: i64| !spans.is_empty() && apart(from) <= reach;
            match days().chain(context.today.number()).any(is_near) {
                true => Answer::Unknown("a day that is counted from another"),
                false => Answer::Wrong(Mismatch::Nowhere),
            }
        }
    }
}

/// Whether a currency is one of those that are named, or none is.
pub(crate) fn may_be_named(code: &str, named: &BTreeSet<&'static str>) -> bool {
    let dollar = |it: &&str| is_dollar(it);
    named.is_empty()
        || named.contains(code)
        || is_dollar(code) && (code == "$" && named.iter().any(dollar) || named.contains("$"))
}

/// So many entries of a source are compared with one value where there is no index.
const MAX_READ: usize = 64;

fn judge_amount(amount: &Amount, context: &Context<'_>) -> Answer {
    let Amount { number, step, digits, unit, currency, .. } = *amount;
    let Context { cited, stated, behind, spans, currencies, .. } = context;
    if currency.is_some_and(|code| !may_be_named(code, currencies)) {
        let named: Vec<String> = currencies.iter().map(|code| code.to_uppercase()).collect();
        return Answer::Wrong(Mismatch::Currency(named.join(", ")));
    }
    if amount.is_year() && (amount.is_fiscal || !spans.is_empty()) {
        return Answer::Unknown("a year that is counted from another");
    }
    let raw = |entry: &&Entry| (entry.amount.number - number).abs() < 1e-9 * number.max(1.0);
    let equal = || {
        cited
            .iter()
            .flat_map(|source| source.near(false, number, step * 0.5).map(move |entry| (*source, entry)))
            .filter(|(_, entry)| raw(entry))
    };
    let differs = equal().find_map(|(source, entry)| {
        let other_money = !amount.may_be_currency(&entry.amount);
        let other_unit = unit.zip(entry.amount.unit).is_some_and(|(one, other)| one != other);
        if other_money {
            return Some(Mismatch::Currency(source.says(entry)));
        }
        other_unit.then(|| Mismatch::Unit(source.says(entry)))
    });
    if let Some(wrong) = differs {
        return Answer::Wrong(wrong);
    }
    if let Some(unit) = unit.filter(|unit| unit.dimension == Dimension::Time)
        && is_between(number * unit.factor, unit.factor, step, cited)
    {
        return Answer::Computed;
    }
    if digits < 2 && amount.is_bare() {
        return Answer::Unknown("a small number");
    }
    if amount.is_year() {
        return Answer::Wrong(Mismatch::Nowhere);
    }
    let is_percent = unit.is_some_and(|unit| unit.dimension == Dimension::Percent);
    let is_share = is_percent || step < 1.0 && number < 10.0 && amount.is_bare();
    // A number of the evidence that is this one but for a digit is more likely what was meant.
    let slip = cited.iter().find_map(|source| Some(source.says(source.slip(amount)?)));
    let is_slip = digits > 1 && slip.is_some();
    let may_be_computed = digits > 2 && slip.is_none() && cited.iter().any(|source| source.has_data);
    match computed(amount, cited, stated, behind, is_slip) {
        Derivable::Yes => return Answer::Computed,
        Derivable::Perhaps if is_share && digits > 2 || may_be_computed => {
            return Answer::Unknown("it may result from other numbers");
        }
        Derivable::Perhaps | Derivable::No => {}
    }
    if let Some(why) = beyond(amount, cited) {
        return Answer::Unknown(why);
    }
    Answer::Wrong(slip.map_or(Mismatch::Nowhere, Mismatch::Other))
}

/// What keeps an amount that is nowhere from being contradicted. `None`: nothing.
fn beyond(amount: &Amount, cited: &[&Source]) -> Option<&'static str> {
    let Amount { number, step, unit, currency, is_loose, scale, .. } = *amount;
    // Of formulas and of calendars.
    let is_factor = amount.is_bare() && [100.0, 365.0, 360.0, 1_000.0].contains(&number);
    if is_factor || step == 1.0 && number < 13.0 && amount.is_bare() {
        return Some("a number that needs no evidence");
    }
    let is_day = |day: &Day| day.day.is_some_and(|day| f64::from(day) == number);
    if amount.is_bare()
        && step == 1.0
        && number < 32.0
        && cited.iter().flat_map(|source| &source.days).any(is_day)
    {
        return Some("a day of a month");
    }
    let near = |is_base: bool, number: f64, by: f64| {
        cited.iter().any(|source| source.near(is_base, number, by).next().is_some())
    };
    let is_round = amount.round() * 100.0 > number;
    if is_loose
        && is_round
        && number >= 1_000.0
        && (near(false, number, number * 0.1)
            || unit.is_some_and(|unit| near(true, number * unit.factor, number * unit.factor * 0.1)))
    {
        return Some("a bound");
    }
    if scale > 1.0 && near(false, number / scale, step / scale * 0.5001) {
        return Some("the evidence does not say its scale");
    }
    // Of hours and days the time between two points of the evidence is exact.
    let is_time = |unit: &Unit| {
        unit.dimension == Dimension::Time
            && (unit.factor > 86_400.0 || !cited.iter().any(|source| source.stamps.len() > 2))
    };
    let speaks = |unit: &Unit| cited.iter().any(|source| source.units.contains(unit));
    if currency.is_none() && unit.as_ref().is_some_and(|unit| is_time(unit) && !speaks(unit)) {
        return Some("a duration that takes a calendar");
    }
    None
}
