//! Limits how many entries without effect a caller can add to the audit log: refused and repeated requests. Everything
//! that was done is recorded, and the queue and the runs bound its amount.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loop_runtime::journal::audit::{AuditEntry, AuditResult};
use tokio::time::Instant;

/// The most entries of one account in a minute about requests without effect.
pub const MAX_REFUSALS: u32 = 30;
/// The period for which they are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The most accounts that are counted. Each needs a valid token, so only operators can reach the limit.
const MAX_ACCOUNTS: usize = 16_384;

/// The recent entries of each account.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    of: Mutex<HashMap<Arc<str>, RefusalCount>>,
    left_out: AtomicU64,
}

#[derive(Debug)]
struct RefusalCount {
    ends: Instant,
    recorded: u32,
    /// The entries left out since the last recorded one.
    left_out: u64,
}

impl Refusals {
    /// The entry to record, with the number of entries left out before it. `None`: it is left out.
    pub(super) fn admit(&self, mut entry: AuditEntry) -> Option<AuditEntry> {
        let is_done = entry.result == AuditResult::Done;
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if is_done && !of.contains_key(&entry.account) {
            return Some(entry);
        }
        if of.len() >= MAX_ACCOUNTS {
            of.retain(|_, counted| counted.ends > now);
        }
        let fresh = || RefusalCount { ends: now + WINDOW, recorded: 0, left_out: 0 };
        let counted = of.entry(Arc::clone(&entry.account)).or_insert_with(fresh);
        if counted.ends <= now {
            (counted.ends, counted.recorded) = (now + WINDOW, 0);
        }
        if !is_done {
            if counted.recorded >= MAX_REFUSALS {
                counted.left_out += 1;
                self.left_out.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            counted.recorded += 1;
        }
        let left_out = std::mem::take(&mut counted.left_out);
        if left_out > 0 {
            append(
                &mut entry,
                &format!("{left_out} refused or repeated requests before it are not recorded"),
            );
        }
        if !is_done && counted.recorded == MAX_REFUSALS {
            append(&mut entry, "further ones within the minute are counted and not recorded");
        }
        Some(entry)
    }

    /// How many entries were left out since the server began.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

fn append(entry: &mut AuditEntry, more: &str) {
    let detail = match &entry.detail {
        Some(detail) => format!("{detail}; {more}"),
        None => more.to_owned(),
    };
    entry.detail = Some(detail.into());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use loop_runtime::journal::audit::AuditAction;

    use super::*;

    fn entry(account: &str, result: AuditResult) -> AuditEntry {
        let entry = super::super::identity::unknown([127, 0, 0, 1].into(), AuditAction::Approve, result);
        AuditEntry { account: account.into(), detail: Some("why".into()), ..entry }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_requests_of_a_caller_are_recorded_up_to_a_bound_and_counted_beyond_it() {
        // K8
        let refusals = Refusals::default();
        let refused = |account: &str| refusals.admit(entry(account, AuditResult::Refused));
        for n in 1..MAX_REFUSALS {
            assert_eq!(refused("token ci").unwrap().detail.as_deref(), Some("why"), "{n}");
        }
        let last = refused("token ci").unwrap().detail.unwrap();
        assert_eq!(&*last, "why; further ones within the minute are counted and not recorded");
        assert!((0..1_000).all(|_| refused("token ci").is_none()));
        assert!(refusals.admit(entry("token ci", AuditResult::Again)).is_none());
        assert!(refused("token other").is_some(), "each caller has a bound of their own");
        assert_eq!(refusals.left_out(), 1_001);
        // What is done is recorded in any case, and says what is missing.
        let done = refusals.admit(entry("token ci", AuditResult::Done)).unwrap().detail.unwrap();
        assert_eq!(&*done, "why; 1001 refused or repeated requests before it are not recorded");
        assert!(refused("token ci").is_none());
        tokio::time::advance(WINDOW).await;
        let next = refused("token ci").unwrap().detail.unwrap();
        assert_eq!(&*next, "why; 1 refused or repeated requests before it are not recorded");
        assert_eq!(refused("token ci").unwrap().detail.as_deref(), Some("why"));
    }
}
