//! Limits how many failed logins are answered and recorded. Valid tokens and codes always work, whatever others try.
//! Secrets have 256 bits, so the limit protects the audit log and the CPU, not the secrets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The most failed logins of one address in a minute.
pub const MAX_FAILURES: u32 = 10;
/// The most failed logins of all addresses in a minute.
pub const MAX_FAILURES_IN_ALL: u32 = 60;
/// The period for which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The most addresses with a count of their own.
const MAX_ADDRESSES: usize = 4_096;

/// The failed logins of the current minute.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    state: Mutex<AttemptCounts>,
}

#[derive(Debug, Default)]
struct AttemptCounts {
    ends: Option<Instant>,
    in_all: u32,
    of: HashMap<IpAddr, u32>,
}

impl Attempts {
    /// Counts a failed login. `Err`: there were too many, with the seconds until the next attempt.
    pub(super) fn fail(&self, from: IpAddr) -> Result<(), u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let ends = match state.ends {
            Some(ends) if ends > now => ends,
            _ => {
                *state = AttemptCounts::default();
                *state.ends.insert(now + WINDOW)
            }
        };
        let wait = (ends - now).as_secs() + 1;
        if state.in_all >= MAX_FAILURES_IN_ALL {
            return Err(wait);
        }
        let from = network(from);
        let is_known = state.of.contains_key(&from);
        if is_known || state.of.len() < MAX_ADDRESSES {
            let count = state.of.entry(from).or_default();
            if *count >= MAX_FAILURES {
                return Err(wait);
            }
            *count += 1;
        }
        state.in_all += 1;
        Ok(())
    }
}

/// The address, or the /64 network of an IPv6 address, since one client has all of its addresses.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_logins_are_limited_by_address_and_in_all() {
        let attempts = Attempts::default();
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        (0..MAX_FAILURES).for_each(|_| attempts.fail(address(1)).unwrap());
        assert_eq!(attempts.fail(address(1)), Err(61));
        let mut accepted = MAX_FAILURES;
        for n in 2..=u8::MAX {
            accepted += u32::from(attempts.fail(address(n)).is_ok());
        }
        assert_eq!(accepted, MAX_FAILURES_IN_ALL);
        tokio::time::advance(WINDOW).await;
        assert_eq!(attempts.fail(address(1)), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_network_are_one_client() {
        let attempts = Attempts::default();
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n]);
        (0..10).for_each(|n| attempts.fail(address(n)).unwrap());
        assert!(attempts.fail(address(99)).is_err());
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(network(mapped), IpAddr::from([10, 0, 0, 1]));
    }
}
