//! How a run ends: requested stops, deadlines, crashes, settling what is in flight, saving.

use crate::gate::{self, Certificate, Effects, StopReason, TierCause, Verdict, manual_stop};
use crate::run::draft::PassRecord;
use crate::run::event::{SaveResult, StopMode};
use crate::run::model_calls::{ATTEMPTS, Charge, model_failure};
use crate::run::note::Note;
use crate::run::outcome::{Outcome, Saved, StoppedIn};
use crate::run::phase::{Call, Phase, Purpose, Stage};
use crate::run::{Rejected, Run};
use crate::types::{
    CommandKey, Effect, FailureKind, Millis, ModelFailure, Observation, Received, Slot, Status, Tier,
};

/// How long what is in flight may take to settle, once the reason is fixed.
pub(super) const GRACE_MS: u64 = 2_000;
/// How often the program may end while a tool runs before the tool is given up.
const KILLS: u32 = 3;

impl Run {
    pub(super) fn stop_requested(&mut self, how: StopMode, notes: &mut Vec<Note>) -> Result<(), Rejected> {
        if !self.state.phase.is_working() {
            return self.out_of_order("stop_requested");
        }
        self.state.inbox.stop_requested.get_or_insert(self.state.clock.now);
        if how == StopMode::Now || self.may_stop_at_gate() {
            self.stop_by_hand(notes);
        }
        Ok(())
    }

    /// Whether a stop at the gate is asked for and nothing is in flight that it would wait for.
    fn may_stop_at_gate(&self) -> bool {
        let phase = &self.state.phase;
        let validates = matches!(phase, Phase::Validating { .. });
        self.state.inbox.stop_requested.is_some() && phase.is_working() && !phase.is_in_flight() && !validates
    }

    pub(super) fn stop_withdrawn(&mut self) -> Result<(), Rejected> {
        if !self.state.phase.is_working() || self.state.inbox.stop_requested.is_none() {
            return self.out_of_order("stop_withdrawn");
        }
        self.state.inbox.stop_requested = None;
        Ok(())
    }

    pub(super) fn deadline_reached(
        &mut self,
        deadline: Option<Millis>,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        if deadline.is_none_or(|deadline| deadline > self.state.clock.now) {
            return Err(Rejected::Early { at: self.state.clock.now.0 });
        }
        let is_over = self.elapsed_ms() >= self.spec.limits.wall_ms;
        match &self.state.phase {
            Phase::WaitingForPerson { .. } => self.expire_asks(notes),
            Phase::Stopping { since, .. } if self.state.clock.now.since(*since) >= GRACE_MS => {
                self.finish(notes)
            }
            Phase::Calling { .. } | Phase::Running { .. } | Phase::Validating { .. } if is_over => {
                // In the gate's order: whoever asked for a stop before gets that as the reason.
                let cause = self.state.phase.final_cause().cloned();
                let failed = self.state.phase.call().and_then(|call| call.failed.clone());
                let reached =
                    gate::limits_reached(&self.spec.limits, &self.state.budget.totals, self.elapsed_ms());
                let requested = self.state.inbox.stop_requested.map(manual_stop);
                let failed = failed.map(model_failure);
                let (reached, before_next) = gate::split(reached, self.spec.acts_last());
                let conditions =
                    requested.into_iter().chain(reached).chain(cause).chain(failed).chain(before_next);
                if let Some(certificate) = Certificate::of(conditions) {
                    self.stop(certificate, notes);
                }
            }
            // It waited into the time that is the final pass's.
            Phase::Calling { call, purpose: Purpose::Main } if call.started.is_none() => {
                let call = call.clone();
                if let Some(cause) = self.out_of_time() {
                    self.final_pass_or_stop(call, cause, notes);
                }
            }
            // A call or a save that had to wait may start: the commands show it.
            Phase::Calling { .. }
            | Phase::Running { .. }
            | Phase::Validating { .. }
            | Phase::Stopping { .. }
            | Phase::Saving { .. }
            | Phase::Done { .. } => {}
        }
        Ok(())
    }

