//! The engine: what is accepted is journaled, begins once, in order and within bounds, and survives the process.

use std::time::Duration;

use loop_core::{Approver, StopMode};
use loop_runtime::Runner;
use loop_runtime::journal::{Journal as _, QueueBounds, SqliteJournal, Submission, SubmissionState};
use loop_server::engine::{
    Engine, EngineError, EngineLimits, NewRun, PersonDecision, RunFilter, RunState, Submitted,
};

use crate::bench::{ASKS, Bench, Gate, LONG, WRITES, asks, limits};

async fn ended(engine: &Engine, submitted: &Submitted) -> loop_server::engine::RunView {
    engine.wait(&submitted.run, LONG).await;
    let view = engine.view(&submitted.run).await.unwrap();
    assert_eq!(view.state, "ended", "{view:?}");
    view
}

/// Waits until this is so: the engine is polled, and nothing is timed.
async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it does not happen");
}

#[tokio::test]
async fn what_is_accepted_is_in_the_journal_and_ends() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let submitted = engine.submit(asks(ASKS)).await.unwrap();
    assert!(submitted.is_new);
    // Another connection sees it before anything has run.
    let other = SqliteJournal::open_existing(bench.path()).unwrap();
    let queued = other.submission(&submitted.run).await.unwrap().unwrap();
    assert!(queued.is_sealed);
    assert_eq!(&*queued.submission.caller, "ada");
    gate.calls.add_permits(100);
    let view = ended(&engine, &submitted).await;
    assert_eq!((view.class.as_deref(), view.caller.as_deref()), (Some("answered"), Some("ada")));
    let queued = other.submission(&submitted.run).await.unwrap().unwrap();
    assert_eq!((queued.state, &*queued.submission.body), (SubmissionState::Over, ""));
    assert_eq!(other.runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_higher_priority_begins_first_and_then_the_order_of_arrival() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    let of = |tag: &str, priority| NewRun { priority, tags: vec![tag.to_owned()], ..asks(ASKS) };
    // The first takes the only place.
    let mut all = vec![engine.submit(of("first", 0)).await.unwrap()];
    for (tag, priority) in [("low", -1), ("plain 1", 0), ("plain 2", 0), ("high", 7)] {
        all.push(engine.submit(of(tag, priority)).await.unwrap());
    }
    let page = engine.list(&RunFilter { state: Some(RunState::Queued), ..RunFilter::default() }, 10).await;
    assert_eq!(page.unwrap().runs.len(), 4);
    gate.calls.add_permits(100);
    for submitted in &all {
        ended(&engine, submitted).await;
    }
    let began = gate.began.lock().unwrap().clone();
    assert_eq!(began, ["first", "high", "plain 1", "plain 2", "low"]);
}

#[tokio::test]
async fn the_queue_is_bounded_by_domain_and_in_all() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    bench.domain("small", "[serve]\nmax_runs = 1\nmax_queued = 1\n");
    let bounds = EngineLimits { max_runs: 2, max_queued: 2, ..limits() };
    let engine = bench.engine_of(&["crm", "small"], &gate, bounds).await;
    let of = |domain: &str| NewRun { domain: Some(domain.to_owned()), ..asks(ASKS) };
    let submit = async |domain: &str| engine.submit(of(domain)).await;
    let queued = async |count: u64| {
        until(async || engine.load().domains.values().map(|load| load.queued).sum::<u64>() == count).await;
        // The rows as well.
        let is_begun = async || {
            let open = engine.journal().open_submissions().await.unwrap();
            open.iter().filter(|queued| queued.state == SubmissionState::Queued).count() as u64 == count
        };
        until(is_begun).await;
    };
    let mut all = vec![submit("small").await.unwrap()];
    queued(0).await;
    all.push(submit("small").await.unwrap());
    let full = submit("small").await.unwrap_err();
    assert!(matches!(&full, EngineError::Full { domain: Some(_), bound: 1 }), "{full:?}");
    assert_eq!(
        full.to_string(),
        "1 submissions wait for small, which is the maximum; send the request again later"
    );
    // The other domain has a place, and then the bound of all of them counts.
    all.push(submit("crm").await.unwrap());
    queued(1).await;
    all.push(submit("crm").await.unwrap());
    let full = submit("crm").await.unwrap_err();
    assert!(matches!(full, EngineError::Full { domain: None, bound: 2 }), "{full:?}");
    assert!(matches!(submit("nope").await, Err(EngineError::UnknownDomain { .. })));
    assert!(matches!(engine.submit(asks(ASKS)).await, Err(EngineError::NoDomain)));
    gate.calls.add_permits(100);
    for submitted in &all {
        ended(&engine, submitted).await;
    }
}

