//! The next main call: a pass, or the final pass, the last call that turns a stop by limit into a finished document.

use crate::gate::{self, Certificate, Condition, Measure, StopReason, evidence_missing, over_time};
use crate::run::Run;
use crate::run::event::Refusal;
use crate::run::model_calls::model_failure;
use crate::run::note::Note;
use crate::run::phase::{Call, Phase, Purpose};
use crate::run::quote::PromptSize;
use crate::spec::RepeatScope;
use crate::types::{CommandKey, Millis, Slot};

impl Run {
    /// The next main call, or the final pass where it is the last one that is permitted.
    pub(super) fn next_pass(&mut self, notes: &mut Vec<Note>) {
        if self.state.inbox.stop_requested.is_some() {
            return self.stop_by_hand(notes);
        }
        if let Some(cause) = self.too_many_messages(0) {
            return self.stop(Certificate::new(cause, Vec::new()), notes);
        }
        self.open_attempt(notes);
        if self.spec.gate.scope == RepeatScope::Step {
            self.state.calls.ledger.new_scope();
        }
        if self.spec.acts_last() {
            let reached =
                gate::limits_reached(&self.spec.limits, &self.state.budget.totals, self.elapsed_ms());
            if let Some(certificate) = Certificate::of(reached) {
                return self.stop(certificate, notes);
            }
        }
        let pass = self.state.draft.passes.len() as u32 + 1;
        let tier = self.state.route.tier;
        if let Some(cause) = self.last_call() {
            return self.final_pass(Call::commanded(CommandKey::new(pass, Slot::Final), tier), cause);
        }
        if let Some(cause) = self.out_of_time() {
            return self.final_pass_or_stop(
                Call::commanded(CommandKey::new(pass, Slot::Final), tier),
                cause,
                notes,
            );
        }
        let call = Call::commanded(CommandKey::new(pass, Slot::Main), tier);
        self.state.phase = Phase::Calling { call, purpose: Purpose::Main };
    }

    /// Wishes the call of the phase once more. A main call becomes the final pass where it is the last one left.
    pub(super) fn call_again(&mut self, not_before: Option<Millis>, notes: &mut Vec<Note>) {
        if let Some(call) = self.state.phase.call_mut() {
            call.attempt += 1;
            call.started = None;
            call.not_before = not_before;
        }
        let Some(call) = self.state.phase.main_call().cloned() else { return };
        if let Some(cause) = self.last_call() {
            self.final_pass(call, cause);
        } else if self.state.inbox.stop_requested.is_none()
            && let Some(cause) = self.out_of_time_at(not_before.unwrap_or(self.state.clock.now))
        {
            self.final_pass_or_stop(call, cause, notes);
        }
    }

    /// A main call that may not be made: older evidence gives way to its summary and the call is asked for again, or
    /// the run makes its final pass, or it ends.
    pub(super) fn main_call_refused(&mut self, refusal: Refusal, prompt: PromptSize, notes: &mut Vec<Note>) {
        if refusal == Refusal::Context && self.spec.protocol.properties().compacts {
            if self.compact(notes) {
                return;
            }
        } else if refusal == Refusal::Context
            && let Some(oldest) =
                self.state.knowledge.evidence.iter_mut().find(|evidence| !evidence.shortened)
        {
            oldest.shortened = true;
            notes.push(Note::EvidenceShortened { evidence: oldest.id });
            // Another prefix: what was reported for the last one says nothing about it.
            self.state.route.last_main = None;
            return;
        }
        let Some(call) = self.state.phase.call().cloned() else { return };
        let refused = self.quoting().refused_by(refusal, &call, prompt).unwrap_or_else(|| no_room(refusal));
        if matches!(refusal, Refusal::Cost | Refusal::Tokens)
            && self.state.phase.main_call().is_some()
            && self.final_pass_helps()
        {
            return self.final_pass(call, refused);
        }
        let failed = call.failed.map(model_failure);
        // Without any reply no limit ended anything: the model did.
        let (failed_first, failed_last) =
            if self.state.draft.passes.is_empty() { (failed, None) } else { (None, failed) };
        let cause = self.state.phase.final_cause().cloned();
        let limits = cause.into_iter().chain([refused]);
        let unrevised = self.unrevised(call.key.pass);
        let conditions = failed_first.into_iter().chain(limits).chain(unrevised).chain(failed_last);
        if let Some(certificate) = Certificate::of(conditions) {
            self.stop(certificate, notes);
        }
    }

