//! Tiers: which model of a domain's route is used.

use serde::Deserialize;
use serde::Serialize;

/// Which model of a domain's route is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Cheap: selects tools, filters results.
    Selector,
    /// Analyses and refines.
    Base,
    /// More capable: used when confidence stays low.
    Escalated,
    /// Another route: used for the rest of a run once the model of the tier before cannot be had.
    Fallback,
}

impl Tier {
    /// The tier as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Selector => "selector",
            Self::Base => "base",
            Self::Escalated => "escalated",
            Self::Fallback => "fallback",
        }
    }
}
