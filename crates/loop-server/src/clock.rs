//! The time of this machine.

use std::time::SystemTime;

/// Milliseconds since 1970; 0 for a clock that is set to a time before.
pub(crate) fn unix_ms() -> u64 {
    loop_runtime::journal::unix_ms(SystemTime::now())
}
