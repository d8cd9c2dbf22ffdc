//! The limit of money as a person sets it, and the one place that says when it binds: a limit of money needs a price.

use crate::money::PicoUsd;

/// What a run may cost, as it was set: not set, an amount, or no limit.
///
/// An amount that equals the default is an amount: it was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CostLimit {
    /// Not set: [`CostLimit::DEFAULT`] where prices are known, no limit otherwise.
    #[default]
    Default,
    /// Set to this amount; 0 ends a run before its first call.
    At(PicoUsd),
    /// Set to no limit: for models whose price is unknown.
    None,
}

/// A limit was set, and a price that it needs is unknown: it could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a price is unknown, so the limit of {limit} cannot be kept")]
pub struct LimitWithoutPrice {
    /// The limit that was set.
    pub limit: PicoUsd,
}

impl CostLimit {
    /// The limit where none is set: USD 0.10 (S0-45).
    pub const DEFAULT: PicoUsd = PicoUsd(PicoUsd::PER_USD / 10);

    /// The limit that binds, where the prices that it needs are known (`priced`) or not; `None` is no limit.
    ///
    /// A default gives way to an unknown price: nobody set it, and a run without it is held by its other limits.
    ///
    /// # Errors
    /// Where an amount was set and a price is unknown.
    ///
    /// ```
    /// use loop_core::{CostLimit, PicoUsd};
    ///
    /// let ten_cents = CostLimit::At(PicoUsd(100_000_000_000));
    /// assert_eq!(ten_cents.resolve(true), CostLimit::Default.resolve(true));
    /// assert!(ten_cents.resolve(false).is_err());
    /// assert_eq!(CostLimit::Default.resolve(false), Ok(None));
    /// assert_eq!(CostLimit::None.resolve(false), Ok(None));
    /// ```
    pub fn resolve(self, priced: bool) -> Result<Option<PicoUsd>, LimitWithoutPrice> {
        match self {
            Self::None => Ok(None),
            Self::Default => Ok(priced.then_some(Self::DEFAULT)),
            Self::At(limit) if priced => Ok(Some(limit)),
            Self::At(limit) => Err(LimitWithoutPrice { limit }),
        }
    }

    /// The same with the default as an amount: for whoever has to say that there is no limit before there is none.
    pub fn explicit(self) -> Self {
        match self {
            Self::Default => Self::At(Self::DEFAULT),
            Self::At(_) | Self::None => self,
        }
    }
}

impl From<Option<PicoUsd>> for CostLimit {
    /// A limit that was decided on: an amount, or none.
    fn from(limit: Option<PicoUsd>) -> Self {
        limit.map_or(Self::None, Self::At)
    }
}
