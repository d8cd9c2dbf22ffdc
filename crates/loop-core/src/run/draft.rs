//! The draft: the answer so far, pass by pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::CutExtent;
use crate::reply::{Document, Ending, Section, cited_in, own_words};
use crate::run::check::CheckRecord;
use crate::run::event::Started;
use crate::run::knowledge::Knowledge;
use crate::run::outcome::{Output, PassSummary, Rejection};
use crate::spec::{Calibrated, Cite, RunSpec, SectionSpec};
use crate::types::{Confidence, EvidenceId, Millis, Tier};

/// The content of the replies: the document, an answer, attempts at an output.
///
/// Passes are numbered from 1 without a gap. The run's confidence is that of its last pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Draft {
    pub(super) passes: Vec<PassRecord>,
    pub(super) document: Document,
    /// The passes that were granted to revise an answer, with what was missing.
    pub(super) revisions: Vec<Revision>,
    pub(super) attempts: Vec<Attempt>,
    /// The final answer of a conversation. `None`: there is none yet.
    pub(super) answer: Option<Arc<str>>,
    /// The text of a reply that failed midway. It is not an answer: a retry may still return one.
    pub(super) partial: Option<PartialReply>,
    /// The checks of the document, each of another pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) checks: Vec<CheckRecord>,
}

/// A partial reply: it failed midway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct PartialReply {
    /// The pass of its call. The pass has no record if no retry succeeded.
    pub(super) pass: u32,
    pub(super) text: Arc<str>,
}

impl Draft {
    /// The confidence of the last pass. `unknown` before the first.
    pub(super) fn confidence(&self) -> Confidence {
        self.passes.last().map_or(Confidence::Unknown, |pass| pass.confidence)
    }

    /// The model's reason for it. Empty if it gave none.
    pub(super) fn confidence_reason(&self) -> Arc<str> {
        self.passes.last().map_or_else(|| "".into(), |pass| Arc::clone(&pass.confidence_reason))
    }

    /// How many observations the last pass's prompt showed.
    pub(super) fn evidence_seen(&self) -> u32 {
        self.passes.last().map_or(0, |pass| pass.evidence_seen)
    }

    /// What the domain requires and the document does not have yet: required sections, valid citations, results of
    /// required tools, what the check of the last pass found lacking.
    pub(super) fn missing(&self, spec: &RunSpec, knowledge: &Knowledge, started: &Started) -> Vec<Arc<str>> {
        let mut missing = Vec::new();
        for SectionSpec { id, required, cite, .. } in spec.sections() {
            match self.document.get(id) {
                None if *required => missing.push(Arc::from(format!("section `{id}`"))),
                Some(section) if !cite.is_met_by(&section.evidence) => {
                    let what = if *cite == Cite::Evidence && !section.evidence.is_empty() {
                        "a citation of evidence other than the work item (E0)"
                    } else {
                        "a citation"
                    };
                    missing.push(format!("{what} in section `{id}`").into());
                }
                None | Some(_) => {}
            }
            let least = usize::try_from(spec.gate.min_words).unwrap_or(usize::MAX);
            if let Some(section) = self.document.get(id).filter(|_| *cite != Cite::No)
                && own_words(&section.body) < least
            {
                missing.push(format!("{least} words besides citations in section `{id}`").into());
            }
        }
        for section in &self.document.sections {
            // One valid citation is not enough: each must be valid.
            let bad = bad_citations(section, spec, knowledge, started);
            let bad: Vec<String> = bad.iter().map(|id| format!("[{id}]")).collect();
            if !bad.is_empty() {
                missing.push(format!("evidence for {} in section `{}`", bad.join(", "), section.id).into());
            }
        }
        missing.extend(knowledge.unobserved(spec).map(|tool| Arc::from(format!("a result of `{tool}`"))));
        missing.extend(self.lacks());
        missing
    }

    /// What was missing when this pass was granted to revise the answer. `None` for any other pass.
    pub(super) fn revisions(&self, pass: u32) -> Option<&[Arc<str>]> {
        let granted = self.revisions.iter().find(|revisions| revisions.pass == pass);
        granted.map(|revisions| revisions.missing.as_slice())
    }

    /// Stores the end of a reply: an answer, or the last output.
    pub(super) fn take_ending(&mut self, ending: &Ending, last: Option<Arc<str>>) {
        if let Ending::Answer(text) | Ending::Cut(text) = ending
            && !text.is_empty()
        {
            self.answer = Some(Arc::clone(text));
        }
        if let (Some(attempt), Some(last)) = (self.attempts.last_mut(), last) {
            attempt.output = Some(last);
        }
    }

    /// Stores the text of a partial reply. It is not an answer: a retry may still return one.
    pub(super) fn take_partial(&mut self, pass: u32, ending: &Ending) {
        if let Ending::Answer(text) | Ending::Cut(text) = ending {
            self.partial = Some(PartialReply { pass, text: Arc::clone(text) });
        }
    }

    /// The final answer, else the text of a partial reply.
    pub(super) fn answer_or_partial(&self) -> Option<Arc<str>> {
        self.answer.clone().or_else(|| self.partial.as_ref().map(|partial| Arc::clone(&partial.text)))
    }

    /// The text of a partial reply that no later reply replaced.
    pub(super) fn broken_off(&self) -> Option<&Arc<str>> {
        let is_last = |partial: &&PartialReply| partial.pass as usize > self.passes.len();
        self.partial.as_ref().filter(is_last).map(|partial| &partial.text)
    }

