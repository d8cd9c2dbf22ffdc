//! One machine, four ways to drive it: awaited, by a handle, as a stream, from a queue.

use crate::common;

use common::world::{
    End, Log, Play, Stage, answer, drained, look, reported, runner, says, selections, unselected,
};
use futures::StreamExt;
use loop_runtime::{
    Outcome, Runner, StopReason, WorkItem,
    observe::RunEvent,
    run::{RunId, StopMode},
};
use serde_json::{Value, json};
use std::time::Duration;

async fn later(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// A run with everything in it: selected tools, slow and broken ones, a write, text in pieces.
fn busy() -> Runner {
    busy_with(&Log::new())
}

fn busy_with(log: &Log) -> Runner {
    let mut change = look("slow-50");
    change["action_type"] = json!("change");
    let first = answer("medium", &[look("slow-300"), look("fail"), change, look("ok-2"), look("ok-3")]);
    let pieces = first.split_inclusive('\n').map(|line| (7, line.to_owned())).collect();
    let stage = Stage::new(log)
        .on("select", [says(selections(&["ok-1", "slow-700"])).after(100)])
        .on("main", [Play { pieces, ..says("") }.after(200), says(answer("high", &[]))]);
    runner(common::spec(), log, stage)
}

async fn written(runner: &Runner, run: &RunId) -> usize {
    runner.journal().read(run).await.unwrap().entries.len()
}

/// The outcome and the journal, but for names and wall time.
async fn reported_of(runner: &Runner, outcome: &Outcome) -> (Value, String) {
    let entries = runner.journal().read(&outcome.run).await.unwrap().entries;
    let loop_core::EventKind::Started(started) = &entries[0].event.kind else { panic!("{:?}", entries[0]) };
    reported(runner, started, outcome).await
}

#[tokio::test(start_paused = true)]
async fn every_way_of_driving_leaves_the_same_journal() {
    // C2, S2-11, S1-5, S1-45
    let awaited = busy();
    let outcome = awaited.run(common::item()).await.unwrap();
    let expected = reported_of(&awaited, &outcome).await;
    assert_eq!((outcome.stop.reason(), outcome.totals.tool_calls), (StopReason::Confident, 6));
    assert!(expected.1.len() > 5_000, "it is a whole journal: {}", expected.1);

    let handled = busy();
    let mut handle = handled.run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let (_, outcome) = tokio::join!(drained(events), handle.wait());
    assert_eq!(reported_of(&handled, &outcome).await, expected, "by a handle");

    let streamed = busy();
    let mut stream = streamed.run(common::item()).stream().await.unwrap();
    while stream.next().await.is_some() {}
    let outcome = stream.outcome().unwrap().clone();
    assert_eq!(reported_of(&streamed, &outcome).await, expected, "as a stream");

    let unread = busy();
    let outcome = unread.run(common::item()).stream().await.unwrap().into_outcome().await;
    assert_eq!(reported_of(&unread, &outcome).await, expected, "as a stream that nobody reads");

    let queued = busy();
    let mut queue = std::pin::pin!(queued.run_all([common::item()], 4));
    let (n, outcome) = queue.next().await.unwrap();
    assert_eq!((n, queue.next().await.is_none()), (0, true));
    assert_eq!(reported_of(&queued, &outcome.unwrap()).await, expected, "from a queue");
}

#[tokio::test(start_paused = true)]
async fn a_stream_yields_every_entry_and_rests_after_each_commit() {
    // S1-45
    let log = Log::new();
    let runner = busy_with(&log);
    let mut stream = runner.run(common::item()).stream().await.unwrap();
    let run = stream.id().clone();
    later(1_000).await;
    assert_eq!(written(&runner, &run).await, 1, "nothing but its start before it is polled");
    let (mut entries, mut texts, mut commits) = (Vec::new(), 0, 0);
    let (mut there, mut begun) = (0, Vec::new());
    while let Some(event) = stream.next().await {
        match event {
            RunEvent::Recorded(entry) => {
                if entries.len() == there {
                    commits += 1;
                    (there, begun) = (written(&runner, &run).await, log.lines());
                }
                entries.push((*entry).clone());
                assert!(stream.outcome().is_none());
                tokio::task::yield_now().await;
                // Until the last entry of the commit was heard and the stream is polled again.
                assert_eq!(written(&runner, &run).await, there, "what is written is yielded");
                assert_eq!(log.lines(), begun, "nothing is begun");
            }
            RunEvent::Text { .. } => texts += 1,
            RunEvent::Part { .. } | RunEvent::Call { .. } => {}
            RunEvent::Lost { .. } => panic!("it was read in time"),
        }
    }
    assert_eq!(entries, runner.journal().read(&run).await.unwrap().entries);
    assert!(texts > 10, "{texts}");
    assert!((8..entries.len()).contains(&commits), "{commits} of {}", entries.len());
    assert!(stream.next().await.is_none(), "the end is the end");
    assert_eq!(stream.outcome().unwrap().stop.reason(), StopReason::Confident);
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_a_run_where_it_is_and_is_not_counted() {
    // S1-45
    let straight = busy();
    let outcome = straight.run(common::item()).await.unwrap();
    let expected = reported_of(&straight, &outcome).await;
    let runner = busy();
    let mut stream = runner.run(common::item()).stream().await.unwrap();
    let run = stream.id().clone();
    for n in 1..=2 {
        assert!(
            matches!(stream.next().await, Some(RunEvent::Recorded(_))),
            "no text comes before the third entry"
        );
        // Longer than a run may take.
        later(3_600_000).await;
        assert_eq!(written(&runner, &run).await, n);
    }
    let outcome = stream.into_outcome().await;
    assert_eq!(reported_of(&runner, &outcome).await, expected, "as if there had been no pause");
}

#[tokio::test(start_paused = true)]
async fn a_stream_can_be_stopped_and_still_ends_with_its_outcome() {
    // S0-46
    let runner = busy();
    let mut stream = runner.run(common::item()).stream().await.unwrap();
    let remote = stream.remote();
    while let Some(event) = stream.next().await {
        if matches!(event, RunEvent::Text { .. }) {
            remote.stop(StopMode::Now);
        }
    }
    assert_eq!(stream.outcome().unwrap().stop.reason(), StopReason::ManualStop);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_leaves_nothing_behind() {
    // I-14, U1
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("medium", &[look("hang"), look("slow-100")]))]);
    let runner = runner(unselected(), &log, stage);
    let mut stream = runner.run(common::item()).stream().await.unwrap();
    let run = stream.id().clone();
    let late = tokio::time::timeout(Duration::from_secs(1), async { while stream.next().await.is_some() {} });
    assert!(late.await.is_err());
    let entries = written(&runner, &run).await;
    drop(stream);
    later(1).await;
    assert_eq!(log.count("dropped look(hang)"), 1);
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    assert_eq!(written(&runner, &run).await, entries);
    // Nobody writes it any more: it can be taken up again.
    assert!(runner.journal().resume(&run).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_in_the_middle_of_a_reply_cuts_the_call_off() {
    // I-14
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says("## 🔍 Situation\n\nThe backup").ending(End::Hangs)]);
    let runner = runner(unselected(), &log, stage);
    let mut stream = runner.run(common::item()).stream().await.unwrap();
    while !matches!(stream.next().await.unwrap(), RunEvent::Text { .. }) {}
    drop(stream);
    assert_eq!(log.count("dropped model main 1"), 1);
}

