//! Model calls: announced, refused, answered, failed. A reply is merged and recorded.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::gate::{Condition, CutExtent, Measure, StopReason, TierChange};
use crate::reply::{self, FinishReason, MergeContext, ParseWarning, Proposal, Reply};
use crate::run::draft::{CutReply, PassRecord, with_new};
use crate::run::event::{EventKind, Refusal};
use crate::run::note::Note;
use crate::run::phase::{Call, Phase, Purpose, StartedCall, Stopping};
use crate::run::quote::{PromptSize, Quote};
use crate::run::rejected::Rejected;
use crate::run::rest::{RunParts, StopPoint};
use crate::run::route::MainCall;
use crate::run::warning::RunWarning;
use crate::spec::{Calibrated, Setting};
use crate::types::{CommandKey, Confidence, Slot, Tier};

/// The size of a prompt, and the quote of its call or the refusal.
pub(super) type Announced = (PromptSize, Result<Quote, Refusal>);

impl RunParts<'_> {
    /// The quote or refusal that an event announces for the call. It must equal the one that the state gives. `None`:
    /// the event names another call, or the call may not start.
    pub(super) fn announced(&self, call: &Call, event: &EventKind) -> Option<Result<Announced, Rejected>> {
        let (key, attempt, bytes, shared_bytes, announced) = match event {
            EventKind::CallStarted {
                key,
                attempt,
                tier,
                prompt_bytes,
                shared_bytes,
                max_output_tokens,
                reserve,
                ..
            } => {
                let (max_output_tokens, reserve) = (*max_output_tokens, *reserve);
                let quote = Quote { tier: *tier, max_output_tokens, reserve };
                (key, attempt, prompt_bytes, shared_bytes, Ok(quote))
            }
            EventKind::CallRefused { key, attempt, prompt_bytes, shared_bytes, refusal } => {
                (key, attempt, prompt_bytes, shared_bytes, Err(*refusal))
            }
            _ => return None,
        };
        let is_open = call.is_due(self.clock.now) && self.inbox.stop_requested.is_none();
        if call.key != *key || call.attempt != *attempt || !is_open {
            return None;
        }
        let prompt = PromptSize { bytes: *bytes, shared_bytes: *shared_bytes };
        let computed = self.quoting().quote_call(call, prompt);
        // The shared budget may refuse what the run itself would grant, if it leaves less than the call and the final pass
        // after it may cost.
        let is_refused_elsewhere = match (&computed, &announced) {
            (Ok(quote), Err(Refusal::SharedBudget { left })) => {
                let final_pass = self.quoting().final_pass_reserve(call.key.slot, quote);
                quote.reserve.cost.is_none_or(|cost| *left < cost.plus(final_pass))
            }
            _ => false,
        };
        Some(if computed == announced || is_refused_elsewhere {
            Ok((prompt, announced))
        } else {
            Err(other_quote(key, &announced, &computed))
        })
    }

    /// Applies an announced call: the driver is about to send it.
    pub(super) fn call_started(
        &mut self,
        mut call: Call,
        purpose: Purpose,
        prompt: PromptSize,
        quote: Quote,
    ) -> Phase {
        let Quote { tier, max_output_tokens, reserve } = quote;
        if call.tier != tier {
            let why = self.quoting().why_elsewhere(&call, prompt);
            self.note_tier(TierChange { pass: call.key.pass, from: call.tier, to: tier, why });
        }
        self.budget.totals.model_calls += 1;
        call.started = Some(StartedCall { tier, max_output_tokens, prompt_bytes: prompt.bytes, reserve });
        Phase::Calling { call, purpose }
    }

    /// Applies a refused call.
    pub(super) fn call_refused(
        &mut self,
        call: Call,
        purpose: Purpose,
        prompt: PromptSize,
        refusal: Refusal,
    ) -> Phase {
        self.notes.push(Note::CallRefused { key: call.key, refusal });
        let mut refusal = refusal;
        if let Refusal::SharedBudget { left } = refusal
            && self.quoting().quote_call(&call, prompt).is_ok()
        {
            self.budget.shared_leaves(left);
            match self.quoting().quote_call(&call, prompt) {
                // With fewer output tokens, or on a cheaper tier, what is left covers it.
                Ok(_) => return Phase::Calling { call, purpose },
                Err(now) => refusal = now,
            }
        }
        let place = StopPoint::of(&call, &purpose);
        match purpose {
            Purpose::Select => self.select_defaults(format!("refused: {}", refusal.name())),
            Purpose::Repair { proposal } => self.judge_and_decide(place, *proposal, None),
            Purpose::Main | Purpose::Final { .. } => self.main_call_refused(call, purpose, refusal, prompt),
        }
    }

    /// Applies a complete reply: charges its usage, and decides by the call's purpose what follows.
    pub(super) fn model_replied(
        &mut self,
        mut call: Call,
        granted: StartedCall,
        purpose: Purpose,
        reply: &Reply,
    ) -> Phase {
        call.started = None;
        let key = call.key;
        self.charge_reply(key, call.attempt, granted, reply);
        let place = StopPoint::of(&call, &purpose);
        match purpose {
            Purpose::Select => self.selected(reply),
            Purpose::Repair { proposal } => {
                let mut proposal = *proposal;
                reply::repair(&mut proposal, reply, self.reading());
                discount(&mut proposal, granted.tier);
                self.cap_calls(&mut proposal, key);
                if let Some(pass) = self.draft.passes.last_mut() {
                    pass.cut = pass.cut.or(cut_of(reply, granted));
                }
                self.judge_and_decide(place, proposal, None)
            }
            Purpose::Main | Purpose::Final { .. }
                if let Some(failure) = reply::unusable(reply, self.spec) =>
            {
                self.main_call_failed(call, purpose, &failure, cut_of(reply, granted))
            }
            Purpose::Main => {
                self.eager = call.eager;
                let proposal = self.read_main(key, call.kept, granted, reply);
                // A repair takes time that may be reserved for the final pass.
                let may_repair = self.inbox.stop_requested.is_none() && self.out_of_time().is_none();
                if proposal.has_contract || !may_repair {
                    return self.judge_and_decide(place, proposal, None);
                }
                // The contract states the reply's confidence, so the reply's own model is asked to repair it.
                let call = Call::commanded(CommandKey::new(key.pass, Slot::Repair), granted.tier);
                Phase::Calling { call, purpose: Purpose::Repair { proposal: Box::new(proposal) } }
            }
            Purpose::Final { cause } => {
                let proposal = self.read_main(key, call.kept, granted, reply);
                self.judge_and_decide(place, proposal, Some(cause))
            }
        }
    }

    /// Applies a reply after the stop reason was fixed: its text is kept, and none of its calls run.
    pub(super) fn replied_too_late(
        &mut self,
        mut stopping: Stopping,
        granted: StartedCall,
        reply: &Reply,
    ) -> Phase {
        if let Some(call) = stopping.call.take() {
            self.charge_reply(call.key, call.attempt, granted, reply);
            if let Some(failure) = reply::unusable(reply, self.spec) {
                self.salvage(&call.key, &failure);
            } else if matches!(call.key.slot, Slot::Main | Slot::Final) {
                let proposal = self.read(call.key, call.kept, granted, reply);
                self.take_confidence(&proposal);
                self.leave_all_undone(&proposal, stopping.certificate.reason());
            }
        }
        self.stopping_settled(stopping)
    }

    /// Reads a main call's reply as a proposal, and stores its size to estimate the next call.
    fn read_main(
        &mut self,
        key: CommandKey,
        kept: Vec<Arc<str>>,
        granted: StartedCall,
        reply: &Reply,
    ) -> Proposal {
        let input_tokens = reply.usage.map_or(granted.reserve.input_tokens, |usage| usage.total_input());
        self.route.last_main =
            Some(MainCall { tier: granted.tier, bytes: granted.prompt_bytes, input_tokens });
        self.read(key, kept, granted, reply)
    }

    /// Reads a main call's reply as a proposal, with the calls within the limit and the discounted confidence, and
    /// records its pass. `kept` are the sections that earlier tries returned.
    fn read(
        &mut self,
        key: CommandKey,
        kept: Vec<Arc<str>>,
        granted: StartedCall,
        reply: &Reply,
    ) -> Proposal {
        let mut proposal = reply::read(reply, self.reading());
        discount(&mut proposal, granted.tier);
        self.cap_calls(&mut proposal, key);
        self.record_pass(key, kept, granted, reply, &proposal);
        proposal
    }

    /// Truncates the calls of a reply to the limit, and counts the rest.
    fn cap_calls(&mut self, proposal: &mut Proposal, key: CommandKey) {
        let count = self.count_unread(proposal.actions.len(), proposal.unread, key);
        proposal.actions.truncate(self.spec.limits.read_calls() as usize);
        let mut latest = self.draft.passes.iter_mut().rev().take_while(|pass| pass.pass >= key.pass);
        if let Some(pass) = latest.find(|pass| pass.pass == key.pass) {
            pass.unread_calls = pass.unread_calls.saturating_add(count);
        } else {
            proposal.unread = count;
        }
    }

    /// Counts and notes the calls that are not read: those of `requested` beyond the limit, and those that the model
    /// client did not read.
    pub(super) fn count_unread(&mut self, requested: usize, left: u32, key: CommandKey) -> u32 {
        let limit = self.spec.limits.read_calls();
        let count = u32::try_from(requested).unwrap_or(u32::MAX).saturating_sub(limit).saturating_add(left);
        if count > 0 {
            self.budget.totals.unread_calls = self.budget.totals.unread_calls.saturating_add(count);
            self.notes.push(Note::CallsNotRead { call: key, limit, count });
        }
        count
    }

    /// The condition that the last reply was cut at its output limit. `None`: it was not.
    pub(super) fn last_cut(&self) -> Option<Condition> {
        self.draft.passes.last().and_then(|pass| pass.cut).map(|cut| self.output_limit(cut))
    }

    pub(super) fn output_limit(&self, cut: CutReply) -> Condition {
        let granted = cut.granted;
        // If the model, the context, the budget or the provider allowed less, raising the setting would change nothing.
        let is_the_setting = !cut.written.capped
            && !cut.written.is_cut_at_once(granted)
            && granted >= self.spec.limits.output_tokens;
        let to = Measure::Count(granted.saturating_add(1));
        let reached = Condition::new(StopReason::OutputLimit, Measure::Output(cut.written));
        reached.threshold(Measure::Count(granted)).change_if(is_the_setting, Setting::OutputTokens, to)
    }

    /// Merges a reply's sections and records the pass.
    fn record_pass(
        &mut self,
        key: CommandKey,
        kept: Vec<Arc<str>>,
        granted: StartedCall,
        reply: &Reply,
        proposal: &Proposal,
    ) {
        let evidence_seen = self.knowledge.evidence.len() as u32;
        let fresh = self.knowledge.has_new_since(self.draft.evidence_seen());
        let actions_seen = self.calls.actions.len() as u32;
        let merged = self.merge(key.pass, proposal);
        let changed = with_new(kept, merged);
        let present: BTreeSet<&str> =
            self.draft.document.sections.iter().map(|section| &*section.id).collect();
        let removed = changed.iter().filter(|id| !present.contains(id.as_ref())).map(Arc::clone).collect();
        self.draft.passes.push(PassRecord {
            pass: key.pass,
            final_pass: key.slot == Slot::Final,
            reply: Arc::clone(&reply.text),
            // The raw turn contains calls that were not read and so have no results. Providers refuse that.
            raw: reply.raw.clone().filter(|_| proposal.unread == 0),
            reasoning: reply.reasoning.clone().filter(|_| self.spec.protocol.properties().keeps_reasoning),
            evidence_seen,
            unread_calls: proposal.unread,
            actions_seen,
            changed,
            removed,
            tier: granted.tier,
            fresh,
            confidence: proposal.confidence,
            confidence_reason: Arc::clone(&proposal.reason),
            at: self.clock.now,
            cut: cut_of(reply, granted),
            calibrated: None,
        });
        self.budget.totals.passes += 1;
    }

    /// Merges a reply's sections into the document. Returns the ids of the changed sections.
    pub(super) fn merge(&mut self, pass: u32, proposal: &Proposal) -> Vec<Arc<str>> {
        if !self.spec.protocol.properties().has_sections {
            return Vec::new();
        }
        let citable = self.knowledge.citable();
        let (declared, at) = (self.spec.sections(), self.clock.now);
        let context = MergeContext { declared, pass, at, citable: &citable };
        let (document, merge) = self.draft.document.merged(&proposal.sections, context);
        self.draft.document = document;
        let changed = merge.changed.iter().map(|change| Arc::clone(&change.section)).collect();
        self.notes.push(Note::Merged { pass, merge });
        changed
    }

    /// Stores the confidence of a reply, once it is read completely. Returns the measured level, where it counts as another
    /// one.
    pub(super) fn take_confidence(&mut self, proposal: &Proposal) -> Option<Calibrated> {
        let calibration = self.spec.gate.calibration.as_deref();
        let tier = self.draft.passes.last().map_or(Tier::Base, |pass| pass.tier);
        let calibrated = calibration
            .and_then(|it| it.of(self.spec.model(tier), proposal.confidence, self.spec.gate.allow_raise));
        if let Some(pass) = self.draft.passes.last_mut() {
            pass.confidence = proposal.confidence;
            pass.confidence_reason = Arc::clone(&proposal.reason);
            pass.calibrated = calibrated;
        }
        self.warn_of_reply(self.draft.passes.len() as u32, &proposal.parse_warnings);
        self.notes.push(Note::ReplyRead {
            pass: self.draft.passes.len() as u32,
            confidence: proposal.confidence,
            reason: Arc::clone(&proposal.reason),
            has_contract: proposal.has_contract,
            parse_warnings: proposal.parse_warnings.clone(),
            calibrated,
        });
        calibrated
    }

    /// Keeps what is irregular in the reply of a pass for the outcome.
    pub(super) fn warn_of_reply(&mut self, pass: u32, found: &[ParseWarning]) {
        found.iter().for_each(|odd| self.knowledge.warn(RunWarning::Reply { pass, odd: odd.clone() }));
    }
}

/// Sets the confidence of a cheaper tier's model to unknown: it is not comparable with the base model's.
fn discount(proposal: &mut Proposal, tier: Tier) {
    let stated = proposal.confidence;
    if tier != Tier::Selector || stated == Confidence::Unknown {
        return;
    }
    proposal.confidence = Confidence::Unknown;
    proposal.parse_warnings.push(ParseWarning::CheaperConfidence { stated });
}

/// How much a reply had written when it was cut at its output limit. `None`: it was not cut.
fn cut_of(reply: &Reply, started: StartedCall) -> Option<CutReply> {
    let written = CutExtent {
        tokens: reply.usage.map(|usage| usage.total_output()),
        reasoning: reply.usage.map_or(0, |usage| usage.reasoning),
        visible: reply::is_visible(reply),
        capped: reply.finish == FinishReason::Capped,
    };
    reply.finish.is_cut().then_some(CutReply { written, granted: started.max_output_tokens })
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
