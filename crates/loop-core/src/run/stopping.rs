//! How a run ends: requested stops, deadlines, crashes, settling what is in flight, saving.

use crate::gate::{
    self, Certificate, Condition, Effects, JudgedAction, JudgedCall, NotDone, StopReason, TierCause, Verdict,
    manual_stop,
};
use crate::run::apply::Run;
use crate::run::draft::PassRecord;
use crate::run::eager_read::DropReason;
use crate::run::event::{SaveResult, StopMode};
use crate::run::model_failures::{ATTEMPTS, model_failure};
use crate::run::note::Note;
use crate::run::outcome::{Outcome, SaveState, StoppedIn};
use crate::run::phase::{Ask, Batch, Call, Phase, Purpose, Stopping};
use crate::run::rest::{RunParts, StopPoint};
use crate::types::{CommandKey, Millis, Tier};

/// How long calls in flight may take to settle, once the stop reason is fixed, in milliseconds.
pub(super) const GRACE_MS: u64 = 2_000;

impl Run {
    /// The outcome if the run ended here for this reason. For a driver that cannot continue because its journal fails.
    ///
    /// Calls in flight count as lost. Settled results are included.
    pub fn outcome_so_far(&self, stop: Certificate) -> Outcome {
        let mut ended = self.clone();
        ended.state.budget.totals.wall_ms = self.elapsed_ms();
        let (phase, mut rest) = ended.apart();
        let stopped_in = match &*phase {
            Phase::Stopping(stopping) => stopping.stopped_in.clone(),
            phase => phase.outcome().map_or_else(StoppedIn::default, |outcome| outcome.stopped_in.clone()),
        };
        phase.call().into_iter().for_each(|call| rest.charge_lost(call));
        phase.check().into_iter().for_each(|check| rest.charge_lost_check(check));
        let reads = phase.call().map_or_else(Vec::new, |call| call.eager.clone());
        reads.into_iter().for_each(|read| rest.drop_read(read, DropReason::Stopped));
        let batch = rest.answers_so_far(phase.asks().to_vec()).or_else(|| phase.batch().cloned());
        rest.keep_evidence(batch.unwrap_or_default());
        let stop = rest.with_all(stop);
        let mut outcome = rest.outcome_with(stop, stopped_in);
        if !phase.asks().is_empty() {
            // What waits for a person may still be done.
            outcome.stop.also.retain(|condition| condition.reason != StopReason::EffectNotDone);
        }
        outcome
    }
}

