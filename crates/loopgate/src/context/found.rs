//! Finds a run in a journal, and makes its runner again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_core::run::Started;
use loop_core::types::Millis;
use loop_core::{EventKind, Run};
use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::journal::versions::not_on_engine;
use loop_runtime::journal::{Entry, Journal, JournalError, Recorded, RunLine, StoredJournal, replay};
use loop_runtime::run::{RunId, StartError, Takeover};

use super::origin::{BatchOrigin, Origin, TokenOrigin};
use super::places;
use super::runner::{again, to_loop};
use crate::args::{AgainArgs, DomainArgs, JournalArgs, RecordedArgs, SettingArgs};
use crate::output::{Failure, stream};

/// A run in a journal.
pub(crate) struct FoundRun {
    pub(crate) journal: Arc<StoredJournal>,
    pub(crate) recorded: Recorded,
    pub(crate) run: Run,
}

impl FoundRun {
    /// The run in these arguments, which must not have ended.
    pub(crate) async fn open(named: &str, again: &AgainArgs) -> Result<Self, Failure> {
        let found = Self::any(named, again).await?;
        if !found.run.is_done() {
            return Ok(found);
        }
        let reason = found.run.outcome().map_or("its end", |outcome| outcome.stop.primary.reason.name());
        Err(is_over(found.id(), reason, &again.at()))
    }

    /// The run in these arguments.
    pub(crate) async fn any(named: &str, again: &AgainArgs) -> Result<Self, Failure> {
        Self::of(named, &again.journal).await
    }

    /// The run of a journal with this id or beginning of an id.
    pub(crate) async fn of(named: &str, journal: &JournalArgs) -> Result<Self, Failure> {
        let journal = places::existing_journal(journal)?;
        let line = find(journal.as_ref(), named).await?;
        Self::read(journal, &line.run).await
    }

    /// The run with this id.
    pub(crate) async fn read(journal: Arc<StoredJournal>, id: &RunId) -> Result<Self, Failure> {
        Ok(Self::replayed(journal, id).await?)
    }

    pub(crate) async fn replayed(journal: Arc<StoredJournal>, id: &RunId) -> Result<Self, StartError> {
        let recorded = journal.read(id).await?;
        let run = replay(id, &recorded)?;
        Ok(Self { journal, recorded, run })
    }

    pub(crate) fn id(&self) -> &RunId {
        self.run.id()
    }

    /// Fails if a durable engine drives the run.
    pub(crate) fn check_driver(&self) -> Result<(), Failure> {
        Ok(not_on_engine(self.id(), &self.recorded)?)
    }

    /// The run at the root of the tree, if another run called this one as a tool. Continuing the root continues both.
    ///
    /// # Errors
    /// A run between them has ended, so nothing continues this one.
    pub(crate) async fn root(&self) -> Result<Option<Self>, Failure> {
        let Some(by) = self.run.started().provenance.called_by.as_deref() else { return Ok(None) };
        for run in [&by.run, &by.root] {
            let caller = Self::read(Arc::clone(&self.journal), run).await?;
            if caller.run.is_done() {
                let message = format!("run {} was called by run {run}, which is over", self.id());
                return Err(Failure::new(format!(
                    "{message}; start that one again with `loopgate retry {run}`"
                )));
            }
            if *run == by.root {
                return Ok(Some(caller));
            }
        }
        Ok(None)
    }

    /// The run's runner, made again.
    pub(crate) async fn runner(&self, args: &AgainArgs) -> Result<(Domain, Runner), Failure> {
        self.check_driver()?;
        let loaded = self.load(args.folder.domain.as_deref(), &args.settings())?;
        loaded.domain.ready(loaded.saves)?;
        loaded.domain.start_servers();
        let before = entries_before(self.journal.as_ref(), self.run.started()).await;
        loaded.domain.goes_on_behind(&before);
        let runner = self.put_together(&loaded);
        Ok((loaded.domain, runner))
    }

    /// The run's runner, with its domain in the current state.
    pub(crate) fn put_together(&self, loaded: &Loaded) -> Runner {
        let Loaded { domain, saves, asks, origin, .. } = loaded;
        let batch = origin.as_ref().and_then(|origin| origin.batch.as_ref()).map(BatchOrigin::budget);
        let token = origin.as_ref().and_then(|origin| origin.token.as_ref()).map(TokenOrigin::budget);
        again(&self.journal, domain, *saves, *asks, batch.into_iter().chain(token))
    }

