//! The gate after a pass: verdicts, then stop or act.

use std::sync::Arc;

use crate::gate::{
    self, Candidates, Certificate, Condition, EndConditions, GateInput, History, JudgedAction, JudgedCall,
    Limit, Measure, NativeReply, Quota, Ruling, StopReason, TierCause, TierChange, Verdict, WhyNotDone,
    judge, planned,
};
use crate::policy::{self, EffectPlan};
use crate::reply::{Proposal, RefusedBy};
use crate::run::draft::{AttemptState, PassRecord, Revision};
use crate::run::final_pass::final_pass;
use crate::run::note::{Decision, Note};
use crate::run::phase::{Call, Phase, Stage};
use crate::run::rest::{RunParts, StopPoint};
use crate::run::warning::RunWarning;
use crate::spec::{EndCall, OnDenied, OnInvalid, Setting};
use crate::types::{Action, Arguments, CommandKey, Confidence, Priority, Slot, Tier};

impl RunParts<'_> {
    /// The gate after a pass: verdicts, then stop or act.
    pub(super) fn judge_and_decide(
        &mut self,
        place: StopPoint,
        proposal: Proposal,
        cause: Option<Condition>,
    ) -> Phase {
        let pass = self.draft.passes.len() as u32;
        let (is_final_pass, cause_of_final) = (cause.is_some(), cause.clone());
        let calibrated = self.take_confidence(&proposal);
        let counted = calibrated.map_or(proposal.confidence, |it| it.measured);
        let is_required = |action: &Action| action.priority == Priority::Required;
        if proposal.confidence == Confidence::High && proposal.actions.iter().any(is_required) {
            self.budget.totals.contradictions += 1;
        }
        let left = self.spec.limits.tool_calls.saturating_sub(self.budget.totals.tool_calls);
        let quota = Quota { left, limit: Limit::ToolCalls };
        self.take_plan(proposal.plan.as_ref(), &proposal.actions, pass, quota);
        let mut judged = judge(&proposal.actions, self.context(pass, quota));
        let stored = self.draft.attempts.last().and_then(|attempt| attempt.output.as_ref());
        let is_violation = |judged: &JudgedAction| self.knowledge.is_violation(judged);
        let (ending, last) = gate::ending(proposal.ending.clone(), &judged, stored, is_violation, self.spec);
        self.draft.take_ending(&ending, last);
        let missing = self.draft.missing(self.spec, self.knowledge, self.started);
        let candidates = self.count(&judged);
        let reason_to = |end| judged.iter().find_map(|it| it.judged.reason_to(end));
        let refused = proposal.refused.or_else(|| reason_to(EndCall::Refuse).map(RefusedBy::ByModel));
        let escalated = proposal.escalated.or_else(|| reason_to(EndCall::Escalate));
        let question = judged.iter().find_map(|it| self.question(&it.judged));
        let trouble = self.find_trouble(&judged);
        let by_ending = !self.spec.protocol.properties().states_confidence;
        let native = NativeReply {
            ending: &ending,
            attempt: self.attempt_passes(),
            lacks: self.output_lacks(&missing, &judged),
        };
        let view = GateInput {
            limits: &self.spec.limits,
            totals: &self.budget.totals,
            elapsed_ms: self.elapsed_ms(),
            stop_requested: self.inbox.stop_requested,
            confidence: proposal.confidence,
            calibrated,
            refused: refused.as_ref(),
            escalated: escalated.as_ref(),
            candidates,
            question: question.as_ref(),
            settings: &self.spec.gate,
            missing: &missing,
            owes_effect: !by_ending
                && self.not_done(&judged).iter().any(|it| it.why == WhyNotDone::NotAdmitted),
            history: if by_ending { self.native_history(candidates) } else { self.history() },
            native: by_ending.then_some(native),
            trouble,
            cut: self.last_cut(),
            acts_last: self.spec.acts_last(),
        };
        match gate::decide(&view, cause) {
            Ruling::Stop(certificate) => {
                let mut certificate = self.with_all(certificate);
                let reason = certificate.reason();
                for judged in judged.iter_mut().filter(|judged| judged.judged.verdict == Verdict::Run) {
                    judged.judged.verdict = Verdict::Ended { reason };
                }
                self.admit(judged);
                let finishes = !is_final_pass && self.makes_a_final_pass(&certificate);
                let is_due = !finishes && self.demands_check(&certificate);
                let checks = is_due && self.may_check(&certificate);
                if is_due && !checks {
                    certificate = self.unchecked(certificate);
                }
                let decision = if checks {
                    Decision::Check { runs: 0 }
                } else if finishes {
                    Decision::FinalPass { cause: certificate.primary.clone().into() }
                } else {
                    Decision::Stop(certificate.clone().into())
                };
                self.notes.push(Note::GateDecided { pass, confidence: counted, decision });
                if checks {
                    return self.check_document(&certificate, cause_of_final);
                }
                if finishes {
                    let key = CommandKey::new(pass + 1, Slot::Final);
                    return final_pass(Call::commanded(key, self.route.tier), certificate.primary);
                }
                self.stop(place, certificate)
            }
            Ruling::Revise => {
                let batch = self.admit(judged);
                let decision = Decision::Revise { missing: missing.clone() };
                self.notes.push(Note::GateDecided { pass, confidence: counted, decision });
                self.draft.revisions.push(Revision { pass: pass + 1, missing });
                if self.spec.protocol.properties().answers_every_call {
                    // The other calls of a reply with a premature output run, since each needs a result.
                    self.batch_settled(batch, Stage::Act)
                } else {
                    self.next_pass(place)
                }
            }
            Ruling::Validate(output) => {
                let batch = self.admit(judged);
                let decision = Decision::Check { runs: batch.work.len() as u32 };
                self.notes.push(Note::GateDecided { pass, confidence: counted, decision });
                if let Some(attempt) = self.draft.attempts.last_mut() {
                    (attempt.output, attempt.state) = (Some(output), AttemptState::Ends);
                }
                self.batch_settled(batch, Stage::Act)
            }
            Ruling::Act { escalate } => {
                let batch = self.admit(judged);
                let decision = Decision::Act { runs: batch.work.len() as u32, asks: batch.asks.len() as u32 };
                self.notes.push(Note::GateDecided { pass, confidence: counted, decision });
                if escalate {
                    self.change_tier(Tier::Escalated, TierCause::LowConfidence, pass + 1);
                }
                self.batch_settled(batch, Stage::Act)
            }
        }
    }

    /// Takes the plan of a reply, if it gives one that is accepted: that of the contract, else that of its first such call.
    pub(super) fn take_plan(
        &mut self,
        contract: Option<&Arguments>,
        actions: &[Action],
        pass: u32,
        quota: Quota,
    ) {
        let calls = (0..).zip(actions).filter(|(_, action)| policy::is_plan(self.spec, &action.tool));
        let calls = calls.map(|(n, action)| (Slot::Action(n), &action.parameters));
        let given = contract.map(|plan| (Slot::Main, plan)).into_iter().chain(calls);
        let context = self.context(pass, quota);
        let mut given = given.map(|(slot, plan)| (CommandKey::new(pass, slot), planned(plan, context)));
        let accepted = given.find_map(|(key, plan)| Some((key, plan.ok()?)));
        if let Some((key, slots)) = accepted {
            self.notes.push(Note::Planned { slots: slots.clone() });
            self.knowledge.plan = Some(EffectPlan::new(slots, Some(key), self.started.policy));
        } else if let (Some(contract), None) = (contract, &self.knowledge.plan)
            && let Err(why) = planned(contract, context)
        {
            self.knowledge.warn(RunWarning::PlanRefused { pass, why: why.into() });
        }
    }

    /// The question that an action asks a person: its text alone, or all its parameters where it has others. `None`: it is
    /// not a question.
    fn question(&self, judged: &JudgedAction) -> Option<Arc<str>> {
        let tool = judged.tool.as_deref().and_then(|name| self.spec.tool(name))?;
        let waits = matches!(judged.verdict, Verdict::NeedsPerson { .. });
        (waits && tool.policy.asks_person).then(|| {
            let members = judged.action.parameters.object().ok().filter(|members| members.len() == 1);
            let text = members.and_then(|members| members.values().next()?.as_str());
            text.map_or_else(|| Arc::clone(judged.action.parameters.text()), Arc::from)
        })
    }

    /// Whether this stop is preceded by a final pass: a timeout that leaves the reserved time, or in a conversation the
    /// end of tool use, provided that a final pass helps.
    fn makes_a_final_pass(&self, certificate: &Certificate) -> bool {
        let leaves_one = match certificate.reason() {
            StopReason::Timeout => matches!(certificate.primary.value, Measure::NextTime { .. }),
            StopReason::MaxToolCalls | StopReason::NoProgress => {
                self.spec.protocol.properties().concludes_without_tools
            }
            _ => false,
        };
        leaves_one && self.final_pass_helps() && self.too_many_messages(0).is_none()
    }

    /// The gate's view of the passes so far for native calls: how many in a row could run no call.
    fn native_history(&self, now: Candidates) -> History {
        let pass = self.draft.passes.len() as u32;
        let moves = |(at, action): &(usize, &Arc<JudgedAction>)| match action.verdict {
            Verdict::Run | Verdict::Kept | Verdict::NeedsPerson { .. } => true,
            // The first refusal of a call is not a repeat. Denials in a row have a breaker of their own.
            Verdict::Denied { .. } => !self.calls.was_denied(*at, action),
            Verdict::UnknownTool { .. }
            | Verdict::InvalidArguments { .. }
            | Verdict::Duplicate { .. }
            | Verdict::Skipped
            | Verdict::OverLimit { .. }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. } => false,
        };
        let asks = if self.spec.gate.people { now.needs_person } else { 0 };
        let mut idle = 0;
        if now.all > 0 && now.run + now.kept + asks == 0 {
            let last_moved = self.calls.actions.iter().enumerate().rev().find(moves);
            let moved = last_moved.map_or(0, |(_, action)| action.key.pass);
            // A pass without calls ended the run or an attempt, so idle passes are counted from the attempt's first
            // pass.
            let began = self.draft.attempts.last().map_or(0, |attempt| attempt.from_pass.saturating_sub(1));
            idle = pass.saturating_sub(moved.max(began));
        }
        History {
            pass,
            before: None,
            fresh: false,
            idle,
            may_escalate: false,
            may_revise: self.may_revise(),
            is_out_of_time: self.out_of_time().is_some(),
        }
    }

    /// The gate's view of the passes so far.
    fn history(&self) -> History {
        let settings = &self.spec.gate;
        let passes = &self.draft.passes;
        let pass = passes.len() as u32;
        let last = |count: u32| {
            let from = passes.len().checked_sub(count as usize).filter(|_| count > 0)?;
            passes.get(from..)
        };
        // The first pass of another model or a revision is not compared with the passes before it.
        let is_first_of_its_kind =
            self.route.escalated() == Some(pass) || self.draft.revisions(pass).is_some();
        let before = last(2).and_then(|two| two.first()).filter(|_| !is_first_of_its_kind);
        let is_low = |passes: &[PassRecord]| passes.iter().all(|pass| pass.confidence.level() == 0);
        let restarted =
            self.draft.revisions.last().map(|revisions| revisions.pass).max(self.route.escalated());
        let counted =
            passes.iter().rev().take_while(|record| restarted.is_none_or(|from| record.pass >= from));
        let idle = counted.take_while(|pass| !pass.fresh && pass.changed.is_empty()).count() as u32;
        History {
            pass,
            before: before.map(|pass| pass.confidence),
            fresh: passes.last().is_some_and(|pass| pass.fresh),
            idle: if is_first_of_its_kind { 0 } else { idle },
            may_escalate: self.spec.models.escalated.is_some()
                && self.route.tier != Tier::Fallback
                && self.route.escalated().is_none()
                && last(settings.escalate_after).is_some_and(is_low),
            may_revise: self.may_revise(),
            is_out_of_time: self.out_of_time().is_some(),
        }
    }

    /// The number of candidates of a reply by verdict.
    fn count(&self, judged: &[JudgedCall]) -> Candidates {
        let mut candidates = Candidates::default();
        for judged in judged {
            if judged.judged.action.priority == Priority::NiceToHave {
                continue;
            }
            candidates.all += 1;
            match &judged.judged.verdict {
                Verdict::Run => candidates.run += 1,
                Verdict::Kept => candidates.kept += 1,
                Verdict::NeedsPerson { .. } => candidates.needs_person += 1,
                Verdict::Denied { .. } => candidates.denied += 1,
                Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } => {
                    let is_required = judged.judged.action.priority == Priority::Required;
                    if self.is_unheard(&judged.judged) {
                        candidates.unheard += 1;
                        candidates.unheard_required += u32::from(is_required);
                    }
                }
                Verdict::OverLimit { limit: Limit::ToolCalls | Limit::Selected } => {
                    candidates.over_limit += 1
                }
                // These do not exhaust the run: another call may run. An open breaker reaches the gate as trouble.
                Verdict::OverLimit { limit: Limit::OfTool { .. } }
                | Verdict::BreakerOpen { .. }
                | Verdict::OneAtATime
                | Verdict::Ended { .. }
                | Verdict::Duplicate { .. }
                | Verdict::Skipped => {}
            }
        }
        candidates
    }

    /// Whether the model has yet to read that an action names no tool or has invalid arguments. It has read it where the
    /// same name and arguments came in the pass before. With native calls it reads it as the call's result.
    fn is_unheard(&self, judged: &JudgedAction) -> bool {
        let before = judged.key.pass.saturating_sub(1);
        let is_same = |it: &JudgedAction| {
            it.action.tool == judged.action.tool
                && it.action.parameters == judged.action.parameters
                && matches!(it.verdict, Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. })
        };
        let mut latest = self.calls.actions.iter().rev().take_while(|it| it.key.pass >= before);
        self.spec.protocol.properties().states_confidence
            && self.spec.gate.on_invalid == OnInvalid::FeedBack
            && !latest.any(|it| is_same(it))
    }

    pub(super) fn may_revise(&self) -> bool {
        (self.draft.revisions.len() as u32) < self.spec.gate.revision_passes
    }

    /// Counts denials, unknown tools and invalid arguments of a reply for the breakers, and returns what the gate must
    /// know.
    fn find_trouble(&mut self, judged: &[JudgedCall]) -> EndConditions {
        let gate = &self.spec.gate;
        // A plan that is refused is no effect that was denied.
        let matters = |judged: &&JudgedCall| {
            let judged = &judged.judged;
            judged.action.priority != Priority::NiceToHave && !judged.is_plan(self.spec)
        };
        let mut found = EndConditions::default();
        let (mut denied, mut useless) = (false, false);
        for judged in judged.iter().filter(matters).map(|it| &it.judged) {
            let JudgedAction { action, tool, verdict, .. } = judged;
            // A denied call that comes again counts as a repeat, not as one more denial.
            if !matches!(verdict, Verdict::Denied { .. }) || !self.calls.was_denied(usize::MAX, judged) {
                self.calls.trouble.judged(verdict);
            }
            let name = tool.as_ref().unwrap_or(&action.tool);
            match verdict {
                Verdict::Denied { why, .. } => {
                    denied = true;
                    if gate.on_denied == OnDenied::Stop {
                        found.denied.get_or_insert_with(|| denial(name, why));
                    }
                }
                Verdict::UnknownTool { .. } => {
                    useless = true;
                    if gate.on_invalid == OnInvalid::Stop {
                        found.denied.get_or_insert_with(|| invalid(name, "there is no such tool"));
                    }
                }
                Verdict::InvalidArguments { pointer, message } => {
                    useless = true;
                    if gate.on_invalid == OnInvalid::Stop {
                        let why = [pointer, message].map(|part| &**part).join(" ");
                        found.denied.get_or_insert_with(|| invalid(name, why.trim()));
                    }
                }
                Verdict::BreakerOpen { .. } => {
                    let broken = || self.calls.trouble.broken(name, &gate.breakers);
                    found.broken = found.broken.or_else(broken);
                }
                Verdict::Run
                | Verdict::Kept
                | Verdict::Duplicate { .. }
                | Verdict::Skipped
                | Verdict::NeedsPerson { .. }
                | Verdict::OverLimit { .. }
                | Verdict::OneAtATime
                | Verdict::Ended { .. } => {}
            }
        }
        let trouble = &self.calls.trouble;
        let denials = trouble.denied(&gate.breakers).filter(|_| denied);
        found.opened = denials.or_else(|| trouble.useless(&gate.breakers).filter(|_| useless));
        found
    }

    /// Whether an output is premature: a demanded tool has no observation yet, and the same reply does not run it.
    fn output_lacks(&self, missing: &[Arc<str>], judged: &[JudgedCall]) -> bool {
        if missing.is_empty() {
            return false;
        }
        let runs = |tool: &Arc<str>| {
            judged.iter().any(|it| it.judged.verdict == Verdict::Run && it.judged.tool.as_ref() == Some(tool))
        };
        self.knowledge.unobserved(self.spec).any(|tool| !runs(tool))
    }

    /// Switches main calls to another tier from this pass on.
    pub(super) fn change_tier(&mut self, to: Tier, why: TierCause, pass: u32) {
        let from = std::mem::replace(&mut self.route.tier, to);
        if from != to {
            self.note_tier(TierChange { pass, from, to, why });
        }
    }

    /// Records a change of tier as a note and for the certificate.
    pub(super) fn note_tier(&mut self, change: TierChange) {
        let TierChange { from, to, why, .. } = change;
        self.notes.push(Note::TierChanged { from, to, why });
        self.route.keep(change);
    }

    /// The certificate with all other conditions that are true: reached limits, a cut reply, changed tiers.
    pub(super) fn with_all(&self, certificate: Certificate) -> Certificate {
        let others = self.limits_reached().into_iter().chain(self.last_cut()).chain(self.tier_changed());
        Certificate { style: self.spec.protocol.reason_names(), ..certificate.and(others) }
    }

    /// The condition that main calls used other tiers than the base tier. `None`: they did not.
    fn tier_changed(&self) -> Option<Condition> {
        let changes = self.route.changes();
        let by_cost = changes.iter().any(|it| it.why == TierCause::Cost && it.to == Tier::Selector);
        (!changes.is_empty()).then(|| {
            let changed = Condition::new(StopReason::TierChanged, Measure::Tiers(changes.to_vec()));
            changed.change_if(by_cost, Setting::CheaperTier, Measure::Text("false".into()))
        })
    }
}

/// The condition that policy denied a call, where the setting ends the run for it.
fn denial(tool: &str, why: &str) -> Condition {
    let to = Measure::Text("feed_back".into());
    Condition::new(StopReason::Refused, Measure::Text(format!("{tool}: {why}").into()))
        .change(Setting::OnDenied, to)
}

/// The condition that a reply requested an invalid call, where the setting ends the run for it.
pub(super) fn invalid(tool: &str, why: &str) -> Condition {
    gate::not_valid(format!("{tool}: {why}").into())
}
