//! Model calls: announced, refused, answered, failed. A reply is merged and recorded.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::gate::{
    self, Certificate, Change, Condition, Measure, StopReason, TierCause, TierChange, Written, manual_stop,
};
use crate::reply::{self, FinishReason, MergeContext, ParseWarning, Proposal, Reply};
use crate::run::draft::{Cut, PassRecord};
use crate::run::event::{Refusal, Reserve};
use crate::run::note::Note;
use crate::run::phase::{Call, Phase, Purpose, StartedCall};
use crate::run::quote::{PromptSize, Quote};
use crate::run::route::MainCall;
use crate::run::{Rejected, Run};
use crate::spec::CostMode;
use crate::spec::Setting;
use crate::types::{
    CallExtent, CommandKey, Confidence, FailureKind, Millis, ModelFailure, PicoUsd, Received, Slot, Tier,
    Usage,
};

/// How often a call is tried in all.
pub(super) const ATTEMPTS: u32 = 3;
/// Bytes of a reply for each token that is estimated: English has more, and most other languages, code and JSON less.
const ESTIMATED_BYTES_A_TOKEN: u64 = 3;
/// Bytes of a reply for each token at most, on average.
const MAX_BYTES_A_TOKEN: u64 = 8;

/// What a call is charged for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    pub(super) key: CommandKey,
    pub(super) attempt: u32,
    pub(super) tier: Tier,
    /// `None`: it is estimated from what was received.
    pub(super) usage: Option<Usage>,
    pub(super) received: Received,
    /// As the provider itself reports it.
    pub(super) reported: Option<PicoUsd>,
    pub(super) reserve: Reserve,
}

impl Run {
    pub(super) fn call_started(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        prompt: PromptSize,
        announced: Quote,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let call = self.commanded_call("call_started", key, attempt)?;
        let computed = self.quoting().quote_call(call, prompt);
        if computed != Ok(announced) {
            return Err(other_quote(key, &Ok(announced), &computed));
        }
        let (from, to) = (call.tier, announced.tier);
        if from != to {
            let why = self.quoting().why_elsewhere(call, prompt);
            self.note_tier(TierChange { pass: key.pass, from, to, why }, notes);
        }
        self.state.budget.totals.model_calls += 1;
        let started = StartedCall {
            tier: announced.tier,
            max_output_tokens: announced.max_output_tokens,
            prompt_bytes: prompt.bytes,
            reserve: announced.reserve,
        };
        if let Some(call) = self.state.phase.call_mut() {
            call.started = Some(started);
        }
        Ok(())
    }

    pub(super) fn call_refused(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        prompt: PromptSize,
        refusal: Refusal,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let call = self.commanded_call("call_refused", key, attempt)?;
        let computed = self.quoting().quote_call(call, prompt);
        if computed != Err(refusal) {
            return Err(other_quote(key, &Err(refusal), &computed));
        }
        let Some(purpose) = self.state.phase.purpose().cloned() else {
            return self.out_of_order("call_refused");
        };
        notes.push(Note::CallRefused { key: *key, refusal });
        match purpose {
            Purpose::Select => self.select_defaults(format!("refused: {}", refusal.name()), notes),
            Purpose::Repair { proposal } => self.judge_and_decide(*proposal, None, notes),
            Purpose::Main | Purpose::Final { .. } => self.main_call_refused(refusal, prompt, notes),
        }
        Ok(())
    }

