//! Values that are computed: sums, means, shares, differences, products and quotients of numbers that belong together.
//!
//! Of enough numbers some two give any third. A result is accepted only where so few candidates lie as near by chance.

use crate::source::{MAX_STAMPS, Source};
use crate::value::Amount;
use crate::words::{Dimension, Unit};

/// Candidates of one source, in order. Percentages are for values in percent alone, and the others for all others.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// Sums, means and ranges of whole groups; shares of them in percent.
    whole: [Vec<f64>; 2],
    /// Results of two numbers of one group, and of neighbours; percentages of one of another.
    pairs: [Vec<f64>; 2],
    /// Numbers that a stated one may be combined with.
    operands: Vec<f64>,
}

/// More candidates are not made of one source.
const MAX_CANDIDATES: usize = 20_000;
/// In longer groups no pairs are made.
const MAX_PAIRED: usize = 30;
/// Of so few numbers all sums are made.
const MAX_SUBSETS: usize = 10;
/// Of so few numbers of a source pairs are made across groups.
const MAX_ACROSS: usize = 24;

impl Candidates {
    /// Of groups of numbers, and of all numbers of their source.
    pub(crate) fn of(groups: &[Vec<f64>], all: &[f64]) -> Self {
        let mut made = Self::default();
        for group in groups {
            let sum: f64 = group.iter().sum();
            let least = group.iter().copied().fold(f64::INFINITY, f64::min);
            let most = group.iter().copied().fold(0.0, f64::max);
            let [whole, shares] = &mut made.whole;
            let [pairs, percents] = &mut made.pairs;
            whole.extend([sum, sum / count(group.len()), most - least]);
            if sum != 0.0 {
                shares.extend(group.iter().map(|it| 100.0 * it / sum));
            }
            if group.len() <= MAX_PAIRED {
                combine(group, group, pairs);
                percentages(group, group, percents);
                for from in 0..group.len() {
                    let mut sum = 0.0;
                    for (length, number) in group.iter().skip(from).enumerate() {
                        sum += number;
                        if length > 0 {
                            pairs.push(sum);
                        }
                    }
                }
            }
            if (3..=MAX_SUBSETS).contains(&group.len()) {
                pairs.extend(subset_sums(group));
            }
            if pairs.len() > MAX_CANDIDATES {
                break;
            }
        }
        let Self { whole: [whole, shares], pairs: [pairs, percents], operands } = &mut made;
        if all.len() <= MAX_ACROSS {
            combine(all, all, pairs);
            percentages(all, all, percents);
        }
        *operands = whole.iter().take(120).chain(all.iter().take(40)).copied().collect();
        whole.truncate(MAX_CANDIDATES);
        shares.truncate(MAX_CANDIDATES);
        [whole, shares, pairs, percents].into_iter().for_each(sort);
        made
    }
}

/// Without signs, in order.
fn sort(list: &mut Vec<f64>) {
    list.iter_mut().for_each(|it| *it = it.abs());
    list.retain(|it| it.is_finite());
    list.sort_by(f64::total_cmp);
}

fn count(length: usize) -> f64 {
    u32::try_from(length).map_or(f64::INFINITY, f64::from)
}

/// Sums of any of these numbers: the amounts of the orders that are late.
fn subset_sums(group: &[f64]) -> Vec<f64> {
    group.iter().fold(vec![0.0], |sums, number| {
        sums.iter().copied().chain(sums.iter().map(|sum| sum + number)).collect()
    })
}

/// What two numbers give: difference, sum, product, a percentage of one, ratio.
fn combine(ones: &[f64], others: &[f64], into: &mut Vec<f64>) {
    for (one, other) in ones.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
        into.extend([one - other, one + other, one * other, one * other / 100.0]);
        into.extend(
            [(one, other), (other, one)].iter().filter(|(_, by)| **by != 0.0).map(|(it, by)| *it / *by),
        );
    }
}

/// What one number is of another in percent, and by how much it is more or less, also in points.
fn percentages(ones: &[f64], others: &[f64], into: &mut Vec<f64>) {
    for (one, other) in ones.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
        for (part, whole) in [(one, other), (other, one)].into_iter().filter(|(_, whole)| **whole != 0.0) {
            into.extend([100.0 * part / whole, 100.0 * (part - whole) / whole]);
        }
        into.push(one - other);
    }
}

/// Whether a value is the result of numbers of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Derivable {
    No,
    /// There is such a result, among so many others that it says nothing.
    Perhaps,
    Yes,
}

