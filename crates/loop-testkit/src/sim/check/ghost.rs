//! Ghost state: what the checks remember of the events and notes before a state.

use std::collections::BTreeMap;

use loop_core::invariants::Transition;
use loop_core::run::{Phase, Refusal, SaveResult, StopMode};
use loop_core::types::{CommandKey, Millis, PicoUsd, Slot, Status};
use loop_core::{EventKind, Note, Run};

use crate::sim::check::call;

/// The ghost state.
#[derive(Clone, Debug, Default)]
pub(crate) struct GhostState {
    /// The total cost that the shared budget permits. `None`: it has refused no call since the last resume.
    pub(crate) shared: Option<PicoUsd>,
    /// How many instructions were accepted.
    pub(crate) instructions: usize,
    /// When the provider permits the next attempt of the open call.
    pub(crate) retry_at: Option<(CommandKey, Millis)>,
    /// Whether a stop is requested.
    pub(crate) stop: Option<StopMode>,
    /// How many saves succeeded.
    pub(crate) saved: u32,
    /// How many sub-calls of tools and checks were charged.
    pub(crate) sub_calls: u32,
    /// The key of the first attempt of each write whose last attempt may be retried, by tool and arguments.
    pub(crate) retryable: BTreeMap<(String, String), CommandKey>,
    /// Milliseconds that do not count against the wall clock.
    uncounted_ms: u64,
    /// When the run began to wait for people.
    waiting_since: Option<Millis>,
}

impl GhostState {
    /// The ghost state at the start.
    pub(crate) fn start(run: &Run) -> Self {
        Self { waiting_since: waiting_since(run), ..Self::default() }
    }

    /// Adds a step.
    pub(crate) fn after(&mut self, step: &Transition<'_>) {
        self.time(step);
        match &step.event.kind {
            EventKind::ModelReplied { .. } => self.retry_at = None,
            EventKind::ModelFailed { key, failure, .. } => {
                self.retry_at = failure.retry_at.map(|at| (*key, at));
            }
            EventKind::CallRefused { refusal: Refusal::SharedBudget { left }, .. } => {
                // The run itself refuses what it has no room for: then nothing is lowered.
                let rest = step.before.totals().cost.known.plus(*left);
                self.shared = Some(self.shared.map_or(rest, |earlier| earlier.min(rest)));
            }
            EventKind::Resumed { .. } => self.shared = None,
            EventKind::Instruction { .. } => self.instructions += 1,
            EventKind::StopRequested { how } => self.stop = Some(*how),
            EventKind::StopWithdrawn => self.stop = None,
            EventKind::SaveFinished { result: SaveResult::Saved { .. }, .. } => self.saved += 1,
            _ => {}
        }
        for note in step.notes {
            match note {
                Note::CallCharged { key, .. } if is_action(*key) || key.slot == Slot::Check => {
                    self.sub_calls += 1
                }
                Note::TierChanged { .. } => self.retry_at = None,
                _ => {}
            }
        }
        self.next_call(step);
        self.evidence(step);
    }

    /// Resets what belongs to the previous call. A main call that becomes the final pass keeps its wait.
    fn next_call(&mut self, step: &Transition<'_>) {
        let key = |run: &Run| call(run).map(|call| call.key);
        let (before, after) = (key(step.before), key(step.after));
        if before == after {
            return;
        }
        let is_first = call(step.after).is_some_and(|call| call.attempt == 1);
        let continues = before.zip(after).is_some_and(|(before, after)| {
            before.pass == after.pass && before.slot == Slot::Main && after.slot == Slot::Final
        });
        let waits = self.retry_at.filter(|_| continues && !is_first);
        self.retry_at = waits.zip(after).map(|((_, at), key)| (key, at));
    }

    fn time(&mut self, step: &Transition<'_>) {
        if let EventKind::Resumed { away_ms, .. } = step.event.kind
            && waiting_since(step.before).is_none()
        {
            self.uncounted_ms += away_ms.min(step.event.at.since(step.before.now()));
        }
        let (was, is) = (waiting_since(step.before), waiting_since(step.after));
        if let Some(since) = was.filter(|_| is != was) {
            self.uncounted_ms += step.event.at.since(since);
        }
        self.waiting_since = is;
    }

    /// Milliseconds that count against the wall clock.
    pub(crate) fn elapsed_ms(&self, run: &Run) -> u64 {
        let waiting = self.waiting_since.map_or(0, |since| run.now().since(since));
        run.now().0.saturating_sub(self.uncounted_ms).saturating_sub(waiting)
    }

    /// Updates which writes may be retried, from the results of this step.
    fn evidence(&mut self, step: &Transition<'_>) {
        let spec = step.after.spec();
        for evidence in step.after.evidence().iter().skip(step.before.evidence().len()) {
            let is_write = spec.tool(&evidence.tool).is_some_and(|tool| !tool.effect.is_read());
            if !is_write {
                continue;
            }
            let call = (evidence.tool.to_string(), evidence.parameters.to_string());
            match evidence.observation.status {
                Status::RetryableError => _ = self.retryable.insert(call, evidence.key),
                _ => _ = self.retryable.remove(&call),
            }
        }
    }
}

/// Whether a charge under this key is of a sub-call.
pub(crate) fn is_action(key: CommandKey) -> bool {
    matches!(key.slot, Slot::Action(_))
}

fn waiting_since(run: &Run) -> Option<Millis> {
    if let Phase::WaitingForPerson { since, .. } = run.phase() { Some(*since) } else { None }
}
