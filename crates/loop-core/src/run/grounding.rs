//! The values of the document that are not in the evidence that they cite.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::claims::{Claim, ClaimSources, Grounding, claims};
use crate::reply::{Document, citations};
use crate::run::event::Started;
use crate::run::outcome::Outcome;
use crate::spec::{GroundingRule, RunSpec};
use crate::types::Evidence;

/// The checkable values of a document, without those of sections whose values are not looked for.
pub(super) fn claims_of(
    document: &Document,
    spec: &RunSpec,
    evidence: &[Evidence],
    started: &Started,
) -> Vec<Claim> {
    claims_where(document, spec, evidence, started, GroundingRule::looks)
}

fn claims_where(
    document: &Document,
    spec: &RunSpec,
    evidence: &[Evidence],
    started: &Started,
    reads: fn(GroundingRule) -> bool,
) -> Vec<Claim> {
    let read = document.sections.iter().filter(|it| reads(spec.grounding_of(&it.id)));
    let sections: Vec<_> = read.cloned().collect();
    if sections.is_empty() {
        return Vec::new();
    }
    let Started { item, unix_ms, utc_offset, .. } = started;
    let (unix_ms, utc_offset, locale) = (*unix_ms, *utc_offset, spec.gate.locale);
    claims(&Document { sections }, ClaimSources { evidence, item, unix_ms, utc_offset, locale })
}

/// A line for each section that demands evidence, with its values that are in no evidence, and another with those whose
/// sentence cites other evidence than what has them.
pub(super) fn ungrounded(
    document: &Document,
    spec: &RunSpec,
    evidence: &[Evidence],
    started: &Started,
) -> Vec<Arc<str>> {
    let mut values: BTreeMap<(Arc<str>, Grounding), Vec<String>> = BTreeMap::new();
    for claim in claims_where(document, spec, evidence, started, |rule| rule == GroundingRule::Demand) {
        let shown = match claim.state {
            Grounding::Grounded => continue,
            Grounding::Ungrounded => format!("\"{}\"", claim.value),
            // What a sentence without a citation states, it states of no evidence.
            Grounding::Elsewhere if citations(&claim.sentence).is_empty() => continue,
            Grounding::Elsewhere => {
                let has: Vec<String> = claim.evidence.iter().map(|id| format!("[{id}]")).collect();
                format!("{} for \"{}\"", has.join(" or "), claim.value)
            }
        };
        let of_section = values.entry((claim.section, claim.state)).or_default();
        if !of_section.contains(&shown) {
            of_section.push(shown);
        }
    }
    let line = |((section, state), values): ((Arc<str>, Grounding), Vec<String>)| {
        let values = values.join(", ");
        match state {
            Grounding::Elsewhere => format!("the right citation, {values}, in section `{section}`").into(),
            Grounding::Grounded | Grounding::Ungrounded => {
                format!("evidence for the ungrounded {values} in section `{section}`").into()
            }
        }
    };
    values.into_iter().map(line).collect()
}

impl Outcome {
    /// The checkable values of the document, each with where it is found. `spec` and `started` are those of the run. Without
    /// the values of sections with `grounding = off`.
    pub fn claims(&self, spec: &RunSpec, started: &Started) -> Vec<Claim> {
        claims_of(&self.document, spec, &self.evidence, started)
    }
}
