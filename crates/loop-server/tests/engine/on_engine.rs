//! Runs that a durable engine drives: the journal follows them, and a server over that journal tells them nothing.

use std::sync::Arc;

use loop_core::WorkItem;
use loop_core::run::StopMode;
use loop_core::types::RunId;
use loop_runtime::engine::{EngineRun, Projection};
use loop_runtime::journal::Journal as _;
use loop_runtime::run::CancellationToken;
use loop_server::engine::{EngineError, PersonDecision, RunState};

use super::reopened;
use crate::bench::{Bench, Gate, LONG, WRITES};

/// Drives a run as an engine does, until it waits for a person.
async fn waiting_on_engine(bench: &Bench, gate: &Arc<Gate>) -> RunId {
    let engine = bench.engine(gate).await;
    let runner = engine.domain("crm").unwrap().runner.clone();
    let item = WorkItem::new("R-1", "request", "Change a user", WRITES);
    let first = runner.first_event("restate", RunId::new("run-on-engine"), item).unwrap();
    let mut run = EngineRun::open(&runner, first, None).unwrap();
    let mut projection = Projection::open(&runner, &run).await.unwrap();
    loop {
        let step = run.step().unwrap();
        projection.write(&mut run).await.unwrap();
        if !run.status().waiting.is_empty() {
            break;
        }
        for work in step.start {
            run.settle(runner.perform(work, CancellationToken::new()).await).unwrap();
        }
    }
    engine.drain(LONG).await;
    run.id().clone()
}

#[tokio::test]
async fn a_run_that_an_engine_drives_is_told_nothing_here() {
    // I-11, I-12: what only the journal has would be unknown to the engine, so nothing is written.
    let (bench, gate) = (Bench::new(), Gate::open());
    let run = waiting_on_engine(&bench, &gate).await;
    let engine = reopened(&bench, &["crm"], &gate).await;
    let entries = async || engine.journal().read(&run).await.unwrap().entries.len();
    let before = entries().await;
    assert_eq!(engine.view(&run).await.unwrap().state, RunState::Waiting);
    let action = engine.pending_of(&run).await.unwrap().remove(0).request;
    let denial = PersonDecision::Deny { why: "no".into() };
    for refused in [
        engine.resume(&run).await,
        engine.stop(&run, StopMode::Now).await,
        engine.instruct(&run, "Look again.".into()).await,
        engine.decide(&run, &action.action, &action.binding, denial).await,
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, EngineError::OnEngine(why) if why.contains("restate")), "{error}");
    }
    assert_eq!(entries().await, before);
}
