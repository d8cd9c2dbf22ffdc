//! Cycles: the same calls with the same results, again and again.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::types::Digest;

/// The longest cycle that is seen.
const LONGEST: usize = 5;

/// After how many whole rounds the next one is refused.
const ROUNDS: usize = 2;

/// The last calls and what each told, oldest first: as many as a decision needs.
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
    /// A call has told something.
    pub(crate) fn push(&mut self, call: Digest, reported: Digest, is_read: bool) {
        if self.steps.len() == LONGEST * ROUNDS {
            self.steps.pop_front();
        }
        self.steps.push_back(Step { call, reported, is_read });
    }

    pub(crate) fn clear(&mut self) {
        self.steps.clear();
    }

    /// How many calls the cycle has whose third round `call` would begin: two whole rounds with equal results are at the
    /// end.
    ///
    /// A changed result is progress: a call whose results change is never refused, and where only reads go round, no
    /// result of theirs changes within a round. A round that writes may explain what its reads return.
    pub(crate) fn cycle(&self, call: &Digest) -> Option<u32> {
        let back = |n: usize| self.steps.len().checked_sub(n).and_then(|at| self.steps.get(at));
        let goes_round = |length: &usize| {
            back(*length).is_some_and(|step| step.call == *call)
                && (1..=*length).all(|n| back(n).is_some() && back(n) == back(n + length))
                && self.is_settled(call, *length)
        };
        (2..=LONGEST).find(goes_round).map(|length| length as u32)
    }

    /// Whether the results of a round say that the next one will return the same.
    fn is_settled(&self, call: &Digest, length: usize) -> bool {
        let round = || self.steps.iter().rev().take(length);
        let writes = round().any(|step| !step.is_read);
        let changes =
            |step: &Step| round().any(|other| other.call == step.call && other.reported != step.reported);
        round().any(|step| step.call != *call)
            && !round().any(|step| (step.call == *call || !writes) && changes(step))
    }

    /// How often a cycle is repeated before it is refused.
    pub(crate) fn rounds() -> u32 {
        ROUNDS as u32
    }
}
