//! How a run ends: requested stops, deadlines, crashes, settling what is in flight, saving.

use crate::gate::{self, Certificate, Condition, Effects, StopReason, TierCause, Verdict, manual_stop};
use crate::run::apply::Run;
use crate::run::draft::PassRecord;
use crate::run::event::{SaveResult, StopMode};
use crate::run::model_failures::{ATTEMPTS, model_failure};
use crate::run::note::Note;
use crate::run::outcome::{Outcome, Saved, StoppedIn};
use crate::run::phase::{Ask, Batch, Call, Phase, Purpose, Stopping};
use crate::run::step::{Place, Rest};
use crate::types::{CommandKey, Millis, Tier};

/// How long what is in flight may take to settle, once the reason is fixed.
const GRACE_MS: u64 = 2_000;

impl Run {
    /// The outcome if the run ended here for this reason: for a driver that cannot go on, since its journal fails.
    ///
    /// What is in flight counts as lost; what has settled is in it.
    pub fn outcome_so_far(&self, stop: Certificate) -> Outcome {
        let mut ended = self.clone();
        ended.state.budget.totals.wall_ms = self.elapsed_ms();
        let (phase, mut rest) = ended.apart();
        let stopped_in = match &*phase {
            Phase::Stopping(stopping) => stopping.stopped_in.clone(),
            phase => phase.outcome().map_or_else(StoppedIn::default, |outcome| outcome.stopped_in.clone()),
        };
        phase.call().into_iter().for_each(|call| rest.charge_lost(call));
        let batch = rest.answers_so_far(phase.asks().to_vec()).or_else(|| phase.batch().cloned());
        rest.keep_evidence(batch.unwrap_or_default());
        let stop = rest.with_all(stop);
        rest.outcome_with(stop, stopped_in)
    }
}

