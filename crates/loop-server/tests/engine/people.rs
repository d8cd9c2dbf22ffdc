//! Runs that wait for people, and what people decide.

use loop_core::types::Approver;
use loop_server::engine::{EngineError, EngineLimits, PersonDecision, RunState};

use super::{ended, reopened, until};
use crate::bench::{ASKS, Bench, Gate, LONG, WRITES, asks, limits};

#[tokio::test]
async fn a_run_that_waits_for_a_person_holds_no_place_and_an_approval_continues_it() {
    // I-26
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    let waiting = engine.submit(asks(WRITES)).await.unwrap();
    engine.wait(&waiting.run, LONG).await;
    let view = engine.view(&waiting.run).await.unwrap();
    assert_eq!(view.state, RunState::Waiting);
    // Issue 40, R3: where the domain sets no deadline, there is none.
    assert_eq!(view.until_unix_ms, None);
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
    until(async || engine.view(&submitted.run).await.unwrap().state == RunState::Ended).await;
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
    let answer = loop_core::run::PersonAnswer::Denied { why: "no".into() };
    let kind = loop_core::EventKind::PersonAnswered { key, answer, binding: None };
    let domain = engine.domains().next().unwrap();
    domain.runner.note_down(&submitted.run, [kind]).await.unwrap();
    until(async || engine.view(&submitted.run).await.unwrap().state == RunState::Ended).await;
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
    assert_eq!(engine.view(&outcome.run).await.unwrap().state, RunState::Waiting);
    assert!(engine.pending(|name| name == "other").await.unwrap().is_empty());
    let denial = PersonDecision::Deny { why: "no".into() };
    engine.decide(&outcome.run, &action.request.action, &action.request.binding, denial).await.unwrap();
    until(async || engine.view(&outcome.run).await.unwrap().state == RunState::Ended).await;
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
        (view.state, view.trouble.as_deref()),
        (RunState::Interrupted, Some("its domain is not served now"))
    );
    let resumed = engine.resume(&run).await.unwrap_err();
    assert!(matches!(resumed, EngineError::State(_)), "{resumed:?}");
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
    until(async || engine.view(&submitted.run).await.unwrap().state == RunState::Ended).await;
    let outcome = engine.read(&submitted.run).await.unwrap().1.outcome().cloned().unwrap();
    assert_eq!(outcome.stop.effects.executed, 1);
}
