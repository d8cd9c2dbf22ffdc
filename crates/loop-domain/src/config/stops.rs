//! `[stop_reasons]`: reasons to stop of the domain's own.

use loop_core::types::{Status, StopClass};
use schemars::JsonSchema;
use serde::Deserialize;

/// A reason to stop: the run ends with it once a call of the tool has settled like this.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopReasonConfig {
    /// What the stop means: `answered`, `partial`, `refused`, `needs_human` or `failed`. The exit code follows from it.
    pub(crate) class: ClassConfig,
    /// What is so when a run ends for this reason, as a sentence.
    pub(crate) description: String,
    /// The tool whose result causes it.
    pub(crate) tool: String,
    /// How its call has to settle: `ok`, it found something; `empty`, it found nothing. Default: `ok`.
    #[serde(default)]
    pub(crate) status: StatusConfig,
}

/// The class of a domain's own reason.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClassConfig {
    Answered,
    Partial,
    Refused,
    NeedsHuman,
    Failed,
}

impl From<ClassConfig> for StopClass {
    fn from(class: ClassConfig) -> Self {
        match class {
            ClassConfig::Answered => Self::Answered,
            ClassConfig::Partial => Self::Partial,
            ClassConfig::Refused => Self::Refused,
            ClassConfig::NeedsHuman => Self::NeedsHuman,
            ClassConfig::Failed => Self::Failed,
        }
    }
}

/// How a call has to settle.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StatusConfig {
    #[default]
    Ok,
    Empty,
}

impl From<StatusConfig> for Status {
    fn from(status: StatusConfig) -> Self {
        match status {
            StatusConfig::Ok => Self::Ok,
            StatusConfig::Empty => Self::Empty,
        }
    }
}