    pub(super) fn model_replied(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        reply: &Reply,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let started = self.take_call("model_replied", key, attempt)?;
        let received = Received { bytes: reply.known_bytes(), ..reply.received };
        let (tier, reserve) = (started.tier, started.reserve);
        let (usage, reported) = (reply.usage, reply.cost);
        self.charge(Charge { key: *key, attempt, tier, usage, received, reported, reserve }, notes);
        self.served_by(reply.served_model.as_ref());
        let unusable = reply::unusable(reply, &self.spec);
        // A call in flight that is for nothing any more: the run is stopping.
        let Some(purpose) = self.state.phase.purpose().cloned() else {
            match &unusable {
                Some(failure) => self.salvage(key, failure, notes),
                None if matches!(key.slot, Slot::Main | Slot::Final) => {
                    let proposal = self.read(key, started, reply, notes);
                    self.record_pass(key, started, reply, &proposal, notes);
                    self.take_confidence(&proposal, notes);
                    self.leave_all_undone(&proposal, notes);
                }
                None => {}
            }
            self.call_gone(notes);
            return Ok(());
        };
        match purpose {
            Purpose::Select => self.selected(reply, notes),
            Purpose::Repair { proposal } => {
                let mut proposal = *proposal;
                reply::repair(&mut proposal, reply, self.reading());
                self.discount(&mut proposal, started.tier);
                self.cap_calls(&mut proposal, key, notes);
                if let Some(pass) = self.state.draft.passes.last_mut() {
                    pass.cut = pass.cut.or(cut_of(reply, started));
                }
                self.judge_and_decide(proposal, None, notes);
            }
            Purpose::Main | Purpose::Final { .. } if let Some(failure) = &unusable => {
                let cut = cut_of(reply, started);
                self.main_call_failed(key, attempt, failure, cut, notes);
            }
            Purpose::Main => {
                self.remember_size(started, reply.usage);
                let proposal = self.read(key, started, reply, notes);
                self.record_pass(key, started, reply, &proposal, notes);
                // A repair takes time that may be the final pass's.
                if proposal.has_contract || self.is_stop_requested() || self.out_of_time().is_some() {
                    self.judge_and_decide(proposal, None, notes);
                } else {
                    // It states the reply's confidence, so the reply's own model is asked for it.
                    let call = Call::commanded(CommandKey::new(key.pass, Slot::Repair), started.tier);
                    let purpose = Purpose::Repair { proposal: Box::new(proposal) };
                    self.state.phase = Phase::Calling { call, purpose };
                }
            }
            Purpose::Final { cause } => {
                self.remember_size(started, reply.usage);
                let proposal = self.read(key, started, reply, notes);
                self.record_pass(key, started, reply, &proposal, notes);
                self.judge_and_decide(proposal, Some(cause), notes);
            }
        }
        Ok(())
    }

    pub(super) fn model_failed(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        failure: &ModelFailure,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let started = self.take_call("model_failed", key, attempt)?;
        let received = Received { bytes: failure.known_bytes(), ..failure.received };
        let (tier, reserve) = (started.tier, started.reserve);
        let usage = failure.usage.map(|usage| proven(usage, received.bytes));
        self.charge(Charge { key: *key, attempt, tier, usage, received, reported: None, reserve }, notes);
        self.served_by(failure.served_model.as_ref());
        self.call_failed(key, attempt, failure, notes);
        Ok(())
    }

    /// A main call's reply as a proposal: the calls that it may ask for, and a confidence that counts.
    fn read(
        &mut self,
        key: &CommandKey,
        started: StartedCall,
        reply: &Reply,
        notes: &mut Vec<Note>,
    ) -> Proposal {
        let mut proposal = reply::read(reply, self.reading());
        self.discount(&mut proposal, started.tier);
        self.cap_calls(&mut proposal, key, notes);
        proposal
    }

    /// What a cheaper tier's model says of its confidence is not what the base model would say: it counts as unknown.
    fn discount(&self, proposal: &mut Proposal, tier: Tier) {
        let stated = proposal.confidence;
        if tier != Tier::Selector || stated == Confidence::Unknown {
            return;
        }
        proposal.confidence = Confidence::Unknown;
        proposal.parse_warnings.push(ParseWarning::CheaperConfidence { stated });
    }

    /// Leaves the calls of a reply that it may ask for, in its order, and counts the rest.
    fn cap_calls(&mut self, proposal: &mut Proposal, key: &CommandKey, notes: &mut Vec<Note>) {
        let count = self.count_unread(proposal.actions.len(), proposal.unread, key, notes);
        proposal.actions.truncate(self.spec.limits.read_calls() as usize);
        if let Some(pass) = self.state.draft.passes.iter_mut().rev().find(|pass| pass.pass == key.pass) {
            pass.unread_calls = pass.unread_calls.saturating_add(count);
        } else {
            proposal.unread = count;
        }
    }

    /// How many calls are not read, which is noted: those of `requested` beyond the limit, and those that the model's client
    /// left unread.
    pub(super) fn count_unread(
        &mut self,
        requested: usize,
        left: u32,
        key: &CommandKey,
        notes: &mut Vec<Note>,
    ) -> u32 {
        let limit = self.spec.limits.read_calls();
        let count = u32::try_from(requested).unwrap_or(u32::MAX).saturating_sub(limit).saturating_add(left);
        if count > 0 {
            self.state.budget.totals.unread_calls =
                self.state.budget.totals.unread_calls.saturating_add(count);
            notes.push(Note::CallsNotRead { call: *key, limit, count });
        }
        count
    }

