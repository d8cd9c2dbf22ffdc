//! The suite that every driver passes, on a real server: the cases that take at most two seconds, without a driver that dies.

use std::sync::Arc;

use loop_restate::wire::EngineSubmission;
use loop_restate::{Client, Worker};
use loop_runtime::Runner;
use loop_runtime::engine::RunMessage;
use loop_runtime::journal::{Journal as _, MemoryJournal, replay};
use loop_runtime::models::Models;
use loop_testkit::drivers::{
    DriverCase, DriverClock, DriverRecord, Recursion, RunDriver, cases, difference_in, live::LiveOutside,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::harness::desk::patiently;
use crate::harness::server::Server;
use crate::harness::worker::register;

/// A server whose workers are in this process: one for each case.
struct OnRestate {
    runtime: Runtime,
    server: Server,
    _folder: TempDir,
}

impl RunDriver for OnRestate {
    fn name(&self) -> &'static str {
        "Restate"
    }

    fn drive(&self, case: &DriverCase) -> DriverRecord {
        self.runtime.block_on(self.driven(case))
    }
}

impl OnRestate {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let (runtime, folder) = (runtime.unwrap(), tempfile::tempdir().unwrap());
        let server = runtime.block_on(Server::start(folder.path()));
        Self { runtime, server, _folder: folder }
    }

    async fn driven(&self, case: &DriverCase) -> DriverRecord {
        let outside = LiveOutside::new(case);
        let journal = Arc::new(MemoryJournal::new());
        let models = Models::one(outside.model());
        let runner = Runner::new(case.setup.spec.clone(), outside.registry(), models);
        let worker = Worker::new().with(runner.with_journal(Arc::clone(&journal) as _)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(worker.serve(listener, std::future::pending::<()>()));
        register(&self.server.admin(), port).await;
        let (client, run) = (self.server.client(), Client::run_of_key(case.name, "1"));
        let domain = Arc::clone(&case.setup.spec.domain);
        let submission = EngineSubmission { domain, item: case.setup.item.clone(), key: None };
        patiently("it is submitted", async || client.submit(&run, &submission).await.ok()).await;
        for (key, answer) in &case.answers {
            let open = patiently("a person is asked", async || {
                let waiting = client.status(&run).await.ok()?.waiting;
                waiting.into_iter().find(|open| open.key.to_string() == *key)
            });
            let message = RunMessage::Answer { key: open.await.key, answer: answer.clone(), binding: None };
            client.post(&run, &message).await.unwrap();
        }
        client.wait(&run).await.unwrap();
        serving.abort();
        let recorded = journal.read(&run).await.unwrap();
        let outcome = replay(&run, &recorded).unwrap().outcome().cloned();
        let entries = recorded.entries.into_iter().map(|entry| (entry.event, entry.notes));
        DriverRecord { entries: entries.collect(), outcome }
    }
}

/// Whether a case has nothing that this driver leaves out, and is short.
fn fits(case: &DriverCase) -> bool {
    let is_plain = case.validations.is_empty() && !case.setup.spec.save;
    let is_left_alone = case.said.is_none() && case.dies.is_none();
    let last = || Recursion.drive(case).entries.last().map_or(0, |(event, _)| event.at.0);
    is_plain && is_left_alone && last() <= 2_000
}

#[test]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
fn restate_drives_as_recursion_over_the_core_does() {
    // Issue 20, part 2; I-12
    let driver = OnRestate::start();
    let fitting: Vec<DriverCase> = cases().into_iter().filter(fits).collect();
    let differences: Vec<String> =
        fitting.iter().filter_map(|case| difference_in(&driver, DriverClock::Own, case).err()).collect();
    println!("{} cases", fitting.len());
    assert!(fitting.len() > 10 && differences.is_empty(), "{}", differences.join("\n\n"));
}
