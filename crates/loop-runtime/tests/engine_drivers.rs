//! A run that an engine drives against the suite that every driver passes: results go in, work comes out, and a process that
//! is gone is replaced by one that has the recorded facts alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loop_core::types::Millis;
use loop_core::{Event, EventKind};
use loop_runtime::{
    Runner,
    engine::{EngineRun, EngineWork, Projection, RunMessage, Settlement, WorkKey},
    run::{CancellationToken, RunId},
};
use loop_testkit::drivers::{DriverCase, DriverClock, DriverRecord, RunDriver, conform, live::LiveOutside};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::drivers::{record, runner};

/// An engine in memory.
#[derive(Clone, Copy, Debug)]
enum EngineInMemory {
    /// The process keeps the run.
    Keeps,
    /// Before each result the run is decided anew from its first event, as by a process that has just begun.
    Replays,
}

impl RunDriver for EngineInMemory {
    fn name(&self) -> &'static str {
        match self {
            Self::Keeps => "engine in memory",
            Self::Replays => "engine in memory, replayed before each result",
        }
    }

    fn drive(&self, case: &DriverCase) -> DriverRecord {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(driven(*self, case))
    }
}

/// What an engine keeps of a run.
#[derive(Clone)]
enum Fact {
    Settled(Settlement),
    Said(u64, RunMessage),
    Deadline(Millis),
}

/// What an engine has of a run, and the run as a process has it.
struct EngineCopy {
    runner: Runner,
    first: Event,
    facts: Vec<Fact>,
    run: EngineRun,
    projection: Projection,
}

impl EngineCopy {
    async fn begin(runner: &Runner, first: Event) -> Self {
        let run = EngineRun::open(runner, first.clone(), None).unwrap();
        let projection = Projection::open(runner, &run).await.unwrap();
        Self { runner: runner.clone(), first, facts: Vec::new(), run, projection }
    }

    /// Decides what follows, and writes the entries first.
    async fn follow(&mut self) -> (Vec<EngineWork>, Vec<WorkKey>) {
        let step = self.run.step().unwrap();
        self.projection.write(&mut self.run).await.unwrap();
        (step.start, step.abort)
    }

    fn take(&mut self, fact: Fact) {
        self.facts.push(fact.clone());
        match fact {
            Fact::Settled(settled) => self.run.settle(settled).unwrap(),
            Fact::Said(unix_ms, message) => drop(self.run.hear(unix_ms, message).unwrap()),
            Fact::Deadline(deadline) => self.run.deadline_reached(deadline).unwrap(),
        }
    }

    /// The same in another process, which has the first event, the facts and the journal.
    async fn replayed(self) -> Self {
        let Self { runner, first, facts, run, projection } = self;
        // The writer is one process's.
        drop((run, projection));
        let mut anew = Self::begin(&runner, first).await;
        for fact in facts {
            anew.follow().await;
            anew.take(fact);
        }
        anew
    }
}

async fn driven(engine: EngineInMemory, case: &DriverCase) -> DriverRecord {
    let outside = LiveOutside::new(case);
    let runner = runner(case, &outside);
    let first = runner.first_event("memory", RunId::new("r1"), case.setup.item.clone()).unwrap();
    let EventKind::Started(started) = &first.kind else { panic!("{first:?}") };
    let (unix_ms, began) = (started.unix_ms, Instant::now());
    let now = move || unix_ms + u64::try_from(began.elapsed().as_millis()).unwrap();
    let (says, mut said) = mpsc::unbounded_channel();
    outside.telling(Box::new(move |kind| {
        let message = match kind {
            EventKind::StopRequested { how } => RunMessage::Stop(*how),
            EventKind::Instruction { text } => RunMessage::Tell(Arc::clone(text)),
            other => panic!("not said to a run: {other:?}"),
        };
        says.send(message).unwrap();
    }));
    let mut kept = EngineCopy::begin(&runner, first).await;
    let mut answers = case.answers.clone();
    let mut works: JoinSet<Settlement> = JoinSet::new();
    let mut in_flight: BTreeMap<WorkKey, CancellationToken> = BTreeMap::new();
    loop {
        let (start, abort) = kept.follow().await;
        if kept.run.is_done() {
            // The whole run once more: each decision is compared with the journal.
            let mut kept = kept.replayed().await;
            kept.follow().await;
            let outcome = kept.run.outcome().unwrap().clone();
            return record(&runner, &RunId::new("r1"), outcome).await;
        }
        for of in abort {
            in_flight[&of].cancel();
        }
        for work in start {
            let (runner, cancel) = (runner.clone(), CancellationToken::new());
            in_flight.insert(work.key(), cancel.clone());
            works.spawn(async move {
                let mut settled = runner.perform(work, cancel).await;
                settled.unix_ms = now();
                settled
            });
        }
        let waiting = kept.run.status().waiting;
        let is_asked = |key: &str| waiting.iter().any(|open| open.key.to_string() == key);
        if let Some(at) = answers.iter().position(|(key, _)| is_asked(key)) {
            let (key, answer) = answers.remove(at);
            let message = RunMessage::Answer { key: key.parse().unwrap(), answer, binding: None };
            kept.take(Fact::Said(now(), message));
            continue;
        }
        let deadline = kept.run.deadline().map(|(_, deadline)| deadline);
        let due = began + Duration::from_millis(deadline.unwrap_or_default().0);
        let fact = tokio::select! {
            biased;
            Some(settled) = works.join_next() => Fact::Settled(settled.unwrap()),
            Some(message) = said.recv() => Fact::Said(now(), message),
            () = tokio::time::sleep_until(due), if deadline.is_some() => Fact::Deadline(deadline.unwrap()),
            () = outside.dies() => {
                works = JoinSet::new();
                kept = kept.replayed().await;
                for (of, _) in std::mem::take(&mut in_flight) {
                    kept.follow().await;
                    kept.take(Fact::Settled(Settlement::lost(of, 0)));
                }
                continue;
            }
        };
        if let Fact::Settled(settled) = &fact {
            in_flight.remove(&settled.of);
        }
        if matches!(engine, EngineInMemory::Replays) {
            kept = kept.replayed().await;
            // What was commanded before is in flight already.
            kept.follow().await;
        }
        kept.take(fact);
    }
}

#[test]
fn an_engine_drives_as_recursion_over_the_core_does() {
    // Issue 20, part 2; I-12
    conform(&EngineInMemory::Keeps, DriverClock::Virtual);
}

#[test]
fn an_engine_that_replays_before_each_result_drives_as_recursion_over_the_core_does() {
    // Issue 20, part 2; I-12: the decisions follow from the recorded facts alone.
    conform(&EngineInMemory::Replays, DriverClock::Virtual);
}
