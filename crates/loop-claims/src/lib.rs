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
mod run;
mod sentence;
mod source;
mod stated;
mod value;
mod words;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

pub use run::{lacks, of_document, of_outcome, of_run};

use loop_core::reply::{Document, Section};
use loop_core::types::{Evidence, EvidenceId, Locale, Status, WorkItem};

use crate::find::{Answer, Context, Wrong, copied, judge, may_be_named};
use crate::sentence::sentences;
use crate::source::{Patterns, Source};
use crate::value::{Amount, Day};
use crate::stated::{Item, Read, Stated, Texts};

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
    /// A name of more than one word with capitals.
    Name,
    /// That there is none of something.
    Absence,
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
    /// Where it is in the text of the first of `evidence`, in bytes. `None`: in its data, or it is not a copy.
    pub place: Option<Range<usize>>,
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

/// Sections, or several versions of one, that are read against the same evidence: each piece of it is read once.
#[derive(Debug)]
pub struct Reader {
    sections: Vec<(Arc<str>, Arc<str>, Vec<Read>)>,
    sources: BTreeMap<EvidenceId, Source>,
    today: Day,
}

impl Reader {
    /// Reads sections and sources.
    pub fn new(sections: &[&Section], sources: ClaimSources<'_>) -> Self {
        let ClaimSources { evidence, item, unix_ms, utc_offset, locale } = sources;
        let mut texts = Texts::default();
        let read = |section: &&Section| {
            let sentences = sentences(&section.body);
            let read = sentences.iter().map(|sentence| stated::read(&section.body, sentence, locale, &mut texts));
            (Arc::clone(&section.id), Arc::clone(&section.body), read.collect::<Vec<_>>())
        };
        let sections: Vec<_> = sections.iter().map(read).collect();
        let mut read = BTreeMap::new();
        if sections.iter().any(|(.., sentences)| sentences.iter().any(|it| !it.items.is_empty())) {
            let patterns = Patterns::new(texts.list);
            let start = i64::try_from(unix_ms / 1_000).ok();
            let text = format!("{}\n{}\n{}", item.id, item.title, item.full);
            read.insert(EvidenceId::ITEM, Source::read(&text, None, &patterns, start));
            for evidence in evidence.iter().filter(|it| it.observation.status.is_citable()) {
                let observation = &evidence.observation;
                let text = observation.text();
                let data: Option<Json> = match observation.data.as_text() {
                    Some(text) if **text == *observation.markdown => None,
                    _ => serde_json::from_str(&observation.data).ok(),
                };
                let mut source = Source::read(text, data.as_ref(), &patterns, start);
                source.is_empty = observation.status == Status::Empty || source.is_empty;
                read.insert(evidence.id, source);
            }
        }
        let minutes = i64::try_from(unix_ms / 60_000).unwrap_or(0) + i64::from(utc_offset);
        Self { sections, sources: read, today: Day::of_number(minutes.div_euclid(1_440)) }
    }

    /// The values of a section, by its number in the order in which they were given. `is_known`: the evidence that there
    /// was when it was written.
    pub fn claims(&self, section: usize, is_known: impl Fn(EvidenceId) -> bool) -> Vec<Claim> {
        let Some((id, body, sentences)) = self.sections.get(section) else { return Vec::new() };
        let known: BTreeMap<EvidenceId, &Source> =
            self.sources.iter().filter(|(id, _)| is_known(**id)).map(|(id, source)| (*id, source)).collect();
        let currencies: HashSet<&'static str> = known.values().flat_map(|source| &source.currencies).copied().collect();
        let mut stated: Vec<Amount> = Vec::new();
        let mut claims = Vec::new();
        for sentence in sentences {
            let text: Arc<str> = body.get(sentence.range.clone()).unwrap_or_default().into();
            let spans = sentence.spans();
            let amounts: Vec<Amount> = sentence.items.iter().filter_map(Item::amount).copied().collect();
            let before = stated.len();
            for item in &sentence.items {
                let behind = amounts.get(stated.len() + 1 - before..).unwrap_or_default();
                let found = finding(item, sentence, &known, &Around { stated: &stated, behind, spans: &spans, currencies: &currencies, today: self.today });
                stated.extend(item.amount());
                let Some(found) = found else { continue };
                let at = sentence.range.start + item.range.start..sentence.range.start + item.range.end;
                claims.push(Claim {
                    section: Arc::clone(id),
                    sentence: Arc::clone(&text),
                    value: body.get(at.clone()).unwrap_or_default().into(),
                    at,
                    kind: item.kind,
                    state: found.state,
                    evidence: found.evidence,
                    why: found.why.into(),
                    wrong_citation: found.wrong_citation,
                    place: found.place,
                });
            }
        }
        claims
    }
}

