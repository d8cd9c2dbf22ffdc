//! Budgets that runs share: of a day, of a month, of a batch. A model call is reserved in all of them before it is sent,
//! and settled after it.
//!
//! ```text
//! announce: quote ──► reserve(call, final pass) ──► reserved: the call is announced and sent
//!                                               ├─► wait:     calls of other runs will settle for less; ask again
//!                                               └─► refused:  the core receives what is left, and cuts the call to it,
//!                                                             makes the final pass, or ends the run
//! settled:  charge of the core ──► settle(call, cost)
//! resumed, ended, process gone: what is in flight is settled at its whole amount
//! ```

mod book;
mod memory;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::Offset;
use loop_core::types::{CommandKey, PicoUsd, RunId};

pub use book::LedgerAnswer;
pub(crate) use book::{Balance, Request, decide};
pub use memory::MemoryLedger;

use crate::{JournalError, unix_ms};

/// Stores the amounts of shared budgets: in a journal, for all processes that write it, or in memory.
#[async_trait]
pub trait SharedLedger: Send + Sync + fmt::Debug {
    /// Reserves a call in all these budgets or in none.
    ///
    /// # Errors
    /// When the ledger cannot be written. Then the call may not be sent.
    async fn reserve(&self, budgets: &[BudgetLimit], ask: &Reservation)
    -> Result<LedgerAnswer, JournalError>;

    /// Replaces the reservation of a call by its cost, in each budget in which it was reserved. A call without a
    /// reservation is settled already, and nothing changes.
    ///
    /// # Errors
    /// When the ledger cannot be written. Then the call stays reserved.
    async fn settle(&self, run: &RunId, call: &str, cost: PicoUsd) -> Result<(), JournalError>;

    /// Settles all calls of a run at their whole amounts: its driver is gone, or it has ended. What the run holds for its
    /// final pass is released unless it is taken over.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    async fn give_up(&self, run: &RunId, is_taken_over: bool) -> Result<(), JournalError>;

    /// Settles the calls in flight of runs that no process drives any more, each at its whole amount. A ledger of one
    /// process has none.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    async fn settle_leases(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// What is taken from a budget. Zero for one that no run has used.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    async fn taken(&self, budget: &str) -> Result<BudgetUse, JournalError>;
}

/// One shared budget, and how much runs may take from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetLimit {
    /// Its id in the ledger. Runs that name the same id share it.
    pub id: Arc<str>,
    /// The limit, in pico-dollars.
    pub limit: PicoUsd,
}

/// A run's request for budget before it sends a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The run.
    pub run: RunId,
    /// The call, by its key and try. It must not be empty.
    pub call: Arc<str>,
    /// What the call may cost, in pico-dollars.
    pub amount: PicoUsd,
    /// What the final pass after it may cost, in pico-dollars: the run holds it in place of what it held before.
    /// `None`: what it holds does not change, and it neither waits nor takes the rest.
    pub hold: Option<PicoUsd>,
}

/// The amounts that are taken from a shared budget, in pico-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// The cost of settled calls.
    pub spent: PicoUsd,
    /// Reserved for calls in flight, or held for final passes.
    pub reserved: PicoUsd,
}

impl BudgetUse {
    /// Both together.
    pub fn total(&self) -> PicoUsd {
        self.spent.plus(self.reserved)
    }
}

/// How long a shared budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Span {
    /// A day, from 00:00 UTC.
    Day,
    /// A calendar month, from 00:00 UTC of its first day.
    Month,
    /// All runs of a batch, whenever they run.
    Batch,
    /// A day, from 00:00 UTC, of the runs that were submitted with one token of a server.
    TokenDay,
}

impl Span {
    /// Its name: `day`, `month`, `batch` or `token_day`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A shared budget of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBudget {
    /// How long it counts.
    pub span: Span,
    /// Whose it is: the domain's name, the batch's id, or the token's name.
    pub of: Arc<str>,
    /// How much runs may take from it, in pico-dollars.
    pub limit: PicoUsd,
}

impl SharedBudget {
    /// The budget as it counts at this instant: a day and a month have an id of their own each.
    pub fn at(&self, now: SystemTime) -> BudgetLimit {
        let id = match self.span {
            Span::Day => format!("day {} {}", date(now, 10), self.of),
            Span::Month => format!("month {} {}", date(now, 7), self.of),
            Span::Batch => format!("batch {}", self.of),
            Span::TokenDay => format!("token_day {} {}", date(now, 10), self.of),
        };
        BudgetLimit { id: id.into(), limit: self.limit }
    }
}

