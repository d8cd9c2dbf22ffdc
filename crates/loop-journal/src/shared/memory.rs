//! Shared budgets in memory: of the runs of one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loop_core::types::{PicoUsd, RunId};

use super::{Balance, BudgetLimit, BudgetUse, LedgerAnswer, Request, Reservation, SharedLedger, decide};
use crate::JournalError;

/// Budgets that runs of this process share as long as the value exists. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryLedger {
    books: Arc<Mutex<BTreeMap<Arc<str>, BudgetBook>>>,
}

/// One budget.
#[derive(Debug, Default)]
struct BudgetBook {
    spent: u64,
    /// What each call of a run reserves. The empty name is what the run holds for its final pass.
    reserved: BTreeMap<(RunId, Arc<str>), u64>,
}

impl BudgetBook {
    fn position(&self, limit: PicoUsd, run: &RunId) -> Balance {
        let mut position = Balance { limit: limit.0, spent: self.spent, ..Balance::default() };
        for ((of, call), amount) in &self.reserved {
            let sum = match (of == run, call.is_empty()) {
                (true, true) => &mut position.own_hold,
                (true, false) => &mut position.own_calls,
                (false, true) => &mut position.others_holds,
                (false, false) => &mut position.others_calls,
            };
            *sum = sum.saturating_add(*amount);
        }
        position
    }
}

impl MemoryLedger {
    /// A ledger of unused budgets.
    pub fn new() -> Self {
        Self::default()
    }

    fn books(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, BudgetBook>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SharedLedger for MemoryLedger {
    async fn reserve(
        &self,
        budgets: &[BudgetLimit],
        ask: &Reservation,
    ) -> Result<LedgerAnswer, JournalError> {
        let mut books = self.books();
        let positions: Vec<Balance> = budgets
            .iter()
            .map(|budget| books.entry(Arc::clone(&budget.id)).or_default().position(budget.limit, &ask.run))
            .collect();
        let asked = Request { amount: ask.amount.0, hold: ask.hold.map(|hold| hold.0) };
        let (answer, hold) = decide(&positions, asked);
        let hold_name: Arc<str> = "".into();
        if hold.is_some() {
            // Of another day too: it is held anew.
            books.values_mut().for_each(|book| {
                book.reserved.remove(&(ask.run.clone(), Arc::clone(&hold_name)));
            });
        }
        for budget in budgets {
            let Some(book) = books.get_mut(&budget.id) else { continue };
            if let Some(hold) = hold {
                book.reserved.insert((ask.run.clone(), Arc::clone(&hold_name)), hold);
            }
            if answer == LedgerAnswer::Reserved {
                book.reserved.insert((ask.run.clone(), Arc::clone(&ask.call)), ask.amount.0);
            }
        }
        Ok(answer)
    }

    async fn settle(&self, run: &RunId, call: &str, cost: PicoUsd) -> Result<(), JournalError> {
        let name = (run.clone(), Arc::from(call));
        for book in self.books().values_mut() {
            if book.reserved.remove(&name).is_some() {
                book.spent = book.spent.saturating_add(cost.0);
            }
        }
        Ok(())
    }

    async fn give_up(&self, run: &RunId, is_taken_over: bool) -> Result<(), JournalError> {
        for BudgetBook { spent, reserved } in self.books().values_mut() {
            reserved.retain(|(of, call), amount| {
                if of != run || call.is_empty() && is_taken_over {
                    return true;
                }
                if !call.is_empty() {
                    *spent = spent.saturating_add(*amount);
                }
                false
            });
        }
        Ok(())
    }

    async fn taken(&self, budget: &str) -> Result<BudgetUse, JournalError> {
        let books = self.books();
        let Some(book) = books.get(budget) else { return Ok(BudgetUse::default()) };
        let reserved = book.reserved.values().fold(0, |sum: u64, amount| sum.saturating_add(*amount));
        Ok(BudgetUse { spent: PicoUsd(book.spent), reserved: PicoUsd(reserved) })
    }
}
