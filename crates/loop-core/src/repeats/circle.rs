//! Circles: the same calls with the same results, round and round.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::ids::Digest;

/// The longest circle that is seen.
const LONGEST: usize = 5;

/// After how many whole rounds the next one is refused.
const ROUNDS: usize = 2;

/// The last calls and what each told, oldest first: as many as a decision needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Trail {
    steps: VecDeque<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Step {
    call: Digest,
    told: Digest,
}

impl Trail {
    /// A call has told something.
    pub(crate) fn push(&mut self, call: Digest, told: Digest) {
        if self.steps.len() == LONGEST * ROUNDS {
            self.steps.pop_front();
        }
        self.steps.push_back(Step { call, told });
    }

    pub(crate) fn clear(&mut self) {
        self.steps.clear();
    }

    /// How many calls the circle has whose third round `call` would begin: two whole rounds with equal results stand at
    /// the end. One call alone is no circle.
    pub(crate) fn circle(&self, call: &Digest) -> Option<u32> {
        let back = |n: usize| self.steps.len().checked_sub(n).and_then(|at| self.steps.get(at));
        let goes_round = |length: &usize| {
            back(*length).is_some_and(|step| step.call == *call)
                && (1..=*length).all(|n| back(n).is_some() && back(n) == back(n + length))
        };
        (2..=LONGEST).find(goes_round).map(|length| length as u32)
    }

    /// How often a circle goes round before it is refused.
    pub(crate) fn rounds() -> u32 {
        ROUNDS as u32
    }
}
