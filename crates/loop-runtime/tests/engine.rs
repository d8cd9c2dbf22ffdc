//! A run that an engine drives: results in any process, replays, lost calls, and the same journal as on one machine.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::common;

use common::world::{Log, Stage, answer, change, look, says, selections, tools_declared, unselected};
use loop_core::run::{PersonAnswer, Program, RunTool, StopMode};
use loop_core::types::{Approver, CommandKey, Digest, Millis};
use loop_core::{Event, EventKind, Run};
use loop_runtime::{
    Outcome, RunSpec, Runner, StopReason,
    engine::{
        EngineRun, EngineRunError, EngineWork, MessageReceipt, Projection, RunMessage, Settlement, WorkKey,
    },
    journal::{Entry, MemoryJournal, ReplayError},
    models::Models,
    observe::{Observer, RunEvent},
    run::{CancellationToken, RunId, StartError, expire},
    tools::{Effect, ToolDeclaration},
};
use serde_json::Value;

/// What an engine keeps of a run.
#[derive(Clone)]
enum Fact {
    Settled(String),
    Said(u64, RunMessage),
    Deadline,
}

/// An engine in memory: it records facts, and replays them whenever it is told to.
struct Engine {
    runner: Runner,
    first: Event,
    facts: Vec<Fact>,
}

impl Engine {
    fn new(runner: &Runner, first: &Event) -> Self {
        let runner = runner.clone().with_journal(Arc::new(MemoryJournal::new()));
        Self { runner, first: first.clone(), facts: Vec::new() }
    }

    /// The run after all that is known, and the work that it is at.
    async fn replayed(&self) -> Result<(EngineRun, Vec<EngineWork>, Projection), EngineRunError> {
        let mut run = EngineRun::open(&self.runner, self.first.clone(), None)?;
        let mut projection = Projection::open(&self.runner, &run).await?;
        let mut open: Vec<EngineWork> = Vec::new();
        for fact in self.facts.iter().map(Some).chain([None]) {
            let step = run.step()?;
            projection.write(&mut run).await?;
            open.extend(step.start);
            match fact {
                Some(Fact::Settled(text)) => {
                    let settled: Settlement = serde_json::from_str(text).unwrap();
                    open.retain(|work| work.key() != settled.of);
                    run.settle(settled)?;
                }
                Some(Fact::Said(at, message)) => drop(run.hear(*at, message.clone())?),
                Some(Fact::Deadline) => {
                    let (_, deadline) = run.deadline().unwrap();
                    run.deadline_reached(deadline)?;
                }
                None => {}
            }
        }
        Ok((run, open, projection))
    }

    /// Makes one piece of work, as another process would: it gets it as text and gives text back.
    async fn make(&mut self, work: &EngineWork) {
        let work: EngineWork = serde_json::from_str(&serde_json::to_string(work).unwrap()).unwrap();
        let settled = self.runner.perform(work, CancellationToken::new()).await;
        self.facts.push(Fact::Settled(serde_json::to_string(&settled).unwrap()));
    }

    fn lose(&mut self, of: WorkKey) {
        let text = serde_json::to_string(&Settlement::lost(of, 0)).unwrap();
        self.facts.push(Fact::Settled(text));
    }

    /// Drives to the end, replaying all before each result.
    async fn drive(&mut self) -> Outcome {
        for _ in 0..200 {
            let (run, open, _) = self.replayed().await.unwrap();
            if let Some(outcome) = run.outcome() {
                return outcome.clone();
            }
            match open.first() {
                Some(work) => self.make(work).await,
                None => self.facts.push(Fact::Deadline),
            }
        }
        panic!("it does not end");
    }

    async fn entries(&self, run: &RunId) -> Vec<Entry> {
        self.runner.journal().read(run).await.unwrap().entries
    }
}

/// Entries without the instants and durations of a process.
fn timeless(entries: &[Entry]) -> Vec<Value> {
    entries.iter().map(|entry| loop_testkit::timeless(serde_json::to_value(entry).unwrap())).collect()
}

fn busy(log: &Log) -> Runner {
    let first = answer("medium", &[look("ok-1"), look("fail"), change("kept"), look("ok-2")]);
    let stage = Stage::new(log)
        .on("select", [says(selections(&["ok-9"]))])
        .on("main", [says(first), says(answer("high", &[]))]);
    played(common::spec(), log, stage)
}

/// A loop whose write runs without a person, and is not repeated.
fn played(mut spec: RunSpec, log: &Log, stage: Stage) -> Runner {
    spec.gate.approved = vec!["change".into()];
    let irreversible = |declaration: ToolDeclaration| match &*declaration.name {
        "change" => declaration.effect(Effect::WriteIrreversible),
        _ => declaration,
    };
    Runner::new(spec, tools_declared(log, irreversible), Models::one(Arc::new(stage)))
}

