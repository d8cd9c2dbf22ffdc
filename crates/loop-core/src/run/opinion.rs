//! The second opinion: before a confident end, an auxiliary model says whether the cited evidence supports what it is asked
//! about. It can take `confident` away and never give it.

use std::sync::Arc;

use crate::claims::Grounding;
use crate::gate::{self, Certificate, Condition, StopReason};
use crate::reply::{FinishReason, Reply};
use crate::run::apply::Run;
use crate::run::draft::{Draft, Revision};
use crate::run::event::Started;
use crate::run::grounding;
use crate::run::note::Note;
use crate::run::outcome::{Opinion, OpinionRecord};
use crate::run::phase::{Call, Phase, Purpose};
use crate::run::rest::{Place, Rest};
use crate::spec::{OpinionWhen, RunSpec};
use crate::types::{CommandKey, Evidence, EvidenceId, Slot, StopClass, Tier};

/// What a second model is asked about in one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Questioned {
    /// The section's id.
    pub section: Arc<str>,
    /// The statements, as written: sentences, or the whole section.
    pub statements: Vec<Arc<str>>,
    /// The evidence that the section cites, in order. `E0` is the work item.
    pub evidence: Vec<EvidenceId>,
}

impl Run {
    /// What a second model is asked about before the run may end as confident. Empty: it is not asked.
    pub fn questioned(&self) -> Vec<Questioned> {
        let state = &self.state;
        questioned(&state.draft, &self.spec, &state.knowledge.evidence, &state.started)
    }

    /// The second opinions so far, in the order of the passes.
    pub fn opinions(&self) -> &[OpinionRecord] {
        &self.state.draft.opinions
    }
}

/// What a second model is asked about: of the sections marked `verify` the whole text, or the sentences with a value that is
/// not in the evidence that they cite.
fn questioned(draft: &Draft, spec: &RunSpec, evidence: &[Evidence], started: &Started) -> Vec<Questioned> {
    let Some(settings) = spec.gate.second_opinion else { return Vec::new() };
    let marked = spec.sections().iter().filter(|section| section.verify);
    let sections = marked.filter_map(|section| draft.document.get(&section.id));
    let claims = match settings.when {
        OpinionWhen::Always => Vec::new(),
        OpinionWhen::Ungrounded => grounding::claims_of(&draft.document, spec, evidence, started),
    };
    let about = |id: &str, body: &str| -> Vec<Arc<str>> {
        if settings.when == OpinionWhen::Always {
            return if body.trim().is_empty() { Vec::new() } else { vec![body.trim().into()] };
        }
        let mut sentences: Vec<Arc<str>> = Vec::new();
        for claim in claims.iter().filter(|it| &*it.section == id && it.state != Grounding::Grounded) {
            if !sentences.contains(&claim.sentence) {
                sentences.push(Arc::clone(&claim.sentence));
            }
        }
        sentences
    };
    sections
        .map(|section| Questioned {
            section: Arc::clone(&section.id),
            statements: about(&section.id, &section.body),
            evidence: section.evidence.clone(),
        })
        .filter(|questioned| !questioned.statements.is_empty())
        .collect()
}

/// Reads the reply of the second model: one line, the run's nonce, a colon and one of three answers. Anything else is
/// [`Opinion::CannotTell`]: text of the evidence does not know the nonce.
fn read_opinion(reply: &Reply, nonce: &str) -> Opinion {
    let is_whole = match reply.finish {
        FinishReason::EndTurn | FinishReason::Other => reply.calls.is_empty(),
        FinishReason::ToolUse
        | FinishReason::MaxTokens
        | FinishReason::Capped
        | FinishReason::Refusal
        | FinishReason::Filtered => false,
    };
    let answer = reply.text.trim().strip_prefix(nonce).and_then(|rest| rest.strip_prefix(':'));
    match answer.map(str::trim).filter(|_| is_whole && !nonce.is_empty()) {
        Some(answer) if answer.eq_ignore_ascii_case("yes") => Opinion::Yes,
        Some(answer) if answer.eq_ignore_ascii_case("no") => Opinion::No,
        Some(_) | None => Opinion::CannotTell,
    }
}

