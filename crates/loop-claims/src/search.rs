//! Values that are looked for together: those of one document, or of all versions of it that a run had. Each piece of
//! evidence is read once, however many versions there are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::asked::{Asked, Candidate, Stated};
use crate::chunk::Chunk;
use crate::field::FieldNames;
use crate::formula::Formula;
use crate::mates::Mates;
use crate::operations::Operations;
use crate::places::Places;
use crate::priced::currencies_written;
use crate::scan::{self, Context, Hits, Looked, Query};
use crate::sentence::{Sentence, sentences};
use crate::stems::Stems;
use crate::unit::Unit;
use crate::value::{Found, Measured, Reads, Value, ValueKind, values_of, words, words_in};
use crate::wanted::MAX_SAME;
use crate::{Claim, Grounding, absence, chunk, cited, date, derive, number_word, place, results, weak};
use loop_core::reply::Section;
use loop_core::types::{Evidence, EvidenceId, Locale, WorkItem};

/// Looks for the values of sections. The caller first adds all sections, then has it look in the work item and in the
/// evidence, and then asks where the values of each section were found.
#[derive(Debug)]
pub struct ClaimSearch {
    first_day: Option<i64>,
    query: Query,
    /// The names of fields of what was read.
    names: FieldNames,
    /// The currencies that the evidence and the work item name. An amount of another one is nowhere.
    currencies: BTreeSet<&'static str>,
    /// Where each value is. A value that several versions of a section have in the same sentence is one.
    places: Vec<Places>,
    /// The values whose number some evidence has with another unit.
    other_units: BTreeSet<usize>,
    /// The values of the records of each piece of evidence.
    mates: BTreeMap<EvidenceId, Mates>,
    known: BTreeMap<Arc<str>, Arc<[Candidate]>>,
    sections: Vec<Asked>,
    /// How many sentences were read.
    sentences: usize,
    /// The values of the sentence before the one that is added.
    before: Vec<Value>,
}

/// A claim, and the number of its value: the same value of the same sentence has one number in all versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundClaim {
    /// The number of the value.
    pub number: usize,
    /// The claim.
    pub claim: Claim,
}

/// The unit of a rate, where `per` and a unit follow a number: `im Monat`, `a month` too.
fn rate(text: &str) -> Option<Unit> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let unit = Unit::named(words.next()?.trim_end_matches(|c: char| !c.is_alphanumeric()))?;
    match first {
        "per" | "pro" | "je" | "par" | "por" => Some(unit),
        "im" | "am" | "a" | "al" | "each" | "every" => Some(unit).filter(Unit::is_span),
        _ => None,
    }
}

/// Whether a value is a number in words that is not a duration.
fn is_number_word(found: &Found, text: &str) -> bool {
    let written = text.get(found.range.clone()).unwrap_or_default();
    matches!(&found.value, Value::Amount { measured: Measured::Nothing | Measured::Noun(_), .. })
        && !written.contains(|c: char| c.is_ascii_digit())
}

/// In a sentence with more values, none is computed with evidence.
const MAX_FACTORS: usize = 8;

/// For how many values the sums of the records that their sentences name are made.
const MAX_SUMMED: usize = 16;

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

impl ClaimSearch {
    /// Without any value. `unix_ms` is the start of the run, `utc_offset` the offset from UTC that it reads days and times by,
    /// in minutes, `locale` how the sections write numbers and dates.
    pub fn new(unix_ms: u64, utc_offset: i32, locale: Locale) -> Self {
        let minutes = i64::try_from(unix_ms / 60_000).ok();
        let first_day = minutes.map(|it| (it + i64::from(utc_offset)).div_euclid(1_440));
        let first_year = first_day.and_then(date::Day::of_unix_days).and_then(|day| day.year);
        Self {
            first_day,
            query: Query { first_year, clock: utc_offset, locale, ..Query::default() },
            names: FieldNames::default(),
            currencies: BTreeSet::new(),
            places: Vec::new(),
            other_units: BTreeSet::new(),
            mates: BTreeMap::new(),
            known: BTreeMap::new(),
            sections: Vec::new(),
            sentences: 0,
            before: Vec::new(),
        }
    }

