//! `[serve]`: what the callers of a server may change.

use schemars::JsonSchema;
use serde::Deserialize;

/// What the callers of a server may change for their own runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServeConfig {
    /// Settings that a caller of `loopgate serve` may give for a run, as dotted keys, for example `limits.max_passes`. A
    /// limit can only be lowered. Default: none.
    pub(crate) caller_may_set: Vec<String>,
    /// How many runs of the domain are under way at a time. Default: as many as the server allows in all.
    #[schemars(range(min = 1))]
    pub(crate) max_runs: Option<u32>,
    /// How many submissions for the domain may wait. Default: as many as the server allows in all.
    #[schemars(range(min = 1))]
    pub(crate) max_queued: Option<u32>,
}
