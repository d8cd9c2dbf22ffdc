//! The inbox: instructions of people to a run under way, and a requested stop.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::{Instruction, Millis};

/// Instructions for passes to come, and a stop that is asked for.
///
/// Instructions are in the order in which they came, and each is for the same pass as the one before it or for a later one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Inbox {
    /// Since when a stop at the next gate is asked for.
    pub(super) stop_requested: Option<Millis>,
    instructions: Vec<Instruction>,
}

impl Inbox {
    /// All instructions, in their order.
    pub(super) fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The instructions for this pass alone: what its prompt holds and no prompt before it did.
    pub(super) fn instructions_for(&self, pass: u32) -> &[Instruction] {
        let from = self.instructions.partition_point(|instructions| instructions.from_pass < pass);
        self.instructions.get(from..self.count_through(pass)).unwrap_or_default()
    }

    /// How many instructions the prompts up to this pass hold.
    pub(super) fn count_through(&self, pass: u32) -> usize {
        self.instructions.partition_point(|instructions| instructions.from_pass <= pass)
    }

    /// Keeps an instruction for the prompts from `from_pass` on.
    pub(super) fn keep(&mut self, from_pass: u32, text: &Arc<str>) {
        self.instructions.push(Instruction { from_pass, text: Arc::clone(text) });
    }
}
