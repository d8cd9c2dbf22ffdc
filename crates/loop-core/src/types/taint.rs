//! Whether a run has read untrusted or private data.

use serde::Deserialize;
use serde::Serialize;

use crate::types::defaults::is_default;

/// What a run has read so far. Together with the effect of a call it decides whether the call needs an approver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Whether the run has read text that an untrusted party may have written. Never taken back.
    #[serde(skip_serializing_if = "is_default")]
    pub untrusted: bool,
    /// Whether the run has read private data. Never taken back.
    #[serde(skip_serializing_if = "is_default")]
    pub private: bool,
}

impl Taint {
    /// The union of both taints.
    pub fn and(self, other: Self) -> Self {
        Self { untrusted: self.untrusted || other.untrusted, private: self.private || other.private }
    }
}
