//! One step of the walk, and what the walk remembers of the way: what a state alone does not tell.

use std::collections::BTreeSet;

use loop_core::invariants::{Past, Transition};
use loop_core::reply::FinishReason;
use loop_core::run::{Call, Checking, Decision, Phase, Purpose, Stage, Stopping, Work};
use loop_core::types::{CommandKey, Slot, Tier};
use loop_core::{Event, EventKind, Note, Run};

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
    /// The step, for the core's own invariants.
    pub fn transition(&self) -> Transition<'_> {
        Transition { before: self.before, event: self.event, notes: self.notes, after: self.after }
    }

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
    ) -> impl Iterator<Item = (CommandKey, loop_core::types::Usage, Option<loop_core::types::PicoUsd>)> {
        self.notes.iter().filter_map(|note| match note {
            Note::CallCharged { key, usage, cost, .. } => Some((*key, *usage, *cost)),
            _ => None,
        })
    }
}

/// What the checks know of the way to a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// What the core's own invariants remember.
    pub past: Past,
    /// The pass that the escalated model took over with.
    pub escalated: Option<u32>,
    /// The passes that were granted to repair the answer.
    pub repaired: Vec<u32>,
    /// What went wrong in a row.
    pub trouble: Trouble,
    /// Whether the last reply that was read as a pass was cut at its output limit, or the one that repaired it.
    pub cut: bool,
    /// The sections that tries of the open main call returned before they broke off.
    pub kept: BTreeSet<String>,
}

impl Ghost {
    /// What is known after the edge.
    pub fn after(&self, edge: &Edge<'_>) -> Ghost {
        let past = self.past.after(&edge.transition());
        let mut next = Ghost { past, trouble: self.trouble.after(edge), ..self.clone() };
        match &edge.event.kind {
            EventKind::ModelReplied { key, reply, .. } => {
                let is_cut = matches!(reply.finish, FinishReason::MaxTokens | FinishReason::Capped);
                if edge.after.passes().len() > edge.before.passes().len() {
                    next.cut = is_cut;
                    next.kept.clear();
                } else if key.slot == Slot::Repair && !matches!(edge.before.phase(), Phase::Stopping { .. }) {
                    next.cut |= is_cut;
                }
            }
            EventKind::ModelFailed { .. } => {
                for note in edge.notes {
                    if let Note::Merged { merge, .. } = note {
                        next.kept.extend(merge.changed.iter().map(|change| change.section.to_string()));
                    }
                }
            }
            // A document that a check finds lacking is revised in the pass after it.
            EventKind::Checked { .. } => {
                let pass = edge.after.passes().len() as u32 + 1;
                let revises = |run: &Run| run.revisions(pass).is_some();
                next.repaired.extend((revises(edge.after) && !revises(edge.before)).then_some(pass));
            }
            _ => {}
        }
        for note in edge.notes {
            match note {
                Note::TierChanged { to: Tier::Escalated, .. } => {
                    next.escalated.get_or_insert(edge.after.passes().len() as u32 + 1);
                }
                Note::GateDecided { pass, decision: Decision::Revise { .. }, .. } => {
                    next.repaired.push(pass + 1)
                }
                _ => {}
            }
        }
        next
    }
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

/// The check that the phase commands or has in flight.
pub fn check(run: &Run) -> Option<&Checking> {
    match run.phase() {
        Phase::Validating(checking) => Some(checking),
        Phase::Stopping(stopping) => stopping.check.as_deref(),
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
