//! Compares the values of sections with the evidence of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use loop_core::reply::Section;
use loop_core::types::{Evidence, EvidenceId, Status};
use serde_json::Value as Json;

use crate::find::{Answer, Context, Mismatch, copied, judge, may_be_named};
use crate::fold::Folded;
use crate::sentence::sentences;
use crate::source::{Patterns, Source};
use crate::stated::{self, Needle, Phrase, Texts, ValueItem};
use crate::value::{Amount, Day};
use crate::words::WORDS;
use crate::{Claim, ClaimSources, Grounding};

/// Sections, or several versions of one, with the evidence that they are compared with. Each is parsed once.
#[derive(Debug)]
pub struct Reader {
    sections: Vec<Passage>,
    patterns: Patterns,
    sources: BTreeMap<EvidenceId, Source>,
    effects: Vec<Effect>,
    /// The day on which the run started.
    today: Day,
}

/// A call that was to change something.
#[derive(Debug)]
struct Effect {
    id: EvidenceId,
    status: Status,
    /// The words of the tool's name.
    words: Vec<Box<str>>,
}

/// A section and what it states.
#[derive(Debug)]
struct Passage {
    id: Arc<str>,
    body: Arc<str>,
    sentences: Vec<Phrase>,
    /// The number of its first value.
    first: usize,
}

impl Reader {
    /// Parses sections and sources. Evidence that may not be cited is left out.
    pub fn new(sections: &[&Section], sources: ClaimSources<'_>) -> Self {
        let ClaimSources { evidence, tools, item, unix_ms, utc_offset, locale } = sources;
        let minutes = i64::try_from(unix_ms / 60_000).unwrap_or(0) + i64::from(utc_offset);
        let today = Day::of_number(minutes.div_euclid(1_440));
        let mut texts = Texts::default();
        let mut first = 0;
        let stating = sections.iter().map(|section| {
            let of_body = sentences(&section.body);
            let read =
                of_body.iter().map(|sentence| stated::read(&section.body, sentence, locale, &mut texts));
            let sentences: Vec<Phrase> = read.collect();
            let number = first;
            first += sentences.iter().map(|it| it.items.len()).sum::<usize>();
            let (id, body) = (Arc::clone(&section.id), Arc::clone(&section.body));
            Passage { id, body, sentences, first: number }
        });
        let sections: Vec<Passage> = stating.collect();
        let patterns = Patterns::new(&texts.list);
        let effect = |evidence: &Evidence| {
            let tool =
                tools.iter().find(|tool| tool.name == evidence.tool).filter(|tool| !tool.effect.is_read())?;
            let words =
                Folded::of(&tool.name).text.split(|c: char| !c.is_alphanumeric()).map(Into::into).collect();
            Some(Effect { id: evidence.id, status: evidence.observation.status, words })
        };
        let effects = evidence.iter().filter_map(effect).collect();
        let mut sources = BTreeMap::new();
        if first > 0 {
            let start = i64::try_from(unix_ms / 1_000).ok();
            let text = format!("{}\n{}\n{}", item.id, item.title, item.full);
            sources.insert(EvidenceId::ITEM, Source::read(&text, None, &patterns, start));
            for evidence in evidence.iter().filter(|it| it.observation.status.is_citable()) {
                let observation = &evidence.observation;
                let data: Option<Json> = match observation.data.as_text() {
                    Some(text) if **text == *observation.markdown => None,
                    _ => serde_json::from_str(&observation.data).ok(),
                };
                let mut source = Source::read(observation.text(), data.as_ref(), &patterns, start);
                source.is_empty = observation.status == Status::Empty;
                sources.insert(evidence.id, source);
            }
        }
        Self { sections, patterns, sources, effects, today }
    }

    /// The number of the first value of a section, from 0 over all sections. The next values in [`Self::claims`] have
    /// the next numbers.
    pub fn first_number(&self, section: usize) -> usize {
        self.sections.get(section).map_or(0, |section| section.first)
    }

