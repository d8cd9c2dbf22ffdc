//! Hands messages of hooks to the journal, and begins their delivery.

use std::sync::Arc;

use loop_core::types::Millis;

use super::Driver;
use crate::drive::hooks::StatusBefore;

impl Driver {
    /// Keeps the messages of what has just happened, to be journaled with the event that caused them.
    pub(super) fn announce_to_hooks(&mut self, at: Millis) {
        if self.parts.hooks.is_empty() {
            return;
        }
        let unix_ms = self.run.started().unix_ms_at(at);
        let before = std::mem::replace(&mut self.before, StatusBefore::of(&self.run));
        self.messages.extend(self.parts.hooks.messages(before, &self.run, unix_ms));
    }

    /// Begins to deliver the messages of this run that are due. The run does not wait for it before it ends or is left.
    pub(super) fn deliver(&mut self) {
        if self.parts.hooks.is_empty() {
            return;
        }
        let (parts, run) = (Arc::clone(&self.parts), self.run.id().clone());
        // What fails here is delivered later: the message is in the journal.
        let delivery = async move { drop(parts.hooks.deliver_of(&*parts.journal, &run).await) };
        self.deliveries.push(tokio::spawn(delivery));
    }
}
