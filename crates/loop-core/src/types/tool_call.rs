//! A tool call as a model wrote it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::Arguments;

/// A tool call in a model's reply (S1-26).
///
/// The decoder of a provider's protocol makes it, and it is passed on as it is: to the core, to the journal, and back to
/// the provider as a part of the history.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Names the call within its reply; its result names it.
    pub id: Arc<str>,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// What it is to be run with: the text as the model wrote it.
    pub arguments: Arguments,
}