    /// Adds a section, or another version of one. They are numbered from 0 on. What was read before is not compared with it.
    pub fn add(&mut self, section: &Section) {
        self.before.clear();
        // They know which of their words are looked for.
        self.names = FieldNames::default();
        let stated = sentences(&section.body).into_iter().map(|sentence| {
            let text = section.body.get(sentence.range.clone()).unwrap_or_default();
            let folded = chunk::folded(text);
            let folded_words: Vec<&str> = words_in(&folded).collect();
            let named = Operations::of(text, folded_words.iter().copied());
            let candidates = match self.known.get(text) {
                Some(known) => Arc::clone(known),
                None => {
                    let fresh: Arc<[Candidate]> = self.read(text, &sentence, &folded_words, named).into();
                    self.known.insert(Arc::from(text), Arc::clone(&fresh));
                    fresh
                }
            };
            Stated { range: sentence.range, cited: sentence.cited, named, candidates }
        });
        let sentences = stated.collect();
        let (id, body) = (Arc::clone(&section.id), Arc::clone(&section.body));
        self.sections.push(Asked { id, body, sentences });
    }

    /// The values of a sentence, which are looked for from now on.
    fn read(
        &mut self,
        text: &str,
        sentence: &Sentence,
        folded_words: &[&str],
        named: Operations,
    ) -> Vec<Candidate> {
        self.sentences += 1;
        let mut candidates = Vec::new();
        let stems = Arc::new(Stems::of(text));
        let (readable, places) = (chunk::readable(text), chunk::places(text));
        let chunks = chunk::chunks(&readable);
        let place = |at: usize| places.get(at).copied().unwrap_or(at);
        let groups = cited::groups(text);
        let cited_at = |end: usize| cited::of(&groups, end).map(Arc::clone);
        let first = self.first_day.and_then(date::Day::of_unix_days);
        let is_first =
            |day: date::Day| first.is_some_and(|first| (first.month, first.day) == (day.month, day.day));
        let sentence_of = weak::Sentence::new(&readable, sentence.cites, folded_words);
        let mut was_part = false;
        for found in values_of(&readable, &chunks, self.query.locale, self.query.clock, Reads::All) {
            // Advice says `today` too.
            if !sentence.cites && matches!(found.value, Value::RelativeDay(_)) {
                continue;
            }
            let before = readable.get(..found.range.start).unwrap_or_default();
            // `As of 26 November 2026` says when it is written.
            if matches!(&found.value, Value::Day(day) if is_first(*day))
                && ["as of ", "As of ", "Stand ", "Stand: "].iter().any(|words| before.ends_with(words))
            {
                continue;
            }
            let range = place(found.range.start)..place(found.range.end);
            let behind = begin_of(readable.get(found.range.end..).unwrap_or_default());
            let is_part = is_part(behind);
            let noun = match &found.value {
                Value::Amount { measured: Measured::Noun(noun), .. } => {
                    Some(absence::stem(&absence::unaccented(noun)).into())
                }
                _ => None,
            };
            let number = self.places.len();
            if !self.query.wanted.add(number, &found.value, self.first_day) {
                continue;
            }
            if let Value::Amount { number, measured, .. } = &found.value {
                let is_bare = !matches!(measured, Measured::Unit(_));
                self.query.asked.counts |= is_bare && number.amount.to_whole().is_some();
                self.query.asked.sums |= named.sum || named.average || number.places > 0;
                self.query.asked.averages |= named.average;
            }
            let currency = match &found.value {
                Value::Amount { measured: Measured::Unit(unit), .. } => unit.currency(),
                _ => None,
            };
            self.query.asked.money |= currency.is_some();
            self.query.asked.spans |= matches!(
                &found.value,
                Value::Amount { measured: Measured::Unit(unit), .. } if unit.is_span()
            );
            if named.sum
                && self.query.summed.len() < MAX_SUMMED
                && matches!(found.value, Value::Amount { .. })
            {
                self.query.summed.push(number);
            }
            let unit = match &found.value {
                Value::Amount { measured: Measured::Unit(unit), .. } => Some(unit.clone()),
                _ => None,
            };
            self.query.contexts.push(Context {
                sentence: self.sentences,
                unit,
                names_sum: named.sum,
                names_average: named.average,
                names_count: named.count || was_part,
                is_part,
                rate: rate(behind),
                currency,
                stems: Arc::clone(&stems),
                noun,
            });
            was_part = is_part;
            self.places.push(Places::default());
            if let Value::Amount { number: read, measured: Measured::Unit(unit), .. } = &found.value
                && unit.is_span()
                && let Some(whole) = read.amount.to_whole().filter(|whole| *whole <= 90)
            {
                let written = readable.get(found.range.clone()).unwrap_or_default();
                let of_unit = words(written).into_iter().next_back().unwrap_or_default();
                for name in number_word::words_of(whole, self.query.locale) {
                    self.query.wanted.add_in_words(number, name, &[&of_unit]);
                }
            }
            let is_word = is_number_word(&found, &readable);
            // The day on which it is written needs no citation.
            let is_own_day = !sentence.cites && matches!(&found.value, Value::Day(day) if is_first(*day));
            let cites_item = cited_at(range.end).is_some_and(|ids| ids.contains(&EvidenceId::ITEM));
            let is_denied = !cites_item && !found.value.has_unit() && sentence_of.is_denied(&found.range);
            let is_weak = is_word || is_own_day || is_denied || sentence_of.is_weak(&found);
            candidates.push(Candidate {
                number,
                found: Some(found),
                operands: Vec::new(),
                is_weak,
                is_word: is_word && !is_denied,
                cited: cited_at(range.end),
                range,
            });
        }
        self.with_evidence(&chunks, &mut candidates);
        // Without a citation of its own it may be advice, or about the work itself: `no procedure was found`.
        // What only the work item says is not there was not looked for.
        let has_evidence = sentence.cites && sentence.cited.iter().any(|id| *id != EvidenceId::ITEM);
        let absences =
            if has_evidence { absence::absences_of(&chunks, self.query.locale) } else { Vec::new() };
        for absence in absences {
            let range = place(absence.range.start)..place(absence.range.end);
            let number = self.places.len();
            let all = [Box::from("")];
            let nouns = if absence.nouns.is_empty() { &all[..] } else { &absence.nouns };
            let is_many =
                |noun| self.query.absent.get(noun).is_some_and(|same: &Vec<usize>| same.len() >= MAX_SAME);
            if nouns.iter().any(is_many) {
                continue;
            }
            if absence.nouns.is_empty() {
                self.query.absent.entry("".into()).or_default().push(number);
            }
            for noun in absence.nouns {
                self.query.absent.entry(noun).or_default().push(number);
            }
            self.query.contexts.push(Context::default());
            self.places.push(Places::default());
            let cited = cited_at(range.end);
            candidates.push(Candidate {
                number,
                found: None,
                operands: Vec::new(),
                is_weak: absence.is_partial,
                is_word: false,
                cited,
                range,
            });
        }
        candidates
    }