#[tokio::test]
async fn a_key_is_its_callers_own_and_names_one_request() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let keyed = |item: &str| NewRun { key: Some("order-17".to_owned()), ..asks(item) };
    let first = engine.submit(keyed(ASKS)).await.unwrap();
    let again = engine.submit(keyed(ASKS)).await.unwrap();
    assert_eq!(again, Submitted { run: first.run.clone(), is_new: false });
    ended(&engine, &first).await;
    assert_eq!(engine.submit(keyed(ASKS)).await.unwrap(), again, "also when it has ended");
    let other = engine.submit(NewRun { priority: 1, ..keyed(ASKS) }).await.unwrap_err();
    assert!(matches!(&other, EngineError::OtherRequest { run } if *run == first.run), "{other:?}");
    let others = engine.submit(NewRun { caller: "bob".into(), ..keyed(ASKS) }).await.unwrap();
    assert!(others.is_new && others.run != first.run);
    // Many at once are one.
    let key = |n: usize| NewRun { key: Some(format!("key {}", n % 3)), ..asks(ASKS) };
    let many = futures::future::join_all((0..30).map(|n| engine.submit(key(n)))).await;
    let runs: std::collections::BTreeSet<_> =
        many.iter().map(|it| it.as_ref().unwrap().run.clone()).collect();
    assert_eq!((runs.len(), many.iter().filter(|it| it.as_ref().unwrap().is_new).count()), (3, 3));
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_holds_no_place_and_an_approval_continues_it() {
    // I-26
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    let waiting = engine.submit(asks(WRITES)).await.unwrap();
    engine.wait(&waiting.run, LONG).await;
    let view = engine.view(&waiting.run).await.unwrap();
    assert_eq!(view.state, "waiting");
    assert!(view.until_unix_ms.is_some());
    ended(&engine, &engine.submit(asks(ASKS)).await.unwrap()).await;
    let [action] = &engine.pending(|_| true).await.unwrap()[..] else { panic!("one action waits") };
    let (key, binding) = (action.request.action.clone(), action.request.binding.clone());
    let by = Approver { account: "token eve".into(), user: "eve".into(), claim: None };
    let approve = PersonDecision::Approve { by };
    let other = engine.decide(&waiting.run, &key, &"0".repeat(64), approve.clone()).await;
    assert!(matches!(other, Err(EngineError::Binding { .. })), "{other:?}");
    let unknown = engine.decide(&waiting.run, "9/action-9", &binding, approve.clone()).await;
    assert!(matches!(unknown, Err(EngineError::NoAction { .. })), "{unknown:?}");
    engine.decide(&waiting.run, &key, &binding, approve.clone()).await.unwrap();
    let view = ended(&engine, &waiting).await;
    assert_eq!(view.class.as_deref(), Some("answered"));
    let again = engine.decide(&waiting.run, &key, &binding, approve).await;
    assert!(matches!(again, Err(EngineError::Answer { .. })), "{again:?}");
    let outcome = engine.read(&waiting.run).await.unwrap().1.outcome().cloned().unwrap();
    assert_eq!(outcome.stop.effects.executed, 1);
}

#[tokio::test]
async fn silence_is_a_denial_and_the_run_continues_by_itself() {
    // I-26
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("hasty", "[limits]\nperson_ms = 1\n");
    let engine = bench.engine_of(&["hasty"], &gate, limits()).await;
    let submitted = engine.submit(asks(WRITES)).await.unwrap();
    until(async || engine.view(&submitted.run).await.unwrap().state == "ended").await;
    let outcome = engine.read(&submitted.run).await.unwrap().1.outcome().cloned().unwrap();
    assert_eq!(outcome.stop.effects.executed, 0);
}

