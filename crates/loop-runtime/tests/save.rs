//! Saving: on every way out, whole or not at all, and never outside the folder.

use crate::common;

use common::world::{End, Log, Stage, Watched, answer, look, refuses, runner, says, unselected};
use loop_core::run::SaveState;
use loop_core::types::FailureKind;
use loop_runtime::{
    Outcome, Runner, StopReason, WorkItem,
    observe::RunEvent,
    run::StopMode,
    save::{SaveError, SaveTarget, Saver},
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn saving(folder: &Path, name: &str, log: &Log, stage: Stage) -> Runner {
    runner(unselected(), log, stage).with_saver(Arc::new(SaveTarget::File(folder.join(name))))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[track_caller]
fn is_saved(outcome: &Outcome, path: &Path) -> Value {
    assert_eq!(outcome.saved, Some(SaveState::At { location: path.display().to_string().into() }));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(report["stop"]["reason"], outcome.stop.reason().name());
    assert_eq!(report["run"], outcome.run.as_str());
    report
}

#[tokio::test]
async fn the_outcome_is_saved_on_every_way_out() {
    // S0-130, U7
    let half = "## 🔍 Situation\n\nThe backup failed.\n\n## 📋 Findings\n\nIt is bec";
    type Plays = fn() -> common::world::Play;
    let ways: [(Plays, StopReason); 4] = [
        (|| says(answer("high", &[])), StopReason::Confident),
        (|| says(answer("medium", &[])), StopReason::NoNewActions),
        (|| refuses(FailureKind::Auth), StopReason::ModelFailure),
        (
            || {
                says("## 🔍 Situation\n\nThe backup failed.\n\n## 📋 Findings\n\nIt is bec")
                    .ending(End::Stops)
            },
            StopReason::ModelFailure,
        ),
    ];
    for (play, reason) in ways {
        let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
        let stage = Stage::new(&log).on("main", [play()]);
        let outcome = saving(folder.path(), "{item}.json", &log, stage).run(common::item()).await.unwrap();
        assert_eq!(outcome.stop.reason(), reason);
        is_saved(&outcome, &folder.path().join("T-1.json"));
        assert_eq!(files(folder.path()).len(), 1, "nothing else is left behind");
    }

    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let stage = Stage::new(&log).on("main", [says(half).ending(End::Hangs)]);
    let mut handle =
        saving(folder.path(), "{run}.json", &log, stage).run(common::item()).start().await.unwrap();
    let run = handle.id().to_string();
    let (mut events, mut received) = (handle.events().unwrap(), String::new());
    while received != half {
        if let Some(RunEvent::Text { text, .. }) = events.recv().await {
            received.push_str(&text);
        }
    }
    handle.remote().stop(StopMode::Now);
    let outcome = handle.wait().await;
    assert_eq!(outcome.stop.reason(), StopReason::ManualStop);
    let report = is_saved(&outcome, &folder.path().join(format!("{run}.json")));
    assert_eq!(report["document"]["sections"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_item_with_a_hostile_id_stays_in_the_folder() {
    // K10: an id comes from outside.
    let hostile = [
        "../../x",
        "..",
        "/etc/passwd",
        "a/b",
        "C:\\x",
        ".hidden",
        "a\0b",
        "..\\..\\x",
        "",
        "   ",
        "\u{202e}x",
    ];
    for id in hostile {
        let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
        let inner = folder.path().join("inner");
        let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
        let item = WorkItem { id: id.into(), ..common::item() };
        let outcome = saving(&inner, "{item}.json", &log, stage).run(item).await.unwrap();
        let found = files(&inner);
        assert_eq!(found.len(), 1, "{id:?}: {found:?}");
        assert_eq!(files(folder.path()), [inner.as_path()], "{id:?}");
        is_saved(&outcome, &found[0]);
    }
}

#[tokio::test]
async fn a_hostile_id_that_is_a_folder_of_its_own_stays_in_the_folder() {
    // K10
    for id in ["..", "../..", "."] {
        let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
        let inner = folder.path().join("inner");
        let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
        let item = WorkItem { id: id.into(), ..common::item() };
        saving(&inner, "{item}/report.json", &log, stage).run(item).await.unwrap();
        assert_eq!(files(folder.path()), [inner.as_path()], "{id:?}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_told_and_changes_no_reason() {
    // U7, H6
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    std::fs::write(folder.path().join("file"), "in the way").unwrap();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
    let outcome = saving(folder.path(), "file/{item}.json", &log, stage).run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let Some(SaveState::Not { message }) = &outcome.saved else { panic!("{:?}", outcome.saved) };
    assert!(message.contains("file/T-1.json"), "{message}");
    let found = std::fs::read_to_string(folder.path().join("file")).unwrap();
    assert_eq!((found.as_str(), files(folder.path()).len()), ("in the way", 1));
}

#[tokio::test]
async fn what_cannot_be_put_in_place_leaves_what_was_there_and_no_part_of_itself() {
    // U7
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    std::fs::create_dir_all(folder.path().join("T-1.json/occupied")).unwrap();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
    let outcome = saving(folder.path(), "{item}.json", &log, stage).run(common::item()).await.unwrap();
    assert!(matches!(outcome.saved, Some(SaveState::Not { .. })));
    assert_eq!(files(folder.path()), [folder.path().join("T-1.json")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_that_save_to_one_place_leave_one_whole_report() {
    // U7: a reader sees one or the other, never a part.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.json");
    let runs = (0..32).map(|_| {
        let log = Log::new();
        let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
        let runner = saving(folder.path(), "last.json", &log, stage);
        tokio::spawn(async move { runner.run(common::item()).await.unwrap() })
    });
    for run in futures::future::join_all(runs.collect::<Vec<_>>()).await {
        assert!(matches!(run.unwrap().saved, Some(SaveState::At { .. })));
        serde_json::from_str::<Value>(&std::fs::read_to_string(&path).unwrap()).unwrap();
    }
    assert_eq!(files(folder.path()), [path]);
}

/// What a saver of someone else's may do.
#[derive(Debug)]
enum Rude {
    Panics,
    Hangs,
}

#[async_trait::async_trait]
impl Saver for Rude {
    async fn save(&self, _: &loop_core::run::Started, _: &Outcome) -> Result<Arc<str>, SaveError> {
        let panics = matches!(self, Self::Panics);
        assert!(!panics, "no");
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_saver_that_panics_or_hangs_costs_the_outcome_nothing() {
    // U7
    for (rude, message) in [(Rude::Panics, "saving panicked"), (Rude::Hangs, "not saved after 30 s")] {
        let log = Log::new();
        let stage =
            Stage::new(&log).on("main", [says(answer("medium", &[look("ok-1")])), says(answer("high", &[]))]);
        let runner = runner(unselected(), &log, stage).with_saver(Arc::new(rude));
        let outcome = runner.run(common::item()).await.unwrap();
        assert_eq!(outcome.stop.reason(), StopReason::Confident);
        assert_eq!(outcome.saved, Some(SaveState::Not { message: message.into() }));
    }
}

/// Takes its time, then fails with the advice to try again.
#[derive(Debug)]
struct Slow {
    takes_ms: u64,
    retry_ms: u64,
    log: Log,
}

#[async_trait::async_trait]
impl Saver for Slow {
    async fn save(&self, _: &loop_core::run::Started, _: &Outcome) -> Result<Arc<str>, SaveError> {
        self.log.say("save");
        tokio::time::sleep(Duration::from_millis(self.takes_ms)).await;
        self.log.say("ended");
        Err(SaveError { message: "busy".into(), retry: Some(Duration::from_millis(self.retry_ms)) })
    }
}

#[tokio::test(start_paused = true)]
async fn all_tries_to_save_share_one_limit() {
    // W6
    let saved = async |takes_ms: u64, retry_ms: u64| {
        let log = Log::new();
        let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
        let saver = Slow { takes_ms, retry_ms, log: log.clone() };
        let runner = runner(unselected(), &log, stage).with_saver(Arc::new(saver));
        let began = tokio::time::Instant::now();
        let outcome = runner.with_save_limit(Duration::from_secs(1)).run(common::item()).await.unwrap();
        assert_eq!(outcome.stop.reason(), StopReason::Confident);
        let Some(SaveState::Not { message }) = outcome.saved else { panic!("{:?}", outcome.saved) };
        (message.to_string(), log.count("save"), log.count("ended"), began.elapsed().as_millis())
    };
    // The second try is cut off at what the first has left.
    assert_eq!(saved(600, 100).await, ("not saved after 1 s".to_owned(), 2, 1, 1_000));
    // A wait that is longer than what is left is not waited for.
    let late = "busy; not tried again, since saving may take 1 s in all";
    assert_eq!(saved(600, 400).await, (late.to_owned(), 1, 1, 600));
    assert_eq!(saved(1_200, 0).await, ("not saved after 1 s".to_owned(), 1, 0, 1_000));
}

/// Runs to the saving, asks for these stops at these instants, and gives the outcome, the instant at which it was
/// there, and how many tries were begun and ended.
async fn stopped(saver: (u64, u64), stops: &[(u64, StopMode)]) -> (Outcome, u64, [usize; 2]) {
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
    let saver = Slow { takes_ms: saver.0, retry_ms: saver.1, log: log.clone() };
    let runner = runner(unselected(), &log, stage).with_saver(Arc::new(saver));
    let handle = runner.run(common::item()).start().await.unwrap();
    let (remote, run) = (handle.remote(), handle.id().clone());
    let ended = tokio::spawn(handle.wait());
    for (at, how) in stops {
        tokio::time::sleep(Duration::from_millis(at - log.now())).await;
        remote.stop(*how);
    }
    let outcome = ended.await.unwrap();
    let at = log.now();
    assert_eq!(outcome.stop.reason(), StopReason::Confident, "the reason was fixed before");
    let recorded = runner.journal().read(&run).await.unwrap();
    let state = loop_runtime::journal::replay(&run, &recorded).unwrap();
    assert_eq!(state.outcome(), Some(&outcome), "it is written down so");
    (outcome, at, [log.count("save"), log.count("ended")])
}

fn not_saved(message: &str) -> Option<SaveState> {
    Some(SaveState::Not { message: message.into() })
}

#[tokio::test(start_paused = true)]
async fn saving_is_stopped_at_once_by_a_stop_now_or_by_a_second_stop() {
    // U7, S0-46
    use StopMode::{AtGate, Now};
    let stopped_before = not_saved("stopped before it was saved");
    let hangs = (40_000, 500);
    let (outcome, at, tries) = stopped(hangs, &[(20, Now)]).await;
    assert_eq!((outcome.saved, at, tries), (stopped_before.clone(), 20, [1, 0]));
    let (outcome, at, tries) = stopped(hangs, &[(20, AtGate), (50, AtGate)]).await;
    assert_eq!((outcome.saved, at, tries), (stopped_before.clone(), 50, [1, 0]));

    // While the next try has to wait.
    for how in [AtGate, Now] {
        let (outcome, at, tries) = stopped((100, 20_000), &[(150, how)]).await;
        assert_eq!((outcome.saved, at, tries), (stopped_before.clone(), 150, [1, 1]));
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_first_stop_the_try_in_flight_is_the_last() {
    // U7, S0-46
    let (outcome, at, tries) = stopped((100, 500), &[(20, StopMode::AtGate)]).await;
    assert_eq!(outcome.saved, not_saved("busy; stopped before it was saved"));
    assert_eq!((at, tries), (100, [1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_was_meant_for_the_run_does_not_stop_its_saving() {
    // S0-130
    let log = Log::new();
    let mut spec = unselected();
    spec.limits.passes = 0;
    let saver = Slow { takes_ms: 100, retry_ms: 500, log: log.clone() };
    let runner = runner(spec, &log, Stage::new(&log)).with_saver(Arc::new(saver));
    let handle = runner.run(common::item()).start().await.unwrap();
    handle.stop(StopMode::Now);
    handle.stop(StopMode::Now);
    let outcome = handle.wait().await;
    assert_eq!((outcome.saved, log.count("ended")), (not_saved("busy"), 3));
}

#[tokio::test(start_paused = true)]
async fn saving_can_be_stopped_where_the_journal_has_failed() {
    // U7
    let log = Log::new();
    let stage = Stage::new(&log).on("main", [says(answer("high", &[]))]);
    let journal = Arc::new(Watched::new(&log).failing_at(2));
    let runner = runner(unselected(), &log, stage).with_journal(journal).with_saver(Arc::new(Rude::Hangs));
    let handle = runner.run(common::item()).start().await.unwrap();
    let remote = handle.remote();
    let ended = tokio::spawn(handle.wait());
    tokio::time::sleep(Duration::from_millis(500)).await;
    remote.stop(StopMode::Now);
    let outcome = ended.await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::StorageFailed);
    // Ten milliseconds are those of the first entry, which is written before the start returns.
    assert_eq!((outcome.saved, log.now()), (not_saved("stopped before it was saved"), 510));
}
