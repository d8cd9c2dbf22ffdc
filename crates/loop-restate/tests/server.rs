//! Runs on a real server: the journal of one machine, kills of workers and of the server, people, stops.

mod conform;

use loop_core::EventKind;
use loop_core::run::{PersonAnswer, StopMode};
use loop_core::types::{Approver, Digest};
use loop_restate::wire::EngineSubmission;
use loop_restate::{Client, ClientError};
use loop_runtime::engine::RunMessage;
use loop_runtime::journal::{Journal as _, replay};

use crate::harness::checks::{intact, plain};
use crate::harness::{Desk, world};

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
    let ended = desk.wait(&runs).await;
    println!("{}", intact(&desk, world::DESK, &runs, &ended).await);
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
    let ended = desk.wait(&runs).await;
    println!("{}", intact(&desk, world::DESK, &runs, &ended).await);
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
    // What does not count is told to the person who said it, and changes nothing.
    let other =
        RunMessage::Answer { key, answer: PersonAnswer::Approved, binding: Some(Digest::of("other", b"")) };
    let not_judged = RunMessage::Approve {
        key: "9/action-0".parse().unwrap(),
        by: Approver { account: "token ana".into(), user: "".into(), claim: None },
        binding: waiting.binding,
    };
    let withdrawn = RunMessage::WithdrawStop;
    for (message, why) in
        [(other, "something else"), (not_judged, "no such action"), (withdrawn, "not asked to stop")]
    {
        let refused = client.post(&runs[0], &message).await.unwrap_err();
        let is_it = matches!(&refused, ClientError::NotTaken { run, .. } if *run == runs[0]);
        assert!(is_it && refused.to_string().contains(why), "{refused}");
    }
    let posted = client.post(&runs[0], &yes).await.unwrap();
    assert_eq!((posted.number, posted.is_kept), (3, false));
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
