//! What tokens cost: in `loopgate.toml`, and in a file with prices of your own.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::money::Usd;

/// Where prices are found that no model's own table gives.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PricesConfig {
    /// A file with prices of your own, which come before the built-in table. Default: the one that the
    /// environment variable `LOOPGATE_PRICES` names, if any.
    pub(crate) file: Option<String>,
}

/// What tokens cost, in dollars for a million of them; at most six digits behind the point.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceConfig {
    /// A million fresh input tokens.
    pub(crate) input_usd_per_million: Usd,
    /// A million output tokens, reasoning included.
    pub(crate) output_usd_per_million: Usd,
    /// A million input tokens that the provider had in its cache. Default: as fresh ones.
    pub(crate) cache_read_usd_per_million: Option<Usd>,
    /// A million input tokens that the provider put into its cache. Default: as fresh ones.
    pub(crate) cache_write_usd_per_million: Option<Usd>,
    /// A million input tokens that the provider put into its cache for an hour or longer. Default: as other ones that it
    /// put there.
    pub(crate) cache_write_long_usd_per_million: Option<Usd>,
    /// What every token of a call costs whose input is larger than some size. Default: the same.
    #[serde(default)]
    pub(crate) above: Vec<PriceAboveConfig>,
}

/// What every token of a call with a large input costs, in dollars for a million of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceAboveConfig {
    /// It holds for calls with more input tokens than this, cached ones included.
    pub(crate) input_tokens: u64,
    /// A million fresh input tokens.
    pub(crate) input_usd_per_million: Usd,
    /// A million output tokens, reasoning included.
    pub(crate) output_usd_per_million: Usd,
    /// A million input tokens that the provider had in its cache. Default: as fresh ones.
    pub(crate) cache_read_usd_per_million: Option<Usd>,
    /// A million input tokens that the provider put into its cache. Default: as fresh ones.
    pub(crate) cache_write_usd_per_million: Option<Usd>,
    /// A million input tokens that the provider put into its cache for an hour or longer. Default: as other ones that it
    /// put there.
    pub(crate) cache_write_long_usd_per_million: Option<Usd>,
}

/// Prices of your own, which come before the built-in table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceFileConfig {
    /// The version of this file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// The models. A row with the model's exact name comes before one whose name fits it; else the first that fits.
    #[serde(default)]
    pub(crate) model: Vec<PriceRowConfig>,
}

/// What a model costs, from a day on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceRowConfig {
    /// The provider, as a domain names it.
    pub(crate) provider: String,
    /// The model's name. In it, `*` is any text and `#` one digit.
    pub(crate) model: String,
    /// The first day of this price in UTC, for example `2026-12-01`. Rows of the same model are in the order of their
    /// days. Default: it always held.
    pub(crate) from: Option<String>,
    /// What its tokens cost.
    pub(crate) price: PriceConfig,
}
