//! Forks, retries and salvaged runs, driven for real: what the tools receive, what the journal holds, what a kill leaves.

use crate::common;

use common::world::{Log, Stage, answer, change, journal_of, look, says, unselected};
use loop_core::run::{NotTakenOver, PersonAnswer, Takeover};
use loop_core::spec::GateSettings;
use loop_core::types::Status;
use loop_core::{EventKind, RunSpec};
use loop_llm::{EventStream, LlmError, ModelRequest};
use loop_runtime::{
    Outcome, Runner, StopReason,
    journal::{Entry, Journal, JournalError, MemoryJournal, Recorded, replay},
    models::{ChatModel, Models},
    report::Report,
    run::{DriveResult, Forkable, Handle, RunId, StartError, Waiting},
    tools::{Effect, Registry, ToolContext, ToolDeclaration, ToolResult},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Looks at `a` and changes it in pass 1, changes `b` in pass 2, then is confident.
#[derive(Debug)]
struct ByPass;

#[async_trait::async_trait]
impl ChatModel for ByPass {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let text = match &*request.meta.key {
            "1/main" => answer("medium", &[look("a"), change("a")]),
            "2/main" => answer("medium", &[change("b")]),
            _ => answer("high", &[]),
        };
        Stage::new(&Log::new()).on("main", [says(text)]).stream(request).await
    }
}

/// Tools that say in the log what they were called with, and under which idempotency key.
fn tools(log: &Log) -> Registry {
    let declare = |name: &str, effect| {
        ToolDeclaration::new(name).description("Does it.").effect(effect).schema(
            json!({"type": "object", "required": ["target"], "properties": {"target": {"type": "string"}}}),
        )
    };
    let behave = |name: &'static str| {
        let log = log.clone();
        move |parameters: Value, context: ToolContext, _| {
            log.say(format!("{name}({}) {}", parameters["target"].as_str().unwrap(), context.key));
            async move { ToolResult::ok(name, "done", "It is done.", parameters) }
        }
    };
    Registry::builder()
        .tool_fn(declare("look", Effect::Read), behave("look"))
        .tool_fn(declare("change", Effect::WriteKeyed), behave("change"))
        .build()
        .unwrap()
}

fn spec(people: bool) -> RunSpec {
    let gate = GateSettings { people, approved: vec!["change".into()], ..unselected().gate };
    RunSpec { gate, ..unselected() }
}

fn runner(log: &Log, journal: &Arc<MemoryJournal>) -> Runner {
    let runner = Runner::new(spec(true), tools(log), Models::one(Arc::new(ByPass)));
    runner.with_journal(Arc::clone(journal) as Arc<dyn Journal>).leave_when_waiting()
}

async fn parent(log: &Log, journal: &Arc<MemoryJournal>) -> (Runner, Outcome, Recorded) {
    let runner = runner(log, journal);
    let outcome = runner.run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let recorded = journal.read(&outcome.run).await.unwrap();
    (runner, outcome, recorded)
}

/// The sequence number of the n-th entry of this kind.
fn entry(recorded: &Recorded, name: &str, nth: usize) -> u64 {
    recorded.entries.iter().filter(|entry| entry.event.kind.name() == name).nth(nth).unwrap().seq
}

async fn waits(handle: Handle) -> Waiting {
    match handle.driven().await {
        DriveResult::Waiting(waiting) => waiting,
        DriveResult::Ended(outcome) => panic!("it ended: {:?}", outcome.stop),
    }
}

fn approved(waiting: &Waiting) -> Vec<EventKind> {
    let approve = |it: &loop_core::run::PersonRequest| EventKind::PersonAnswered {
        key: it.key,
        answer: PersonAnswer::Approved,
        binding: Some(it.binding),
    };
    waiting.requested.iter().map(approve).collect()
}

