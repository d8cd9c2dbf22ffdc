//! Money and tokens, in integers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount in pico-dollars (10⁻¹² USD), so that a price per token is a whole number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PicoUsd(pub u64);

impl PicoUsd {
    /// Pico-dollars in one dollar.
    pub const PER_USD: u64 = 1_000_000_000_000;

    /// The sum, held at the largest amount that can be written.
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The amount in dollars, for showing: not for decisions.
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / Self::PER_USD as f64
    }
}

impl fmt::Display for PicoUsd {
    /// Dollars, to six decimal places, rounded up so that what was spent never shows as nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micro = self.0.div_ceil(1_000_000);
        write!(f, "${}.{:06}", micro / 1_000_000, micro % 1_000_000)
    }
}

/// Token counts of one call or of many, in disjoint buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that were not read from a cache.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to a short-lived cache.
    pub cache_write_short: u64,
    /// Input tokens written to a long-lived cache.
    pub cache_write_long: u64,
    /// Output tokens of the visible reply.
    pub output: u64,
    /// Output tokens of reasoning, priced as output.
    pub reasoning: u64,
    /// Whether any of it was estimated by us rather than reported by the provider.
    pub estimated: bool,
}

impl Usage {
    /// All input tokens, cached or not.
    pub fn total_input(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write_short)
            .saturating_add(self.cache_write_long)
    }

    /// All output tokens, visible or reasoning.
    pub fn total_output(&self) -> u64 {
        self.output.saturating_add(self.reasoning)
    }

    /// All tokens.
    pub fn total(&self) -> u64 {
        self.total_input().saturating_add(self.total_output())
    }

    /// The sum by bucket; estimated when either is.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write_short: self.cache_write_short.saturating_add(other.cache_write_short),
            cache_write_long: self.cache_write_long.saturating_add(other.cache_write_long),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            estimated: self.estimated || other.estimated,
        }
    }
}

/// What a model's tokens cost, in pico-dollars a token.
///
/// A large input can make the whole call dearer: [`above`](Self::above) has the prices that then hold for every token
/// of it. A price that is not known is no price at all, never one of 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A fresh input token.
    pub input: u64,
    /// An output token, reasoning included.
    pub output: u64,
    /// An input token read from a cache; the fresh price where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// An input token written to a short-lived cache; the fresh price where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// An input token written to a long-lived cache; the price of a short-lived one where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
    /// The prices of calls with a large input, in any order. Each is for the whole call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<PriceAbove>,
}

/// What the tokens of a call cost whose input is larger than a threshold, in pico-dollars a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceAbove {
    /// It holds for calls with more input tokens than this, cached ones included; the largest threshold wins.
    pub input_tokens: u64,
    /// A fresh input token.
    pub input: u64,
    /// An output token, reasoning included.
    pub output: u64,
    /// An input token read from a cache; this threshold's fresh price where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// An input token written to a short-lived cache; this threshold's fresh price where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// An input token written to a long-lived cache; the price of a short-lived one where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
}

/// What each token of one call costs, in pico-dollars, with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// A fresh input token.
    pub input: u64,
    /// An output token, reasoning included.
    pub output: u64,
    /// An input token read from a cache.
    pub cache_read: u64,
    /// An input token written to a short-lived cache.
    pub cache_write: u64,
    /// An input token written to a long-lived cache.
    pub cache_write_long: u64,
}

impl Rates {
    /// What `usage` costs at these rates.
    pub fn of(&self, usage: &Usage) -> PicoUsd {
        let parts = [
            (usage.input, self.input),
            (usage.cache_read, self.cache_read),
            (usage.cache_write_short, self.cache_write),
            (usage.cache_write_long, self.cache_write_long),
            (usage.total_output(), self.output),
        ];
        PicoUsd(
            parts
                .iter()
                .fold(0, |sum: u64, (tokens, price)| sum.saturating_add(tokens.saturating_mul(*price))),
        )
    }

    /// The dearer of both, class by class.
    fn dearer(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_long: self.cache_write_long.max(other.cache_write_long),
        }
    }

    fn dearest_input(self) -> u64 {
        self.input.max(self.cache_read).max(self.cache_write).max(self.cache_write_long)
    }
}

impl Price {
    /// The same for every input, with cached tokens at the fresh price.
    pub const fn flat(input: u64, output: u64) -> Self {
        Self { input, output, cache_read: None, cache_write: None, cache_write_long: None, above: Vec::new() }
    }

    /// Whether no token costs anything.
    pub fn is_free(&self) -> bool {
        let dearest = self.dearest_rates(u64::MAX);
        dearest.dearest_input() == 0 && dearest.output == 0
    }

    /// What each token costs in a call with this many input tokens, cached ones included.
    pub fn rates(&self, total_input: u64) -> Rates {
        let above = self.above.iter().filter(|above| total_input > above.input_tokens);
        above.max_by_key(|above| above.input_tokens).map_or_else(|| self.base_rates(), PriceAbove::rates)
    }

