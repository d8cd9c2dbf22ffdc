//! What a process that ends or fails leaves, and how the next one continues it.

use std::time::Duration;

use loop_core::run::StopMode;
use loop_runtime::Runner;
use loop_runtime::journal::queue::{QueueBounds, Submission, SubmissionState};
use loop_runtime::journal::{Journal as _, StoredJournal};
use loop_server::engine::{EngineError, EngineLimits, PersonDecision, RunFilter, RunState};

use super::{ended, process, until};
use crate::bench::{ASKS, Bench, Gate, LONG, WRITES, asks, limits};

#[tokio::test]
async fn a_message_of_a_hook_that_failed_is_delivered_once_it_is_due_again() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("other", "");
    let engine = bench.engine_of(&["other"], &gate, limits()).await;
    let submitted = engine.submit(asks(ASKS)).await.unwrap();
    ended(&engine, &submitted).await;
    let left = engine.journal().outbox().await.unwrap();
    assert_eq!((left.len(), left[0].failures), (1, 1));
    gate.takes.store(true, std::sync::atomic::Ordering::Relaxed);
    // The pause is over.
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    assert_eq!(other.execute("UPDATE outbox SET next_ms = 1", []).unwrap(), 1);
    until(async || engine.journal().outbox().await.unwrap().is_empty()).await;
}

#[tokio::test]
async fn a_run_whose_driver_cannot_write_the_journal_is_interrupted_and_two_requests_resume_it_once() {
    // I-25
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let submitted = engine.submit(asks(ASKS)).await.unwrap();
    until(async || engine.view(&submitted.run).await.unwrap().entries > 0).await;
    until(async || {
        let queued = engine.journal().submission(&submitted.run).await.unwrap().unwrap();
        queued.state == SubmissionState::Begun
    })
    .await;
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    let fails = "CREATE TRIGGER fails BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'it is full'); END";
    other.execute_batch(fails).unwrap();
    gate.calls.add_permits(1);
    engine.wait(&submitted.run, LONG).await;
    other.execute_batch("DROP TRIGGER fails").unwrap();
    let view = engine.view(&submitted.run).await.unwrap();
    assert_eq!(view.state, RunState::Interrupted, "{view:?}");
    let row = engine.journal().submission(&submitted.run).await.unwrap().unwrap();
    assert_eq!(row.state, SubmissionState::Begun, "the next start resumes it");
    // The second finds that it is under way: it neither drives it nor takes it from the first.
    let (one, two) = tokio::join!(engine.resume(&submitted.run), engine.resume(&submitted.run));
    one.and(two).unwrap();
    for _ in 0..200 {
        let live = engine.live(&submitted.run).unwrap();
        assert_eq!(live.phase(), loop_server::engine::RunPhase::Running);
        // Another look at the journal lets its driver act.
        engine.view(&submitted.run).await.unwrap();
    }
    gate.calls.add_permits(1_000);
    assert_eq!(ended(&engine, &submitted).await.class.as_deref(), Some("answered"));
}

#[test]
fn the_next_start_continues_what_is_queued_what_was_under_way_and_what_waits() {
    let bench = Bench::new();
    let accepted = process(async || {
        let gate = Gate::open();
        let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
        let waiting = engine.submit(asks(WRITES)).await.unwrap();
        engine.wait(&waiting.run, LONG).await;
        // The next calls wait.
        gate.calls.forget_permits(usize::MAX >> 4);
        let running = engine.submit(asks(ASKS)).await.unwrap();
        until(async || engine.live(&running.run).unwrap().entries() > 0).await;
        let queued = engine.submit(asks(ASKS)).await.unwrap();
        let stopped = engine.submit(asks(ASKS)).await.unwrap();
        engine.journal().stop_submission(&stopped.run, StopMode::Now).await.unwrap();
        // It does not end in time, so it is left.
        assert!(!engine.drain(Duration::from_millis(1)).await);
        [waiting, running, queued, stopped]
    });
    process(async || {
        let engine = bench.engine(&Gate::open()).await;
        let [waiting, rest @ ..] = &accepted;
        for submitted in rest {
            ended(&engine, submitted).await;
        }
        let [_, _, stopped] = rest;
        assert_eq!(engine.view(&stopped.run).await.unwrap().reason.as_deref(), Some("manual_stop"));
        engine.wait(&waiting.run, LONG).await;
        assert_eq!(engine.view(&waiting.run).await.unwrap().state, RunState::Waiting);
        let action = engine.pending(|_| true).await.unwrap().remove(0);
        let denial = PersonDecision::Deny { why: "no".into() };
        engine.decide(&waiting.run, &action.request.action, &action.request.binding, denial).await.unwrap();
        ended(&engine, waiting).await;
        assert_eq!(engine.journal().runs().await.unwrap().len(), 4);
        until(async || engine.journal().open_submissions().await.unwrap().is_empty()).await;
    });
}

