//! What the checks remember of earlier events, because a state alone does not contain it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Transition;
use super::view::{is_action, open_work, work};
use crate::run::{EventKind, Note, PersonAnswer, Phase, Run};
use crate::types::{CommandKey, Effect, Slot, Status, Tier};

/// Counts and sets over all events before a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    /// How often a reason to stop was fixed.
    pub stops: u32,
    /// How often the tier was raised.
    pub raised: u32,
    /// How often another route was taken.
    pub rerouted: u32,
    /// Whether a main call was to be made, or was made, on another tier than the base one.
    pub is_elsewhere: bool,
    /// The last try of every call and action that has settled; of actions, how it ended (`None`: it was lost).
    pub settled: BTreeMap<CommandKey, (u32, Option<Status>)>,
    /// How many tries under each action's key failed or were lost, since a person last allowed the action.
    pub tries: BTreeMap<CommandKey, TryCounts>,
    /// How often the program ended while this call or check ran.
    pub kills: BTreeMap<CommandKey, u32>,
    /// The actions that a person allowed.
    pub approved: BTreeSet<CommandKey>,
    /// The accounts that have approved an action.
    pub approvers: BTreeMap<CommandKey, BTreeSet<Arc<str>>>,
    /// The approved actions that have begun an effect which must not happen twice.
    pub used: BTreeSet<CommandKey>,
    /// The effects that were begun, by their idempotency keys.
    pub effects: BTreeMap<CommandKey, StartedEffect>,
}

/// The status of an effect that was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StartedEffect {
    /// Whether it runs.
    pub runs: bool,
    /// Whether it may have happened although no result confirms it.
    pub unknown: bool,
}

/// How the tries under one key ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TryCounts {
    /// How many failed in a retryable way.
    pub failed: u32,
    /// How many were lost with their driver.
    pub lost: u32,
}

impl Past {
    /// The record of a run after its first event, which had these notes. A run that continues another one's work may
    /// have been on another tier before.
    pub fn start(run: &Run, notes: &[Note]) -> Self {
        let stops = notes.iter().filter(|note| matches!(note, Note::Stopped { .. })).count();
        Self {
            stops: u32::try_from(stops).unwrap_or(u32::MAX),
            rerouted: u32::from(run.tier() == Tier::Fallback),
            is_elsewhere: run.started().parent.is_some(),
            ..Self::default()
        }
    }

    /// The record after a step.
    pub fn after(&self, step: &Transition<'_>) -> Self {
        let mut next = self.clone();
        next.take_event(step);
        next.take_effect(step);
        next.take_notes(step);
        // What a person allows has its tries anew.
        if matches!(step.before.phase(), Phase::WaitingForPerson { .. }) {
            for open in work(step.after).iter().filter(|work| work.observation.is_none()) {
                let action = step.after.actions().get(open.action as usize);
                if action.is_some_and(|action| next.approved.contains(&action.key)) {
                    next.tries.remove(&open.key);
                }
            }
        }
        next
    }

