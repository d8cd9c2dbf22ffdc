//! How many requests a minute go to one host, over all tools of the process that name a limit.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time over which requests are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// When requests were sent, by host and port.
type SendTimes = HashMap<String, VecDeque<Instant>>;

static SENT: LazyLock<Mutex<SendTimes>> = LazyLock::new(Mutex::default);

/// Counts one more request to `place`, or says how long it has to wait until `limit` lets it go.
pub(crate) fn take(place: &str, limit: u32) -> Result<(), Duration> {
    let now = Instant::now();
    // A panic leaves the counts complete: each statement is one change.
    let mut sent = SENT.lock().unwrap_or_else(PoisonError::into_inner);
    let times = sent.entry(place.to_owned()).or_default();
    while times.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
        times.pop_front();
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
    // Of the last `limit` requests the first must be a minute ago.
    match times.len().checked_sub(limit).and_then(|at| times.get(at)) {
        Some(first) => Err(MINUTE.saturating_sub(now.duration_since(*first))),
        None => {
            times.push_back(now);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_beyond_the_limit_waits_for_the_first_to_be_a_minute_old() {
        for _ in 0..3 {
            assert_eq!(take("rate.example:443", 3), Ok(()));
        }
        let wait = take("rate.example:443", 3).err();
        assert!(wait.is_some_and(|wait| wait > Duration::from_secs(50) && wait <= MINUTE), "{wait:?}");
        assert_eq!(take("rate.example:8443", 3), Ok(()), "another port is another place");
        assert_eq!(take("rate.example:443", 4), Ok(()), "a tool that may send more sends more");
    }
}
