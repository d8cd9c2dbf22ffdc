//! The published rules of others, each written from its description. All look at one turn only.

use super::policy::Judge;
use super::prepared::{Call, Reported};

/// The same one to five calls, five times in a row. It counts a call before it is run, and looks at no result.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    calls: Vec<u32>,
}

impl Judge for Cycles {
    fn new_turn(&mut self) {
        self.calls.clear();
    }

    fn refuses(&mut self, call: &Call<'_>) -> Option<String> {
        self.calls.push(call.same);
        (1..=5)
            .find(|length| {
                let tail = self.calls.len().checked_sub(5 * length).and_then(|from| self.calls.get(from..));
                tail.is_some_and(|tail| {
                    tail.iter().zip(tail.iter().skip(*length)).all(|(one, other)| one == other)
                })
            })
            .map(|length| format!("five times the same {length}"))
    }

    fn reported(&mut self, _: &Call<'_>, _: &Reported<'_>) -> Option<String> {
        None
    }
}

/// Pairs of call and result. It looks at what was run, before the next call.
#[derive(Debug, Default)]
pub(super) struct OpenHands {
    pairs: Vec<Pair>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    call: u32,
    reported: u32,
    is_error: bool,
}

impl OpenHands {
    /// The last `N`, oldest first.
    fn last<const N: usize>(&self) -> Option<[Pair; N]> {
        self.pairs.last_chunk().copied()
    }
}

impl Judge for OpenHands {
    fn new_turn(&mut self) {
        self.pairs.clear();
    }

    fn refuses(&mut self, _: &Call<'_>) -> Option<String> {
        let same_pair = self.last::<4>().is_some_and(|pairs| pairs.iter().all(|pair| *pair == pairs[0]));
        let same_error = self
            .last::<3>()
            .is_some_and(|pairs| pairs.iter().all(|pair| pair.is_error && pair.call == pairs[0].call));
        let in_turn = self
            .last::<6>()
            .is_some_and(|[a, b, c, d, e, f]| a == c && c == e && b == d && d == f && a.call != b.call);
        match (same_pair, same_error, in_turn) {
            (true, ..) => Some("four times the same call and result".to_owned()),
            (_, true, _) => Some("three times the same call failed".to_owned()),
            (.., true) => Some("two calls in turn over six".to_owned()),
            (false, false, false) => None,
        }
    }

    fn reported(&mut self, call: &Call<'_>, reported: &Reported<'_>) -> Option<String> {
        self.pairs.push(Pair { call: call.same, reported: reported.same, is_error: reported.is_error });
        None
    }
}

/// The same call more than so many times in a row.
#[derive(Debug)]
pub(super) struct Consecutive {
    max: u32,
    last: Option<u32>,
    times: u32,
}

impl Consecutive {
    pub(super) fn new(max: u32) -> Self {
        Self { max, last: None, times: 0 }
    }
}

impl Judge for Consecutive {
    fn new_turn(&mut self) {
        self.last = None;
    }

    fn refuses(&mut self, call: &Call<'_>) -> Option<String> {
        self.times = if self.last.replace(call.same) == Some(call.same) { self.times + 1 } else { 1 };
        (self.times > self.max).then(|| format!("more than {} times in a row", self.max))
    }

    fn reported(&mut self, _: &Call<'_>, _: &Reported<'_>) -> Option<String> {
        None
    }
}

/// The last three calls, this one among them, are the same.
#[derive(Debug, Default)]
pub(super) struct Last {
    before: Option<u32>,
    last: Option<u32>,
}

impl Judge for Last {
    fn new_turn(&mut self) {
        *self = Self::default();
    }

    fn refuses(&mut self, call: &Call<'_>) -> Option<String> {
        let before = self.last.replace(call.same);
        let first = std::mem::replace(&mut self.before, before);
        (before == Some(call.same) && first == before).then(|| "the last three calls are the same".to_owned())
    }

    fn reported(&mut self, _: &Call<'_>, _: &Reported<'_>) -> Option<String> {
        None
    }
}
