//! The clock: the run's own time, taken from its events.

use serde::{Deserialize, Serialize};

use crate::types::Millis;

/// How far the run's time has come, and what of it does not count against the wall clock.
///
/// `now` never goes back, and what does not count is never more than what has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Clock {
    /// The instant of the last event.
    pub(super) now: Millis,
    /// Milliseconds spent waiting for people, or without a driver, as far as that is over.
    uncounted_ms: u64,
}

impl Clock {
    /// Milliseconds that count against the wall clock; `waiting_since` is the beginning of a wait that is not over.
    pub(super) fn elapsed_ms(&self, waiting_since: Option<Millis>) -> u64 {
        let waiting = waiting_since.map_or(0, |since| self.now.since(since));
        self.now.0.saturating_sub(self.uncounted_ms).saturating_sub(waiting)
    }

    /// The instant at which `wall_ms` have counted.
    pub(super) fn ends_at(&self, wall_ms: u64) -> Millis {
        Millis(wall_ms.saturating_add(self.uncounted_ms))
    }

    /// Takes this much time out of the wall clock.
    pub(super) fn leave_out(&mut self, ms: u64) {
        self.uncounted_ms = self.uncounted_ms.saturating_add(ms);
    }
}