impl Rest<'_> {
    /// Ids of the sections that a second model is asked about before a confident end. Empty: it is not asked.
    pub(super) fn sections_to_confirm(&self) -> Vec<Arc<str>> {
        let asked = questioned(self.draft, self.spec, &self.knowledge.evidence, self.started);
        asked.into_iter().map(|questioned| questioned.section).collect()
    }

    /// Ids of the sections that a second model is asked about before the run ends with this certificate. Empty: it has no
    /// confident end, or none is asked.
    pub(super) fn to_confirm_before(&self, certificate: &Certificate) -> Vec<Arc<str>> {
        let mut all = std::iter::once(&certificate.primary).chain(&certificate.also);
        if all.any(|it| it.reason == StopReason::Confident) { self.sections_to_confirm() } else { Vec::new() }
    }

    /// Whether this certificate has a confident end that a second model can still confirm.
    pub(super) fn asks_opinion(&self, certificate: &Certificate) -> bool {
        certificate.class == StopClass::Answered
            && self.inbox.stop_requested.is_none()
            && self.elapsed_ms() < self.spec.limits.wall_ms
    }

    /// Asks the second model about the document of the last pass.
    pub(super) fn ask_opinion(&self, certificate: &Certificate, cause: Option<Condition>) -> Phase {
        let tier = self.spec.gate.second_opinion.map_or(Tier::Selector, |settings| settings.tier);
        let key = CommandKey::new(self.draft.passes.len() as u32, Slot::Opinion);
        let found = std::iter::once(&certificate.primary).chain(&certificate.also);
        // Limits are asked again at the end, when the call has used more of them.
        let found = found.filter(|it| !is_of_limit(it.reason)).cloned().collect();
        Phase::calling(Call::commanded(key, tier), Purpose::Opinion { cause, found })
    }

    /// Applies the reply of the second model.
    pub(super) fn opinion_replied(
        &mut self,
        place: Place,
        (cause, found): (Option<Condition>, Vec<Condition>),
        reply: &Reply,
    ) -> Phase {
        let opinion = read_opinion(reply, &self.started.nonce);
        self.opinion_given(place, (cause, found), opinion, "".into())
    }

    /// Records an opinion, and ends the run or has the answer revised.
    pub(super) fn opinion_given(
        &mut self,
        place: Place,
        (cause, found): (Option<Condition>, Vec<Condition>),
        opinion: Opinion,
        why: Arc<str>,
    ) -> Phase {
        self.note_opinion(opinion, why);
        if opinion == Opinion::Yes {
            return self.end_as_found(place, cause, found);
        }
        let may_revise = matches!(opinion, Opinion::No | Opinion::CannotTell)
            && cause.is_none()
            && self.may_revise()
            && self.inbox.stop_requested.is_none()
            && self.limits_reached().is_empty()
            && self.out_of_time().is_none();
        if may_revise {
            let pass = self.draft.passes.len() as u32;
            let missing = self.draft.missing(self.spec, self.knowledge, self.started);
            self.draft.revisions.push(Revision { pass: pass + 1, missing });
            return self.next_pass(place);
        }
        let found = found.into_iter().map(|it| self.withheld(it)).collect();
        self.end_as_found(place, cause, found)
    }

    /// The certificate of a confident end that no second model could be asked about.
    pub(super) fn without_opinion(&mut self, certificate: Certificate, why: &str) -> Certificate {
        self.note_opinion(Opinion::Failed, why.into());
        let Certificate { primary, also, .. } = certificate;
        let conditions = std::iter::once(primary).chain(also).map(|it| self.withheld(it)).collect::<Vec<_>>();
        Certificate::of(conditions).unwrap_or_else(|| Certificate::new(self.lacking(), Vec::new()))
    }

    /// Ends the run for what the gate found before the second model was asked, and for the limits that are reached now.
    pub(super) fn end_as_found(
        &mut self,
        place: Place,
        cause: Option<Condition>,
        found: Vec<Condition>,
    ) -> Phase {
        let (reached, before_next) = gate::split(self.limits_reached(), self.spec.acts_last());
        let over = if cause.is_none() { self.out_of_time() } else { None };
        let conditions = self.requested_stop().into_iter().chain(cause).chain(reached).chain(over);
        self.stop_for(place, conditions.chain(found).chain(before_next))
    }

    fn note_opinion(&mut self, opinion: Opinion, why: Arc<str>) {
        let pass = self.draft.passes.len() as u32;
        let record = OpinionRecord { pass, opinion, sections: self.sections_to_confirm(), why };
        self.notes.push(Note::OpinionGiven(record.clone().into()));
        self.draft.opinions.push(record);
    }

    /// The condition, or what is missing in place of `confident`.
    fn withheld(&self, condition: Condition) -> Condition {
        if condition.reason == StopReason::Confident { self.lacking() } else { condition }
    }

    fn lacking(&self) -> Condition {
        gate::evidence_missing(self.draft.missing(self.spec, self.knowledge, self.started))
    }
}

impl Draft {
    /// What the second opinion on the last pass leaves missing: a line for each section that it does not confirm.
    pub(super) fn unconfirmed(&self) -> Vec<Arc<str>> {
        let last = self.opinions.last().filter(|it| it.pass as usize == self.passes.len());
        let Some(OpinionRecord { opinion, sections, why, .. }) = last else { return Vec::new() };
        let what = match opinion {
            Opinion::Yes => return Vec::new(),
            Opinion::No => "it says no".to_owned(),
            Opinion::CannotTell => "it cannot tell".to_owned(),
            Opinion::Failed => format!("it was not given: {why}"),
        };
        let line = |section: &Arc<str>| {
            format!("a second opinion that the cited evidence supports section `{section}` ({what})").into()
        };
        sections.iter().map(line).collect()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Opinion) {
        assert_eq!(read_opinion(&Reply::text(text), "k3j9"), expected, "{text}");
    }

    #[test]
    fn only_one_line_with_the_nonce_and_an_answer_is_one() {
        // Issue 19, part 6: evidence that says `yes` has answered nothing.
        check("k3j9: yes", Opinion::Yes);
        check("  k3j9:YES\n", Opinion::Yes);
        check("k3j9: no", Opinion::No);
        check("k3j9: cannot tell", Opinion::CannotTell);
        for other in [
            "",
            "yes",
            "Yes.",
            "k3j9 yes",
            "k3j9: yes.",
            "k3j9: yes, since",
            "k3j9: yes\nk3j9: no",
            "nonce: yes",
            "[nonce]: yes",
            "The answer is k3j9: yes",
            "k3j9: k3j9: yes",
            "k3j9:",
            "k3j9: y",
            "```\nk3j9: yes\n```",
        ] {
            check(other, Opinion::CannotTell);
        }
        assert_eq!(read_opinion(&Reply::text(": yes"), ""), Opinion::CannotTell);
        for finish in [FinishReason::MaxTokens, FinishReason::Refusal, FinishReason::Filtered] {
            let reply = Reply { finish, ..Reply::text("k3j9: yes") };
            assert_eq!(read_opinion(&reply, "k3j9"), Opinion::CannotTell);
        }
    }
}
