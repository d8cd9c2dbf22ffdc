//! Runs that begin from another one: forks and retries, as new runs of the queue.

use loop_core::run::{StopMode, Takeover};
use loop_core::types::{Approver, PicoUsd, RunId};
use loop_runtime::budget::{SharedBudget, Span};
use loop_runtime::journal::queue::SubmissionState;
use loop_server::engine::{
    Engine, EngineError, EngineLimits, NewRun, PersonDecision, RunFrom, RunState, Submitted,
};

use super::{ended, process, until};
use crate::bench::{ASKS, Bench, Gate, LONG, WRITES, asks, limits};

fn from(from: RunFrom) -> NewRun {
    NewRun { from: Some(from), caller: "eve".into(), ..NewRun::default() }
}

fn fork(run: &RunId, entry: Option<u64>) -> NewRun {
    from(RunFrom::Fork { run: run.clone(), entry })
}

fn retry(run: &RunId) -> NewRun {
    from(RunFrom::Retry { run: run.clone() })
}

/// A run that has changed a record, after an approval.
async fn changed(engine: &Engine) -> Submitted {
    let submitted = engine.submit(NewRun { tags: vec!["night".to_owned()], ..asks(WRITES) }).await.unwrap();
    engine.wait(&submitted.run, LONG).await;
    let action = engine.pending_of(&submitted.run).await.unwrap().remove(0);
    let by = Approver { account: "token eve".into(), user: "eve".into(), claim: None };
    let approve = PersonDecision::Approve { by };
    engine.decide(&submitted.run, &action.request.action, &action.request.binding, approve).await.unwrap();
    ended(engine, &submitted).await;
    submitted
}

/// The entry before the change.
async fn before_the_change(engine: &Engine, run: &RunId) -> u64 {
    let (recorded, _) = engine.read(run).await.unwrap();
    let starts = recorded.entries.iter().rposition(|entry| entry.event.kind.name() == "call_started");
    let calls: Vec<u64> = recorded
        .entries
        .iter()
        .filter(|it| it.event.kind.name() == "call_started")
        .map(|it| it.seq)
        .collect();
    assert!(starts.is_some() && calls.len() >= 3, "{calls:?}");
    calls[2] - 1
}

#[tokio::test]
async fn a_fork_is_a_run_of_the_queue_that_repeats_no_effect_without_an_approval() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let parent = changed(&engine).await;
    let before = engine.read(&parent.run).await.unwrap().0.entries;
    let entry = before_the_change(&engine, &parent.run).await;
    let forked = engine.submit(fork(&parent.run, Some(entry))).await.unwrap();
    assert!(forked.is_new && forked.run != parent.run);
    engine.wait(&forked.run, LONG).await;
    let view = engine.view(&forked.run).await.unwrap();
    assert_eq!((view.state, view.caller.as_deref()), (RunState::Waiting, Some("eve")), "{view:?}");
    assert_eq!(
        (view.tags, view.title),
        (vec!["night".to_owned()], engine.view(&parent.run).await.unwrap().title)
    );
    let (_, state) = engine.read(&forked.run).await.unwrap();
    let taken = state.started().parent.as_ref().unwrap();
    assert_eq!((&taken.run, taken.how, taken.entries), (&parent.run, Takeover::Fork, entry + 1));
    let action = engine.pending_of(&forked.run).await.unwrap().remove(0);
    assert!(action.request.why.contains("has started it already"), "{}", action.request.why);
    // The run before is as it was.
    assert_eq!(engine.read(&parent.run).await.unwrap().0.entries, before);
    engine.stop(&forked.run, StopMode::Now).await.unwrap();
    ended(&engine, &forked).await;
}

#[tokio::test]
async fn a_retry_is_a_run_of_the_queue_and_what_cannot_begin_is_refused_before_it_is_accepted() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    let open = engine.submit(asks(ASKS)).await.unwrap();
    let queued = engine.submit(asks(ASKS)).await.unwrap();
    until(async || engine.view(&open.run).await.unwrap().state == RunState::Running).await;
    until(async || engine.read(&open.run).await.is_ok()).await;
    for (new, says) in [
        (retry(&open.run), "it is not over; resume it, or fork it"),
        (retry(&queued.run), "has not begun; submit its item again"),
        (fork(&open.run, Some(99)), "has no entry 99"),
    ] {
        let error = engine.submit(new).await.unwrap_err();
        assert!(matches!(&error, EngineError::State(why) if why.contains(says)), "{error:?}");
    }
    let unknown =
        engine.submit(retry(&RunId::new("01a21603-4261-70fc-84b4-a34fcab0c9db"))).await.unwrap_err();
    assert!(matches!(unknown, EngineError::UnknownRun), "{unknown:?}");
    gate.calls.add_permits(1_000);
    ended(&engine, &open).await;
    let over = engine.read(&open.run).await.unwrap().0.entries.last().unwrap().seq;
    let error = engine.submit(fork(&open.run, Some(over))).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::State(why) if why.contains("cannot be forked after entry")),
        "{error:?}"
    );
    let tried = engine.submit(retry(&open.run)).await;
    // The register is a conversation: what it knows is no evidence.
    assert!(matches!(&tried, Err(EngineError::State(why)) if why.contains("fork it")), "{tried:?}");
    let open = engine.journal().open_submissions().await.unwrap();
    assert!(open.iter().all(|queued| queued.submission.caller != "eve".into()), "nothing was accepted");
}

