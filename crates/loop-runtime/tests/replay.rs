//! A recorded run is replayed: the same decisions, the same prompts, and what its tools return today.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::world::journal_of;
use loop_core::EventKind;
use loop_core::spec::ModelSpec;
use loop_inspect::replay::{Replay, ReplayDepth, WhyNotCalled};
use loop_prompts::{Layout, Prompts};
use loop_runtime::journal::{Recorded, replay};
use loop_runtime::models::{Models, Offline, Scripted};
use loop_runtime::people::PersonAnswer;
use loop_runtime::run::{DriveResult, RunId};
use loop_runtime::tools::{Effect, Registry, ToolDeclaration, ToolPolicy, ToolResult};
use loop_runtime::{RunSpec, Runner, WorkItem};
use serde_json::json;

/// The run is equal at depth `prompts`, however its driver was taken away.
async fn renders_again(runner: &Runner, straight: &RunId) {
    let recorded = runner.journal().read(straight).await.unwrap();
    for kept in 1..=recorded.entries.len() {
        let journal = journal_of(&recorded, &recorded.entries[..kept]).await;
        let again = runner.clone().with_journal(journal.clone());
        again.resume(straight).start().await.unwrap().wait().await;
        let resumed = again.journal().read(straight).await.unwrap();
        let found = Replay::with(runner, straight, &resumed, ReplayDepth::Prompts).await.unwrap();
        assert!(found.equal, "after {kept} entries: {found:#?}");
        let announced = resumed.entries.iter().filter(|it| {
            matches!(it.event.kind, EventKind::CallStarted { .. } | EventKind::CallRefused { .. })
        });
        assert_eq!(found.prompts.unwrap().rendered as usize, announced.count());
    }
}

#[tokio::test]
async fn the_prompts_of_a_run_are_rendered_again_byte_by_byte() {
    // S4-55, I-11, I-12
    let runner = common::runner(Offline::new());
    let outcome = runner.run(common::item()).await.unwrap();
    renders_again(&runner, &outcome.run).await;
    let (runner, run) = rebooted().await;
    renders_again(&runner, &run).await;
}

#[tokio::test]
async fn other_templates_give_other_prompts() {
    let runner = common::runner(Offline::new());
    let outcome = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let other = runner
        .with_prompts(Arc::new(Prompts::with_overrides(std::iter::empty(), Layout::SystemEvidence).unwrap()));
    let found = Replay::with(&other, &outcome.run, &recorded, ReplayDepth::Prompts).await.unwrap();
    let prompts = found.prompts.unwrap();
    assert!(!found.equal && found.decisions.is_empty());
    // The prompt of the selection has no layout.
    assert_eq!(prompts.different.len() as u32, prompts.rendered - 1, "{prompts:#?}");
    let first = &prompts.different[0];
    assert_eq!((first.call.as_str(), first.attempt), ("1/main", 1));
    assert!(first.bytes.is_some_and(|bytes| bytes != first.recorded_bytes), "{first:?}");
}

#[tokio::test]
async fn an_entry_that_is_decided_otherwise_is_named_with_both_decisions() {
    // S4-55, I-11
    let runner = common::runner(Offline::new());
    let outcome = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    assert!(Replay::of(&outcome.run, &recorded).unwrap().equal);
    let gated = recorded.entries.iter().position(|entry| entry.notes.len() > 1).unwrap();
    let mut other = recorded.clone();
    let taken = other.entries[gated].notes.pop().unwrap();
    assert!(replay(&outcome.run, &other).is_err());
    let found = Replay::of(&outcome.run, &other).unwrap();
    let [decision] = found.decisions.as_slice() else { panic!("{:#?}", found.decisions) };
    assert_eq!((found.equal, decision.entry, decision.rejected.as_ref()), (false, gated as u64, None));
    assert_eq!(decision.now.last(), Some(&serde_json::to_value(&taken).unwrap()));
    assert_eq!(decision.now.len(), decision.recorded.len() + 1);

    // An entry that cannot follow ends the replay.
    let mut other = recorded;
    other.entries.remove(2);
    let found = Replay::of(&outcome.run, &other).unwrap();
    let last = found.decisions.last().unwrap();
    assert!(!found.equal && last.rejected.is_some() && last.entry == 3, "{:#?}", found.decisions);
}

/// A conversation that reads twice, and reboots with a person's consent. Each read returns another count.
async fn rebooted() -> (Runner, RunId) {
    rebooted_by(Arc::default()).await
}

async fn rebooted_by(reboots: Arc<AtomicU32>) -> (Runner, RunId) {
    let runner = desk(Arc::default(), reboots);
    let item = WorkItem::new("T-1", "ticket", "It hangs", "Reboot it.");
    let DriveResult::Waiting(waiting) = runner.run(item).start().await.unwrap().driven().await else {
        panic!()
    };
    let requested = &waiting.requested[0];
    let (key, binding) = (requested.key, Some(requested.binding));
    let yes = EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, binding };
    let outcome = runner.resume_with(&waiting.outcome.run, [yes]).await.unwrap();
    assert_eq!(outcome.answer.as_deref(), Some("Done."), "{outcome:#?}");
    (runner, outcome.run)
}

