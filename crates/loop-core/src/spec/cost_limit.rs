//! The limit of money as a person sets it, and the one place that says when it binds: a limit of money needs a price.

use std::str::FromStr;

use crate::types::PicoUsd;

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

/// A text is not an amount of dollars that can be held exactly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {problem}; write dollars such as 0.10")]
pub struct NotUsd {
    text: String,
    problem: &'static str,
}

impl FromStr for PicoUsd {
    type Err = NotUsd;

    /// The amount that a decimal text says in dollars, to the last digit: `0.10`. Nothing is rounded.
    fn from_str(text: &str) -> Result<Self, NotUsd> {
        // What a person wrote may be long; an error of one line shows its beginning.
        let refuse = |problem| Err(NotUsd { text: text.chars().take(40).collect(), problem });
        let (whole, places) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(places) || text.ends_with('.') {
            return refuse("is no amount of dollars");
        }
        let places = places.trim_end_matches('0');
        if places.len() > PLACES {
            return refuse("has more than 12 digits behind the point");
        }
        match format!("{whole}{places:0<PLACES$}").parse() {
            Ok(pico) => Ok(Self(pico)),
            Err(_) => refuse("is too much"),
        }
    }
}

/// Digits behind the point of a dollar that a pico-dollar can hold.
const PLACES: usize = 12;

impl CostLimit {
    /// The limit of so many dollars, as a person writes them: exactly, nothing is rounded.
    ///
    /// ```
    /// use loop_core::{CostLimit, PicoUsd};
    ///
    /// assert_eq!(CostLimit::usd("0.10"), Ok(CostLimit::At(PicoUsd(100_000_000_000))));
    /// let error = CostLimit::usd("ten cents").unwrap_err();
    /// assert_eq!(error.to_string(), "`ten cents` is no amount of dollars; write dollars such as 0.10");
    /// ```
    ///
    /// # Errors
    /// Where the text is not a decimal number, has more than 12 digits behind the point, or is too much.
    pub fn usd(text: &str) -> Result<Self, NotUsd> {
        text.parse().map(Self::At)
    }

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
