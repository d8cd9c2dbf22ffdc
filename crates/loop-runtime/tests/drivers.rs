//! The runtime against the suite that every driver passes: by a handle, as a stream, by recursion, each over models and tools
//! that are called.

use std::future::IntoFuture;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::run::Started;
use loop_core::{EventKind, Note};
use loop_runtime::{
    Outcome, Runner,
    models::Models,
    observe::RunEvent,
    run::{Remote, RunId, Validator},
    save::{SaveError, Saver},
};
use loop_testkit::drivers::{
    DriverCase, DriverClock, DriverRecord, RULE, RunDriver, cases, conform, difference_in, live::LiveOutside,
};
use serde_json::Value;

use crate::recursing::recurse;

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
        // A task of its own would continue without its handle.
        Way::Handle if case.dies.is_some() => {
            tokio::select! {
                outcome = request.into_future() => panic!("it ends before its driver: {outcome:?}"),
                () = outside.dies() => {}
            }
            resumed(&runner).await
        }
        Way::Handle => {
            let mut handle = request.start().await.unwrap();
            let (run, remote, events) = (handle.id().clone(), handle.remote(), handle.events());
            telling(&outside, &remote);
            let case = case.clone();
            tokio::spawn(async move {
                let mut events = events.unwrap();
                while let Some(event) = events.recv().await {
                    answer(&case, &remote, &event);
                }
            });
            (run, handle.wait().await)
        }
        Way::Stream => {
            let mut stream = request.stream().await.unwrap();
            let (run, remote) = (stream.id().clone(), stream.remote());
            telling(&outside, &remote);
            let ends = async {
                while let Some(event) = stream.next().await {
                    answer(case, &remote, &event);
                }
            };
            let has_ended = tokio::select! {
                () = ends => true,
                () = outside.dies() => false,
            };
            let outcome = stream.outcome().cloned().filter(|_| has_ended);
            drop(stream);
            match outcome {
                Some(outcome) => (run, outcome),
                None => resumed(&runner).await,
            }
        }
        Way::Recursion => {
            let (run, _) = recurse(request.stream().await.unwrap()).await;
            let outcome = run.into_outcome().await;
            (outcome.run.clone(), outcome)
        }
    };
    record(&runner, &run, outcome).await
}

/// The run of a journal whose driver was dropped, and its outcome under another driver.
async fn resumed(runner: &Runner) -> (RunId, Outcome) {
    // A millisecond of the paused clock, in which the task of the driver ends.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    let run = runner.journal().runs().await.unwrap().remove(0).run;
    let outcome = runner.resume(&run).await.unwrap();
    (run, outcome)
}

pub(crate) fn runner(case: &DriverCase, outside: &LiveOutside) -> Runner {
    let models = Models::one(outside.model());
    let runner = Runner::new(case.setup.spec.clone(), outside.registry(), models);
    let rule = || Arc::new(Rule(outside.clone())) as Arc<dyn Validator>;
    let runner = match case.setup.spec.protocol.output() {
        Some(_) => runner.with_validators([rule()]),
        None => runner,
    };
    if case.setup.spec.save { runner.with_saver(Arc::new(InMemory)) } else { runner }
}

/// Answers what is asked from this entry on.
fn answer(case: &DriverCase, remote: &Remote, event: &RunEvent) {
    let RunEvent::Recorded(entry) = event else { return };
    for note in &entry.notes {
        let Note::ActionJudged(judged) = note else { continue };
        let answer = case.answers.iter().find(|(key, _)| judged.key.to_string() == *key);
        if let Some((_, answer)) = answer {
            remote.answer(judged.key, answer.clone());
        }
    }
}

/// How the run is told what is said to it on its way.
fn telling(outside: &LiveOutside, remote: &Remote) {
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
