//! Whether what a document states stands in the evidence that it cites.
//!
//! A sentence has *checkable values*: numbers with units, money, percentages, days, times, ids, host names, e-mail
//! addresses, versions, quoted texts, names of more than one word, and statements that something does not exist. This module
//! reads them, and looks for each in the cited evidence, in every form in which the same value can be written. It reads the
//! document, the evidence, the work item and the start of the run.
//!
//! It does not judge a sentence: one without such a value is neither grounded nor not, and a value that stands in the
//! evidence may still be used for something that the evidence does not say. It asks no model and sends no text anywhere.

mod absence;
mod amounts;
mod chunk;
mod cited;
mod date;
mod days;
mod decimal;
mod formula;
mod name;
mod priced;
mod reader;
mod records;
mod scan;
mod sentence;
#[cfg(test)]
mod steps_tests;
mod unit;
mod value;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use formula::Formula;
pub use value::ValueKind;

use crate::reply::{Document, Section};
use crate::types::{Evidence, EvidenceId, Locale, WorkItem};
use formula::{Operand, Operations};
use scan::{Context, Hits, Query};
use sentence::sentences;
use unit::Unit;
use value::{Found, Measured, Reads, Value, values, words};
use wanted::MAX_SAME;

/// Where a value of a document stands.
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

/// A checkable value of a document, and where it stands.
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
    /// Where it stands.
    pub state: Grounding,
    /// The evidence that has it, in order: of the cited evidence if it is grounded, else of all. `E0` is the work item.
    pub evidence: Vec<EvidenceId>,
    /// How it results from the evidence. `None`: it is copied, or stands nowhere.
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

/// The checkable values of a document, in its order, each with where it stands. The order of the evidence does not matter.
pub fn claims(document: &Document, sources: ClaimSources<'_>) -> Vec<Claim> {
    let mut asked = Asked::new(sources);
    for section in &document.sections {
        asked.section(section);
    }
    asked.answer(document)
}

/// The unit of a rate, where `per` and a unit follow a number.
fn rate(text: &str) -> Option<Unit> {
    let mut words = text.split_whitespace();
    words.next().filter(|word| matches!(*word, "per" | "pro" | "je" | "par" | "por"))?;
    Unit::named(words.next()?.trim_end_matches(|c: char| !c.is_alphanumeric()))
}

/// In how many bytes of its begin the subject of a sentence begins.
const SUBJECT: usize = 24;

/// The few words behind a value: a text without white space may be long.
fn begin_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(text.len().min(64))).unwrap_or_default()
}