    /// What follows a call that returned no reply and is charged already.
    pub(super) fn call_failed(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        failure: &ModelFailure,
        notes: &mut Vec<Note>,
    ) {
        match self.state.phase.purpose().cloned() {
            // The run is stopping: nothing is tried again.
            None => {
                self.salvage(key, failure, notes);
                self.call_gone(notes);
            }
            Some(Purpose::Select) => self.select_defaults(failure.line().to_string(), notes),
            Some(Purpose::Repair { proposal }) => self.judge_and_decide(*proposal, None, notes),
            Some(Purpose::Main | Purpose::Final { .. }) => {
                self.main_call_failed(key, attempt, failure, None, notes);
            }
        }
    }

    /// Keeps the name of the model that served the call which settled last.
    pub(super) fn served_by(&mut self, model: Option<&Arc<str>>) {
        self.state.budget.served_by(model);
    }

    /// Adds a call's tokens and cost to the cost.
    pub(super) fn charge(&mut self, charge: Charge, notes: &mut Vec<Note>) {
        let Charge { key, attempt, tier, .. } = charge;
        self.state.budget.keep(key, attempt, tier);
        let usage = charge.usage.unwrap_or_else(|| self.estimated(&charge));
        let price = self.spec.model(charge.tier).price.as_ref();
        // What is estimated is counted as its reserve was, which may be at a dearer price.
        let own = price.map(|price| match charge.usage {
            Some(_) => price.of(&usage),
            None => self.quoting().price(price, usage.total_input(), usage.total_output()),
        });
        let cost = charge.reported.or(own);
        self.state.budget.totals.usage = self.state.budget.totals.usage.plus(&usage);
        self.state.budget.totals.cost.add(cost);
        notes.push(Note::CallCharged {
            key: charge.key,
            attempt: charge.attempt,
            tier: charge.tier,
            usage,
            cost,
        });
    }

    /// The tokens of a call whose provider reports none: what was received is known, and the reserve bounds the rest.
    fn estimated(&self, charge: &Charge) -> Usage {
        let Reserve { input_tokens, output_tokens, .. } = charge.reserve;
        let received = charge.received.bytes.div_ceil(ESTIMATED_BYTES_A_TOKEN);
        let extent = match self.spec.limits.cost_mode {
            // Only a report releases a reserve.
            CostMode::Strict => CallExtent::Open,
            CostMode::Estimated | CostMode::After => charge.received.extent,
        };
        let (input, output) = match extent {
            CallExtent::NoReply if received == 0 => (0, 0),
            CallExtent::NoReply | CallExtent::Ended => (input_tokens, received),
            CallExtent::Open => (input_tokens, received.max(output_tokens)),
        };
        let reported = charge.received.reported;
        let output = output.max(reported.total_output()) - reported.reasoning;
        // What was read is known once it was reported; in `strict` the reserve stands all the same.
        let keeps = self.spec.limits.cost_mode == CostMode::Strict || reported.total_input() == 0;
        if keeps && input >= reported.total_input() {
            let reasoning = reported.reasoning;
            return Usage { input, output, reasoning, estimated: true, ..Usage::default() };
        }
        Usage { output, estimated: true, ..reported }
    }

    /// The commanded call of the phase, if it is the one that the event names and may start now.
    fn commanded_call(&self, event: &'static str, key: &CommandKey, attempt: u32) -> Result<&Call, Rejected> {
        let Some(call) = self.state.phase.call().filter(|_| self.state.phase.is_working()) else {
            return self.out_of_order(event);
        };
        if call.key == *key && call.attempt == attempt && self.may_start(call) {
            Ok(call)
        } else {
            Err(self.not_open(event, key, attempt))
        }
    }

    /// Whether a call of the phase may be announced.
    pub(super) fn may_start(&self, call: &Call) -> bool {
        self.state.phase.is_working()
            && call.started.is_none()
            && call.not_before.is_none_or(|at| at <= self.state.clock.now)
            && self.state.inbox.stop_requested.is_none()
    }

