//! The runtime against the suite that every driver passes: by a handle, as a stream, by recursion, each over models and tools
//! that are called.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::{EventKind, Started};
use loop_runtime::{
    Outcome, Runner,
    models::Models,
    run::{Remote, RunId, Validator},
    save::{SaveError, Saver},
};
use loop_testkit::drivers::{
    DriverCase, DriverClock, DriverRecord, RULE, RunDriver, cases, conform, difference_in, live::LiveOutside,
};
use serde_json::Value;

/// How the runtime is driven.
#[derive(Clone, Copy, Debug)]
enum Way {
    Handle,
    Stream,
    Recursion,
}

impl RunDriver for Way {
    fn name(&self) -> &'static str {
        match self {
            Self::Handle => "runtime, by a handle",
            Self::Stream => "runtime, as a stream",
            Self::Recursion => "runtime, by recursion",
        }
    }

    fn drive(&self, case: &DriverCase) -> DriverRecord {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(driven(*self, case))
    }
}

async fn driven(way: Way, case: &DriverCase) -> DriverRecord {
    let outside = LiveOutside::new(case);
    let runner = runner(case, &outside);
    let request = runner.run(case.setup.item.clone());
    let (run, outcome) = match way {
        Way::Handle => {
            let handle = request.start().await.unwrap();
            let run = handle.id().clone();
            tells(case, &outside, &handle.remote());
            let ended = tokio::select! {
                outcome = handle.wait() => Some(outcome),
                // The handle is dropped, and with it the driver.
                () = outside.dies() => None,
            };
            match ended {
                Some(outcome) => (run, outcome),
                None => (run.clone(), resumed(&runner, &run).await),
            }
        }
        Way::Stream => {
            let mut stream = request.stream().await.unwrap();
            let run = stream.id().clone();
            tells(case, &outside, &stream.remote());
            let ended = tokio::select! {
                () = async { while stream.next().await.is_some() {} } => stream.outcome().cloned(),
                () = outside.dies() => None,
            };
            drop(stream);
            match ended {
                Some(outcome) => (run, outcome),
                None => (run.clone(), resumed(&runner, &run).await),
            }
        }
        Way::Recursion => {
            let (outcome, _) = request.recurse().await.unwrap();
            (outcome.run.clone(), outcome)
        }
    };
    record(&runner, &run, outcome).await
}

/// The outcome of a run whose driver was dropped, driven by another one.
async fn resumed(runner: &Runner, run: &RunId) -> Outcome {
    // A millisecond of the paused clock, in which the task of the driver ends.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    runner.resume(run).await.unwrap()
}

pub(crate) fn runner(case: &DriverCase, outside: &LiveOutside) -> Runner {
    let models = Models::one(outside.model());
    let runner = Runner::new(case.setup.spec.clone(), outside.registry(), models);
    let runner = runner.with_validators([Arc::new(Rule(outside.clone())) as Arc<dyn Validator>]);
    if case.setup.spec.save { runner.with_saver(Arc::new(InMemory)) } else { runner }
}

/// Answers what will be asked, and tells the run what is said to it on its way.
fn tells(case: &DriverCase, outside: &LiveOutside, remote: &Remote) {
    for (key, answer) in &case.answers {
        remote.answer(key.parse().unwrap(), answer.clone());
    }
    let remote = remote.clone();
    outside.telling(Box::new(move |kind| match kind {
        EventKind::StopRequested { how } => remote.stop(*how),
        EventKind::Instruction { text } => assert!(remote.tell(Arc::clone(text))),
        other => panic!("not said to a run: {other:?}"),
    }));
}

pub(crate) async fn record(runner: &Runner, run: &RunId, outcome: Outcome) -> DriverRecord {
    let recorded = runner.journal().read(run).await.unwrap();
    let entries = recorded.entries.into_iter().map(|entry| (entry.event, entry.notes));
    DriverRecord { entries: entries.collect(), outcome: Some(outcome) }
}

struct Rule(LiveOutside);

#[async_trait]
impl Validator for Rule {
    fn name(&self) -> &str {
        RULE
    }

    async fn validate(&self, _: &Value) -> Result<(), String> {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        self.0.validate()
    }
}

#[derive(Debug)]
struct InMemory;

#[async_trait]
impl Saver for InMemory {
    async fn save(&self, _: &Started, _: &Outcome) -> Result<Arc<str>, SaveError> {
        Ok("memory".into())
    }
}

#[test]
fn the_runtime_drives_as_recursion_over_the_core_does() {
    // Issue 20, part 2; C1, C2, I-31
    conform(&Way::Handle, DriverClock::Virtual);
}

#[test]
fn a_stream_of_the_runtime_drives_as_recursion_over_the_core_does() {
    // Issue 20, part 2; S1-45
    conform(&Way::Stream, DriverClock::Virtual);
}

#[test]
fn the_recursion_of_the_runtime_drives_as_recursion_over_the_core_does() {
    // Issue 20, part 2; S1-5
    let alone = |case: &DriverCase| case.answers.is_empty() && case.said.is_none() && case.dies.is_none();
    for case in cases().iter().filter(|case| alone(case)) {
        assert_eq!(difference_in(&Way::Recursion, DriverClock::Virtual, case), Ok(()));
    }
}