#[tokio::test]
async fn an_effect_of_the_parent_runs_only_approved_and_under_its_key() {
    // I-6, I-26
    let (log, journal) = (Log::new(), Arc::new(MemoryJournal::new()));
    let (runner, of, recorded) = parent(&log, &journal).await;
    let before = log.lines().len();
    let at = entry(&recorded, "call_started", 1) - 1;
    let waiting = waits(runner.fork(&of.run, Some(at)).start().await.unwrap()).await;
    assert_eq!(log.lines().len(), before, "nothing has happened");
    assert_eq!(&*waiting.requested[0].tool, "change");
    let why = &waiting.requested[0].why;
    assert!(why.contains(&format!("run {} has started it already", of.run)), "{why}");
    let fork = waiting.outcome.run.clone();
    assert_ne!(fork, of.run);
    // The parent is as it was.
    assert_eq!(journal.read(&of.run).await.unwrap().entries, recorded.entries);
    let outcome = runner.resume_with(&fork, approved(&waiting)).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let lines = log.lines();
    let happened: Vec<&str> =
        lines[before..].iter().filter_map(|line| line.split("change(").nth(1)).collect();
    assert_eq!(happened, [format!("b) {}/2/action-0", of.run)]);
    // The report says what it continues.
    let forked = journal.read(&fork).await.unwrap();
    let EventKind::Started(started) = &forked.entries[0].event.kind else { panic!() };
    let report = Report::new(started, &outcome);
    let report = serde_json::to_value(&report).unwrap();
    let parent = &report["parent"];
    assert_eq!((&parent["run"], &parent["how"]), (&json!(of.run.to_string()), &json!("fork")));
    assert_eq!(parent["effects"][0]["key"], json!(format!("{}/2/action-0", of.run)));
    assert_eq!(parent["totals"]["passes"], 1);
    assert!(report["totals"]["passes"].as_u64().unwrap() > 1);
    // Its journal is enough to replay it (I-11).
    replay(&fork, &forked).unwrap();
}

#[tokio::test]
async fn a_fork_after_any_entry_replays_and_repeats_nothing_unasked() {
    // I-6, I-11, I-12
    let (log, journal) = (Log::new(), Arc::new(MemoryJournal::new()));
    let (runner, of, recorded) = parent(&log, &journal).await;
    let forkable = Forkable::of(&of.run, &recorded).unwrap();
    let mut forks = 0;
    for seq in 0..recorded.entries.len() as u64 {
        let done: Vec<String> = log.lines();
        let handle = match runner.fork(&of.run, Some(seq)).start().await {
            Ok(handle) => handle,
            Err(StartError::NotForked { entry, why, last, .. }) => {
                assert!(!forkable.entries.contains(&seq));
                assert_eq!((entry, why), (seq, NotTakenOver::Fixed));
                assert_eq!(last, forkable.entries.last().copied());
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        assert!(forkable.entries.contains(&seq));
        forks += 1;
        let fork = handle.id().clone();
        let mut driven = handle.driven().await;
        for _ in 0..5 {
            let DriveResult::Waiting(waiting) = driven else { break };
            driven = runner.resume_with(&fork, approved(&waiting)).start().await.unwrap().driven().await;
        }
        assert!(matches!(driven, DriveResult::Ended(_)), "after {seq}");
        // Each change was approved, and has the key that the parent used.
        let lines = log.lines();
        let changes: Vec<&String> =
            lines[done.len()..].iter().filter(|line| line.contains("change(")).collect();
        let stored = journal.read(&fork).await.unwrap();
        replay(&fork, &stored).unwrap();
        let is_yes = |entry: &&Entry| matches!(entry.event.kind, EventKind::PersonAnswered { .. });
        assert_eq!(changes.len(), stored.entries.iter().filter(is_yes).count(), "after {seq}: {changes:?}");
        let is_parents = |line: &&String| line.contains(&format!(" {}/", of.run));
        assert!(changes.iter().all(is_parents), "after {seq}: {changes:?}");
    }
    assert!(forks >= 8, "{forks}");
    let error = runner.fork(&of.run, Some(99)).start().await.unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("has no entry 99: the last one is {}", recorded.entries.len() - 1)),
        "{error}"
    );
}

