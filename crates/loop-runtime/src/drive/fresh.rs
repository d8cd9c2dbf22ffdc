//! What no other run has: its name, and the random digits that mark its contract.

use std::sync::Arc;

/// A name that no other run has, in the order of time; also of a clock that is set to a time before 1970.
pub(crate) fn fresh_id(now: std::time::SystemTime) -> uuid::Uuid {
    // One context for all, so that runs of one millisecond keep their order.
    static CONTEXT: std::sync::Mutex<uuid::ContextV7> = std::sync::Mutex::new(uuid::ContextV7::new());
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    uuid::Uuid::new_v7(uuid::Timestamp::from_unix(&CONTEXT, since.as_secs(), since.subsec_nanos()))
}

/// Sixteen random digits: nothing that a tool or an item could guess.
pub(crate) fn nonce() -> Arc<str> {
    // The first and the last 32 bits of a version 4 UUID are random.
    let random = uuid::Uuid::new_v4().as_u128();
    format!("{:08x}{:08x}", (random >> 96) as u32, random as u32).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_run_is_named_also_where_the_clock_says_a_time_before_1970() {
        // B11, H7
        let before = UNIX_EPOCH - Duration::from_secs(86_400 * 365);
        assert_eq!(loop_journal::unix_ms(before), 0);
        let names: Vec<_> = (0..100).map(|_| fresh_id(before)).collect();
        assert!(names.is_sorted() && names.windows(2).all(|pair| pair.first() != pair.last()), "{names:?}");
        assert_ne!(nonce(), nonce());
    }
}
