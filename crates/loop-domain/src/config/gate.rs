//! `[gate]`: how it is decided after each pass whether to go on.

use loop_core::Stale;
use schemars::JsonSchema;
use serde::Deserialize;

/// How it is decided after each pass whether to go on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GateConfig {
    /// Tools that must have run, with or without a finding, before confidence counts. Default: none.
    pub(crate) required_tools: Vec<String>,
    /// Tools that never run, whatever the model asks; it is not told of them. Default: none.
    pub(crate) forbid: Vec<String>,
    /// Whether high confidence ends the run although something that matters is still to be run. Default: false.
    pub(crate) high_is_final: Option<bool>,
    /// From the third pass on, the confidence that ends the run: `not_improved`, `equal` or `off`. Default:
    /// `not_improved`.
    #[schemars(extend("enum" = ["not_improved", "equal", "off"]), with = "Option<String>")]
    pub(crate) stale: Option<Stale>,
    /// Whether a pass that saw new evidence never counts as stale. Default: false.
    pub(crate) stale_unless_new_evidence: Option<bool>,
    /// After how many passes in a row that brought neither new evidence nor a changed section the run ends; 0 for never.
    /// Default: 2.
    pub(crate) no_progress: Option<u32>,
    /// After how many passes in a row at low confidence the escalated model takes over; 0 for never. Default: 2.
    pub(crate) escalate_after: Option<u32>,
    /// Passes that are granted to mend a confident answer that lacks what is demanded. Default: 1.
    pub(crate) mending_passes: Option<u32>,
}
