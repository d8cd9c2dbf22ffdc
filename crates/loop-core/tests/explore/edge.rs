//! One step of the walk, and what the walk remembers of the way: what a state alone does not tell.

use std::collections::{BTreeMap, BTreeSet};

use loop_core::{
    Call, CommandKey, Decision, Effect, Event, EventKind, FinishReason, Note, PersonAnswer, Phase, Run, Slot,
    Status, Tier, Work,
};
use loop_core::{Purpose, Stage, Stopping};

use crate::trouble::Trouble;

/// An event that was taken, with everything before and after it.
pub struct Edge<'a> {
    pub before: &'a Run,
    pub after: &'a Run,
    pub was: &'a Ghost,
    pub event: &'a Event,
    pub notes: &'a [Note],
}

impl Edge<'_> {
    /// The gate's decision, if the event led to one.
    pub fn decision(&self) -> Option<&Decision> {
        self.notes.iter().find_map(|note| match note {
            Note::GateDecided { decision, .. } => Some(decision),
            _ => None,
        })
    }

    /// The charges of the event: the key, the tokens, the money.
    pub fn charges(
        &self,
    ) -> impl Iterator<Item = (CommandKey, loop_core::Usage, Option<loop_core::PicoUsd>)> {
        self.notes.iter().filter_map(|note| match note {
            Note::CallCharged { key, usage, cost, .. } => Some((*key, *usage, *cost)),
            _ => None,
        })
    }
}

/// What the checks know of the way to a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// How often another route was taken.
    pub rerouted: u32,
    /// The pass that the escalated model took over with.
    pub escalated: Option<u32>,
    /// How often the tier was raised.
    pub raised: u32,
    /// The passes that were granted to repair the answer.
    pub repaired: Vec<u32>,
    /// How often a reason was fixed.
    pub stops: u32,
    /// The last try of every call and action that has settled; of actions, how it ended (`None`: lost).
    pub settled: BTreeMap<CommandKey, (u32, Option<Status>)>,
    /// What became of the tries under each action's key, since a person last allowed it.
    pub tries: BTreeMap<CommandKey, Tries>,
    /// The actions that a person allowed.
    pub approved: BTreeSet<CommandKey>,
    /// Of these, the ones that a call was begun for which cannot be made twice.
    pub used: BTreeSet<CommandKey>,
    /// What went wrong in a row.
    pub trouble: Trouble,
    /// Whether the last reply that was read as a pass was cut at its output limit, or the one that repaired it.
    pub cut: bool,
    /// The sections that tries of the open main call returned before they broke off.
    pub kept: BTreeSet<String>,
    /// How often the program ended while this call or validation ran.
    pub kills: BTreeMap<CommandKey, u32>,
    /// The effects that were begun: whether one runs, and whether its outcome is unknown when none does.
    pub effects: BTreeMap<CommandKey, Begun>,
    /// Whether a main call was to be made, or was made, on another tier than the base one.
    pub is_elsewhere: bool,
}

/// What is known of an effect from what happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Begun {
    pub runs: bool,
    pub unknown: bool,
}

/// What became of the tries under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tries {
    /// They failed in a way that may pass.
    pub failed: u32,
    /// Their driver was gone.
    pub lost: u32,
}

