//! What one model costs, at any moment and in any class of service.

use std::fmt;
use std::sync::Arc;

use loop_core::types::Price;

use super::PriceRow;
use super::date::{DAY, Date, is_working_day};
use super::pattern::Pattern;

/// What one model costs, at any moment and in any class of service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPrices {
    /// The name of the provider's list, or of a provider in a domain file.
    pub provider: Arc<str>,
    /// The model's name at the provider.
    pub id: Arc<str>,
    /// Maximum tokens of one call, input and output. `None`: not known.
    pub context_tokens: Option<u64>,
    /// Maximum output tokens of one call. `None`: not known.
    pub max_output_tokens: Option<u64>,
    /// Where the prices are from: an address, or a file.
    pub source: Arc<str>,
    /// The day on which the prices were read. `None`: not recorded.
    pub dated: Option<Date>,
    pub(super) rules: Vec<Pattern>,
    pub(super) periods: Vec<Tariff>,
    pub(super) service: Vec<(Arc<str>, Tariff)>,
}

/// A price, and the day from which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first day, in UTC. `None`: no beginning is known.
    pub from: Option<Date>,
    /// The price.
    pub price: Price,
}

/// A price, and when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tariff {
    pub(super) from: Option<Date>,
    pub(super) hours: Option<Hours>,
    pub(super) price: Price,
}

/// Hours of the day in UTC. They cross midnight if the end is before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// The second of the day with which they begin.
    pub(super) start: u64,
    /// The second of the day before which they end.
    pub(super) end: u64,
    /// Whether they count from Monday to Friday alone.
    pub(super) working_days: bool,
}

impl Hours {
    fn hold(&self, at: u64) -> bool {
        let (start, end, second) = (self.start, self.end, at % DAY);
        let in_time =
            if start <= end { start <= second && second < end } else { start <= second || second < end };
        in_time && (!self.working_days || is_working_day(at))
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start / 60, self.end / 60);
        write!(f, "{:02}:{:02}-{:02}:{:02} UTC", start / 60, start % 60, end / 60, end % 60)?;
        f.write_str(if self.working_days { ", Monday to Friday" } else { "" })
    }
}

impl Tariff {
    fn is_active(&self, at: u64) -> bool {
        self.from.is_none_or(|from| at >= from.start()) && self.hours.is_none_or(|hours| hours.hold(at))
    }

    /// The moments of the 24 hours from `at` on at which this price can begin or end.
    fn changes(&self, at: u64) -> impl Iterator<Item = u64> {
        let next = move |second: u64| at + (second + DAY - at % DAY) % DAY;
        let midnight = Some(0).filter(|_| self.from.is_some() || self.hours.is_some());
        let hours = self.hours.into_iter().flat_map(|hours| [hours.start, hours.end]);
        midnight.into_iter().chain(hours).map(next)
    }
}

impl ModelPrices {
    /// The prices of all models whose name matches `model`, in which `*` is any text and `#` a digit. Of several
    /// periods that have begun, the last in the list applies. Before all of them, the first applies.
    pub fn new(
        provider: impl Into<Arc<str>>,
        model: &str,
        periods: impl IntoIterator<Item = Period>,
        source: impl Into<Arc<str>>,
    ) -> Self {
        let periods =
            periods.into_iter().map(|period| Tariff { from: period.from, hours: None, price: period.price });
        Self {
            provider: provider.into(),
            id: model.into(),
            context_tokens: None,
            max_output_tokens: None,
            source: source.into(),
            dated: None,
            rules: vec![Pattern::new(model)],
            periods: periods.collect(),
            service: Vec::new(),
        }
    }

    /// The price at `at` seconds since 1970, in the standard class of service; `None` where none is known.
    pub fn at(&self, at: u64) -> Option<&Price> {
        let active = self.periods.iter().rev().find(|period| period.is_active(at));
        active.or(self.periods.first()).map(|period| &period.price)
    }

    /// A price that no call exceeds if it begins within 24 hours from `at`.
    pub fn dearest(&self, at: u64) -> Option<Price> {
        let now = self.at(at)?.clone();
        let changes = self.periods.iter().flat_map(|period| period.changes(at));
        Some(changes.filter_map(|change| self.at(change)).fold(now, |dearest, price| dearest.dearer(price)))
    }

    /// The price in a class of service, by the provider's own name for it. `None`: it is not known.
    pub fn in_tier(&self, tier: &str, at: u64) -> Option<&Price> {
        if STANDARD.iter().any(|word| tier.eq_ignore_ascii_case(word)) {
            return self.at(at);
        }
        let rows = self.service.iter().rev().filter(|(name, _)| tier.eq_ignore_ascii_case(name));
        rows.map(|(_, when)| when).find(|when| when.is_active(at)).map(|when| &when.price)
    }

    /// Whether a call that begins at `at` or later can have another price than [`dearest`](Self::dearest) at `at`: the
    /// price depends on the hour or the class of service, or the tables have a day on which it changes.
    pub fn varies(&self, at: u64) -> bool {
        let is_bound =
            |period: &Tariff| period.hours.is_some() || period.from.is_some_and(|from| from.start() > at);
        !self.service.is_empty() || self.periods.iter().any(is_bound)
    }

    /// The prices, each with the day from which it applies, without those for some hours of a day.
    pub fn periods(&self) -> impl Iterator<Item = Period> {
        let all_day = self.periods.iter().filter(|period| period.hours.is_none());
        all_day.map(|period| Period { from: period.from, price: period.price.clone() })
    }

    /// The prices that apply during some hours of a day. Of several that apply at once, the last counts.
    pub fn by_hour(&self) -> impl Iterator<Item = (Hours, &Price)> {
        self.periods.iter().filter_map(|period| Some((period.hours?, &period.price)))
    }

    /// The classes of service with a price of their own, by the provider's names.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.service.iter().map(|(name, _)| &**name)
    }

    pub(super) fn is_priced(&self) -> bool {
        !self.periods.is_empty()
    }

    pub(super) fn takes(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.takes(name))
    }

    pub(super) fn row(self: &Arc<Self>, at: u64) -> Option<PriceRow> {
        Some(PriceRow { price: self.at(at)?.clone(), dearest: self.dearest(at)?, model: Arc::clone(self) })
    }
}

/// How providers call what the list price is for; `auto` says nothing of what was served.
const STANDARD: [&str; 4] = ["default", "standard", "on_demand", "auto"];
