//! The next main call: a pass, or the final pass, the last call that turns a stop by limit into a finished document.

use crate::gate::{self, Certificate, Condition, Measure, StopReason, evidence_missing, over_time};
use crate::run::event::Refusal;
use crate::run::model_failures::model_failure;
use crate::run::note::Note;
use crate::run::phase::{Call, Phase, Purpose};
use crate::run::quote::PromptSize;
use crate::run::rest::{RunParts, StopPoint};
use crate::spec::RepeatScope;
use crate::types::{CommandKey, Millis, Slot};

impl RunParts<'_> {
    /// The next main call, or the final pass if it is the last call that is permitted.
    pub(super) fn next_pass(&mut self, place: StopPoint) -> Phase {
        if self.inbox.stop_requested.is_some() {
            return self.stop_as_requested(place);
        }
        if let Some(cause) = self.too_many_messages(0) {
            return self.stop_for(place, [cause]);
        }
        self.open_attempt();
        if self.spec.gate.scope == RepeatScope::Step {
            self.calls.ledger.new_scope();
        }
        if self.spec.acts_last()
            && let Some(certificate) = Certificate::of(self.limits_reached())
        {
            return self.stop(place, certificate);
        }
        let key = CommandKey::new(self.draft.passes.len() as u32 + 1, Slot::Main);
        self.main_call(place, Call::commanded(key, self.route.tier))
    }

    /// A main call, or the final pass if no other call is left after it.
    pub(super) fn main_call(&mut self, place: StopPoint, call: Call) -> Phase {
        if let Some(cause) = self.last_call() {
            return final_pass(call, cause);
        }
        let at = call.not_before.unwrap_or(self.clock.now);
        if let Some(cause) = self.out_of_time_at(at) {
            return self.final_pass_or_stop(place, call, cause);
        }
        Phase::Calling { call, purpose: Purpose::Main }
    }

    /// Commands a retry. A main call becomes the final pass if it is the last one left.
    pub(super) fn call_again(
        &mut self,
        mut call: Call,
        purpose: Purpose,
        not_before: Option<Millis>,
    ) -> Phase {
        call.attempt += 1;
        call.started = None;
        call.not_before = not_before;
        if !matches!(purpose, Purpose::Main) {
            return Phase::Calling { call, purpose };
        }
        if let Some(cause) = self.last_call() {
            return final_pass(call, cause);
        }
        // A requested stop precedes a timeout.
        if self.inbox.stop_requested.is_some() {
            return Phase::Calling { call, purpose };
        }
        let place = StopPoint::of(&call, &purpose);
        self.main_call(place, call)
    }

    /// Applies the refusal of a main call: shortens evidence and commands the call again, makes the final pass, or ends
    /// the run.
    pub(super) fn main_call_refused(
        &mut self,
        call: Call,
        purpose: Purpose,
        refusal: Refusal,
        prompt: PromptSize,
    ) -> Phase {
        if refusal == Refusal::Context && self.spec.protocol.properties().compacts {
            if self.compact() {
                return Phase::Calling { call, purpose };
            }
        } else if refusal == Refusal::Context
            && let Some(oldest) = self.knowledge.evidence.iter_mut().find(|evidence| !evidence.shortened)
        {
            oldest.shortened = true;
            self.notes.push(Note::EvidenceShortened { evidence: oldest.id });
            // The prompt's prefix changes, so the last reported usage says nothing about it.
            self.route.last_main = None;
            return Phase::Calling { call, purpose };
        }
        let refused = self.quoting().refused_by(refusal, &call, prompt).unwrap_or_else(|| no_room(refusal));
        if matches!(refusal, Refusal::Cost | Refusal::Tokens | Refusal::SharedBudget { .. })
            && matches!(purpose, Purpose::Main)
            && self.final_pass_helps()
        {
            return final_pass(call, refused);
        }
        let place = StopPoint::of(&call, &purpose);
        let failed = call.failed.map(model_failure);
        // Without any reply the model's failure ended the run, not a limit.
        let (failed_first, failed_last) =
            if self.draft.passes.is_empty() { (failed, None) } else { (None, failed) };
        let limits = purpose.final_cause().cloned().into_iter().chain([refused]);
        let unrevised = self.unrevised(place.pass);
        let conditions = failed_first.into_iter().chain(limits).chain(unrevised).chain(failed_last);
        self.stop_for(place, conditions)
    }

    /// The condition that a pass was granted to revise an answer and returned no reply. A partial reply may have
    /// supplied what was missing. `None` then, and for any other pass.
    pub(super) fn unrevised(&self, pass: u32) -> Option<Condition> {
        self.draft.revisions(pass)?;
        let missing = self.draft.missing(self.spec, self.knowledge, self.started);
        (!missing.is_empty()).then(|| evidence_missing(missing))
    }

    /// The final pass if it would help, else the end for the same cause.
    pub(super) fn final_pass_or_stop(&mut self, place: StopPoint, call: Call, cause: Condition) -> Phase {
        if self.final_pass_helps() { final_pass(call, cause) } else { self.stop_for(place, [cause]) }
    }

    /// Whether a final pass would help: a required section or an answer is missing, or evidence has not been shown to
    /// the model.
    pub(super) fn final_pass_helps(&self) -> bool {
        if !self.spec.finishes() {
            return false;
        }
        if !self.spec.protocol.properties().has_sections {
            return self.draft.answer.is_none();
        }
        let seen = self.draft.passes.last().map(|pass| pass.evidence_seen);
        let missing = |id| self.draft.document.get(id).is_none();
        seen.is_none_or(|seen| (self.knowledge.evidence.len() as u32) > seen)
            || self.spec.sections().iter().any(|section| section.required && missing(&section.id))
    }

    /// Why the next main call would be the last one that is permitted. `None`: it would not be.
    fn last_call(&self) -> Option<Condition> {
        if !self.spec.finishes() {
            return None;
        }
        let mut after = self.budget.totals;
        after.passes += 1;
        after.model_calls += 1;
        gate::limits_reached(&self.spec.limits, &after, 0)
            .into_iter()
            .find(|condition| matches!(condition.reason, StopReason::MaxPasses | StopReason::MaxModelCalls))
            // After a reply and a result no other call could be made.
            .or_else(|| self.too_many_messages(2))
    }

    /// Why only the time reserved for a final pass is left. `None`: more is left.
    pub(super) fn out_of_time(&self) -> Option<Condition> {
        self.out_of_time_at(self.clock.now)
    }

    /// As [`out_of_time`](Self::out_of_time), at a later instant.
    pub(super) fn out_of_time_at(&self, at: Millis) -> Option<Condition> {
        let elapsed = self.elapsed_ms().saturating_add(at.since(self.clock.now));
        let is_over = self.spec.finishes() && elapsed >= self.spec.working_ms();
        is_over.then(|| over_time(&self.spec.limits, elapsed))
    }
}

/// Turns a call into the final pass, whose prompt says that it is the last call.
pub(super) fn final_pass(mut call: Call, cause: Condition) -> Phase {
    call.key.slot = Slot::Final;
    Phase::Calling { call, purpose: Purpose::Final { cause } }
}

/// The condition of a refusal that a smaller call would not have avoided.
fn no_room(refusal: Refusal) -> Condition {
    let reason = match refusal {
        Refusal::ModelCalls => StopReason::MaxModelCalls,
        Refusal::Cost | Refusal::UnknownPrice => StopReason::BudgetExceeded,
        Refusal::SharedBudget { .. } => StopReason::SharedBudgetExceeded,
        Refusal::Tokens | Refusal::Context | Refusal::NotCommanded => StopReason::TokenLimit,
    };
    let value = Measure::Text(format!("the next call was refused: {}", refusal.name()).into());
    Condition::new(reason, value)
}