    /// Looks also for what gives an amount of a sentence together with another of its values: `15 % of the price, $34.35`.
    fn with_evidence(&mut self, chunks: &[Chunk<'_>], candidates: &mut [Candidate]) {
        if candidates.iter().filter(|it| !it.is_word).count() > MAX_FACTORS
            || candidates.len() > 2 * MAX_FACTORS
        {
            self.before.clear();
            return;
        }
        // Only amounts are computed with.
        let values: Vec<Value> = candidates
            .iter()
            .filter_map(|it| it.found.as_ref().map(|it| &it.value))
            .filter(|value| matches!(value, Value::Amount { .. }))
            .cloned()
            .collect();
        let before = std::mem::take(&mut self.before);
        let words: Vec<Value> = chunks
            .iter()
            .filter(|it| !it.text.as_bytes().first().is_none_or(u8::is_ascii_digit))
            .filter_map(|it| {
                chunk::with_folded(it.text, |word| number_word::number_of(word, self.query.locale))
            })
            .take(MAX_FACTORS)
            .map(Value::whole)
            .collect();
        for candidate in candidates {
            let Some(value) = candidate.found.as_ref().map(|it| &it.value) else { continue };
            for (wanted, formula) in derive::of_evidence(value, values.iter().chain(&words).chain(&before)) {
                let number = self.places.len();
                if !self.query.wanted.add(number, &wanted, self.first_day) {
                    continue;
                }
                let currency = self.query.contexts.get(candidate.number).and_then(|context| context.currency);
                self.query.contexts.push(Context {
                    currency,
                    sentence: self.sentences,
                    ..Context::default()
                });
                self.places.push(Places::default());
                candidate.operands.push((number, formula));
            }
        }
        self.before = values;
    }

    /// Whether no section has a checkable value.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Reads the work item.
    pub fn look_in_item(&mut self, item: &WorkItem) {
        if self.is_empty() {
            return;
        }
        if self.query.asked.money {
            self.currencies
                .extend(currencies_written(&item.title).into_iter().chain(currencies_written(&item.full)));
        }
        let hits = scan::item(&self.query, &mut self.names, item);
        self.note(EvidenceId::ITEM, hits);
    }

    /// Reads a piece of evidence. One that may not be cited grounds nothing.
    pub fn look_in(&mut self, evidence: &Evidence) {
        if !self.is_empty() && evidence.observation.status.is_citable() {
            if self.query.asked.money {
                self.currencies.extend(scan::currencies(evidence));
            }
            let Looked { hits, mates, other_units } = scan::evidence(&self.query, &mut self.names, evidence);
            self.mates.insert(evidence.id, mates);
            self.other_units.extend(other_units);
            self.note(evidence.id, hits);
        }
    }

    fn note(&mut self, id: EvidenceId, hits: Hits) {
        for (number, formula) in hits {
            if let Some(place) = self.places.get_mut(number) {
                place.insert(id, formula);
            }
        }
    }

    /// The evidence that has a value of a section.
    pub fn evidence_of(&self, section: usize) -> BTreeSet<EvidenceId> {
        let sentences = self.sections.get(section).into_iter().flat_map(|asked| &asked.sentences);
        let candidates = sentences.flat_map(|stated| stated.candidates.iter());
        candidates.filter_map(|candidate| self.places_of(candidate)).flat_map(Places::ids).collect()
    }

    /// The claims of a section in its order, as they are where only the evidence that `is_known` was read.
    pub fn claims(&self, section: usize, is_known: impl Fn(EvidenceId) -> bool) -> Vec<FoundClaim> {
        let Some(asked) = self.sections.get(section) else { return Vec::new() };
        let mut claims: Vec<Vec<FoundClaim>> = Vec::with_capacity(asked.sentences.len());
        for stated in &asked.sentences {
            let sentence: Arc<str> = match stated.candidates.is_empty() {
                true => Arc::default(),
                false => asked.part(&stated.range).into(),
            };
            let of = |candidate: &Candidate| FoundClaim {
                number: candidate.number,
                claim: self.claim(asked, stated, &sentence, candidate, &is_known),
            };
            claims.push(stated.candidates.iter().map(of).collect());
        }
        results::compute(asked, &mut claims);
        results::derive(asked, &mut claims, self.first_day);
        // What one value results from may be grounded by another of its sentence.
        for _ in 0..2 {
            results::with_records(asked, &mut claims, self.first_day, &self.mates, &is_known);
        }
        results::derive(asked, &mut claims, self.first_day);
        results::repeated(asked, &mut claims);
        let candidates = asked.sentences.iter().flat_map(|stated| stated.candidates.iter());
        let mut claims: Vec<FoundClaim> = candidates
            .zip(claims.into_iter().flatten())
            .filter(|(candidate, found)| {
                let has_other_unit = candidate.is_spoken() && self.other_units.contains(&candidate.number);
                let is_grounded = found.claim.state == Grounding::Grounded;
                !candidate.is_weak || is_grounded || has_other_unit || candidate.is_of_item(&found.claim)
            })
            .map(|(_, found)| found)
            .collect();
        claims.sort_by_key(|found| found.claim.at.start);
        claims
    }

    /// Where the values are in a text, by their numbers: the first place of each that is copied from it.
    pub fn places(&self, text: &str) -> BTreeMap<usize, Range<usize>> {
        place::places(&self.query, text)
    }

    /// The cited evidence that has what a value results from, with another value of its sentence.
    fn computed<'a>(
        &self,
        candidate: &'a Candidate,
        stated: &Stated,
        is_known: &impl Fn(EvidenceId) -> bool,
    ) -> Option<(EvidenceId, &'a Formula)> {
        let mut cited: Vec<EvidenceId> =
            stated.cited.iter().copied().filter(|id| *id != EvidenceId::ITEM && is_known(*id)).collect();
        cited.sort_unstable();
        candidate.operands.iter().find_map(|(number, formula)| {
            let places = self.places.get(*number)?;
            let id = cited.iter().find(|id| matches!(places.get(**id), Some(None)))?;
            Some((*id, formula))
        })
    }

