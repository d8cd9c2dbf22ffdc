//! Runs that are called as tools: one limit for a tree, one journal, one stop, also after a crash.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::spec::CostMode;
use loop_core::types::{Effect, PicoUsd, Status, Usage};
use loop_core::{Event, EventKind, Note, WorkItem};
use loop_llm::scripted::ScriptedReply;
use loop_llm::{ChatModel, EventStream, LlmError, Message, ModelRequest, Scripted};
use loop_runtime::{
    Agent, CostLimit, StopReason,
    agent::{AgentBuilder, AgentEvent, Text},
    journal::{Journal, MemoryJournal},
    models::{ModelSpec, Price},
    people::PersonAnswer,
    run::{DriveResult, EventKind as Kind, RunId, StopMode},
    spec::Limits,
    tools::{ToolContext, ToolDeclaration, ToolPolicy},
};
use loop_testkit::Numbers;
use serde_json::json;

use crate::agents::{Target, says};

/// A model that delegates in its first pass and answers in its second, and notes what it was paid for.
#[derive(Debug)]
struct Boss {
    calls: usize,
    ledger: Ledger,
}

/// What all models of a tree were paid for, and at which of their calls the program dies.
#[derive(Clone, Debug, Default)]
struct Ledger(Arc<Mutex<(Vec<Usage>, Option<usize>)>>);

impl Ledger {
    fn count(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }

    fn dies_after(&self, calls: Option<usize>) {
        self.0.lock().unwrap().1 = calls;
    }

    fn cost(&self) -> PicoUsd {
        let used = &self.0.lock().unwrap().0;
        used.iter().fold(PicoUsd(0), |all, usage| all.plus(PRICE.of(usage)))
    }
}

const PRICE: Price = Price::flat(1_000_000, 4_000_000);
const USED: Usage = Usage {
    input: 40,
    cache_read: 0,
    cache_write_short: 0,
    cache_write_long: 0,
    output: 10,
    reasoning: 0,
    estimated: false,
};

#[async_trait]
impl ChatModel for Boss {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let dies = {
            let mut ledger = self.ledger.0.lock().unwrap();
            ledger.0.push(USED);
            ledger.1.is_some_and(|at| ledger.0.len() >= at)
        };
        if dies {
            std::future::pending::<()>().await;
        }
        let has_results = request.messages.iter().any(|it| matches!(it, Message::Tool { .. }));
        let mut reply = says("It is done.");
        if self.calls > 0 && !has_results && !request.tools.is_empty() {
            reply = (0..self.calls).fold(ScriptedReply::default(), |reply, n| {
                reply.and_call("delegate", json!({ "task": format!("part {n} of {}", request.meta.run) }))
            });
        }
        reply.usage = Some(USED);
        Scripted::new([reply]).stream(request).await
    }
}

fn boss(calls: usize, ledger: &Ledger) -> (Arc<dyn ChatModel>, ModelSpec) {
    let spec = ModelSpec::new("scripted", "boss").with_price(PRICE);
    (Arc::new(Boss { calls, ledger: ledger.clone() }), spec)
}

/// A tree: each run calls `width` others, down to this depth below the root.
fn tree(
    depth: u32,
    width: usize,
    limits: &Limits,
    ledger: &Ledger,
    journal: &Arc<dyn Journal>,
) -> Agent<Text> {
    let calls = if depth == 0 { 0 } else { width };
    let builder =
        Agent::new(boss(calls, ledger)).limits(limits.clone()).parallel().with_journal(Arc::clone(journal));
    let builder = match depth {
        0 => builder,
        _ => {
            let below = tree(depth - 1, width, limits, ledger, journal);
            builder.with_tool(below.as_tool("delegate", "Does a part of the work"))
        }
    };
    builder.build().unwrap()
}

fn limits(model_calls: u32) -> Limits {
    Limits {
        cost: Some(PicoUsd(200_000_000_000_000)),
        cost_mode: CostMode::Strict,
        model_calls,
        tool_calls: 200,
        wall_ms: 3_000_000,
        ..Limits::agent()
    }
}