fn item(n: usize) -> WorkItem {
    WorkItem { id: format!("T-{n}").into(), ..common::item() }
}

/// A loop whose n-th run takes so many milliseconds.
fn taking(log: &Log, times: &[u64]) -> Runner {
    let plays = times.iter().map(|ms| says(answer("high", &[])).after(*ms));
    runner(unselected(), log, Stage::new(log).on("main", plays))
}

#[tokio::test(start_paused = true)]
async fn a_queue_runs_so_many_at_a_time_and_yields_them_as_they_end() {
    // S1-5, I-22
    let log = Log::new();
    let runner = taking(&log, &[500, 100, 100, 100, 100]);
    let queue = runner.run_all((0..5).map(item), 2);
    let ended: Vec<(usize, u64)> = queue
        .map(|(n, outcome)| {
            assert_eq!(outcome.unwrap().stop.reason(), StopReason::Confident);
            (n, log.now())
        })
        .collect()
        .await;
    assert_eq!(ended, [(1, 100), (2, 200), (3, 300), (4, 400), (0, 500)]);
    let zero = taking(&log, &[1, 1]);
    assert_eq!(zero.run_all([item(0), item(1)], 0).count().await, 2, "0 counts as 1");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_ends_no_other_of_its_queue() {
    // S1-5
    let log = Log::new();
    // The second finds no reply any more: a failure of its own.
    let runner = taking(&log, &[100]);
    let mut reasons: Vec<(usize, StopReason)> = runner
        .run_all([item(0), item(1)], 2)
        .map(|(n, outcome)| (n, outcome.unwrap().stop.reason()))
        .collect()
        .await;
    reasons.sort_by_key(|(n, _)| *n);
    assert_eq!(reasons, [(0, StopReason::Confident), (1, StopReason::ModelFailure)]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_holds_its_producer_back_and_takes_items_as_they_come() {
    // S1-5
    let log = Log::new();
    let runner = taking(&log, &[100; 6]);
    let (inbox, mut items) = tokio::sync::mpsc::channel(1);
    let items = futures::stream::poll_fn(move |context| items.poll_recv(context));
    let producer = tokio::spawn({
        let log = log.clone();
        async move {
            for n in 0..6 {
                inbox.send(item(n)).await.unwrap();
                log.say(format!("sent {n}"));
            }
        }
    });
    let ended: Vec<usize> = runner.queue(items, 2).map(|(n, _)| n).collect().await;
    producer.await.unwrap();
    assert_eq!(ended, [0, 1, 2, 3, 4, 5]);
    assert_eq!(log.now(), 300);
    assert!(log.at("sent 5") >= 100, "not before there was room: {:?}", log.lines());
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_dropped_leaves_nothing_behind() {
    // I-14
    let log = Log::new();
    let runner = taking(&log, &[100, 10_000, 10_000]);
    let mut queue = Box::pin(runner.run_all((0..3).map(item), 2));
    assert_eq!(queue.next().await.unwrap().0, 0);
    drop(queue);
    later(1).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    assert_eq!(runner.journal().runs().await.unwrap().len(), 2, "the third never began");
}
