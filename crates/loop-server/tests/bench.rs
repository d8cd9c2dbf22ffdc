//! An engine over a journal in a folder of its own, with a model that replies only as often as the test lets it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use loop_core::run::Overridden;
use loop_core::types::RunId;
use loop_domain::{Domain, LoadOptions};
use loop_llm::{ChatModel, EventStream, LlmError, ModelRequest};
use loop_runtime::Runner;
use loop_runtime::hooks::{Hook, HookEvent, HookMessage, HookSender, Hooks};
use loop_runtime::journal::{Journal, StoredJournal};
use loop_runtime::models::{Models, Offline};
use loop_server::api;
use loop_server::doors::Audit;
use loop_server::engine::{Engine, EngineLimits, NewRun, RunnerSource, ServedDomain};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// A request that the offline stub answers at once.
pub const ASKS: &str = "Who is Bob?";
/// A request that leads to an action which a person has to approve.
pub const WRITES: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";

/// The folder of a journal and of domains.
pub struct Bench {
    pub folder: TempDir,
}

/// What the model of all runs of a bench does.
#[derive(Debug)]
pub struct Gate {
    inner: Offline,
    /// One permit for each call.
    pub calls: Semaphore,
    /// The tags of the runs, in the order in which they began.
    pub began: Mutex<Vec<String>>,
    /// Whether the receiver of hooks takes messages.
    pub takes: AtomicBool,
    /// One permit for each message that the receiver of the domain `slow` takes.
    pub messages: Semaphore,
    /// How many messages it has begun to take.
    pub arrived: AtomicUsize,
    /// Whether a domain is not loaded with settings now, and how many wait for it.
    loads: (Mutex<(bool, usize)>, Condvar),
}

impl Gate {
    pub fn open() -> Arc<Self> {
        Self::of(100_000)
    }

    pub fn closed() -> Arc<Self> {
        Self::of(0)
    }

    fn of(calls: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: Offline::new(),
            calls: Semaphore::new(calls),
            began: Mutex::default(),
            takes: AtomicBool::new(false),
            messages: Semaphore::new(0),
            arrived: AtomicUsize::new(0),
            loads: Default::default(),
        })
    }

    /// Holds what loads a domain with settings, or lets it continue.
    pub fn hold_loads(&self, is_held: bool) {
        self.loads.0.lock().unwrap().0 = is_held;
        self.loads.1.notify_all();
    }

    /// How many threads wait to load a domain.
    pub fn waiting_loads(&self) -> usize {
        self.loads.0.lock().unwrap().1
    }

    fn wait_to_load(&self) {
        let mut loads = self.loads.0.lock().unwrap();
        loads.1 += 1;
        let (mut loads, waited) = self.loads.1.wait_timeout_while(loads, LONG, |loads| loads.0).unwrap();
        loads.1 -= 1;
        assert!(!waited.timed_out(), "a load is held");
    }
}

#[derive(Debug)]
struct Gated(Arc<Gate>);

#[async_trait]
impl ChatModel for Gated {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        self.0.calls.acquire().await.unwrap().forget();
        self.0.inner.stream(request).await
    }
}

#[derive(Debug)]
pub struct Source {
    folder: PathBuf,
    journal: Arc<StoredJournal>,
    gate: Arc<Gate>,
}

impl Source {
    fn load(&self, domain: &str, settings: &[(String, String)]) -> Result<Domain, String> {
        let options = LoadOptions { set: settings.to_vec(), ..LoadOptions::default() };
        Domain::load(self.folder.join(domain), &options).map_err(|error| error.to_string())
    }

    fn runner(&self, domain: &Domain) -> Runner {
        let models = Models::one(Arc::new(Gated(Arc::clone(&self.gate))));
        Runner::new((*domain.spec).clone(), (*domain.registry).clone(), models)
            .with_prompts(Arc::clone(&domain.prompts))
            .with_secrets(domain.secrets())
            .with_hooks(hooks(domain, &self.gate))
            .with_journal(Arc::clone(&self.journal) as Arc<dyn Journal>)
            .leave_when_waiting()
    }
}

/// A hook of the domain `other`, which receives what the gate takes.
fn hooks(domain: &Domain, gate: &Arc<Gate>) -> Hooks {
    let desk = Hook {
        name: "desk".into(),
        on: vec![HookEvent::Ended],
        sender: Arc::new(Desk(Arc::clone(gate))),
        timeout: LONG,
    };
    let slow = Hook {
        name: "slow".into(),
        on: vec![HookEvent::Waiting],
        sender: Arc::new(Slow(Arc::clone(gate))),
        timeout: LONG,
    };
    Hooks::new(match &*domain.spec.domain {
        "other" => Some(desk),
        "slow" => Some(slow),
        _ => None,
    })
}

struct Slow(Arc<Gate>);