#[tokio::test]
async fn an_answer_that_another_process_journaled_continues_the_run() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let submitted = engine.submit(asks(WRITES)).await.unwrap();
    engine.wait(&submitted.run, LONG).await;
    let action = engine.pending_of(&submitted.run).await.unwrap().remove(0);
    // As `loopgate deny --no-wait` does.
    let key = action.request.action.parse().unwrap();
    let answer = loop_core::PersonAnswer::Denied { why: "no".into() };
    let kind = loop_core::EventKind::PersonAnswered { key, answer, binding: None };
    let domain = engine.domains().next().unwrap();
    domain.runner.note_down(&submitted.run, [kind]).await.unwrap();
    until(async || engine.view(&submitted.run).await.unwrap().state == "ended").await;
}

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
async fn a_run_is_stopped_wherever_it_is() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    let running = engine.submit(asks(ASKS)).await.unwrap();
    let queued = engine.submit(asks(ASKS)).await.unwrap();
    // It has not begun, and ends without a call while the other one holds the only place.
    engine.stop(&queued.run, StopMode::AtGate).await.unwrap();
    let view = ended(&engine, &queued).await;
    assert_eq!((view.reason.as_deref(), view.class.as_deref()), (Some("manual_stop"), Some("cancelled")));
    engine.stop(&running.run, StopMode::Now).await.unwrap();
    assert_eq!(ended(&engine, &running).await.reason.as_deref(), Some("manual_stop"));
    let over = engine.stop(&running.run, StopMode::Now).await.unwrap_err();
    assert!(matches!(over, EngineError::State(_)), "{over:?}");
    gate.calls.add_permits(1_000);
    let waiting = engine.submit(asks(WRITES)).await.unwrap();
    engine.wait(&waiting.run, LONG).await;
    engine.stop(&waiting.run, StopMode::Now).await.unwrap();
    assert_eq!(ended(&engine, &waiting).await.reason.as_deref(), Some("manual_stop"));
    let unknown = engine.stop(&Runner::new_id(), StopMode::Now).await;
    assert!(matches!(unknown, Err(EngineError::UnknownRun)), "{unknown:?}");
}

#[tokio::test]
async fn a_run_of_the_command_that_waits_is_pending_and_a_decision_here_continues_it() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let runner = engine.domains().next().unwrap().runner.clone();
    let runner = runner.with_origin(r#"{"domain": "crm", "settings": []}"#);
    let item = loop_core::WorkItem::message("T-1", "Bob", WRITES);
    let outcome = runner.run(item).await.unwrap();
    let [action] = &engine.pending(|name| name == "crm").await.unwrap()[..] else { panic!("it waits") };
    assert_eq!(engine.view(&outcome.run).await.unwrap().state, "waiting");
    assert!(engine.pending(|name| name == "other").await.unwrap().is_empty());
    let denial = PersonDecision::Deny { why: "no".into() };
    engine.decide(&outcome.run, &action.request.action, &action.request.binding, denial).await.unwrap();
    until(async || engine.view(&outcome.run).await.unwrap().state == "ended").await;
}

#[tokio::test]
async fn a_decision_on_a_run_of_a_domain_that_is_not_served_is_journaled_and_its_run_is_not_under_way() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("other", "");
    let serves = bench.engine(&gate).await;
    let runner = serves.domains().next().unwrap().runner.clone();
    let runner = runner.with_origin(r#"{"domain": "crm", "settings": []}"#);
    let run = runner.run(loop_core::WorkItem::message("T-1", "Bob", WRITES)).await.unwrap().run;
    serves.drain(LONG).await;
    drop((serves, runner));
    let engine = reopened(&bench, &["other"], &gate).await;
    let action = engine.pending_of(&run).await.unwrap().remove(0);
    let denial = PersonDecision::Deny { why: "no".into() };
    engine.decide(&run, &action.request.action, &action.request.binding, denial).await.unwrap();
    assert_eq!(engine.pending_of(&run).await.unwrap().len(), 0, "it is journaled");
    let view = engine.view(&run).await.unwrap();
    assert_eq!(
        (view.state.as_str(), view.trouble.as_deref()),
        ("interrupted", Some("its domain is not served now"))
    );
    let resumed = engine.resume(&run).await.unwrap_err();
    assert!(matches!(resumed, EngineError::State(_)), "{resumed:?}");
}

/// The engine, once the tasks of the one before have left the queue.
async fn reopened(bench: &Bench, names: &[&str], gate: &std::sync::Arc<Gate>) -> Engine {
    until(async || SqliteJournal::open(bench.path()).unwrap().lock_queue().is_ok()).await;
    bench.engine_of(names, gate, limits()).await
}

