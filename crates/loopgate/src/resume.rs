//! Going on with a run: its loop is put together again from what the journal keeps beside it, and driven on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::run::{Phase, Saved};
use loop_core::types::StopClass;
use loop_core::{EventKind, Outcome, Run};
use loop_domain::{Domain, may_hold_secret, outlives_model};
use loop_llm::http::holds_url_secret;
use loop_runtime::Runner;
use loop_runtime::journal::versions::{check_version, not_on_engine};
use loop_runtime::journal::{Journal, Recorded, ReplayError, RunLine, StoredJournal, replay};
use loop_runtime::report::counted;
use loop_runtime::run::{Driven, RunId, StartError, note_alone};
use serde::{Deserialize, Serialize};

use crate::args::{AgainArgs, DomainArgs, GoOnArgs, JournalArgs, ResumeArgs, SettingArgs};
use crate::budgets::{BatchOrigin, TokenOrigin};
use crate::failure::Failure;
use crate::live::Live;
use crate::run::{Driving, Signals};
use crate::{budgets, fork, places, run, save, saving, show, stop, stream};

/// How a run was begun: what its loop was put together from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    version: u32,
    /// The domain's folder or file, and the folder that other paths begin at, both absolute.
    domain: PathBuf,
    cwd: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    models: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    base_urls: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    set: Vec<String>,
    /// What was given and holds an address with a credential in it, by the option's name: it is not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<String>,
    /// Whether the outcome is saved where the domain says.
    saves: bool,
    /// Whether somebody was asked whatever the domain says.
    asks: bool,
    /// The budget of the batch that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<BatchOrigin>,
    /// The budget of the token with which a server was asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<TokenOrigin>,
    /// The tags of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

impl Origin {
    /// How these arguments put a loop together.
    pub(crate) fn of(args: &DomainArgs, saves: bool, asks: bool) -> Result<Self, Failure> {
        Self::of_folder(args, places::cwd()?, saves, asks)
    }

    /// The same, of paths that begin at the folder `cwd`.
    pub(crate) fn of_folder(
        args: &DomainArgs,
        cwd: PathBuf,
        saves: bool,
        asks: bool,
    ) -> Result<Self, Failure> {
        let mut withheld = Vec::new();
        let mut keep = |option: &str, given: &[String]| {
            let holds_secret =
                |text: &str| holds_url_secret(text) || option == "--set" && may_hold_secret(text);
            let (secret, plain): (Vec<_>, Vec<_>) = given.iter().partition(|text| holds_secret(text));
            withheld.extend(secret.iter().map(|_| option.to_owned()));
            plain.into_iter().cloned().collect()
        };
        Ok(Self {
            version: VERSION,
            domain: cwd.join(&args.domain),
            models: keep("--model", &args.settings.models),
            base_urls: keep("--base-url", &args.settings.base_urls),
            set: keep("--set", &args.settings.set),
            profile: args.settings.profile.clone(),
            cwd,
            withheld,
            saves,
            asks,
            batch: None,
            token: None,
            tags: Vec::new(),
        })
    }

    /// The same, of a run of a batch with this budget.
    pub(crate) fn of_batch(self, batch: Option<BatchOrigin>) -> Self {
        Self { batch, ..self }
    }

    /// The budget of the batch that the run is of. `None`: it is of none.
    pub(crate) fn batch(&self) -> Option<&BatchOrigin> {
        self.batch.as_ref()
    }

    /// The same, of a run that was submitted with a token of this budget.
    #[cfg(feature = "server")]
    pub(crate) fn of_token(self, token: Option<TokenOrigin>) -> Self {
        Self { token, ..self }
    }

    /// The same with these tags.
    pub(crate) fn with_tags(self, tags: Vec<String>) -> Self {
        Self { tags, ..self }
    }