    /// What a pass that brings no reply was granted to repair, and does not.
    pub(super) fn unrevised(&self, pass: u32) -> Option<Condition> {
        self.revisions(pass).map(|missing| evidence_missing(missing.to_vec()))
    }

    /// The final pass, where it would bring something; otherwise the end, for the same cause.
    pub(super) fn final_pass_or_stop(&mut self, call: Call, cause: Condition, notes: &mut Vec<Note>) {
        if self.final_pass_helps() {
            self.final_pass(call, cause);
        } else {
            self.stop(Certificate::new(cause, Vec::new()), notes);
        }
    }

    pub(super) fn final_pass(&mut self, mut call: Call, cause: Condition) {
        call.key.slot = Slot::Final;
        self.state.phase = Phase::Calling { call, purpose: Purpose::Final { cause } };
    }

    /// Whether a final pass would bring something: a required section is not there, or evidence waits unseen.
    pub(super) fn final_pass_helps(&self) -> bool {
        if !self.spec.finishes() {
            return false;
        }
        if !self.spec.protocol.properties().has_sections {
            return self.state.draft.answer.is_none();
        }
        let seen = self.state.draft.passes.last().map(|pass| pass.evidence_seen);
        let missing = |id| self.state.draft.document.get(id).is_none();
        seen.is_none_or(|seen| (self.state.knowledge.evidence.len() as u32) > seen)
            || self.spec.sections().iter().any(|section| section.required && missing(&section.id))
    }

    /// Why the next main call would be the last one that is permitted, if it would.
    fn last_call(&self) -> Option<Condition> {
        if !self.spec.finishes() {
            return None;
        }
        let mut after = self.state.budget.totals;
        after.passes += 1;
        after.model_calls += 1;
        gate::limits_reached(&self.spec.limits, &after, 0)
            .into_iter()
            .find(|condition| matches!(condition.reason, StopReason::MaxPasses | StopReason::MaxModelCalls))
            // A reply and a result, and no call could be made any more.
            .or_else(|| self.too_many_messages(2))
    }

    /// Why only the time for a final pass is left, if it is.
    pub(super) fn out_of_time(&self) -> Option<Condition> {
        self.out_of_time_at(self.state.clock.now)
    }

    /// The same at an instant to come.
    pub(super) fn out_of_time_at(&self, at: Millis) -> Option<Condition> {
        let elapsed = self.elapsed_ms().saturating_add(at.since(self.state.clock.now));
        let is_over = self.spec.finishes() && elapsed >= self.working_ms();
        is_over.then(|| over_time(&self.spec.limits, elapsed))
    }

    /// Milliseconds of the wall clock that everything but the final pass may take.
    pub(super) fn working_ms(&self) -> u64 {
        let limits = &self.spec.limits;
        let held = if self.spec.finishes() { limits.final_pass_ms() } else { 0 };
        limits.wall_ms.saturating_sub(held)
    }
}

/// The condition of a refusal that no smaller call would have escaped.
fn no_room(refusal: Refusal) -> Condition {
    let reason = match refusal {
        Refusal::ModelCalls => StopReason::MaxModelCalls,
        Refusal::Cost | Refusal::UnknownPrice => StopReason::BudgetExceeded,
        Refusal::Tokens | Refusal::Context | Refusal::NotCommanded => StopReason::TokenLimit,
    };
    let value = Measure::Text(format!("the next call was refused: {}", refusal.name()).into());
    Condition { reason, value, threshold: None, change: None }
}
