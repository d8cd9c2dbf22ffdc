//! The values of a run's document, and the problems that a check of them reports.

use loop_core::reply::Document;
use loop_core::run::{Cause, Lack, Started};
use loop_core::spec::GroundingRule;
use loop_core::{Evidence, Outcome, Run, RunSpec};

use crate::{Claim, ClaimSources, Grounding, claims};

/// The checkable values of the document so far, each with where it was found. Without those of sections with
/// `grounding = off`.
pub fn of_run(run: &Run) -> Vec<Claim> {
    of_document(run.document(), run.spec(), run.evidence(), run.started())
}

/// As [`of_run`], of an outcome. `spec` and `started` are those of the run.
pub fn of_outcome(outcome: &Outcome, spec: &RunSpec, started: &Started) -> Vec<Claim> {
    of_document(&outcome.document, spec, &outcome.evidence, started)
}

/// As [`of_run`], of a document and the evidence of a run.
pub fn of_document(
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
    claims(
        &Document { sections },
        ClaimSources { evidence, tools: &spec.tools, item, unix_ms, utc_offset, locale },
    )
}

/// The problems that a check of the document reports. In the sections that demand evidence, these are the values that
/// the evidence contradicts, and the values whose sentence cites other evidence than the one that has them.
pub fn lacks(run: &Run) -> Vec<Lack> {
    let demands = |rule| rule == GroundingRule::Demand;
    let claims = claims_where(run.document(), run.spec(), run.evidence(), run.started(), demands);
    let lack = |claim: Claim| {
        let cause = if claim.wrong_citation { Cause::WrongCitation } else { Cause::Contradicted };
        let Claim { section, sentence, value, evidence: place, .. } = claim;
        Lack { section, sentence, value, place, cause }
    };
    claims.into_iter().filter(|claim| claim.state == Grounding::Contradicted).map(lack).collect()
}
