//! Large values by reference to a store of blobs: the same entries as inline, and a store that loses or changes a blob.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use loop_core::run::PersonAnswer;
use loop_restate::blobs::BlobStore;
use loop_restate::client::InvocationState;
use loop_restate::sweep::{BlobNeed, OldBlobs};
use loop_restate::{Client, ClientError};
use loop_runtime::engine::RunMessage;
use loop_runtime::run::RunId;

use crate::harness::bucket::{Blobs, Bucket, files};
use crate::harness::checks::plain;
use crate::harness::desk::patiently;
use crate::harness::worker::register;
use crate::harness::{Desk, namespace, world};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn large_values_travel_by_reference_and_their_blobs_go_with_the_run() {
    // I-12: the same entries with a store and without one; nothing of a run stays in the store after its end.
    if !namespace::is_inside("blobs::large_values_travel_by_reference_and_their_blobs_go_with_the_run") {
        return;
    }
    let count = 3;
    let bucket = Bucket::start().await;
    let mut bytes = Vec::new();
    let mut entries = Vec::new();
    for store in ["none", "a folder", "a bucket"] {
        let mut desk = Desk::start().await;
        let folder = desk.folder.path().join("blobs");
        desk.blobs = match store {
            "none" => None,
            "a folder" => Some(Blobs::folder(&folder)),
            _ => Some(bucket.blobs()),
        };
        let held = async || files(&folder).len() + bucket.count().await;
        let worker = desk.worker().await;
        register(&desk.server.admin(), desk.port).await;
        let runs = desk.submit_crowd(world::LARGE, count).await;
        let opens = asked(&desk, &runs).await;
        // All wait, so their blobs are all there, and a worker that begins now has nothing in its memory.
        let blobs = held().await;
        assert_eq!(blobs > 0, store != "none");
        worker.kill();
        let _worker = desk.worker().await;
        approve(&desk.server.client(), &runs, opens).await;
        let ended = desk.wait_crowd(&runs).await;
        assert!(ended.iter().all(|ended| ended.text == "It is booked."), "{ended:?}");
        bytes.push(journal_bytes(&desk).await / runs.len());
        let mut of_all = Vec::new();
        for run in &runs {
            of_all.push(plain(&desk.entries(run).await));
        }
        entries.push(of_all);
        patiently("the blobs of ended runs are deleted", async || (held().await == 0).then_some(())).await;
        let last = bytes.last().unwrap();
        println!(
            "store: {store}: {last} bytes a run in the engine, {} blobs a run as it waits",
            blobs / runs.len()
        );
    }
    assert!(entries[0] == entries[1] && entries[0] == entries[2], "the entries differ");
    assert!(bytes[1] * 4 < bytes[0] && bytes[2] * 4 < bytes[0], "{bytes:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn a_blob_that_is_missing_or_damaged_holds_the_run_until_it_is_back() {
    // I-12: an error that says what to do, and the same end as without it.
    if !namespace::is_inside("blobs::a_blob_that_is_missing_or_damaged_holds_the_run_until_it_is_back") {
        return;
    }
    let mut desk = Desk::start().await;
    let store = desk.folder.path().join("blobs");
    desk.blobs = Some(Blobs::folder(&store));
    let worker = desk.worker().await;
    register(&desk.server.admin(), desk.port).await;
    let runs = desk.submit_crowd(world::LARGE, 1).await;
    let opens = asked(&desk, &runs).await;
    worker.kill();
    let contents: Vec<(PathBuf, Vec<u8>)> =
        files(&store).into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect();
    for (file, _) in &contents {
        std::fs::remove_file(file).unwrap();
    }
    let _worker = desk.worker().await;
    approve(&desk.server.client(), &runs, opens).await;
    failure_says(&desk, "the blob is missing").await;
    for (file, content) in &contents {
        std::fs::write(file, &content[1..]).unwrap();
    }
    failure_says(&desk, "the blob is damaged").await;
    for (file, content) in &contents {
        std::fs::write(file, content).unwrap();
    }
    let ended = desk.wait_crowd(&runs).await;
    assert_eq!((ended[0].text.as_str(), ended[0].exit_code), ("It is booked.", 0), "{ended:?}");
    assert!(desk.effects().values().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the Restate server: cargo xtask servers restate"]
async fn the_blobs_of_a_run_that_was_killed_are_swept_and_no_others() {
    // K16: what is said to a run that was killed does not vanish, and nothing of a run that is under way is deleted.
    if !namespace::is_inside("blobs::the_blobs_of_a_run_that_was_killed_are_swept_and_no_others") {
        return;
    }
    let mut desk = Desk::start().await;
    let folder = desk.folder.path().join("blobs");
    desk.blobs = Some(Blobs::folder(&folder));
    let _worker = desk.worker().await;
    register(&desk.server.admin(), desk.port).await;
    let runs = desk.submit_crowd(world::LARGE, 2).await;
    let mut opens = asked(&desk, &runs).await;
    let client = desk.server.client();
    let of_run = format!(
        "select id from sys_invocation where target_service_key = '{}' and target_handler_name = 'run'",
        runs[0]
    );
    let id = desk.server.rows(&of_run).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(client.state(&runs[0]).await.unwrap(), InvocationState::Open);
    assert!(desk.server.kill_invocation(&id).await);
    patiently("it is killed", async || {
        matches!(client.state(&runs[0]).await, Ok(InvocationState::Killed { .. })).then_some(())
    })
    .await;
    let open = opens.remove(0);
    let yes =
        RunMessage::Answer { key: open.key, answer: PersonAnswer::Approved, binding: Some(open.binding) };
    let refused = client.post(&runs[0], &yes).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Killed { run, .. } if *run == runs[0]), "{refused}");

    let store = BlobStore::open(&format!("file://{}", folder.display())).await.unwrap();
    let stranger = store.put("00000000-1111-2222-3333-444444444444\nx").await.unwrap();
    let other = store.put("of no run").await.unwrap();
    let journal = desk.journal();
    let young = OldBlobs::find(&store, &client, &journal, Duration::from_secs(3_600), 100).await.unwrap();
    assert_eq!(young, OldBlobs::default());
    let found = OldBlobs::find(&store, &client, &journal, Duration::ZERO, 100).await.unwrap();
    assert_eq!((found.others, found.is_cut), (1, false));
    let need = |run: &RunId| found.runs.iter().find(|of| of.run == *run).unwrap().need;
    assert_eq!((need(&runs[0]), need(&runs[1])), (BlobNeed::Over, BlobNeed::Open));
    assert_eq!(need(&RunId::new("00000000-1111-2222-3333-444444444444")), BlobNeed::Unknown);
    assert!(OldBlobs::find(&store, &client, &journal, Duration::ZERO, 1).await.unwrap().is_cut);
    let gone = found.runs.iter().find(|of| of.run == runs[0]).unwrap();
    let (count, bytes) = gone.delete(&store, Duration::ZERO).await.unwrap();
    assert_eq!((count, bytes), (gone.blobs.len() as u64, gone.bytes));
    assert_eq!(gone.delete(&store, Duration::ZERO).await.unwrap(), (0, 0), "they are gone");
    // The other run has all of its own.
    approve(&client, &runs[1..], opens).await;
    let ended = desk.wait_crowd(&runs[1..]).await;
    assert_eq!(ended[0].text, "It is booked.", "{ended:?}");
    patiently("only what is of no run is left", async || (files(&folder).len() == 2).then_some(())).await;
    assert!(store.get(stranger).await.is_ok() && store.get(other).await.is_ok());
}

/// Waits until each run asks a person. What each asks.
async fn asked(desk: &Desk, runs: &[RunId]) -> Vec<loop_restate::wire::OpenRequest> {
    let mut opens = Vec::new();
    for run in runs {
        opens.push(desk.until(run, |status| !status.waiting.is_empty()).await.waiting.remove(0));
    }
    opens
}

async fn approve(client: &Client, runs: &[RunId], opens: Vec<loop_restate::wire::OpenRequest>) {
    let answers = futures::stream::iter(runs.iter().zip(opens)).map(|(run, open)| async move {
        let (key, binding) = (open.key, Some(open.binding));
        let yes = RunMessage::Answer { key, answer: PersonAnswer::Approved, binding };
        // A run that is held reads it later.
        match client.post(run, &yes).await {
            Ok(_) | Err(ClientError::NotRead { .. }) => {}
            Err(refused) => panic!("{refused}"),
        }
    });
    answers.buffered(64).collect::<Vec<_>>().await;
}

/// Waits until an invocation has failed for the moment, and the engine says so.
async fn failure_says(desk: &Desk, text: &str) {
    let query = "select last_failure from sys_invocation where last_failure is not null";
    patiently("an error is reported", async || {
        let rows = desk.server.rows(query).await;
        rows.iter().any(|row| row.to_string().contains(text)).then_some(())
    })
    .await;
}

/// Bytes of all journals in the engine.
async fn journal_bytes(desk: &Desk) -> usize {
    let rows = desk.server.rows("select sum(raw_length) as bytes from sys_journal").await;
    usize::try_from(rows[0]["bytes"].as_u64().unwrap()).unwrap()
}