/// What was found out about a value.
struct Finding {
    state: Grounding,
    evidence: Vec<EvidenceId>,
    why: String,
    wrong_citation: bool,
    place: Option<Range<usize>>,
}

impl Finding {
    fn new(state: Grounding, evidence: Vec<EvidenceId>, why: impl Into<String>) -> Self {
        Self { state, evidence, why: why.into(), wrong_citation: false, place: None }
    }
}

/// What the document says around a value.
struct Around<'a> {
    stated: &'a [Amount],
    behind: &'a [Amount],
    spans: &'a [f64],
    currencies: &'a HashSet<&'static str>,
    /// The day on which the run started.
    today: Day,
}

/// What the evidence says of a value of a sentence. `None`: it is no value after all.
fn finding(
    item: &Item,
    sentence: &Read,
    known: &BTreeMap<EvidenceId, &Source>,
    around: &Around<'_>,
) -> Option<Finding> {
    let Around { stated, behind, spans, currencies, today } = *around;
    let ids = sentence.cited(item.range.end);
    let cited: Vec<(EvidenceId, &Source)> = ids.iter().filter_map(|id| Some((*id, *known.get(id)?))).collect();
    let of_cited: HashSet<&'static str> = cited.iter().flat_map(|(_, source)| &source.currencies).copied().collect();
    let currencies = if of_cited.is_empty() { currencies } else { &of_cited };
    let is_foreign = matches!(&item.stated, Stated::Amount(Amount { currency: Some(code), .. }) if !may_be_named(code, currencies));
    let has = |(id, source): &(EvidenceId, &Source)| if is_foreign { None } else { copied(&item.stated, source).map(|place| (*id, place)) };
    let mut copies = cited.iter().filter_map(has);
    if let Some((first, place)) = copies.next() {
        let evidence = std::iter::once(first).chain(copies.map(|(id, _)| id)).collect();
        return Some(Finding { place, ..Finding::new(Grounding::Found, evidence, "") });
    }
    let not_checked = |why: &str| Some(Finding::new(Grounding::NotChecked, Vec::new(), why));
    let is_named = matches!(item.stated, Stated::Name { .. } | Stated::Id { .. });
    let elsewhere: Vec<EvidenceId> =
        known.iter().map(|(id, source)| (*id, *source)).filter_map(|it| has(&it)).map(|(id, _)| id).collect();
    // Whom and what a work item is about may be the subject of any sentence.
    if is_named && !elsewhere.is_empty() {
        return Some(Finding::new(Grounding::Found, elsewhere, "not in the cited evidence"));
    }
    if cited.is_empty() {
        return match elsewhere.is_empty() {
            true => not_checked("nothing is cited for it"),
            false => Some(Finding::new(Grounding::Found, elsewhere, "nothing is cited for it")),
        };
    }
    if matches!(&item.stated, Stated::Amount(amount) if amount.in_words) {
        return not_checked("a number in words");
    }
    if is_named && !sentence.cites {
        return not_checked("nothing is cited for it");
    }
    if matches!(&item.stated, Stated::Day(day) if *day == today || Day { year: today.year, ..*day } == today) {
        return not_checked("the day of the run");
    }
    let sources: Vec<&Source> = cited.iter().map(|(_, source)| *source).collect();
    let ids: Vec<EvidenceId> = cited.iter().map(|(id, _)| *id).collect();
    match judge(&item.stated, &Context { cited: &sources, stated, behind, spans, currencies }) {
        Answer::Computed => Some(Finding::new(Grounding::Found, ids, "computed")),
        Answer::Copied(place) => Some(Finding { place, ..Finding::new(Grounding::Found, ids, "") }),
        Answer::Unknown(why) => not_checked(why),
        Answer::Wrong(wrong) => {
            let is_short = item.amount().is_some_and(|it| it.is_bare() && it.digits < 3);
            if !elsewhere.is_empty() && is_short {
                return not_checked("a small number that other evidence has");
            }
            if !elsewhere.is_empty() {
                let why = "other evidence has it";
                return Some(Finding { wrong_citation: true, ..Finding::new(Grounding::Contradicted, elsewhere, why) });
            }
            let why = match wrong {
                Wrong::Unit(says) => format!("another unit: {says}"),
                Wrong::Currency(says) => format!("another currency: {says}"),
                Wrong::Other(says) => format!("the evidence says: {says}"),
                Wrong::Nowhere => "in no evidence".to_owned(),
            };
            Some(Finding::new(Grounding::Contradicted, ids, why))
        }
    }
}