    /// The run's runner in its current state, for comparison. It is not driven. `calls`: its tools may be called.
    pub(crate) fn compared(&self, folder: Option<&Path>, calls: bool) -> Result<Runner, Failure> {
        let Loaded { domain, .. } = self.load(folder, &SettingArgs::default())?;
        if calls {
            domain.ready(/*saves*/ false)?;
            domain.start_servers();
        }
        Ok(to_loop(&domain, /*saves*/ false))
    }

    /// The run's domain in its current state. No server of it is started.
    pub(crate) fn domain(&self, folder: Option<&Path>) -> Result<Domain, Failure> {
        Ok(self.load(folder, &SettingArgs::default())?.domain)
    }

    /// The run's domain in its current state, with these settings in place of those with which the run began. `folder`:
    /// where it is now. `None`: at its recorded path.
    pub(crate) fn load(&self, folder: Option<&Path>, settings: &SettingArgs) -> Result<Loaded, Failure> {
        let id = self.id();
        let origin = self.recorded.origin.as_deref().map(Origin::read).transpose()?;
        let mut arguments = match (&origin, folder) {
            (Some(origin), _) => origin.changed(settings),
            (None, Some(domain)) => {
                let settings = SettingArgs { user: None, ..settings.clone() };
                DomainArgs { domain: domain.to_owned(), settings }
            }
            (None, None) => {
                return Err(Failure::new(format!(
                    "run {id} does not say which domain it is of; name the folder with --domain"
                )));
            }
        };
        let here = places::cwd()?;
        if let Some(domain) = folder {
            arguments.domain = here.join(domain);
        }
        if let Some(origin) = &origin {
            origin.check_withheld(id, settings.base_urls.len())?;
        }
        if !arguments.domain.exists() {
            return Err(Failure::new(format!(
                "run {id}: there is no domain folder {}; name the one that it is in now with --domain",
                arguments.domain.display()
            )));
        }
        let cwd = origin.as_ref().map_or(here, |origin| origin.cwd.clone());
        let domain = places::load_with(&arguments, /*record*/ None, cwd.clone())?;
        let saves = origin.as_ref().map_or(self.run.spec().save, |origin| origin.saves);
        let asks = origin.as_ref().is_some_and(|origin| origin.asks);
        Ok(Loaded { domain, arguments, cwd, saves, asks, origin })
    }
}

/// The error that a run has ended. `at`: the option `--journal` for commands in the message.
pub(crate) fn is_over(run: &RunId, reason: &str, at: &str) -> Failure {
    Failure::new(format!("run {run} is over ({reason}); `loopgate show {run}{at}` shows what it came to"))
}

