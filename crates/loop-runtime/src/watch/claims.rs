//! The checkable values of a document, for programs and people.

use loop_claims::{Claim, ClaimTotals, Grounding};
use loop_core::reply::Document;
use schemars::JsonSchema;
use serde::Serialize;

/// A value of the document, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClaimReport {
    /// The section's id.
    pub section: String,
    /// The sentence, as written.
    pub sentence: String,
    /// The value, as written.
    pub value: String,
    /// `number`, `quantity`, `money`, `percentage`, `date`, `time`, `id`, `host`, `email`, `version`, `quote`, `name` or
    /// `absence`.
    pub kind: String,
    /// `grounded`: in the cited evidence. `elsewhere`: only in other evidence or in the work item. `ungrounded`: nowhere.
    pub state: String,
    /// The evidence that has it, for example `E1`. `E0` is the work item. Empty if it was found nowhere.
    pub evidence: Vec<String>,
    /// How it results from the evidence, for example `sum of amount_usd`. Absent if it is copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
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
            formula: claim.formula.as_ref().map(ToString::to_string),
        }
    }
}

/// How many values of a document were found where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClaimTotalsReport {
    /// In the evidence that their sentence cites.
    pub grounded: u32,
    /// Only in other evidence or in the work item.
    pub elsewhere: u32,
    /// Nowhere.
    pub ungrounded: u32,
}

impl ClaimTotalsReport {
    /// The totals of these claims.
    pub fn of(claims: &[Claim]) -> Self {
        let ClaimTotals { grounded, elsewhere, ungrounded } = ClaimTotals::of(claims);
        Self { grounded, elsewhere, ungrounded }
    }
}

/// The document with a mark behind each value that is in no evidence.
pub fn marked(document: &Document, claims: &[Claim]) -> Document {
    let mut document = document.clone();
    for section in &mut document.sections {
        let of_section =
            claims.iter().filter(|it| it.section == section.id && it.state == Grounding::Ungrounded);
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

/// What is written behind a value that is in no evidence.
const MARK: &str = " [?]";
