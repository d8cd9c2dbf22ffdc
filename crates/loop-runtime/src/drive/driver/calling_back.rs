//! The observers in place of a run, which receive what it starts and records.

use loop_core::gate::JudgedAction;
use loop_core::run::{Phase, RunTool};
use loop_core::types::{EvidenceId, Observation, Slot};
use loop_core::{EventKind, Note};
use loop_journal::Entry;
use loop_prompts::observation_text;

use super::Driver;
use crate::watch::steps::{Progress, Step};

impl Driver {
    /// How far the run is, as a step of `pass` sees it.
    fn progress(&self, pass: u32) -> Progress {
        let began = self.run.attempts().iter().filter(|attempt| attempt.from_pass <= pass.max(1));
        Progress {
            run: self.run.id().clone(),
            attempt: began.count() as u32,
            pass,
            totals: *self.run.totals(),
        }
    }

    /// Tells of a tool that is to be run. One that was not ready and is polled again was reported before.
    pub(super) fn call_back_first(&self, command: &RunTool) {
        let Phase::Running { batch, .. } = self.run.phase() else { return };
        let Some(work) = batch.work.iter().find(|work| work.key == command.key && work.poll.is_none()) else {
            return;
        };
        // A retry goes by the key of the first try.
        let action = self.run.actions().get(work.action as usize);
        let pass = action.map_or(command.key.pass, |action| action.key.pass);
        let (tool, input) = (&*command.tool, &*command.parameters);
        self.in_place.tell(&self.progress(pass), Step::ToolCall { tool, input });
    }

    /// Tells of the calls that ran before their reply was complete, now that the gate has admitted them.
    fn call_back_early(&self, entry: &Entry) {
        for note in &entry.notes {
            let Note::ReadUsed { action, .. } = note else { continue };
            let Some(action) = self.run.actions().iter().rev().find(|judged| judged.key == *action) else {
                continue;
            };
            let (tool, input) = (action.tool_name(), &*action.parameters);
            self.in_place.tell(&self.progress(action.key.pass), Step::ToolCall { tool, input });
            let mut settled = settled_in(entry).filter(|settled| action.evidence == Some(*settled));
            if let Some(observation) = settled.next().and_then(|evidence| self.run.observation(evidence)) {
                self.call_back_last(action, observation);
            }
        }
    }

    /// Tells how an action ended.
    fn call_back_last(&self, action: &JudgedAction, observation: &Observation) {
        let result = &*observation_text(&self.run, action, observation);
        let (tool, input) = (action.tool_name(), &*action.parameters);
        let step = Step::ToolResult { tool, input, result };
        self.in_place.tell(&self.progress(action.key.pass), step);
    }

    /// The action whose result has this number.
    fn action_of(&self, evidence: EvidenceId) -> Option<&JudgedAction> {
        let mut actions = self.run.actions().iter().map(|action| &**action);
        actions.rfind(|action| action.evidence == Some(evidence))
    }

    /// Tells what has been recorded.
    pub(super) fn call_back(&self, entry: &Entry) {
        let pass = match &entry.event.kind {
            EventKind::ModelReplied { key, .. }
            | EventKind::ToolFinished { key, .. }
            | EventKind::Checked { key, .. } => key.pass,
            _ => self.run.pass(),
        };
        match &entry.event.kind {
            // A reply that is asked for again is no pass.
            EventKind::ModelReplied { key, .. }
                if matches!(key.slot, Slot::Main | Slot::Final)
                    && self.run.passes().len() >= key.pass as usize =>
            {
                self.in_place.tell(&self.progress(pass), Step::Pass);
                self.call_back_early(entry);
            }
            EventKind::ToolFinished { observation, .. } => {
                if let Some(action) = settled_in(entry).next().and_then(|evidence| self.action_of(evidence)) {
                    self.call_back_last(action, observation);
                }
            }
            _ => {}
        }
        for note in &entry.notes {
            match note {
                Note::AttemptBegan { pass, .. } => {
                    self.in_place.tell(&self.progress(*pass), Step::AttemptStart);
                }
                Note::OutputRejected { by, message, .. } => {
                    self.in_place.tell(&self.progress(pass), Step::ValidationFailure { by, message });
                }
                _ => {}
            }
        }
    }
}

/// The numbers of the results that settled in an entry.
fn settled_in(entry: &Entry) -> impl Iterator<Item = EvidenceId> + '_ {
    entry.notes.iter().filter_map(|note| match note {
        Note::ActionSettled { evidence, .. } => Some(*evidence),
        _ => None,
    })
}