/// A row of the queue with this item.
fn row(run: &loop_core::types::RunId, item: &loop_core::WorkItem) -> Submission {
    let body = serde_json::json!({ "version": 1, "item": item });
    Submission {
        run: run.clone(),
        domain: "crm".into(),
        caller: "ada".into(),
        request_key: None,
        digest: loop_core::types::Digest::of("submission", b""),
        priority: 0,
        unix_ms: 1,
        body: body.to_string().into(),
    }
}

#[test]
fn a_crash_between_the_start_of_a_run_and_its_record_leaves_one_run() {
    let bench = Bench::new();
    let run = Runner::new_id();
    let item = loop_core::WorkItem::message("T-1", "Who is Bob?", ASKS);
    process(async || {
        let engine = bench.engine(&Gate::open()).await;
        let bounds = QueueBounds { all: 9, domain: 9 };
        engine.journal().submit(row(&run, &item), bounds).await.unwrap().unwrap();
        // The run begins, and the process ends before the row says so.
        let runner = engine.domains().next().unwrap().runner.clone();
        let runner = runner.with_origin(r#"{"domain": "crm", "settings": []}"#);
        let outcome = runner.run(item.clone()).with_id(run.clone()).await.unwrap();
        assert_eq!(outcome.run, run);
        let again = runner.run(item.clone()).with_id(run.clone()).start().await;
        assert!(again.is_err_and(|error| error.to_string().contains("exists already")));
    });
    process(async || {
        let engine = bench.engine(&Gate::closed()).await;
        until(async || engine.journal().open_submissions().await.unwrap().is_empty()).await;
        assert_eq!(engine.view(&run).await.unwrap().state, RunState::Ended);
        assert_eq!(engine.journal().runs().await.unwrap().len(), 1);
    });
}

#[test]
fn a_row_that_another_program_changed_is_never_begun() {
    let bench = Bench::new();
    let run = process(async || {
        let engine =
            bench.engine_of(&["crm"], &Gate::closed(), EngineLimits { max_runs: 0, ..limits() }).await;
        engine.submit(asks(ASKS)).await.unwrap().run
    });
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    let change = "UPDATE submissions SET body = replace(body, 'Bob', 'Eve')";
    assert_eq!(other.execute(change, []).unwrap(), 1);
    process(async || {
        let engine = bench.engine(&Gate::open()).await;
        let view = engine.view(&run).await.unwrap();
        assert!(view.trouble.unwrap().contains("changed by another program"));
        engine.wait(&run, LONG).await;
        assert_eq!(engine.journal().runs().await.unwrap(), []);
        // It is in the list as it is by its id. A row that cannot be trusted is the operator's.
        let interrupted = RunFilter { state: Some(RunState::Interrupted), ..RunFilter::default() };
        let page = engine.list(&interrupted, 10).await.unwrap();
        assert_eq!(page.runs, [engine.view(&run).await.unwrap()]);
        assert_eq!(page.runs[0].state, RunState::Interrupted);
        let stopped = engine.stop(&run, StopMode::AtGate).await.unwrap_err();
        assert!(matches!(stopped, EngineError::State(_)), "{stopped:?}");
    });
}

#[test]
fn a_submission_whose_run_cannot_begin_is_listed_and_a_stop_ends_it() {
    let bench = Bench::new();
    process(async || {
        let run = Runner::new_id();
        let row =
            Submission { body: "{}".into(), ..row(&run, &loop_core::WorkItem::message("T-1", "", ASKS)) };
        let journal = StoredJournal::open(bench.path()).unwrap();
        journal.submit(row, QueueBounds { all: 9, domain: 9 }).await.unwrap().unwrap();
        let engine = bench.engine(&Gate::open()).await;
        engine.wait(&run, LONG).await;
        let interrupted = RunFilter { state: Some(RunState::Interrupted), ..RunFilter::default() };
        let page = engine.list(&interrupted, 10).await.unwrap();
        assert_eq!(page.runs, [engine.view(&run).await.unwrap()]);
        assert_eq!(engine.list(&RunFilter::default(), 10).await.unwrap().runs.len(), 1);
        assert!(page.runs[0].trouble.is_some());
        engine.stop(&run, StopMode::AtGate).await.unwrap();
        assert_eq!(engine.list(&interrupted, 10).await.unwrap().runs, []);
        assert!(engine.journal().open_submissions().await.unwrap().is_empty());
    });
}
