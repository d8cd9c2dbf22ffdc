//! The budgets that runs share, in the journal.

use std::sync::Arc;

use loop_core::types::PicoUsd;
use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::budget::{SharedBudget, SharedBudgets, SharedLedger, Span, Taken};
use loop_runtime::journal::{Journal, StoredJournal};
use serde::{Deserialize, Serialize};

/// The loop with this journal, and with the budgets that the journal keeps: those of the domain, and that of a batch or of
/// a token.
pub(crate) fn on_journal(
    runner: Runner,
    domain: &Domain,
    journal: &Arc<StoredJournal>,
    more: impl IntoIterator<Item = SharedBudget>,
) -> Runner {
    let budgets = domain.budgets.iter().cloned().chain(more);
    let shared = SharedBudgets::new(Arc::clone(journal) as Arc<dyn SharedLedger>, budgets);
    runner.with_journal(Arc::clone(journal) as Arc<dyn Journal>).with_shared_budgets(shared)
}

/// What is taken from each shared budget of a loop, one line each. A budget that cannot be read is left out.
pub(crate) async fn lines(runner: &Runner) -> Vec<String> {
    let Some(shared) = runner.shared_budgets() else { return Vec::new() };
    let taken = shared.taken().await.unwrap_or_default();
    let line = |(budget, taken): (SharedBudget, Taken)| {
        let (whose, raise) = match budget.span {
            Span::Day => ("of this day by UTC", "[budget] day_usd"),
            Span::Month => ("of this month by UTC", "[budget] month_usd"),
            Span::Batch => ("of this batch", "--budget-usd"),
            Span::TokenDay => ("of this token on this day by UTC", "day_usd of the token"),
        };
        let reserved = match taken.reserved.0 {
            0 => String::new(),
            _ => format!(", {} reserved", taken.reserved),
        };
        format!("budget:  {whose}: {} of {} spent{reserved} ({raise})", taken.spent, budget.limit)
    };
    taken.into_iter().map(line).collect()
}

/// The budget of a batch, as the origin of its runs names it: a run that is resumed by itself keeps to it as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchOrigin {
    /// The id of the batch.
    id: Arc<str>,
    /// The limit, in pico-dollars.
    limit: u64,
}

impl BatchOrigin {
    pub(crate) fn of(budget: &SharedBudget) -> Self {
        Self { id: Arc::clone(&budget.of), limit: budget.limit.0 }
    }

    pub(crate) fn budget(&self) -> SharedBudget {
        SharedBudget { span: Span::Batch, of: Arc::clone(&self.id), limit: PicoUsd(self.limit) }
    }
}

/// The budget of the token with which a run was submitted, as the run's origin names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenOrigin {
    /// The token's name.
    name: Arc<str>,
    /// The limit of a day, in pico-dollars.
    day: u64,
}

impl TokenOrigin {
    #[cfg(feature = "server")]
    pub(crate) fn of(budget: &SharedBudget) -> Self {
        Self { name: Arc::clone(&budget.of), day: budget.limit.0 }
    }

    pub(crate) fn budget(&self) -> SharedBudget {
        SharedBudget { span: Span::TokenDay, of: Arc::clone(&self.name), limit: PicoUsd(self.day) }
    }
}