/// Whether a run still waits for people: no request of it or of a run that it called has an answer, and no deadline has
/// passed. A passed deadline counts as a denial.
pub(crate) async fn still_waits(
    journal: &Arc<StoredJournal>,
    run: &Run,
    now: Millis,
) -> Result<bool, Failure> {
    if !run.waits_for_people() || run.requested().iter().any(|requested| requested.is_over(now)) {
        return Ok(false);
    }
    for below in run.waits_below() {
        let found = FoundRun::read(Arc::clone(journal), below).await?;
        if !Box::pin(still_waits(journal, &found.run, found.recorded.now())).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A run's domain in its current state, and how the run began.
pub(crate) struct Loaded {
    pub(crate) domain: Domain,
    /// The arguments with which it was loaded.
    pub(crate) arguments: DomainArgs,
    /// The folder that relative paths start from.
    pub(crate) cwd: PathBuf,
    /// Whether the outcome is saved to the domain's save target.
    pub(crate) saves: bool,
    /// Whether a person is asked, regardless of the domain's settings.
    pub(crate) asks: bool,
    /// How the run began. `None`: the journal does not have it.
    pub(crate) origin: Option<Origin>,
}

/// Why a run cannot continue, with advice.
pub(crate) fn explained(error: StartError, domain: &Path) -> Failure {
    match error {
        StartError::Changed { run, what, tools } => {
            let (folder, named) = (domain.display(), tools.join(", "));
            let named = if tools.is_empty() { named } else { format!(" ({named})") };
            Failure::new(format!(
                "run {run} was begun with other {what}{named} than {folder} has now, and an answer counts only for what was \
                 shown; put the domain back as it was, name another folder with --domain, or start a new run, which asks again"
            ))
        }
        other => other.into(),
    }
}

/// The run after its first entry. Later entries may be decided differently today, so they are not replayed.
pub(crate) fn opened(recorded: &Recorded) -> Result<Run, Failure> {
    let first = recorded.entries.first().ok_or_else(|| Failure::new("the run has no entries"))?;
    let opened = Run::open(&first.event, recorded.spec.clone());
    opened.map(|(run, _)| run).map_err(|rejected| Failure::new(rejected.to_string()))
}

/// The entries of ancestors before a fork, to which scripted models have replied, oldest first. Entries that cannot be
/// read are left out.
pub(crate) async fn entries_before(journal: &dyn Journal, started: &Started) -> Vec<Entry> {
    let mut parts = Vec::new();
    let continued = |started: &Started| {
        let parent = started.parent.as_deref().filter(|parent| parent.how != Takeover::Retry)?;
        Some((parent.run.clone(), parent.entries))
    };
    let mut next = continued(started);
    while let Some((run, entries)) = next.take() {
        let Ok(mut recorded) = journal.read(&run).await else { break };
        recorded.entries.truncate(usize::try_from(entries).unwrap_or(usize::MAX));
        if let Some(EventKind::Started(first)) = recorded.entries.first().map(|first| &first.event.kind) {
            next = continued(first);
        }
        parts.push(recorded.entries);
    }
    parts.into_iter().rev().flatten().collect()
}

/// The run with this id or beginning of an id, or the last one. `last` skips runs that another run called.
pub(crate) async fn find(journal: &dyn Journal, wanted: &str) -> Result<RunLine, Failure> {
    let runs = journal.runs().await?;
    let line = named(&runs, wanted)?;
    let root = if wanted == "last" { root_of(journal, line).await } else { None };
    Ok(runs.iter().find(|it| Some(&it.run) == root.as_ref()).unwrap_or(line).clone())
}

/// The run at the root of the tree, if another run called this one.
async fn root_of(journal: &dyn Journal, line: &RunLine) -> Option<RunId> {
    let recorded = journal.read(&line.run).await.ok()?;
    match &recorded.entries.first()?.event.kind {
        EventKind::Started(started) => Some(started.provenance.called_by.as_deref()?.root.clone()),
        _ => None,
    }
}

/// [`find`] in these runs of a journal.
pub(crate) fn named<'a>(runs: &'a [RunLine], wanted: &str) -> Result<&'a RunLine, Failure> {
    if wanted == "last" {
        let (damaged, whole): (Vec<_>, Vec<_>) = runs.iter().partition(|line| line.trouble.is_some());
        let newest = whole.first().or(damaged.first());
        // What is newer and cannot be read hides no other run.
        let newer = damaged.iter().filter(|line| newest.is_some_and(|newest| line.unix_ms > newest.unix_ms));
        for RunLine { run, trouble, .. } in newer {
            let trouble = trouble.as_deref().unwrap_or_default();
            stream::note(format!("loopgate: run {run} is newer, and damaged: {trouble}"));
        }
        let none = || Failure::new("the journal holds no run yet; `loopgate run` makes one");
        return newest.copied().ok_or_else(none);
    }
    let mut matching = runs.iter().filter(|line| line.run.as_str().starts_with(wanted) && !wanted.is_empty());
    match (matching.next(), matching.next()) {
        (Some(line), None) => Ok(line),
        (Some(_), Some(_)) => {
            Err(Failure::new(format!("several runs begin with {wanted}; give more of the id")))
        }
        // An id has no separator.
        (None, _) if wanted.contains(std::path::MAIN_SEPARATOR) => Err(Failure::new(format!(
            "{wanted}: there is no such file; correct the path, or give a run's id"
        ))),
        (None, _) => {
            Err(JournalError::Unknown { run: RunId::new(wanted), place: "this journal".to_owned() }.into())
        }
    }
}

/// Warns on standard error that a run can be read but not resumed.
pub(crate) fn unverified(run: &RunId, recorded: &Recorded) {
    if let Some(why) = &recorded.unverified {
        stream::note(format!("loopgate: run {run} cannot be resumed: {why}"));
    }
}

impl RecordedArgs {
    /// Opens the run in its journal. Warns on standard error if it cannot be resumed.
    pub(crate) async fn open(&self) -> Result<(Arc<StoredJournal>, RunLine, Recorded), Failure> {
        let journal = places::existing_journal(&self.journal)?;
        let line = find(journal.as_ref(), &self.run).await?;
        let recorded = journal.read(&line.run).await?;
        unverified(&line.run, &recorded);
        Ok((journal, line, recorded))
    }
}
