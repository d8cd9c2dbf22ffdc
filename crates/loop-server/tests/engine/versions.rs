//! Runs of another version of the program: this one leaves them alone and says so.

use std::sync::Arc;

use loop_core::run::{Program, StopMode};
use loop_core::types::RunId;
use loop_runtime::journal::{Durability, Entry, Journal, StoredJournal, replay};
use loop_server::engine::{EngineError, PersonDecision, RunFilter, RunState};
use loop_testkit::{continued_by, newer, older};

use super::{ended, reopened, until};
use crate::bench::{ASKS, Bench, Gate, LONG, WRITES, asks};

/// Records in a run that this program continues it. `otherwise`: it decides something that this version does not.
async fn driven_by(journal: &StoredJournal, run: &RunId, program: Program, otherwise: bool) {
    let (recorded, mut writer) = journal.resume(run).await.unwrap();
    let mut state = replay(run, &recorded).unwrap();
    let (event, notes) = continued_by(&mut state, program, otherwise);
    let seq = recorded.entries.len() as u64;
    writer.append(&Arc::new(Entry { seq, event, notes }), Durability::Synced).await.unwrap();
}

#[tokio::test]
async fn a_run_of_another_version_is_left_alone_and_its_state_says_so() {
    // Issue 20, part 5; I-11
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let submitted = engine.submit(asks(WRITES)).await.unwrap();
        engine.wait(&submitted.run, LONG).await;
        waiting.push(submitted.run);
    }
    let action = engine.pending_of(&waiting[0]).await.unwrap().remove(0);
    engine.drain(LONG).await;
    let journal = Arc::clone(engine.journal());
    drop(engine);
    driven_by(&journal, &waiting[0], newer(), /*otherwise*/ false).await;
    driven_by(&journal, &waiting[1], older(), /*otherwise*/ true).await;
    driven_by(&journal, &waiting[2], older(), /*otherwise*/ false).await;
    drop(journal);

    let engine = reopened(&bench, &["crm"], &gate).await;
    let [of_newer, of_other, of_older] = &waiting[..] else { panic!("{waiting:?}") };
    for (run, version) in [(of_newer, "loopgate 9.0.0"), (of_other, "loopgate 0.0.9")] {
        until(async || engine.view(run).await.unwrap().state == RunState::OtherVersion).await;
        let view = engine.view(run).await.unwrap();
        assert!(view.trouble.as_deref().is_some_and(|why| why.contains(version)), "{view:?}");
        let entries = view.entries;
        for refused in [
            engine.resume(run).await,
            engine.stop(run, StopMode::Now).await,
            engine.decide(run, &action.request.action, &action.request.binding, denial()).await,
        ] {
            let error = refused.unwrap_err();
            let is_it = matches!(&error, EngineError::OtherVersion(why) if why.contains(version));
            assert!(is_it || matches!(error, EngineError::Binding { .. }), "{error}");
        }
        assert_eq!(engine.view(run).await.unwrap().entries, entries, "nothing is recorded");
    }
    let filter = RunFilter { state: Some(RunState::OtherVersion), ..RunFilter::default() };
    assert_eq!(engine.list(&filter, 10).await.unwrap().runs.len(), 2);
    assert_eq!(engine.load().domains["crm"].other_version, 2);
    // What is decided in the same way is taken over, and other runs are not held up.
    let action = engine.pending_of(of_older).await.unwrap().remove(0);
    engine.decide(of_older, &action.request.action, &action.request.binding, denial()).await.unwrap();
    until(async || engine.view(of_older).await.unwrap().state == RunState::Ended).await;
    ended(&engine, &engine.submit(asks(ASKS)).await.unwrap()).await;
}

fn denial() -> PersonDecision {
    PersonDecision::Deny { why: "no".into() }
}
