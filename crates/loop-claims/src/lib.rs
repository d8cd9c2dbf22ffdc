//! Checks the values of a document against the evidence that its sentences cite.
//!
//! A sentence has *values*: numbers with units, money, percentages, days, times, ids, quotations, names, and statements that
//! there is none of something. This crate reads them, and looks for each in the cited evidence, in every form in which the
//! same value can be written. A value is *found*, *contradicted*, or *not checked*: what takes a calendar, the grammar of a
//! language or more arithmetic than a sum, a share or a difference is not checked, and never counted against a document.
//!
//! # What it is not
//!
//! It is not a judge of sentences: a value that is in the evidence may still be used for something that the evidence does
//! not say. It makes no decision of a run: a driver reports what it found, and the core decides by that report. It asks no
//! model and sends no text anywhere.
//!
//! # A document
//!
//! ```
//! use loop_claims::{ClaimSources, Grounding, claims};
//! use loop_core::WorkItem;
//! use loop_core::reply::Document;
//! use loop_core::types::Locale;
//!
//! // The work item is evidence `E0`.
//! let item = WorkItem::new("T-1", "ticket", "Disk full", "The disk has 100 GB, and 2 GB are free.");
//! let document: Document = serde_json::from_str(r#"{"sections": [{"id": "findings", "heading": "Findings",
//!     "heading_text": "Findings", "emoji": "", "body": "Of 100 GB on the disk, 7 GB are free [E0].",
//!     "pass": 1, "at": 0, "evidence": [0], "known": true}]}"#)?;
//! let (evidence, tools, locale) = (&[], &[], Locale::En);
//! let sources = ClaimSources { evidence, tools, item: &item, unix_ms: 0, utc_offset: 0, locale };
//!
//! let found = claims(&document, sources);
//! let states: Vec<_> = found.iter().map(|claim| (&*claim.value, claim.state)).collect();
//! assert_eq!(states, [("100 GB", Grounding::Found), ("7 GB", Grounding::Contradicted)]);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # The items
//!
//! | item | what you find there |
//! |---|---|
//! | [`claims()`], [`ClaimSources`] | the values of any document, compared with these sources |
//! | [`Claim`], [`ValueKind`], [`Grounding`] | a value, its kind, whether the evidence supports it, and why |
//! | [`ClaimTotals`] | how many claims there are of each state |
//! | [`of_run`], [`of_outcome`], [`of_document`] | the claims of a run's document |
//! | [`lacks`] | the claims that fail the check of a document before a confident end |
//! | [`Reader`] | sections that are parsed once and compared several times, with the positions of their values |

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

/// The kind of a value in a sentence.
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
    /// A day, or a month of a year.
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
    /// The statement that there is none of something.
    Absence,
    /// The statement that an action happened: `was refunded`.
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

/// Whether the evidence supports a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grounding {
    /// The value is in the evidence that the sentence cites, or is computed from it.
    Found,
    /// The cited evidence has another value in its place, or no evidence has the value and it cannot be computed from
    /// any.
    Contradicted,
    /// Not decided, because that takes a calendar, the grammar of a language or more arithmetic.
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

/// A value of a document, and whether the evidence supports it.
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
    /// The kind of the value.
    pub kind: ValueKind,
    /// Whether the evidence supports it.
    pub state: Grounding,
    /// The evidence that has the value or contradicts it, in order. `E0` is the work item. Empty: none.
    pub evidence: Vec<EvidenceId>,
    /// Why it is in this state, for people: what the evidence says instead, how it was computed, what was not checked.
    /// Empty if the evidence has an exact copy.
    pub why: Arc<str>,
    /// Whether evidence other than the cited one has the value.
    pub wrong_citation: bool,
}

/// How many claims there are of each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimTotals {
    /// Values in the cited evidence, or computed from it.
    pub found: u32,
    /// Values that the evidence contradicts.
    pub contradicted: u32,
    /// Values that were not checked.
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
    /// The tools of the run. Their effects say which evidence is the result of an effect.
    pub tools: &'a [ToolSpec],
    /// The work item.
    pub item: &'a WorkItem,
    /// The start of the run, in milliseconds since 1970 (UTC). It is the day to which spans of time are counted.
    pub unix_ms: u64,
    /// The offset from UTC of the days and times in the texts, in minutes.
    pub utc_offset: i32,
    /// How the document writes numbers and dates.
    pub locale: Locale,
}

/// The values of a document, in its order, each with whether the evidence supports it.
pub fn claims(document: &Document, sources: ClaimSources<'_>) -> Vec<Claim> {
    let sections: Vec<&Section> = document.sections.iter().collect();
    let reader = Reader::new(&sections, sources);
    (0..sections.len()).flat_map(|section| reader.claims(section, |_| true)).collect()
}