impl Ghost {
    /// What is known after the edge.
    pub fn after(&self, edge: &Edge<'_>) -> Ghost {
        let mut next = Ghost { trouble: self.trouble.after(edge), ..self.clone() };
        match &edge.event.kind {
            EventKind::ModelReplied { key, attempt, reply } => {
                next.settled.insert(*key, (*attempt, None));
                let is_cut = matches!(reply.finish, FinishReason::MaxTokens | FinishReason::Capped);
                if edge.after.passes().len() > edge.before.passes().len() {
                    next.cut = is_cut;
                    next.kept.clear();
                } else if key.slot == Slot::Repair && !matches!(edge.before.phase(), Phase::Stopping { .. }) {
                    next.cut |= is_cut;
                }
            }
            EventKind::ModelFailed { key, attempt, .. } => {
                next.settled.insert(*key, (*attempt, None));
                for note in edge.notes {
                    if let Note::Merged { merge, .. } = note {
                        next.kept.extend(merge.changed.iter().map(|change| change.section.to_string()));
                    }
                }
            }
            // The result of an eager read settles its call once the call is admitted.
            EventKind::ToolFinished { .. } if matches!(edge.before.phase(), Phase::Calling { .. }) => {}
            EventKind::ToolFinished { key, attempt, observation } => {
                next.tool_settled(*key, *attempt, observation.status);
            }
            EventKind::ToolStarted { key, .. } => {
                let work = work(edge.before).iter().find(|work| work.key == *key);
                let action = work.map(|work| &edge.before.actions()[work.action as usize]);
                let once = action.filter(|action| {
                    let tool = edge.before.spec().tool(action.tool_name());
                    tool.is_some_and(|tool| !is_repeatable(tool.effect))
                        && self.approved.contains(&action.key)
                });
                next.used.extend(once.map(|action| action.key));
            }
            EventKind::CallStarted { key, tier, .. } if key.slot != Slot::Select => {
                next.is_elsewhere |= *tier != Tier::Base;
            }
            EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, .. } => {
                next.approved.insert(*key);
            }
            _ => {}
        }
        next.effects_after(edge);
        for note in edge.notes {
            match note {
                Note::ReadUsed { key, attempt, .. } => {
                    let mut reads = edge.before.eager_reads().iter();
                    let read = reads.find(|read| (read.key, read.attempt) == (*key, *attempt));
                    if let Some(observation) = read.and_then(|read| read.observation.as_ref()) {
                        next.tool_settled(*key, *attempt, observation.status);
                    }
                }
                Note::Lost { key, attempt } => {
                    next.settled.insert(*key, (*attempt, None));
                    if is_action(*key) {
                        next.tries.entry(*key).or_default().lost += 1;
                    } else {
                        *next.kills.entry(*key).or_default() += 1;
                    }
                }
                Note::TierChanged { to: Tier::Escalated, .. } => {
                    next.is_elsewhere = true;
                    next.raised += 1;
                    next.escalated.get_or_insert(edge.after.passes().len() as u32 + 1);
                }
                Note::TierChanged { to: Tier::Fallback, .. } => {
                    next.is_elsewhere = true;
                    next.rerouted += 1;
                }
                Note::GateDecided { pass, decision: Decision::Revise { .. }, .. } => {
                    next.repaired.push(pass + 1)
                }
                Note::Stopped { .. } => next.stops += 1,
                _ => {}
            }
        }
        // What a person allows has its tries anew.
        if matches!(edge.before.phase(), Phase::WaitingForPerson { .. }) {
            for work in work(edge.after).iter().filter(|work| work.observation.is_none()) {
                if next.approved.contains(&edge.after.actions()[work.action as usize].key) {
                    next.tries.remove(&work.key);
                }
            }
        }
        next
    }

    fn tool_settled(&mut self, key: CommandKey, attempt: u32, status: Status) {
        self.settled.insert(key, (attempt, Some(status)));
        // One that is not ready has not failed.
        let failed = status.is_retryable() && status != Status::Pending;
        self.tries.entry(key).or_default().failed += u32::from(failed);
    }

    /// How often the program ended while this ran. A main call that becomes the final pass goes on counting its tries.
    pub fn kills_of(&self, key: CommandKey) -> u32 {
        let kills = |key: &CommandKey| self.kills.get(key).copied().unwrap_or_default();
        let as_main = if key.slot == Slot::Final { kills(&CommandKey::new(key.pass, Slot::Main)) } else { 0 };
        kills(&key) + as_main
    }

    /// An effect is unknown from when it was cut off until the tool says what came of it; what may be made twice says
    /// it for all its tries.
    fn effects_after(&mut self, edge: &Edge<'_>) {
        let effect = |key: &CommandKey| {
            let action = edge.before.actions().iter().find(|action| action.key == *key);
            action.and_then(|action| edge.before.spec().tool(action.tool_name())).map(|tool| tool.effect)
        };
        match &edge.event.kind {
            EventKind::ToolStarted { key, .. } if effect(key) != Some(Effect::Read) => {
                self.effects.entry(*key).or_default().runs = true;
            }
            EventKind::Resumed { .. } => {
                for begun in self.effects.values_mut().filter(|begun| begun.runs) {
                    *begun = Begun { runs: false, unknown: true };
                }
            }
            EventKind::ToolFinished { key, observation, .. } => {
                let may_repeat = matches!(effect(key), Some(Effect::WriteIdempotent | Effect::WriteKeyed));
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

/// Whether doing it twice is the same as doing it once.
pub fn is_repeatable(effect: Effect) -> bool {
    matches!(effect, Effect::Read | Effect::WriteIdempotent | Effect::WriteKeyed)
}

/// The call that the phase commands or has in flight.
pub fn call(run: &Run) -> Option<&Call> {
    match run.phase() {
        Phase::Calling { call, purpose: Purpose::Select }
        | Phase::Calling { call, purpose: Purpose::Main }
        | Phase::Calling { call, purpose: Purpose::Repair { .. } }
        | Phase::Calling { call, purpose: Purpose::Final { .. } } => Some(call),
        Phase::Stopping(stopping) => stopping.call.as_ref(),
        _ => None,
    }
}

/// The work that the phase has open or settled.
pub fn work(run: &Run) -> &[Work] {
    match run.phase() {
        Phase::Running { batch, stage: Stage::Gather } | Phase::Running { batch, stage: Stage::Act } => {
            &batch.work
        }
        Phase::Stopping(Stopping { batch: Some(batch), .. }) => &batch.work,
        _ => &[],
    }
}

/// Whether a stop is still open and the run works.
pub fn is_working(run: &Run) -> bool {
    !matches!(run.phase(), Phase::Stopping { .. } | Phase::Saving { .. } | Phase::Done { .. })
}

/// What may settle: (key, attempt) of the call and the tools in flight.
pub fn in_flight(run: &Run) -> Vec<(CommandKey, u32)> {
    let call = call(run).filter(|call| call.started.is_some()).map(|call| (call.key, call.attempt));
    let tools = work(run).iter().filter(|work| work.announced && work.observation.is_none());
    let early = run.eager_reads().iter().filter(|read| read.observation.is_none());
    let early = early.map(|read| (read.key, read.attempt));
    call.into_iter().chain(tools.map(|work| (work.key, work.attempt))).chain(early).collect()
}

/// Whether a key is an action's.
pub fn is_action(key: CommandKey) -> bool {
    matches!(key.slot, Slot::Action(_))
}

/// Whether a stop by a limit leaves a final pass.
pub fn finishes(run: &Run) -> bool {
    run.spec().protocol.output().is_none() && run.spec().gate.final_pass
}
