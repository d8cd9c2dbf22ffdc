//! Which tools run before the first pass.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::Arguments;

/// Which tools run before the first pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// Whether a model selects tools. If not, the first pass begins at once.
    pub enabled: bool,
    /// The calls that run when the selector fails or cannot be called.
    pub defaults: Vec<DefaultCall>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { enabled: true, defaults: Vec::new() }
    }
}

/// A call that is made when the selector fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultCall {
    /// The tool's name.
    pub tool: Arc<str>,
    /// Its parameters, as JSON text.
    pub parameters: Arguments,
}
