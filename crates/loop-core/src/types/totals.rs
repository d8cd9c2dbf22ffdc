//! What a run used.

use serde::Deserialize;
use serde::Serialize;

use crate::types::defaults::is_default;
use crate::types::money::Cost;
use crate::types::usage::Usage;

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Totals {
    /// Main calls whose reply was read.
    pub passes: u32,
    /// Model calls of every kind that were started.
    pub model_calls: u32,
    /// Tool calls that were started, selected ones included.
    pub tool_calls: u32,
    /// Calls that replies asked for beyond `limits.requested_calls`: they were not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread_calls: u32,
    /// Of the model calls, those of smart tools.
    pub sub_calls: u32,
    /// Passes at high confidence that asked for required actions all the same: how far a model's confidence can be
    /// trusted (C15).
    #[serde(default, skip_serializing_if = "is_default")]
    pub contradictions: u32,
    /// Tokens of all calls.
    pub usage: Usage,
    /// Money for all calls.
    pub cost: Cost,
    /// Milliseconds from start to stop, waiting for people and times without a driver apart.
    pub wall_ms: u64,
}
