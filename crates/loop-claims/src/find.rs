//! Where a stated value is: in the cited evidence, elsewhere, or nowhere.

use std::collections::HashSet;
use std::ops::Range;

use crate::compute::{is_between, is_computed, is_one_off};
use crate::source::{Entry, Source};
use crate::stated::Stated;
use crate::value::{Amount, Day};
use crate::words::Dimension;

/// What the sources say of a value.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Copied, at this place of the text of a source. `None`: in its data.
    Copied(Option<Range<usize>>),
    Computed,
    /// Nothing fits, and it should be there. What is there instead, if it is known.
    Wrong(Wrong),
    /// It cannot be said.
    Unknown(&'static str),
}

/// Why a value is not in a source.
#[derive(Debug)]
pub(crate) enum Wrong {
    Unit(String),
    Currency(String),
    Other(String),
    Nowhere,
}

/// Where a value is in one source. `None`: it is not there as a copy.
pub(crate) fn copied(stated: &Stated, source: &Source) -> Option<Option<Range<usize>>> {
    match stated {
        Stated::Amount(amount) => amount_in(amount, source),
        Stated::Day(day) => source.days.iter().find(|(it, _)| it.is_same(day)).map(|(_, at)| at.clone()),
        Stated::Time { seconds, is_exact, is_zoned } => {
            let is_same = |(it, exact): (u32, bool)| {
                let unit = if *is_exact && exact { 1 } else { 60 };
                let apart = (it / unit).abs_diff(seconds / unit) * unit;
                apart == 0 || apart == 43_200 || *is_zoned && apart % 1_800 == 0
            };
            source.times.iter().find(|(it, _)| is_same(*it)).map(|(_, at)| at.clone())
        }
        Stated::Span(seconds) => source
            .near(true, *seconds, 60.5)
            .find(|entry| entry.amount.unit.is_some_and(|unit| unit.dimension == Dimension::Time))
            .map(|entry| entry.at.clone()),
        Stated::Id { whole, parts } => match source.has.get(whole) {
            Some(at) => Some(at.clone()),
            None => parts.iter().all(|part| source.has.contains_key(part)).then(|| parts.first().and_then(|part| source.has.get(part).cloned().flatten())),
        },
        Stated::Quote(quote) => source.has.get(quote).cloned(),
        Stated::Name { words, .. } => {
            let has = |forms: &Vec<usize>| forms.iter().find_map(|form| source.has.get(form));
            let found: Vec<_> = words.iter().filter_map(has).collect();
            let is_there = found.len() * 2 > words.len() || words.len() == found.len();
            is_there.then(|| found.first().and_then(|at| (*at).clone()))
        }
        Stated::Absence(stems) => {
            let says = source.is_empty || stems.iter().any(|stem| source.absent.contains(stem));
            says.then_some(None)
        }
    }
}

fn amount_in(amount: &Amount, source: &Source) -> Option<Option<Range<usize>>> {
    let Amount { number, other, step, digits, unit, currency, is_about, .. } = *amount;
    let by = if digits < 2 && !is_about { 1e-9 * number.max(1.0) } else { step * 0.5001 };
    let fits_money = |entry: &&Entry| currency.zip(entry.amount.currency).is_none_or(|(one, other)| one == other);
    let is_bare = |entry: &&Entry| entry.amount.unit.is_none();
    for number in std::iter::once(number).chain(other) {
        let same_unit = |entry: &&Entry| unit.zip(entry.amount.unit).is_none_or(|(one, other)| one == other);
        if let Some(entry) = source.near(false, number, by).filter(fits_money).find(same_unit) {
            return Some(entry.at.clone());
        }
        // What the evidence itself has rounded.
        let is_rounded = |entry: &&Entry| entry.amount.is_about && entry.amount.digits > 1 && (entry.amount.number - number).abs() <= entry.amount.step * 0.5;
        if let Some(entry) = source.near(false, number, number * 0.03).filter(fits_money).filter(same_unit).find(is_rounded) {
            return Some(entry.at.clone());
        }
        let Some(unit) = unit else { continue };
        let same_dimension = |entry: &&Entry| entry.amount.unit.is_some_and(|it| it.dimension == unit.dimension);
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
            let near = source.near(true, base * binary, base_by * binary).chain(source.near(true, base * 1.024, base_by * 1.024));
            if let Some(entry) = near.into_iter().find(same_dimension) {
                return Some(entry.at.clone());
            }
        }
    }
    let is_count = step == 1.0 && currency.is_none() && unit.is_none() && source.counts.contains(&whole(number));
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
    /// The durations of a day and more that its sentence states, in seconds.
    pub(crate) spans: &'a [f64],
    /// The currencies that any evidence names.
    pub(crate) currencies: &'a HashSet<&'static str>,
}