#[tokio::test]
async fn runs_that_are_left_out_hide_no_run_that_waits() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let runner = engine.domains().next().unwrap().runner.clone();
    let runner = runner.with_origin(r#"{"domain": "crm", "settings": []}"#);
    let run = runner.run(loop_core::WorkItem::message("T-1", "Bob", WRITES)).await.unwrap().run;
    // Newer runs, of a domain that the caller does not see.
    let newer = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 450)
        INSERT INTO runs SELECT run || printf('%04d', n), unix_ms, 'other', item, title, spec, manifest, origin,
        NULL, stop, epoch, writer_pid, writer_token, entries, head, seal FROM runs, n WHERE run = ?1";
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    assert_eq!(other.execute(newer, [run.to_string()]).unwrap(), 450);
    let pending = engine.pending(|name| name == "crm").await.unwrap();
    assert_eq!(pending.iter().map(|action| action.run.clone()).collect::<Vec<_>>(), [run.to_string()]);
}

#[tokio::test]
async fn a_request_whose_caller_is_gone_begins_once_it_is_committed() {
    // K16
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    {
        let submitting = std::pin::pin!(engine.submit(asks(ASKS)));
        // It is polled once, and dropped before its row is committed.
        assert!(futures::poll!(submitting).is_pending());
    }
    let ended = RunFilter { state: Some(RunState::Ended), ..RunFilter::default() };
    until(async || engine.list(&ended, 10).await.unwrap().runs.len() == 1).await;
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
    assert_eq!(view.state, "interrupted", "{view:?}");
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

#[tokio::test]
async fn a_decision_that_comes_while_the_driver_leaves_is_not_lost() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("slow", "");
    // Only the driver delivers.
    let engine = bench.engine_of(&["slow"], &gate, EngineLimits { deliver: LONG, ..limits() }).await;
    let submitted = engine.submit(asks(WRITES)).await.unwrap();
    // The receiver of the hook has the message, so the driver leaves and waits for the receiver.
    until(async || gate.arrived.load(std::sync::atomic::Ordering::Relaxed) > 0).await;
    for _ in 0..200 {
        engine.view(&submitted.run).await.unwrap();
    }
    let action = engine.pending_of(&submitted.run).await.unwrap().remove(0);
    let by = Approver { account: "token eve".into(), user: "eve".into(), claim: None };
    let decision = PersonDecision::Approve { by };
    let deciding = engine.decide(&submitted.run, &action.request.action, &action.request.binding, decision);
    let delivering = async {
        tokio::task::yield_now().await;
        gate.messages.add_permits(1_000);
    };
    let (decided, ()) = tokio::join!(deciding, delivering);
    decided.unwrap();
    until(async || engine.view(&submitted.run).await.unwrap().state == "ended").await;
    let outcome = engine.read(&submitted.run).await.unwrap().1.outcome().cloned().unwrap();
    assert_eq!(outcome.stop.effects.executed, 1);
}

#[tokio::test]
async fn a_caller_sets_what_the_domain_lets_them_and_only_tightens() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("open", "[limits]\npasses = 4\n[serve]\ncaller_may_set = [\"limits.passes\"]\n");
    let engine = bench.engine_of(&["open"], &gate, limits()).await;
    let with =
        |key: &str, value: &str| NewRun { settings: vec![(key.to_owned(), value.to_owned())], ..asks(ASKS) };
    let submitted = engine.submit(with("limits.passes", "1")).await.unwrap();
    ended(&engine, &submitted).await;
    assert_eq!(engine.read(&submitted.run).await.unwrap().1.spec().limits.passes, 1);
    for (key, value, says) in [
        ("limits.passes", "5", "limits.passes is more than the domain allows"),
        ("limits.passes", "\"many\"", "limits.passes"),
        ("gate.people", "false", "a caller may set limits.passes"),
    ] {
        let error = engine.submit(with(key, value)).await.unwrap_err();
        assert!(matches!(error, EngineError::Setting(_)), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_it_is_accepted() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    assert!(matches!(engine.submit(asks("  ")).await, Err(EngineError::Item(_))));
    let named = NewRun { key: Some("a\nb".to_owned()), ..asks(ASKS) };
    assert!(matches!(engine.submit(named).await, Err(EngineError::Invalid(_))));
    let tagged = NewRun { tags: (0..21).map(|n| n.to_string()).collect(), ..asks(ASKS) };
    assert!(matches!(engine.submit(tagged).await, Err(EngineError::Invalid(_))));
    assert!(engine.drain(Duration::from_secs(1)).await);
    assert!(matches!(engine.submit(asks(ASKS)).await, Err(EngineError::Draining)));
    assert_eq!(engine.journal().open_submissions().await.unwrap(), []);
}

#[tokio::test]
async fn one_server_has_the_queue_of_a_journal() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let second = engine.journal().lock_queue();
    assert!(second.is_err_and(|error| error.to_string().contains("another server uses this journal")));
}

