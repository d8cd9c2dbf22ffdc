//! `[budget]`: what runs may cost together.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::money::Usd;

/// What all runs of the domain in one journal may cost together. A model call is reserved in it before it is sent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BudgetConfig {
    /// Dollars for each day by UTC, more than 0. Default: no budget of a day.
    pub(crate) day_usd: Option<Usd>,
    /// Dollars for each calendar month by UTC, more than 0. Default: no budget of a month.
    pub(crate) month_usd: Option<Usd>,
}
