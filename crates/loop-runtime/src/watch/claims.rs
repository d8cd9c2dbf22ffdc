//! The checkable values of a document, for programs and people.

use loop_claims::{Claim, ClaimTotals, Grounding};
use loop_core::reply::Document;
use schemars::JsonSchema;
use serde::Serialize;

/// A value of the document, and what was found out about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClaimReport {
    /// The section's id.
    pub section: String,
    /// The sentence, as written.
    pub sentence: String,
    /// The value, as written.
    pub value: String,
    /// `number`, `quantity`, `money`, `percentage`, `date`, `time`, `id`, `host`, `email`, `version`, `quote`, `name` or
    /// `absence` or `action`.
    pub kind: String,
    /// `found`: in the cited evidence, or computed from it. `contradicted`: the evidence has another value, or no
    /// evidence has it. `not_checked`: not decided.
    pub state: String,
    /// The evidence that has it, or that says otherwise, for example `E1`. `E0` is the work item. Empty if there is none.
    pub evidence: Vec<String>,
    /// What the evidence says instead, how it was computed, or why it was not checked. Absent for a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl ClaimReport {
    /// The report of a claim.
    pub fn new(claim: &Claim) -> Self {
        Self {
            section: claim.section.to_string(),
            sentence: claim.sentence.to_string(),
            value: claim.value.to_string(),
            kind: claim.kind.name().to_owned(),
            state: claim.state.name().to_owned(),
            evidence: claim.evidence.iter().map(ToString::to_string).collect(),
            why: Some(claim.why.to_string()).filter(|why| !why.is_empty()),
        }
    }
}

/// How many values of a document there are of each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClaimTotalsReport {
    /// In the cited evidence, or computed from it.
    pub found: u32,
    /// Against the evidence.
    pub contradicted: u32,
    /// Neither.
    pub not_checked: u32,
}

impl ClaimTotalsReport {
    /// The totals of these claims.
    pub fn of(claims: &[Claim]) -> Self {
        let ClaimTotals { found, contradicted, not_checked } = ClaimTotals::of(claims);
        Self { found, contradicted, not_checked }
    }
}

/// The document with a mark behind each value that is contradicted.
pub fn marked(document: &Document, claims: &[Claim]) -> Document {
    let mut document = document.clone();
    for section in &mut document.sections {
        let of_section =
            claims.iter().filter(|it| it.section == section.id && it.state == Grounding::Contradicted);
        let mut ends: Vec<usize> = of_section.map(|claim| claim.at.end).collect();
        ends.sort_unstable();
        ends.dedup();
        if ends.is_empty() {
            continue;
        }
        let mut body = String::with_capacity(section.body.len() + ends.len() * MARK.len());
        let mut from = 0;
        for end in ends {
            body.push_str(section.body.get(from..end).unwrap_or_default());
            body.push_str(MARK);
            from = end;
        }
        body.push_str(section.body.get(from..).unwrap_or_default());
        section.body = body.into();
    }
    document
}

/// What is written behind a value that is contradicted.
const MARK: &str = " [?]";
