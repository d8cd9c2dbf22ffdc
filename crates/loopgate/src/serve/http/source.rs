//! Makes the server's runners: for domains, for settings of callers, and for runs in the journal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::types::RunId;
use loop_domain::{Domain, DomainError};
use loop_runtime::Runner;
use loop_runtime::budget::{SharedBudget, SharedBudgets, SharedLedger};
use loop_runtime::journal::{Journal as _, StoredJournal};
use loop_server::engine::{RunnerSource, ServedDomain};
use loop_server::links::SignedLinks;

use super::runner_cache::RunnerCache;

use crate::args::{AgainArgs, DomainArgs};
use crate::context::{FoundRun, Origin, TokenOrigin, on_journal, places, to_loop};
use crate::output::{Failure, panics, stream};

/// The sources of the server's runners.
#[derive(Debug)]
pub(super) struct Runners {
    pub(super) journal: Arc<StoredJournal>,
    pub(super) domains: BTreeMap<Arc<str>, DomainArgs>,
    pub(super) cwd: PathBuf,
    pub(super) saves: bool,
    pub(super) again: AgainArgs,
    pub(super) kept: RunnerCache<Runner>,
    /// The links in hook messages to pages of this server.
    pub(super) links: Arc<SignedLinks>,
}

impl Runners {
    /// The runner of a served domain.
    pub(super) fn runner(&self, domain: &Domain) -> Runner {
        let journal = StoredJournal::clone(&self.journal).with_sync(domain.sync);
        let runner = to_loop(domain, self.saves);
        let runner = on_journal(runner, domain, &Arc::new(journal), /*batch*/ None).leave_when_waiting();
        self.with_links(runner)
    }

    /// The runner with these links in its hook messages.
    fn with_links(&self, runner: Runner) -> Runner {
        let hooks = runner.hooks().clone().with_links(Arc::clone(&self.links) as _);
        runner.with_hooks(hooks)
    }

    fn origin(
        &self,
        args: &DomainArgs,
        tags: &[String],
        token: Option<TokenOrigin>,
    ) -> Result<String, Failure> {
        let origin = Origin::of_folder(args, self.cwd.clone(), self.saves, /*asks*/ false)?;
        origin.with_tags(tags.to_vec()).of_token(token).text()
    }

    /// The runner of a new run. Its origin names the token's budget.
    fn new_runner(
        &self,
        domain: &ServedDomain,
        settings: &[(String, String)],
        tags: &[String],
        token: Option<TokenOrigin>,
    ) -> Result<Runner, String> {
        let args = self.domains.get(domain.name()).ok_or("the domain is not served")?;
        let runner = match settings {
            [] => domain.runner.clone(),
            settings => self.with_settings(args, settings)?,
        };
        let args = args.with_set(settings);
        let origin = self.origin(&args, tags, token).map_err(|failure| failure.line())?;
        Ok(runner.with_origin(origin))
    }

    /// The runner of a domain with settings of a caller.
    fn with_settings(&self, args: &DomainArgs, settings: &[(String, String)]) -> Result<Runner, String> {
        let args = args.with_set(settings);
        let origin = self.origin(&args, &[], None).map_err(|failure| failure.line())?;
        if let Some(runner) = self.kept.find(&origin) {
            return Ok(runner);
        }
        let not_now = |why: String| {
            stream::note(format!("loopgate: a submission with settings: {why}"));
            "the domain cannot be loaded with them now; the operator finds the reason in the server's log"
                .to_owned()
        };
        let options = places::options(&args, None, self.cwd.clone()).map_err(|failure| failure.line())?;
        let domain = Domain::load(&args.domain, &options).map_err(|error| match error {
            // It is about the setting, and names no path.
            DomainError::Option { option, message } => {
                format!("{}: {message}", option.trim_start_matches("--set "))
            }
            error => not_now(error.to_string()),
        })?;
        panics::add(domain.secrets());
        domain.ready(self.saves).map_err(|error| not_now(error.to_string()))?;
        let runner = self.runner(&domain);
        self.kept.keep(origin, runner.clone());
        Ok(runner)
    }
}

#[async_trait]
impl RunnerSource for Runners {
    fn of_new(
        &self,
        domain: &ServedDomain,
        settings: &[(String, String)],
        tags: &[String],
    ) -> Result<Runner, String> {
        self.new_runner(domain, settings, tags, None)
    }

    fn of_new_within(
        &self,
        domain: &ServedDomain,
        settings: &[(String, String)],
        tags: &[String],
        budget: &SharedBudget,
        ledger: Arc<dyn SharedLedger>,
    ) -> Result<Runner, String> {
        let runner = self.new_runner(domain, settings, tags, Some(TokenOrigin::of(budget)))?;
        let shared = runner.shared_budgets().cloned().unwrap_or_else(|| SharedBudgets::new(ledger, []));
        Ok(runner.with_shared_budgets(shared.and(budget.clone())))
    }

    async fn of_run(&self, run: &RunId) -> Result<Runner, String> {
        let (journal, run, again) = (Arc::clone(&self.journal), run.clone(), self.again.clone());
        // It replays the run, and may load the domain: neither holds another request up.
        let reading =
            aside(async move { FoundRun::read(journal, &run).await.map_err(|failure| failure.line()) });
        let found = reading.await?;
        let origin = found.recorded.origin.as_deref().map(Origin::read).transpose();
        let origin = origin.map_err(|failure| failure.line())?;
        let plain = origin.map(|origin| origin.with_tags(Vec::new()).text()).transpose();
        let plain = plain.map_err(|failure| failure.line())?.unwrap_or_default();
        // The replies of a script are used up: each run continues behind its own.
        let is_scripted = &*found.recorded.spec.models.base.provider == "scripted";
        if let Some(runner) = self.kept.find(&plain).filter(|_| !is_scripted) {
            return Ok(runner);
        }
        let making = aside(async move { found.runner(&again).await.map_err(|failure| failure.line()) });
        let (_, runner) = making.await?;
        let runner = self.with_links(runner);
        if !plain.is_empty() && !is_scripted {
            self.kept.keep(plain, runner.clone());
        }
        Ok(runner)
    }
}

/// Runs work that reads files and uses the CPU on a blocking thread.
async fn aside<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err("the server is ending".to_owned()),
    })
}

/// Adds the runner of each domain to the cache, so that a resumed run uses the domain as loaded at the start.
pub(super) async fn keep_all(runners: &Runners, served: &[ServedDomain]) -> Result<(), Failure> {
    for domain in served {
        if let Some(args) = runners.domains.get(domain.name()) {
            runners.kept.serve(runners.origin(args, &[], None)?, domain.runner.clone());
        }
    }
    // It has to be readable before the first run is.
    runners.journal.outbox().await?;
    Ok(())
}