    fn take_event(&mut self, step: &Transition<'_>) {
        match &step.event.kind {
            EventKind::ModelReplied { key, attempt, .. }
            | EventKind::ModelFailed { key, attempt, .. }
            | EventKind::Checked { key, attempt, .. } => {
                self.settled.insert(*key, (*attempt, None));
            }
            // The result of an eager read settles its call once the call is admitted.
            EventKind::ToolFinished { .. } if matches!(step.before.phase(), Phase::Calling { .. }) => {}
            EventKind::ToolFinished { key, attempt, observation } => {
                self.tool_settled(*key, *attempt, observation.status);
            }
            EventKind::ToolStarted { key, .. } => {
                let open = open_work(step.before, key);
                let action = open.and_then(|work| step.before.actions().get(work.action as usize));
                let once = action.filter(|action| {
                    let tool = step.before.spec().tool(action.tool_name());
                    tool.is_some_and(|tool| !tool.effect.is_repeatable())
                        && self.approved.contains(&action.key)
                });
                self.used.extend(once.map(|action| action.key));
            }
            EventKind::CallStarted { key, tier, .. } if key.slot != Slot::Select => {
                self.is_elsewhere |= *tier != Tier::Base;
            }
            EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, .. } => {
                self.approved.insert(*key);
            }
            EventKind::ApprovedBy { key, by, .. } => {
                let accounts = self.approvers.entry(*key).or_default();
                accounts.insert(by.account.clone());
                if accounts.len() as u64 >= u64::from(step.before.spec().gate.approvals) {
                    self.approved.insert(*key);
                }
            }
            _ => {}
        }
    }

    fn take_notes(&mut self, step: &Transition<'_>) {
        for note in step.notes {
            match note {
                Note::ReadUsed { key, attempt, .. } => {
                    let mut reads = step.before.eager_reads().iter();
                    let read = reads.find(|read| (read.key, read.attempt) == (*key, *attempt));
                    if let Some(observation) = read.and_then(|read| read.observation.as_ref()) {
                        self.tool_settled(*key, *attempt, observation.status);
                    }
                }
                Note::Lost { key, attempt } => {
                    self.settled.insert(*key, (*attempt, None));
                    if is_action(*key) {
                        self.tries.entry(*key).or_default().lost += 1;
                    } else {
                        *self.kills.entry(*key).or_default() += 1;
                    }
                }
                Note::TierChanged { to: Tier::Escalated, .. } => {
                    self.is_elsewhere = true;
                    self.raised += 1;
                }
                Note::TierChanged { to: Tier::Fallback, .. } => {
                    self.is_elsewhere = true;
                    self.rerouted += 1;
                }
                Note::Stopped { .. } => self.stops += 1,
                _ => {}
            }
        }
    }

    fn tool_settled(&mut self, key: CommandKey, attempt: u32, status: Status) {
        self.settled.insert(key, (attempt, Some(status)));
        // One that is not ready has not failed.
        let failed = status.is_retryable() && status != Status::Pending;
        self.tries.entry(key).or_default().failed += u32::from(failed);
    }

    /// How often the program ended while this ran. A main call that becomes the final pass continues to count its
    /// tries.
    pub fn kills_of(&self, key: CommandKey) -> u32 {
        let kills = |key: &CommandKey| self.kills.get(key).copied().unwrap_or_default();
        let as_main = if key.slot == Slot::Final { kills(&CommandKey::new(key.pass, Slot::Main)) } else { 0 };
        kills(&key) + as_main
    }

    /// An effect is unknown from when it was cut off until the tool reports its result. A result of what may be made
    /// twice counts for all its tries.
    fn take_effect(&mut self, step: &Transition<'_>) {
        match &step.event.kind {
            EventKind::ToolStarted { key, .. } if effect(step.before, key) != Some(Effect::Read) => {
                self.effects.entry(*key).or_default().runs = true;
            }
            EventKind::Resumed { .. } => {
                for begun in self.effects.values_mut().filter(|begun| begun.runs) {
                    *begun = StartedEffect { runs: false, unknown: true };
                }
            }
            EventKind::ToolFinished { key, observation, .. } => {
                let may_repeat = effect(step.before, key).is_some_and(Effect::is_repeatable);
                let Some(begun) = self.effects.get_mut(key) else { return };
                begun.runs = false;
                match observation.status {
                    Status::Timeout | Status::Cancelled | Status::InDoubt => begun.unknown = true,
                    Status::Ok | Status::Empty => begun.unknown = false,
                    Status::PermanentError | Status::InvalidInput | Status::MalformedResult if may_repeat => {
                        begun.unknown = false;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// The effect of the action that has this key.
fn effect(run: &Run, key: &CommandKey) -> Option<Effect> {
    let action = run.actions().iter().find(|action| action.key == *key);
    action.and_then(|action| run.spec().tool(action.tool_name())).map(|tool| tool.effect)
}
