//! Confidence as the model states it.

use serde::Deserialize;
use serde::Serialize;

/// How sure the model says it is. A missing or unreadable statement is `unknown`, which counts as low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Confidence {
    /// The reply states no confidence, or none that can be read; counts as low.
    Unknown,
    /// The model says that it mostly guesses.
    Low,
    /// The model says that the answer is reasonable and that more data would improve it.
    Medium,
    /// The model says that the answer is specific and rests on data.
    High,
}

impl Confidence {
    /// Its rank: 0 for low and unknown, 1 for medium, 2 for high.
    pub(crate) fn level(self) -> u8 {
        match self {
            Self::Unknown | Self::Low => 0,
            Self::Medium => 1,
            Self::High => 2,
        }
    }

    /// The confidence's name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
