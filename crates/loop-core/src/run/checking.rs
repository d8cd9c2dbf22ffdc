//! Checking a document before a confident end, and an output before it counts. A check can prevent an end and never
//! causes one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::gate::{self, Certificate, Condition, StopReason};
use crate::reply::Document;
use crate::run::apply::Run;
use crate::run::check::{Cause, CheckRecord, CheckResult, CheckSubject, Checking, Lack};
use crate::run::command::SubCallBudget;
use crate::run::draft::{Draft, Revision};
use crate::run::model_failures::ATTEMPTS;
use crate::run::note::Note;
use crate::run::phase::{Phase, Stopping};
use crate::run::rest::{RunParts, StopPoint};
use crate::spec::{GroundingRule, RunSpec};
use crate::types::{CommandKey, Slot, StopClass, SubCallUse};

impl Run {
    /// The checks of the document so far, in the order of the passes.
    pub fn checks(&self) -> &[CheckRecord] {
        &self.state.draft.checks
    }

    /// Whether the document must pass a check before the run may end as confident.
    pub fn demands_check(&self) -> bool {
        demands_check(&self.spec, &self.state.draft.document)
    }
}

/// Whether a document must pass a check before a confident end: the spec names validators of its own, demands that its
/// values are in the evidence, or has a second model asked about one of its sections.
fn demands_check(spec: &RunSpec, document: &Document) -> bool {
    let asks = |id: &str| {
        let verified = spec.sections().iter().any(|it| &*it.id == id && it.verify);
        spec.gate.second_opinion.is_some() && verified
    };
    let written = document.sections.iter().filter(|section| !section.body.trim().is_empty());
    let mut rules = written.map(|it| spec.grounding_of(&it.id) == GroundingRule::Demand || asks(&it.id));
    !spec.gate.validators.is_empty() || rules.any(|demands| demands)
}

