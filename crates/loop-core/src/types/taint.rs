//! Whether a run has read untrusted or private data.

use serde::Deserialize;
use serde::Serialize;

use crate::types::defaults::is_default;

/// What a run has read so far: two of the three taint of which no run may have all unasked (K2). The third is the effect
/// of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Something that was written by whoever liked to.
    #[serde(skip_serializing_if = "is_default")]
    pub untrusted: bool,
    /// Something private.
    #[serde(skip_serializing_if = "is_default")]
    pub private: bool,
}

impl Taint {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self { untrusted: self.untrusted || other.untrusted, private: self.private || other.private }
    }
}
