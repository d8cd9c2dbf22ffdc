//! Actions that a model requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::Arguments;

/// How important a requested action is, as the model states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// The answer is incomplete without it. Required calls take what is left of `limits.tool_calls` first.
    Required,
    /// The answer is better with it. Applies where the model states no priority it knows.
    Recommended,
    /// The model says that the answer does not depend on it. The call is skipped and listed.
    NiceToHave,
}

impl Priority {
    /// The priority's name in JSON, for example `nice_to_have`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A tool call that a model requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Action {
    /// The model's own name for the call, for example `check-backup`. Unique within its reply.
    pub id: Arc<str>,
    /// The tool's name as the model wrote it; it may be an alias, or no tool at all.
    pub tool: Arc<str>,
    /// The model's reason for the call, in its own words. Empty where it gave none.
    pub reason: Arc<str>,
    /// For a native call, the arguments as the model wrote them. For a contract block, canonical JSON, or the text as
    /// the model wrote it if a member was repeated.
    pub parameters: Arguments,
    /// How important the model says the call is.
    pub priority: Priority,
}
