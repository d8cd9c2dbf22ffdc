//! Makes the runner of a domain with its journal, budgets, hooks and save target. Saving happens after the run has
//! ended, so it reports delays to a person who waits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loop_core::Outcome;
use loop_core::run::Started;
use loop_core::secrets::Secrets;
use loop_domain::Domain;
use loop_runtime::budget::{SharedBudget, SharedBudgets, SharedLedger};
use loop_runtime::hooks::{DeliveryResult, HookReport, Hooks};
use loop_runtime::journal::{Journal, StoredJournal};
use loop_runtime::{
    Runner,
    save::{DetailedTarget, SaveError, Saver},
};

use super::telemetry;
use crate::output::{stream, time};

/// The runner of a domain. With `saves`, it saves outcomes to the domain's save target.
pub(crate) fn to_loop(domain: &Domain, saves: bool) -> Runner {
    let runner = match &domain.save {
        Some(target) if saves => domain.to_loop().with_saver(Arc::new(ReportingSaver {
            target: target.clone().with_spec(Arc::clone(&domain.spec)),
        })),
        _ => domain.unsaved_loop(),
    };
    telemetry::listen_to(runner.with_hooks(reporting(domain.hooks())))
}

/// A save target that reports slow and repeated saves on standard error.
#[derive(Debug)]
struct ReportingSaver {
    target: DetailedTarget,
}

#[async_trait]
impl Saver for ReportingSaver {
    fn secrets(&self) -> Secrets {
        self.target.secrets()
    }

    async fn save(&self, started: &Started, outcome: &Outcome) -> Result<Arc<str>, SaveError> {
        let saving = self.target.save(started, outcome);
        tokio::pin!(saving);
        let saved = tokio::select! {
            biased;
            saved = &mut saving => saved,
            () = tokio::time::sleep(PATIENCE) => {
                stream::note("saving:  not done yet; Ctrl-C ends it, and the journal has the outcome");
                saving.await
            }
        };
        if let Err(SaveError { message, retry: Some(_) }) = &saved {
            stream::note(format!("saving:  {message}; it is tried again"));
        }
        saved
    }
}

/// How long a save may take before it is reported.
const PATIENCE: Duration = Duration::from_millis(700);

/// The runner with this journal and its shared budgets: those of the domain, and that of a batch or token.
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

/// The runner of a run in this journal, or of a run that continues one, made by the run's origin.
pub(crate) fn again(
    journal: &StoredJournal,
    domain: &Domain,
    saves: bool,
    asks: bool,
    more: impl IntoIterator<Item = SharedBudget>,
) -> Runner {
    let runner = to_loop(domain, saves);
    let runner = if asks { runner.with_people() } else { runner };
    let journal = journal.clone().with_sync(domain.sync);
    on_journal(runner, domain, &Arc::new(journal), more).leave_when_waiting()
}

/// The hooks of a domain, with failed deliveries reported on standard error.
pub(crate) fn reporting(hooks: &Hooks) -> Hooks {
    if hooks.is_empty() {
        return Hooks::default();
    }
    hooks.clone().with_listener(Arc::new(|report| {
        if let Some(line) = not_delivered(report) {
            stream::note(line);
        }
    }))
}

/// The line that says that a message was not delivered. `None`: it was.
fn not_delivered(report: &HookReport) -> Option<String> {
    let HookReport { id, hook, event, delivered, .. } = report;
    let DeliveryResult::No { error, next_unix_ms } = delivered else { return None };
    let next = match next_unix_ms {
        Some(next) => format!("`loopgate serve hooks deliver` tries again from {} UTC on", time(*next)),
        None => format!(
            "it has failed too often; `loopgate serve hooks deliver --now` tries again, and `loopgate serve hooks drop {id}` gives it up"
        ),
    };
    Some(format!("hook:    {hook} was not told of `{}`: {error}; {next}", event.name()))
}
