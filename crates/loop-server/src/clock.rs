//! The time of this machine.

use std::time::SystemTime;

/// Milliseconds since 1970; 0 for a clock that is set to a time before.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