    /// The values of a section, by its index in [`Self::new`]. There are equally many on every call. `is_known` says
    /// whether a piece of evidence existed when the section was written.
    pub fn claims(&self, section: usize, is_known: impl Fn(EvidenceId) -> bool) -> Vec<Claim> {
        let Some(Passage { id, body, sentences, .. }) = self.sections.get(section) else { return Vec::new() };
        let is_there = |id: EvidenceId| id == EvidenceId::ITEM || is_known(id);
        let known: Sources<'_> =
            self.sources.iter().filter(|(id, _)| is_there(**id)).map(|(id, source)| (*id, source)).collect();
        let effects: Vec<&Effect> = self.effects.iter().filter(|effect| is_known(effect.id)).collect();
        let currencies = known.values().flat_map(|source| &source.currencies).copied().collect();
        let mut stated: Vec<Amount> = Vec::new();
        let mut claims = Vec::new();
        for sentence in sentences {
            let text: Arc<str> = body.get(sentence.range.clone()).unwrap_or_default().into();
            let spans = sentence.spans();
            let amounts: Vec<Amount> = sentence.items.iter().filter_map(ValueItem::amount).copied().collect();
            let before = stated.len();
            for item in &sentence.items {
                let behind = amounts.get(stated.len() + 1 - before..).unwrap_or_default();
                let around = ValueContext {
                    stated: &stated,
                    behind,
                    spans: &spans,
                    currencies: &currencies,
                    today: self.today,
                };
                let of_effect = action(item, sentence, &effects, &known);
                let Finding { state, evidence, why, wrong_citation } =
                    of_effect.unwrap_or_else(|| finding(item, sentence, &known, &around));
                stated.extend(item.amount());
                let at = sentence.range.start + item.range.start..sentence.range.start + item.range.end;
                claims.push(Claim {
                    section: Arc::clone(id),
                    sentence: Arc::clone(&text),
                    value: body.get(at.clone()).unwrap_or_default().into(),
                    at,
                    kind: item.kind,
                    state,
                    evidence,
                    why: why.into(),
                    wrong_citation,
                });
            }
        }
        claims
    }

    /// The ranges in `text`, in bytes, of the values that it has as exact copies, by the numbers of the values.
    pub fn places(&self, text: &str) -> BTreeMap<usize, Range<usize>> {
        let source = Source::read(text, None, &self.patterns, None);
        let items =
            self.sections.iter().flat_map(|section| section.sentences.iter().flat_map(|it| &it.items));
        items
            .enumerate()
            .filter_map(|(number, item)| Some((number, copied(&item.stated, &source)??)))
            .collect()
    }
}

/// What was found out about a value.
struct Finding {
    state: Grounding,
    evidence: Vec<EvidenceId>,
    why: String,
    wrong_citation: bool,
}

impl Finding {
    fn found(evidence: Vec<EvidenceId>, why: &str) -> Self {
        Self { state: Grounding::Found, evidence, why: why.to_owned(), wrong_citation: false }
    }

    fn not_checked(why: &str) -> Self {
        Self {
            state: Grounding::NotChecked,
            evidence: Vec::new(),
            why: why.to_owned(),
            wrong_citation: false,
        }
    }

    fn contradicted(evidence: Vec<EvidenceId>, why: String, wrong_citation: bool) -> Self {
        Self { state: Grounding::Contradicted, evidence, why, wrong_citation }
    }
}

/// The sources that there were.
type Sources<'a> = BTreeMap<EvidenceId, &'a Source>;

/// What the document says around a value.
struct ValueContext<'a> {
    stated: &'a [Amount],
    behind: &'a [Amount],
    spans: &'a [f64],
    currencies: &'a BTreeSet<&'static str>,
    today: Day,
}

