//! The provider of a fleet: its limits of a minute, which all runs share, and its slow calls.

use loop_core::Millis;

use crate::sim::Choices;
use crate::sim::study::{Provider, Sent};

/// What a minute has.
const MINUTE_MS: u64 = 60_000;

/// A limit of a minute that fills again evenly, and that holds at most what a minute has.
///
/// What is asked for is served in its order: each call is given the instant at which enough has come together.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinuteLimit {
    a_minute: u64,
    /// When all that was asked for will have come together, in millionths of a millisecond: without rounding, small calls
    /// count as much as large ones.
    paid: u128,
    /// What was asked for until now.
    pub(super) taken: u64,
}

const NANOS: u128 = 1_000_000;

impl MinuteLimit {
    pub(super) fn new(a_minute: u64) -> Self {
        Self { a_minute: a_minute.max(1), paid: 0, taken: 0 }
    }

    /// How long a call of this amount waits at `at`.
    fn wait_ms(&self, at: u64, amount: u64) -> u64 {
        let paid = self.paid_with(at, amount);
        let full = u128::from(at.saturating_add(MINUTE_MS)) * NANOS;
        u64::try_from(paid.saturating_sub(full).div_ceil(NANOS)).unwrap_or(u64::MAX)
    }

    fn take(&mut self, at: u64, amount: u64) {
        self.paid = self.paid_with(at, amount);
        self.taken = self.taken.saturating_add(amount);
    }

    fn paid_with(&self, at: u64, amount: u64) -> u128 {
        let takes = u128::from(amount) * u128::from(MINUTE_MS) * NANOS / u128::from(self.a_minute);
        self.paid.max(u128::from(at) * NANOS) + takes
    }
}

/// The provider of all runs of a fleet.
pub(super) struct Shared {
    pub(super) requests: Option<MinuteLimit>,
    pub(super) tokens: Option<MinuteLimit>,
    /// Percent of the calls that are slow, and how many times as long they take.
    pub(super) slow: (u32, u32),
    pub(super) choices: Choices,
    pub(super) calls: u64,
    pub(super) waits_ms: Vec<u64>,
    pub(super) refused: u64,
}

impl Shared {
    /// The provider as a run sees it whose clock began at this instant of the fleet's.
    pub(super) fn of_run(&mut self, began: u64) -> OfRun<'_> {
        OfRun { shared: self, began }
    }
}

/// The provider as one run sees it.
pub(super) struct OfRun<'a> {
    shared: &'a mut Shared,
    began: u64,
}

impl Provider for OfRun<'_> {
    fn send(&mut self, at: Millis, tokens: u64, may_wait_ms: u64) -> Sent {
        let shared = &mut *self.shared;
        let at = self.began.saturating_add(at.0);
        shared.calls += 1;
        let of = |limit: &Option<MinuteLimit>, amount| limit.map_or(0, |limit| limit.wait_ms(at, amount));
        let wait_ms = of(&shared.requests, 1).max(of(&shared.tokens, tokens));
        if wait_ms > may_wait_ms {
            shared.refused += 1;
            return Sent::Refused { wait_ms };
        }
        if let Some(limit) = &mut shared.requests {
            limit.take(at, 1);
        }
        if let Some(limit) = &mut shared.tokens {
            limit.take(at, tokens);
        }
        shared.waits_ms.push(wait_ms);
        let (percent, times) = shared.slow;
        let is_slow = shared.choices.per_mille(percent.saturating_mul(10));
        Sent::After { wait_ms, times: if is_slow { times.into() } else { 1 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_minute_is_there_at_once_and_the_rest_comes_evenly() {
        let mut limit = MinuteLimit::new(60);
        for _ in 0..60 {
            assert_eq!(limit.wait_ms(0, 1), 0);
            limit.take(0, 1);
        }
        assert_eq!(limit.wait_ms(0, 1), 1_000);
        limit.take(0, 1);
        assert_eq!(limit.wait_ms(0, 1), 2_000, "behind the one that waits already");
        assert_eq!(limit.wait_ms(1_500, 1), 500);
        assert_eq!(limit.wait_ms(200_000, 60), 0, "no more than a minute's comes together");
        limit.take(200_000, 60);
        assert_eq!(limit.wait_ms(200_000, 6), 6_000);
        assert_eq!(limit.taken, 121);
    }

    #[test]
    fn a_call_that_would_wait_too_long_is_refused_and_takes_nothing() {
        let none = Shared {
            requests: Some(MinuteLimit::new(1)),
            tokens: None,
            slow: (0, 1),
            choices: Choices::of_seed(1),
            calls: 0,
            waits_ms: Vec::new(),
            refused: 0,
        };
        let mut shared = none;
        assert_eq!(shared.of_run(500).send(Millis(0), 9, 10), Sent::After { wait_ms: 0, times: 1 });
        let refused = Sent::Refused { wait_ms: 60_000 };
        assert_eq!(shared.of_run(500).send(Millis(0), 9, 10), refused);
        assert_eq!(shared.of_run(0).send(Millis(500), 9, 10), refused, "it took nothing the first time");
        assert_eq!((shared.calls, shared.refused, shared.waits_ms.len()), (3, 2, 1));
    }
}