    /// The tags of the run.
    pub(crate) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// As the journal keeps it.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(self)?)
    }

    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let origin: Self = serde_json::from_str(text)?;
        if origin.version > VERSION {
            return Err(Failure::new("the run was begun by a newer loopgate; use that version"));
        }
        Ok(origin)
    }

    /// The domain, the item and the options of a new run with these settings, as they follow `loopgate run`. What was
    /// withheld has to be given again.
    pub(crate) fn in_command(&self, item: &str, settings: &[(String, String)]) -> String {
        let here = places::cwd().ok();
        let domain = here.map_or(self.domain.as_path(), |here| seen_from(&self.domain, &here));
        let mut command = format!("{} {item}", places::quoted(&domain.to_string_lossy()));
        let is_changed = |set: &&String| {
            let key = set.split_once('=').map_or(set.as_str(), |(key, _)| key.trim());
            settings.iter().any(|(setting, _)| setting == key)
        };
        let profile = self.profile.iter().map(|profile| ("--profile", profile.clone()));
        let models = self.models.iter().map(|model| ("--model", model.clone()));
        let base_urls = self.base_urls.iter().map(|url| ("--base-url", url.clone()));
        let set = self.set.iter().filter(|set| !is_changed(set)).map(|set| ("--set", set.clone()));
        let changed = settings.iter().map(|(setting, value)| ("--set", format!("{setting}={value}")));
        for (option, value) in profile.chain(models).chain(base_urls).chain(set).chain(changed) {
            command.push_str(&format!(" {option} {}", places::quoted(&value)));
        }
        for option in &self.withheld {
            command.push_str(&format!(" {option} …"));
        }
        if !self.saves {
            command.push_str(" --no-save");
        }
        command
    }

    /// The same, with other settings: each of them replaces what was given for it, and a model also what was said of the one
    /// before it.
    pub(crate) fn changed(&self, settings: &SettingArgs) -> DomainArgs {
        let key = |text: &str| text.split_once('=').map_or(text, |(key, _)| key).trim().to_owned();
        let merged = |before: &[String], given: &[String]| -> Vec<String> {
            let is_given = |text: &&String| given.iter().any(|it| key(it) == key(text));
            before.iter().filter(|text| !is_given(text)).chain(given).cloned().collect()
        };
        let models: Vec<_> = settings.models.iter().filter_map(|text| places::model(text).ok()).collect();
        let outlives = |set: &&String| models.iter().all(|(tier, it)| outlives_model(&key(set), *tier, it));
        let set: Vec<String> = self.set.iter().filter(outlives).cloned().collect();
        let settings = SettingArgs {
            profile: settings.profile.clone().or_else(|| self.profile.clone()),
            models: merged(&self.models, &settings.models),
            base_urls: merged(&self.base_urls, &settings.base_urls),
            set: merged(&set, &settings.set),
        };
        DomainArgs { domain: self.domain.clone(), settings }
    }

    /// The folder that paths of the run begin at.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// An error if what holds a credential was given for the run and is not given again.
    pub(crate) fn check_withheld(&self, run: &RunId, base_urls: usize) -> Result<(), Failure> {
        let mut given = base_urls;
        for option in &self.withheld {
            if option == "--base-url" && given > 0 {
                given -= 1;
                continue;
            }
            return Err(Failure::new(format!(
                "run {run} was begun with a credential in {option}, which is not kept; an address may be given again with \
                 --base-url, anything else belongs into the environment"
            )));
        }
        Ok(())
    }
}

/// The version of what is recorded of a run's origin.
const VERSION: u32 = 1;

/// A run as its journal has it.
pub(crate) struct Found {
    pub(crate) journal: Arc<StoredJournal>,
    pub(crate) recorded: Recorded,
    pub(crate) run: Run,
}

impl Found {
    /// The run that these arguments name, which must not be over.
    pub(crate) async fn open(named: &str, again: &AgainArgs) -> Result<Self, Failure> {
        let found = Self::any(named, again).await?;
        if !found.run.is_done() {
            return Ok(found);
        }
        let reason = found.run.outcome().map_or("its end", |outcome| outcome.stop.primary.reason.name());
        let (id, at) = (found.id(), again.at());
        Err(Failure::new(format!(
            "run {id} is over ({reason}); `loopgate show {id}{at}` shows what it came to"
        )))
    }

    /// The run that these arguments name.
    pub(crate) async fn any(named: &str, again: &AgainArgs) -> Result<Self, Failure> {
        Self::of(named, &again.journal).await
    }

    /// The run of a journal with this name.
    pub(crate) async fn of(named: &str, journal: &JournalArgs) -> Result<Self, Failure> {
        let journal = places::existing_journal(journal)?;
        let line = show::find(journal.as_ref(), named).await?;
        Self::read(journal, &line.run).await
    }

    /// The run with this id.
    pub(crate) async fn read(journal: Arc<StoredJournal>, id: &RunId) -> Result<Self, Failure> {
        Ok(Self::replayed(journal, id).await?)
    }

    async fn replayed(journal: Arc<StoredJournal>, id: &RunId) -> Result<Self, StartError> {
        let recorded = journal.read(id).await?;
        let run = replay(id, &recorded)?;
        Ok(Self { journal, recorded, run })
    }

