//! The clock: the run's own time, taken from its events.

use serde::{Deserialize, Serialize};

use crate::types::Millis;

/// The run's time, and the part of it that does not count against the wall clock.
///
/// `now` never decreases, and the uncounted time never exceeds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Clock {
    /// The instant of the last event.
    pub(super) now: Millis,
    /// Milliseconds spent waiting for people or without a driver, as far as these waits are over.
    uncounted_ms: u64,
}

impl Clock {
    /// Milliseconds that count against the wall clock. `waiting_since` is the start of a wait that is not over.
    pub(super) fn elapsed_ms(&self, waiting_since: Option<Millis>) -> u64 {
        let waiting = waiting_since.map_or(0, |since| self.now.since(since));
        self.now.0.saturating_sub(self.uncounted_ms).saturating_sub(waiting)
    }

    /// The instant at which `wall_ms` milliseconds have counted.
    pub(super) fn ends_at(&self, wall_ms: u64) -> Millis {
        Millis(wall_ms.saturating_add(self.uncounted_ms))
    }

    /// Excludes this many milliseconds from the wall clock.
    pub(super) fn leave_out(&mut self, ms: u64) {
        self.uncounted_ms = self.uncounted_ms.saturating_add(ms);
    }
}
