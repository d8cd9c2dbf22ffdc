//! Prices of tokens, in whole pico-dollars.

use serde::Deserialize;
use serde::Serialize;

use crate::types::money::PicoUsd;
use crate::types::usage::Usage;

/// The price of a model's tokens, in pico-dollars per token.
///
/// A large input can raise the price of the whole call: [`above`](Self::above) has the prices that then apply to each
/// of its tokens. An unknown price is `None`, never 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of an input token that no cache is involved in.
    pub input: u64,
    /// Of an output token, reasoning included.
    pub output: u64,
    /// Of an input token read from a cache. `None`: the price of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Of an input token written to a short-lived cache. `None`: the price of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Of an input token written to a long-lived cache. `None`: the price of `cache_write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
    /// The prices of calls with a large input, in any order. Each applies to the whole call. Empty: one price for
    /// all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<PriceAbove>,
}

/// The price of every token of a call whose input exceeds a threshold, in pico-dollars per token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceAbove {
    /// The threshold: calls with more input tokens than this, cached ones included. The largest exceeded threshold
    /// applies.
    pub input_tokens: u64,
    /// Of an input token that no cache is involved in.
    pub input: u64,
    /// Of an output token, reasoning included.
    pub output: u64,
    /// Of an input token read from a cache. `None`: this threshold's price of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Of an input token written to a short-lived cache. `None`: this threshold's price of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Of an input token written to a long-lived cache. `None`: this threshold's price of `cache_write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
}

/// The prices of one call with every default resolved, in pico-dollars per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Of an input token that no cache is involved in.
    pub input: u64,
    /// Of an output token, reasoning included.
    pub output: u64,
    /// Of an input token read from a cache.
    pub cache_read: u64,
    /// Of an input token written to a short-lived cache.
    pub cache_write: u64,
    /// Of an input token written to a long-lived cache.
    pub cache_write_long: u64,
}

impl Rates {
    /// The cost of `usage` at these rates.
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

    /// The higher rate of both, for each kind of token.
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
    /// One price for every input, with cached tokens at the price of `input`.
    pub const fn flat(input: u64, output: u64) -> Self {
        Self { input, output, cache_read: None, cache_write: None, cache_write_long: None, above: Vec::new() }
    }

    /// Whether no token costs anything.
    pub fn is_free(&self) -> bool {
        let dearest = self.dearest_rates(u64::MAX);
        dearest.dearest_input() == 0 && dearest.output == 0
    }

    /// The rates of a call with this many input tokens, cached ones included.
    pub fn rates(&self, total_input: u64) -> Rates {
        let above = self.above.iter().filter(|above| total_input > above.input_tokens);
        above.max_by_key(|above| above.input_tokens).map_or_else(|| self.base_rates(), PriceAbove::rates)
    }

    /// The maximum rates of a call with at most this many input tokens.
    pub fn dearest_rates(&self, total_input: u64) -> Rates {
        let above = self.above.iter().filter(|above| total_input > above.input_tokens);
        above.map(PriceAbove::rates).fold(self.base_rates(), Rates::dearer)
    }

    /// The cost of uncached input and output.
    pub fn fresh(&self, input: u64, output: u64) -> PicoUsd {
        self.of(&Usage { input, output, ..Usage::default() })
    }

    /// The maximum cost of at most this much input and output, whatever the provider reads from or writes to its cache.
    pub fn ceiling(&self, input: u64, output: u64) -> PicoUsd {
        let dearest = self.dearest_rates(input);
        Rates { input: dearest.dearest_input(), ..dearest }.of(&Usage { input, output, ..Usage::default() })
    }

    /// The cost of `usage` at this price. Its whole input decides which threshold applies.
    pub fn of(&self, usage: &Usage) -> PicoUsd {
        self.rates(usage.total_input()).of(usage)
    }

    /// A price at which every usage costs at least as much as at both.
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

    /// The rates above a threshold, without those that equal their default.
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
}