    /// The most that each token can cost in a call with this many input tokens or fewer.
    pub fn dearest_rates(&self, total_input: u64) -> Rates {
        let above = self.above.iter().filter(|above| total_input > above.input_tokens);
        above.map(PriceAbove::rates).fold(self.base_rates(), Rates::dearer)
    }

    /// What fresh input and output cost.
    pub fn fresh(&self, input: u64, output: u64) -> PicoUsd {
        self.of(&Usage { input, output, ..Usage::default() })
    }

    /// The most that this much input and output, or less, can cost, whatever the provider reads from or writes to its
    /// cache.
    pub fn ceiling(&self, input: u64, output: u64) -> PicoUsd {
        let dearest = self.dearest_rates(input);
        Rates { input: dearest.dearest_input(), ..dearest }.of(&Usage { input, output, ..Usage::default() })
    }

    /// What `usage` costs at this price: its whole input decides which threshold was passed.
    pub fn of(&self, usage: &Usage) -> PicoUsd {
        self.rates(usage.total_input()).of(usage)
    }

    /// A price at which every usage costs at least what it costs at either.
    pub fn dearer(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        let mut thresholds: Vec<u64> =
            self.above.iter().chain(&other.above).map(|above| above.input_tokens).collect();
        thresholds.sort_unstable();
        thresholds.dedup();
        let both = |total: u64| self.rates(total).dearer(other.rates(total));
        let above = thresholds
            .into_iter()
            .map(|threshold| PriceAbove::from_rates(threshold, both(threshold.saturating_add(1))));
        let base = PriceAbove::from_rates(0, self.base_rates().dearer(other.base_rates()));
        Self {
            input: base.input,
            output: base.output,
            cache_read: base.cache_read,
            cache_write: base.cache_write,
            cache_write_long: base.cache_write_long,
            above: above.collect(),
        }
    }

    fn base_rates(&self) -> Rates {
        let cache = [self.cache_read, self.cache_write, self.cache_write_long];
        filled(self.input, self.output, cache)
    }
}

impl PriceAbove {
    fn rates(&self) -> Rates {
        let cache = [self.cache_read, self.cache_write, self.cache_write_long];
        filled(self.input, self.output, cache)
    }

    /// The rates above a threshold, without those that are what they would be by themselves.
    fn from_rates(input_tokens: u64, rates: Rates) -> Self {
        let unless = |rate: u64, default: u64| (rate != default).then_some(rate);
        Self {
            input_tokens,
            input: rates.input,
            output: rates.output,
            cache_read: unless(rates.cache_read, rates.input),
            cache_write: unless(rates.cache_write, rates.input),
            cache_write_long: unless(rates.cache_write_long, rates.cache_write),
        }
    }
}

fn filled(input: u64, output: u64, [read, write, write_long]: [Option<u64>; 3]) -> Rates {
    let cache_write = write.unwrap_or(input);
    Rates {
        input,
        output,
        cache_read: read.unwrap_or(input),
        cache_write,
        cache_write_long: write_long.unwrap_or(cache_write),
    }
}

/// What was spent: the part with a known price, and how many calls had none. Unknown is never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spend {
    /// The sum over all calls whose price is known.
    pub known: PicoUsd,
    /// Calls that cost something nobody can name.
    pub unknown_calls: u32,
}

impl Spend {
    /// The whole amount, or `None` while any call's price is unknown.
    pub fn total(&self) -> Option<PicoUsd> {
        (self.unknown_calls == 0).then_some(self.known)
    }

    /// Adds one call's cost; `None` is a call whose price is unknown.
    pub fn add(&mut self, cost: Option<PicoUsd>) {
        match cost {
            Some(cost) => self.known = self.known.plus(cost),
            None => self.unknown_calls = self.unknown_calls.saturating_add(1),
        }
    }
}

impl fmt::Display for Spend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total() {
            Some(total) => total.fmt(f),
            None if self.known == PicoUsd::default() => f.write_str("unknown"),
            None => write!(f, "{} and an unknown part", self.known),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_counts_every_bucket_once() {
        // S0-119: every call's usage is summed; integers only.
        let price = Price { cache_read: Some(1), ..Price::flat(3, 15) };
        let usage = Usage {
            input: 10,
            cache_read: 20,
            cache_write_short: 5,
            output: 7,
            reasoning: 1,
            ..Usage::default()
        };
        assert_eq!(price.of(&usage), PicoUsd(30 + 20 + 15 + 120));
        assert_eq!(usage.total(), 43);
    }

    #[test]
    fn an_unknown_price_never_shows_as_zero() {
        let mut spend = Spend::default();
        spend.add(None);
        assert_eq!((spend.total(), spend.to_string()), (None, "unknown".to_owned()));
        spend.add(Some(PicoUsd(1)));
        assert_eq!(spend.to_string(), "$0.000001 and an unknown part");
    }
}