    /// Settles what the driver that is gone had in flight: calls at their whole reserve, reads and repeatable
    /// writes by another try, what cannot be repeated as `in_doubt`.
    pub(super) fn resumed(&mut self, away_ms: u64, notes: &mut Vec<Note>) -> Result<(), Rejected> {
        if self.is_done() {
            return self.out_of_order("resumed");
        }
        if !matches!(self.state.phase, Phase::WaitingForPerson { .. }) {
            self.state.clock.leave_out(away_ms);
        }
        // Tools first: what a lost call leads to may start some, and those are not lost.
        self.lose_tools(notes);
        self.lose_call(notes);
        self.lose_validation(notes);
        if matches!(self.state.phase, Phase::Stopping { .. }) {
            self.finish(notes);
        } else if self.may_stop_at_gate() {
            self.stop_by_hand(notes);
        } else {
            self.batch_settled(notes);
        }
        Ok(())
    }

    pub(super) fn save_finished(&mut self, attempt: u32, result: &SaveResult) -> Result<(), Rejected> {
        let Phase::Saving { outcome, attempt: open, not_before } = &mut self.state.phase else {
            return self.out_of_order("save_finished");
        };
        if *open != attempt || not_before.is_some_and(|at| at > self.state.clock.now) {
            let key = CommandKey::new(0, Slot::Save);
            return Err(self.not_open("save_finished", &key, attempt));
        }
        let saved = match result {
            SaveResult::Saved { location } => Saved::At { location: location.clone() },
            SaveResult::Failed { retry_at: Some(at), .. } if attempt < ATTEMPTS => {
                *open += 1;
                *not_before = Some(*at);
                return Ok(());
            }
            SaveResult::Failed { message, .. } => Saved::Not { message: message.clone() },
        };
        let mut outcome = outcome.clone();
        outcome.saved = Some(saved);
        self.state.phase = Phase::Done { outcome };
        Ok(())
    }

    /// Fixes the reason. What is in flight is cut off; without anything in flight the run is finished at once.
    pub(super) fn stop(&mut self, certificate: Certificate, notes: &mut Vec<Note>) {
        let certificate = self.with_all(certificate);
        notes.push(Note::Stopped { certificate: certificate.clone() });
        let stopped_in = StoppedIn {
            phase: self.state.phase.name().into(),
            pass: self.pass(),
            attempt: self.state.draft.attempts.len() as u32,
        };
        self.change_tier(Tier::Base, TierCause::Ended, notes);
        let call = self.state.phase.call().filter(|call| call.started.is_some()).cloned();
        if let Phase::WaitingForPerson { since, asks } = &self.state.phase {
            // Approved and never started. What a question was answered stays.
            let is_approved = |at: &u32| {
                self.state
                    .calls
                    .actions
                    .get(*at as usize)
                    .is_some_and(|action| action.verdict == Verdict::Run)
            };
            let undone = asks.iter().filter(|ask| ask.answer.is_none());
            let approved: Vec<u32> = undone.map(|ask| ask.action).filter(is_approved).collect();
            self.count_waiting(*since);
            self.leave_undone(&approved, certificate.reason(), notes);
        }
        let batch = self.answers_so_far(notes).or_else(|| self.state.phase.batch().cloned());
        let since = self.state.clock.now;
        self.state.phase = Phase::Stopping { certificate, call, batch, since, stopped_in };
        self.stopping_settled(notes);
    }

