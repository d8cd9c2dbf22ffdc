//! Many runs that wait for a person. `LOOPGATE_RESTATE_RUNS=1000` makes it a load, and `LOOPGATE_RESTATE_WAIT=90` lets them wait
//! for so many seconds: Restate suspends a workflow after a minute.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use loop_core::run::PersonAnswer;
use loop_restate::ClientError;
use loop_runtime::engine::RunMessage;

use crate::harness::desk::patiently;
use crate::harness::process::{Usage, disk};
use crate::harness::worker::{WorkerProcess, register};
use crate::harness::{Desk, namespace, world};
use crate::load::runs_or;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn runs_that_wait_for_a_person_are_answered_and_end() {
    // I-12, H1
    if !namespace::is_inside("waiting::runs_that_wait_for_a_person_are_answered_and_end") {
        return;
    }
    let count = runs_or(20);
    let seconds: u64 = std::env::var("LOOPGATE_RESTATE_WAIT").map_or(0, |text| text.parse().unwrap());
    let desk = Desk::start().await;
    let workers = [desk.worker().await, desk.worker().await];
    register(&desk.server.admin(), desk.port).await;
    figures("before", &desk, &workers);
    let begins = Instant::now();
    let runs = desk.submit_crowd(world::ASKING, count).await;
    let client = desk.server.client();
    let mut open = Vec::new();
    for run in &runs {
        let status = patiently("it asks", async || {
            client.status(run).await.ok().filter(|status| !status.waiting.is_empty())
        });
        open.push(status.await.waiting.remove(0));
    }
    println!("all wait after {:.1} s", begins.elapsed().as_secs_f64());
    figures("as all wait", &desk, &workers);
    let waits = Instant::now();
    while waits.elapsed().as_secs() < seconds {
        tokio::time::sleep(Duration::from_secs(10)).await;
        figures(&format!("{:.0} s later", waits.elapsed().as_secs_f64()), &desk, &workers);
    }
    let begins = Instant::now();
    let answers = futures::stream::iter(runs.iter().zip(open)).map(|(run, open)| {
        let message =
            RunMessage::Answer { key: open.key, answer: PersonAnswer::Approved, binding: Some(open.binding) };
        let client = client.clone();
        async move {
            match client.post(run, &message).await {
                Ok(posted) => assert_eq!(posted.number, 0),
                // The worker is busy, and the run reads it later.
                Err(ClientError::NotRead { .. }) => {}
                Err(refused) => panic!("{refused}"),
            }
        }
    });
    answers.buffered(64).collect::<Vec<()>>().await;
    let ended = desk.wait_crowd(&runs).await;
    println!("all answered and ended within {:.1} s", begins.elapsed().as_secs_f64());
    figures("at the end", &desk, &workers);
    assert!(ended.iter().all(|ended| ended.text == "It is booked."));
    let effects = desk.effects();
    assert!(effects.values().all(|times| *times == 1) && effects.len() == 4 * count, "{effects:?}");
}

fn figures(when: &str, desk: &Desk, workers: &[WorkerProcess]) {
    let of = |pid: u32| {
        let Usage { memory, seconds } = Usage::of(pid);
        format!("{memory:.0} MiB, {seconds:.1} s")
    };
    let workers: Vec<String> = workers.iter().map(|worker| of(worker.pid())).collect();
    println!(
        "{when}: server {} ({:.0} MiB on disk); workers {}",
        of(desk.server.pid().unwrap()),
        disk(&desk.server.data()) as f64 / f64::from(1 << 20),
        workers.join("; ")
    );
}
