//! The cost limit as a person sets it, and the rule when it applies: a cost limit needs a price.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

use crate::types::PicoUsd;

/// The newtype name under which a deserializer may pass a number as it is written, so that an amount of dollars is read
/// without rounding.
pub const AS_WRITTEN: &str = "$as_written";

/// The cost limit of a run, as it was set: not set, an amount, or no limit.
///
/// An amount that equals the default still counts as set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CostLimit {
    /// Not set: [`CostLimit::DEFAULT`] where prices are known, no limit otherwise.
    #[default]
    Default,
    /// Set to this amount. 0 ends a run before its first call.
    At(PicoUsd),
    /// Set to no limit, for models whose price is unknown.
    None,
}

/// A cost limit was set that cannot be enforced, because a price is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a price is unknown, so the limit of {limit} cannot be kept")]
pub struct LimitWithoutPrice {
    /// The limit that was set.
    pub limit: PicoUsd,
}

/// A text is not an amount of dollars that can be represented exactly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {problem}; write dollars such as 0.10")]
pub struct NotUsd {
    text: String,
    problem: &'static str,
}

impl FromStr for PicoUsd {
    type Err = NotUsd;

    /// Parses a decimal amount in dollars exactly, for example `0.10`. Nothing is rounded.
    fn from_str(text: &str) -> Result<Self, NotUsd> {
        // The text may be long, so the error shows its beginning.
        let refuse = |problem| Err(NotUsd { text: text.chars().take(40).collect(), problem });
        let (whole, places) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(places) || text.ends_with('.') {
            return refuse("is not an amount of dollars");
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

/// Decimal places of a dollar that a pico-dollar can represent.
const PLACES: usize = 12;

impl CostLimit {
    /// Parses a limit in dollars exactly. Nothing is rounded.
    ///
    /// ```
    /// use loop_core::spec::CostLimit;
    /// use loop_core::types::PicoUsd;
    ///
    /// assert_eq!(CostLimit::usd("0.10"), Ok(CostLimit::At(PicoUsd(100_000_000_000))));
    /// let error = CostLimit::usd("ten cents").unwrap_err();
    /// assert_eq!(error.to_string(), "`ten cents` is not an amount of dollars; write dollars such as 0.10");
    /// ```
    ///
    /// # Errors
    /// If the text is not a decimal number, has more than 12 decimal places, or is too large.
    pub fn usd(text: &str) -> Result<Self, NotUsd> {
        text.parse().map(Self::At)
    }

    /// The default limit: USD 0.10.
    pub const DEFAULT: PicoUsd = PicoUsd(PicoUsd::PER_USD / 10);

    /// The limit that applies; `priced` says whether the prices that it needs are known. `None`: no limit.
    ///
    /// A default limit does not apply if a price is unknown. The run's other limits still do.
    ///
    /// # Errors
    /// If an amount was set and a price is unknown.
    ///
    /// ```
    /// use loop_core::spec::CostLimit;
    /// use loop_core::types::PicoUsd;
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

    /// Replaces the default by its amount, for callers that must report that a price is missing.
    pub fn explicit(self) -> Self {
        match self {
            Self::Default => Self::At(Self::DEFAULT),
            Self::At(_) | Self::None => self,
        }
    }
}

impl From<Option<PicoUsd>> for CostLimit {
    /// A limit that was set: an amount, or none.
    fn from(limit: Option<PicoUsd>) -> Self {
        limit.map_or(Self::None, Self::At)
    }
}

/// Reads an amount of dollars, or another text, as it is written.
///
/// # Errors
/// If it is neither a number nor a text.
pub fn dollars_as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_newtype_struct(AS_WRITTEN, CostLimitVisitor)
}

struct CostLimitVisitor;

impl<'de> Visitor<'de> for CostLimitVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of dollars such as 0.10")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<String, E> {
        Ok(whole.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

/// A cost limit in dollars, to the last digit. No limit is `"none"`.
pub(crate) mod usd_or_none {
    use serde::{Deserializer, Serializer, de};

    use super::{NONE, PLACES, dollars_as_written};
    use crate::types::PicoUsd;

    pub(crate) fn serialize<S: Serializer>(
        limit: &Option<PicoUsd>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let Some(PicoUsd(pico)) = limit else { return serializer.serialize_str(NONE) };
        let (whole, rest) = (pico / PicoUsd::PER_USD, pico % PicoUsd::PER_USD);
        let places = format!("{rest:0PLACES$}");
        // Two places at least, as people write cents.
        let kept = places.trim_end_matches('0').len().max(2);
        serializer.collect_str(&format_args!("{whole}.{places:.kept$}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PicoUsd>, D::Error> {
        match dollars_as_written(deserializer)?.as_str() {
            NONE => Ok(None),
            usd => usd.parse().map(Some).map_err(de::Error::custom),
        }
    }
}

/// How no limit is written.
const NONE: &str = "none";

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CostLimit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CostLimit".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let usd = r"^[0-9]+(\.[0-9]+)?$";
        schemars::json_schema!({
            "anyOf": [
                { "type": "number", "minimum": 0 },
                { "type": "string", "pattern": usd },
                { "const": NONE },
            ],
        })
    }
}
