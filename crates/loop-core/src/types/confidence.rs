//! How sure a model says it is.

use serde::Deserialize;
use serde::Serialize;

/// How sure the model says it is (S0-96). A missing or garbled statement is `unknown`: low, never high (S0-d9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Nothing usable was said; counts as low.
    Unknown,
    /// Mostly guessing.
    Low,
    /// Reasonable, but data would improve it.
    Medium,
    /// Specific, actionable data.
    High,
}

impl Confidence {
    /// Its place in the order low, medium, high; unknown counts as low.
    pub(crate) fn level(self) -> u8 {
        match self {
            Self::Unknown | Self::Low => 0,
            Self::Medium => 1,
            Self::High => 2,
        }
    }

    /// The confidence as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}
