//! A worker as a process of its own: this test program, started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use loop_restate::blobs::BlobStore;
use loop_restate::{Client, Worker};
use loop_runtime::journal::StoredJournal;
use tokio::net::TcpSocket;

use super::bucket::Blobs;
use super::world;

/// The variable that makes a worker of this program: its address, its journal, the file of effects, the
/// store of blobs or nothing, and the seconds that blobs stay, in lines.
const VARIABLE: &str = "LOOP_RESTATE_TEST_WORKER";

/// A worker of [`world`]. It is killed when it is dropped.
pub struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// Starts a worker at this port of loopback. Several share a port.
    pub async fn start(port: u16, journal: &Path, effects: &Path, blobs: Option<&Blobs>) -> Self {
        let (url, stay) = blobs.map_or(("", 0), |blobs| (blobs.url.as_str(), blobs.stay));
        let log: PathBuf = journal.with_extension("workers.log");
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["harness::worker::this_program_is_a_worker", "--exact", "--nocapture"])
            .env(VARIABLE, format!("{port}\n{}\n{}\n{url}\n{stay}", journal.display(), effects.display()))
            .envs(blobs.into_iter().flat_map(Blobs::keys))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Self { child: child.unwrap() }
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may be over.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Registers the workers at this port, once one of them answers.
pub async fn register(admin: &str, port: u16) {
    let admin = Client::new(admin).unwrap();
    let own = format!("http://127.0.0.1:{port}");
    let mut last = None;
    for _ in 0..600 {
        match admin.register(&own).await {
            Ok(()) => return,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{own} is not registered: {last:?}");
}

/// Not a test: the main function of a worker, where the variable is set.
#[test]
fn this_program_is_a_worker() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap().to_owned();
    let (port, journal, effects): (u16, PathBuf, PathBuf) =
        (next().parse().unwrap(), next().into(), next().into());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(([127, 0, 0, 1], port).into()).unwrap();
        let listener = socket.listen(1_024).unwrap();
        let journal = Arc::new(StoredJournal::open(journal).unwrap());
        let mut worker = Worker::new();
        for runner in world::runners(&effects) {
            worker = worker.with(runner.with_journal(Arc::clone(&journal) as _)).unwrap();
        }
        let (blobs, stay) = (next(), next().parse().unwrap());
        if !blobs.is_empty() {
            let store = BlobStore::open(&blobs).await.unwrap();
            worker = worker.with_blobs(store, Duration::from_secs(stay));
        }
        worker.serve(listener, std::future::pending::<()>()).await;
    });
}
