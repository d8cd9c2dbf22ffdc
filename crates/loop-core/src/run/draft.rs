//! The draft: the answer so far, pass by pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::Written;
use crate::reply::{Document, Ending};
use crate::run::knowledge::Knowledge;
use crate::run::outcome::{Output, PassSummary, Rejection};
use crate::spec::{Cite, RunSpec, SectionSpec};
use crate::types::{Confidence, Millis, Tier};

/// What the replies returned: the document, an answer, attempts at an output.
///
/// Passes are numbered from 1 on without a gap. What a run says of its confidence is what its last pass says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Draft {
    pub(super) passes: Vec<PassRecord>,
    pub(super) document: Document,
    /// The passes that were granted to revise an answer, and what was missing then.
    pub(super) revisions: Vec<Revision>,
    pub(super) attempts: Vec<Attempt>,
    /// The final answer of a conversation.
    pub(super) answer: Option<Arc<str>>,
    /// What came of a reply that failed midway. It is not an answer: one may still be requested.
    pub(super) partial: Option<Partial>,
}

/// What came of a reply that failed midway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Partial {
    /// The pass that it would have been.
    pub(super) pass: u32,
    pub(super) text: Arc<str>,
}

impl Draft {
    /// What the last pass said of its confidence.
    pub(super) fn confidence(&self) -> Confidence {
        self.passes.last().map_or(Confidence::Unknown, |pass| pass.confidence)
    }

    /// Why it said so.
    pub(super) fn confidence_reason(&self) -> Arc<str> {
        self.passes.last().map_or_else(|| "".into(), |pass| Arc::clone(&pass.confidence_reason))
    }

    /// How many observations the last pass's prompt showed.
    pub(super) fn evidence_seen(&self) -> u32 {
        self.passes.last().map_or(0, |pass| pass.evidence_seen)
    }

    /// What the domain demands and the document does not have yet: required sections, citations and what they cite,
    /// required tools.
    pub(super) fn missing(&self, spec: &RunSpec, knowledge: &Knowledge) -> Vec<Arc<str>> {
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
                // One that is sound does not vouch for the others.
                Some(section) if *cite != Cite::No => {
                    let bad: Vec<String> =
                        section.bad_citations().iter().map(|id| format!("[{id}]")).collect();
                    if !bad.is_empty() {
                        missing.push(format!("evidence for {} in section `{id}`", bad.join(", ")).into());
                    }
                }
                None | Some(_) => {}
            }
        }
        missing.extend(knowledge.unobserved(spec).map(|tool| Arc::from(format!("a result of `{tool}`"))));
        missing
    }

    /// What was missing when this pass was granted to repair the answer before it.
    pub(super) fn revisions(&self, pass: u32) -> Option<&[Arc<str>]> {
        let granted = self.revisions.iter().find(|revisions| revisions.pass == pass);
        granted.map(|revisions| revisions.missing.as_slice())
    }

    /// Keeps what a reply ends with: an answer, or the last output.
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

    /// Keeps what came of a reply that failed midway. It is not an answer: one may still be requested.
    pub(super) fn take_partial(&mut self, pass: u32, ending: &Ending) {
        if let Ending::Answer(text) | Ending::Cut(text) = ending {
            self.partial = Some(Partial { pass, text: Arc::clone(text) });
        }
    }

    /// The final answer; without one, what came of a reply that failed midway.
    pub(super) fn answer_or_partial(&self) -> Option<Arc<str>> {
        self.answer.clone().or_else(|| self.partial.as_ref().map(|partial| Arc::clone(&partial.text)))
    }

    /// What came of a reply that broke off and that no other has taken the place of.
    pub(super) fn broken_off(&self) -> Option<&Arc<str>> {
        let is_last = |partial: &&Partial| partial.pass as usize > self.passes.len();
        self.partial.as_ref().filter(is_last).map(|partial| &partial.text)
    }

    /// The last output there is, from whichever attempt.
    pub(super) fn last_output(&self) -> Option<Output> {
        self.attempts.iter().rev().find_map(|attempt| {
            let value = attempt.output.clone()?;
            Some(Output { value, valid: attempt.state == AttemptState::Valid })
        })
    }

    /// Why the last output that was rejected was.
    pub(super) fn last_rejection(&self) -> Option<Rejection> {
        self.attempts.iter().rev().find_map(|attempt| match &attempt.state {
            AttemptState::Rejected(rejection) => Some(rejection.clone()),
            AttemptState::Open | AttemptState::Ends | AttemptState::Valid => None,
        })
    }
}

/// One attempt at an output: its passes, and what became of it.
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
    pub cut: Option<Cut>,
}

impl PassRecord {
    /// What the outcome tells of it.
    pub(super) fn summary(&self) -> PassSummary {
        PassSummary {
            pass: self.pass,
            final_pass: self.final_pass,
            tier: self.tier,
            confidence: self.confidence,
            confidence_reason: Arc::clone(&self.confidence_reason),
            changed: self.changed.clone(),
            at: self.at,
        }
    }
}

/// A reply that was cut at its output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cut {
    /// How far it got.
    pub written: Written,
    /// The output tokens that its call was granted.
    pub granted: u64,
}

/// A pass that was granted to revise an answer at high confidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Revision {
    pub(super) pass: u32,
    /// What was demanded and not there.
    pub(super) missing: Vec<Arc<str>>,
}

/// The sections that tries before returned, and behind them those of the next that are not among them.
pub(super) fn with_new(mut sections: Vec<Arc<str>>, next: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let known: BTreeSet<Arc<str>> = sections.iter().map(Arc::clone).collect();
    sections.extend(next.into_iter().filter(|id| !known.contains(id)));
    sections
}