/// Runs this in a process of its own, as far as the engine can tell: all its tasks end with it.
fn process<T>(work: impl AsyncFnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(work());
    runtime.shutdown_timeout(LONG);
    result
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
        assert_eq!(engine.view(&waiting.run).await.unwrap().state, "waiting");
        let action = engine.pending(|_| true).await.unwrap().remove(0);
        let denial = PersonDecision::Deny { why: "no".into() };
        engine.decide(&waiting.run, &action.request.action, &action.request.binding, denial).await.unwrap();
        ended(&engine, waiting).await;
        assert_eq!(engine.journal().runs().await.unwrap().len(), 4);
        until(async || engine.journal().open_submissions().await.unwrap().is_empty()).await;
    });
}

/// A row of the queue with this item.
fn row(run: &loop_core::RunId, item: &loop_core::WorkItem) -> Submission {
    let body = serde_json::json!({ "version": 1, "item": item });
    Submission {
        run: run.clone(),
        domain: "crm".into(),
        caller: "ada".into(),
        request_key: None,
        digest: loop_core::Digest::of("submission", b""),
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
        assert_eq!(engine.view(&run).await.unwrap().state, "ended");
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
        assert_eq!(page.runs[0].state, "interrupted");
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
        let journal = SqliteJournal::open(bench.path()).unwrap();
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

#[test]
fn a_list_has_each_run_once_in_pages() {
    let bench = Bench::new();
    process(async || {
        let gate = Gate::open();
        let engine = bench.engine(&gate).await;
        let mut all = Vec::new();
        for n in 0..7 {
            let new = NewRun { tags: vec![format!("t{}", n % 2)], ..asks(&format!("{ASKS} {n}")) };
            all.push(engine.submit(new).await.unwrap());
        }
        for submitted in &all {
            let view = ended(&engine, submitted).await;
            // The list says the same of it.
            let of_run = RunFilter::default();
            let page = engine.list(&of_run, 50).await.unwrap();
            assert_eq!(page.runs.into_iter().find(|listed| listed.run == view.run), Some(view));
        }
        gate.calls.forget_permits(usize::MAX >> 4);
        for n in 7..12 {
            all.push(engine.submit(asks(&format!("{ASKS} {n}"))).await.unwrap());
        }
        let mut expected: Vec<String> = all.iter().map(|submitted| submitted.run.to_string()).collect();
        expected.reverse();
        for limit in [1, 3, 5, 12, 50] {
            let (mut filter, mut seen) = (RunFilter::default(), Vec::new());
            loop {
                let page = engine.list(&filter, limit).await.unwrap();
                assert!(page.runs.len() <= limit);
                seen.extend(page.runs.iter().map(|view| view.run.clone()));
                let Some(next) = page.next else { break };
                filter.query.before = Some(loop_core::RunId::new(next));
            }
            assert_eq!(seen, expected, "{limit}");
        }
        let count = async |change: fn(&mut RunFilter)| {
            let mut filter = RunFilter::default();
            change(&mut filter);
            engine.list(&filter, 50).await.unwrap().runs.len()
        };
        assert_eq!(count(|filter| filter.state = Some(RunState::Ended)).await, 7);
        assert_eq!(count(|filter| filter.state = Some(RunState::Running)).await, 2);
        assert_eq!(count(|filter| filter.state = Some(RunState::Queued)).await, 3);
        assert_eq!(count(|filter| filter.query.tag = Some("t0".into())).await, 4);
        assert_eq!(count(|filter| filter.query.text = Some("BOB? 1".into())).await, 3);
        assert_eq!(count(|filter| filter.query.reason = Some("completed".into())).await, 7);
        assert_eq!(count(|filter| filter.query.domains = Some(vec!["other".into()])).await, 0);
        assert_eq!(count(|filter| filter.query.until_unix_ms = Some(1)).await, 0);
        assert_eq!(count(|filter| filter.query.since_unix_ms = Some(1)).await, 12);
        engine.drain(Duration::from_millis(1)).await;
    });
}