impl RunParts<'_> {
    /// Whether the run can end as confident with this certificate only if the document passes a check.
    pub(super) fn demands_check(&self, certificate: &Certificate) -> bool {
        let mut all = std::iter::once(&certificate.primary).chain(&certificate.also);
        all.any(|it| it.reason == StopReason::Confident) && demands_check(self.spec, &self.draft.document)
    }

    /// Whether this certificate has a confident end that a check can still confirm.
    pub(super) fn may_check(&self, certificate: &Certificate) -> bool {
        certificate.class == StopClass::Answered
            && self.inbox.stop_requested.is_none()
            && self.elapsed_ms() < self.spec.limits.wall_ms
    }

    /// Commands the check of the document of the last pass.
    pub(super) fn check_document(&mut self, certificate: &Certificate, cause: Option<Condition>) -> Phase {
        let found = std::iter::once(&certificate.primary).chain(&certificate.also);
        // Limits are asked again at the end, when the check may have used more of them.
        let found = found.filter(|it| !is_of_limit(it.reason)).cloned().collect();
        self.check(1, CheckSubject::Document { cause, found })
    }

    /// Commands a check.
    pub(super) fn check(&mut self, attempt: u32, about: CheckSubject) -> Phase {
        let key = CommandKey::new(self.draft.passes.len() as u32, Slot::Check);
        let asks = matches!(about, CheckSubject::Document { .. }) && self.spec.gate.second_opinion.is_some();
        let sub_call = if asks { self.grant_check() } else { None };
        Phase::Validating(Checking { key, attempt, about, sub_call, announced: sub_call.is_none() })
    }

    /// Grants a check a model call. The document is written, so none has to be left for it.
    fn grant_check(&mut self) -> Option<SubCallBudget> {
        let limits = &self.spec.limits;
        let slot = Slot::Check;
        if self.budget.totals.model_calls >= limits.model_calls || !self.quoting().pays_for_sub_call(slot) {
            return None;
        }
        self.budget.granted_check = true;
        Some(SubCallBudget::of(limits))
    }

    /// Applies the result of a check.
    pub(super) fn checked(
        &mut self,
        checking: Checking,
        result: &CheckResult,
        used: Option<&SubCallUse>,
    ) -> Phase {
        let Checking { key, attempt, about, sub_call, .. } = checking;
        if sub_call.is_some() {
            self.settle_sub_call(key, attempt, used.cloned().map(Box::new));
        }
        match about {
            CheckSubject::Document { cause, found } => self.document_checked(cause, found, result.clone()),
            CheckSubject::Output { .. } => self.output_checked(result),
        }
    }

    /// Ends the run, or has the document revised.
    fn document_checked(
        &mut self,
        cause: Option<Condition>,
        found: Vec<Condition>,
        result: CheckResult,
    ) -> Phase {
        let pass = self.draft.passes.len() as u32;
        let (has_passed, is_broken) =
            (result == CheckResult::Passed, matches!(result, CheckResult::Broken { .. }));
        self.draft.checks.push(CheckRecord { pass, result });
        if has_passed {
            return self.end_as_found(cause, found);
        }
        let may_revise = !is_broken
            && cause.is_none()
            && self.may_revise()
            && self.inbox.stop_requested.is_none()
            && self.limits_reached().is_empty()
            && self.out_of_time().is_none();
        if may_revise {
            let missing = self.draft.missing(self.spec, self.knowledge, self.started);
            self.draft.revisions.push(Revision { pass: pass + 1, missing });
            return self.next_pass(self.validating());
        }
        let found = found.into_iter().map(|it| self.withheld(it)).collect();
        self.end_as_found(cause, found)
    }

    /// The certificate of an end that would be confident, where the run ends before its check can be made.
    pub(super) fn unchecked(&mut self, certificate: Certificate) -> Certificate {
        let pass = self.draft.passes.len() as u32;
        let message = "the run ends for another reason".into();
        let result = CheckResult::Broken { by: NOT_MADE.into(), message };
        self.draft.checks.push(CheckRecord { pass, result });
        let Certificate { primary, also, .. } = certificate;
        let conditions = std::iter::once(primary).chain(also).map(|it| self.withheld(it)).collect::<Vec<_>>();
        Certificate::of(conditions).unwrap_or_else(|| Certificate::new(self.lacking(), Vec::new()))
    }

    /// Ends the run for what the gate found before the check, and for the limits that are reached now.
    fn end_as_found(&mut self, cause: Option<Condition>, found: Vec<Condition>) -> Phase {
        let (reached, before_next) = gate::split(self.limits_reached(), self.spec.acts_last());
        let over = if cause.is_none() { self.out_of_time() } else { None };
        let conditions = self.requested_stop().into_iter().chain(cause).chain(reached).chain(over);
        self.stop_for(self.validating(), conditions.chain(found).chain(before_next))
    }

    /// Repeats a check whose driver is gone. What it may have spent is charged.
    pub(super) fn lose_check(&mut self, checking: Checking) -> Phase {
        if !checking.announced {
            return Phase::Validating(checking);
        }
        let Checking { key, attempt, .. } = checking;
        self.notes.push(Note::Lost { key, attempt });
        let used = checking.lost_sub_call();
        if attempt < ATTEMPTS {
            if checking.sub_call.is_some() {
                self.settle_sub_call(key, attempt, used);
            }
            return self.check(attempt + 1, checking.about);
        }
        let message = format!("the program ended while it ran, {ATTEMPTS} times").into();
        let lost = CheckResult::Broken { by: NOT_MADE.into(), message };
        self.checked(checking, &lost, used.as_deref())
    }

    /// The check of a run that continues another one: its spec may demand another check, or none.
    pub(super) fn check_anew(&mut self, checking: Checking) -> Phase {
        match self.lose_check(checking) {
            Phase::Validating(Checking { about: CheckSubject::Document { cause, found }, .. })
                if !demands_check(self.spec, &self.draft.document) =>
            {
                self.budget.granted_check = false;
                self.end_as_found(cause, found)
            }
            phase => phase,
        }
    }

    /// A check that the end of the run cancels: one with a sub-call settles, another is dropped.
    pub(super) fn cancel_check(&mut self, checking: Checking) -> Option<Box<Checking>> {
        if checking.sub_call.is_some() && !checking.announced {
            self.budget.granted_check = false;
        }
        Some(Box::new(checking)).filter(|it| it.sub_call.is_some() && it.announced)
    }

    /// Applies the result of a check after the stop reason was fixed: only what it spent counts.
    pub(super) fn checked_too_late(&mut self, mut stopping: Stopping, used: Option<&SubCallUse>) -> Phase {
        if let Some(Checking { key, attempt, .. }) = stopping.check.take().map(|check| *check) {
            self.settle_sub_call(key, attempt, used.cloned().map(Box::new));
        }
        self.stopping_settled(stopping)
    }

    /// Charges the whole reserve of a check that did not settle in time.
    pub(super) fn charge_lost_check(&mut self, checking: &Checking) {
        if let Some(used) = checking.lost_sub_call() {
            let (key, attempt) = (checking.key, checking.attempt);
            self.notes.push(Note::Lost { key, attempt });
            self.settle_sub_call(key, attempt, Some(used));
        }
    }

    pub(super) fn validating(&self) -> StopPoint {
        StopPoint { phase: "validating", pass: self.draft.passes.len() as u32 }
    }

    /// The condition, or what is missing in place of `confident`.
    fn withheld(&self, condition: Condition) -> Condition {
        if condition.reason == StopReason::Confident { self.lacking() } else { condition }
    }

    fn lacking(&self) -> Condition {
        gate::evidence_missing(self.draft.missing(self.spec, self.knowledge, self.started))
    }
}

