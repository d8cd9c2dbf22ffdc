//! `[secrets.NAME]`: where a secret is found that is not in the environment.

use schemars::JsonSchema;
use serde::Deserialize;

/// Where a secret is found. Give one of the keys. A key that ends with `_env`, and `secret_env`, names it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretConfig {
    /// A file that holds it, for example one that a container is given. White space at its ends is left out.
    pub(crate) file: Option<String>,
    /// A program and its arguments that print it, for example `["pass", "show", "erp"]`. It runs once when the domain is
    /// loaded for a run, in the domain's folder with the whole environment, for at most 10 seconds.
    pub(crate) command: Option<Vec<String>>,
    /// Another variable of the environment that holds it.
    pub(crate) env: Option<String>,
}
