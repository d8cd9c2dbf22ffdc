//! A simulated ledger of a shared budget: other runs take from it and settle, and now and then it cannot be written.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loop_core::types::{PicoUsd, RunId};
use loop_runtime::budget::{
    BudgetLimit, BudgetUse, LedgerAnswer, MemoryLedger, Reservation, SharedBudget, SharedLedger, Span,
};
use loop_runtime::journal::JournalError;
use loop_testkit::sim::{Choices, SimFault};

use super::bugs::Bug;
use super::world::SimWorld;

/// Limits of the shared budget, in billions of pico-dollars. A call reserves about two.
const LIMITS: [u64; 8] = [200, 40, 30, 20, 15, 10, 6, 2];
/// How many times a run may be told to wait. After that other runs have settled.
const MAX_WAITS: u32 = 4;

/// The ledger, and another run that shares the budget.
#[derive(Debug)]
pub(crate) struct SimLedger {
    world: Arc<SimWorld>,
    inner: MemoryLedger,
    limit: PicoUsd,
    /// What the other run has in flight.
    others: Mutex<Option<u64>>,
    calls: AtomicU32,
    waits: AtomicU32,
    /// The calls of the run that are reserved.
    in_flight: Mutex<Vec<Arc<str>>>,
    /// What the settled calls of the other run cost.
    others_spent: Mutex<u64>,
}

/// The limit of the budget that a run shares, if it shares one.
pub(crate) fn drawn_limit(choices: &mut Choices) -> Option<PicoUsd> {
    let limit = choices.one_in(3).then(|| choices.of(&LIMITS).copied()).flatten();
    limit.map(|billions| PicoUsd(billions * 1_000_000_000))
}

impl SimLedger {
    pub(crate) fn new(world: &Arc<SimWorld>, limit: PicoUsd) -> Self {
        Self {
            world: Arc::clone(world),
            inner: MemoryLedger::new(),
            limit,
            others: Mutex::default(),
            calls: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            in_flight: Mutex::default(),
            others_spent: Mutex::default(),
        }
    }

    /// The budget of the run.
    pub(crate) fn budget(&self) -> SharedBudget {
        SharedBudget { span: Span::Batch, of: "sim".into(), limit: self.limit }
    }

    /// I-1: whether a call is reserved.
    pub(crate) fn covers(&self, call: &str) -> bool {
        self.in_flight.lock().unwrap().iter().any(|known| **known == *call)
    }

    /// I-1, I-21: once the run has ended nothing is reserved, and what it spent is at least what it says that it cost.
    pub(crate) async fn after_the_end(&self, cost: PicoUsd) -> Result<(), SimFault> {
        let others = *self.others.lock().unwrap();
        let taken = self.inner.taken("batch sim").await.unwrap_or_default();
        let check = "I-1 an ended run reserves nothing";
        if taken.reserved.0 != others.unwrap_or_default() {
            return Err(SimFault { check, what: format!("{taken:?}, of that {others:?} by another run") });
        }
        let others_spent = *self.others_spent.lock().unwrap();
        let check = "I-21 the shared budget is charged what the run cost";
        if taken.spent.0 < cost.0.saturating_add(others_spent) {
            let what = format!("{taken:?}, the run cost {cost}, and another run {others_spent}");
            return Err(SimFault { check, what });
        }
        Ok(())
    }

    /// Another run reserves, or settles.
    async fn others(&self) {
        let other = RunId::new("another");
        let in_flight = *self.others.lock().unwrap();
        let settles = in_flight.is_some()
            && (self.waits.load(Ordering::Relaxed) >= MAX_WAITS || self.world.below(3) != 2);
        if let Some(amount) = in_flight.filter(|_| settles) {
            let cost = amount / (1 + u64::from(self.world.below(4)));
            _ = self.inner.settle(&other, "1/main 1", PicoUsd(cost)).await;
            *self.others_spent.lock().unwrap() += cost;
            *self.others.lock().unwrap() = None;
        } else if in_flight.is_none() && self.world.below(6) == 5 {
            let amount = PicoUsd(self.limit.0 / (2 + u64::from(self.world.below(6))));
            let ask = Reservation { run: other, call: "1/main 1".into(), amount, hold: None };
            let limit = BudgetLimit { id: "batch sim".into(), limit: self.limit };
            let answer = self.inner.reserve(&[limit], &ask).await;
            if matches!(answer, Ok(LedgerAnswer::Reserved)) {
                *self.others.lock().unwrap() = Some(amount.0);
            }
        }
    }
}

#[async_trait]
impl SharedLedger for SimLedger {
    async fn reserve(
        &self,
        budgets: &[BudgetLimit],
        ask: &Reservation,
    ) -> Result<LedgerAnswer, JournalError> {
        self.others().await;
        if self.world.has_faults.load(Ordering::Relaxed) && self.world.below(40) == 39 {
            let message = "no space left on device".to_owned();
            return Err(JournalError::Storage { place: "the ledger".to_owned(), message });
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.world.bug == Some(Bug::ReservedUnwritten) && self.calls.load(Ordering::Relaxed) % 3 == 2 {
            return Ok(LedgerAnswer::Reserved);
        }
        let answer = self.inner.reserve(budgets, ask).await?;
        match answer {
            LedgerAnswer::Wait => _ = self.waits.fetch_add(1, Ordering::Relaxed),
            LedgerAnswer::Refused { .. } => self.waits.store(0, Ordering::Relaxed),
            LedgerAnswer::Reserved => {
                self.waits.store(0, Ordering::Relaxed);
                self.in_flight.lock().unwrap().push(Arc::clone(&ask.call));
            }
        }
        Ok(answer)
    }

    async fn settle(&self, run: &RunId, call: &str, cost: PicoUsd) -> Result<(), JournalError> {
        let cost = if self.world.bug == Some(Bug::SettledForFree) { PicoUsd(0) } else { cost };
        self.in_flight.lock().unwrap().retain(|known| **known != *call);
        self.inner.settle(run, call, cost).await
    }

    async fn give_up(&self, run: &RunId, is_taken_over: bool) -> Result<(), JournalError> {
        self.in_flight.lock().unwrap().clear();
        self.inner.give_up(run, is_taken_over).await
    }

    async fn taken(&self, budget: &str) -> Result<BudgetUse, JournalError> {
        self.inner.taken(budget).await
    }
}
