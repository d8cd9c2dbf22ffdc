//! A stop reaches a run wherever it is, also where it comes while the run begins.

use loop_core::run::StopMode;
use loop_runtime::Runner;
use loop_server::engine::{EngineError, EngineLimits};

use super::ended;
use crate::bench::{ASKS, Bench, Gate, LONG, WRITES, asks, limits};

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
async fn a_stop_that_comes_while_a_run_begins_ends_it() {
    // I-25: from its row in the queue to its first call, whichever of the two comes first.
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    for turns in 0..24 {
        let submitted = engine.submit(asks(ASKS)).await.unwrap();
        for turn in 0..turns {
            // A turn of the tasks, and every third time as long as a look at the journal.
            match turn % 3 {
                0 => drop(engine.view(&submitted.run).await.unwrap()),
                _ => tokio::task::yield_now().await,
            }
        }
        let how = if turns % 2 == 0 { StopMode::Now } else { StopMode::AtGate };
        let (one, two) =
            tokio::join!(engine.stop(&submitted.run, how), engine.stop(&submitted.run, StopMode::Now));
        one.and(two).unwrap();
        // No call of it is answered, so nothing but the stop ends it.
        let view = ended(&engine, &submitted).await;
        assert_eq!(view.reason.as_deref(), Some("manual_stop"), "after {turns} turns: {view:?}");
    }
    // Each has given its place back.
    let last = engine.submit(asks(ASKS)).await.unwrap();
    gate.calls.add_permits(1_000);
    assert_eq!(ended(&engine, &last).await.class.as_deref(), Some("answered"));
    assert!(engine.journal().open_submissions().await.unwrap().is_empty());
}
