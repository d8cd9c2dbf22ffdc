//! Observers see everything and change nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::world::{Log, Stage, answer, drained, look, looping, picks, says};
use loop_runtime::{Handle, Loop, Outcome, Report, RunId, Signal};
use serde_json::Value;

fn stage(log: &Log) -> Stage {
    Stage::new(log)
        .on("pick", [says(picks(&["ok-1", "slow-700"])).after(100)])
        .on("main", [says(answer("medium", &[look("slow-300")])).after(200), says(answer("high", &[]))])
}

async fn begun() -> (Loop, Handle) {
    let log = Log::new();
    let looping = looping(common::spec(), &log, stage(&log));
    let handle = looping.start(common::item()).await.unwrap();
    (looping, handle)
}

/// All of an outcome but the run's name, and everything that was written down but the names and the wall time.
async fn told(looping: &Loop, started: &loop_core::Started, outcome: &Outcome) -> (Value, String) {
    let mut report = serde_json::to_value(Report::new(started, outcome)).unwrap();
    report["run"] = Value::Null;
    let entries = looping.journal().read(&outcome.run).await.unwrap().entries;
    let entries = serde_json::to_string(&entries[1..]).unwrap().replace(&*started.nonce, "NONCE");
    // The nonce is in the prompts, so it shows in their hashes.
    let hashes =
        entries.split("\"prompt_hash\":\"").map(|part| part.split_once('"').map_or(part, |(_, rest)| rest));
    (report, hashes.collect())
}

#[tokio::test(start_paused = true)]
async fn a_run_is_the_same_whoever_watches_it() {
    // I-30, U8
    let (looping, mut handle) = begun().await;
    let started = handle.started().clone();
    let signals = handle.signals().unwrap();
    let (_, outcome) = tokio::join!(drained(signals), handle.wait());
    let watched = told(&looping, &started, &outcome).await;

    // Nobody takes the queue.
    let (looping, handle) = begun().await;
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    assert_eq!(told(&looping, &started, &outcome).await, watched);

    // It is taken and dropped at once.
    let (looping, mut handle) = begun().await;
    let started = handle.started().clone();
    drop(handle.signals());
    let outcome = handle.wait().await;
    assert_eq!(told(&looping, &started, &outcome).await, watched);

    // It is dropped in the middle of things.
    let (looping, mut handle) = begun().await;
    let started = handle.started().clone();
    let mut signals = handle.signals().unwrap();
    for _ in 0..4 {
        signals.recv().await.unwrap();
    }
    drop(signals);
    let outcome = handle.wait().await;
    assert_eq!(told(&looping, &started, &outcome).await, watched);

    // It is kept and never read.
    let (looping, mut handle) = begun().await;
    let started = handle.started().clone();
    let signals = handle.signals().unwrap();
    let outcome = handle.wait().await;
    assert_eq!(told(&looping, &started, &outcome).await, watched);
    assert!(!signals.is_empty(), "everything is there for whoever reads late");
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_every_entry_from_the_first_on_and_the_end_of_the_queue() {
    // S0-18, I-30
    let (looping, mut handle) = begun().await;
    // Late, but before anyone waits: nothing is missing.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let signals = handle.signals().unwrap();
    assert!(handle.signals().is_none(), "it can be taken once");
    let (seen, outcome) = tokio::join!(drained(signals), handle.wait());
    let recorded = looping.journal().read(&outcome.run).await.unwrap();
    let entries: Vec<_> = seen
        .into_iter()
        .filter_map(|signal| match signal {
            Signal::Recorded(entry) => Some((*entry).clone()),
            Signal::Text { .. } => None,
        })
        .collect();
    assert_eq!(entries, recorded.entries);
}

/// A log of everything, run by run.
async fn written(looping: &Loop, run: &RunId) -> String {
    serde_json::to_string(&looping.journal().read(run).await.unwrap().entries).unwrap()
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_loop_do_not_mix() {
    // I-22, I-29
    let log = Log::new();
    let stages = Stage::new(&log)
        .on("pick", (0..20).map(|_| says("[]")))
        .on("main", (0..20).map(|_| says(answer("high", &[])).after(100)));
    let looping = looping(common::spec(), &log, stages);
    let item = |n: usize| loop_runtime::WorkItem {
        id: format!("T-{n}").into(),
        title: format!("title-of-{n}.").into(),
        full: format!("text-of-{n}.").into(),
        ..common::item()
    };
    let mut handles = Vec::new();
    for n in 0..20 {
        handles.push(looping.start(item(n)).await.unwrap());
    }
    let mut nonces = std::collections::BTreeSet::new();
    for (n, handle) in handles.into_iter().enumerate() {
        let (run, started) = (handle.id().clone(), handle.started().clone());
        assert!(nonces.insert(started.nonce.clone()), "each has a nonce of its own");
        let outcome = handle.wait().await;
        assert_eq!((&outcome.run, outcome.document.sections.len()), (&run, 3));
        assert_eq!(outcome.totals.model_calls, 2, "its own calls and no others");
        let text = written(&looping, &run).await;
        assert!(text.contains(&format!("text-of-{n}.")));
        for other in (0..20).filter(|other| *other != n) {
            assert!(!text.contains(&format!("text-of-{other}.")), "{other} in {n}");
        }
    }
    assert_eq!(log.now(), 100, "side by side");
}

#[tokio::test]
async fn a_nonce_cannot_be_told_from_the_name_of_its_run() {
    // K5: a tool is told the run's name.
    for _ in 0..50 {
        let (_, handle) = begun().await;
        let (run, nonce) = (handle.id().as_str().replace('-', ""), handle.started().nonce.clone());
        assert_eq!((nonce.len(), nonce.chars().all(|c| c.is_ascii_hexdigit())), (16, true));
        for at in 0..nonce.len() - 6 {
            assert!(!run.contains(&nonce[at..at + 6]), "{nonce} shows in {run}");
        }
    }
}