/// What the effects of the run say of an action that is claimed to have happened. `None`: it states something else.
fn action(item: &ValueItem, sentence: &Phrase, effects: &[&Effect], known: &Sources<'_>) -> Option<Finding> {
    let Needle::Action { kind, words } = &item.stated else { return None };
    let cited = sentence.cited(item.range.end);
    let cited = if sentence.cites { cited } else { &[] };
    let effect = |id: &EvidenceId| effects.iter().find(|effect| effect.id == *id);
    let of_kind = |effect: &&&Effect| {
        WORDS.names.get(kind).is_some_and(|names| effect.words.iter().any(|word| names.contains(&&**word)))
    };
    // A cited result that says it supports it, whatever tool it is of.
    let says = |id: &&EvidenceId| {
        let is_effect = effect(id).is_some();
        known
            .get(id)
            .is_some_and(|source| is_effect || words.iter().any(|word| source.has.contains_key(word)))
    };
    if let Some(id) = cited.iter().find(says) {
        return Some(Finding::found(vec![*id], ""));
    }
    let undone = match cited.iter().find_map(effect) {
        Some(effect) => Some(effect),
        None if !cited.is_empty() => None,
        None => {
            let mut all = effects.iter().filter(of_kind);
            let ran = all.clone().any(|effect| effect.status.is_citable());
            all.find(|effect| effect.status == Status::Denied).filter(|_| !ran)
        }
    };
    Some(match undone.map(|effect| (effect.id, effect.status)) {
        // Whether it happened is not known.
        Some((_, Status::InDoubt | Status::Pending | Status::Timeout)) | None => {
            Finding::not_checked("no effect of the run is cited for it")
        }
        Some((id, status)) => {
            let name = status.name().replace('_', " ");
            Finding::contradicted(vec![id], format!("the call of {id} ended as {name}"), false)
        }
    })
}

/// What the evidence says of a value of a sentence.
fn finding(item: &ValueItem, sentence: &Phrase, known: &Sources<'_>, around: &ValueContext<'_>) -> Finding {
    let ValueContext { stated, behind, spans, currencies, today } = *around;
    let by_id = |id: &EvidenceId| Some((*id, *known.get(id)?));
    let mut cited: Vec<(EvidenceId, &Source)> =
        sentence.cited(item.range.end).iter().filter_map(by_id).collect();
    // What names no evidence may be in any.
    if cited.is_empty() {
        cited = known.iter().map(|(id, source)| (*id, *source)).collect();
    }
    let of_cited: BTreeSet<&'static str> =
        cited.iter().flat_map(|(_, source)| &source.currencies).copied().collect();
    let currencies = if of_cited.is_empty() { currencies } else { &of_cited };
    let is_foreign =
        item.amount().and_then(|it| it.currency).is_some_and(|code| !may_be_named(code, currencies));
    let has = |source: &Source| !is_foreign && copied(&item.stated, source).is_some();
    let copies: Vec<EvidenceId> = cited.iter().filter(|(_, source)| has(source)).map(|(id, _)| *id).collect();
    if !copies.is_empty() {
        return Finding::found(copies, "");
    }
    let is_named = matches!(item.stated, Needle::Name { .. } | Needle::Id { .. });
    let elsewhere: Vec<EvidenceId> =
        known.iter().filter(|(_, source)| has(source)).map(|(id, _)| *id).collect();
    // Whom and what a work item is about may be the subject of any sentence.
    if is_named && !elsewhere.is_empty() {
        return Finding::found(elsewhere, "not in the cited evidence");
    }
    if is_named && !sentence.cites {
        return Finding::not_checked("nothing is cited for it");
    }
    if item.amount().is_some_and(|amount| amount.in_words) {
        return Finding::not_checked("a number in words");
    }
    if matches!(&item.stated, Needle::Day(day) if *day == today || *day == (Day { year: None, ..today })) {
        return Finding::not_checked("the day of the run");
    }
    let (ids, sources): (Vec<EvidenceId>, Vec<&Source>) = cited.into_iter().unzip();
    let wrong =
        match judge(&item.stated, &Context { cited: &sources, stated, behind, spans, currencies, today }) {
            Answer::Computed => return Finding::found(ids, "computed"),
            Answer::Unknown(why) => return Finding::not_checked(why),
            Answer::Wrong(wrong) => wrong,
        };
    if !elsewhere.is_empty() {
        let is_short = item.amount().is_some_and(|it| it.is_bare() && it.digits < 3);
        return match is_short {
            true => Finding::not_checked("a small number that other evidence has"),
            false => Finding::contradicted(elsewhere, "not in the cited evidence".to_owned(), true),
        };
    }
    let (evidence, why) = match wrong {
        Mismatch::Unit(says) => (ids, format!("another unit: {says}")),
        Mismatch::Currency(says) => (ids, format!("another currency: {says}")),
        Mismatch::Other(says) => (ids, format!("the evidence says: {says}")),
        Mismatch::Nowhere => (Vec::new(), "in no evidence".to_owned()),
    };
    Finding::contradicted(evidence, why, false)
}