/// The name of a check that was not made.
const NOT_MADE: &str = "check";

impl Draft {
    /// What the check of the last pass leaves missing, one line each.
    pub(super) fn lacks(&self) -> Vec<Arc<str>> {
        let last = self.checks.last().filter(|it| it.pass as usize == self.passes.len());
        match last.map(|it| &it.result) {
            None | Some(CheckResult::Passed) => Vec::new(),
            Some(CheckResult::Failed { lacks }) => lines(lacks),
            Some(CheckResult::Broken { by, message }) => {
                vec![format!("a check of the document by `{by}` (it was not made: {message})").into()]
            }
        }
    }
}

/// One line for each section and cause, with the values in it, and one for what a checker of its own says.
fn lines(lacks: &[Lack]) -> Vec<Arc<str>> {
    let mut groups: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    let mut own = Vec::new();
    for Lack { section, value, place, cause, .. } in lacks {
        let place = place.iter().map(|id| format!("[{id}]")).collect::<Vec<_>>().join(" or ");
        let (what, shown) = match cause {
            Cause::Contradicted if place.is_empty() => {
                ("evidence for the contradicted", format!("\"{value}\""))
            }
            Cause::Contradicted => ("what the evidence says, not", format!("\"{value}\" ({place})")),
            Cause::WrongCitation => ("the right citation,", format!("{place} for \"{value}\"")),
            Cause::NoSuchEvidence => ("a citation of evidence that exists, not", value.to_string()),
            Cause::Own { by, message } => {
                let of =
                    if section.is_empty() { "the document".into() } else { format!("section `{section}`") };
                own.push(format!("that `{by}` accepts {of} ({message})").into());
                continue;
            }
        };
        let group = groups.entry((section, what)).or_default();
        if !group.contains(&shown) {
            group.push(shown);
        }
    }
    let line = |((section, what), values): ((&str, &str), Vec<String>)| {
        let (values, comma) = (values.join(", "), if what.ends_with(',') { "," } else { "" });
        format!("{what} {values}{comma} in section `{section}`").into()
    };
    groups.into_iter().map(line).chain(own).collect()
}

/// Whether a condition says that a limit is reached.
fn is_of_limit(reason: StopReason) -> bool {
    matches!(
        reason,
        StopReason::MaxPasses
            | StopReason::MaxModelCalls
            | StopReason::BudgetExceeded
            | StopReason::TokenLimit
            | StopReason::Timeout
            | StopReason::OutputLimit
            | StopReason::TierChanged
    )
}