fn desk(reads: Arc<AtomicU32>, reboots: Arc<AtomicU32>) -> Runner {
    let counted = move |tool: &'static str, count: &AtomicU32| {
        let now = count.fetch_add(1, Ordering::SeqCst);
        ToolResult::ok(tool, "counted", format!("It is {now}."), json!({"count": now}))
    };
    let same =
        |tool| ToolResult::ok(tool, "looked", "As ever.", json!({"state": "as ever", "request_id": 1}));
    let read = |name: &str| ToolDeclaration::new(name).description("Reads.").effect(Effect::Read);
    let asks = ToolPolicy { asks_person: true, ..ToolPolicy::default() };
    let registry = Registry::builder()
        .tool_fn(read("count"), move |_, _, _| {
            let result = counted("count", &reads);
            async move { result }
        })
        .tool_fn(read("look"), move |_, _, _| async move { same("look") })
        .tool_fn(read("private").policy(asks), move |_, _, _| async move { same("private") })
        .tool_fn(
            ToolDeclaration::new("reboot").description("Reboots it.").effect(Effect::WriteKeyed),
            move |_, _, _| {
                let result = counted("reboot", &reboots);
                async move { result }
            },
        )
        .build()
        .unwrap();
    let model = Scripted::from_json(
        r#"{"version": 1, "replies": [
            {"calls": [{"id": "a", "name": "count", "arguments": "{}"}, {"id": "b", "name": "look", "arguments": "{}"}]},
            {"calls": [{"id": "c", "name": "reboot", "arguments": "{}"}]},
            {"text": "Done."}, {"text": "Done."}, {"text": "Done."}]}"#,
    );
    let spec = RunSpec::conversation("help", ModelSpec::new("scripted", "s"));
    Runner::new(spec, registry, Models::one(Arc::new(model.unwrap()))).with_people().leave_when_waiting()
}

async fn recorded_of(runner: &Runner, run: &RunId) -> Recorded {
    runner.journal().read(run).await.unwrap()
}

#[tokio::test]
async fn reads_are_called_again_and_writes_are_not() {
    // S4-55: effects come from the record.
    let reboots = Arc::new(AtomicU32::new(0));
    let (runner, run) = rebooted_by(Arc::clone(&reboots)).await;
    let recorded = recorded_of(&runner, &run).await;
    assert_eq!(reboots.load(Ordering::SeqCst), 1);
    let found = Replay::with(&runner, &run, &recorded, ReplayDepth::Tools).await.unwrap();
    assert_eq!(reboots.load(Ordering::SeqCst), 1, "a replay changes nothing");
    let tools = found.tools.unwrap();
    assert_eq!((found.equal, tools.called, found.decisions.len()), (false, 2, 0));
    let [drift] = tools.drifted.as_slice() else { panic!("{:#?}", tools.drifted) };
    assert_eq!((drift.tool.as_str(), drift.action.as_str()), ("count", "1/action-0"));
    assert_ne!(drift.recorded.digest, drift.now.digest);
    let [kept] = tools.not_called.as_slice() else { panic!("{:#?}", tools.not_called) };
    assert_eq!((kept.tool.as_str(), kept.why), ("reboot", WhyNotCalled::Effect));
    // Nothing was journaled.
    assert_eq!(recorded_of(&runner, &run).await.entries, recorded.entries);
}

#[tokio::test]
async fn what_the_domain_of_today_declares_counts_as_well() {
    let (runner, run) = rebooted().await;
    let recorded = recorded_of(&runner, &run).await;
    let declared =
        |name: &str, effect| ToolDeclaration::new(name).description("It is another.").effect(effect);
    let calls = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&calls);
    let registry = Registry::builder()
        .tool_fn(declared("count", Effect::WriteIrreversible), move |_, _, _| {
            counting.fetch_add(1, Ordering::SeqCst);
            async { ToolResult::ok("count", "", "", json!({})) }
        })
        .tool_fn(declared("reboot", Effect::Read), |_, _, _| async {
            ToolResult::ok("reboot", "", "", json!({}))
        })
        .build()
        .unwrap();
    let spec = RunSpec::conversation("help", ModelSpec::new("scripted", "s"));
    let other = Runner::new(spec, registry, Models::one(Arc::new(Offline::new())));
    let tools = Replay::with(&other, &run, &recorded, ReplayDepth::Tools).await.unwrap().tools.unwrap();
    let why: Vec<_> = tools.not_called.iter().map(|it| (it.tool.as_str(), it.why)).collect();
    let expected =
        [("count", WhyNotCalled::Effect), ("look", WhyNotCalled::Gone), ("reboot", WhyNotCalled::Effect)];
    assert_eq!((tools.called, calls.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(why, expected);
}
