//! `[serve]`: what the callers of a server may change.

use schemars::JsonSchema;
use serde::Deserialize;

/// What the callers of a server may change for their own runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServeConfig {
    /// Settings that a caller of `loopgate serve` may give for a run, as dotted keys: limits such as `limits.max_passes`,
    /// which can only be lowered, and `effort`, `temperature`, `top_p` and `seed` of a model, such as `models.base.effort`.
    /// Default: none.
    pub(crate) caller_may_set: Vec<String>,
    /// How many runs of the domain are under way at a time. Default: as many as the server allows in all.
    #[schemars(range(min = 1))]
    pub(crate) max_runs: Option<u32>,
    /// How many submissions for the domain may wait. Default: as many as the server allows in all.
    #[schemars(range(min = 1))]
    pub(crate) max_queued: Option<u32>,
}
