//! Instructions that people give to a run under way.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

/// An instruction that a person gave to a run under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instruction {
    /// The first pass whose prompt holds it, from 1.
    pub from_pass: u32,
    /// The instruction, as the person wrote it. Never empty.
    pub text: Arc<str>,
}
