//! Eager reads: a call that is complete in the stream starts at once if the core would admit it, and changes nothing but time.

use crate::common;

use common::world::{Log, Watched, journal_of, notes, tools_declared};
use futures::StreamExt;
use loop_core::run::{DropReason, DroppedRead};
use loop_core::secrets::Secrets;
use loop_core::spec::{CostMode, OnToolError, Repeats};
use loop_core::types::{Effect, FailureKind, Observation, RunId, Status};
use loop_core::{Event, EventKind, Note, Run};
use loop_llm::{ErrorPhase, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_runtime::{
    Outcome, RunSpec, Runner, StopReason,
    journal::{StoredJournal, replay},
    models::{ChatModel, Models},
    observe::{RunEvent, Step, steps},
    run::StopMode,
    tools::{Registry, ToolDeclaration, ToolUses},
};
use loop_testkit::{Setup, call};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Events of one reply, each after a pause in milliseconds.
type Stream = Vec<(u64, Result<ModelEvent, LlmError>)>;

/// A model that streams at its pace, by what it is asked.
#[derive(Debug, Default)]
struct Paced(BTreeMap<(&'static str, u32), Stream>);

#[async_trait::async_trait]
impl ChatModel for Paced {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let key = (&*request.meta.key, request.meta.attempt);
        let found = self.0.iter().find(|((of, attempt), _)| (*of, *attempt) == key);
        let stream = found.map_or_else(|| says("It is done."), |(_, stream)| stream.clone());
        Ok(futures::stream::iter(stream)
            .then(|(pause, event)| async move {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                event
            })
            .boxed())
    }
}

fn says(text: &str) -> Stream {
    vec![(0, finished(ModelReply::text(text, None)))]
}

fn finished(reply: ModelReply) -> Result<ModelEvent, LlmError> {
    Ok(ModelEvent::Finished(Box::new(reply)))
}

fn broken() -> Result<ModelEvent, LlmError> {
    let error = LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "the line broke");
    Err(LlmError { retry: loop_llm::error::RetryAdvice::After(Duration::ZERO), ..error })
}

/// The events of these calls, each after 100 ms, without an end.
fn begins(calls: &[(&str, &str)]) -> Stream {
    let events = (0..).zip(calls).flat_map(|(nth, (tool, target))| {
        let text = json!({"target": target}).to_string();
        let (first, rest) = text.split_at(5);
        let piece = |text: &str| Ok(ModelEvent::ToolArgumentsDelta { nth, text: text.into() });
        [
            (50, Ok(ModelEvent::ToolCallStarted { nth, name: (*tool).into() })),
            (0, piece(first)),
            (50, piece(rest)),
            (0, Ok(ModelEvent::ToolCallCompleted { nth })),
        ]
    });
    events.collect()
}

/// The reply with these calls.
fn reply(calls: &[(&str, &str)]) -> ModelReply {
    let calls = calls.iter().enumerate();
    ModelReply {
        finish: loop_core::reply::FinishReason::ToolUse,
        tool_calls: calls
            .map(|(n, (tool, target))| call(&format!("c{n}"), tool, &json!({"target": target}).to_string()))
            .collect(),
        ..ModelReply::text("", None)
    }
}

/// A reply that streams these calls and ends 1,000 ms after the last of them.
fn calls(calls: &[(&str, &str)]) -> Stream {
    let mut stream = begins(calls);
    stream.push((1_000, finished(reply(calls))));
    stream
}

/// The tools of the world, of which `look` is cheap.
fn tools(log: &Log) -> Registry {
    tools_declared(log, |tool| if &*tool.name == "look" { tool.cheap() } else { tool })
}

/// A conversation that may change things unasked.
fn spec() -> RunSpec {
    Setup::conversation("helpdesk").parallel().gate(|gate| gate.approved = vec!["*".into()]).spec
}

/// The same, with one call after another.
fn in_order() -> RunSpec {
    RunSpec { protocol: Setup::conversation("helpdesk").spec.protocol, ..spec() }
}

fn with(streams: impl IntoIterator<Item = ((&'static str, u32), Stream)>) -> Models {
    Models::one(Arc::new(Paced(streams.into_iter().collect())))
}

fn runner(log: &Log, spec: RunSpec, stream: Stream) -> Runner {
    Runner::new(spec, tools(log), with([(("1/main", 1), stream)]))
}

/// What a run came to, but for its name and for time.
fn timeless(outcome: &Outcome) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| !["run", "at", "wall_ms"].contains(&name.as_str()));
                members.values_mut().for_each(strip);
            }
            Value::Array(elements) => elements.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(outcome).unwrap();
    strip(&mut value);
    value
}

