//! Failed model calls: retry, fallback route, compaction, or the end of the run.

use std::sync::Arc;

use crate::gate::{Condition, Measure, StopReason, TierCause};
use crate::reply::{self, Proposal};
use crate::run::draft::{CutReply, with_new};
use crate::run::eager_read::DropReason;
use crate::run::note::Note;
use crate::run::phase::{Call, Phase, Purpose, StartedCall, Stopping};
use crate::run::rest::{RunParts, StopPoint};
use crate::types::{CommandKey, FailureKind, Millis, ModelFailure, Slot, Tier};

/// The maximum number of tries of a call.
pub(super) const ATTEMPTS: u32 = 3;

impl RunParts<'_> {
    /// Settles a failed call: charges its usage, and decides by its purpose what follows.
    pub(super) fn model_failed(
        &mut self,
        call: Call,
        granted: StartedCall,
        purpose: Purpose,
        failure: &ModelFailure,
    ) -> Phase {
        self.charge_failure(call.key, call.attempt, granted, failure);
        let place = StopPoint::of(&call, &purpose);
        match purpose {
            Purpose::Select => self.select_defaults(failure.line().to_string()),
            Purpose::Repair { proposal } => self.judge_and_decide(place, *proposal, None),
            Purpose::Main | Purpose::Final { .. } => self.main_call_failed(call, purpose, failure, None),
        }
    }

    /// Settles a call that failed after the stop reason was fixed: its partial reply is kept, and it is not retried.
    pub(super) fn failed_too_late(
        &mut self,
        mut stopping: Stopping,
        granted: StartedCall,
        failure: &ModelFailure,
    ) -> Phase {
        if let Some(call) = stopping.call.take() {
            self.charge_failure(call.key, call.attempt, granted, failure);
            self.salvage(&call.key, failure);
        }
        self.stopping_settled(stopping)
    }

    /// Charges a call whose driver is gone in full, and makes it again. The end of a driver does not count as a failure
    /// of the model; the limits end the run if it happens each time.
    pub(super) fn lose_call(&mut self, mut call: Call, purpose: Purpose) -> Phase {
        if call.started.is_none() {
            return Phase::Calling { call, purpose };
        }
        self.charge_lost(&call);
        self.drop_reads_of(&mut call, DropReason::Lost);
        call.lost += 1;
        self.call_again(call, purpose, None)
    }

    /// Handles a main call without a usable reply: retries it on the same or the fallback route as long as that can
    /// help, else ends the run.
    pub(super) fn main_call_failed(
        &mut self,
        mut call: Call,
        purpose: Purpose,
        failure: &ModelFailure,
        cut: Option<CutReply>,
    ) -> Phase {
        let key = call.key;
        let place = StopPoint::of(&call, &purpose);
        self.drop_reads_of(&mut call, DropReason::CallFailed);
        let is_main = matches!(purpose, Purpose::Main);
        let is_open = self.inbox.stop_requested.is_none();
        let partial = failure.partial.as_ref().map(|partial| reply::salvage(partial, self.reading()));
        let returned_nothing = partial.as_ref().is_none_or(|partial| partial.sections.is_empty());
        let reroutes = is_open && self.has_other_route(failure);
        if failure.kind == FailureKind::Timeout
            && is_open
            && is_main
            && let Some(cause) = self.out_of_time()
        {
            // It was cancelled to leave time for the final pass, so its partial reply is kept and it is not retried. How long
            // it would have taken is not known, so no limit that would do is named.
            let cause = Condition { change: None, ..cause };
            if returned_nothing && reroutes {
                self.reroute(key.pass);
            }
            self.keep_sections(&mut call, partial.as_ref());
            if let Some(partial) = &partial {
                self.draft.take_partial(key.pass, &partial.ending);
            }
            let call = Call { kept: call.kept, ..Call::commanded(key, self.route.tier) };
            return self.final_pass_or_stop(place, call, cause);
        }
        let is_too_long =
            failure.kind == FailureKind::ContextTooLong && self.spec.protocol.properties().compacts;
        // Once for each call: a call that is still too long after it is not retried.
        if is_too_long && !call.shortened && is_open && self.compact() {
            call.shortened = true;
            return self.try_again(call, purpose, failure, failure.retry_at);
        }
        // Once for each part: later calls leave it out.
        if let Some(part) = failure.refused
            && is_open
            && self.route.left_out.insert(part)
        {
            // No model saw the request, so it is none of the permitted calls.
            self.budget.totals.model_calls = self.budget.totals.model_calls.saturating_sub(1);
            return self.try_again(call, purpose, failure, /*not_before*/ None);
        }
        // A retry after the end of the wall clock is a failure now.
        let in_time = |at: Millis| at < self.clock.ends_at(self.spec.limits.wall_ms);
        // A retry in the time reserved for the final pass is one as well, if a final pass would not help.
        let in_vain = |at: Millis| is_main && self.out_of_time_at(at).is_some() && !self.final_pass_helps();
        let may_retry = failure.may_pass()
            && call.try_here() < ATTEMPTS
            && is_open
            && failure.retry_at.is_none_or(|at| in_time(at) && !in_vain(at));
        // With a fallback route, an unavailable route is not retried. A reply that broke off or a lost connection is.
        if may_retry && (!reroutes || !returned_nothing || failure.was_lost()) {
            self.keep_sections(&mut call, partial.as_ref());
            return self.try_again(call, purpose, failure, failure.retry_at);
        }
        if reroutes {
            self.keep_sections(&mut call, partial.as_ref());
            (call.tier, call.elsewhere, call.lost) = (Tier::Fallback, call.attempt, 0);
            self.reroute(key.pass);
            return self.try_again(call, purpose, failure, /*not_before*/ None);
        }
        if let Some(partial) = &partial {
            self.keep_partial(key.pass, partial);
        }
        let failed = match cut {
            Some(cut) => self.output_limit(cut),
            None if is_too_long => too_long(failure.line()),
            None => model_failure(failure.line()),
        };
        let conditions = match (self.requested_stop(), purpose.final_cause().cloned()) {
            (Some(requested), _) => vec![requested, failed],
            // Without any reply the model's failure ended the run, not the limit.
            (None, Some(cause)) if self.draft.passes.is_empty() => vec![failed, cause],
            (None, Some(cause)) => vec![cause, failed],
            (None, None) => vec![failed],
        };
        let conditions = conditions.into_iter().chain(self.limits_reached());
        self.stop_for(place, conditions.chain(self.unrevised(key.pass)))
    }

    /// Commands another try of the call after this failure.
    fn try_again(
        &mut self,
        mut call: Call,
        purpose: Purpose,
        failure: &ModelFailure,
        not_before: Option<Millis>,
    ) -> Phase {
        call.failed = Some(failure.line());
        let (key, attempt) = (call.key, call.attempt + 1);
        let phase = self.call_again(call, purpose, not_before);
        if phase.is_working() {
            self.notes.push(Note::CallRetried { key, attempt, not_before, without: failure.refused });
        }
        phase
    }

    /// Switches to the fallback route for all later calls of this tier.
    fn reroute(&mut self, pass: u32) {
        self.change_tier(Tier::Fallback, TierCause::Unavailable, pass);
        // The reported usage of the last model says nothing about another model.
        self.route.last_main = None;
    }

    /// Whether there is a fallback route, and the failure is the route's and not the request's.
    fn has_other_route(&self, failure: &ModelFailure) -> bool {
        self.spec.models.fallback.is_some()
            && self.route.tier != Tier::Fallback
            && failure.kind.blames_route()
    }

    /// Stores the partial reply of a main call that failed midway, once the stop reason is fixed.
    pub(super) fn salvage(&mut self, key: &CommandKey, failure: &ModelFailure) {
        let is_main = matches!(key.slot, Slot::Main | Slot::Final);
        if let Some(partial) = failure.partial.as_ref().filter(|_| is_main) {
            let partial = reply::salvage(partial, self.reading());
            self.keep_partial(key.pass, &partial);
        }
    }

    /// Stores a partial reply that no other try follows: its complete sections and its text.
    fn keep_partial(&mut self, pass: u32, partial: &Proposal) {
        self.draft.take_partial(pass, &partial.ending);
        self.merge(pass, partial);
    }

    /// Stores the complete sections of a try that broke off and that another try follows.
    fn keep_sections(&mut self, call: &mut Call, partial: Option<&Proposal>) {
        // Conversations have no sections. Only the partial text of the last try is stored.
        let has_sections = self.spec.protocol.properties().has_sections;
        let Some(partial) = partial.filter(|partial| has_sections && !partial.sections.is_empty()) else {
            return;
        };
        let changed = self.merge(call.key.pass, partial);
        call.kept = with_new(std::mem::take(&mut call.kept), changed);
    }
}

pub(super) fn model_failure(what: Arc<str>) -> Condition {
    Condition::new(StopReason::ModelFailure, Measure::Text(what))
}

/// The condition that a conversation exceeds the model's context, with the provider's message.
fn too_long(what: Arc<str>) -> Condition {
    Condition::new(StopReason::TokenLimit, Measure::Text(what))
}
