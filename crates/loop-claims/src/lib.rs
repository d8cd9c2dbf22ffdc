//! Whether what a document states is in the evidence that it cites.
//!
//! A sentence has *values*: numbers with units, money, percentages, days, times, ids, quotations, names, and statements that
//! there is none of something. This crate reads them, and looks for each in the cited evidence. A value is *found*,
//! *contradicted*, or *not checked*: what takes a calendar, the grammar of a language or more arithmetic than a sum, a share
//! or a difference is not checked, and never counted against a document.
//!
//! It does not judge a sentence: a value that is in the evidence may still be used for something that the evidence does not
//! say. It asks no model and sends no text anywhere.

mod cited;
mod compute;
mod find;
mod fold;
mod reader;
mod record;
mod run;
mod sentence;
mod slip;
mod source;
mod stated;
mod table;
mod value;
mod words;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use loop_core::reply::{Document, Section};
use loop_core::spec::ToolSpec;
use loop_core::types::{Evidence, EvidenceId, Locale, WorkItem};

pub use reader::Reader;
pub use run::{lacks, of_document, of_outcome, of_run};

/// What a value of a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// A number without a unit: `port 443`, `3 jobs`.
    Number,
    /// A number with a unit: `42 GB`, `3 hours`.
    Quantity,
    /// An amount of a currency.
    Money,
    /// A percentage.
    Percentage,
    /// A day, a month of a year.
    Date,
    /// A time of day.
    Time,
    /// An id with digits in it: `INV-2044`, `web-1`.
    Id,
    /// A host name with digits in it, an address of the internet.
    Host,
    /// An e-mail address.
    Email,
    /// A version: `v1.2`, `1.2.3`.
    Version,
    /// A text of more than one word in quotation marks.
    Quote,
    /// A name: words with capitals. A single one counts where it does not begin a sentence.
    Name,
    /// That there is none of something.
    Absence,
    /// That an action happened: `was refunded`.
    Action,
}

impl ValueKind {
    /// The name in JSON, for example `quantity`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Quantity => "quantity",
            Self::Money => "money",
            Self::Percentage => "percentage",
            Self::Date => "date",
            Self::Time => "time",
            Self::Id => "id",
            Self::Host => "host",
            Self::Email => "email",
            Self::Version => "version",
            Self::Quote => "quote",
            Self::Name => "name",
            Self::Absence => "absence",
            Self::Action => "action",
        }
    }
}

/// What was found out about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grounding {
    /// It is in the evidence that the sentence cites, or results from it.
    Found,
    /// The cited evidence says otherwise, or nothing says it and nothing gives it.
    Contradicted,
    /// It cannot be said without a calendar, the grammar of a language or more arithmetic.
    NotChecked,
}

impl Grounding {
    /// The name in JSON, for example `not_checked`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Contradicted => "contradicted",
            Self::NotChecked => "not_checked",
        }
    }
}

/// A value of a document, and what was found out about it.
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
    /// What was found out.
    pub state: Grounding,
    /// The evidence that has it, or that says otherwise, in order. `E0` is the work item.
    pub evidence: Vec<EvidenceId>,
    /// Why it is in this state, for people: what the evidence says instead, how it was computed, what was not checked.
    /// Empty for a copy.
    pub why: Arc<str>,
    /// Whether other evidence than the cited one has it.
    pub wrong_citation: bool,
}

/// How many claims there are of each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimTotals {
    /// In the cited evidence, or computed from it.
    pub found: u32,
    /// Against the evidence.
    pub contradicted: u32,
    /// Neither.
    pub not_checked: u32,
}

impl ClaimTotals {
    /// The totals of these claims.
    pub fn of(claims: &[Claim]) -> Self {
        let mut totals = Self::default();
        for claim in claims {
            match claim.state {
                Grounding::Found => totals.found += 1,
                Grounding::Contradicted => totals.contradicted += 1,
                Grounding::NotChecked => totals.not_checked += 1,
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
    /// The tools of the run: which evidence is that of an effect.
    pub tools: &'a [ToolSpec],
    /// The work item.
    pub item: &'a WorkItem,
    /// The start of the run, in milliseconds since 1970 (UTC): what spans are counted to.
    pub unix_ms: u64,
    /// The offset from UTC that days and times are read by, in minutes.
    pub utc_offset: i32,
    /// How the document writes numbers and dates.
    pub locale: Locale,
}

/// The values of a document, in its order, each with what was found out about it.
pub fn claims(document: &Document, sources: ClaimSources<'_>) -> Vec<Claim> {
    let sections: Vec<&Section> = document.sections.iter().collect();
    let reader = Reader::new(&sections, sources);
    (0..sections.len()).flat_map(|section| reader.claims(section, |_| true)).collect()
}
