//! What the checks remember of the way to a state, kept from events and from notes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loop_core::{
    CommandKey, Effect, EventKind, FailureKind, Millis, Note, PersonAnswer, Phase, PicoUsd, Refusal, Run,
    Slot, Status, StopMode, Tier,
};

use crate::sim::check::{Step, call, work};

/// What is known of an effect: whether it runs, and whether what came of it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) runs: bool,
    pub(crate) unknown: bool,
}

/// What the checks remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghost {
    /// How often a stop reason was fixed.
    pub(crate) stops: u32,
    /// The last try under each key that has settled, and how it ended; `None`: it was lost.
    pub(crate) settled: BTreeMap<CommandKey, (u32, Option<Status>)>,
    /// The actions that as many people allowed as policy demands.
    pub(crate) approved: BTreeSet<CommandKey>,
    /// The accounts that allowed each action.
    pub(crate) approvers: BTreeMap<CommandKey, BTreeSet<Arc<str>>>,
    /// The actions whose request is settled by people.
    pub(crate) answered: BTreeSet<CommandKey>,
    /// The total cost that the shared budget permits. `None`: it has refused no call since the last resume.
    pub(crate) shared: Option<PicoUsd>,
    /// The effects that were begun, by key.
    pub(crate) effects: BTreeMap<CommandKey, Begun>,
    /// Milliseconds that do not count against the wall clock.
    pub(crate) uncounted_ms: u64,
    /// When the run began to wait for people.
    waiting_since: Option<Millis>,
    /// How many instructions were accepted.
    pub(crate) instructions: usize,
    /// When the open call may be tried again, as the provider said.
    pub(crate) retry_at: Option<(CommandKey, Millis)>,
    /// How often the open call failed by the fault of its model, on its present route.
    pub(crate) failures: u32,
    /// Whether a stop is requested.
    pub(crate) stop: Option<StopMode>,
    /// How many saves succeeded.
    pub(crate) saved: u32,
    /// Model calls that tools reported, as part of their results.
    pub(crate) sub_calls: u32,
    /// The key of the first try of a write whose last try failed in a way that may pass, by tool and arguments.
    pub(crate) retryable: BTreeMap<(String, String), CommandKey>,
    /// Whether main calls were made on another tier than the base tier.
    pub(crate) is_elsewhere: bool,
}

impl Ghost {
    /// What is known at the start.
    pub(crate) fn start(run: &Run, notes: &[Note]) -> Self {
        let stops = notes.iter().filter(|note| matches!(note, Note::Stopped { .. })).count() as u32;
        Self { stops, waiting_since: waiting_since(run), ..Self::default() }
    }

    /// Adds a step. Returns what was known before it.
    pub(crate) fn after(&mut self, step: &Step<'_>) -> Self {
        let was = self.clone();
        self.time(step);
        self.effects(step);
        match &step.event.kind {
            EventKind::ToolFinished { key, attempt, observation }
                if work(step.before).iter().any(|work| work.key == *key) =>
            {
                self.settled.insert(*key, (*attempt, Some(observation.status)));
            }
            EventKind::ModelReplied { key, attempt, .. } => {
                self.settled.insert(*key, (*attempt, None));
                self.retry_at = None;
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                self.settled.insert(*key, (*attempt, None));
                self.retry_at = failure.retry_at.map(|at| (*key, at));
                self.failures += u32::from(failure.kind != FailureKind::ContextTooLong);
            }
            EventKind::PersonAnswered { key, answer, .. } => {
                self.answered.insert(*key);
                if *answer == PersonAnswer::Approved {
                    self.approved.insert(*key);
                }
            }
            EventKind::ApprovedBy { key, by, .. } => {
                let accounts = self.approvers.entry(*key).or_default();
                accounts.insert(Arc::clone(&by.account));
                if accounts.len() >= step.before.spec().gate.approvals as usize {
                    self.answered.insert(*key);
                    self.approved.insert(*key);
                }
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
            EventKind::SaveFinished { result: loop_core::SaveResult::Saved { .. }, .. } => self.saved += 1,
            _ => {}
        }
        for note in step.notes {
            match note {
                Note::Stopped { .. } => self.stops += 1,
                Note::Lost { key, attempt } => {
                    self.settled.insert(*key, (*attempt, None));
                }
                Note::TierChanged { to, .. } => {
                    self.is_elsewhere |= *to != Tier::Base;
                    self.failures = 0;
                    self.retry_at = None;
                }
                Note::ReadUsed { key, attempt, .. } => {
                    let read = step.before.eager_reads().iter().find(|read| read.key == *key);
                    if let Some(observation) = read.and_then(|read| read.observation.as_ref()) {
                        self.settled.insert(*key, (*attempt, Some(observation.status)));
                    }
                }
                _ => {}
            }
        }
        let key = |run: &Run| call(run).map(|call| call.key);
        let is_first = call(step.after).is_some_and(|call| call.attempt == 1);
        if key(step.before) != key(step.after) {
            // A main call that becomes the final pass continues to count its tries.
            let continues = key(step.before).zip(key(step.after)).is_some_and(|(before, after)| {
                before.pass == after.pass && before.slot == Slot::Main && after.slot == Slot::Final
            });
            match (continues && !is_first, self.retry_at, key(step.after)) {
                (true, Some((_, at)), Some(after)) => self.retry_at = Some((after, at)),
                (true, ..) => {}
                (false, ..) => (self.failures, self.retry_at) = (0, None),
            }
        }
        self.evidence(step);
        was
    }

    fn time(&mut self, step: &Step<'_>) {
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

    /// An effect is unknown from when it was cut off until the tool says what came of it.
    fn effects(&mut self, step: &Step<'_>) {
        let effect = |key: &CommandKey| {
            let work = work(step.before).iter().find(|work| work.key == *key)?;
            let action = step.before.actions().get(work.action as usize)?;
            step.before.spec().tool(action.tool_name()).map(|tool| tool.effect)
        };
        match &step.event.kind {
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

    /// Which writes may be tried again, from the results that were stored in this step.
    fn evidence(&mut self, step: &Step<'_>) {
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
        if let EventKind::ToolFinished { observation, key, .. } = &step.event.kind {
            let granted =
                |run: &Run| work(run).iter().any(|work| work.key == *key && work.sub_call.is_some());
            self.sub_calls += u32::from(observation.sub_call.is_some() && granted(step.before));
        }
        let lost =
            step.notes.iter().filter(|note| matches!(note, Note::CallCharged { key, .. } if is_action(*key)));
        let finished = u32::from(matches!(step.event.kind, EventKind::ToolFinished { .. }));
        // A granted sub-call whose tool is gone is charged as well. Those notes are the only trace of it.
        self.sub_calls += (lost.count() as u32).saturating_sub(finished);
    }
}

fn is_action(key: CommandKey) -> bool {
    matches!(key.slot, Slot::Action(_))
}

fn waiting_since(run: &Run) -> Option<Millis> {
    if let Phase::WaitingForPerson { since, .. } = run.phase() { Some(*since) } else { None }
}