impl RunParts<'_> {
    /// Handles a requested stop: now, or at the next gate.
    pub(super) fn stop_requested(&mut self, phase: Phase, how: StopMode) -> Phase {
        self.inbox.stop_requested.get_or_insert(self.clock.now);
        match how {
            StopMode::Now => self.stop_by_hand(phase),
            StopMode::AtGate => self.stop_at_gate(phase),
        }
    }

    /// Ends the run if a stop is requested and nothing that it waits for is in flight.
    pub(super) fn stop_at_gate(&mut self, phase: Phase) -> Phase {
        if self.inbox.stop_requested.is_some() && !phase.holds_back_a_stop() {
            self.stop_by_hand(phase)
        } else {
            phase
        }
    }

    /// Ends the run by request, in the middle of a phase.
    pub(super) fn stop_by_hand(&mut self, phase: Phase) -> Phase {
        phase.waiting_since().into_iter().for_each(|since| self.count_waiting(since));
        let certificate = self.as_requested();
        self.stop_phase(phase, certificate)
    }

    /// Ends the run by request, with nothing in flight.
    pub(super) fn stop_as_requested(&mut self, place: StopPoint) -> Phase {
        let certificate = self.as_requested();
        self.stop(place, certificate)
    }

    fn as_requested(&self) -> Certificate {
        let primary = manual_stop(self.inbox.stop_requested.unwrap_or(self.clock.now));
        Certificate::new(primary, self.limits_reached())
    }

    /// Handles a deadline during a call: the call may start, or time is over.
    pub(super) fn call_deadline(&mut self, call: Call, purpose: Purpose) -> Phase {
        let waited = call.started.is_none() && matches!(purpose, Purpose::Main) && !self.is_over();
        // The retry waited into the time reserved for the final pass.
        if let Some(cause) = self.out_of_time().filter(|_| waited) {
            let place = StopPoint::of(&call, &purpose);
            return self.final_pass_or_stop(place, call, cause);
        }
        self.end_if_over(Phase::Calling { call, purpose })
    }

    /// Ends the run if its wall clock is over. Otherwise commands that waited become due.
    pub(super) fn end_if_over(&mut self, phase: Phase) -> Phase {
        if !self.is_over() {
            return phase;
        }
        // The order is the gate's: an earlier requested stop is the primary reason.
        let cause = phase.final_cause().cloned();
        let failed = phase.call().and_then(|call| call.failed.clone()).map(model_failure);
        let (reached, before_next) = gate::split(self.limits_reached(), self.spec.acts_last());
        let conditions = self.requested_stop().into_iter().chain(reached).chain(cause).chain(failed);
        match Certificate::of(conditions.chain(before_next)) {
            Some(certificate) => self.stop_phase(phase, certificate),
            None => phase,
        }
    }

    fn is_over(&self) -> bool {
        self.elapsed_ms() >= self.spec.limits.wall_ms
    }

    /// The conditions of limits that are reached.
    pub(super) fn limits_reached(&self) -> Vec<Condition> {
        gate::limits_reached(&self.spec.limits, &self.budget.totals, self.elapsed_ms())
    }

    /// The condition of a requested stop. `None`: none is requested.
    pub(super) fn requested_stop(&self) -> Option<Condition> {
        self.inbox.stop_requested.map(manual_stop)
    }

    /// Settles a try to save the outcome: retries it, or ends the run.
    pub(super) fn save_finished(
        &mut self,
        mut outcome: Box<Outcome>,
        attempt: u32,
        result: &SaveResult,
    ) -> Phase {
        outcome.saved = Some(match result {
            SaveResult::Saved { location } => SaveState::At { location: location.clone() },
            SaveResult::Failed { retry_at: Some(at), .. } if attempt < ATTEMPTS => {
                return Phase::Saving { outcome, attempt: attempt + 1, not_before: Some(*at) };
            }
            SaveResult::Failed { message, .. } => SaveState::Not { message: message.clone() },
        });
        Phase::Done { outcome }
    }

    /// Ends the run for the first of these conditions, with nothing in flight.
    pub(super) fn stop_for(
        &mut self,
        place: StopPoint,
        conditions: impl IntoIterator<Item = Condition>,
    ) -> Phase {
        let certificate = Certificate::of(conditions).unwrap_or_else(|| self.as_requested());
        self.stop(place, certificate)
    }

    /// Fixes the stop reason with nothing in flight, and finishes the run.
    pub(super) fn stop(&mut self, place: StopPoint, certificate: Certificate) -> Phase {
        let stopping = self.fix(place, certificate);
        self.stopping_settled(stopping)
    }

    /// Fixes the stop reason in the middle of a phase and cancels what is in flight. With nothing in flight the run
    /// finishes at once. A reason that is already fixed does not change.
    fn stop_phase(&mut self, phase: Phase, certificate: Certificate) -> Phase {
        let passes = self.draft.passes.len() as u32;
        let place =
            StopPoint { phase: phase.name(), pass: phase.call().map_or(passes, |call| call.key.pass) };
        let mut stopping = self.fix(place, certificate);
        match phase {
            Phase::Calling { mut call, .. } => {
                self.drop_reads_of(&mut call, DropReason::Stopped);
                stopping.call = Some(call).filter(|call| call.started.is_some());
            }
            Phase::Running { batch, .. } => stopping.batch = Some(batch),
            Phase::WaitingForPerson { asks, .. } => {
                // Approved actions that never started are left undone. Answers to questions are kept.
                let is_approved = |at: &u32| {
                    let action = self.calls.actions.get(*at as usize);
                    action.is_some_and(|action| action.verdict == Verdict::Run)
                };
                let undone = asks.iter().filter(|ask| ask.answer.is_none()).map(|ask| ask.action);
                let approved: Vec<u32> = undone.filter(is_approved).collect();
                self.leave_undone(&approved, stopping.certificate.reason());
                stopping.batch = self.answers_so_far(asks);
            }
            Phase::Validating(checking) => stopping.check = self.cancel_check(checking),
            phase @ (Phase::Stopping(_) | Phase::Saving { .. } | Phase::Done { .. }) => return phase,
        }
        self.stopping_settled(stopping)
    }

    fn fix(&mut self, place: StopPoint, certificate: Certificate) -> Stopping {
        let certificate = self.with_all(certificate).with_effects(self.calls.in_doubt(), self.not_done(&[]));
        self.notes.push(Note::Stopped { certificate: certificate.clone().into() });
        let attempt = self.draft.attempts.len() as u32;
        let stopped_in = StoppedIn { phase: place.phase.into(), pass: place.pass, attempt };
        let from = std::mem::replace(&mut self.route.tier, Tier::Base);
        if from != Tier::Base {
            self.notes.push(Note::TierChanged { from, to: Tier::Base, why: TierCause::Ended });
        }
        Stopping { certificate, call: None, batch: None, check: None, since: self.clock.now, stopped_in }
    }

    /// The questions already answered while others are open, as a settled batch.
    fn answers_so_far(&mut self, asks: Vec<Ask>) -> Option<Batch> {
        let answered: Vec<Ask> = asks.into_iter().filter(|ask| ask.answer.is_some()).collect();
        (!answered.is_empty()).then(|| self.take_answers(answered))
    }

    fn outcome_with(&self, stop: Certificate, stopped_in: StoppedIn) -> Outcome {
        let doubts = &self.calls.doubts;
        let in_doubt = self.calls.in_doubt();
        let is_in_doubt = |key: &CommandKey| doubts.contains_key(key);
        let not_done = self.not_done(&[]);
        let effects = Effects::of(self.spec, &self.calls.actions, &self.knowledge.evidence, is_in_doubt);
        Outcome {
            run: self.started.run.clone(),
            stop: Certificate {
                effects,
                style: self.spec.protocol.reason_names(),
                ..stop.with_effects(in_doubt, not_done)
            },
            confidence: self.draft.confidence(),
            confidence_reason: self.draft.confidence_reason(),
            passes: self.draft.passes.iter().map(PassRecord::summary).collect(),
            document: self.draft.document.clone(),
            answer: self.draft.answer_or_partial(),
            output: self.draft.last_output(),
            rejection: self.draft.last_rejection(),
            attempts: self.draft.attempts.len() as u32,
            stopped_in,
            missing: self.draft.missing(self.spec, self.knowledge, self.started),
            checks: self.draft.checks.clone(),
            evidence: self.knowledge.evidence.clone(),
            actions: self.calls.actions.iter().map(|action| (**action).clone()).collect(),
            dropped_reads: self.calls.dropped.clone(),
            totals: self.budget.totals,
            calls: self.budget.served_calls(self.spec),
            warnings: self.knowledge.warnings.clone(),
            saved: None,
        }
    }

    /// The owed effects that did not happen, with the actions of a reply that are judged and not yet admitted.
    pub(super) fn not_done(&self, judged: &[JudgedCall]) -> Vec<NotDone> {
        let before = self.calls.actions.iter().map(AsRef::as_ref);
        let actions: Vec<&JudgedAction> = before.chain(judged.iter().map(|it| &it.judged)).collect();
        gate::not_done(self.spec, self.knowledge.plan.is_some(), &actions, &self.knowledge.evidence)
    }

    /// Finishes the run once nothing is in flight.
    pub(super) fn stopping_settled(&mut self, stopping: Stopping) -> Phase {
        if stopping.is_in_flight() { Phase::Stopping(stopping) } else { self.finish(stopping) }
    }

    /// Finishes the run. What has not settled by now is charged in full and recorded as cancelled.
    pub(super) fn finish(&mut self, stopping: Stopping) -> Phase {
        let Stopping { certificate, call, batch, check, stopped_in, .. } = stopping;
        call.iter().for_each(|call| self.charge_lost(call));
        check.iter().for_each(|check| self.charge_lost_check(check));
        self.keep_evidence(batch.unwrap_or_default());
        self.budget.totals.wall_ms = self.elapsed_ms();
        // Calls in flight may have exceeded a limit. The time that they took to settle does not count.
        let reached = gate::limits_reached(&self.spec.limits, &self.budget.totals, 0);
        let reached = reached.into_iter().filter(|condition| condition.reason != StopReason::Timeout);
        let class = certificate.class;
        let outcome = Box::new(self.outcome_with(certificate.and(reached), stopped_in));
        if outcome.stop.class != class {
            self.notes.push(Note::StopSettled { certificate: outcome.stop.clone().into() });
        }
        if self.spec.save {
            Phase::Saving { outcome, attempt: 1, not_before: None }
        } else {
            Phase::Done { outcome }
        }
    }
}

/// The instant at which a stopping run stops waiting for calls in flight.
pub(super) fn grace_ends(since: Millis) -> Millis {
    since.plus(GRACE_MS)
}