    /// The outcome if the run ended here for this reason: for a driver that cannot go on, since its journal fails.
    ///
    /// What is in flight counts as lost; what has settled is in it.
    pub fn outcome_so_far(&self, stop: Certificate) -> Outcome {
        let mut ended = self.clone();
        let mut notes = Vec::new();
        if let Some(call) = ended.state.phase.call().cloned() {
            ended.charge_lost(&call, &mut notes);
        }
        if let Some(batch) = ended.answers_so_far(&mut notes) {
            ended.state.phase = Phase::Running { batch, stage: Stage::Act };
        }
        ended.keep_evidence(&mut notes);
        ended.state.budget.totals.wall_ms = ended.elapsed_ms();
        let stop = ended.with_all(stop);
        ended.outcome_with(stop)
    }

    /// What it was doing when its reason was fixed.
    fn stopped_in(&self) -> StoppedIn {
        match &self.state.phase {
            Phase::Stopping { stopped_in, .. } => stopped_in.clone(),
            phase => phase.outcome().map_or_else(StoppedIn::default, |outcome| outcome.stopped_in.clone()),
        }
    }

    fn outcome_with(&self, stop: Certificate) -> Outcome {
        let doubts = &self.state.calls.doubts;
        let is_in_doubt = |key: &CommandKey| doubts.contains_key(key);
        let effects =
            Effects::of(&self.spec, &self.state.calls.actions, &self.state.knowledge.evidence, is_in_doubt);
        Outcome {
            run: self.id().clone(),
            stop: Certificate { effects, ..stop.doubting(self.state.calls.in_doubt()) },
            confidence: self.state.draft.confidence(),
            confidence_reason: self.state.draft.confidence_reason(),
            passes: self.state.draft.passes.iter().map(PassRecord::summary).collect(),
            document: self.state.draft.document.clone(),
            answer: self.state.draft.answer_or_partial(),
            output: self.state.draft.last_output(),
            rejection: self.state.draft.last_rejection(),
            attempts: self.state.draft.attempts.len() as u32,
            stopped_in: self.stopped_in(),
            missing: self.missing(),
            evidence: self.state.knowledge.evidence.clone(),
            actions: self.state.calls.actions.clone(),
            totals: self.state.budget.totals,
            calls: self.model_calls(),
            saved: None,
        }
    }

    pub(super) fn stop_by_hand(&mut self, notes: &mut Vec<Note>) {
        let primary = manual_stop(self.state.inbox.stop_requested.unwrap_or(self.state.clock.now));
        let also = gate::limits_reached(&self.spec.limits, &self.state.budget.totals, self.elapsed_ms());
        self.stop(Certificate::new(primary, also), notes);
    }

    /// The call in flight has settled while stopping.
    pub(super) fn call_gone(&mut self, notes: &mut Vec<Note>) {
        if let Phase::Stopping { call, .. } = &mut self.state.phase {
            *call = None;
        }
        self.stopping_settled(notes);
    }

    pub(super) fn stopping_settled(&mut self, notes: &mut Vec<Note>) {
        if !self.state.phase.is_in_flight() {
            self.finish(notes);
        }
    }

    /// Ends the settling: what has not settled by then is charged and written down as cancelled.
    fn finish(&mut self, notes: &mut Vec<Note>) {
        let Phase::Stopping { certificate, call, .. } = &self.state.phase else {
            return;
        };
        let (certificate, call) = (certificate.clone(), call.clone());
        if let Some(call) = call {
            self.charge_lost(&call, notes);
        }
        self.keep_evidence(notes);
        self.state.budget.totals.wall_ms = self.elapsed_ms();
        // What was in flight may have taken more than was left. The time that it took to settle is no limit's.
        let reached = gate::limits_reached(&self.spec.limits, &self.state.budget.totals, 0);
        let reached = reached.into_iter().filter(|condition| condition.reason != StopReason::Timeout);
        let outcome = Box::new(self.outcome_with(certificate.and(reached)));
        self.state.phase = if self.spec.save {
            Phase::Saving { outcome, attempt: 1, not_before: None }
        } else {
            Phase::Done { outcome }
        };
    }

