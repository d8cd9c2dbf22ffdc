//! Reports the earlier replies of a resumed run to models that reply from a list.

use std::sync::Arc;

use loop_core::EventKind;
use loop_core::types::{CommandKey, FailureKind, Tier};
use loop_journal::Entry;
use loop_llm::ChatModel;
use loop_llm::scripted::RequestPurpose;

use crate::drive::model::Models;

impl Models {
    /// Reports to each model which calls of a run were answered before. A model that replies from a list continues
    /// after those replies, whichever process received them. Resuming a run does this with the run's own entries.
    ///
    /// A lost call is made again and gets its reply again, because the journal has nothing of it.
    pub fn resumes(&self, run: &str, entries: &[Entry]) {
        let answered = answered(entries);
        let mut reached: Vec<&Arc<dyn ChatModel>> = Vec::new();
        for model in [&self.selector, &self.base, &self.escalated, &self.fallback] {
            // A model that serves several tiers has one list.
            if reached.iter().any(|known| Arc::ptr_eq(known, model)) {
                continue;
            }
            reached.push(model);
            let own = answered.iter().filter(|(tier, _)| Arc::ptr_eq(self.of(*tier), model));
            model.resumes(run, &own.map(|(_, purpose)| *purpose).collect::<Vec<_>>());
        }
    }
}

/// The tiers and purposes of the calls that were answered, in order.
fn answered(entries: &[Entry]) -> Vec<(Tier, RequestPurpose)> {
    let mut tiers: Vec<(CommandKey, Tier)> = Vec::new();
    let mut answered = Vec::new();
    for entry in entries {
        let key = match &entry.event.kind {
            EventKind::CallStarted { key, tier, .. } => {
                tiers.push((*key, *tier));
                continue;
            }
            EventKind::ModelReplied { key, .. } => key,
            // Where no reply was left, none was used.
            EventKind::ModelFailed { key, failure, .. } if failure.kind != FailureKind::ScriptExhausted => {
                key
            }
            EventKind::ToolFinished { observation, .. } if observation.sub_call.is_some() => {
                answered.push((Tier::Selector, RequestPurpose::Filter));
                continue;
            }
            _ => continue,
        };
        let tier = tiers.iter().rev().find(|(of, _)| of == key);
        answered.extend(tier.map(|(_, tier)| (*tier, key.slot.into())));
    }
    answered
}