/// Whether `of` and another number follow a number, as in `3 of the 12`. `text` is what follows the first.
fn is_part(text: &str) -> bool {
    let mut words = text.split_whitespace().take(4).skip_while(|word| *word == "out");
    let is_of = words.next().is_some_and(|word| matches!(word, "of" | "von" | "sur" | "de" | "des"));
    is_of && words.take(2).any(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// A value before it is looked for.
struct Candidate {
    section: usize,
    sentence: usize,
    found: Option<Found>,
    range: Range<usize>,
    /// What it rests on.
    cited: Arc<[EvidenceId]>,
}

/// A sentence with the operations that it names.
struct Stated {
    range: Range<usize>,
    named: Operations,
}

struct Asked<'a> {
    sources: ClaimSources<'a>,
    first_day: Option<i64>,
    query: Query,
    candidates: Vec<Candidate>,
    sentences: Vec<Stated>,
    sections: usize,
}

impl<'a> Asked<'a> {
    fn new(sources: ClaimSources<'a>) -> Self {
        let minutes = i64::try_from(sources.unix_ms / 60_000).ok();
        let first_day = minutes.map(|it| (it + i64::from(sources.utc_offset)).div_euclid(1_440));
        let first_year = first_day.and_then(date::Day::of_unix_days).and_then(|day| day.year);
        let query =
            Query { first_year, clock: sources.utc_offset, locale: sources.locale, ..Query::default() };
        Self { sources, first_day, query, candidates: Vec::new(), sentences: Vec::new(), sections: 0 }
    }

    fn section(&mut self, section: &Section) {
        for sentence in sentences(&section.body) {
            let text = section.body.get(sentence.range.clone()).unwrap_or_default();
            let folded_words = words(text);
            let named = Operations::of(text, folded_words.iter().map(AsRef::as_ref));
            let mut stems: BTreeSet<Box<str>> =
                folded_words.iter().map(|word| scan::same(absence::stem(word)).into()).collect();
            // Words of these scripts have no spaces between them.
            for (word, stem) in [("失敗", "failed"), ("成功", "success")] {
                if text.contains(word) {
                    stems.insert(stem.into());
                }
            }
            let stems = Arc::new(stems);
            let number = self.sentences.len();
            let groups = cited::groups(text);
            let cited_at = |end: usize| {
                let own = cited::of(&groups, end.saturating_sub(sentence.range.start));
                Arc::clone(own.unwrap_or(&sentence.cited))
            };
            let begin = sentence.range.start;
            let (readable, places) = (chunk::readable(text), chunk::places(text));
            let mut was_part = false;
            let place = |at: usize| begin + places.get(at).copied().unwrap_or(at);
            for found in values(&readable, self.sources.locale, self.sources.utc_offset, Reads::All) {
                // Advice says `today` too.
                if !sentence.cites && matches!(found.value, Value::RelativeDay(_)) {
                    continue;
                }
                let range = place(found.range.start)..place(found.range.end);
                let before = readable.get(..found.range.start).unwrap_or_default();
                // `As of 26 November 2026` says when it is written.
                let is_start = |day: date::Day| {
                    let first = self.first_day.and_then(date::Day::of_unix_days);
                    first.is_some_and(|first| (first.month, first.day) == (day.month, day.day))
                };
                if matches!(&found.value, Value::Day(day) if is_start(*day))
                    && ["as of ", "As of ", "Stand ", "Stand: "].iter().any(|words| before.ends_with(words))
                {
                    continue;
                }
                let behind = begin_of(readable.get(found.range.end..).unwrap_or_default());
                let is_part = is_part(behind);
                let noun = match &found.value {
                    Value::Amount { measured: Measured::Noun(noun), .. } => Some(absence::stem(noun).into()),
                    _ => None,
                };
                let at = self.candidates.len();
                if !self.query.wanted.add(at, &found.value, self.first_day) {
                    continue;
                }
                self.query.contexts.push(Context {
                    names_sum: named.sum,
                    names_count: named.count || was_part,
                    is_part,
                    rate: rate(behind),
                    stems: Arc::clone(&stems),
                    noun,
                });
                was_part = is_part;
                self.candidates.push(Candidate {
                    section: self.sections,
                    sentence: number,
                    found: Some(found),
                    cited: cited_at(range.end),
                    range,
                });
            }
            // Without a citation of its own it may be advice, or about the work itself: `no procedure was found`.
            for absence in absence::absences(&readable).into_iter().filter(|_| sentence.cites) {
                let range = place(absence.range.start)..place(absence.range.end);
                let at = self.candidates.len();
                let all = [Box::from("")];
                let nouns = if absence.nouns.is_empty() { &all[..] } else { &absence.nouns };
                let is_many = |noun| {
                    self.query.absent.get(noun).is_some_and(|same: &Vec<usize>| same.len() >= MAX_SAME)
                };
                if nouns.iter().any(is_many) {
                    continue;
                }
                if absence.nouns.is_empty() {
                    self.query.absent.entry("".into()).or_default().push(at);
                }
                for noun in absence.nouns {
                    self.query.absent.entry(noun).or_default().push(at);
                }
                self.query.contexts.push(Context::default());
                self.candidates.push(Candidate {
                    section: self.sections,
                    sentence: number,
                    found: None,
                    cited: cited_at(range.end),
                    range,
                });
            }
            self.sentences.push(Stated { range: sentence.range, named });
        }
        self.sections += 1;
    }

    fn answer(self, document: &Document) -> Vec<Claim> {
        if self.candidates.is_empty() {
            return Vec::new();
        }
        let mut places: Vec<BTreeMap<EvidenceId, Option<Formula>>> = Vec::new();
        places.resize_with(self.candidates.len(), BTreeMap::new);
        let mut note = |id: EvidenceId, hits: Hits| {
            for (number, formula) in hits {
                if let Some(place) = places.get_mut(number) {
                    place.insert(id, formula);
                }
            }
        };
        note(EvidenceId::ITEM, scan::item(&self.query, self.sources.item));
        for evidence in self.sources.evidence.iter().filter(|it| it.observation.status.is_citable()) {
            note(evidence.id, scan::evidence(&self.query, evidence));
        }
        let mut claims: Vec<Claim> = Vec::with_capacity(self.candidates.len());
        for (candidate, places) in self.candidates.iter().zip(places) {
            if let Some(claim) = self.claim(document, candidate, places) {
                claims.push(claim);
            }
        }
        self.compute(document, &mut claims);
        self.repeated(&mut claims);
        let mut numbered: Vec<(usize, Claim)> =
            self.candidates.iter().map(|it| it.section).zip(claims).collect();
        numbered.sort_by(|(a, one), (b, two)| (a, one.at.start).cmp(&(b, two.at.start)));
        numbered.into_iter().map(|(_, claim)| claim).collect()
    }

    fn claim(
        &self,
        document: &Document,
        candidate: &Candidate,
        places: BTreeMap<EvidenceId, Option<Formula>>,
    ) -> Option<Claim> {
        let section = document.sections.get(candidate.section)?;
        let sentence = self.sentences.get(candidate.sentence)?;
        // Whom the work item is about may be the subject of any sentence.
        let is_subject = candidate.range.start <= sentence.range.start + SUBJECT;
        let before = section.body.get(sentence.range.start..candidate.range.start).unwrap_or_default();
        let is_agent = ["by", "par", "por", "von", "durch"]
            .iter()
            .any(|word| before.trim_end().strip_suffix(word).is_some_and(|rest| rest.ends_with(' ')));
        let is_name = is_subject
            && !is_agent
            && candidate.found.as_ref().is_some_and(|it| it.value.kind() == ValueKind::Name);
        let of_item =
            Some(EvidenceId::ITEM).filter(|_| is_name && !candidate.cited.contains(&EvidenceId::ITEM));
        let cited = candidate.cited.iter().copied().chain(of_item);
        let mut cited: Vec<EvidenceId> = cited.filter(|id| places.contains_key(id)).collect();
        cited.sort_unstable();
        cited.dedup();
        let state = match (cited.is_empty(), places.is_empty()) {
            (false, _) => Grounding::Grounded,
            (true, false) => Grounding::Elsewhere,
            (true, true) => Grounding::Ungrounded,
        };
        let evidence: Vec<EvidenceId> =
            if cited.is_empty() { places.keys().copied().collect() } else { cited };
        let is_copied = evidence.iter().any(|id| matches!(places.get(id), Some(None)));
        let formula = evidence.iter().find_map(|id| places.get(id).cloned().flatten()).filter(|_| !is_copied);
        let part = |range: Range<usize>| Arc::from(section.body.get(range).unwrap_or_default());
        Some(Claim {
            section: Arc::clone(&section.id),
            sentence: part(sentence.range.clone()),
            value: part(candidate.range.clone()),
            at: candidate.range.clone(),
            kind: candidate.found.as_ref().map_or(ValueKind::Absence, |found| found.value.kind()),
            state,
            evidence,
            formula,
        })
    }

    /// Grounds an amount that an earlier sentence has computed.
    fn repeated(&self, claims: &mut [Claim]) {
        let mut computed: BTreeMap<String, (Vec<EvidenceId>, Option<Formula>)> = BTreeMap::new();
        for (candidate, claim) in self.candidates.iter().zip(claims) {
            let Some(Value::Amount { number, measured, .. }) = candidate.found.as_ref().map(|it| &it.value)
            else {
                continue;
            };
            let unit = if let Measured::Unit(unit) = measured { Some(unit) } else { None };
            let key = format!("{:?} {unit:?}", number.amount);
            match (claim.state, &claim.formula) {
                (Grounding::Grounded, Some(formula)) if formula.is_operation() => {
                    computed.entry(key).or_insert_with(|| (claim.evidence.clone(), Some(formula.clone())));
                }
                (Grounding::Ungrounded, _) => {
                    if let Some((evidence, formula)) = computed.get(&key) {
                        claim.state = Grounding::Grounded;
                        (claim.evidence, claim.formula) = (evidence.clone(), formula.clone());
                    }
                }
                _ => {}
            }
        }
    }

    /// Grounds what results from other amounts of its sentence; from those of the sentence before where it has none.
    fn compute(&self, document: &Document, claims: &mut [Claim]) {
        let mut before: Option<Range<usize>> = None;
        let mut from = 0;
        while let Some(first) = self.candidates.get(from) {
            let sentence = first.sentence;
            let to =
                from + self.candidates.iter().skip(from).take_while(|it| it.sentence == sentence).count();
            let own = self.compute_in(document, claims, from..to, sentence);
            let is_next = before
                .as_ref()
                .and_then(|it| self.candidates.get(it.start))
                .is_some_and(|it| it.section == first.section && it.sentence + 1 == sentence);
            if own == 0
                && let Some(before) = before.filter(|_| is_next)
            {
                self.compute_in(document, claims, before.start..to, sentence);
            }
            before = Some(from..to);
            from = to;
        }
    }

    /// The same of some candidates; only values of this sentence are grounded. Returns how many were.
    fn compute_in(
        &self,
        document: &Document,
        claims: &mut [Claim],
        within: Range<usize>,
        sentence: usize,
    ) -> usize {
        let Some(stated) = self.sentences.get(sentence) else { return 0 };
        let body = |it: &Candidate| document.sections.get(it.section).map_or("", |section| &*section.body);
        let numbers: Vec<usize> = within.collect();
        let group: Vec<(usize, &Candidate, &Found)> = numbers
            .iter()
            .filter_map(|at| self.candidates.get(*at).and_then(|it| Some((*at, it, it.found.as_ref()?))))
            .collect();
        let of_group: Vec<Operand<'_>> = group
            .iter()
            .enumerate()
            .map(|(n, (at, it, found))| Operand {
                value: &found.value,
                cited: &it.cited,
                is_grounded: claims.get(*at).is_some_and(|claim| claim.state == Grounding::Grounded),
                between: group
                    .get(n + 1)
                    .and_then(|(_, next, _)| body(it).get(it.range.end..next.range.start))
                    .unwrap_or_default(),
            })
            .collect();
        let mut grounded = 0;
        for (place, (formula, operands)) in formula::computed(&of_group, stated.named) {
            let Some((at, candidate, _)) = group.get(place) else { continue };
            if candidate.sentence != sentence {
                continue;
            }
            let of = operands.iter().filter_map(|place| claims.get(group.get(*place)?.0));
            let mut evidence: Vec<EvidenceId> = of.flat_map(|claim| claim.evidence.clone()).collect();
            evidence.sort_unstable();
            evidence.dedup();
            if let Some(claim) = claims.get_mut(*at) {
                (claim.state, claim.evidence, claim.formula) = (Grounding::Grounded, evidence, Some(formula));
                grounded += 1;
            }
        }
        grounded
    }
}