    /// Where a value is. Equal days are found together.
    fn places_of(&self, candidate: &Candidate) -> Option<&Places> {
        let found = candidate.found.as_ref();
        let first =
            found.map_or(candidate.number, |it| self.query.wanted.first_of(candidate.number, &it.value));
        self.places.get(first)
    }

    fn claim(
        &self,
        asked: &Asked,
        stated: &Stated,
        sentence: &Arc<str>,
        candidate: &Candidate,
        is_known: &impl Fn(EvidenceId) -> bool,
    ) -> Claim {
        let currency = self.query.contexts.get(candidate.number).and_then(|context| context.currency);
        let is_named =
            currency.is_none_or(|code| self.currencies.is_empty() || self.currencies.contains(code));
        let places = self.places_of(candidate).filter(|_| is_named);
        let place = |id: EvidenceId| places.and_then(|places| places.get(id)).filter(|_| is_known(id));
        let cited = candidate.cited(stated);
        // Whom the work item is about may be the subject of any sentence.
        let of_item = Some(EvidenceId::ITEM)
            .filter(|id| !cited.contains(id) && candidate.is_subject(asked.part(&stated.range)));
        // An id of the work item that evidence has, too, says what the document is about.
        let is_id = matches!(&candidate.found, Some(found) if found.value.kind() == ValueKind::Id);
        let is_known_to_more =
            || places.is_some_and(|places| places.ids().filter(|id| is_known(*id)).nth(1).is_some());
        let of_both = Some(EvidenceId::ITEM).filter(|_| is_id && is_known_to_more());
        let cited = cited.iter().copied().chain(of_item).chain(of_both);
        let mut cited: Vec<EvidenceId> = cited.filter(|id| place(*id).is_some()).collect();
        cited.sort_unstable();
        cited.dedup();
        let computed = self.computed(candidate, stated, &is_known).filter(|_| cited.is_empty() && is_named);
        if let Some((evidence, formula)) = computed {
            let at = stated.range.start + candidate.range.start..stated.range.start + candidate.range.end;
            return Claim {
                section: Arc::clone(&asked.id),
                sentence: Arc::clone(sentence),
                value: asked.part(&at).into(),
                at,
                kind: candidate.found.as_ref().map_or(ValueKind::Absence, |found| found.value.kind()),
                state: Grounding::Grounded,
                evidence: vec![evidence],
                formula: Some(formula.clone()),
            };
        }
        let is_cited = !cited.is_empty();
        let evidence = match is_cited {
            true => cited,
            false => places.into_iter().flat_map(Places::ids).filter(|id| is_known(*id)).collect(),
        };
        let state = match (is_cited, evidence.is_empty()) {
            (true, _) => Grounding::Grounded,
            (false, false) => Grounding::Elsewhere,
            (false, true) => Grounding::Ungrounded,
        };
        let is_copied = evidence.iter().any(|id| matches!(place(*id), Some(None)));
        let computed = match is_copied {
            true => None,
            false => evidence.iter().find_map(|id| place(*id).and_then(Option::clone)),
        };
        let at = stated.range.start + candidate.range.start..stated.range.start + candidate.range.end;
        Claim {
            section: Arc::clone(&asked.id),
            sentence: Arc::clone(sentence),
            value: asked.part(&at).into(),
            at,
            kind: candidate.found.as_ref().map_or(ValueKind::Absence, |found| found.value.kind()),
            state,
            evidence,
            formula: computed,
        }
    }
}
