//! Tools as the core knows them: a name, arguments, an effect, limits.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::spec::args::ArgSpec;
use crate::spec::policy::ToolPolicy;
use crate::types::{Effect, is_default};

/// What a tool is to the core: a name, arguments, an effect, limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its canonical name, for example `fetch_device_info` (S0-78).
    pub name: Arc<str>,
    /// Other names that mean it (S0-84).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Arc<str>>,
    /// What it brings, for the model.
    pub description: Arc<str>,
    /// When it helps, for the picker (S0-91).
    #[serde(default)]
    pub when: Arc<str>,
    /// What it takes.
    pub args: ArgSpec,
    /// What it does to the world.
    pub effect: Effect,
    /// Milliseconds until it is cut off (S0-94).
    pub timeout_ms: u64,
    /// How often one call may be made in all, if it fails in a way that may pass.
    pub attempts: u32,
    /// Whether it may ask a model about its own result (S0-39).
    #[serde(default)]
    pub smart: bool,
    /// What policy knows of it beside its effect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: ToolPolicy,
}
