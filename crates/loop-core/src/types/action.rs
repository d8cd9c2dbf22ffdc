//! Actions that a model asks for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::Arguments;

/// How much an action matters to the one who asked for it (S0-102).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// The answer cannot stand without it; admitted first when calls run short.
    Required,
    /// The answer would be better with it.
    Recommended,
    /// Skipped: the model itself said that it is not critical (S0-105).
    NiceToHave,
}

impl Priority {
    /// The priority as it is written, for example `nice_to_have`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Recommended => "recommended",
            Self::NiceToHave => "nice_to_have",
        }
    }
}

/// A tool call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Action {
    /// The model's own name for it, for example `check-backup`.
    pub id: Arc<str>,
    /// The tool's name as the model wrote it.
    pub tool: Arc<str>,
    /// How the result would change the answer.
    pub reason: Arc<str>,
    /// Its arguments: of a native call as they were written, of a contract block as canonical JSON, or as they were
    /// written where a member is given more than once.
    pub parameters: Arguments,
    /// How much it matters.
    pub priority: Priority,
}