    pub(crate) fn id(&self) -> &RunId {
        self.run.id()
    }

    /// Applies this to the run and drives it on, or leaves it where it is then.
    pub(crate) async fn go_on(self, stated: Vec<EventKind>, go_on: &GoOnArgs) -> Result<ExitCode, Failure> {
        self.check_driver()?;
        let (id, at) = (self.id().clone(), go_on.again.at());
        if go_on.no_wait {
            self.note(stated, &go_on.again).await?;
            stream::note(format!("recorded; `loopgate resume {id}{at}` continues the run"));
            return Ok(ExitCode::SUCCESS);
        }
        let (domain, runner) = match self.runner(&go_on.again).await {
            Ok(both) => both,
            Err(failure) if stated.is_empty() => return Err(failure),
            // Who answers need not have what a driver needs.
            Err(failure) => {
                self.note(stated, &go_on.again).await?;
                stream::note(format!(
                    "recorded, and not continued here: {}; `loopgate resume {id}{at}` continues the run",
                    failure.line()
                ));
                return Ok(ExitCode::from(StopClass::NeedsHuman.exit_code()));
            }
        };
        let explained = |error: StartError| explained(error, domain.folder());
        let signals = Signals::new()?;
        let handle = runner.resume_with(&id, stated).start().await.map_err(explained)?;
        let driving = Driving {
            runner: &runner,
            journal: Arc::clone(&self.journal),
            at: go_on.again.journal.journal.clone(),
            live: Live::of(self.run),
            lines: None,
            json: go_on.json.detail(),
            prints: true,
            signals,
        };
        let (code, mut signals) = driving.drive(handle).await?;
        signals.unless_received(async {}).await;
        Ok(code)
    }

    /// Journals this and leaves the run. Nothing is needed for it that only a driver has: no secret, and no domain where that
    /// is not here.
    async fn note(&self, stated: Vec<EventKind>, again: &AgainArgs) -> Result<(), Failure> {
        let id = self.id();
        let loaded = match self.load(again.folder.domain.as_deref(), &again.settings()) {
            Ok(loaded) => loaded,
            Err(failure) => {
                return match note_alone(self.journal.as_ref(), id, stated).await? {
                    Some(_) => Ok(()),
                    // The hooks of its domain report the end.
                    None => Err(failure),
                };
            }
        };
        let runner = self.put_together(&loaded, again)?;
        runner.note_down(id, stated).await.map_err(|error| explained(error, loaded.domain.folder()))?;
        Ok(())
    }

    /// An error if a durable engine drives the run.
    pub(crate) fn check_driver(&self) -> Result<(), Failure> {
        Ok(not_on_engine(self.id(), &self.recorded)?)
    }

    /// The run's loop, put together again.
    pub(crate) async fn runner(&self, again: &AgainArgs) -> Result<(Domain, Runner), Failure> {
        self.check_driver()?;
        let loaded = self.load(again.folder.domain.as_deref(), &again.settings())?;
        loaded.domain.ready(loaded.saves)?;
        loaded.domain.start_servers();
        let mut entries = fork::entries_before(self.journal.as_ref(), self.run.started()).await;
        entries.extend(self.recorded.entries.iter().cloned());
        loaded.domain.goes_on_behind(&entries);
        let runner = self.put_together(&loaded, again)?;
        Ok((loaded.domain, runner))
    }

    /// The run's loop, of its domain as it is now.
    fn put_together(&self, loaded: &Loaded, again: &AgainArgs) -> Result<Runner, Failure> {
        let Loaded { domain, saves, asks, origin, .. } = loaded;
        let mut runner = saving::to_loop(domain, *saves);
        if *asks {
            runner = runner.with_people();
        }
        // A setting of this process, not of the run: the run is resumed under any of them.
        let journal = StoredJournal::clone(&self.journal).with_sync(again.sync.policy(domain));
        let batch = origin.as_ref().and_then(|origin| origin.batch.as_ref()).map(BatchOrigin::budget);
        let token = origin.as_ref().and_then(|origin| origin.token.as_ref()).map(TokenOrigin::budget);
        let more = batch.into_iter().chain(token);
        let runner = budgets::on_journal(runner, domain, &Arc::new(journal), more);
        Ok(runner.leave_when_waiting())
    }