#[tokio::test]
async fn settings_of_the_run_before_are_kept_and_a_caller_widens_none() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("open", "[serve]\ncaller_may_set = [\"limits.passes\", \"limits.tool_calls\"]\n");
    let engine = bench.engine_of(&["open"], &gate, limits()).await;
    let of = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let parent = engine.submit(NewRun { settings: of("limits.passes", "3"), ..asks(ASKS) }).await.unwrap();
    ended(&engine, &parent).await;
    let set = |settings| NewRun { settings, ..fork(&parent.run, Some(0)) };
    let limits_of = async |new: NewRun| {
        let submitted = engine.submit(new).await.unwrap();
        ended(&engine, &submitted).await;
        let limits = engine.read(&submitted.run).await.unwrap().1.spec().limits.clone();
        (limits.passes, limits.tool_calls)
    };
    let (_, calls) = limits_of(fork(&parent.run, Some(0))).await;
    assert_eq!(limits_of(fork(&parent.run, Some(0))).await, (3, calls), "as the run before");
    assert_eq!(limits_of(set(of("limits.tool_calls", "2"))).await, (3, 2));
    assert_eq!(limits_of(set(of("limits.passes", "2"))).await, (2, calls));
    for (key, value, says) in [
        ("limits.passes", "500", "more than the domain allows"),
        ("gate.people", "false", "a caller may set limits.passes"),
        ("models.base", "openai/gpt-9", "a caller may set limits.passes"),
        ("limits.passes", "\"many\"", "limits.passes"),
    ] {
        let error = engine.submit(set(of(key, value))).await.unwrap_err();
        assert!(matches!(&error, EngineError::Setting(why) if why.contains(says)), "{key}: {error:?}");
    }
}

#[tokio::test]
async fn a_key_makes_one_run_of_it_and_the_budget_of_its_caller_is_kept() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let parent = engine.submit(asks(ASKS)).await.unwrap();
    ended(&engine, &parent).await;
    gate.calls.forget_permits(1 << 20);
    let budget = SharedBudget { span: Span::TokenDay, of: "eve".into(), limit: PicoUsd(7) };
    let keyed = |entry| NewRun {
        key: Some("k".to_owned()),
        budget: Some(budget.clone()),
        ..fork(&parent.run, entry)
    };
    let first = engine.submit(keyed(None)).await.unwrap();
    let queued = engine.journal().submission(&first.run).await.unwrap().unwrap();
    assert!(
        queued.submission.body.contains(r#""budget":{"token":"eve","day":7}"#),
        "{}",
        queued.submission.body
    );
    // Its entry is fixed from the moment at which it is accepted.
    assert!(
        queued.submission.body.contains(r#""how":"fork""#) && queued.submission.body.contains(r#""entry":0"#)
    );
    let again = engine.submit(keyed(None)).await.unwrap();
    assert_eq!((again.run, again.is_new), (first.run.clone(), false));
    let other = engine.submit(keyed(Some(0))).await.unwrap_err();
    assert!(matches!(other, EngineError::OtherRequest { .. }), "{other:?}");
}

#[test]
fn a_fork_that_is_accepted_begins_once_whatever_process_is_killed() {
    let bench = Bench::new();
    let (parent, forked) = process(async || {
        let gate = Gate::open();
        let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
        let parent = engine.submit(asks(ASKS)).await.unwrap();
        ended(&engine, &parent).await;
        gate.calls.forget_permits(1 << 20);
        // It takes the only place.
        engine.submit(asks(ASKS)).await.unwrap();
        (parent.run.clone(), engine.submit(fork(&parent.run, Some(0))).await.unwrap())
    });
    // It is begun, and its row in the queue does not say so yet.
    process(async || {
        let engine = bench.engine(&Gate::closed()).await;
        until(async || engine.read(&forked.run).await.is_ok()).await;
    });
    let changed = rusqlite::Connection::open(bench.path()).unwrap();
    changed.execute("UPDATE submissions SET state = 0 WHERE run = ?1", [forked.run.to_string()]).unwrap();
    drop(changed);
    process(async || {
        let engine = bench.engine(&Gate::open()).await;
        let view = ended(&engine, &forked).await;
        assert_eq!(view.class.as_deref(), Some("answered"), "{view:?}");
        let (recorded, state) = engine.read(&forked.run).await.unwrap();
        assert_eq!(state.started().parent.as_ref().unwrap().run, parent);
        assert_eq!(recorded.entries.iter().filter(|it| it.event.kind.name() == "started").count(), 1);
        let row = engine.journal().submission(&forked.run).await.unwrap().unwrap();
        assert_eq!(row.state, SubmissionState::Over);
    });
}
