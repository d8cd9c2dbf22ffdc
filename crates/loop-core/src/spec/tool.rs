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
    /// Its canonical name, for example `fetch_device_info`. Unique among the names and aliases of a spec.
    pub name: Arc<str>,
    /// Other names that the model may use for it. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Arc<str>>,
    /// What it returns. The model reads it.
    pub description: Arc<str>,
    /// In which situation it helps. The model that selects tools reads it; empty means no hint.
    #[serde(default)]
    pub when: Arc<str>,
    /// Its parameters. Arguments are checked against them before the tool starts.
    pub args: ArgSpec,
    /// What it changes outside of the run. Everything but a read needs approval.
    pub effect: Effect,
    /// Time limit of one call in milliseconds, after which the driver cancels it.
    pub timeout_ms: u64,
    /// The maximum number of tries of one call, if it fails in a retryable way. 1: no retry.
    pub attempts: u32,
    /// Whether it may ask a model about its own result. Default `false`.
    #[serde(default)]
    pub smart: bool,
    /// Its policy settings, in addition to its effect.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: ToolPolicy,
}