    /// The run's loop as it is now, to compare the run with it: it is not driven. `calls`: its tools are called.
    pub(crate) fn compared(&self, folder: Option<&Path>, calls: bool) -> Result<Runner, Failure> {
        let Loaded { domain, .. } = self.load(folder, &SettingArgs::default())?;
        if calls {
            domain.ready(/*saves*/ false)?;
            domain.start_servers();
        }
        Ok(saving::to_loop(&domain, /*saves*/ false))
    }

    /// The run's domain as it is now, of which nothing is started.
    pub(crate) fn domain(&self, folder: Option<&Path>) -> Result<Domain, Failure> {
        Ok(self.load(folder, &SettingArgs::default())?.domain)
    }

    /// The run's domain as it is now, with these settings in place of those that the run was begun with. `folder`: where it is
    /// now. `None`: where it was.
    pub(crate) fn load(&self, folder: Option<&Path>, settings: &SettingArgs) -> Result<Loaded, Failure> {
        let id = self.id();
        let origin = self.recorded.origin.as_deref().map(Origin::read).transpose()?;
        let mut arguments = match (&origin, folder) {
            (Some(origin), _) => origin.changed(settings),
            (None, Some(domain)) => DomainArgs { domain: domain.to_owned(), settings: settings.clone() },
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
                "run {id} is of the domain {}, which is not there any more; name the folder that it is in now with \
                 --domain",
                arguments.domain.display()
            )));
        }
        let cwd = origin.as_ref().map_or(here, |origin| origin.cwd.clone());
        let domain = places::load_from(&arguments, cwd.clone())?;
        let saves = origin.as_ref().map_or(self.run.spec().save, |origin| origin.saves);
        let asks = origin.as_ref().is_some_and(|origin| origin.asks);
        Ok(Loaded { domain, arguments, cwd, saves, asks, origin })
    }
}

/// A run's domain as it is now, and how the run was begun with it.
pub(crate) struct Loaded {
    pub(crate) domain: Domain,
    /// By which it was loaded.
    pub(crate) arguments: DomainArgs,
    /// The folder that paths begin at.
    pub(crate) cwd: PathBuf,
    /// Whether the outcome is saved where the domain says.
    pub(crate) saves: bool,
    /// Whether a person is asked, whatever the domain says.
    pub(crate) asks: bool,
    /// How the run was begun. `None`: the journal does not say.
    pub(crate) origin: Option<Origin>,
}

/// A path as a command names it that is given in the folder `here`.
fn seen_from<'a>(path: &'a Path, here: &Path) -> &'a Path {
    match path.strip_prefix(here) {
        Ok(below) if below.as_os_str().is_empty() => Path::new("."),
        Ok(below) => below,
        Err(_) => path,
    }
}

/// Why a run cannot continue, with what to do about it.
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

/// `loopgate resume`: continues a run that is not over, or all of them.
pub(crate) async fn resume(args: ResumeArgs) -> Result<ExitCode, Failure> {
    match &args.run {
        Some(run) if let Some(when) = args.save => save::save(run, when, &args.go_on.again).await,
        Some(run) => Found::open(run, &args.go_on.again).await?.go_on(Vec::new(), &args.go_on).await,
        None => resume_all(&args.go_on.again).await,
    }
}

