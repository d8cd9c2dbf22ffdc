//! A server, a port for workers, a journal, effects: submits runs, awaits them, and says what came of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loop_restate::Client;
use loop_restate::wire::{EndedReply, EngineStatus, EngineSubmission};
use loop_runtime::journal::{Entry, Journal as _, StoredJournal};
use loop_runtime::run::RunId;
use tempfile::TempDir;

use super::bucket::Blobs;
use super::server::{Server, free_ports};
use super::worker::{WorkerProcess, register};
use super::world;

pub struct Desk {
    pub folder: TempDir,
    pub server: Server,
    /// Where the workers listen.
    pub port: u16,
    /// The store of blobs of its workers.
    pub blobs: Option<Blobs>,
}

impl Desk {
    /// A server without a worker.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path()).await;
        Self::of(folder, server)
    }

    /// This server without a worker. `folder` is for the journal and the effects.
    pub fn of(folder: TempDir, server: Server) -> Self {
        let [port] = free_ports();
        Self { folder, server, port, blobs: None }
    }

    /// A server with one worker, registered.
    pub async fn with_worker() -> (Self, WorkerProcess) {
        let desk = Self::start().await;
        let worker = desk.worker().await;
        register(&desk.server.admin(), desk.port).await;
        (desk, worker)
    }

    pub async fn worker(&self) -> WorkerProcess {
        WorkerProcess::start(self.port, &self.journal_file(), &self.effects_file(), self.blobs.as_ref()).await
    }

    pub fn journal_file(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    pub fn effects_file(&self) -> PathBuf {
        self.folder.path().join("effects")
    }

    /// Submits this many items of a domain, each under a key of its own.
    pub async fn submit(&self, domain: &str, count: usize) -> Vec<RunId> {
        let client = self.server.client();
        let mut runs = Vec::new();
        for n in 0..count {
            runs.push(submit_nth(&client, domain, n).await);
        }
        runs
    }

    /// How each run ended, also where the server is gone for a while.
    pub async fn wait(&self, runs: &[RunId]) -> Vec<EndedReply> {
        let client = self.server.client();
        let one = async |run: &RunId| {
            patiently("a run ends", async || {
                tokio::time::timeout(Duration::from_secs(20), client.wait(run)).await.ok()?.ok()
            })
            .await
        };
        futures::future::join_all(runs.iter().map(one)).await
    }

    /// Waits until a run is in such a state.
    pub async fn until(&self, run: &RunId, is: impl Fn(&EngineStatus) -> bool) -> EngineStatus {
        let client = self.server.client();
        patiently("a run comes so far", async || client.status(run).await.ok().filter(&is)).await
    }

    pub fn journal(&self) -> StoredJournal {
        StoredJournal::open(self.journal_file()).unwrap()
    }

    pub async fn entries(&self, run: &RunId) -> Vec<Entry> {
        self.journal().read(run).await.unwrap().entries
    }

    /// How often each effect was made: by tool and idempotency key.
    pub fn effects(&self) -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(self.effects_file()).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }

    /// The same item on one machine: its entries.
    pub async fn local(&self, domain: &str, n: usize) -> Vec<Entry> {
        let effects = self.folder.path().join("local-effects");
        let runner = world::runner(domain, &effects, domain == world::ASKING);
        let journal = Arc::new(loop_runtime::journal::MemoryJournal::new());
        let outcome = runner.with_journal(Arc::clone(&journal) as _).run(world::item(n)).await.unwrap();
        journal.read(&outcome.run).await.unwrap().entries
    }
}

/// Asks until there is an answer, at most two minutes.
pub async fn patiently<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let ends = std::time::Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(std::time::Instant::now() < ends, "waited for two minutes until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Submits the n-th item of a domain under a key of its own. Its run.
pub async fn submit_nth(client: &Client, domain: &str, n: usize) -> RunId {
    let key = format!("key-{n}");
    let run = Client::run_of_key(domain, &key);
    let submission =
        EngineSubmission { domain: domain.into(), item: world::item(n), key: Some(key.as_str().into()) };
    patiently("it is submitted", async || client.submit(&run, &submission).await.ok()).await;
    run
}
