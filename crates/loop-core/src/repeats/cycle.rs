//! Cycles: the same calls with the same results, again and again.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::types::Digest;

/// The longest cycle that is detected, in calls.
const LONGEST: usize = 5;

/// The number of whole rounds after which the next one is refused.
const ROUNDS: usize = 2;

/// The last calls and their result digests, oldest first: as many as the detection needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Trace {
    steps: VecDeque<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Step {
    call: Digest,
    reported: Digest,
    is_read: bool,
}

impl Trace {
    /// Appends a call and the digest of its result.
    pub(crate) fn push(&mut self, call: Digest, reported: Digest, is_read: bool) {
        if self.steps.len() == LONGEST * ROUNDS {
            self.steps.pop_front();
        }
        // All that it will ever need, and no more.
        self.steps.reserve_exact((LONGEST * ROUNDS).saturating_sub(self.steps.len()));
        self.steps.push_back(Step { call, reported, is_read });
    }

    pub(crate) fn clear(&mut self) {
        self.steps.clear();
    }

    /// The length of the cycle whose third round `call` would begin. `None`: the trace does not end with two whole
    /// rounds of equal results.
    ///
    /// A changed result is progress. A call whose result differs within a round is therefore never refused. In a round
    /// of reads alone, no call's result may differ. In a round with a write, the results of the other calls may differ.
    pub(crate) fn cycle(&self, call: &Digest) -> Option<u32> {
        let back = |n: usize| self.steps.len().checked_sub(n).and_then(|at| self.steps.get(at));
        let goes_round = |length: &usize| {
            back(*length).is_some_and(|step| step.call == *call)
                && (1..=*length).all(|n| back(n).is_some() && back(n) == back(n + length))
                && self.is_settled(call, *length)
        };
        (2..=LONGEST).find(goes_round).map(|length| length as u32)
    }

    /// The length of the cycle whose second round the last call has closed. `None`: the trace does not end with two whole
    /// rounds of equal results.
    pub(crate) fn closed_cycle(&self) -> Option<u32> {
        let next = |length: usize| self.steps.len().checked_sub(length).and_then(|at| self.steps.get(at));
        // Usually the last call is none of those that were made a few calls before.
        let last = self.steps.back()?;
        let is_candidate = |length: &usize| {
            let earlier = self.steps.len().checked_sub(length + 1).and_then(|at| self.steps.get(at));
            earlier == Some(last)
        };
        (2..=LONGEST).filter(is_candidate).find_map(|length| self.cycle(&next(length)?.call))
    }

    /// Whether the results of the last round predict the same results for the next one.
    fn is_settled(&self, call: &Digest, length: usize) -> bool {
        let round = || self.steps.iter().rev().take(length);
        let writes = round().any(|step| !step.is_read);
        let changes =
            |step: &Step| round().any(|other| other.call == step.call && other.reported != step.reported);
        round().any(|step| step.call != *call)
            && !round().any(|step| (step.call == *call || !writes) && changes(step))
    }

    /// The number of rounds before a cycle is refused.
    pub(crate) fn rounds() -> u32 {
        ROUNDS as u32
    }
}