/// The first characters of the date by UTC: 10 for `2026-11-26`, 7 for `2026-11`.
fn date(now: SystemTime, chars: usize) -> String {
    let millis = i64::try_from(unix_ms(now)).unwrap_or(i64::MAX);
    let at = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    Offset::UTC.to_datetime(at).date().to_string().chars().take(chars).collect()
}

/// The shared budgets of a runner, and the ledger that stores them.
#[derive(Clone)]
pub struct SharedBudgets {
    ledger: Arc<dyn SharedLedger>,
    budgets: Vec<SharedBudget>,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl fmt::Debug for SharedBudgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBudgets").field("budgets", &self.budgets).finish_non_exhaustive()
    }
}

impl SharedBudgets {
    /// These budgets, stored in this ledger.
    pub fn new(ledger: Arc<dyn SharedLedger>, budgets: impl IntoIterator<Item = SharedBudget>) -> Self {
        Self { ledger, budgets: budgets.into_iter().collect(), clock: Arc::new(SystemTime::now) }
    }

    /// The same budgets and this one, for one run: another run may have others on the same ledger.
    pub fn and(mut self, budget: SharedBudget) -> Self {
        self.budgets.push(budget);
        self
    }

    /// The same budgets by another clock, which says what day it is.
    pub fn with_clock(self, clock: Arc<dyn Fn() -> SystemTime + Send + Sync>) -> Self {
        Self { clock, ..self }
    }

    /// The budgets.
    pub fn budgets(&self) -> &[SharedBudget] {
        &self.budgets
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.budgets.is_empty()
    }

    /// Each budget as it counts now, with what is taken from it. Calls in flight of runs that no process drives any
    /// more are settled first.
    ///
    /// # Errors
    /// When the ledger cannot be read or written.
    pub async fn taken(&self) -> Result<Vec<(SharedBudget, BudgetUse)>, JournalError> {
        self.ledger.settle_leases().await?;
        let now = (self.clock)();
        let mut all = Vec::with_capacity(self.budgets.len());
        for budget in &self.budgets {
            all.push((budget.clone(), self.ledger.taken(&budget.at(now).id).await?));
        }
        Ok(all)
    }

    /// Reserves a call in all of them or in none.
    ///
    /// # Errors
    /// When the ledger cannot be written. Then the call may not be sent.
    pub async fn reserve(&self, ask: &Reservation) -> Result<LedgerAnswer, JournalError> {
        let now = (self.clock)();
        let budgets: Vec<BudgetLimit> = self.budgets.iter().map(|budget| budget.at(now)).collect();
        self.ledger.reserve(&budgets, ask).await
    }

    /// Replaces the reservation of a call by its cost.
    ///
    /// # Errors
    /// When the ledger cannot be written. Then the call stays reserved.
    pub async fn settle(&self, run: &RunId, call: &str, cost: PicoUsd) -> Result<(), JournalError> {
        self.ledger.settle(run, call, cost).await
    }

    /// Settles all calls of a run at their whole amounts, as [`SharedLedger::give_up`] says.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn give_up(&self, run: &RunId, is_taken_over: bool) -> Result<(), JournalError> {
        self.ledger.give_up(run, is_taken_over).await
    }
}

/// The name of a call in a ledger.
pub fn call_name(key: CommandKey, attempt: u32) -> Arc<str> {
    format!("{key} {attempt}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_and_months_are_those_of_utc() {
        let budget = |span| SharedBudget { span, of: "helpdesk".into(), limit: PicoUsd(1) };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // 2028-02-29 23:59:59 and the second after it.
        let (last, next) = (at(1_835_481_599), at(1_835_481_600));
        let id = |span, now| budget(span).at(now).id;
        assert_eq!(&*id(Span::Day, last), "day 2028-02-29 helpdesk");
        assert_eq!(&*id(Span::Day, next), "day 2028-03-01 helpdesk");
        assert_eq!(&*id(Span::Month, last), "month 2028-02 helpdesk");
        assert_eq!(&*id(Span::Month, next), "month 2028-03 helpdesk");
        assert_eq!(id(Span::Batch, last), id(Span::Batch, next));
        assert_eq!(&*id(Span::TokenDay, last), "token_day 2028-02-29 helpdesk");
    }
}