    /// Takes the call in flight that the event names out of its phase, and gives what was granted to it.
    fn take_call(
        &mut self,
        event: &'static str,
        key: &CommandKey,
        attempt: u32,
    ) -> Result<StartedCall, Rejected> {
        let not_open = self.not_open(event, key, attempt);
        if self.state.phase.call().is_none() {
            return self.out_of_order(event);
        }
        let call = self.state.phase.call_mut();
        let open = call.filter(|call| call.key == *key && call.attempt == attempt);
        open.and_then(|call| call.started.take()).ok_or(not_open)
    }

    fn remember_size(&mut self, started: StartedCall, usage: Option<Usage>) {
        let input_tokens = usage.map_or(started.reserve.input_tokens, |usage| usage.total_input());
        self.state.route.last_main =
            Some(MainCall { tier: started.tier, bytes: started.prompt_bytes, input_tokens });
    }

    fn main_call_failed(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        failure: &ModelFailure,
        cut: Option<Cut>,
        notes: &mut Vec<Note>,
    ) {
        let tries = self.state.phase.call().map_or(attempt, Call::try_here);
        let has_tries = failure.may_pass() && tries < ATTEMPTS && self.state.inbox.stop_requested.is_none();
        let returned_nothing = failure
            .partial
            .as_ref()
            .is_none_or(|partial| reply::salvage(partial, self.reading()).sections.is_empty());
        if failure.kind == FailureKind::Timeout
            && self.state.inbox.stop_requested.is_none()
            && self.state.phase.main_call().is_some()
            && let Some(cause) = self.out_of_time()
        {
            // It was cut off for the final pass's sake: what came of it stays, and nobody waits before that.
            if returned_nothing && self.has_other_route(failure) {
                self.reroute(notes);
            }
            self.keep_sections(key, failure, notes);
            self.take_broken_off(key, failure);
            let kept = self.state.phase.call().map_or_else(Vec::new, |call| call.kept.clone());
            let call = Call { kept, ..Call::commanded(*key, self.state.route.tier) };
            return self.final_pass_or_stop(call, cause, notes);
        }
        let is_too_long =
            failure.kind == FailureKind::ContextTooLong && self.spec.protocol.properties().compacts;
        // Once a call: what is too long even then stays so.
        let may_shorten = is_too_long && self.state.phase.call().is_some_and(|call| !call.shortened);
        if may_shorten && self.state.inbox.stop_requested.is_none() && self.compact(notes) {
            if let Some(call) = self.state.phase.call_mut() {
                call.shortened = true;
            }
            return self.try_again(key, attempt, failure, notes);
        }
        // What may succeed only after the end fails now.
        let in_time = |at: Millis| at < self.ends_at();
        // Nor is it waited for into the final pass's time, where a final pass would bring nothing.
        let in_vain = |at: Millis| {
            self.state.phase.main_call().is_some()
                && self.out_of_time_at(at).is_some()
                && !self.final_pass_helps()
        };
        let may_retry = has_tries && failure.retry_at.is_none_or(|at| in_time(at) && !in_vain(at));
        let reroutes = self.state.inbox.stop_requested.is_none() && self.has_other_route(failure);
        // What could not be had was asked for more than once already; what broke off or was lost was not.
        if may_retry && (!reroutes || !returned_nothing || failure.was_lost()) {
            self.keep_sections(key, failure, notes);
            return self.try_again(key, attempt, failure, notes);
        }
        if reroutes {
            self.keep_sections(key, failure, notes);
            if let Some(call) = self.state.phase.call_mut() {
                call.failed = Some(failure.line());
                (call.tier, call.elsewhere, call.lost) = (Tier::Fallback, call.attempt, 0);
            }
            self.reroute(notes);
            self.call_again(/*not_before*/ None, notes);
            if self.state.phase.is_working() {
                notes.push(Note::CallRetried { key: *key, attempt: attempt + 1, not_before: None });
            }
            return;
        }
        self.salvage(key, failure, notes);
        let failed = match cut {
            Some(cut) => self.output_limit(cut),
            None if is_too_long => too_long(failure.line()),
            None => model_failure(failure.line()),
        };
        let conditions = match (self.state.phase.final_cause().cloned(), self.state.inbox.stop_requested) {
            (_, Some(at)) => vec![manual_stop(at), failed],
            // Without any reply the limit did not end anything: the model did.
            (Some(cause), None) if self.state.draft.passes.is_empty() => vec![failed, cause],
            (Some(cause), None) => vec![cause, failed],
            (None, None) => vec![failed],
        };
        let reached = gate::limits_reached(&self.spec.limits, &self.state.budget.totals, self.elapsed_ms());
        let conditions = conditions.into_iter().chain(reached).chain(self.unrevised(key.pass));
        if let Some(certificate) = Certificate::of(conditions) {
            self.stop(certificate, notes);
        }
    }

