//! The driver and the budgets that runs share: it reserves before it sends, and settles what the core charged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use loop_core::run::Refusal;
use loop_core::types::{CommandKey, PicoUsd};
use loop_core::{Command, EventKind, Note, Quote};
use loop_journal::Entry;
use loop_journal::shared::{LedgerAnswer, Reservation, call_name};
use tokio::time::Instant;

use super::{Driver, Failure};

/// How long a driver waits before it asks for the money of a call again, at first and at most.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const MAX_WAIT: Duration = Duration::from_millis(500);

/// What a driver has reserved, and whether it waits for money.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// The calls that are reserved and that the core has not charged.
    reserved: BTreeSet<(CommandKey, u32)>,
    /// The cost of each call that the journal charges and that may not be settled in the ledger.
    charged: BTreeMap<(CommandKey, u32), PicoUsd>,
    /// When the money of the next call is asked for again. `None`: nothing is waited for.
    asks_at: Option<Instant>,
    /// The last wait.
    wait: Duration,
    /// Whether an earlier driver's reservations are settled.
    is_taken_over: bool,
}

impl Sharing {
    /// What a driver begins with that resumes a run with these entries. Its last driver may have ended after an entry was
    /// durable and before what the entry charges was settled.
    pub(crate) fn after(entries: &[Entry]) -> Self {
        let mut sharing = Self::default();
        for note in entries.iter().flat_map(|entry| &entry.notes) {
            let Note::CallCharged { key, attempt, cost, .. } = note else { continue };
            sharing.charged.insert((*key, *attempt), cost.unwrap_or_default());
        }
        sharing
    }

    /// When the money of the next call is asked for again. `None`: nothing is waited for.
    pub(super) fn asks_at(&self) -> Option<Instant> {
        self.asks_at
    }

    /// Whether the money of the next call is asked for later.
    pub(super) fn waits(&self) -> bool {
        self.asks_at.is_some_and(|at| Instant::now() < at)
    }

    fn wait(&mut self) {
        self.wait = (self.wait * 2).clamp(FIRST_WAIT, MAX_WAIT);
        self.asks_at = Some(Instant::now() + self.wait);
    }

    /// Ends the wait for money where no call is commanded that asks for it: the run was stopped, or takes another way.
    pub(super) fn keep_wait(&mut self, commands: &[Command]) {
        let asks = |command: &Command| matches!(command, Command::CallModel(call) if call.granted.is_none());
        if self.asks_at.is_some() && !commands.iter().any(asks) {
            self.end_wait();
        }
    }

    fn end_wait(&mut self) {
        (self.asks_at, self.wait) = (None, Duration::ZERO);
    }
}

impl Driver {
    /// Settles what earlier drivers of the run left: at its cost what the journal charges, and the rest at its whole amount,
    /// as the core charges it.
    pub(super) async fn take_over_shared(&mut self) -> Result<(), Failure> {
        let is_first = !std::mem::replace(&mut self.shared.is_taken_over, true);
        if !is_first || self.first.is_empty() {
            return Ok(());
        }
        self.settle_charged().await?;
        if let Some(shared) = &self.parts.shared {
            shared.give_up(self.run.id(), /*is_taken_over*/ true).await?;
        }
        Ok(())
    }

    /// Reserves a quoted call and the final pass after it. The error is the refusal, or `None` while it has to wait.
    pub(super) async fn reserve_shared(
        &mut self,
        key: CommandKey,
        attempt: u32,
        quote: &Quote,
    ) -> Result<Result<(), Option<Refusal>>, Failure> {
        let Some(shared) = &self.parts.shared else { return Ok(Ok(())) };
        // A model without a known price gets nothing of a shared budget.
        let Some(amount) = quote.reserve.cost else {
            return Ok(Err(Some(Refusal::SharedBudget { left: PicoUsd(0) })));
        };
        let hold = Some(self.run.final_pass_reserve(&key, quote));
        let ask = Reservation { run: self.run.id().clone(), call: call_name(key, attempt), amount, hold };
        let answer = shared.reserve(&ask).await?;
        if answer == LedgerAnswer::Wait {
            self.shared.wait();
            return Ok(Err(None));
        }
        self.shared.end_wait();
        Ok(match answer {
            LedgerAnswer::Refused { left } => Err(Some(Refusal::SharedBudget { left })),
            LedgerAnswer::Reserved | LedgerAnswer::Wait => {
                self.shared.reserved.insert((key, attempt));
                Ok(())
            }
        })
    }

    /// Reserves the sub-call of a smart tool or a check. False: it runs without it.
    pub(super) async fn reserve_shared_sub_call(
        &mut self,
        key: CommandKey,
        attempt: u32,
    ) -> Result<bool, Failure> {
        let Some(shared) = &self.parts.shared else { return Ok(true) };
        let Some(amount) = self.run.sub_call_reserve(&key).cost else { return Ok(false) };
        let ask =
            Reservation { run: self.run.id().clone(), call: call_name(key, attempt), amount, hold: None };
        let is_reserved = shared.reserve(&ask).await? == LedgerAnswer::Reserved;
        if is_reserved {
            self.shared.reserved.insert((key, attempt));
        }
        Ok(is_reserved)
    }

    /// Settles the calls that these entries charge. A tool or a check that ended without its sub-call releases what that reserved.
    pub(super) async fn settle_shared(&mut self, entries: &[Arc<Entry>]) -> Result<(), Failure> {
        if self.parts.shared.is_none() {
            return Ok(());
        }
        let Sharing { reserved, charged, .. } = &mut self.shared;
        for entry in entries {
            for note in &entry.notes {
                let Note::CallCharged { key, attempt, cost, .. } = note else { continue };
                if reserved.remove(&(*key, *attempt)) {
                    charged.insert((*key, *attempt), cost.unwrap_or_default());
                }
            }
            if let EventKind::ToolFinished { key, attempt, .. } | EventKind::Checked { key, attempt, .. } =
                &entry.event.kind
                && reserved.remove(&(*key, *attempt))
            {
                charged.insert((*key, *attempt), PicoUsd(0));
            }
        }
        self.settle_charged().await
    }

    /// Settles each charged call at its cost. A call that the ledger could not write stays for the next time.
    async fn settle_charged(&mut self) -> Result<(), Failure> {
        let Some(shared) = &self.parts.shared else { return Ok(()) };
        while let Some((&(key, attempt), &cost)) = self.shared.charged.first_key_value() {
            shared.settle(self.run.id(), &call_name(key, attempt), cost).await?;
            self.shared.charged.remove(&(key, attempt));
        }
        Ok(())
    }

    /// Settles what is charged, then what is still in flight at its whole amount, and releases what is held: the run has
    /// ended here. What cannot be written stays reserved until another run needs it.
    pub(super) async fn give_up_shared(&mut self) {
        if self.settle_charged().await.is_err() {
            return;
        }
        if let Some(shared) = &self.parts.shared {
            _ = shared.give_up(self.run.id(), /*is_taken_over*/ false).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_money_ends_where_no_call_asks_for_it() {
        // L22: a run that is stopped while it waits does not wake for it while it is saved.
        let mut sharing = Sharing::default();
        sharing.wait();
        assert!(sharing.asks_at().is_some() && sharing.waits());
        sharing.keep_wait(&[Command::Save { attempt: 1 }]);
        assert!(sharing.asks_at().is_none() && !sharing.waits());
        sharing.wait();
        sharing.keep_wait(&[]);
        assert_eq!((sharing.asks_at(), sharing.wait), (None, Duration::ZERO));
    }
}
