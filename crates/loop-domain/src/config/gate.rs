//! `[gate]`: how it is decided after each pass whether to go on.

use loop_core::{Repeats, Stale};
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
    /// Tools that change something and run without a person's consent: to name one here is the consent. Default: none.
    pub(crate) approved: Vec<String>,
    /// What becomes of a call that was made before, with the same tool and parameters: `never`, it is not made again;
    /// `reuse`, its result is given again as long as nothing was changed since; `allow`, it is made again. Default: `never`
    /// for documents, else `allow`.
    #[schemars(extend("enum" = ["never_rerun", "progress", "three_tier", "reuse", "off"]), with = "Option<String>")]
    pub(crate) repeats: Option<Repeats>,
    /// For documents: whether high confidence ends the run although something that matters is still to be run. Default: false.
    pub(crate) high_is_final: Option<bool>,
    /// For documents, from the third pass on: the confidence that ends the run: `not_improved`, `equal` or `off`. Default:
    /// `not_improved`.
    #[schemars(extend("enum" = ["not_improved", "equal", "off"]), with = "Option<String>")]
    pub(crate) stale: Option<Stale>,
    /// For documents: whether a pass that saw new evidence never counts as stale. Default: false.
    pub(crate) stale_unless_new_evidence: Option<bool>,
    /// After how many passes in a row that brought nothing the run ends; 0 for never. A pass of a document brings new
    /// evidence or a changed section, any other a call that can be run. Default: 2 for documents, else 3.
    pub(crate) no_progress: Option<u32>,
    /// For documents: after how many passes in a row at low confidence the escalated model takes over; 0 for never. Default: 2.
    pub(crate) escalate_after: Option<u32>,
    /// For documents: passes that are granted to mend a confident answer that lacks what is demanded. Default: 1.
    pub(crate) mending_passes: Option<u32>,
}
