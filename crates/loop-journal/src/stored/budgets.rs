//! Shared budgets in the journal: every process that writes it reserves in the same tables, one transaction at a time.
//!
//! The lease of a reservation is its run's lock, which the system releases when the process ends. A reservation whose run
//! no process drives is settled at its whole amount: by the driver that resumes the run, or by another run that needs the
//! money.

use std::sync::Arc;

use super::sql::{Connection, Purpose, params};
use async_trait::async_trait;
use loop_core::types::{PicoUsd, RunId};

use super::fault::Fault;
use super::locks::{NotTaken, RunLock};
use super::{Files, StoredJournal};
use crate::shared::{
    Balance, BudgetLimit, BudgetUse, LedgerAnswer, Request, Reservation, SharedLedger, decide,
};
use crate::{Durability, JournalError};

/// They are laid when a run first asks, and programs that know nothing of them leave them alone.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS shared_budgets (
        budget TEXT NOT NULL PRIMARY KEY,
        spent  INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS shared_reservations (
        run    TEXT NOT NULL,
        call   TEXT NOT NULL,
        budget TEXT NOT NULL,
        amount INTEGER NOT NULL,
        PRIMARY KEY (run, call, budget)
    ) STRICT, WITHOUT ROWID;";

/// The name under which a run holds money for its final pass. A call has a longer one.
const HOLD: &str = "";

/// The lock of a batch that this process runs. Dropping it lets another process run the batch.
#[derive(Debug)]
pub struct BatchLock {
    _lock: RunLock,
}

impl StoredJournal {
    /// Locks the batch with this id for this process.
    ///
    /// # Errors
    /// When another process has it, or the lock file cannot be made.
    pub fn lock_batch(&self, id: &str) -> Result<BatchLock, JournalError> {
        let files = &self.store.files;
        match files.locks.take(&RunId::new(format!("batch-{id}"))) {
            Ok(lock) => Ok(BatchLock { _lock: lock }),
            Err(NotTaken::Held(pid)) => Err(JournalError::BatchBusy { pid: pid.unwrap_or_default() }),
            Err(NotTaken::Failed(fault)) => Err(fault.at(&files.path)),
        }
    }

    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &Connection) -> Result<T, Fault> + Clone + Send + 'static,
    ) -> Result<T, JournalError> {
        self.changing(Purpose::Budgets, self.sync.of(Durability::Committed), TABLES, work).await
    }
}

#[async_trait]
impl SharedLedger for StoredJournal {
    async fn reserve(
        &self,
        budgets: &[BudgetLimit],
        ask: &Reservation,
    ) -> Result<LedgerAnswer, JournalError> {
        let (budgets, ask) = (budgets.to_vec(), ask.clone());
        self.change(move |files, connection| {
            if !connection.is_file() {
                // An earlier try may have been committed without an answer.
                let sql = "DELETE FROM shared_reservations WHERE run = ?1 AND call = ?2 AND call <> ''";
                connection.execute(sql, params![ask.run.as_str(), ask.call])?;
            }
            let asked = Request { amount: ask.amount.0, hold: ask.hold.map(|hold| hold.0) };
            let mut decided = decide(&positions(connection, &budgets, &ask.run)?, asked);
            if decided.0 != LedgerAnswer::Reserved && settle_leases(files, connection, Some(&ask.run))? {
                decided = decide(&positions(connection, &budgets, &ask.run)?, asked);
            }
            let (answer, hold) = decided;
            if hold.is_some() {
                // Of another day too: it is held anew.
                let sql = "DELETE FROM shared_reservations WHERE run = ?1 AND call = ?2";
                connection.execute(sql, params![ask.run.as_str(), HOLD])?;
            }
            for BudgetLimit { id, .. } in &budgets {
                if let Some(hold) = hold {
                    insert(connection, &ask.run, HOLD, id, hold)?;
                }
                if answer == LedgerAnswer::Reserved {
                    insert(connection, &ask.run, &ask.call, id, ask.amount.0)?;
                }
            }
            Ok(answer)
        })
        .await
    }

    async fn settle(&self, run: &RunId, call: &str, cost: PicoUsd) -> Result<(), JournalError> {
        let (run, call) = (run.clone(), call.to_owned());
        self.change(move |_, connection| {
            let sql = "SELECT budget FROM shared_reservations WHERE run = ?1 AND call = ?2";
            let budgets: Vec<String> = connection.list(sql, params![run.as_str(), call], |row| row.get(0))?;
            for budget in budgets {
                spend(connection, &budget, cost.0)?;
            }
            let sql = "DELETE FROM shared_reservations WHERE run = ?1 AND call = ?2";
            connection.execute(sql, params![run.as_str(), call])?;
            Ok(())
        })
        .await
    }