#[tokio::test]
async fn a_fork_that_is_cut_off_after_any_entry_is_resumed() {
    // H1, I-12, I-13: the journal of the fork is enough.
    let (log, journal) = (Log::new(), Arc::new(MemoryJournal::new()));
    let (runner, of, _) = parent(&log, &journal).await;
    let waiting = waits(runner.fork(&of.run, Some(0)).start().await.unwrap()).await;
    let fork = waiting.outcome.run.clone();
    let mut driven = DriveResult::Waiting(waiting);
    while let DriveResult::Waiting(waiting) = driven {
        driven = runner.resume_with(&fork, approved(&waiting)).start().await.unwrap().driven().await;
    }
    let DriveResult::Ended(straight) = driven else { panic!() };
    let recorded = journal.read(&fork).await.unwrap();
    for kept in 1..=recorded.entries.len() {
        let cut = journal_of(&recorded, &recorded.entries[..kept]).await;
        let again = runner.clone().with_journal(Arc::clone(&cut) as Arc<dyn Journal>);
        let mut driven = again.resume(&fork).start().await.unwrap().driven().await;
        while let DriveResult::Waiting(waiting) = driven {
            driven = again.resume_with(&fork, approved(&waiting)).start().await.unwrap().driven().await;
        }
        let DriveResult::Ended(outcome) = driven else { panic!() };
        assert_eq!(outcome.stop.reason(), straight.stop.reason(), "after {kept}");
        assert_eq!(outcome.document.to_markdown(), straight.document.to_markdown(), "after {kept}");
        replay(&fork, &cut.read(&fork).await.unwrap()).unwrap();
    }
}

#[tokio::test]
async fn a_fork_follows_other_settings_where_no_call_is_open() {
    let (log, journal) = (Log::new(), Arc::new(MemoryJournal::new()));
    let (runner, of, recorded) = parent(&log, &journal).await;
    let mut other = (**runner.spec()).clone();
    other.limits.passes = 2;
    let other = Runner::new(other, tools(&log), Models::one(Arc::new(ByPass)));
    let other = other.with_journal(Arc::clone(&journal) as Arc<dyn Journal>).leave_when_waiting();
    let at = entry(&recorded, "model_replied", 0);
    let error = other.fork(&of.run, Some(at)).start().await.unwrap_err();
    let is_it = matches!(&error, StartError::NotForked { why: NotTakenOver::Admitted, last: Some(0), .. });
    assert!(is_it, "{error}");
    let waiting = waits(other.fork(&of.run, Some(0)).start().await.unwrap()).await;
    let outcome = other.resume_with(&waiting.outcome.run, approved(&waiting)).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::MaxPasses);
}

#[tokio::test]
async fn a_retry_knows_what_was_found_and_done() {
    let (log, journal) = (Log::new(), Arc::new(MemoryJournal::new()));
    let (runner, of, _) = parent(&log, &journal).await;
    let before = log.lines().len();
    let handle = runner.retry(&of.run).start().await.unwrap();
    let started = Arc::clone(handle.started());
    let parent = started.parent.as_deref().unwrap();
    assert_eq!((parent.how, parent.effects.len()), (Takeover::Retry, 2));
    assert_ne!(started.nonce, parent_nonce(&journal, &of.run).await);
    let DriveResult::Ended(outcome) = handle.driven().await else { panic!() };
    // All that its model asks for was found and done.
    assert_eq!(log.lines().len(), before);
    assert_eq!(outcome.evidence.len(), of.evidence.len());
    assert_eq!(outcome.totals.tool_calls, 0);
    let verdicts: Vec<&str> = outcome.actions.iter().map(|action| action.verdict.name()).collect();
    assert_eq!(verdicts, ["duplicate", "duplicate"]);
    // It is over, and a retry of it knows the same.
    let again = runner.retry(&outcome.run).await.unwrap();
    assert_eq!(again.evidence.len(), of.evidence.len());
    let error = runner.retry(&RunId::new("none")).start().await.unwrap_err();
    assert!(matches!(error, StartError::Journal(JournalError::Unknown { .. })), "{error}");
}