/// Goes on with each run that is not over, the oldest first. A run that cannot be resumed is a line like any other.
async fn resume_all(again: &AgainArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&again.journal)?;
    let runs = journal.runs().await?;
    // What is damaged may be over, and that cannot be read.
    let mut open: Vec<_> = runs
        .into_iter()
        .filter(|line| (line.stop.is_none() && !line.is_imported) || line.trouble.is_some())
        .collect();
    open.reverse();
    if open.is_empty() {
        stream::note("no run is to be resumed");
    }
    stream::outlive_reader();
    let mut signals = Signals::new()?;
    let (mut is_well, all) = (true, open.len());
    for (nth, line) in (1..).zip(open) {
        let id = line.run.clone();
        let resumed = match resume_one(&journal, line, again, &mut signals).await {
            Ok(resumed) => resumed,
            Err(failure) => Resumed { is_well: false, says: format!("not resumed: {}", failure.line()) },
        };
        is_well &= resumed.is_well;
        stream::print(&format!("{id}  {}\n", stream::one_line(&resumed.says)));
        if let Some(received) = signals.received() {
            if nth < all {
                stream::note(format!(
                    "stopped by a signal; {} not looked at",
                    counted((all - nth) as u64, "run")
                ));
            }
            stream::exit(received.exit_code().into());
        }
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What became of one of several runs.
struct Resumed {
    /// It has an answer, or others continue it.
    is_well: bool,
    says: String,
}

async fn resume_one(
    journal: &Arc<StoredJournal>,
    line: RunLine,
    again: &AgainArgs,
    signals: &mut Signals,
) -> Result<Resumed, Failure> {
    let id = &line.run;
    if let Some(trouble) = line.trouble {
        return Err(Failure::new(format!("damaged: {trouble}")));
    }
    if line.is_written {
        return Ok(Resumed { is_well: true, says: "running: another process drives it".to_owned() });
    }
    let waits = || Resumed {
        is_well: true,
        says: format!("waiting: a person has to answer; `loopgate pending {id}{}` shows what", again.at()),
    };
    let found = match Found::replayed(Arc::clone(journal), id).await {
        Ok(found) => check_version(id, &found.recorded).map(|()| found).map_err(StartError::from),
        Err(error) => Err(error),
    };
    let found = match found {
        Err(error) if error.is_of_another_version() => {
            return Ok(Resumed { is_well: false, says: format!("left to another version: {error}") });
        }
        found => found?,
    };
    if let Err(ReplayError::OnEngine { engine, .. }) = not_on_engine(id, &found.recorded) {
        return Ok(Resumed { is_well: true, says: format!("running: {engine} drives it") });
    }
    let now = found.recorded.now();
    let is_waiting = matches!(found.run.phase(), Phase::WaitingForPerson { .. });
    // Silence that has lasted long enough is a no, and the run continues with that.
    if is_waiting && !found.run.requested().iter().any(|requested| requested.is_over(now)) {
        return Ok(waits());
    }
    let (domain, runner) = found.runner(again).await?;
    let mut handle = runner.resume(id).start().await.map_err(|error| explained(error, domain.folder()))?;
    let watcher = run::watch(&mut handle, Live::of(found.run), None);
    let remote = handle.remote();
    let _listening = stop::Listening::to(journal, id, remote.clone());
    let driven = tokio::select! {
        driven = handle.driven() => driven,
        never = signals.stop(&remote) => match never {},
    };
    if let Some(watcher) = watcher {
        // The queue ends with the run; what it still holds is shown first.
        let _ = signals.unless_received(watcher).await;
    }
    let outcome = match driven {
        Driven::Ended(outcome) => outcome,
        Driven::Waiting(_) => return Ok(waits()),
    };
    run::doubts(&outcome);
    let (is_well, says) = ended(&outcome);
    Ok(Resumed { is_well, says: format!("stopped: {says}") })
}

/// Whether a run has an answer that is saved where it should be, and how it ended in a line.
pub(crate) fn ended(outcome: &Outcome) -> (bool, String) {
    let (reason, class) = (outcome.stop.name(), outcome.stop.class);
    let not_saved = match &outcome.saved {
        Some(Saved::Not { message }) => format!("; not saved: {message}"),
        Some(Saved::At { .. }) | None => String::new(),
    };
    let is_well = class == StopClass::Answered && not_saved.is_empty();
    (is_well, format!("{reason} ({}){not_saved}", class.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_domain_from_where_it_is_given() {
        for (domain, here, seen) in [
            ("/work/shop", "/work", "shop"),
            ("/work/shop/.", "/work/shop", "."),
            ("/work/shop", "/work/shop", "."),
            ("/work/shop", "/work/other", "/work/shop"),
        ] {
            assert_eq!(
                seen_from(Path::new(domain), Path::new(here)),
                Path::new(seen),
                "{domain} from {here}"
            );
        }
    }

    #[test]
    fn an_address_with_a_credential_is_known_wherever_it_stands() {
        for secret in [
            "base=http://ada:pw@host/v1",
            "x.url=\"https://tok@h\"",
            "http://a http://b@c",
            "base=https://h/v1?api-key=hunter2",
            "base=https://h/v1?x=sk-proj-0123456789",
            "base=https://h/9f86d081884c7d659a2feaa0c55ad015/v1",
            "x = { url = 'https://h/a/9f86d081-884c-7d65-9a2f-eaa0c55ad015/' }",
        ] {
            assert!(holds_url_secret(secret), "{secret}");
        }
        for plain in [
            "base=http://host/v1?to=a@b",
            "limits.max_passes=3",
            "mail=ada@example.org",
            "http://h/@x",
            "base=https://h/openai/deployments/gpt-4o-mini-2024-07-18?api-version=2024-10-21",
            "base=https://us-central1.h/v1/projects/my-project-123456/locations/us-central1/publishers",
        ] {
            assert!(!holds_url_secret(plain), "{plain}");
        }
    }
}
