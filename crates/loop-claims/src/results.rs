//! Values that result from other values of their section.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::asked::{Asked, Candidate, Stated};
use crate::decimal::Decimal;
use crate::formula::{self, Formula, Operand};
use crate::mates::{Index, Mates, Record};
use crate::search::FoundClaim;
use crate::value::{Found, Measured, Value, ValueKind};
use crate::{Claim, Grounding, date, derive};
use loop_core::types::EvidenceId;

/// For how many values of a section that no evidence has it is tried what they result from.
const MAX_OPEN: usize = 1_000;

/// How many sentences back a value may be that is computed with.
const SENTENCES: usize = 8;

/// Grounds an amount that another sentence of the section has computed, and an id that one next to it cites.
pub(super) fn repeated(asked: &Asked, claims: &mut [Vec<FoundClaim>]) {
    named_before(asked, claims);
    // Most documents compute nothing.
    let is_computed = |found: &FoundClaim| found.claim.formula.as_ref().is_some_and(Formula::is_operation);
    if !claims.iter().flatten().any(is_computed) {
        return;
    }
    let key = |candidate: &Candidate| {
        let Value::Amount { number, measured, .. } = &candidate.found.as_ref()?.value else { return None };
        let unit = if let Measured::Unit(unit) = measured { Some(unit) } else { None };
        Some(format!("{:?} {unit:?}", number.amount))
    };
    let candidates = || asked.sentences.iter().flat_map(|stated| stated.candidates.iter());
    let mut computed: BTreeMap<String, (Vec<EvidenceId>, Option<Formula>)> = BTreeMap::new();
    for (candidate, FoundClaim { claim, .. }) in candidates().zip(claims.iter().flatten()) {
        let is_result = claim.formula.as_ref().is_some_and(Formula::is_operation);
        if let Some(key) = key(candidate).filter(|_| is_result && claim.state == Grounding::Grounded) {
            computed.entry(key).or_insert_with(|| (claim.evidence.clone(), claim.formula.clone()));
        }
    }
    // A summary may be before what it sums up.
    let open = candidates().zip(claims.iter_mut().flatten());
    for (candidate, FoundClaim { claim, .. }) in
        open.filter(|(_, it)| it.claim.state == Grounding::Ungrounded)
    {
        if let Some((evidence, formula)) = key(candidate).and_then(|key| computed.get(&key)) {
            claim.state = Grounding::Grounded;
            (claim.evidence, claim.formula) = (evidence.clone(), formula.clone());
        }
    }
}

/// Grounds an id, a host or a name that a sentence next to it has with the right citation: it says what the sentence is about.
fn named_before(asked: &Asked, claims: &mut [Vec<FoundClaim>]) {
    for n in 0..claims.len() {
        let stated = asked.sentences.get(n).into_iter().flat_map(|it| it.candidates.iter());
        for (at, candidate) in stated.enumerate() {
            let Some(Value::Text {
                kind: kind @ (ValueKind::Id | ValueKind::Email | ValueKind::Host),
                words,
                ..
            }) = candidate.found.as_ref().map(|it| &it.value)
            else {
                continue;
            };
            let is_elsewhere = claims
                .get(n)
                .and_then(|of| of.get(at))
                .is_some_and(|it| it.claim.state == Grounding::Elsewhere);
            if !is_elsewhere {
                continue;
            }
            let same = |m: usize| {
                let of = asked.sentences.get(m)?.candidates.iter();
                of.zip(claims.get(m)?).find_map(|(other, found)| {
                    let is_same = matches!(other.found.as_ref().map(|it| &it.value), Some(Value::Text { words: own, .. }) if own == words);
                    (is_same && found.claim.state == Grounding::Grounded).then(|| found.claim.evidence.clone())
                })
            };
            // What a sentence says of the work item may be about a record that a sentence next to it cites.
            let of_item = || {
                let own = asked.sentences.get(n)?;
                let cited = candidate.cited(own);
                let next = [n.checked_sub(1), n.checked_add(1)].into_iter().flatten();
                let has = |id: &EvidenceId| {
                    next.clone().any(|m| asked.sentences.get(m).is_some_and(|it| it.cited.contains(id)))
                };
                let found = claims.get(n)?.get(at)?.claim.evidence.clone();
                (cited == [EvidenceId::ITEM] && found.iter().any(has)).then_some(found)
            };
            let evidence = (n.saturating_sub(NEXT)..n + NEXT + 1)
                .find_map(same)
                .or_else(|| of_item().filter(|_| *kind == ValueKind::Id));
            if let (Some(evidence), Some(found)) = (evidence, claims.get_mut(n).and_then(|of| of.get_mut(at)))
            {
                (found.claim.state, found.claim.evidence) = (Grounding::Grounded, evidence);
            }
        }
    }
}

