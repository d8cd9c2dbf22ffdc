//! Observers see everything and change nothing.

use crate::common;

use common::world::{Log, Play, Stage, answer, drained, look, reported, runner, says, selections};
use loop_runtime::{
    Runner,
    observe::{Observed, RunEvent},
    run::{Handle, RunId},
};
use std::sync::Arc;

fn stage(log: &Log) -> Stage {
    Stage::new(log)
        .on("select", [says(selections(&["ok-1", "slow-700"])).after(100)])
        .on("main", [says(answer("medium", &[look("slow-300")])).after(200), says(answer("high", &[]))])
}

fn runner_of(log: &Log) -> Runner {
    runner(common::spec(), log, stage(log))
}

async fn begun() -> (Runner, Handle) {
    let runner = runner_of(&Log::new());
    let handle = runner.run(common::item()).start().await.unwrap();
    (runner, handle)
}

#[tokio::test(start_paused = true)]
async fn a_run_is_the_same_whoever_watches_it() {
    // I-30, U8
    let (runner, mut handle) = begun().await;
    let started = handle.started().clone();
    let events = handle.events().unwrap();
    let (_, outcome) = tokio::join!(drained(events), handle.wait());
    let watched = reported(&runner, &started, &outcome).await;

    // Nobody takes the queue.
    let (runner, handle) = begun().await;
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    assert_eq!(reported(&runner, &started, &outcome).await, watched);

    // It is taken and dropped at once.
    let (runner, mut handle) = begun().await;
    let started = handle.started().clone();
    drop(handle.events());
    let outcome = handle.wait().await;
    assert_eq!(reported(&runner, &started, &outcome).await, watched);

    // It is dropped in the middle of things.
    let (runner, mut handle) = begun().await;
    let started = handle.started().clone();
    let mut events = handle.events().unwrap();
    for _ in 0..4 {
        events.recv().await.unwrap();
    }
    drop(events);
    let outcome = handle.wait().await;
    assert_eq!(reported(&runner, &started, &outcome).await, watched);

    // It is kept and never read.
    let (runner, mut handle) = begun().await;
    let started = handle.started().clone();
    let events = handle.events().unwrap();
    let outcome = handle.wait().await;
    assert_eq!(reported(&runner, &started, &outcome).await, watched);
    assert!(!drained(events).await.is_empty(), "everything is there for whoever reads late");
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_every_entry_from_the_first_on_and_the_end_of_the_queue() {
    // S0-18, I-30
    let (runner, mut handle) = begun().await;
    // Late, but before anyone waits: nothing is missing.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let events = handle.events().unwrap();
    assert!(handle.events().is_none(), "it can be taken once");
    let (seen, outcome) = tokio::join!(drained(events), handle.wait());
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let entries: Vec<_> = seen
        .into_iter()
        .filter_map(|event| match event {
            RunEvent::Recorded(entry) => Some((*entry).clone()),
            RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Call { .. } => None,
            RunEvent::Lost { .. } => panic!("it was read in time"),
        })
        .collect();
    assert_eq!(entries, recorded.entries);
}

/// One that plays a whole reply in so many pieces.
fn wordy(log: &Log, pieces: usize) -> Stage {
    let text = answer("medium", &[look("slow-300")]);
    let mut parts: Vec<(u64, String)> = (0..pieces).map(|_| (0, "-".to_owned())).collect();
    parts.push((0, format!("\n{text}")));
    Stage::new(log)
        .on("select", [says(selections(&["ok-1"]))])
        .on("main", [Play { pieces: parts, ..says("") }, says(answer("high", &[]))])
}

#[tokio::test(start_paused = true)]
async fn who_falls_behind_misses_text_first_and_is_told_how_much() {
    // U8
    let log = Log::new();
    let pieces = 10_000;
    let runner = runner(common::spec(), &log, wordy(&log, pieces));
    let mut handle = runner.run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    let outcome = handle.wait().await;
    let seen = drained(events).await;
    assert!(seen.len() < 4_100, "{}", seen.len());
    let (mut received, mut lost, mut entries) = (0, 0, Vec::new());
    for event in &seen {
        match event {
            RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Call { .. } => received += 1,
            RunEvent::Lost { texts, entries: 0 } => {
                lost += texts;
                assert!(received > 0 && entries.len() > 3, "it stands where the gap is");
            }
            RunEvent::Lost { .. } => panic!("entries were left out"),
            RunEvent::Recorded(entry) => entries.push((**entry).clone()),
        }
    }
    // The selector's reply and both main ones.
    assert_eq!((received + lost, lost > 7_000), (pieces as u64 + 3, true));
    assert_eq!(entries, runner.journal().read(&outcome.run).await.unwrap().entries, "no entry is missing");
}

#[tokio::test(start_paused = true)]
async fn text_that_nobody_reads_takes_a_bounded_room() {
    // U8
    let log = Log::new();
    let long = Play { pieces: vec![(0, "x".repeat(100_000)); 30], ..says("") };
    let stage = Stage::new(&log).on("select", [says("[]")]).on("main", [long]);
    // A call that may write as much: a smaller one is cut before.
    let mut spec = common::spec();
    (spec.limits.output_tokens, spec.limits.cost) = (1_000_000, None);
    (spec.models.base.max_output_tokens, spec.models.base.context_tokens) = (1_000_000, 10_000_000);
    let runner = runner(spec, &log, stage);
    let mut handle = runner.run(common::item()).start().await.unwrap();
    let events = handle.events().unwrap();
    handle.wait().await;
    let bytes = |event: &RunEvent| if let RunEvent::Text { text, .. } = event { text.len() } else { 0 };
    let kept: usize = drained(events).await.iter().map(bytes).sum();
    assert!((900_000..=1 << 20).contains(&kept), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_changes_nothing_and_is_counted() {
    // S2-48, U8
    let (runner, handle) = begun().await;
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    let unwatched = reported(&runner, &started, &outcome).await;

    let (sender, received) = std::sync::mpsc::channel();
    let log = Log::new();
    let runner = runner_of(&log).with_observer(Arc::new(move |run: &RunId, event: &RunEvent| {
        sender.send((run.clone(), event.clone())).unwrap();
        panic!("it went to pieces");
    }));
    let handle = runner.run(common::item()).start().await.unwrap();
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    assert_eq!(reported(&runner, &started, &outcome).await, unwatched);
    runner.observers_caught_up().await;
    let received: Vec<_> = received.try_iter().collect();
    let counts = Observed { received: received.len() as u64, lost: 0, panics: received.len() as u64 };
    assert_eq!(runner.observed(), [counts]);
    let entries = received.into_iter().filter_map(|(run, event)| match event {
        RunEvent::Recorded(entry) if run == outcome.run => Some((*entry).clone()),
        _ => None,
    });
    let recorded = runner.journal().read(&outcome.run).await.unwrap().entries;
    assert_eq!(entries.collect::<Vec<_>>(), recorded, "it is called again with every event");
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_never_returns_holds_nothing_up() {
    // S2-48, U8
    let (runner, handle) = begun().await;
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    let unwatched = reported(&runner, &started, &outcome).await;

    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let (sender, others) = std::sync::mpsc::channel();
    let log = Log::new();
    let runner = runner_of(&log)
        .with_observer(Arc::new(move |_: &RunId, _: &RunEvent| {
            blocked.lock().unwrap().recv().ok();
        }))
        .with_observer(Arc::new(move |_: &RunId, event: &RunEvent| sender.send(event.clone()).unwrap()));
    let handle = runner.run(common::item()).start().await.unwrap();
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    assert_eq!(reported(&runner, &started, &outcome).await, unwatched);
    assert_eq!(runner.observed()[0], Observed::default(), "it is still in its first call");
    let all = others.iter().take_while(|event| !is_last(event)).count();
    assert!(all > 10, "another one hears everything meanwhile: {all}");
    drop(release);
    runner.observers_caught_up().await;
    let [slow, quick] = runner.observed()[..] else { panic!("{:?}", runner.observed()) };
    assert_eq!((slow, slow.received), (quick, all as u64 + 1), "nothing was lost that had room");
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_is_too_slow_is_told_what_it_missed() {
    // U8
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let (sender, received) = std::sync::mpsc::channel();
    let log = Log::new();
    let runner = runner(common::spec(), &log, wordy(&log, 10_000)).with_observer(Arc::new(
        move |_: &RunId, event: &RunEvent| {
            blocked.lock().unwrap().recv().ok();
            sender.send(event.clone()).unwrap();
        },
    ));
    runner.run(common::item()).await.unwrap();
    drop(release);
    runner.observers_caught_up().await;
    let reported: u64 = received
        .try_iter()
        .map(|event| if let RunEvent::Lost { texts, .. } = event { texts } else { 0 })
        .sum();
    let [observed] = runner.observed()[..] else { panic!("{:?}", runner.observed()) };
    assert_eq!((reported, reported > 7_000, observed.panics), (observed.lost, true, 0));
}

fn is_last(event: &RunEvent) -> bool {
    matches!(event, RunEvent::Recorded(entry) if entry.notes.iter().any(|note| matches!(note, loop_core::Note::Stopped { .. })))
}

/// A log of everything, run by run.
async fn written(runner: &Runner, run: &RunId) -> String {
    serde_json::to_string(&runner.journal().read(run).await.unwrap().entries).unwrap()
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_loop_do_not_mix() {
    // I-22, I-29
    let log = Log::new();
    let stages = Stage::new(&log)
        .on("select", (0..20).map(|_| says("[]")))
        .on("main", (0..20).map(|_| says(answer("high", &[])).after(100)));
    let runner = runner(common::spec(), &log, stages);
    let item = |n: usize| loop_runtime::WorkItem {
        id: format!("T-{n}").into(),
        title: format!("title-of-{n}.").into(),
        full: format!("text-of-{n}.").into(),
        ..common::item()
    };
    let mut handles = Vec::new();
    for n in 0..20 {
        handles.push(runner.run(item(n)).start().await.unwrap());
    }
    let mut nonces = std::collections::BTreeSet::new();
    for (n, handle) in handles.into_iter().enumerate() {
        let (run, started) = (handle.id().clone(), handle.started().clone());
        assert!(nonces.insert(started.nonce.clone()), "each has a nonce of its own");
        let outcome = handle.wait().await;
        assert_eq!((&outcome.run, outcome.document.sections.len()), (&run, 3));
        assert_eq!(outcome.totals.model_calls, 2, "its own calls and no others");
        let text = written(&runner, &run).await;
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