/// What a value is compared with.
struct Target {
    number: f64,
    step: f64,
    /// Whether a number of the evidence is this one but for a digit: more likely a slip than a result.
    slip: bool,
}

impl Target {
    /// Whether one of the candidates is the value, and so few are as near that it is not by chance.
    /// `bound`: how many candidates may be expected within half a step of any value of this size. The candidates of each
    /// list, which is in order, are multiplied by its factor.
    fn chance(&self, lists: &[(&[f64], f64)], bound: f64, round: f64) -> Derivable {
        let Self { number, .. } = self;
        let within = |list: &[f64], low: f64, high: f64| {
            list.partition_point(|it| *it <= high).saturating_sub(list.partition_point(|it| *it < low))
        };
        let by = self.by();
        let (mut hits, mut near) = (0, 0);
        for (list, factor) in lists {
            hits += within(list, (number - by) / factor, (number + by) / factor);
            near += within(list, number * 0.5 / factor, number * 2.0 / factor);
        }
        self.judge(hits, near, bound, round)
    }

    /// As [`Self::chance`], of candidates in any order.
    fn chance_of(&self, candidates: &[f64], bound: f64, round: f64) -> Derivable {
        let Self { number, .. } = self;
        let by = self.by();
        let count_of =
            |low: f64, high: f64| candidates.iter().filter(|it| (low..=high).contains(&it.abs())).count();
        self.judge(count_of(number - by, number + by), count_of(number * 0.5, number * 2.0), bound, round)
    }

    fn by(&self) -> f64 {
        self.step * 0.51 + 1e-9
    }

    fn judge(&self, hits: usize, near: usize, bound: f64, round: f64) -> Derivable {
        let bound = if self.slip { bound * 0.1 } else { bound };
        match count(near) * round / (self.number * 1.5).max(self.step) < bound {
            _ if hits == 0 => Derivable::No,
            true => Derivable::Yes,
            false => Derivable::Perhaps,
        }
    }
}