/// So many sentences away an id may be cited.
const NEXT: usize = 3;

/// Grounds what results from the values that the sentence and the few before it state.
pub(super) fn derive(asked: &Asked, claims: &mut [Vec<FoundClaim>], first_day: Option<i64>) {
    let months = Value::whole(12);
    let start = first_day.and_then(date::Day::of_unix_days).map(Value::Day);
    let first_year = first_day.and_then(date::Day::of_unix_days).and_then(|day| day.year);
    let is_short = |stated: &&Stated| stated.candidates.len() <= formula::MAX_VALUES;
    // Pairs are tried for each: a document with more is not read by a person either.
    let mut left = MAX_OPEN;
    for (n, stated) in asked.sentences.iter().enumerate().filter(|(_, stated)| is_short(stated)) {
        for (at, candidate) in stated.candidates.iter().enumerate() {
            let state = claims.get(n).and_then(|of| of.get(at)).map(|it| it.claim.state);
            let is_open = state.is_some_and(|state| state != Grounding::Grounded);
            let Some(open) = candidate.found.as_ref().filter(|_| is_open) else { continue };
            let Some(fewer) = left.checked_sub(1) else { return };
            left = fewer;
            if let (Value::RelativeDay(days), Some(start)) = (&open.value, first_day) {
                let day = start.checked_add(*days).and_then(date::Day::of_unix_days);
                let named = day.and_then(|day| same_day(stated, claims.get(n)?, day));
                if let (Some(evidence), Some(found)) =
                    (named, claims.get_mut(n).and_then(|of| of.get_mut(at)))
                {
                    let claim = &mut found.claim;
                    (claim.state, claim.evidence, claim.formula) =
                        (Grounding::Grounded, evidence, Some(Formula::Shifted));
                }
                continue;
            }
            let (mut terms, mut places) = (Vec::new(), Vec::new());
            if stated.named.yearly {
                terms.push(derive::Term { value: &months, before: 0 });
                places.push((usize::MAX, 0));
            }
            let is_amount = matches!(open.value, Value::Amount { .. });
            if let Some(start) = start.as_ref().filter(|_| is_amount && stated.named.from_start) {
                terms.push(derive::Term { value: start, before: 0 });
                places.push((usize::MAX, 0));
            }
            for m in n.saturating_sub(SENTENCES)..=n {
                let of = asked.sentences.get(m).filter(is_short).into_iter();
                for (place, candidate) in of.flat_map(|it| it.candidates.iter().enumerate()) {
                    let found = claims.get(m).and_then(|of| of.get(place));
                    let is_grounded = found.is_some_and(|it| it.claim.state == Grounding::Grounded);
                    let is_number = |it: &&Found| !matches!(it.value, Value::Text { .. });
                    if let Some(value) = candidate.found.as_ref().filter(is_number).filter(|_| is_grounded) {
                        terms.push(derive::Term { value: &value.value, before: n - m });
                        places.push((m, place));
                    }
                }
            }
            let Some((formula, of)) = derive::derived(&open.value, &terms, stated.named, first_year) else {
                continue;
            };
            let operands = of.iter().filter_map(|term| places.get(*term));
            let mut evidence: Vec<EvidenceId> = operands
                .filter_map(|(m, place)| claims.get(*m)?.get(*place))
                .flat_map(|it| it.claim.evidence.clone())
                .collect();
            evidence.sort_unstable();
            evidence.dedup();
            // A value that other evidence has cites the wrong one, unless it results from what it cites.
            let cited = candidate.cited(stated);
            if state == Some(Grounding::Elsewhere) && !evidence.iter().all(|id| cited.contains(id)) {
                continue;
            }
            if let Some(found) = claims.get_mut(n).and_then(|of| of.get_mut(at)) {
                let claim = &mut found.claim;
                (claim.state, claim.evidence, claim.formula) = (Grounding::Grounded, evidence, Some(formula));
            }
        }
    }
}

/// The evidence of a day that the sentence also names by its date: `13 September, yesterday`.
fn same_day(stated: &Stated, claims: &[FoundClaim], day: date::Day) -> Option<Vec<EvidenceId>> {
    stated.candidates.iter().zip(claims).find_map(|(candidate, found)| {
        let is_it = matches!(
            candidate.found.as_ref().map(|it| &it.value),
            Some(Value::Day(other)) if (other.month, other.day) == (day.month, day.day)
        );
        (is_it && found.claim.state == Grounding::Grounded).then(|| found.claim.evidence.clone())
    })
}

