//! Whether a second model is asked before a confident end.

use serde::{Deserialize, Serialize};

use crate::types::Tier;

/// A second model that is asked before a run ends as confident, if its document has a section marked `verify`.
///
/// The model answers one fixed question from the cited evidence alone. It can prevent the confident end and never
/// causes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SecondOpinion {
    /// The tier whose model is asked. A tier without a model of its own is the base model. Default: `selector`.
    pub tier: Tier,
    /// What it is asked about. Default: `ungrounded`.
    pub when: OpinionWhen,
}

impl Default for SecondOpinion {
    fn default() -> Self {
        Self { tier: Tier::Selector, when: OpinionWhen::default() }
    }
}

/// What a second model is asked about, in the sections marked `verify`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OpinionWhen {
    /// The sentences with a value that was not found. Without any it is not asked.
    #[default]
    Ungrounded,
    /// The whole text, before every confident end.
    Always,
}