/// Whether an amount results from the cited sources, or from what the document states before it.
/// `behind`: what follows it in its sentence. `slip`: whether a number of the sources is this one but for a digit.
pub(crate) fn computed(
    amount: &Amount,
    cited: &[&Source],
    stated: &[Amount],
    behind: &[Amount],
    slip: bool,
) -> Derivable {
    let Amount { number, step, digits, unit, .. } = *amount;
    // Round numbers are hit by chance more often.
    let round = if digits > 1 { amount.round() } else { step };
    let wanted = Target { number, step, slip };
    // Numbers as they are written say nothing of a value in another unit.
    let units = || cited.iter().flat_map(|source| &source.units);
    let is_other = unit.is_some_and(|unit| {
        units().any(|it| it.dimension == unit.dimension) && !units().any(|it| *it == unit)
    });
    let mut made: Vec<(&Candidates, f64)> = Vec::new();
    for source in cited {
        if !is_other {
            made.push((source.candidates(false), 1.0));
        }
        if source.scale != 1.0 {
            made.push((source.candidates(false), source.scale));
        }
        made.extend(unit.map(|unit| (source.candidates(true), 1.0 / unit.factor)));
    }
    let is_percent = |unit: &Unit| unit.dimension == Dimension::Percent;
    let is_share = unit.as_ref().is_some_and(is_percent);
    let lists = |of: fn(&Candidates) -> &[Vec<f64>; 2]| -> Vec<(&[f64], f64)> {
        let at = usize::from(is_share);
        made.iter().map(|(it, factor)| (of(it).get(at).map_or(&[][..], |list| list), *factor)).collect()
    };
    let pairs: fn(&[f64], &[f64], &mut Vec<f64>) = if is_share { percentages } else { combine };
    let is_short = digits < 3;
    let mut best = wanted.chance(&lists(|it| &it.whole), if is_short { 0.5 } else { 2.0 }, step);
    if best == Derivable::Yes {
        return best;
    }
    let mut is_among = |list: Vec<f64>, bound: f64, round: f64| {
        best = best.max(wanted.chance_of(&list, bound, round));
        best == Derivable::Yes
    };
    let before = stated.get(stated.len().saturating_sub(NEAR)..).unwrap_or_default();
    let before: Vec<Amount> = before.iter().chain(behind.iter().take(2)).copied().collect();
    let near: Vec<f64> = before.iter().map(|it| it.number).collect();
    let converted = |it: &Amount| {
        let (one, other) = it.unit.zip(unit)?;
        (one.dimension == other.dimension && one != other).then_some(it.number * one.factor / other.factor)
    };
    let in_unit: Vec<f64> = before.iter().map(|it| converted(it).unwrap_or(it.number)).collect();
    // `41 of 360, or 11 %`: the two right before it, or right behind it.
    if is_share {
        let around = [stated.get(stated.len().saturating_sub(2)..), behind.get(..2)];
        let mut of_two = Vec::new();
        for two in around.into_iter().flatten() {
            let two: Vec<f64> = two.iter().map(|it| it.number).collect();
            percentages(&two, &two, &mut of_two);
        }
        if is_among(of_two, 0.3, step) {
            return Derivable::Yes;
        }
    }
    let mut of_stated = Vec::new();
    pairs(&near, &[near.as_slice(), &[MONTHS]].concat(), &mut of_stated);
    if is_share {
        of_stated.extend(near.iter().map(|part| WHOLE - part));
    }
    of_stated.extend(near.windows(2).map(|it| it.iter().sum::<f64>() / 2.0));
    if in_unit != near {
        pairs(&in_unit, &in_unit, &mut of_stated);
    }
    let mut sums_of_shares = Vec::new();
    if is_share {
        combine(&near, &near, &mut sums_of_shares);
    }
    let sums = near.windows(3).flat_map(|it| match it {
        [one, two, three] => [one + two - three, one + two + three],
        _ => [0.0; 2],
    });
    if is_among(of_stated, if is_short && step >= 1.0 { 0.5 } else { 1.5 }, step)
        || is_among(sums.collect(), 1.0, step)
        || is_among(sums_of_shares, if is_short { 0.3 } else { 1.5 }, step)
    {
        return Derivable::Yes;
    }
    // `4 % more`, `a fee of 4 %`.
    let operands = || near.iter().chain(made.iter().flat_map(|(it, _)| &it.operands).take(MAX_OPERANDS));
    let of_percent =
        before.iter().filter(|it| it.unit.as_ref().is_some_and(is_percent)).flat_map(|percent| {
            let part = percent.number / 100.0;
            operands().flat_map(move |it| [it * part, it * (1.0 + part), it * (1.0 - part)])
        });
    if is_among(of_percent.collect(), 1.0, step) {
        return Derivable::Yes;
    }
    if is_short {
        let of_pairs = if digits == 2 {
            wanted.chance(&lists(|it| &it.pairs), PAIRS_OF_SHORT, round)
        } else {
            Derivable::No
        };
        return best.max(of_pairs);
    }
    // A slip of one digit has to be a sum or a share, not just any two numbers. Nor are those of a text one record.
    if slip || cited.iter().all(|source| source.is_prose) && digits < 4 {
        return best;
    }
    let mut mixed = Vec::new();
    let operands: Vec<f64> =
        made.iter().flat_map(|(it, _)| &it.operands).take(MAX_OPERANDS).copied().collect();
    pairs(&near, &operands, &mut mixed);
    is_among(mixed, 1.0, round);
    best.max(wanted.chance(&lists(|it| &it.pairs), 1.0, round))
}

/// A number of two digits is seldom a pair of others by anything but chance.
const PAIRS_OF_SHORT: f64 = 0.03;
/// So many numbers of the evidence are combined with those that the document states.
const MAX_OPERANDS: usize = 320;
/// So many amounts before one may be what it is computed from.
const NEAR: usize = 4;
/// What a price a month is multiplied by.
const MONTHS: f64 = 12.0;
/// What a percentage is a part of.
const WHOLE: f64 = 100.0;

/// Whether a duration is the time between two points in time of the sources.
pub(crate) fn is_between(seconds: f64, unit: f64, step: f64, cited: &[&Source]) -> bool {
    let mut stamps: Vec<i64> = cited.iter().flat_map(|source| &source.stamps).copied().collect();
    stamps.sort_unstable();
    stamps.dedup();
    stamps.truncate(MAX_STAMPS);
    let (Some(first), Some(last)) = (stamps.first(), stamps.last()) else { return false };
    let wanted = seconds / unit;
    let by = if unit > 1e6 { step.max(0.04 * wanted) } else { 0.99 * step };
    #[expect(clippy::cast_precision_loss, reason = "seconds of a calendar")]
    let gap = |from: i64, to: i64| (to - from) as f64 / unit;
    let pairs = stamps.len() * stamps.len() / 2;
    let is_chance = count(pairs) * step >= gap(*first, *last) * 3.0;
    !is_chance
        && stamps
            .iter()
            .enumerate()
            .any(|(at, from)| stamps.iter().skip(at + 1).any(|to| (gap(*from, *to) - wanted).abs() <= by))
}