/// The run on one machine: its outcome, its entries.
async fn local(runner: &Runner) -> (Outcome, Vec<Entry>) {
    let outcome = runner.run(common::item()).await.unwrap();
    let entries = runner.journal().read(&outcome.run).await.unwrap().entries;
    (outcome, entries)
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_replays_before_each_step_leaves_the_journal_of_one_machine() {
    // I-12, I-13: the same entries and decisions, each once.
    let (outcome, entries) = local(&busy(&Log::new())).await;
    let mut engine = Engine::new(&busy(&Log::new()), &entries[0].event);
    let same = engine.drive().await;
    assert_eq!(timeless(&engine.entries(&outcome.run).await), timeless(&entries));
    assert_eq!((same.document.to_markdown(), same.stop), (outcome.document.to_markdown(), outcome.stop));
    assert_eq!((same.totals.cost, same.totals.usage), (outcome.totals.cost, outcome.totals.usage));
    assert!(entries.len() > 10, "{}", entries.len());
}

/// What an observer was told, besides the entries.
#[derive(Debug, Default)]
struct Heard {
    entries: Mutex<Vec<u64>>,
    /// The tools that were dispatched.
    tools: Mutex<Vec<String>>,
    /// The entries that the journal had whenever a driver began, and those that it had when it left.
    drives: Mutex<Vec<(usize, Option<u64>)>>,
}

impl Observer for Heard {
    fn observe(&self, _: &RunId, event: &RunEvent) {
        if let RunEvent::Recorded(entry) = event {
            self.entries.lock().unwrap().push(entry.seq);
        }
    }

    fn drives(&self, _: &Run, earlier: &[Entry]) {
        self.drives.lock().unwrap().push((earlier.len(), None));
    }

    fn dispatches(&self, _: &RunId, call: &RunTool, key: &Arc<str>, _: Millis) {
        self.tools.lock().unwrap().push(format!("{} {}", call.tool, key.rsplit_once('/').unwrap().1));
    }

    fn leaves(&self, _: &RunId, next: u64) {
        self.drives.lock().unwrap().last_mut().unwrap().1 = Some(next);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_each_entry_once_however_often_the_run_is_replayed() {
    // I-12, U8
    let on_one_machine = Arc::new(Heard::default());
    let observed = |runner: Runner, heard: &Arc<Heard>| runner.with_observer(Arc::clone(heard) as _);
    let (_, entries) = local(&observed(busy(&Log::new()), &on_one_machine)).await;
    let heard = Arc::new(Heard::default());
    let mut engine = Engine::new(&observed(busy(&Log::new()), &heard), &entries[0].event);
    engine.drive().await;
    engine.runner.observers_caught_up().await;
    assert_eq!(*heard.entries.lock().unwrap(), (0..entries.len() as u64).collect::<Vec<_>>());
    // A process that continues is told of the calls that are in flight.
    let called = |heard: &Heard| heard.tools.lock().unwrap().iter().cloned().collect::<BTreeSet<String>>();
    assert_eq!(called(&heard), called(&on_one_machine));
    // Each process that wrote something began behind what there was, and left behind what it wrote.
    let drives = heard.drives.lock().unwrap().clone();
    assert!(drives.len() > 4, "{drives:?}");
    let mut at = 0;
    for (earlier, left) in drives {
        assert_eq!(earlier as u64, at);
        at = left.unwrap();
    }
    assert_eq!(at, entries.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_lost_call_is_repeated_and_a_lost_write_is_in_doubt() {
    // H1, I-12: as a driver that resumes.
    let (_, entries) = local(&busy(&Log::new())).await;
    let log = Log::new();
    let mut engine = Engine::new(&busy(&log), &entries[0].event);
    let mut lost = BTreeSet::new();
    let outcome = loop {
        let (run, open, _) = engine.replayed().await.unwrap();
        if let Some(outcome) = run.outcome() {
            break outcome.clone();
        }
        let work = open.first().unwrap();
        let of = work.key();
        // Each is lost at its first try.
        if of.attempt == 1 && lost.insert(of) { engine.lose(of) } else { engine.make(work).await }
    };
    let entries = engine.entries(&outcome.run).await;
    let resumed = entries.iter().filter(|entry| matches!(entry.event.kind, EventKind::Resumed { .. }));
    assert!(resumed.count() >= 4, "{:#?}", timeless(&entries));
    // Nothing of it is lost by the decisions: they follow from the entries.
    let recorded = engine.runner.journal().read(&outcome.run).await.unwrap();
    assert!(loop_runtime::journal::replay(&outcome.run, &recorded).is_ok());
    // The write has no key: it may have been made, and is not made again.
    let doubt = outcome.stop.also.iter().chain([&outcome.stop.primary]);
    assert!(doubt.into_iter().any(|it| it.reason == StopReason::InDoubt), "{:?}", outcome.stop);
    assert_eq!(log.count("tool change"), 0, "{:?}", log.lines());
    assert_eq!(log.count("tool look(ok-1)"), 1, "{:?}", log.lines());
}

#[tokio::test(start_paused = true)]
async fn one_that_decides_otherwise_is_told_so_and_writes_nothing() {
    // I-12: a journal that another program wrote is never continued by guessing.
    let (outcome, entries) = local(&busy(&Log::new())).await;
    let mut engine = Engine::new(&busy(&Log::new()), &entries[0].event);
    engine.drive().await;
    let written = engine.entries(&outcome.run).await;
    // The same facts, but the first reply is another one.
    let stage = Stage::new(&Log::new())
        .on("select", [says(selections(&["ok-7"]))])
        .on("main", [says(answer("high", &[]))]);
    let other = played(common::spec(), &Log::new(), stage);
    let journal = Arc::clone(engine.runner.journal());
    let mut other =
        Engine { runner: other.with_journal(journal), first: engine.first.clone(), facts: vec![] };
    let (_, open, _) = other.replayed().await.unwrap();
    other.make(&open[0]).await;
    let error = other.replayed().await.unwrap_err();
    assert!(matches!(error, EngineRunError::Diverged { .. }), "{error}");
    assert!(error.to_string().contains("was decided otherwise"), "{error}");
    assert_eq!(engine.entries(&outcome.run).await, written);
}

#[tokio::test]
async fn a_run_is_not_continued_with_other_tools_or_settings() {
    let (_, entries) = local(&busy(&Log::new())).await;
    let other = played(unselected(), &Log::new(), Stage::new(&Log::new()));
    let error = EngineRun::open(&other, entries[0].event.clone(), None).unwrap_err();
    assert!(matches!(error, EngineRunError::Start(StartError::Changed { what: "settings", .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_cancels_what_is_in_flight() {
    // S2-49
    let (_, entries) = local(&busy(&Log::new())).await;
    let mut engine = Engine::new(&busy(&Log::new()), &entries[0].event);
    let (run, open, _) = engine.replayed().await.unwrap();
    let of = open[0].key();
    assert!(run.is_working() && run.status().phase == "selection", "{:?}", run.status());
    engine.facts.push(Fact::Said(0, RunMessage::Stop(StopMode::Now)));
    let (mut run, _, _) = engine.replayed().await.unwrap();
    assert!(run.step().unwrap().abort.is_empty(), "it was told before");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let settled = engine.runner.perform(open[0].clone(), cancel).await;
    assert_eq!(settled.of, of);
    engine.facts.push(Fact::Settled(serde_json::to_string(&settled).unwrap()));
    let (run, _, _) = engine.replayed().await.unwrap();
    assert_eq!(run.outcome().unwrap().stop.reason(), StopReason::ManualStop);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_says_to_a_run_counts_or_is_kept_or_is_refused_with_the_reason() {
    // M2, K8, I-26: no decision vanishes.
    let log = Log::new();
    let first = answer("low", &[look("ok-1"), change("ok-2"), change("ok-3")]);
    let stage = Stage::new(&log).on("main", [says(first), says(answer("high", &[]))]);
    let models = Models::one(Arc::new(stage));
    let runner = Runner::new(unselected(), tools_declared(&log, |it| it), models).with_people();
    let first = runner.first_event("restate", RunId::new("r1"), common::item()).unwrap();
    let mut engine = Engine::new(&runner, &first);
    let (run, open, _) = engine.replayed().await.unwrap();
    let by = Approver { account: "token ana".into(), user: "ana".into(), claim: None };
    let [one, two] = ["1/action-1", "1/action-2"].map(|key| key.parse::<CommandKey>().unwrap());
    let approve = |key, binding| RunMessage::Approve { key, by: by.clone(), binding };
    let refused = |receipt, why: &str| match receipt {
        MessageReceipt::Refused { why: said } => assert!(said.contains(why), "{said}"),
        other => panic!("{why}: {other:?}"),
    };
    let hears = async |engine: &Engine, message: &RunMessage| {
        let (mut run, _, _) = engine.replayed().await.unwrap();
        run.hear(0, message.clone()).unwrap()
    };
    let any = Digest::of("any", b"");
    refused(hears(&engine, &approve(one, any)).await, "no such action");
    refused(hears(&engine, &RunMessage::Tell(" ".into())).await, "empty");
    assert!(run.status().waiting.is_empty());
    engine.make(&open[0]).await;

    // The actions are judged, and a read of the pass still runs.
    let (run, open, _) = engine.replayed().await.unwrap();
    assert_eq!((run.status().waiting.len(), open.len()), (0, 1));
    let recorded = engine.runner.journal().read(run.id()).await.unwrap();
    let state = loop_runtime::journal::replay(run.id(), &recorded).unwrap();
    let [first, second] = [one, two].map(|key| state.binding(&key).unwrap());
    refused(hears(&engine, &approve(one, any)).await, "something else");
    let text = PersonAnswer::Answered { text: "yes".into() };
    let text = RunMessage::Answer { key: one, answer: text, binding: Some(first) };
    refused(hears(&engine, &text).await, "not a question");
    let denied = PersonAnswer::Denied { why: "not this one".into() };
    let denied = RunMessage::Answer { key: two, answer: denied, binding: Some(second) };
    for message in [approve(one, first), denied] {
        assert_eq!(hears(&engine, &message).await, MessageReceipt::Kept);
        engine.facts.push(Fact::Said(0, message));
    }
    // Of what is said about an action so much is kept, and what was said already is not kept twice.
    let known = engine.facts.len();
    let others = (0..63).map(|n| PersonAnswer::Denied { why: format!("no, {n}").into() });
    let other = |answer| RunMessage::Answer { key: one, answer, binding: Some(first) };
    engine.facts.extend(others.map(|answer| Fact::Said(0, other(answer))));
    let more = other(PersonAnswer::Denied { why: "once more".into() });
    refused(hears(&engine, &more).await, "not asked about yet");
    assert_eq!(hears(&engine, &approve(one, first)).await, MessageReceipt::Kept);
    engine.facts.truncate(known);
    // Nobody is asked again.
    engine.make(&open[0]).await;
    let outcome = engine.drive().await;
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    assert_eq!(["ok-2", "ok-3"].map(|what| log.count(&format!("tool change({what})"))), [1, 0]);
    refused(hears(&engine, &RunMessage::Stop(StopMode::Now)).await, "stopped");
}

#[tokio::test(start_paused = true)]
async fn a_run_of_an_engine_is_not_continued_from_its_journal() {
    // I-11, I-12: an entry that the engine does not know would be decided otherwise at its next replay.
    let log = Log::new();
    let stage = Stage::new(&log)
        .on("select", [says(selections(&["ok-9"]))])
        .on("main", [says(answer("medium", &[change("kept")]))]);
    let models = Models::one(Arc::new(stage));
    let runner = Runner::new(common::spec(), tools_declared(&log, |it| it), models).with_people();
    let mut first = runner.first_event("restate", RunId::new("r1"), common::item()).unwrap();
    // It began long ago, so that the time to answer is over.
    if let EventKind::Started(started) = &mut first.kind {
        started.unix_ms = 1;
    }
    let mut engine = Engine::new(&runner, &first);
    loop {
        let (run, open, _) = engine.replayed().await.unwrap();
        if !run.status().waiting.is_empty() {
            break;
        }
        let mut settled = engine.runner.perform(open[0].clone(), CancellationToken::new()).await;
        settled.unix_ms = 1;
        engine.facts.push(Fact::Settled(serde_json::to_string(&settled).unwrap()));
    }
    let run = RunId::new("r1");
    let before = engine.entries(&run).await;
    let stop = EventKind::StopRequested { how: StopMode::Now };
    for refused in [
        engine.runner.resume(&run).await.map(drop),
        engine.runner.note_down(&run, [stop]).await.map(drop),
        expire(&**engine.runner.journal(), &run).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, StartError::Replay(ReplayError::OnEngine { engine, .. }) if &**engine == "restate"),
            "{error}"
        );
    }
    assert_eq!(engine.entries(&run).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_a_newer_program_began_is_left_to_it() {
    // Issue 20, part 5: no entry is written, and the engine tries another worker.
    let newer = Program { name: "loopgate 9.0.0".into(), decisions: 99 };
    let runner = busy(&Log::new());
    let by_newer = runner.clone().acting_as(newer);
    let first = by_newer.first_event("restate", RunId::new("r1"), common::item()).unwrap();
    let error = EngineRun::open(&runner, first.clone(), None).unwrap_err();
    let is_it = matches!(&error, EngineRunError::Start(error) if error.is_of_another_version());
    assert!(is_it && error.to_string().contains("loopgate 9.0.0"), "{error}");
    assert!(EngineRun::open(&by_newer, first, None).is_ok());
}