    async fn give_up(&self, run: &RunId, is_taken_over: bool) -> Result<(), JournalError> {
        let run = run.clone();
        self.change(move |_, connection| settle_whole(connection, run.as_str(), is_taken_over)).await
    }

    async fn settle_leases(&self) -> Result<(), JournalError> {
        self.change(|files, connection| settle_leases(files, connection, None).map(drop)).await
    }

    async fn taken(&self, budget: &str) -> Result<BudgetUse, JournalError> {
        let budget: Arc<str> = budget.into();
        self.reading_table("shared_reservations", move |_, connection| {
            let transaction = connection.transaction()?;
            let sql =
                "SELECT CAST(coalesce(sum(amount), 0) AS BIGINT) FROM shared_reservations WHERE budget = ?1";
            let reserved = transaction.query_row(sql, params![&*budget], |row| row.get(0))?;
            Ok(BudgetUse {
                spent: PicoUsd(spent(&transaction, &budget)?),
                reserved: PicoUsd(amount(reserved)?),
            })
        })
        .await
    }
}

fn positions(connection: &Connection, budgets: &[BudgetLimit], run: &RunId) -> Result<Vec<Balance>, Fault> {
    let sql = "SELECT run = ?1, call = '', CAST(coalesce(sum(amount), 0) AS BIGINT) FROM shared_reservations \
               WHERE budget = ?2 GROUP BY run = ?1, call = ''";
    let mut statement = connection.prepare_cached(sql)?;
    let mut positions = Vec::with_capacity(budgets.len());
    for BudgetLimit { id, limit } in budgets {
        let spent = spent(connection, id)?;
        let mut position = Balance { limit: limit.0, spent, ..Balance::default() };
        let mut rows = statement.query(params![run.as_str(), &**id])?;
        while let Some(row) = rows.next()? {
            let sum = match (row.get(0)?, row.get(1)?) {
                (true, true) => &mut position.own_hold,
                (true, false) => &mut position.own_calls,
                (false, true) => &mut position.others_holds,
                (false, false) => &mut position.others_calls,
            };
            *sum = amount(row.get(2)?)?;
        }
        positions.push(position);
    }
    Ok(positions)
}

fn spent(connection: &Connection, budget: &str) -> Result<u64, Fault> {
    let sql = "SELECT spent FROM shared_budgets WHERE budget = ?1";
    let spent = connection.find(sql, params![budget], |row| row.get(0))?;
    amount(spent.unwrap_or_default())
}

/// An amount of the file, which is input.
fn amount(stored: i64) -> Result<u64, Fault> {
    u64::try_from(stored).map_err(|_| {
        Fault::Stated(
            "a shared budget has a negative amount: the journal was changed by another program".into(),
        )
    })
}

fn insert(connection: &Connection, run: &RunId, call: &str, budget: &str, amount: u64) -> Result<(), Fault> {
    let sql = "INSERT INTO shared_reservations (run, call, budget, amount) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (run, call, budget) DO UPDATE SET amount = excluded.amount";
    Ok(connection.execute_one(sql, params![run.as_str(), call, budget, amount])?)
}

fn spend(connection: &Connection, budget: &str, cost: u64) -> Result<(), Fault> {
    let total = spent(connection, budget)?.saturating_add(cost);
    let sql = "INSERT INTO shared_budgets (budget, spent) VALUES (?1, ?2)
               ON CONFLICT (budget) DO UPDATE SET spent = excluded.spent";
    Ok(connection.execute_one(sql, params![budget, total])?)
}

/// Settles what a run has in flight at its whole amount.
fn settle_whole(connection: &Connection, run: &str, keeps_hold: bool) -> Result<(), Fault> {
    let sql = "SELECT budget, amount FROM shared_reservations WHERE run = ?1 AND call <> ''";
    let calls: Vec<(String, _)> = connection.list(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (budget, reserved) in calls {
        spend(connection, &budget, amount(reserved)?)?;
    }
    let sql = "DELETE FROM shared_reservations WHERE run = ?1 AND (call <> '' OR ?2 = 0)";
    connection.execute(sql, params![run, i64::from(keeps_hold)])?;
    Ok(())
}

/// Settles what runs have in flight that no process drives any more, except the one that asks. Says whether there was any.
fn settle_leases(files: &Files, connection: &Connection, asking: Option<&RunId>) -> Result<bool, Fault> {
    let sql = "SELECT DISTINCT run FROM shared_reservations WHERE run <> ?1";
    let asking = asking.map_or("", RunId::as_str);
    let runs: Vec<String> = connection.list(sql, [asking], |row| row.get(0))?;
    let mut is_any = false;
    for run in runs {
        if !files.locks.is_held(&RunId::new(run.as_str())) {
            settle_whole(connection, &run, /*keeps_hold*/ false)?;
            is_any = true;
        }
    }
    Ok(is_any)
}