async fn parent_nonce(journal: &MemoryJournal, run: &RunId) -> Arc<str> {
    let recorded = journal.read(run).await.unwrap();
    let EventKind::Started(started) = &recorded.entries[0].event.kind else { panic!() };
    Arc::clone(&started.nonce)
}

/// The first entries of a run, as a damaged journal is read.
fn prefix(recorded: &Recorded, length: usize) -> Recorded {
    Recorded { entries: recorded.entries[..length].to_vec(), ..recorded.clone() }
}

#[tokio::test]
async fn a_salvaged_run_continues_what_could_be_read() {
    // H3
    let (log, journal) = (Log::new(), Arc::new(MemoryJournal::new()));
    let (runner, of, recorded) = parent(&log, &journal).await;
    let at = entry(&recorded, "tool_started", 0) as usize;
    let before = log.lines().len();
    // `change(a)` was in flight as the good part ends.
    let handle = runner.salvage(&of.run, prefix(&recorded, at + 1), true).start().await.unwrap();
    let parent = handle.started().parent.clone().unwrap();
    assert_eq!((parent.how, parent.entries, parent.lost), (Takeover::Salvage, at as u64 + 1, true));
    let waiting = waits(handle).await;
    let salvaged = waiting.outcome.run.clone();
    let doubtful = waiting.outcome.evidence.iter().find(|it| &*it.tool == "change").unwrap();
    assert_eq!(doubtful.observation.status, Status::InDoubt);
    // The change of `b` was never seen, and may have happened.
    let why = &waiting.requested[0].why;
    assert!(why.contains("may have made it already"), "{why}");
    assert!(!log.lines()[before..].iter().any(|line| line.contains("change(")));
    let outcome = runner.resume_with(&salvaged, approved(&waiting)).await.unwrap();
    assert_eq!(outcome.stop.class.name(), "in_doubt");
    // An entry that does not follow ends the good part, and what came after it is lost.
    let mut broken = prefix(&recorded, at + 1);
    broken.entries.push(Entry { seq: at as u64 + 1, ..recorded.entries[1].clone() });
    let handle = runner.salvage(&of.run, broken, false).start().await.unwrap();
    let parent = handle.started().parent.clone().unwrap();
    assert_eq!((parent.entries, parent.lost), (at as u64 + 1, true));
    drop(handle);
    // A run that is over is not continued.
    let error = runner.salvage(&of.run, recorded.clone(), false).start().await.unwrap_err().to_string();
    assert!(error.contains("nothing is left to continue; retry it or fork it"), "{error}");
}

#[tokio::test]
async fn of_a_run_that_still_waits_every_write_of_a_fork_needs_an_approval() {
    let (log, journal) = (Log::new(), Arc::new(MemoryJournal::new()));
    let (runner, of, recorded) = parent(&log, &journal).await;
    let at = entry(&recorded, "tool_finished", 0) as usize;
    let open = journal_of(&recorded, &recorded.entries[..=at]).await;
    let runner = runner.with_journal(Arc::clone(&open) as Arc<dyn Journal>);
    let waiting = waits(runner.fork(&of.run, Some(0)).start().await.unwrap()).await;
    let why = &waiting.requested[0].why;
    assert!(why.contains("may still make it") || why.contains("has started it already"), "{why}");
    let error = runner.retry(&of.run).start().await.unwrap_err().to_string();
    assert!(error.contains("it is not over; resume it, or fork it"), "{error}");
    // The time of a fork continues from that of its parent.
    let fork = open.read(&waiting.outcome.run).await.unwrap();
    let first = fork.entries[0].event.at;
    assert!(fork.now() >= first && fork.now() < first.plus(60_000), "{:?} {first:?}", fork.now());
}