    /// Wishes the call once more, which failed like this.
    fn try_again(&mut self, key: &CommandKey, attempt: u32, failure: &ModelFailure, notes: &mut Vec<Note>) {
        if let Some(call) = self.state.phase.call_mut() {
            call.failed = Some(failure.line());
        }
        self.call_again(failure.retry_at, notes);
        if self.state.phase.is_working() {
            notes.push(Note::CallRetried { key: *key, attempt: attempt + 1, not_before: failure.retry_at });
        }
    }

    /// From now on everything that the tier before was asked is asked of the other route.
    fn reroute(&mut self, notes: &mut Vec<Note>) {
        self.change_tier(Tier::Fallback, TierCause::Unavailable, notes);
        // Another model: what was reported by the last one says nothing about it.
        self.state.route.last_main = None;
    }

    /// Whether there is another route, and the failure is one of the route that was taken and not of what was asked.
    fn has_other_route(&self, failure: &ModelFailure) -> bool {
        self.spec.models.fallback.is_some()
            && self.state.route.tier != Tier::Fallback
            && failure.kind.blames_route()
    }

    /// Keeps the text of a message that broke off, for which no other is asked.
    fn take_broken_off(&mut self, key: &CommandKey, failure: &ModelFailure) {
        if let Some(partial) = &failure.partial {
            let proposal = reply::salvage(partial, self.reading());
            self.take_partial(key.pass, &proposal.ending);
        }
    }

    /// Keeps the complete sections of a reply that failed midway.
    fn salvage(&mut self, key: &CommandKey, failure: &ModelFailure, notes: &mut Vec<Note>) {
        let is_main = matches!(key.slot, Slot::Main | Slot::Final);
        if let Some(partial) = failure.partial.as_ref().filter(|_| is_main) {
            let proposal = reply::salvage(partial, self.reading());
            self.take_partial(key.pass, &proposal.ending);
            self.merge(key.pass, &proposal, notes);
        }
    }

    /// Keeps the complete sections of a try that broke off, and that another one follows.
    fn keep_sections(&mut self, key: &CommandKey, failure: &ModelFailure, notes: &mut Vec<Note>) {
        if !self.spec.protocol.properties().has_sections {
            return; // A message has none; what came of the last try is kept.
        }
        let Some(partial) = &failure.partial else { return };
        let proposal = reply::salvage(partial, self.reading());
        if proposal.sections.is_empty() {
            return;
        }
        let changed = self.merge(key.pass, &proposal, notes);
        if let Some(call) = self.state.phase.call_mut() {
            let known: BTreeSet<Arc<str>> = call.kept.iter().map(Arc::clone).collect();
            call.kept.extend(changed.into_iter().filter(|id| !known.contains(id)));
        }
    }

    /// The condition that the last reply which was read was cut at its output limit, where it was.
    pub(super) fn last_cut(&self) -> Option<Condition> {
        self.state.draft.passes.last().and_then(|pass| pass.cut).map(|cut| self.output_limit(cut))
    }

    fn output_limit(&self, cut: Cut) -> Condition {
        let granted = cut.granted;
        // Where the model, the context, the money or the provider left less, that setting would have changed nothing.
        let is_the_setting = !cut.written.capped && granted >= self.spec.limits.output_tokens;
        let to = Measure::Count(granted.saturating_add(1));
        Condition {
            reason: StopReason::OutputLimit,
            value: Measure::Output(cut.written),
            threshold: Some(Measure::Count(granted)),
            change: is_the_setting.then_some(Change { setting: Setting::OutputTokens, to }),
        }
    }

