//! Scripted models of a run that another process began: which of their replies are used already.

use std::sync::Arc;

use loop_core::EventKind;
use loop_core::types::{CommandKey, FailureKind, Tier};
use loop_llm::Scripted;
use loop_llm::scripted::RequestPurpose;
use loop_runtime::journal::Entry;

/// The models that reply from a list, by the tiers that have one of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts {
    /// The tiers with a model of their own, with their list where they reply from one.
    own: Vec<(&'static str, Option<Arc<Scripted>>)>,
}

impl Scripts {
    /// A tier has a model of its own, with its list where it replies from one.
    pub(crate) fn add(&mut self, tier: &'static str, script: Option<Arc<Scripted>>) {
        self.own.push((tier, script));
    }

    /// Leaves out what the entries of a run have heard already: each reply is used once, also where another process goes on.
    ///
    /// A call that was lost is made again and gets its reply again; nothing of it is in the journal.
    pub(crate) fn pass_over(&self, entries: &[Entry]) {
        let mut tiers: Vec<(CommandKey, Tier)> = Vec::new();
        for entry in entries {
            match &entry.event.kind {
                EventKind::CallStarted { key, tier, .. } => tiers.push((*key, *tier)),
                EventKind::ModelReplied { key, .. } => self.received(key, &tiers),
                // Where no reply was left, none was used.
                EventKind::ModelFailed { key, failure, .. }
                    if failure.kind != FailureKind::ScriptExhausted =>
                {
                    self.received(key, &tiers);
                }
                EventKind::ToolFinished { observation, .. } if observation.sub_call.is_some() => {
                    self.used(Tier::Selector, RequestPurpose::Filter);
                }
                _ => {}
            }
        }
    }

    fn received(&self, key: &CommandKey, tiers: &[(CommandKey, Tier)]) {
        if let Some((_, tier)) = tiers.iter().rev().find(|(of, _)| of == key) {
            self.used(*tier, key.slot.into());
        }
    }

    fn used(&self, tier: Tier, purpose: RequestPurpose) {
        let of = |name: &str| self.own.iter().find(|(own, _)| *own == name);
        if let Some((_, Some(script))) = of(tier.name()).or_else(|| of(Tier::Base.name())) {
            script.pass_over(purpose);
        }
    }
}
