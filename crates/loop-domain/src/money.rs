//! Dollars as people write them, parsed into pico-dollars without rounding.

use std::borrow::Cow;

use loop_core::spec::{NotUsd, dollars_as_written};
use loop_core::types::PicoUsd;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};

/// The number of tokens that a price is for.
const TOKENS: u64 = 1_000_000;

/// An amount of dollars, written as a number or as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usd(pub(crate) PicoUsd);

impl Usd {
    /// Parses a decimal amount, exact to the last digit.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: NotUsd| error.to_string())
    }

    /// The price of one token in pico-dollars, if this is the price of a million.
    pub(crate) fn per_token(self) -> Result<u64, String> {
        let PicoUsd(pico) = self.0;
        if pico.is_multiple_of(TOKENS) {
            Ok(pico / TOKENS)
        } else {
            Err("a price for a million tokens has at most 6 digits behind the point; round it up".to_owned())
        }
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = dollars_as_written(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Dollars, as a number or as a text: 0.10 or \"0.10\".",
            "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?$" }],
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_to_the_last_digit() {
        // S0-45: the limit is compared in whole pico-dollars.
        for (text, expected) in [
            ("0.10", 100_000_000_000),
            ("0.1", 100_000_000_000),
            ("0.07", 70_000_000_000),
            ("0", 0),
            ("2.5", 2_500_000_000_000),
            ("0.000000000001", 1),
            ("18446744.073709551615", u64::MAX),
        ] {
            assert_eq!(Usd::parse(text), Ok(Usd(PicoUsd(expected))), "{text}");
        }
        for text in
            ["", ".5", "5.", "-1", "1e3", "1,5", "$1", "0.0000000000001", "18446744.073709551616", "nan"]
        {
            assert!(Usd::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_price_for_a_million_tokens_is_whole_for_one() {
        assert_eq!(Usd::parse("0.30").unwrap().per_token(), Ok(300_000));
        assert_eq!(Usd::parse("2.5").unwrap().per_token(), Ok(2_500_000));
        assert_eq!(Usd::parse("0.000001").unwrap().per_token(), Ok(1));
        assert!(Usd::parse("0.0000001").unwrap().per_token().is_err());
    }
}