    /// Merges a reply's sections and writes the pass down.
    fn record_pass(
        &mut self,
        key: &CommandKey,
        started: StartedCall,
        reply: &Reply,
        proposal: &Proposal,
        notes: &mut Vec<Note>,
    ) {
        let evidence_seen = self.state.knowledge.evidence.len() as u32;
        let fresh = self.state.knowledge.has_new_since(self.state.draft.evidence_seen());
        let actions_seen = self.state.calls.actions.len() as u32;
        let merged = self.merge(key.pass, proposal, notes);
        let mut changed = self.state.phase.call().map_or_else(Vec::new, |call| call.kept.clone());
        let kept: BTreeSet<Arc<str>> = changed.iter().map(Arc::clone).collect();
        changed.extend(merged.into_iter().filter(|id| !kept.contains(id)));
        let present: BTreeSet<&str> =
            self.state.draft.document.sections.iter().map(|section| &*section.id).collect();
        let removed = changed.iter().filter(|id| !present.contains(id.as_ref())).map(Arc::clone).collect();
        self.state.draft.passes.push(PassRecord {
            pass: key.pass,
            final_pass: key.slot == Slot::Final,
            reply: Arc::clone(&reply.text),
            // Results of calls that were not read would be missing in it.
            raw: reply.raw.clone().filter(|_| proposal.unread == 0),
            reasoning: reply.reasoning.clone().filter(|_| self.spec.protocol.properties().keeps_reasoning),
            evidence_seen,
            unread_calls: proposal.unread,
            actions_seen,
            changed,
            removed,
            tier: started.tier,
            fresh,
            confidence: proposal.confidence,
            confidence_reason: Arc::clone(&proposal.reason),
            at: self.state.clock.now,
            cut: cut_of(reply, started),
        });
        self.state.budget.totals.passes += 1;
    }

    fn merge(&mut self, pass: u32, proposal: &Proposal, notes: &mut Vec<Note>) -> Vec<Arc<str>> {
        if !self.spec.protocol.properties().has_sections {
            return Vec::new();
        }
        let citable = self.state.knowledge.citable();
        let (declared, at) = (self.spec.sections(), self.state.clock.now);
        let context = MergeContext { declared, pass, at, citable: &citable };
        let (document, merge) = self.state.draft.document.merged(&proposal.sections, context);
        self.state.draft.document = document;
        let changed = merge.changed.iter().map(|change| Arc::clone(&change.section)).collect();
        notes.push(Note::Merged { pass, merge });
        changed
    }

    /// Keeps what a reply that is read to its end says of its confidence.
    pub(super) fn take_confidence(&mut self, proposal: &Proposal, notes: &mut Vec<Note>) {
        if let Some(pass) = self.state.draft.passes.last_mut() {
            pass.confidence = proposal.confidence;
            pass.confidence_reason = Arc::clone(&proposal.reason);
        }
        notes.push(Note::ReplyRead {
            pass: self.state.draft.passes.len() as u32,
            confidence: proposal.confidence,
            reason: Arc::clone(&proposal.reason),
            has_contract: proposal.has_contract,
            parse_warnings: proposal.parse_warnings.clone(),
        });
    }
}

/// What was reported before a reply broke off, which may be a count from its beginning, and never less than what was
/// received proves.
fn proven(usage: Usage, bytes: u64) -> Usage {
    let received = bytes / MAX_BYTES_A_TOKEN;
    let lacks = received.saturating_sub(usage.total_output());
    Usage { output: usage.output.saturating_add(lacks), estimated: usage.estimated || lacks > 0, ..usage }
}

/// What a reply had written that was cut at its output limit.
fn cut_of(reply: &Reply, started: StartedCall) -> Option<Cut> {
    let written = Written {
        tokens: reply.usage.map(|usage| usage.total_output()),
        reasoning: reply.usage.map_or(0, |usage| usage.reasoning),
        visible: reply::is_visible(reply),
        capped: reply.finish == FinishReason::Capped,
    };
    reply.finish.is_cut().then_some(Cut { written, granted: started.max_output_tokens })
}

pub(super) fn model_failure(what: Arc<str>) -> Condition {
    Condition { reason: StopReason::ModelFailure, value: Measure::Text(what), threshold: None, change: None }
}

/// The condition that a conversation does not fit into its model, by what the provider says.
fn too_long(what: Arc<str>) -> Condition {
    Condition { reason: StopReason::TokenLimit, value: Measure::Text(what), threshold: None, change: None }
}

fn other_quote(
    key: &CommandKey,
    announced: &Result<Quote, Refusal>,
    computed: &Result<Quote, Refusal>,
) -> Rejected {
    let text = |quote: &Result<Quote, Refusal>| match quote {
        Ok(quote) => format!("{quote:?}"),
        Err(refusal) => format!("refused: {}", refusal.name()),
    };
    Rejected::OtherQuote { key: *key, announced: text(announced), computed: text(computed) }
}
