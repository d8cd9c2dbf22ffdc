//! Instructions: what a person tells a run on its way.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

/// What a person told a run while it was on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instruction {
    /// The first pass whose prompt holds it.
    pub from_pass: u32,
    /// What they said.
    pub text: Arc<str>,
}
