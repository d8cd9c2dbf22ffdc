//! The inbox: instructions of people to a run under way, and a requested stop.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::{Instruction, Millis};

/// Instructions for later passes, and a requested stop.
///
/// Instructions are in order of arrival, and their passes never decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Inbox {
    /// When a stop at the next gate was requested. `None`: none is requested.
    pub(super) stop_requested: Option<Millis>,
    instructions: Vec<Instruction>,
}

impl Inbox {
    /// All instructions, in their order.
    pub(super) fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The instructions that the prompt of this pass adds.
    pub(super) fn instructions_for(&self, pass: u32) -> &[Instruction] {
        let from = self.instructions.partition_point(|instructions| instructions.from_pass < pass);
        self.instructions.get(from..self.count_through(pass)).unwrap_or_default()
    }

    /// The number of instructions in the prompts up to this pass.
    pub(super) fn count_through(&self, pass: u32) -> usize {
        self.instructions.partition_point(|instructions| instructions.from_pass <= pass)
    }

    /// Stores an instruction for the prompts from `from_pass` on.
    pub(super) fn keep(&mut self, from_pass: u32, text: &Arc<str>) {
        self.instructions.push(Instruction { from_pass, text: Arc::clone(text) });
    }
}
