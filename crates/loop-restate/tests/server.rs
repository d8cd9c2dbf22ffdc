//! Runs on a real server: the journal of one machine, kills of workers and of the server, people, stops.

mod conform;

use loop_core::{EventKind, PersonAnswer, StopMode};
use loop_restate::wire::EngineSubmission;
use loop_restate::{Client, ClientError};
use loop_runtime::engine::RunMessage;
use loop_runtime::journal::{Entry, Journal as _, replay};
use serde_json::Value;

use crate::harness::{Desk, world};

/// Entries without what belongs to one run or one process: names, instants, durations.
fn plain(entries: &[Entry]) -> Vec<Value> {
    fn still(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| {
                    !matches!(name.as_str(), "run" | "nonce" | "prompt_hash" | "unix_ms" | "engine")
                });
                for (name, member) in members {
                    match member.is_number() && (name == "at" || name.ends_with("ms")) {
                        true => *member = Value::Null,
                        false => still(member),
                    }
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(still),
            _ => {}
        }
    }
    let mut values: Vec<Value> = entries.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
    values.iter_mut().for_each(still);
    values
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn runs_leave_the_journal_of_one_machine_and_a_key_is_one_run() {
    // I-12: the same entries, decisions and document; a submission counts once.
    let (desk, _worker) = Desk::with_worker().await;
    let runs = desk.submit(world::DESK, 5).await;
    let ended = desk.wait(&runs).await;
    for (n, (run, ended)) in runs.iter().zip(&ended).enumerate() {
        assert_eq!((ended.text.as_str(), ended.exit_code), ("It is booked.", 0), "{ended:?}");
        let entries = desk.entries(run).await;
        assert_eq!(plain(&entries), plain(&desk.local(world::DESK, n).await), "run {n}");
        let recorded = desk.journal().read(run).await.unwrap();
        assert!(replay(run, &recorded).is_ok() && recorded.unverified.is_none());
    }
    // The same keys again: nothing begins.
    let effects = desk.effects();
    let client = desk.server.client();
    let submission =
        EngineSubmission { domain: world::DESK.into(), item: world::item(0), key: Some("key-0".into()) };
    let again = client.submit(&Client::run_of_key(world::DESK, "key-0"), &submission).await.unwrap();
    assert!(again.is_known && again.run == runs[0]);
    // K16: the key of another item is refused.
    let other = EngineSubmission { item: world::item(7), ..submission };
    let refused = client.submit(&runs[0], &other).await.unwrap_err();
    assert!(matches!(&refused, ClientError::OtherItem { run } if *run == runs[0]), "{refused}");
    assert_eq!(desk.effects(), effects);
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
}

/// What has to be true of runs whose workers or server were killed.
async fn intact(desk: &Desk, runs: &[loop_runtime::run::RunId]) {
    let ended = desk.wait(runs).await;
    let effects = desk.effects();
    let count = |tool: &str, run: &str| {
        effects
            .iter()
            .filter(|(line, _)| line.starts_with(&format!("{tool} {run}")))
            .map(|(_, n)| *n)
            .collect::<Vec<_>>()
    };
    let (mut doubts, mut resumed, mut repeated) = (0, 0, 0);
    for (n, (run, ended)) in runs.iter().zip(&ended).enumerate() {
        let entries = desk.entries(run).await;
        let recorded = desk.journal().read(run).await.unwrap();
        replay(run, &recorded).unwrap();
        // A keyed write has one key, however often it was sent; the receiver makes one effect of it.
        let booked = count("book", &run.0);
        assert_eq!(booked.len(), 1, "{run}: {effects:?}");
        repeated += booked[0] - 1;
        // An irreversible one is made at most once. Where its end is unknown the run says so.
        let printed: usize = count("print", &run.0).iter().sum();
        let is_doubtful = ended.report["stop"]["effects"]["in_doubt"] != 0;
        assert!(printed <= 1 && (printed == 1 || is_doubtful), "{run}: {printed}, {ended:?}");
        doubts += usize::from(is_doubtful);
        let breaks = entries.iter().filter(|entry| matches!(entry.event.kind, EventKind::Resumed { .. }));
        match breaks.count() {
            0 => assert_eq!(plain(&entries), plain(&desk.local(world::DESK, n).await), "run {n}"),
            _ => resumed += 1,
        }
    }
    println!(
        "{} runs: {resumed} resumed, {doubts} in doubt, {repeated} keyed writes sent again under their key, 0 doubled",
        runs.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn runs_survive_a_worker_that_is_killed() {
    // I-12, H1
    let (desk, worker) = Desk::with_worker().await;
    let runs = desk.submit(world::DESK, 30).await;
    desk.until(&runs[10], |status| status.entries > 3).await;
    worker.kill();
    let next = desk.worker().await;
    desk.until(&runs[20], |status| status.entries > 3).await;
    next.kill();
    let _last = desk.worker().await;
    intact(&desk, &runs).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn runs_survive_a_server_that_is_killed() {
    // I-12, H1
    let (mut desk, _worker) = Desk::with_worker().await;
    let runs = desk.submit(world::DESK, 30).await;
    desk.until(&runs[10], |status| status.entries > 3).await;
    desk.server.kill();
    desk.server.start_again().await;
    intact(&desk, &runs).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn people_approve_and_stop_runs_over_the_engine() {
    // I-12, H1: a promise that a person resolves, also after the worker was killed; a stop is an event of the run.
    let (desk, worker) = Desk::with_worker().await;
    let runs = desk.submit(world::ASKING, 3).await;
    let client = desk.server.client();
    for run in &runs {
        desk.until(run, |status| !status.waiting.is_empty()).await;
    }
    worker.kill();
    let _worker = desk.worker().await;
    assert!(desk.effects().keys().all(|line| !line.starts_with("book")));
    let waiting = client.status(&runs[0]).await.unwrap().waiting.remove(0);
    let (key, binding) = (waiting.key, Some(waiting.binding));
    let yes = RunMessage::Answer { key, answer: PersonAnswer::Approved, binding };
    assert_eq!(client.post(&runs[0], &yes).await.unwrap(), 0);
    let denied = PersonAnswer::Denied { why: "not this one".into() };
    client.post(&runs[1], &RunMessage::Answer { key, answer: denied, binding: None }).await.unwrap();
    client.post(&runs[2], &RunMessage::Stop(StopMode::Now)).await.unwrap();
    let ended = desk.wait(&runs).await;
    assert_eq!(ended[0].text, "It is booked.", "{:?}", ended[0]);
    assert_eq!((ended[2].reason.as_str(), ended[2].exit_code), ("manual_stop", 130), "{:?}", ended[2]);
    let booked = desk.effects().keys().filter(|line| line.starts_with("book")).count();
    assert_eq!(booked, 1);
    let entries = desk.entries(&runs[1]).await;
    assert!(entries.iter().any(|entry| matches!(entry.event.kind, EventKind::PersonAnswered { .. })));
    // A run that is over takes no message, and one that is not there either.
    let late = client.post(&runs[2], &RunMessage::Stop(StopMode::Now)).await.unwrap_err();
    assert!(late.to_string().contains("is over"), "{late}");
    let none = client.status(&Client::run_of_key("desk", "none")).await.unwrap_err();
    assert!(none.to_string().contains("no run"), "{none}");
}