impl Rest<'_> {
    /// A stop is asked for: now, or at the next gate.
    pub(super) fn stop_requested(&mut self, phase: Phase, how: StopMode) -> Phase {
        self.inbox.stop_requested.get_or_insert(self.clock.now);
        match how {
            StopMode::Now => self.stop_by_hand(phase),
            StopMode::AtGate => self.stop_at_gate(phase),
        }
    }

    /// The end where a stop is asked for and nothing is in flight that it would wait for.
    pub(super) fn stop_at_gate(&mut self, phase: Phase) -> Phase {
        if self.inbox.stop_requested.is_some() && !phase.holds_back_a_stop() {
            self.stop_by_hand(phase)
        } else {
            phase
        }
    }

    /// The end as it was asked for, in the middle of a phase.
    pub(super) fn stop_by_hand(&mut self, phase: Phase) -> Phase {
        phase.waiting_since().into_iter().for_each(|since| self.count_waiting(since));
        let certificate = self.as_requested();
        self.stop_phase(phase, certificate)
    }

    /// The end as it was asked for, with nothing in flight.
    pub(super) fn stop_as_requested(&mut self, place: Place) -> Phase {
        let certificate = self.as_requested();
        self.stop(place, certificate)
    }

    fn as_requested(&self) -> Certificate {
        let primary = manual_stop(self.inbox.stop_requested.unwrap_or(self.clock.now));
        Certificate::new(primary, self.limits_reached())
    }

    /// The instant for which a call waited, or the end of the wall clock.
    pub(super) fn call_deadline(&mut self, call: Call, purpose: Purpose) -> Phase {
        let waited = call.started.is_none() && matches!(purpose, Purpose::Main) && !self.is_over();
        // It waited into the time that is the final pass's.
        if let Some(cause) = self.out_of_time().filter(|_| waited) {
            let place = Place::of(&call, &purpose);
            return self.final_pass_or_stop(place, call, cause);
        }
        self.end_if_over(Phase::calling(call, purpose))
    }

    /// The end where the wall clock has run out; otherwise what had to wait may start, and the commands show it.
    pub(super) fn end_if_over(&mut self, phase: Phase) -> Phase {
        if !self.is_over() {
            return phase;
        }
        // In the gate's order: a stop that was asked for before is the reason.
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

    /// The condition of a stop that is asked for.
    pub(super) fn requested_stop(&self) -> Option<Condition> {
        self.inbox.stop_requested.map(manual_stop)
    }

    /// A try to save the outcome has ended: it is made again at its time, or the run is done.
    pub(super) fn save_finished(
        &mut self,
        mut outcome: Box<Outcome>,
        attempt: u32,
        result: &SaveResult,
    ) -> Phase {
        outcome.saved = Some(match result {
            SaveResult::Saved { location } => Saved::At { location: location.clone() },
            SaveResult::Failed { retry_at: Some(at), .. } if attempt < ATTEMPTS => {
                return Phase::saving(outcome, attempt + 1, Some(*at));
            }
            SaveResult::Failed { message, .. } => Saved::Not { message: message.clone() },
        });
        Phase::done(outcome)
    }

    /// Ends the run for the first of these conditions, with nothing in flight.
    pub(super) fn stop_for(
        &mut self,
        place: Place,
        conditions: impl IntoIterator<Item = Condition>,
    ) -> Phase {
        let certificate = Certificate::of(conditions).unwrap_or_else(|| self.as_requested());
        self.stop(place, certificate)
    }

    /// Fixes the reason with nothing in flight: the run is finished at once.
    pub(super) fn stop(&mut self, place: Place, certificate: Certificate) -> Phase {
        let stopping = self.fix(place, certificate);
        self.stopping_settled(stopping)
    }

    /// Fixes the reason in the middle of a phase. What is in flight is cut off; without anything in flight the run is
    /// finished at once. A reason that is fixed stays.
    fn stop_phase(&mut self, phase: Phase, certificate: Certificate) -> Phase {
        let passes = self.draft.passes.len() as u32;
        let place = Place { phase: phase.name(), pass: phase.call().map_or(passes, |call| call.key.pass) };
        let mut stopping = self.fix(place, certificate);
        match phase {
            Phase::Calling { call, .. } => stopping.call = Some(call).filter(|call| call.started.is_some()),
            Phase::Running { batch, .. } => stopping.batch = Some(batch),
            Phase::WaitingForPerson { asks, .. } => {
                // Approved and never started. What a question was answered stays.
                let is_approved = |at: &u32| {
                    let action = self.calls.actions.get(*at as usize);
                    action.is_some_and(|action| action.verdict == Verdict::Run)
                };
                let undone = asks.iter().filter(|ask| ask.answer.is_none()).map(|ask| ask.action);
                let approved: Vec<u32> = undone.filter(is_approved).collect();
                self.leave_undone(&approved, stopping.certificate.reason());
                stopping.batch = self.answers_so_far(asks);
            }
            Phase::Validating { .. } => {}
            phase @ (Phase::Stopping(_) | Phase::Saving { .. } | Phase::Done { .. }) => return phase,
        }
        self.stopping_settled(stopping)
    }

    fn fix(&mut self, place: Place, certificate: Certificate) -> Stopping {
        let certificate = self.with_all(certificate);
        self.notes.push(Note::Stopped { certificate: certificate.clone() });
        let attempt = self.draft.attempts.len() as u32;
        let stopped_in = StoppedIn { phase: place.phase.into(), pass: place.pass, attempt };
        let from = std::mem::replace(&mut self.route.tier, Tier::Base);
        if from != Tier::Base {
            self.notes.push(Note::TierChanged { from, to: Tier::Base, why: TierCause::Ended });
        }
        Stopping { certificate, call: None, batch: None, since: self.clock.now, stopped_in }
    }

    /// The questions that a person has answered while others wait, as a batch that has settled.
    fn answers_so_far(&mut self, asks: Vec<Ask>) -> Option<Batch> {
        let answered: Vec<Ask> = asks.into_iter().filter(|ask| ask.answer.is_some()).collect();
        (!answered.is_empty()).then(|| self.take_answers(answered))
    }

    fn outcome_with(&self, stop: Certificate, stopped_in: StoppedIn) -> Outcome {
        let doubts = &self.calls.doubts;
        let is_in_doubt = |key: &CommandKey| doubts.contains_key(key);
        let effects = Effects::of(self.spec, &self.calls.actions, &self.knowledge.evidence, is_in_doubt);
        Outcome {
            run: self.started.run.clone(),
            stop: Certificate { effects, ..stop.doubting(self.calls.in_doubt()) },
            confidence: self.draft.confidence(),
            confidence_reason: self.draft.confidence_reason(),
            passes: self.draft.passes.iter().map(PassRecord::summary).collect(),
            document: self.draft.document.clone(),
            answer: self.draft.answer_or_partial(),
            output: self.draft.last_output(),
            rejection: self.draft.last_rejection(),
            attempts: self.draft.attempts.len() as u32,
            stopped_in,
            missing: self.draft.missing(self.spec, self.knowledge),
            evidence: self.knowledge.evidence.clone(),
            actions: self.calls.actions.clone(),
            totals: self.budget.totals,
            calls: self.budget.served_calls(self.spec),
            saved: None,
        }
    }

    /// The end, once nothing is in flight any more.
    pub(super) fn stopping_settled(&mut self, stopping: Stopping) -> Phase {
        if stopping.is_in_flight() { Phase::Stopping(stopping) } else { self.finish(stopping) }
    }

    /// Ends the settling: what has not settled by then is charged and recorded as cancelled.
    pub(super) fn finish(&mut self, stopping: Stopping) -> Phase {
        let Stopping { certificate, call, batch, stopped_in, .. } = stopping;
        call.iter().for_each(|call| self.charge_lost(call));
        self.keep_evidence(batch.unwrap_or_default());
        self.budget.totals.wall_ms = self.elapsed_ms();
        // What was in flight may have taken more than was left. The time that it took to settle is no limit's.
        let reached = gate::limits_reached(&self.spec.limits, &self.budget.totals, 0);
        let reached = reached.into_iter().filter(|condition| condition.reason != StopReason::Timeout);
        let outcome = Box::new(self.outcome_with(certificate.and(reached), stopped_in));
        if self.spec.save { Phase::saving(outcome, 1, None) } else { Phase::done(outcome) }
    }
}

/// The instant after which a stopping run waits no longer.
pub(super) fn grace_ends(since: Millis) -> Millis {
    since.plus(GRACE_MS)
}
