//! Deliveries: each message by one process at a time, until it arrives or has failed too often.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::join_all;
use loop_core::types::RunId;
use loop_journal::{Journal, JournalError, replay, unix_ms};

use super::message::expiring_at;
use super::{ClaimedMessage, DeliveryResult, Hook, HookEvent, HookMessage, Hooks, QueuedMessage};

/// How often a delivery may fail before it is no longer repeated automatically.
pub const MAX_DELIVERIES: u32 = 10;

/// How long after its n-th failure a message is delivered again, in seconds. The last counts for all that follow.
const PAUSES_S: [u64; 8] = [5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200];

/// The result of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookReport {
    /// The message's id.
    pub id: Arc<str>,
    /// The run.
    pub run: RunId,
    /// The hook's name.
    pub hook: Arc<str>,
    /// What happened to the run.
    pub event: HookEvent,
    /// Whether the message was delivered, and if not, what follows.
    pub delivered: DeliveryResult,
}

impl Hooks {
    /// Delivers these messages of a journal, side by side, each at most once. Messages that another process delivers
    /// are skipped, and so are those for hooks that are not in this set. It takes no longer than the longest timeout of
    /// a hook.
    ///
    /// # Errors
    /// If the journal cannot be read or written. What was sent may then be sent again.
    pub async fn deliver(
        &self,
        journal: &dyn Journal,
        messages: Vec<QueuedMessage>,
    ) -> Result<Vec<HookReport>, JournalError> {
        let deliveries = messages.into_iter().filter_map(|queued| {
            let hook = self.get(&queued.message.hook).filter(|_| queued.is_sealed)?;
            Some(self.deliver_one(journal, hook, queued))
        });
        let reports: Result<Vec<_>, _> = join_all(deliveries).await.into_iter().collect();
        Ok(reports?.into_iter().flatten().collect())
    }

    /// Delivers what is due of a run.
    pub(crate) async fn deliver_of(&self, journal: &dyn Journal, run: &RunId) -> Result<(), JournalError> {
        let now = unix_ms(SystemTime::now());
        let is_due = |queued: &QueuedMessage| {
            queued.message.run == *run && queued.next_unix_ms.is_some_and(|next| next <= now)
        };
        let due: Vec<_> = journal.outbox().await?.into_iter().filter(is_due).collect();
        if due.is_empty() { Ok(()) } else { self.deliver(journal, due).await.map(drop) }
    }

    async fn deliver_one(
        &self,
        journal: &dyn Journal,
        hook: &Hook,
        queued: QueuedMessage,
    ) -> Result<Option<HookReport>, JournalError> {
        let listed = queued.failures;
        let Some(ClaimedMessage { queued, _lock }) = journal.claim_message(&queued.message.id).await? else {
            return Ok(None);
        };
        // It was tried between the list and the claim, and is due later now.
        if queued.failures != listed {
            return Ok(None);
        }
        let message = &queued.message;
        if message.event == HookEvent::Expiring && !is_expiring(journal, message).await {
            journal.settle_message(&message.id, &DeliveryResult::Yes).await?;
            return Ok(None);
        }
        let sending = std::panic::AssertUnwindSafe(hook.sender.send(message)).catch_unwind();
        let sent = match tokio::time::timeout(hook.timeout, sending).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(_)) => Err("the delivery panicked".to_owned()),
            Err(_) => Err(format!("no answer after {} s", hook.timeout.as_secs_f64())),
        };
        let delivered = match sent {
            Ok(()) => DeliveryResult::Yes,
            Err(error) => {
                let failures = queued.failures.saturating_add(1);
                let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
                DeliveryResult::No { error: error.into(), next_unix_ms: next(failures) }
            }
        };
        journal.settle_message(&message.id, &delivered).await?;
        let report = HookReport {
            id: message.id.clone(),
            run: message.run.clone(),
            hook: message.hook.clone(),
            event: message.event,
            delivered,
        };
        if let Some(listener) = &self.listener {
            listener(&report);
        }
        Ok(Some(report))
    }
}

/// Whether the wait that a message is about is still open. Of a run that cannot be read it may be: its message is sent, and
/// holds up no other.
async fn is_expiring(journal: &dyn Journal, message: &HookMessage) -> bool {
    let Ok(recorded) = journal.read(&message.run).await else { return true };
    let Ok(run) = replay(&message.run, &recorded) else { return true };
    let is_over = run.deadline().is_none_or(|deadline| deadline <= recorded.now());
    !is_over && expiring_at(&run) == Some(message.unix_ms)
}

/// When a message is delivered again that has failed so often.
fn next(failures: u32) -> Option<u64> {
    if failures >= MAX_DELIVERIES {
        return None;
    }
    let nth = usize::try_from(failures).unwrap_or(usize::MAX).saturating_sub(1);
    let pause = PAUSES_S.get(nth).or(PAUSES_S.last()).copied().unwrap_or_default();
    Some(unix_ms(SystemTime::now() + Duration::from_secs(pause)))
}