/// Grounds what results from a value that the document states and the record of the cited evidence that has it, or from two
/// values of a piece of evidence that has few.
pub(super) fn with_records(
    asked: &Asked,
    claims: &mut [Vec<FoundClaim>],
    first_day: Option<i64>,
    records: &BTreeMap<EvidenceId, Mates>,
    is_known: &impl Fn(EvidenceId) -> bool,
) {
    let first_year = first_day.and_then(date::Day::of_unix_days).and_then(|day| day.year);
    let mut indices: BTreeMap<EvidenceId, Index<'_>> = BTreeMap::new();
    let mut left = MAX_OPEN_OF_RECORDS;
    for (n, stated) in asked.sentences.iter().enumerate() {
        if stated.candidates.len() > formula::MAX_VALUES {
            continue;
        }
        for (at, candidate) in stated.candidates.iter().enumerate() {
            let state = claims.get(n).and_then(|of| of.get(at)).map(|it| it.claim.state);
            let is_open = state == Some(Grounding::Ungrounded);
            let Some(open) = candidate.found.as_ref().filter(|_| is_open) else { continue };
            let Some(fewer) = left.checked_sub(1) else { return };
            left = fewer;
            let values = stated.candidates.iter().filter_map(|it| it.found.as_ref());
            let written: Vec<Decimal> = values.filter_map(|it| number_of(&it.value)).collect();
            let cited = candidate.cited(stated).iter().filter(|id| is_known(**id)).take(MAX_CITED);
            let before =
                asked.part(&(stated.range.start..stated.range.start + candidate.range.start)).trim_end();
            let is_whole = ["of", "von", "sur", "de", "/"].iter().any(|word| {
                before.strip_suffix(word).is_some_and(|rest| {
                    rest.ends_with([' ', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                })
            });
            let found = cited.filter_map(|id| Some((*id, records.get(id)?))).find_map(|(id, mates)| {
                let index = indices.entry(id).or_insert_with(|| mates.index());
                let near = terms(asked, claims, n, 2).filter(|(_, claim)| claim.evidence.contains(&id));
                let named = stated.named;
                let how = (named, is_whole);
                let is_left_out =
                    |value: &&Value| number_of(value).is_none_or(|number| !written.contains(&number));
                let few =
                    mates.small().map(|few| few.into_iter().filter(is_left_out).collect::<Vec<&Value>>());
                let of_record = near.take(MAX_NEAR).find_map(|(term, claim)| {
                    let mut of = index.of(term);
                    let found = of.find_map(|(own, mut mates, is_column)| {
                        // What the sentence states itself was computed with as it is stated.
                        mates.retain(is_left_out);
                        // The document or the record may name the unit.
                        let term = if term.has_unit() { term } else { own };
                        derive::with_record(&open.value, term, &mates, how, first_year)
                            .filter(|formula| !is_column || *formula != Formula::SumOfAmounts)
                    });
                    let is_result = claim.formula.as_ref().is_some_and(Formula::is_operation);
                    found.or_else(|| {
                        let few = few.as_ref().filter(|few| is_result || few.len() <= MAX_FEW)?;
                        derive::with_record(&open.value, term, few, how, first_year)
                    })
                });
                of_record
                    .map(|formula| (id, formula))
                    .or_else(|| {
                        let mut small = mates.small_records();
                        let found = small.find_map(|few| {
                            let whole = || derive::whole_of(&open.value, &few, named);
                            let values = few.values.iter().filter(is_left_out).cloned().collect();
                            let rest = Record { values, is_column: few.is_column };
                            derive::with_few(&open.value, &rest, named, first_year).or_else(whole)
                        });
                        found.map(|formula| (id, formula))
                    })
                    .or_else(|| {
                        let mut own = terms(asked, claims, n, 0).filter(|_| named.difference);
                        let is_apart = own.any(|(term, _)| {
                            derive::times_apart(&open.value, term)
                                .into_iter()
                                .any(|minutes| index.has_time(minutes))
                        });
                        let from_start = first_day
                            .filter(|_| named.from_start)
                            .map(|start| derive::days_apart(&open.value, start));
                        let is_apart =
                            is_apart || from_start.into_iter().flatten().any(|day| index.has_day(day));
                        is_apart.then_some((id, Formula::Difference))
                    })
            });
            if let Some((id, formula)) = found
                && let Some(found) = claims.get_mut(n).and_then(|of| of.get_mut(at))
            {
                let claim = &mut found.claim;
                (claim.state, claim.evidence, claim.formula) = (Grounding::Grounded, vec![id], Some(formula));
            }
        }
    }
}

/// The number of an amount as written.
fn number_of(value: &Value) -> Option<Decimal> {
    if let Value::Amount { number, .. } = value { Some(number.amount) } else { None }
}

/// For how many values of a section it is tried what they result from with a record.
const MAX_OPEN_OF_RECORDS: usize = 300;

/// The records of so many pieces of evidence are looked at for one value.
const MAX_CITED: usize = 8;

/// Of a piece of evidence with no more values each may be computed with a stated one.
const MAX_FEW: usize = 12;

/// With so many values near it one is computed from a record.
const MAX_NEAR: usize = 12;

/// The grounded values of a sentence and of so many before it, the nearest first, with the claim of each.
fn terms<'a>(
    asked: &'a Asked,
    claims: &'a [Vec<FoundClaim>],
    n: usize,
    before: usize,
) -> impl Iterator<Item = (&'a Value, &'a Claim)> {
    (n.saturating_sub(before)..=n).rev().flat_map(move |m| {
        let candidates = asked.sentences.get(m).into_iter().flat_map(|it| it.candidates.iter().enumerate());
        candidates.filter_map(move |(at, candidate)| {
            let claim = &claims.get(m)?.get(at)?.claim;
            let value = &candidate.found.as_ref()?.value;
            (claim.state == Grounding::Grounded).then_some((value, claim))
        })
    })
}

/// Grounds what results from other amounts of its sentence; from those of the sentence before where it has none.
pub(super) fn compute(asked: &Asked, claims: &mut [Vec<FoundClaim>]) {
    let mut before: Option<usize> = None;
    for (n, stated) in asked.sentences.iter().enumerate() {
        if stated.candidates.is_empty() {
            continue;
        }
        let own = compute_in(asked, claims, n..n + 1, n);
        if own == 0
            && let Some(before) = before.filter(|before| before + 1 == n)
        {
            compute_in(asked, claims, before..n + 1, n);
        }
        before = Some(n);
    }
}

/// The same of some sentences; only values of this one are grounded. Returns how many were.
fn compute_in(asked: &Asked, claims: &mut [Vec<FoundClaim>], within: Range<usize>, sentence: usize) -> usize {
    let Some(stated) = asked.sentences.get(sentence) else { return 0 };
    let of_sentence = |n: usize| {
        let stated = asked.sentences.get(n);
        let candidates = stated.into_iter().flat_map(|stated| {
            stated.candidates.iter().enumerate().map(move |(at, it)| (at, it, it.cited(stated)))
        });
        candidates.filter_map(move |(at, it, cited)| Some(((n, at), it.found.as_ref()?, cited)))
    };
    let group: Vec<((usize, usize), &Found, &[EvidenceId])> = within.flat_map(of_sentence).collect();
    let range =
        |(n, at): (usize, usize)| claims.get(n).and_then(|of| of.get(at)).map(|it| it.claim.at.clone());
    let of_group: Vec<Operand<'_>> = group
        .iter()
        .enumerate()
        .map(|(n, (at, found, cited))| Operand {
            value: &found.value,
            cited,
            is_grounded: claims
                .get(at.0)
                .and_then(|of| of.get(at.1))
                .is_some_and(|it| it.claim.state == Grounding::Grounded),
            between: group
                .get(n + 1)
                .and_then(|(next, ..)| asked.body.get(range(*at)?.end..range(*next)?.start))
                .unwrap_or_default(),
        })
        .collect();
    let mut grounded = 0;
    for (place, (formula, operands)) in formula::computed(&of_group, stated.named) {
        let Some((at, ..)) = group.get(place) else { continue };
        if at.0 != sentence {
            continue;
        }
        let of = operands.iter().filter_map(|place| {
            let (at, ..) = group.get(*place)?;
            claims.get(at.0)?.get(at.1)
        });
        let mut evidence: Vec<EvidenceId> = of.flat_map(|it| it.claim.evidence.clone()).collect();
        evidence.sort_unstable();
        evidence.dedup();
        if let Some(found) = claims.get_mut(at.0).and_then(|of| of.get_mut(at.1)) {
            let claim = &mut found.claim;
            (claim.state, claim.evidence, claim.formula) = (Grounding::Grounded, evidence, Some(formula));
            grounded += 1;
        }
    }
    grounded
}
