//! Cost and prices, in integers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount in pico-dollars (10⁻¹² USD), so that a price per token is a whole number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PicoUsd(pub u64);

impl PicoUsd {
    /// Pico-dollars in one dollar.
    pub const PER_USD: u64 = 1_000_000_000_000;

    /// The sum, saturating.
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The amount in dollars, for display only. Decisions use the integer.
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / Self::PER_USD as f64
    }
}

impl fmt::Display for PicoUsd {
    /// Dollars, to six decimal places. Rounded up, so that a cost above 0 never shows as 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micro = self.0.div_ceil(1_000_000);
        write!(f, "${}.{:06}", micro / 1_000_000, micro % 1_000_000)
    }
}

/// What was spent: the part whose price is known, and the number of calls without a price. An unknown cost is never
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cost {
    /// The sum over all calls with a known price, in pico-dollars.
    pub known: PicoUsd,
    /// The number of calls that cost something for which there is no price.
    pub unknown_calls: u32,
}

impl Cost {
    /// The whole amount. `None`: the price of a call is unknown.
    pub fn total(&self) -> Option<PicoUsd> {
        (self.unknown_calls == 0).then_some(self.known)
    }

    /// Adds the cost of one call. `None`: its price is unknown.
    pub fn add(&mut self, cost: Option<PicoUsd>) {
        match cost {
            Some(cost) => self.known = self.known.plus(cost),
            None => self.unknown_calls = self.unknown_calls.saturating_add(1),
        }
    }
}

impl fmt::Display for Cost {
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
    fn an_unknown_price_never_shows_as_zero() {
        let mut spend = Cost::default();
        spend.add(None);
        assert_eq!((spend.total(), spend.to_string()), (None, "unknown".to_owned()));
        spend.add(Some(PicoUsd(1)));
        assert_eq!(spend.to_string(), "$0.000001 and an unknown part");
    }
}