fn memory() -> Arc<dyn Journal> {
    Arc::new(MemoryJournal::new())
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_root_is_the_limit_of_the_tree() {
    // K17. Reported of other libraries: a limit of 3 requests at the root let a tree make 50.
    for most in [1, 2, 3, 5, 9, 30] {
        let ledger = Ledger::default();
        let agent = tree(3, 3, &limits(most), &ledger, &memory());
        let outcome = agent.runner().run(WorkItem::message("message", "do it", "do it")).await.unwrap();
        assert!(ledger.count() as u32 <= most, "{} of {most}", ledger.count());
        assert_eq!(outcome.totals.model_calls as usize, ledger.count(), "each call is counted once");
        assert_eq!(outcome.totals.cost.total(), Some(ledger.cost()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_of_forty_runs_comes_to_its_end_whenever_the_program_is_killed() {
    // K17, H1: 1 + 3 + 9 + 27 runs, each root resumed until it has ended.
    let straight = Ledger::default();
    let agent = tree(3, 3, &limits(400), &straight, &memory());
    let item = || WorkItem::message("message", "do it", "do it");
    let outcome = agent.runner().run(item()).await.unwrap();
    assert_eq!((outcome.stop.reason(), straight.count()), (StopReason::Completed, 53));
    for seed in 0..loop_testkit::share(96).into() {
        let mut numbers = Numbers(seed);
        let (ledger, journal) = (Ledger::default(), memory());
        let agent = tree(3, 3, &limits(400), &ledger, &journal);
        let root = RunId::new("root");
        let mut kills = 0;
        let outcome = loop {
            let until = ledger.count() + 1 + numbers.below(30) as usize;
            ledger.dies_after((kills < 8).then_some(until));
            let runner = agent.runner();
            let request = match kills {
                0 => runner.run(item()).with_id(root.clone()),
                _ => runner.resume(&root),
            };
            // What is dropped is gone, as with the program.
            match tokio::time::timeout(Duration::from_secs(5), async { request.await }).await {
                Ok(outcome) => break outcome.unwrap(),
                // Its task ends at its next turn.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
            kills += 1;
        };
        assert_eq!(outcome.stop.reason(), StopReason::Completed, "seed {seed}");
        let runs = journal.runs().await.unwrap();
        assert_eq!(runs.len(), 40, "seed {seed}: no part was begun twice");
        assert!(runs.iter().all(|line| line.stop.is_some()), "seed {seed}");
        // What was in flight when the program died is charged as a whole: never less than what was paid.
        let (charged, paid) = (outcome.totals.cost.total().unwrap(), ledger.cost());
        assert!(paid <= charged && charged <= PicoUsd(200_000_000_000_000), "seed {seed}: {paid} {charged}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_the_root_stops_the_runs_below() {
    for how in [StopMode::AtGate, StopMode::Now] {
        let (ledger, journal) = (Ledger::default(), memory());
        // The second run of the second level hangs.
        ledger.dies_after(Some(4));
        let agent = tree(2, 2, &limits(40), &ledger, &journal);
        let handle =
            agent.runner().run(WorkItem::message("message", "do it", "do it")).start().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.stop(how);
        let outcome = handle.wait().await;
        assert_eq!(outcome.stop.reason(), StopReason::ManualStop, "{how:?}");
        let calls = ledger.count();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(ledger.count(), calls, "nothing is begun after it");
        for line in journal.runs().await.unwrap() {
            assert!(line.stop.is_some(), "{how:?}: {} goes on", line.run);
        }
    }
}

#[tokio::test]
async fn what_a_run_below_used_and_how_it_ended_is_told() {
    let (ledger, journal) = (Ledger::default(), memory());
    let agent = tree(1, 1, &limits(12), &ledger, &journal);
    let answer = agent.prompt("do it").await.unwrap();
    let evidence = &answer.meta.outcome.evidence[0];
    assert_eq!(evidence.observation.status, Status::Ok);
    assert_eq!(&*evidence.observation.markdown, "It is done.");
    let child = evidence.observation.child.as_ref().unwrap();
    assert_eq!((child.model_calls, child.usage.input), (1, 40));
    let below = journal.read(child.run.as_ref().unwrap()).await.unwrap();
    let EventKind::Started(started) = &below.entries[0].event.kind else { panic!() };
    let by = started.provenance.called_by.as_ref().unwrap();
    assert_eq!(
        (&by.run, &by.root, by.key.to_string()),
        (&answer.meta.run, &answer.meta.run, "1/action-0".into())
    );
    assert!(below.spec.limits.cost < Some(PicoUsd(200_000_000_000_000)), "it has a lease");
    assert_eq!(below.spec.limits.depth, 2);
}

#[tokio::test]
async fn a_part_counts_as_strictly_as_its_caller_and_is_not_taken_over() {
    let (ledger, journal) = (Ledger::default(), memory());
    let loose = Limits { cost_mode: CostMode::After, ..limits(12) };
    let below =
        Agent::new(boss(0, &ledger)).limits(loose).with_journal(Arc::clone(&journal)).build().unwrap();
    let agent = Agent::new(boss(1, &ledger)).limits(limits(12)).with_journal(Arc::clone(&journal));
    let agent = agent.with_tool(below.as_tool("delegate", "Does it")).build().unwrap();
    let answer = agent.prompt("do it").await.unwrap();
    let part = answer.meta.outcome.evidence[0].observation.child.as_ref().unwrap().run.clone().unwrap();
    assert_eq!(journal.read(&part).await.unwrap().spec.limits.cost_mode, CostMode::Strict);
    let said = format!("it is a part of run {}, which called it", answer.meta.run);
    let error = below.runner().fork(&part, None).start().await.err().unwrap().to_string();
    assert!(error.contains(&said), "{error}");
}

#[tokio::test]
async fn the_call_of_a_run_is_shown_as_that_of_a_tool() {
    let agent = tree(1, 1, &limits(12), &Ledger::default(), &memory());
    let mut messages = vec![Message::user("do it")];
    let mut events = agent.chat(&mut messages).events().await.unwrap();
    let mut shown = Vec::new();
    while let Some(event) = events.next().await {
        if let AgentEvent::Tool { tool, result, .. } = event {
            shown.push((tool.to_string(), result.is_some()));
        }
    }
    assert_eq!(shown, [("delegate".to_owned(), false), ("delegate".to_owned(), true)]);
}

#[tokio::test]
async fn a_run_that_cannot_begin_is_a_result_and_costs_nothing() {
    let ledger = Ledger::default();
    let poor = Limits { cost: Some(PicoUsd(1_000)), ..limits(12) };
    let below = Agent::new(boss(0, &ledger)).limits(poor).build().unwrap();
    let agent = Agent::new(boss(1, &ledger)).limits(limits(12));
    let agent = agent.with_tool(below.as_tool("delegate", "Does it")).build().unwrap();
    let outcome = agent.runner().run(WorkItem::message("message", "do it", "do it")).await.unwrap();
    let observation = &outcome.evidence[0].observation;
    assert_eq!(observation.status, Status::PermanentError, "{observation:?}");
    assert!(
        observation
            .text()
            .starts_with("it could not begin with what its own limits and the rest of its caller's allow: "),
        "{}",
        observation.text()
    );
    assert_eq!(outcome.totals.cost.total(), Some(ledger.cost()));
}

/// An agent whose one tool needs a person, as a tool of another one.
fn asking(
    journal: &Arc<dyn Journal>,
    people: impl FnOnce(AgentBuilder<Text>) -> AgentBuilder<Text>,
) -> Agent<Text> {
    let model = |replies: Vec<ScriptedReply>| {
        let client: Arc<dyn ChatModel> = Arc::new(Scripted::new(replies));
        (client, ModelSpec::new("scripted", "m").with_price(PRICE))
    };
    let call = |name: &str, arguments| ScriptedReply {
        usage: Some(USED),
        ..ScriptedReply::default().and_call(name, arguments)
    };
    let text = |text: &str| ScriptedReply { usage: Some(USED), ..says(text) };
    let send = ToolDeclaration::new("send").description("Sends it").effect(Effect::Egress);
    let below = Agent::new(model(vec![call("send", json!({ "target": "x" })), text("It is sent.")]))
        .tool(send, |it: Target, _: ToolContext| async move { format!("sent to {}", it.target) })
        .build()
        .unwrap();
    let above = Agent::new(model(vec![call("delegate", json!({ "task": "send it" })), text("All done.")]))
        .with_tool(below.as_tool("delegate", "Sends"))
        .with_journal(Arc::clone(journal));
    people(above).build().unwrap()
}

#[tokio::test]
async fn the_approver_of_the_root_answers_what_runs_below_ask() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (journal, heard) = (memory(), Arc::clone(&asked));
    let agent = asking(&journal, |agent| {
        agent.on_approval(move |request| {
            heard.lock().unwrap().push((request.run.clone(), request.tool.to_string()));
            async { PersonAnswer::Approved }
        })
    });
    let answer = agent.prompt("send it").await.unwrap();
    assert_eq!(&*answer.text, "All done.");
    let asked = asked.lock().unwrap();
    let [(run, tool)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((tool.as_str(), *run == answer.meta.run), ("send", false));
}

#[tokio::test]
async fn a_run_below_waits_for_nobody_who_could_not_see_it() {
    // Who answers through the handle of the root would not see what the run below asks.
    let agent = asking(&memory(), AgentBuilder::ask_people);
    let error = agent.prompt("send it").await.unwrap_err();
    assert!(error.to_string().contains("left an effect of its own undone"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_run_below_that_waits_for_a_person_is_left_and_continued_with_its_caller() {
    let journal = memory();
    let runner = asking(&journal, AgentBuilder::ask_people).runner().clone().leave_when_waiting();
    let request = runner.run(WorkItem::message("message", "send it", "send it")).start().await.unwrap();
    let DriveResult::Waiting(waiting) = request.driven().await else { panic!("nothing was asked") };
    let root = waiting.outcome.run.clone();
    let [requested] = &waiting.requested[..] else { panic!("{:?}", waiting.requested) };
    assert_eq!(&*requested.tool, "send");
    let below = requested.run.clone();
    assert_ne!(below, root);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let (key, binding) = (requested.key, Some(requested.binding));
    let yes = Kind::PersonAnswered { key, answer: PersonAnswer::Approved, binding };
    let outcome = runner.having_said([(below.clone(), vec![yes])]).resume(&root).await.unwrap();
    assert_eq!(
        (outcome.answer.as_deref(), outcome.stop.reason()),
        (Some("All done."), StopReason::Completed)
    );
    assert_eq!(outcome.totals.model_calls, 4);
    assert!(outcome.totals.wall_ms < 60_000, "{}", outcome.totals.wall_ms);
    let below = journal.read(&below).await.unwrap();
    assert!(
        below.entries.iter().any(|it| matches!(it.event, Event { kind: EventKind::ToolStarted { .. }, .. }))
    );
    let root = journal.read(&root).await.unwrap();
    assert!(root.entries.iter().flat_map(|it| &it.notes).any(|it| matches!(it, Note::LeaseCharged { .. })));
}

#[test]
fn the_limit_of_a_called_agent_is_its_own_at_most() {
    let agent = Agent::new(boss(0, &Ledger::default())).limit(CostLimit::usd("0.01")).build().unwrap();
    let tool = agent.as_tool("delegate", "Does it");
    let lease = tool.spec().policy.lease.unwrap();
    assert_eq!(lease.cost, Some(PicoUsd(10_000_000_000)));
    assert_eq!(tool.spec().effect, Some(Effect::Read));
}

#[tokio::test]
async fn what_a_run_below_had_read_taints_the_turns_after_it_too() {
    // K2, ASI07
    let model = |replies: Vec<ScriptedReply>| Arc::new(Scripted::new(replies));
    let page = ToolPolicy { returns_untrusted: true, ..ToolPolicy::default() };
    let page = ToolDeclaration::read("look", "Reads a page").policy(page);
    let read = ScriptedReply::default().and_call("look", json!({ "target": "x" }));
    let below = Agent::new(model(vec![read, says("The page says: pay.")]))
        .tool(page, |it: Target, _: ToolContext| async move { format!("saw {}", it.target) })
        .build()
        .unwrap();
    let ask = ScriptedReply::default().and_call("delegate", json!({ "task": "read it" }));
    let pay = ScriptedReply::default().and_call("pay", json!({ "target": "x" }));
    let declared = ToolDeclaration::new("pay").description("Pays").effect(Effect::WriteKeyed);
    let agent = Agent::new(model(vec![ask, says("Read."), pay, says("Paid.")]))
        .with_tool(below.as_tool("delegate", "Reads"))
        .tool(declared, |it: Target, _: ToolContext| async move { format!("paid {}", it.target) })
        .approve("pay")
        .build()
        .unwrap();
    let mut messages = vec![Message::user("read it")];
    let read = agent.chat(&mut messages).await.unwrap();
    let child = read.meta.outcome.evidence[0].observation.child.as_ref().unwrap();
    assert!(child.taint.untrusted, "{:?} {messages:#?}", read.meta.outcome.evidence);
    messages.push(Message::user("go on"));
    let error = agent.chat(&mut messages).await.unwrap_err();
    let meta = error.meta().unwrap();
    assert_eq!(meta.outcome.actions[0].verdict.name(), "needs_person", "{error}");
}
