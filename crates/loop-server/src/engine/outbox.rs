//! Retries hook messages whose delivery failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_runtime::hooks::QueuedMessage;
use loop_runtime::journal::Journal as _;

use super::{Engine, EngineError};
use crate::clock::unix_ms;

impl Engine {
    /// Delivers the messages that are due, for runs of the served domains.
    pub(super) async fn deliver_due(&self) -> Result<(), EngineError> {
        let now = unix_ms();
        let is_due = |queued: &QueuedMessage| queued.next_unix_ms.is_some_and(|next| next <= now);
        let mut of_domain: BTreeMap<Arc<str>, Vec<QueuedMessage>> = BTreeMap::new();
        for queued in self.inner.journal.outbox().await?.into_iter().filter(is_due) {
            if let Some((domain, _)) = self.owner(&queued.message.run).await? {
                of_domain.entry(domain).or_default().push(queued);
            }
        }
        for (domain, messages) in of_domain {
            if let Some(served) = self.inner.domains.get(&domain) {
                // The listener of the hooks tells the operator of each delivery that fails.
                served.runner.hooks().deliver(&*self.inner.journal, messages).await?;
            }
        }
        Ok(())
    }
}