async fn names(runner: &Runner, run: &RunId) -> Vec<&'static str> {
    let recorded = runner.journal().read(run).await.unwrap();
    recorded.entries.iter().map(|entry| entry.event.kind.name()).collect()
}

async fn dropped(runner: &Runner, run: &RunId) -> Vec<DroppedRead> {
    let notes = notes(runner, run).await;
    notes
        .into_iter()
        .filter_map(|note| if let Note::ReadDropped(read) = note { Some(read) } else { None })
        .collect()
}

/// How many tools began before the reply of the first call was complete, by its journal.
async fn begun_early(runner: &Runner, run: &RunId) -> usize {
    let names = names(runner, run).await;
    let replied = names.iter().position(|name| name.starts_with("model_")).unwrap();
    names[..replied].iter().filter(|name| **name == "eager_started").count()
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_complete_in_the_stream_runs_beside_it() {
    for parallel in [true, false] {
        let wanted = [("look", "slow-400"), ("look", "slow-300"), ("look", "slow-200")];
        let mut outcomes = Vec::new();
        for eager in [None, Some(false)] {
            let log = Log::new();
            let mut spec = if parallel { spec() } else { in_order() };
            spec.gate.eager = eager;
            let runner = runner(&log, spec, calls(&wanted));
            let outcome = runner.run(common::item()).await.unwrap();
            assert_eq!(outcome.stop.reason(), StopReason::Completed);
            assert_eq!((outcome.totals.tool_calls, outcome.totals.eager_dropped), (3, 0));
            assert_eq!((log.count("tool "), log.count("ended ")), (3, 3), "{:?}", log.lines());
            let early = if eager.is_none() { 3 } else { 0 };
            assert_eq!(begun_early(&runner, &outcome.run).await, early);
            // The stream takes 1,300 ms, and the tools 400 ms side by side or 900 ms one after another.
            let tools = if parallel { 400 } else { 900 };
            let expected = if eager.is_none() { 1_300 } else { 1_300 + tools };
            assert_eq!(outcome.totals.wall_ms, expected, "{parallel} {eager:?}");
            // What is journaled is the run.
            let recorded = runner.journal().read(&outcome.run).await.unwrap();
            let again = replay(&outcome.run, &recorded).unwrap();
            assert_eq!(again.outcome(), Some(&outcome));
            outcomes.push(timeless(&outcome));
        }
        assert_eq!(outcomes[0], outcomes[1]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_is_kept_and_one_call_runs_at_a_time() {
    let log = Log::new();
    let spec = in_order();
    let wanted = [("look", "slow-250"), ("look", "ok-2"), ("change", "ok-3"), ("look", "ok-4")];
    let runner = runner(&log, spec, calls(&wanted));
    let outcome = runner.run(common::item()).await.unwrap();
    assert_eq!(outcome.totals.tool_calls, 4);
    let lines = log.lines();
    let targets = ["look(slow-250)", "look(ok-2)", "change(ok-3)", "look(ok-4)"];
    let expected: Vec<String> =
        targets.iter().flat_map(|target| [format!("tool {target}"), format!("ended {target}")]).collect();
    assert_eq!(lines, expected);
    // The second waits for the first, and nothing after a write starts early.
    assert_eq!((log.at("tool look(slow-250)"), log.at("tool look(ok-2)")), (100, 350));
    assert_eq!((log.at("tool change(ok-3)"), log.at("tool look(ok-4)")), (1_400, 1_400));
    assert_eq!(begun_early(&runner, &outcome.run).await, 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_before_its_announcement_is_journaled() {
    let log = Log::new();
    let runner = runner(&log, spec(), calls(&[("look", "ok-1"), ("look", "ok-2")]))
        .with_journal(Arc::new(Watched::new(&log)));
    let outcome = runner.run(common::item()).await.unwrap();
    let lines = log.lines();
    for (nth, target) in ["ok-1", "ok-2"].iter().enumerate() {
        let began = lines.iter().position(|line| *line == format!("tool look({target})")).unwrap();
        let announced = lines[..began].iter().filter(|line| line.ends_with("eager_started")).count();
        assert!(announced > nth, "{lines:#?}");
    }
    assert_eq!(outcome.totals.eager_dropped, 0);
    // A journal that fails at the announcement: the tool never runs, and nothing is told of it.
    for seq in 0..12 {
        let log = Log::new();
        let runner = self::runner(&log, spec(), calls(&[("look", "ok-1")]))
            .with_journal(Arc::new(Watched::new(&log).failing_at(seq)));
        let Ok(outcome) = runner.run(common::item()).await else { continue };
        let began = log.count("tool ");
        let announced = log.lines().iter().filter(|line| line.ends_with("eager_started")).count();
        assert!(began <= announced, "{:?}", log.lines());
        let touched = outcome.totals.tool_calls + outcome.totals.eager_dropped;
        assert_eq!(touched as usize, announced, "{seq}: {:?}", log.lines());
    }
    // Polled by its caller, it is the same.
    let log = Log::new();
    let runner = self::runner(&log, spec(), calls(&[("look", "ok-1"), ("look", "ok-2")]));
    let mut stream = runner.run(common::item()).stream().await.unwrap();
    let mut announced = 0;
    while let Some(event) = stream.next().await {
        if let RunEvent::Recorded(entry) = event {
            announced += usize::from(matches!(entry.event.kind, EventKind::EagerStarted { .. }));
            assert!(log.count("tool ") <= announced);
        }
    }
    assert_eq!((announced, log.count("ended ")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn only_what_the_gate_would_run_unasked_starts_early() {
    type Change = fn(&mut RunSpec);
    type Declare = fn(ToolDeclaration) -> ToolDeclaration;
    /// How many calls of `wanted` start early, and how many run in the end.
    async fn check(wanted: &[(&str, &str)], change: Change, declare: Declare, expected: (usize, u32)) {
        let log = Log::new();
        let mut spec = spec();
        change(&mut spec);
        let runner = Runner::new(spec, tools_declared(&log, declare), with([(("1/main", 1), calls(wanted))]));
        let outcome = runner.run(common::item()).await.unwrap();
        let early = begun_early(&runner, &outcome.run).await;
        assert_eq!((early, outcome.totals.tool_calls), expected, "{wanted:?} {outcome:#?}");
        assert_eq!(log.count("tool "), outcome.totals.tool_calls as usize);
        assert_eq!(outcome.totals.eager_dropped, 0);
    }
    let two = [("look", "ok-1"), ("look", "ok-2")];
    let same: Change = |_| {};
    let cheap: Declare = ToolDeclaration::cheap;
    check(&two, same, cheap, (2, 2)).await;
    check(&two, |spec| spec.gate.eager = Some(false), cheap, (0, 2)).await;
    check(&two, |spec| spec.limits.cost_mode = CostMode::Strict, cheap, (0, 2)).await;
    let strict: Change = |spec| {
        spec.limits.cost_mode = CostMode::Strict;
        spec.gate.eager = Some(true);
    };
    check(&two, strict, cheap, (2, 2)).await;
    // Not cheap, or one that may ask a model, or one that does more than read.
    check(&two, same, |tool| tool, (0, 2)).await;
    check(&two, same, |tool| tool.cheap().smart(true), (0, 2)).await;
    check(&two, same, |tool| tool.cheap().effect(Effect::Egress), (0, 2)).await;
    check(&two, same, |tool| tool.cheap().effect(Effect::Exec), (0, 2)).await;
    check(&two, same, |tool| tool.cheap().effect(Effect::WriteIdempotent), (0, 2)).await;
    // A write, and what follows one.
    check(&[("change", "ok-1"), ("look", "ok-2")], same, cheap, (0, 2)).await;
    // Forbidden, not allowed, unknown.
    check(&two, |spec| spec.gate.forbid = vec!["look".into()], cheap, (0, 0)).await;
    check(&two, |spec| spec.gate.allow = vec!["change".into()], cheap, (0, 0)).await;
    check(&[("nope", "ok-1"), ("look", "ok-2")], same, cheap, (0, 1)).await;
    // Parameters that do not fit.
    check(&two, same, |tool| tool.cheap().schema(json!({"type": "object", "required": ["place"]})), (0, 0))
        .await;
    // The same call again, and those after it.
    let never_again: Change = |spec| spec.gate.repeats = Some(Repeats::NeverRerun);
    check(&[("look", "ok-1"), ("look", "ok-1"), ("look", "ok-2")], never_again, cheap, (1, 2)).await;
    // The limit of calls, of a tool or of the run.
    check(&two, |spec| spec.limits.tool_calls = 1, cheap, (1, 1)).await;
    let once: Declare = |tool| {
        let mut tool = tool.cheap();
        tool.policy.repeats.max_calls = Some(1);
        tool
    };
    check(&two, same, once, (1, 1)).await;
    // The last permitted pass has no tools.
    check(&two, |spec| spec.limits.passes = 1, cheap, (0, 0)).await;
    // A question to a person.
    let asks: Declare = |tool| {
        let mut tool = tool.cheap();
        tool.policy.asks_person = true;
        tool
    };
    check(&two, same, asks, (0, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_model_that_calls_without_end_starts_no_more_than_the_limit() {
    let log = Log::new();
    let targets: Vec<String> = (0..10_000).map(|n| format!("slow-{n}")).collect();
    let wanted: Vec<(&str, &str)> = targets.iter().map(|target| ("look", &**target)).collect();
    let mut stream = begins(&wanted);
    stream.iter_mut().for_each(|(pause, _)| *pause = u64::from(*pause > 0));
    stream.push((0, broken()));
    let mut spec = spec();
    spec.limits.tool_calls = 7;
    spec.limits.output_tokens = 1_000_000;
    spec.models.base.max_output_tokens = 1_000_000;
    let streams = [1, 2, 3].map(|attempt| (("1/main", attempt), stream.clone()));
    let runner = Runner::new(spec, tools(&log), with(streams));
    let outcome = runner.run(common::item()).await.unwrap();
    assert_eq!((outcome.stop.reason(), outcome.totals.tool_calls), (StopReason::ModelFailure, 0));
    // Also over several tries no more are dropped than the run may make calls.
    assert_eq!((outcome.totals.eager_dropped, log.count("tool ")), (7, 7));
    assert_eq!(outcome.dropped_reads.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_off_drops_its_reads_and_the_next_try_starts_anew() {
    let wanted = [("look", "ok-1"), ("look", "slow-5000"), ("look", "ok-3")];
    let mut first = begins(&wanted);
    first.push((100, broken()));
    let log = Log::new();
    let uses = Arc::new(Mutex::new(ToolUses::default()));
    let streams =
        [(("1/main", 1), first), (("1/main", 2), calls(&[("look", "ok-9"), ("look", "slow-5000")]))];
    let runner = Runner::new(spec(), tools(&log), with(streams));
    let outcome = runner.run(common::item()).await.unwrap();
    let seen = dropped(&runner, &outcome.run).await;
    assert_eq!(seen, outcome.dropped_reads);
    let told: Vec<_> = seen.iter().map(|read| (read.key.to_string(), read.finished, read.why)).collect();
    let why = DropReason::CallFailed;
    let expected = [("1/action-0", true, why), ("1/action-1", false, why), ("1/action-2", true, why)];
    assert_eq!(told, expected.map(|(key, finished, why)| (key.to_owned(), finished, why)));
    // Cut off at once, its late result is not taken for that of the same key in the next try.
    assert!(log.at("dropped look(slow-5000)") <= 401, "{:?}", log.lines());
    let texts: Vec<_> =
        outcome.evidence.iter().map(|evidence| evidence.observation.markdown.to_string()).collect();
    assert_eq!(texts, ["Saw ok-9.", "Saw slow-5000."]);
    assert_eq!((outcome.totals.tool_calls, outcome.totals.eager_dropped), (2, 3));
    // What it touched is told.
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let mut uses = uses.lock().unwrap();
    recorded.entries.iter().for_each(|entry| uses.hear(entry, runner.spec()));
    let of: Vec<_> = uses.all().iter().map(|used| (used.calls, used.dropped)).collect();
    assert_eq!(of, [(2, 3)]);
    assert_eq!(replay(&outcome.run, &recorded).unwrap().outcome(), Some(&outcome));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_not_what_it_streamed_takes_only_what_is_the_same() {
    let streamed = [("look", "ok-1"), ("look", "ok-2"), ("look", "ok-3")];
    type Calls = &'static [(&'static str, &'static str)];
    let cases: [(Calls, u32, u32); 4] = [
        (&[("look", "ok-1"), ("look", "ok-X"), ("look", "ok-3")], 3, 1),
        (&[("look", "ok-1")], 1, 2),
        (&[("look", "ok-2"), ("look", "ok-1"), ("look", "ok-3")], 3, 2),
        (&[], 0, 3),
    ];
    for (whole, ran, lost) in cases {
        let log = Log::new();
        let mut stream = begins(&streamed);
        let end = if whole.is_empty() { ModelReply::text("Never mind.", None) } else { reply(whole) };
        stream.push((1_000, finished(end)));
        let runner = runner(&log, spec(), stream);
        let outcome = runner.run(common::item()).await.unwrap();
        assert_eq!((outcome.totals.tool_calls, outcome.totals.eager_dropped), (ran, lost), "{whole:?}");
        assert!(outcome.dropped_reads.iter().all(|read| read.why == DropReason::CallChanged));
        let seen: Vec<_> = outcome.evidence.iter().map(|it| it.parameters.to_string()).collect();
        let expected: Vec<_> =
            whole.iter().map(|(_, target)| json!({"target": target}).to_string()).collect();
        assert_eq!(seen, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_gate_does_not_admit_in_the_end_is_dropped() {
    // The usage is known at the end alone, and is beyond the limit.
    let log = Log::new();
    let wanted = [("look", "ok-1"), ("look", "hang")];
    let mut stream = begins(&wanted);
    let usage = loop_core::types::Usage { input: 90_000, output: 10, ..Default::default() };
    stream.push((500, finished(ModelReply { usage: Some(usage), ..reply(&wanted) })));
    let mut spec = spec();
    spec.limits.tokens = Some(50_000);
    let runner = runner(&log, spec, stream);
    let outcome = runner.run(common::item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::TokenLimit);
    assert_eq!((outcome.totals.tool_calls, outcome.totals.eager_dropped), (0, 2));
    let why: Vec<_> = outcome.dropped_reads.iter().map(|read| (read.why, read.finished)).collect();
    assert_eq!(why, [(DropReason::NotAdmitted, true), (DropReason::NotAdmitted, false)]);
    assert!(outcome.evidence.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stop_cancels_what_runs_early() {
    for (how, why) in [(StopMode::Now, DropReason::Stopped), (StopMode::AtGate, DropReason::NotAdmitted)] {
        let log = Log::new();
        let runner = runner(&log, spec(), calls(&[("look", "hang"), ("look", "ok-2")]));
        let handle = runner.run(common::item()).start().await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
        handle.stop(how);
        let outcome = handle.wait().await;
        assert_eq!(outcome.stop.reason(), StopReason::ManualStop);
        // Nothing is started once a stop is asked for.
        assert_eq!(log.count("tool "), 1, "{:?}", log.lines());
        assert_eq!(log.count("dropped look(hang)"), 1);
        let reasons: Vec<_> = outcome.dropped_reads.iter().map(|read| read.why).collect();
        assert_eq!((reasons, outcome.totals.tool_calls), (vec![why], 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_ends_the_run_keeps_the_next_in_order_from_starting() {
    let log = Log::new();
    let mut spec = in_order();
    spec.gate.on_tool_error = OnToolError::Stop;
    let runner = runner(&log, spec, calls(&[("look", "fail"), ("look", "ok-2")]));
    let outcome = runner.run(common::item()).await.unwrap();
    assert_eq!((outcome.stop.reason(), log.count("tool ")), (StopReason::ToolFailure, 1));
    assert_eq!(outcome.totals.eager_dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_killed_after_any_entry_comes_to_the_same_end() {
    let wanted = [("look", "slow-150"), ("look", "ok-2"), ("look", "slow-2000")];
    let streams = || [1, 2].map(|attempt| (("1/main", attempt), calls(&wanted)));
    let log = Log::new();
    let runner = Runner::new(spec(), tools(&log), with(streams()));
    let straight = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&straight.run).await.unwrap();
    let mut lost = 0;
    for kept in 1..=recorded.entries.len() {
        let journal = journal_of(&recorded, &recorded.entries[..kept]).await;
        let again = runner.clone().with_journal(journal);
        let outcome = again.resume(&straight.run).start().await.unwrap().wait().await;
        let open = recorded.entries[..kept].iter().fold(0_u32, |open, entry| match entry.event.kind {
            EventKind::EagerStarted { .. } => open + 1,
            EventKind::ModelReplied { .. } => 0,
            _ => open,
        });
        assert_eq!(outcome.totals.eager_dropped, open, "after {kept} entries");
        assert!(outcome.dropped_reads.iter().all(|read| read.why == DropReason::Lost));
        assert_eq!(outcome.evidence, straight.evidence, "after {kept} entries");
        assert_eq!((outcome.totals.tool_calls, &outcome.actions), (3, &straight.actions));
        lost += open;
    }
    assert!(lost > 6, "{lost}");
}

#[tokio::test(start_paused = true)]
async fn callbacks_hear_of_each_call_once_and_in_the_same_order() {
    let mut told = Vec::new();
    for eager in [true, false] {
        let said = Arc::new(Mutex::new(Vec::<String>::new()));
        let heard = Arc::clone(&said);
        let watching = steps(move |at, step| {
            heard.lock().unwrap().push(match step {
                Step::ToolCall { tool, input } => format!("{} call {tool} {input}", at.pass),
                Step::ToolResult { tool, result, .. } => format!("{} result {tool} {result}", at.pass),
                other => format!("{} {}", at.pass, other.name()),
            });
            Ok(())
        });
        let log = Log::new();
        let mut spec = in_order();
        spec.gate.eager = Some(eager);
        let wanted = [("look", "slow-50"), ("look", "slow-3000"), ("look", "ok-3")];
        let runner = runner(&log, spec, calls(&wanted)).with_observer(watching);
        let outcome = runner.run(common::item()).await.unwrap();
        assert_eq!(begun_early(&runner, &outcome.run).await, if eager { 2 } else { 0 });
        told.push(said.lock().unwrap().clone());
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].iter().filter(|line| line.contains("call look")).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_journaled_of_a_read_holds_no_secret() {
    let log = Log::new();
    let secrets = Secrets::of(["hunter2-of-the-crm"]);
    let wanted = [("look", "hunter2-of-the-crm"), ("look", "ok-2")];
    let runner = runner(&log, spec(), calls(&wanted)).with_secrets(&secrets);
    let outcome = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let text = serde_json::to_string(&recorded.entries).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(begun_early(&runner, &outcome.run).await, 2);
    assert_eq!((outcome.totals.tool_calls, outcome.totals.eager_dropped), (2, 0));
    assert_eq!(log.count("tool look([masked])"), 1, "{:?}", log.lines());
}

#[tokio::test]
async fn a_result_that_comes_after_its_read_was_dropped_is_refused() {
    let log = Log::new();
    let runner = runner(&log, spec(), {
        let mut stream = begins(&[("look", "ok-1")]);
        stream.push((50, broken()));
        stream
    });
    let outcome = runner.run(common::item()).await.unwrap();
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let entries = &recorded.entries;
    let failed = entries.iter().position(|entry| entry.event.kind.name() == "model_failed").unwrap();
    let (mut run, _) = Run::open(&entries[0].event, Arc::clone(&recorded.spec)).unwrap();
    entries[1..=failed].iter().for_each(|entry| drop(run.apply(&entry.event).unwrap()));
    let before = run.clone();
    let observation = Observation::new(Status::Ok, "late", "late", "null");
    let kind = EventKind::ToolFinished {
        key: "1/action-0".parse().unwrap(),
        attempt: 1,
        observation: observation.into(),
    };
    assert!(run.apply(&Event { at: run.now(), kind }).is_err());
    assert_eq!(run, before);
}

#[tokio::test]
async fn an_eager_read_is_not_synced() {
    // It changes nothing: a sync for it would cost more than it saves.
    let folder = tempfile::tempdir().unwrap();
    let mut synced = Vec::new();
    for eager in [true, false] {
        let log = Log::new();
        let mut spec = spec();
        spec.gate.eager = Some(eager);
        let journal = StoredJournal::open(folder.path().join(format!("{eager}"))).unwrap();
        let mut stream = calls(&[("look", "ok-1"), ("look", "ok-2")]);
        stream.iter_mut().for_each(|(pause, _)| *pause /= 20);
        let runner = runner(&log, spec, stream).with_journal(Arc::new(journal.clone()));
        let outcome = runner.run(common::item()).await.unwrap();
        assert_eq!(begun_early(&runner, &outcome.run).await, if eager { 2 } else { 0 });
        synced.push(journal.synced_commits());
    }
    assert_eq!(synced[0], synced[1]);
}