/// What the cited sources say of a value that none of them has as a copy.
pub(crate) fn judge(value: &Stated, context: &Context<'_>) -> Answer {
    match value {
        Stated::Amount(amount) => judge_amount(amount, context),
        Stated::Day(day) => judge_day(day, context),
        Stated::Span(seconds) if is_between(*seconds, 60.0, 1.0, context.cited) => Answer::Computed,
        Stated::Span(_) => Answer::Unknown("a duration that is not written in the evidence"),
        Stated::Time { .. } | Stated::Id { .. } | Stated::Quote(_) | Stated::Name { .. } | Stated::Absence(_) => {
            Answer::Wrong(Wrong::Nowhere)
        }
    }
}

/// A day may be counted from another one: `14 days later, on 21 August`.
fn judge_day(day: &Day, context: &Context<'_>) -> Answer {
    const DAY: f64 = 86_400.0;
    let Some(number) = day.number() else { return Answer::Wrong(Wrong::Nowhere) };
    let of_evidence = context.cited.iter().flat_map(|source| source.entries.iter().take(MAX_READ)).filter_map(|entry| {
        let unit = entry.amount.unit.filter(|unit| unit.dimension == Dimension::Time && unit.factor >= DAY)?;
        Some(entry.amount.number * unit.factor)
    });
    let spans: Vec<f64> = context.spans.iter().copied().chain(of_evidence).take(MAX_READ).collect();
    let days = || context.cited.iter().flat_map(|source| &source.days).take(MAX_READ).filter_map(|(day, _)| day.number());
    #[expect(clippy::cast_precision_loss, reason = "days of a calendar")]
    let apart = |from: i64| (number - from).abs() as f64 * DAY;
    // Months and years are not all as long.
    let is_apart = |from: i64| spans.iter().any(|span| (apart(from) - span).abs() <= if *span > 27.0 * DAY { 3.0 * DAY } else { 0.5 * DAY });
    match days().any(is_apart) {
        true => Answer::Computed,
        // Days and weeks are exact, months and years are not.
        false if spans.iter().all(|span| *span < 27.0 * DAY) => Answer::Wrong(Wrong::Nowhere),
        false => Answer::Unknown("a day that is counted from another"),
    }
}

/// So many entries of a source are compared with one value where there is no index.
const MAX_READ: usize = 64;

fn judge_amount(amount: &Amount, context: &Context<'_>) -> Answer {
    let Amount { number, step, digits, unit, currency, .. } = *amount;
    let Context { cited, stated, spans, currencies } = context;
    if currency.is_some_and(|code| !currencies.is_empty() && !currencies.contains(code)) {
        let named: Vec<String> = currencies.iter().map(|code| code.to_uppercase()).collect();
        return Answer::Wrong(Wrong::Currency(named.join(", ")));
    }
    if amount.is_year() && !spans.is_empty() {
        return Answer::Unknown("a year that is counted from another");
    }
    let raw = |entry: &&Entry| (entry.amount.number - number).abs() < 1e-9 * number.max(1.0);
    let equal = || cited.iter().flat_map(|source| source.near(false, number, step * 0.5).map(move |entry| (*source, entry))).filter(|(_, entry)| raw(entry));
    let differs = equal().find_map(|(source, entry)| {
        let other_money = currency.zip(entry.amount.currency).is_some_and(|(one, other)| one != other);
        let other_unit = unit.zip(entry.amount.unit).is_some_and(|(one, other)| one != other);
        if other_money {
            return Some(Wrong::Currency(source.says(entry)));
        }
        other_unit.then(|| Wrong::Unit(source.says(entry)))
    });
    if let Some(wrong) = differs {
        return Answer::Wrong(wrong);
    }
    if unit.is_some_and(|unit| unit.dimension == Dimension::Time)
        && let Some(unit) = unit
        && is_between(number * unit.factor, unit.factor, step, cited)
    {
        return Answer::Computed;
    }
    if digits < 2 && amount.is_bare() {
        return Answer::Unknown("a small number");
    }
    if is_computed(amount, cited, stated) {
        return Answer::Computed;
    }
    if step == 1.0 && number < 13.0 && amount.is_bare() {
        return Answer::Unknown("a small number");
    }
    let written = |number: f64| format!("{:.0}", if step < 1.0 { number / step } else { number });
    let own = written(number);
    let slip = cited.iter().find_map(|source| {
        let entry = source.entries.iter().take(2_000).find(|entry| is_one_off(&own, &written(entry.amount.number)))?;
        Some(source.says(entry))
    });
    Answer::Wrong(slip.map_or(Wrong::Nowhere, Wrong::Other))
}
