//! Usage totals of a run.

use serde::Deserialize;
use serde::Serialize;

use crate::types::defaults::is_default;
use crate::types::money::Cost;
use crate::types::usage::Usage;

/// What a run used, from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Totals {
    /// Main calls whose reply was read.
    pub passes: u32,
    /// Model calls of every kind that were started, failed tries included.
    pub model_calls: u32,
    /// Tool calls that were started, selected ones included.
    pub tool_calls: u32,
    /// Reads that started before their reply was complete and whose results were not used. They are not among the tool
    /// calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eager_dropped: u32,
    /// Calls in replies beyond `limits.requested_calls`. They were counted and not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread_calls: u32,
    /// How many of the model calls were sub-calls of smart tools.
    pub sub_calls: u32,
    /// Passes that stated high confidence and still requested required actions. Above 0, the model's confidence is
    /// less reliable.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contradictions: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Cost of all model calls.
    pub cost: Cost,
    /// Milliseconds from start to stop. Time in which the run waited for people or had no driver does not count.
    pub wall_ms: u64,
}
