//! Whether what a document states is in the evidence that it cites.
//!
//! A sentence has *checkable values*: numbers with units, money, percentages, days, times, ids, host names, e-mail
//! addresses, versions, quoted texts, names of more than one word, and statements that something does not exist. This crate
//! reads them, and looks for each in the cited evidence, in every form in which the same value can be written. It reads the
//! document, the evidence, the work item and the start of the run.
//!
//! It does not judge a sentence. A sentence without such a value is neither grounded nor ungrounded, and a value that
//! is in the evidence may still be used for something that the evidence does not say. It asks no model and sends no
//! text anywhere.

mod absence;
mod amounts;
mod asked;
mod chunk;
mod cited;
mod date;
mod days;
mod decimal;
mod derive;
mod field;
mod fields;
mod filter;
mod formula;
mod json;
mod known;
mod lists;
mod locale;
mod mates;
mod name;
mod number_word;
mod operations;
mod place;
mod places;
mod priced;
mod reader;
mod records;
mod results;
mod run;
mod scan;
mod search;
mod sentence;
mod span;
mod stems;
mod steps;
#[cfg(test)]
mod steps_tests;
mod table;
mod unit;
mod value;
mod wanted;
mod weak;
mod word;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use formula::Formula;
pub use run::{lacks, of_document, of_outcome, of_run};
pub use search::{ClaimSearch, FoundClaim};
pub use value::ValueKind;

use loop_core::reply::Document;
use loop_core::types::{Evidence, EvidenceId, Locale, WorkItem};

/// Where a value of a document was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grounding {
    /// In the evidence that the sentence cites, or it results from it by the named formula.
    Grounded,
    /// Only in other evidence, or in the work item.
    Elsewhere,
    /// Nowhere.
    Ungrounded,
}

impl Grounding {
    /// The name in JSON, for example `grounded`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grounded => "grounded",
            Self::Elsewhere => "elsewhere",
            Self::Ungrounded => "ungrounded",
        }
    }
}

/// A checkable value of a document, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The id of the section.
    pub section: Arc<str>,
    /// The sentence, as written.
    pub sentence: Arc<str>,
    /// The value, as written.
    pub value: Arc<str>,
    /// Where the value is in the section's body, in bytes.
    pub at: Range<usize>,
    /// What the value is.
    pub kind: ValueKind,
    /// Where it was found.
    pub state: Grounding,
    /// The evidence that has it, in order: of the cited evidence if it is grounded, else of all. `E0` is the work item.
    pub evidence: Vec<EvidenceId>,
    /// How it results from the evidence. `None`: it is copied, or was found nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<Formula>,
}

/// How many claims there are of each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimTotals {
    /// In the cited evidence.
    pub grounded: u32,
    /// In other evidence only.
    pub elsewhere: u32,
    /// Nowhere.
    pub ungrounded: u32,
}

impl ClaimTotals {
    /// The totals of these claims.
    pub fn of(claims: &[Claim]) -> Self {
        let mut totals = Self::default();
        for claim in claims {
            match claim.state {
                Grounding::Grounded => totals.grounded += 1,
                Grounding::Elsewhere => totals.elsewhere += 1,
                Grounding::Ungrounded => totals.ungrounded += 1,
            }
        }
        totals
    }
}

/// What the values of a document are compared with.
#[derive(Clone, Copy, Debug)]
pub struct ClaimSources<'a> {
    /// The evidence of the run, in the order of its numbers.
    pub evidence: &'a [Evidence],
    /// The work item.
    pub item: &'a WorkItem,
    /// The start of the run, in milliseconds since 1970 (UTC): `yesterday` is the day before.
    pub unix_ms: u64,
    /// The offset from UTC that days and times are read by, in minutes.
    pub utc_offset: i32,
    /// How the document writes numbers and dates.
    pub locale: Locale,
}

/// The checkable values of a document, in its order, each with where it was found. The order of the evidence does not
/// matter.
pub fn claims(document: &Document, sources: ClaimSources<'_>) -> Vec<Claim> {
    let ClaimSources { evidence, item, unix_ms, utc_offset, locale } = sources;
    let mut search = ClaimSearch::new(unix_ms, utc_offset, locale);
    for section in &document.sections {
        search.add(section);
    }
    if search.is_empty() {
        return Vec::new();
    }
    search.look_in_item(item);
    evidence.iter().for_each(|evidence| search.look_in(evidence));
    let sections = 0..document.sections.len();
    sections.flat_map(|section| search.claims(section, |_| true)).map(|found| found.claim).collect()
}