#[async_trait]
impl HookSender for Slow {
    async fn send(&self, _: &HookMessage) -> Result<(), String> {
        self.0.arrived.fetch_add(1, Ordering::Relaxed);
        self.0.messages.acquire().await.unwrap().forget();
        Ok(())
    }
}

struct Desk(Arc<Gate>);

#[async_trait]
impl HookSender for Desk {
    async fn send(&self, _: &HookMessage) -> Result<(), String> {
        if self.0.takes.load(Ordering::Relaxed) { Ok(()) } else { Err("it is away".to_owned()) }
    }
}

#[async_trait]
impl RunnerSource for Source {
    fn of_new(
        &self,
        domain: &ServedDomain,
        settings: &[(String, String)],
        tags: &[String],
    ) -> Result<Runner, String> {
        if settings.is_empty() {
            self.gate.began.lock().unwrap().extend(tags.iter().cloned());
        }
        let runner = match settings {
            [] => domain.runner.clone(),
            settings => {
                self.gate.wait_to_load();
                self.runner(&self.load(domain.name(), settings)?).with_overridden(overridden(settings))
            }
        };
        let origin = serde_json::json!({ "domain": &**domain.name(), "settings": settings, "tags": tags });
        Ok(runner.with_origin(origin.to_string()))
    }

    async fn of_run(&self, run: &RunId) -> Result<Runner, String> {
        let recorded = self.journal.read(run).await.map_err(|error| error.to_string())?;
        let origin: serde_json::Value = serde_json::from_str(recorded.origin.as_deref().unwrap()).unwrap();
        let settings: Vec<(String, String)> = serde_json::from_value(origin["settings"].clone()).unwrap();
        let runner = self.runner(&self.load(origin["domain"].as_str().unwrap(), &settings)?);
        Ok(runner.with_overridden(overridden(&settings)))
    }
}

/// What a run records of the settings that its caller gave.
fn overridden(settings: &[(String, String)]) -> impl Iterator<Item = Overridden> {
    settings
        .iter()
        .map(|(key, value)| Overridden { setting: key.as_str().into(), value: value.as_str().into() })
}

impl Bench {
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        bench.domain("crm", "");
        bench
    }

    /// A copy of the people register under this name, with more settings.
    pub fn domain(&self, name: &str, more: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crm");
        let to = self.folder.path().join(name);
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(from.join("crm.sql"), to.join("crm.sql")).unwrap();
        let text = std::fs::read_to_string(from.join("loopgate.toml")).unwrap();
        let text = text.replacen("name = \"crm\"", &format!("name = \"{name}\""), 1);
        std::fs::write(to.join("loopgate.toml"), format!("{text}\n{more}")).unwrap();
    }

    /// A domain `notes`, whose runs write a document.
    pub fn notes(&self) {
        let folder = self.folder.path().join("notes");
        std::fs::create_dir_all(&folder).unwrap();
        let text = "version = 1\nname = \"notes\"\ngoal = \"Write a note.\"\n\n[serve]\n\
                    caller_may_set = [\"limits.passes\"]\n\n[[section]]\nid = \"note\"\nheading = \"Note\"\n\
                    describe = \"A note.\"\nrequired = true\n";
        std::fs::write(folder.join("loopgate.toml"), text).unwrap();
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    pub async fn engine(&self, gate: &Arc<Gate>) -> Engine {
        self.engine_of(&["crm"], gate, limits()).await
    }

    pub async fn engine_of(&self, names: &[&str], gate: &Arc<Gate>, limits: EngineLimits) -> Engine {
        let journal = Arc::new(StoredJournal::open(self.path()).unwrap());
        let source = Source {
            folder: self.folder.path().to_owned(),
            journal: Arc::clone(&journal),
            gate: Arc::clone(gate),
        };
        let served = names.iter().map(|name| {
            let domain = source.load(name, &[]).unwrap();
            let runner = source.runner(&domain);
            let max_runs = domain.max_runs().map_or(limits.max_runs, |max| max as usize);
            let max_queued = domain.max_queued().map_or(limits.max_queued, u64::from);
            ServedDomain { domain, runner, max_runs, max_queued }
        });
        let served = served.collect();
        Engine::open(journal, served, Arc::new(source), limits).await.unwrap()
    }
}

pub fn limits() -> EngineLimits {
    EngineLimits {
        max_runs: 2,
        max_queued: 100,
        poll: Duration::from_millis(5),
        deliver: Duration::from_millis(5),
    }
}

/// The routes of the API over an engine, which record in its journal.
pub fn router(engine: &Engine) -> Router {
    api::router(engine.clone(), Audit::of(Arc::clone(engine.journal())))
}

/// A submission of a text.
pub fn asks(item: &str) -> NewRun {
    NewRun { item: item.to_owned(), caller: "ada".into(), ..NewRun::default() }
}

/// How long a test waits for what has to happen.
pub const LONG: Duration = Duration::from_secs(60);