    /// The last output of any attempt.
    pub(super) fn last_output(&self) -> Option<Output> {
        self.attempts.iter().rev().find_map(|attempt| {
            let value = attempt.output.clone()?;
            Some(Output { value, valid: attempt.state == AttemptState::Valid })
        })
    }

    /// Why the last rejected output was rejected.
    pub(super) fn last_rejection(&self) -> Option<Rejection> {
        self.attempts.iter().rev().find_map(|attempt| match &attempt.state {
            AttemptState::Rejected(rejection) => Some(rejection.clone()),
            AttemptState::Open | AttemptState::Ends | AttemptState::Valid => None,
        })
    }
}

/// The citations of a section that are faults: of evidence that does not exist, and in a section that must cite also of
/// evidence that failed. A bracket that the work item or a result holds as it is written is a quotation.
fn bad_citations(
    section: &Section,
    spec: &RunSpec,
    knowledge: &Knowledge,
    started: &Started,
) -> BTreeSet<EvidenceId> {
    let declared = spec.sections().iter().find(|declared| declared.id == section.id);
    let must_cite = declared.is_some_and(|declared| declared.cite != Cite::No);
    let is_bad =
        |id: &EvidenceId| section.bad_citations.contains(id) && (must_cite || knowledge.find(*id).is_none());
    if !section.bad_citations.iter().any(is_bad) {
        return BTreeSet::new();
    }
    let texts = || {
        let item = &started.item;
        let results = knowledge.evidence.iter().map(|it| it.observation.text());
        [&item.title, &item.full].into_iter().chain(results)
    };
    let mut quoted = BTreeMap::new();
    let mut bad = BTreeSet::new();
    for (bracket, ids) in cited_in(&section.body) {
        let mut ids = ids.into_iter().filter(is_bad).peekable();
        if ids.peek().is_none() {
            continue;
        }
        let is_quoted = || texts().any(|text| text.contains(bracket));
        if !*quoted.entry(bracket).or_insert_with(is_quoted) {
            bad.extend(ids);
        }
    }
    bad
}

/// One attempt at an output: its passes, its last output and its state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// Its first pass, from 1.
    pub from_pass: u32,
    /// Its last output, as the model wrote it. `None`: there is none yet.
    pub output: Option<Arc<str>>,
    /// Its state.
    pub state: AttemptState,
}

/// The state of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AttemptState {
    /// Its passes continue.
    Open,
    /// Its output is validated once its calls have settled.
    Ends,
    /// Its output was rejected, for this reason.
    Rejected(Rejection),
    /// Its output passed validation.
    Valid,
}

/// A main call whose reply was read, as far as later prompts need it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassRecord {
    /// The pass, from 1.
    pub pass: u32,
    /// Whether it was the final pass.
    pub final_pass: bool,
    /// The reply's text as received.
    pub reply: Arc<str>,
    /// The provider's own turn as JSON, where it must go back unchanged. `None`: it is made from the text.
    pub raw: Option<Arc<str>>,
    /// How many results its prompt showed.
    pub evidence_seen: u32,
    /// How many of its calls were counted and not read, beyond `limits.requested_calls`.
    pub unread_calls: u32,
    /// How many actions its prompt listed as executed.
    pub actions_seen: u32,
    /// Ids of the sections that it changed.
    pub changed: Vec<Arc<str>>,
    /// Its visible reasoning, where the provider requires that back. `None` otherwise.
    pub reasoning: Option<Arc<str>>,
    /// Ids of those changed sections that it removed.
    pub removed: Vec<Arc<str>>,
    /// The tier that replied.
    pub tier: Tier,
    /// Whether its prompt showed evidence that no pass before had seen.
    pub fresh: bool,
    /// The stated confidence, or the one of the repaired contract.
    pub confidence: Confidence,
    /// The model's reason for it. Empty if it gave none.
    pub confidence_reason: Arc<str>,
    /// When its reply was read, since the start of the run.
    pub at: Millis,
    /// Where the reply, or the reply that repaired its contract, was cut at its output limit. `None`: neither was.
    pub cut: Option<CutReply>,
    /// The measured level of its confidence, as evals found it. `None`: the stated one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<Calibrated>,
}

impl PassRecord {
    /// The confidence by which the gate ends a run: the measured one, else the stated one.
    pub fn counted(&self) -> Confidence {
        self.calibrated.map_or(self.confidence, |it| it.measured)
    }

    /// The pass as the outcome reports it.
    pub(super) fn summary(&self) -> PassSummary {
        PassSummary {
            pass: self.pass,
            final_pass: self.final_pass,
            tier: self.tier,
            confidence: self.confidence,
            confidence_reason: Arc::clone(&self.confidence_reason),
            changed: self.changed.clone(),
            at: self.at,
            measured: self.calibrated.map(|it| it.measured),
        }
    }
}

/// A reply that was cut at its output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CutReply {
    /// How far it got.
    pub written: CutExtent,
    /// The output tokens that its call was granted.
    pub granted: u64,
}

/// A pass that was granted to revise an answer at high confidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Revision {
    pub(super) pass: u32,
    /// The required parts that were missing.
    pub(super) missing: Vec<Arc<str>>,
}

/// Appends the sections of the next try to those of earlier tries, without duplicates.
pub(super) fn with_new(mut sections: Vec<Arc<str>>, next: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let known: BTreeSet<Arc<str>> = sections.iter().map(Arc::clone).collect();
    sections.extend(next.into_iter().filter(|id| !known.contains(id)));
    sections
}
