//! What the sections of a document state, before it is known where the values are.

use std::ops::Range;
use std::sync::Arc;

use crate::formula::Formula;
use crate::operations::Operations;
use crate::value::{Found, Measured, Value, ValueKind};
use crate::{Claim, Grounding};
use loop_core::types::EvidenceId;

/// A larger number in words that only the work item has is a claim.
const LEAST: u64 = 5;

/// In how many bytes of its begin the subject of a sentence begins.
const SUBJECT: usize = 24;

/// A value of a sentence, before it is looked for.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) number: usize,
    /// `None`: the sentence says that something does not exist.
    pub(super) found: Option<Found>,
    /// Where it is in its sentence.
    pub(super) range: Range<usize>,
    /// What of the evidence it results from, with another value of its sentence.
    pub(super) operands: Vec<(usize, Formula)>,
    /// Whether it is a claim only where it is grounded.
    pub(super) is_weak: bool,
    /// Whether it is a number in words.
    pub(super) is_word: bool,
    /// What it rests on. `None`: what its sentence does, which cites nothing itself.
    pub(super) cited: Option<Arc<[EvidenceId]>>,
}

impl Candidate {
    /// What it rests on in this sentence.
    pub(super) fn cited<'a>(&'a self, stated: &'a Stated) -> &'a [EvidenceId] {
        self.cited.as_ref().unwrap_or(&stated.cited)
    }

    /// Whether it is a duration that is compared, with a citation.
    pub(super) fn is_spoken(&self) -> bool {
        self.cited.is_some()
            && matches!(
                self.found.as_ref().map(|it| &it.value),
                Some(Value::Amount { measured: Measured::Unit(unit), .. }) if unit.is_span()
            )
    }

    /// Whether it is a number in words that the work item has and what its sentence cites has not. Of the smallest numbers
    /// there are too many in any text.
    pub(super) fn is_of_item(&self, claim: &Claim) -> bool {
        let is_large = matches!(
            self.found.as_ref().map(|it| &it.value),
            Some(Value::Amount { number, .. }) if number.amount.to_whole().is_some_and(|whole| whole > LEAST)
        );
        self.is_word
            && self.cited.is_some()
            && is_large
            && claim.state == Grounding::Elsewhere
            && claim.evidence == [EvidenceId::ITEM]
    }

    /// Whether it is a name that may be the subject of its sentence.
    pub(super) fn is_subject(&self, sentence: &str) -> bool {
        let is_name = self.found.as_ref().is_some_and(|it| it.value.kind() == ValueKind::Name);
        let before = sentence.get(..self.range.start).unwrap_or_default().trim_end();
        let is_agent = ["by", "par", "por", "von", "durch"]
            .iter()
            .any(|word| before.strip_suffix(word).is_some_and(|rest| rest.ends_with(' ')));
        is_name && self.range.start <= SUBJECT && !is_agent
    }
}

/// A section with what it states.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: Arc<str>,
    pub(super) body: Arc<str>,
    pub(super) sentences: Vec<Stated>,
}

impl Asked {
    pub(super) fn part(&self, range: &Range<usize>) -> &str {
        self.body.get(range.clone()).unwrap_or_default()
    }
}

/// A sentence with what it rests on.
#[derive(Debug)]
pub(super) struct Stated {
    pub(super) range: Range<usize>,
    pub(super) cited: Arc<[EvidenceId]>,
    pub(super) named: Operations,
    pub(super) candidates: Arc<[Candidate]>,
}