    fn lose_call(&mut self, notes: &mut Vec<Note>) {
        let Some(call) = self.state.phase.call().filter(|call| call.started.is_some()).cloned() else {
            return;
        };
        self.charge_lost(&call, notes);
        let is_working = self.state.phase.is_working();
        if let Some(call) = self.state.phase.call_mut() {
            call.started = None;
            call.lost += 1;
        }
        if is_working {
            // That the program ended is no fault of the model. Its limits end the run if it ends each time.
            return self.call_again(None, notes);
        }
        let failure = ModelFailure {
            kind: FailureKind::Lost,
            message: "the program ended while it ran".into(),
            retryable: false,
            retry_at: None,
            partial: None,
            served_model: None,
            usage: None,
            received: Received::default(),
        };
        self.call_failed(&call.key, call.attempt, &failure, notes);
    }

    fn charge_lost(&mut self, call: &Call, notes: &mut Vec<Note>) {
        let Some(started) = call.started else { return };
        notes.push(Note::Lost { key: call.key, attempt: call.attempt });
        let (key, attempt, tier) = (call.key, call.attempt, started.tier);
        let (received, reserve) = (Received::default(), started.reserve);
        let charge = Charge { key, attempt, tier, usage: None, received, reported: None, reserve };
        self.charge(charge, notes);
    }

    fn lose_tools(&mut self, notes: &mut Vec<Note>) {
        let count = self.state.phase.batch().map_or(0, |batch| batch.work.len());
        for at in 0..count {
            let Some(work) = self.state.phase.batch().and_then(|batch| batch.work.get(at)).cloned() else {
                continue;
            };
            if !work.is_in_flight() {
                continue;
            }
            notes.push(Note::Lost { key: work.key, attempt: work.attempt });
            let action = self.state.calls.actions.get(work.action as usize);
            let tool = action.and_then(|action| self.spec.tool(action.tool_name()));
            let name = action.map_or_else(String::new, |action| action.tool_name().to_owned());
            let effect = tool.map_or(Effect::WriteIrreversible, |tool| tool.effect);
            // Once the reason is fixed nothing is started again.
            // It may be what ends the program.
            let is_last = work.lost + 1 >= KILLS || !self.state.phase.is_working();
            let (status, message) = match effect {
                Effect::WriteIrreversible | Effect::Egress | Effect::Exec => {
                    (Status::InDoubt, "it may or may not have happened: the program ended while it ran")
                }
                Effect::WriteIdempotent | Effect::WriteKeyed if is_last => {
                    (Status::InDoubt, "it may or may not have happened: the program ended each time it ran")
                }
                Effect::Read if is_last => (Status::RetryableError, "the program ended each time it ran"),
                Effect::Read | Effect::WriteIdempotent | Effect::WriteKeyed => {
                    self.work_again(at, effect, notes);
                    continue;
                }
            };
            let mut observation = Observation::failed(status, &name, message);
            observation.sub_call = work.lost_sub_call();
            self.settle(at, observation, notes);
        }
    }

    /// Wishes a lost piece of work once more; what its sub-call may have used is charged.
    fn work_again(&mut self, at: usize, effect: Effect, notes: &mut Vec<Note>) {
        let Some(work) = self.state.phase.batch_mut().and_then(|batch| batch.work.get_mut(at)) else {
            return;
        };
        let (key, attempt, used, budget) =
            (work.key, work.attempt, work.lost_sub_call(), work.sub_call.take());
        work.attempt += 1;
        work.lost += 1;
        work.announced = effect.is_read();
        if let (Some(used), Some(_)) = (used, budget) {
            self.state.budget.release_sub_call();
            self.charge_sub_call(key, attempt, used, notes);
            let granted = self.grant_sub_call();
            let work = self.state.phase.batch_mut().and_then(|batch| batch.work.get_mut(at));
            if let Some(work) = work {
                work.sub_call = granted;
            }
        }
    }
}

/// The instant after which a stopping run waits no longer.
pub(super) fn grace_ends(since: Millis) -> Millis {
    since.plus(GRACE_MS)
}
