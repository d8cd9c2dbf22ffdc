//! Compaction: counts the messages of a conversation, and shortens the older ones when a call does not fit.

use crate::gate::{Condition, StopReason};
use crate::run::apply::{Run, State};
use crate::run::calls::Calls;
use crate::run::draft::{Attempt, AttemptState, Draft};
use crate::run::event::Started;
use crate::run::inbox::Inbox;
use crate::run::note::Note;
use crate::run::rest::RunParts;
use crate::spec::Setting;

impl Run {
    /// The number of messages of the next call, each tool result counted as one: the counted messages before the run or
    /// the work item, replies, results, rejections, and the instructions of people.
    pub fn messages(&self) -> u32 {
        let State { started, inbox, draft, calls, .. } = &self.state;
        messages(started, inbox, draft, calls)
    }

    /// The last compacted pass, 0 if none. In passes up to it, results are shown as summaries, and replies have no data
    /// that only their provider can read.
    pub fn compacted_through(&self) -> u32 {
        self.state.knowledge.compacted.through
    }

    /// Whether the messages before the run are compacted as well.
    pub fn is_history_compacted(&self) -> bool {
        self.state.knowledge.compacted.history
    }
}

impl RunParts<'_> {
    /// The condition that the next call, with `more` further messages, would exceed `limits.messages`. `None`: it would
    /// not.
    pub(super) fn too_many_messages(&self, more: u32) -> Option<Condition> {
        let limit = self.spec.limits.messages.filter(|_| self.spec.protocol.properties().counts_messages)?;
        let messages = messages(self.started, self.inbox, self.draft, self.calls).saturating_add(more);
        (messages > limit).then(|| {
            Condition::at_limit(StopReason::MaxMessages, messages, limit, Setting::Messages, messages)
        })
    }

    /// Compacts a conversation because a call did not fit: first the messages before the run, then the older half of
    /// the passes that are still whole, at last all of them. False if nothing is left to compact.
    pub(super) fn compact(&mut self) -> bool {
        let passes = self.draft.passes.len() as u32;
        let whole = passes.saturating_sub(self.knowledge.compacted.through);
        if self.started.history.is_some() && !self.knowledge.compacted.history {
            self.knowledge.compacted.history = true;
        } else if whole > 0 {
            self.knowledge.compacted.through += whole.div_ceil(2);
            let through = self.knowledge.compacted.through;
            // By the pass of the request: the key of a retry may belong to an older pass.
            for evidence in self.knowledge.evidence.iter_mut().filter(|evidence| evidence.pass <= through) {
                evidence.shortened = true;
            }
        } else {
            return false;
        }
        // The prompt's prefix changes, so the last reported usage says nothing about it.
        self.route.last_main = None;
        self.notes.push(Note::Compacted {
            through: self.knowledge.compacted.through,
            history: self.knowledge.compacted.history,
        });
        true
    }
}

fn messages(started: &Started, inbox: &Inbox, draft: &Draft, calls: &Calls) -> u32 {
    let before = started.history.as_ref().map_or(1, |history| history.counted.unwrap_or(history.messages));
    let rejected = |attempt: &&Attempt| matches!(attempt.state, AttemptState::Rejected(_));
    let instructions = inbox.count_through(draft.passes.len() as u32 + 1);
    let replies = draft.passes.len() + draft.attempts.iter().filter(rejected).count() + draft.revisions.len();
    before.saturating_add((replies + instructions + calls.actions.len()) as u32)
}
