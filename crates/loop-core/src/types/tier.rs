//! Tiers: which model of a domain's route is used.

use serde::Deserialize;
use serde::Serialize;

/// Which model of a domain's route a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Tier {
    /// The auxiliary model, which selects tools and filters results.
    Selector,
    /// The model that analyses and revises.
    Base,
    /// A more capable model, for passes after low confidence.
    Escalated,
    /// Another route, for the rest of a run whose model is unavailable.
    Fallback,
}

impl Tier {
    /// The tier's name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
