//! What a run costs on Restate compared with the local runtime. `LOOPGATE_RESTATE_RUNS=200` makes the figures of the docs.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use loop_runtime::journal::StoredJournal;

use crate::harness::checks::intact;
use crate::harness::process::{Usage, disk};
use crate::harness::worker::register;
use crate::harness::{Desk, namespace, world};
use crate::load::runs_or;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn a_run_costs_more_on_restate_and_comes_to_the_same() {
    // I-12: the same entries, whatever they cost.
    if !namespace::is_inside("cost::a_run_costs_more_on_restate_and_comes_to_the_same") {
        return;
    }
    let count = runs_or(10);
    let desk = Desk::start().await;
    let worker = desk.worker().await;
    register(&desk.server.admin(), desk.port).await;
    let pids = [worker.pid(), desk.server.pid().unwrap()];
    let (before, on_disk) = (pids.map(Usage::of), disk(&desk.server.data()));
    let runs = desk.submit_crowd(world::DESK, count).await;
    let ended = desk.wait_crowd(&runs).await;
    let after = pids.map(Usage::of);
    println!("{}", intact(&desk, world::DESK, &runs, &ended).await);
    let each = |all: f64| 1_000.0 * all / count as f64;
    println!(
        "restate: worker {:.1} ms, server {:.1} ms of processor time a run; {:.0} KiB a run on the server's disk",
        each(after[0].seconds - before[0].seconds),
        each(after[1].seconds - before[1].seconds),
        (disk(&desk.server.data()) - on_disk) as f64 / 1_024.0 / count as f64,
    );
    let query = "select count(*) as entries, sum(raw_length) as bytes from sys_journal";
    let rows = desk.server.rows(query).await;
    println!("restate: journals of all: {rows:?}, of {count} runs");
    let rows = desk.server.rows("select target_service_name as service, target_handler_name as handler, count(*) as n from sys_invocation group by 1, 2").await;
    println!("restate: invocations kept: {rows:?}");

    // The same on one machine, as many at once.
    let effects = desk.folder.path().join("local-effects");
    let journal = Arc::new(StoredJournal::open(desk.folder.path().join("local.db")).unwrap());
    let runner = world::runner(world::DESK, &effects, false).with_journal(Arc::clone(&journal) as _);
    let before = Usage::of(std::process::id());
    let local = futures::stream::iter(0..count).map(|n| runner.run(world::item(n)).into_future());
    let done = local.buffered(64).collect::<Vec<_>>().await;
    assert!(done.iter().all(Result::is_ok));
    let after = Usage::of(std::process::id());
    println!("local: {:.1} ms of processor time a run", each(after.seconds - before.seconds));

    // One after another: how long a run takes.
    let alone = count.min(20);
    let mut times = (Vec::new(), Vec::new());
    for n in 0..alone {
        let begins = Instant::now();
        runner.run(world::item(n)).await.unwrap();
        times.0.push(begins.elapsed().as_secs_f64() * 1_000.0);
        let begins = Instant::now();
        let client = desk.server.client();
        let run = loop_restate::Client::run_of_key(world::DESK, &format!("alone-{n}"));
        let submission = loop_restate::wire::EngineSubmission {
            domain: world::DESK.into(),
            item: world::item(n),
            key: Some(format!("alone-{n}").into()),
        };
        client.submit(&run, &submission).await.unwrap();
        client.wait(&run).await.unwrap();
        times.1.push(begins.elapsed().as_secs_f64() * 1_000.0);
    }
    println!("a run alone, median: local {:.0} ms, restate {:.0} ms", median(times.0), median(times.1));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
