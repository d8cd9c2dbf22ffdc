//! Values that result from other values of their section.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::claims::asked::{Asked, Stated};
use crate::claims::formula::{self, Formula, Operand};
use crate::claims::search::FoundClaim;
use crate::claims::value::{Found, Measured, Value};
use crate::claims::{Grounding, date, derive};
use crate::types::EvidenceId;

/// For how many values of a section that no evidence has it is tried what they result from.
const MAX_OPEN: usize = 1_000;

/// How many sentences back a value may be that is computed with.
const SENTENCES: usize = 5;

/// Grounds an amount that an earlier sentence of the section has computed.
pub(super) fn repeated(asked: &Asked, claims: &mut [Vec<FoundClaim>]) {
    // Most documents compute nothing.
    let is_computed = |found: &FoundClaim| found.claim.formula.as_ref().is_some_and(Formula::is_operation);
    if !claims.iter().flatten().any(is_computed) {
        return;
    }
    let mut computed: BTreeMap<String, (Vec<EvidenceId>, Option<Formula>)> = BTreeMap::new();
    let candidates = asked.sentences.iter().flat_map(|stated| stated.candidates.iter());
    for (candidate, FoundClaim { claim, .. }) in candidates.zip(claims.iter_mut().flatten()) {
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
                    if let Some(value) = candidate.found.as_ref().filter(|_| is_grounded) {
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
