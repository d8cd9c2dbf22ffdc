//! `[hooks.NAME]`: who is notified of a run's events, when and how.

use loop_runtime::hooks::HookEvent;
use schemars::JsonSchema;
use serde::Deserialize;

/// A receiver of notifications about runs. Give `command` or `url`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(all(feature = "http", feature = "command")),
    allow(dead_code, reason = "without the features it is only recognised")
)]
pub(crate) struct HookConfig {
    /// Which events it is notified of: `waiting` (the run waits for a person), `expiring` (the time to answer is nearly
    /// over), `ended` (for any reason), `failed` (it ended as failed or in doubt). At least one.
    pub(crate) on: Vec<HookEvent>,
    /// A program and its arguments, which reads the message from its standard input. It runs in the domain's folder with the
    /// whole environment, and has delivered it once it ends with 0. Default: none.
    pub(crate) command: Option<Vec<String>>,
    /// The address that takes the message as the JSON body of a POST: `https://…`. Default: none.
    pub(crate) url: Option<String>,
    /// For `url`: the name of the secret that signs messages, in `[secrets]` or in the environment. Default: they are not
    /// signed.
    pub(crate) secret: Option<String>,
    /// For `url`: places on this machine and in private networks that it may lead to, as `HOST:PORT`. Default: none.
    #[serde(default)]
    pub(crate) private: Vec<String>,
    /// For `url`: whether it may be asked without encryption. Default: false.
    #[serde(default)]
    pub(crate) plain_http: bool,
    /// Seconds that one delivery may take, from 1 to 60. A run's end waits for it at most as long. Default: 10.
    pub(crate) timeout_s: Option<u64>,
}
