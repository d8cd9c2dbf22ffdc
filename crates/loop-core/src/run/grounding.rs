//! The values of the document that stand in no evidence.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::claims::{Claim, ClaimSources, Grounding, claims};
use crate::reply::Document;
use crate::run::event::Started;
use crate::run::outcome::Outcome;
use crate::spec::RunSpec;
use crate::types::Evidence;

/// The checkable values of a document, unless the spec does not look for them.
pub(super) fn claims_of(
    document: &Document,
    spec: &RunSpec,
    evidence: &[Evidence],
    started: &Started,
) -> Vec<Claim> {
    if !spec.gate.grounding.looks() {
        return Vec::new();
    }
    let (item, unix_ms, locale) = (&started.item, started.unix_ms, spec.gate.locale);
    claims(document, ClaimSources { evidence, item, unix_ms, locale })
}

/// A line for each section with values that stand nowhere.
pub(super) fn ungrounded(
    document: &Document,
    spec: &RunSpec,
    evidence: &[Evidence],
    started: &Started,
) -> Vec<Arc<str>> {
    let mut values: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    for claim in claims_of(document, spec, evidence, started) {
        if claim.state == Grounding::Ungrounded {
            let quoted = format!("\"{}\"", claim.value);
            let of_section = values.entry(claim.section).or_default();
            if !of_section.contains(&quoted) {
                of_section.push(quoted);
            }
        }
    }
    let line = |(section, values): (Arc<str>, Vec<String>)| {
        format!("evidence for the ungrounded {} in section `{section}`", values.join(", ")).into()
    };
    values.into_iter().map(line).collect()
}

impl Outcome {
    /// The checkable values of the document, each with where it stands. `spec` and `started` are those of the run. Empty with
    /// `grounding = off`.
    pub fn claims(&self, spec: &RunSpec, started: &Started) -> Vec<Claim> {
        claims_of(&self.document, spec, &self.evidence, started)
    }
}
