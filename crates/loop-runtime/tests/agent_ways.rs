//! One machine behind all ways to drive an agent: the same journal, no more stack for many calls, pauses, crashes.

use crate::{agents, common::world::journal_of, recursing::recurse};

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agents::{
    Activity, Lead, Target, ask, assert_valid, lead, lead_tool, look, looks, save_lead, says, scripted,
    shape, submits, target, with_tools,
};
use async_trait::async_trait;
use futures::StreamExt;
use loop_core::EventKind;
use loop_core::types::Usage;
use loop_llm::scripted::ScriptedReply;
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_runtime::{
    Agent, Message, Outcome, Runner, StopReason, WorkItem,
    agent::AgentEvent,
    agent::{AgentError, AgentModel, Text},
    journal::MemoryJournal,
    models::ModelSpec,
    observe::RunEvent,
    run::{CancellationToken, RunId, StartError},
    spec::Limits,
};

/// Everything that was written down, but for names that are new each time and the wall time.
async fn reported(runner: &Runner, run: &RunId) -> String {
    let entries = runner.journal().read(run).await.unwrap().entries;
    let EventKind::Started(started) = &entries[0].event.kind else { panic!("{:?}", entries[0]) };
    let unix_ms = format!("\"unix_ms\":{}", started.unix_ms);
    let text = serde_json::to_string(&entries).unwrap();
    text.replace(&*started.nonce, "NONCE").replace(run.as_str(), "RUN").replace(&unix_ms, "NOW")
}

/// A conversation with everything in it: slow tools side by side, errors, a write, an unknown name, a reply that breaks
/// off, a pause before it is asked for again.
fn conversation() -> Agent<Text> {
    let breaks = ScriptedReply { fails: Some("gone".to_owned()), ..says("half an ans") };
    let late = ScriptedReply { delay_ms: 70, ..looks(&["slow-300", "fail", "slow-20"]) };
    let write = looks(&["slow-40"]).and_call("change", target("slow-15")).and_call("nobody", target("x"));
    let model = scripted([late, breaks, write, says("Done.\nReally.")]);
    let agent = with_tools(Agent::new(model), &Activity::default()).parallel().approve("change");
    agent.with_journal(Arc::new(MemoryJournal::new())).build().unwrap()
}

/// An output with a reflection, a rejection and slow validators.
fn output() -> Agent<Lead> {
    let tool =
        lead_tool().reflect(|lead| format!("# {}", lead.name)).validator("score", |lead: Lead| async move {
            tokio::time::sleep(Duration::from_millis(90)).await;
            if lead.score <= 100 { Ok(()) } else { Err("too much") }
        });
    let model = scripted([
        looks(&["slow-30", "fail"]),
        save_lead("Ann", 101),
        submits(),
        save_lead("Ann", 1).and_call("look", target("slow-5")),
        submits(),
    ]);
    let agent = with_tools(Agent::output(model, tool), &Activity::default());
    agent.with_journal(Arc::new(MemoryJournal::new())).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_way_of_conversing_leaves_the_same_journal_and_messages() {
    // C1, I-31, S1-2..S1-5, S1-44, S1-45, S2-99
    let agent = conversation();
    let mut expected = ask("Go");
    let answer = agent.chat(&mut expected).await.unwrap();
    let journal = reported(agent.runner(), &answer.meta.run).await;
    assert!(journal.len() > 4_000 && answer.meta.latency_ms > 900, "{} {journal}", answer.meta.latency_ms);
    assert_eq!(shape(&expected), "UCTCTA");

    let agent = conversation();
    let mut messages = ask("Go");
    let (run, depth) = recurse(agent.chat(&mut messages).events().await.unwrap()).await;
    let recursed = run.answer().await.unwrap();
    assert_eq!(reported(agent.runner(), &recursed.meta.run).await, journal, "by recursion");
    assert_eq!((&messages, depth, &recursed.text), (&expected, 3, &answer.text));

    let agent = conversation();
    let mut messages = ask("Go");
    let mut stream = agent.chat(&mut messages).events().await.unwrap();
    let mut texts = String::new();
    while let Some(event) = stream.next().await {
        if let AgentEvent::Text { text, .. } = event {
            texts.push_str(&text);
        }
    }
    let meta = stream.finish().await;
    assert_eq!(reported(agent.runner(), &meta.run).await, journal, "as a stream");
    assert_eq!((&messages, meta.outcome.answer.as_deref()), (&expected, Some(&*answer.text)));
    assert!(texts.ends_with("Done.\nReally."), "{texts}");

    let agent = conversation();
    let mut messages = ask("Go");
    let meta = agent.chat(&mut messages).events().await.unwrap().finish().await;
    assert_eq!(reported(agent.runner(), &meta.run).await, journal, "as a stream that nobody reads");
    assert_eq!(messages, expected);

    let agent = conversation();
    let mut messages = ask("Go");
    let handle = agent.chat(&mut messages).start().await.unwrap();
    let run = handle.id().clone();
    let answer_by_handle = handle.wait().await.unwrap();
    assert_eq!(reported(agent.runner(), &run).await, journal, "by a handle");
    assert_eq!((&messages, &answer_by_handle.text), (&expected, &answer.text));

    let agent = conversation();
    let answer_by_prompt = agent.prompt("Go").await.unwrap();
    assert_eq!(reported(agent.runner(), &answer_by_prompt.meta.run).await, journal, "by a prompt");

    let agent = conversation();
    let mut queue = std::pin::pin!(agent.queue(futures::stream::iter([ask("Go")]), 4));
    let (n, messages, answer) = queue.next().await.unwrap();
    assert_eq!(reported(agent.runner(), &answer.unwrap().meta.run).await, journal, "from a queue");
    assert_eq!((n, messages), (0, expected.clone()));

    let agent = conversation();
    let item = WorkItem::message("message", "Go", "Go");
    let outcome = agent.runner().run(item).start().await.unwrap().wait().await;
    assert_eq!(reported(agent.runner(), &outcome.run).await, journal, "by a handle of its loop");
}

#[tokio::test(start_paused = true)]
async fn every_way_to_an_output_leaves_the_same_journal_and_messages() {
    // C1, I-31, S1-44, S2-99
    let agent = output();
    let mut expected = ask("Go");
    let found = agent.chat(&mut expected).await.unwrap();
    let journal = reported(agent.runner(), &found.meta.run).await;
    assert_eq!((shape(&expected), found.meta.attempts), ("UCTCTCTUCTCT".to_owned(), 2));

    let agent = output();
    let mut messages = ask("Go");
    let (run, depth) = recurse(agent.chat(&mut messages).events().await.unwrap()).await;
    let recursed = run.answer().await.unwrap();
    assert_eq!(reported(agent.runner(), &recursed.meta.run).await, journal, "by recursion");
    assert_eq!((&messages, depth, recursed.value), (&expected, 5, found.value));

    let agent = output();
    let mut messages = ask("Go");
    let mut stream = agent.chat(&mut messages).events().await.unwrap();
    while stream.next().await.is_some() {}
    let meta = stream.finish().await;
    assert_eq!(reported(agent.runner(), &meta.run).await, journal, "as a stream");
    assert_eq!(messages, expected);

    let agent = output();
    let stream = agent.prompt("Go").events().await.unwrap();
    let streamed = stream.answer().await.unwrap();
    assert_eq!(streamed.value, lead("Ann", 1), "the value of a stream that nobody reads");

    let agent = output();
    let mut messages = ask("Go");
    let handle = agent.chat(&mut messages).start().await.unwrap();
    let run = handle.id().clone();
    assert_eq!(handle.wait().await.unwrap().value, lead("Ann", 1));
    assert_eq!(reported(agent.runner(), &run).await, journal, "by a handle");
    assert_eq!(messages, expected);

    let agent = output();
    let queue = agent.runner().run_all([WorkItem::message("message", "Go", "Go")], 4);
    let (_, outcome) = std::pin::pin!(queue).next().await.unwrap();
    assert_eq!(reported(agent.runner(), &outcome.unwrap().run).await, journal, "from a queue");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_token_ends_a_run_in_every_way() {
    // S2-79
    let cancelled = |after| {
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            token.cancel();
        });
        cancel
    };
    let is_cancelled = |error: AgentError| {
        assert!(matches!(error, AgentError::Cancelled { phase: "iteration", pass: 1, .. }), "{error:?}");
    };
    let agent = conversation();
    is_cancelled(agent.prompt("Go").until(&cancelled(100)).await.unwrap_err());
    let agent = conversation();
    let handle = agent.prompt("Go").until(&cancelled(100)).start().await.unwrap();
    is_cancelled(handle.wait().await.unwrap_err());
    let agent = conversation();
    let stream = agent.prompt("Go").until(&cancelled(100)).events().await.unwrap();
    is_cancelled(stream.answer().await.unwrap_err());

    let item = || WorkItem::new("message", "message", "Go", "Go");
    let reason = |outcome: loop_core::Outcome| outcome.stop.reason();
    let agent = conversation();
    let outcome = agent.runner().run(item()).until(&cancelled(100)).await.unwrap();
    assert_eq!(reason(outcome), StopReason::ManualStop);
    let agent = conversation();
    let handle = agent.runner().run(item()).until(&cancelled(100)).start().await.unwrap();
    assert_eq!(reason(handle.wait().await), StopReason::ManualStop);
    let agent = conversation();
    let stream = agent.runner().run(item()).until(&cancelled(100)).stream().await.unwrap();
    assert_eq!(reason(stream.into_outcome().await), StopReason::ManualStop);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_paused_goes_on_as_if_it_had_not_been() {
    // S1-45
    let straight = conversation();
    let answer = straight.chat(&mut ask("Go")).await.unwrap();
    let expected = reported(straight.runner(), &answer.meta.run).await;
    let agent = conversation();
    let mut messages = ask("Go");
    let mut stream = agent.chat(&mut messages).events().await.unwrap();
    let mut run = None;
    for n in 1..=2 {
        let Some(AgentEvent::Run(RunEvent::Recorded(entry))) = stream.next().await else {
            panic!("entries come first")
        };
        assert_eq!(entry.seq + 1, n);
        run = Some(agent.runner().journal().runs().await.unwrap()[0].run.clone());
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let written = agent.runner().journal().read(run.as_ref().unwrap()).await.unwrap().entries;
        assert_eq!(written.len() as u64, n, "nothing goes on");
    }
    stream.finish().await;
    assert_eq!(reported(agent.runner(), &run.unwrap()).await, expected);
}

/// A model that calls a tool so many times, one reply at a time, and then answers.
#[derive(Debug)]
struct Endless {
    left: AtomicU32,
}

#[async_trait]
impl ChatModel for Endless {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        let usage = Some(Usage { input: 10, output: 1, ..Usage::default() });
        let left = self.left.load(Ordering::SeqCst);
        let mut reply = ModelReply::text(if left == 0 { "Done." } else { "" }, usage);
        if left > 0 {
            self.left.store(left - 1, Ordering::SeqCst);
            let id = format!("call_{left}");
            reply.tool_calls.push(loop_testkit::call(&id, "look", r#"{"target":"on"}"#));
        }
        Ok(futures::stream::iter([Ok(ModelEvent::Finished(Box::new(reply)))]).boxed())
    }
}

/// The depth and the number of messages that ten thousand calls come to, on a thread with this little stack.
fn on_a_small_stack(ways: impl FnOnce(Agent<Text>) -> (u32, Vec<Message>) + Send + 'static) {
    const CALLS: u32 = 10_000;
    let deep = move || {
        let limits = Limits {
            passes: CALLS + 10,
            model_calls: CALLS + 10,
            tool_calls: CALLS + 10,
            messages: None,
            wall_ms: u64::from(u32::MAX),
            ..Limits::agent()
        };
        let spec = ModelSpec {
            context_tokens: u64::MAX,
            ..ModelSpec::new("endless", "m").with_price(loop_core::types::Price::flat(0, 0))
        };
        let model = AgentModel::new(Endless { left: AtomicU32::new(CALLS) }, spec);
        // Something new each time: the same again and again would end it.
        let round = AtomicU32::new(0);
        let agent = Agent::new(model).tool(look(), move |_: Target, _| {
            let n = round.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, String>(format!("on and on, {n}")) }
        });
        ways(agent.limits(limits).build().unwrap())
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1_024).spawn(deep).unwrap();
    let (depth, messages) = thread.join().unwrap();
    assert_eq!((depth, messages.len()), (CALLS + 1, 2 * CALLS as usize + 2));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn ten_thousand_calls_by_recursion_need_no_more_stack_than_one() {
    // S1-d4, S1-35, S1-36, S1-37, S1-40, S1-56
    on_a_small_stack(|agent| {
        let mut messages = ask("Go");
        let depth = runtime().block_on(async {
            let (run, depth) = recurse(agent.chat(&mut messages).events().await.unwrap()).await;
            assert_eq!(run.answer().await.unwrap().meta.totals.tool_calls, 10_000);
            depth
        });
        (depth, messages)
    });
}

#[test]
fn ten_thousand_calls_by_a_loop_need_no_more_stack_than_one() {
    // S1-d4, S1-23, S1-40
    on_a_small_stack(|agent| {
        let mut messages = ask("Go");
        let answer = runtime().block_on(agent.chat(&mut messages).into_future()).unwrap();
        (answer.meta.totals.passes, messages)
    });
}

/// Replies by how many turns it has said already, so that a lost call is answered as it was before.
#[derive(Debug)]
struct ByTurn(Vec<ScriptedReply>);

#[async_trait]
impl ChatModel for ByTurn {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let last = request.messages.iter().rposition(|message| message.text() == "Go").unwrap();
        let activity =
            request.messages[last..].iter().filter(|message| matches!(message, Message::Assistant(_)));
        let nth = activity.count();
        let mut reply = self.0[nth].clone();
        for (n, call) in reply.calls.iter_mut().enumerate() {
            call.id = Some(format!("call_{nth}_{n}"));
        }
        loop_llm::Scripted::new([reply]).stream(request).await
    }
}

fn by_turn(replies: impl IntoIterator<Item = ScriptedReply>) -> AgentModel {
    AgentModel::new(
        ByTurn(replies.into_iter().collect()),
        ModelSpec::new("by-turn", "m").with_price(loop_core::types::Price::flat(1, 1)),
    )
}

/// Everything that `run` wrote down, and each beginning of it in a journal of its own.
async fn beginnings(runner: &Runner, run: &RunId) -> Vec<Arc<MemoryJournal>> {
    let recorded = runner.journal().read(run).await.unwrap();
    let mut journals = Vec::new();
    for kept in 1..=recorded.entries.len() {
        journals.push(journal_of(&recorded, &recorded.entries[..kept]).await);
    }
    assert!(journals.len() > 5, "{}", journals.len());
    journals
}

fn conversing(journal: Arc<MemoryJournal>) -> Agent<Text> {
    let replies = [
        looks(&["slow-300", "fail"]).and_call("nobody", target("x")),
        looks(&["ok"]).and_call("change", target("it")),
        says("Done."),
    ];
    let agent = with_tools(Agent::new(by_turn(replies)), &Activity::default());
    agent.parallel().approve("change").with_journal(journal).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_conversation_cut_off_after_any_entry_comes_to_the_same_end() {
    // I-12, I-13, H1
    let straight = conversing(Arc::default());
    for before in [Vec::new(), vec![Message::user("Hi"), Message::assistant("Hello.")]] {
        let mut expected = before;
        expected.extend(ask("Go"));
        let answer = straight.chat(&mut expected).await.unwrap();
        assert_valid(&expected);
        for journal in beginnings(straight.runner(), &answer.meta.run).await {
            let mut messages = Vec::new();
            let again = conversing(journal).chat(&mut messages).resume(&answer.meta.run).await.unwrap();
            assert_eq!(messages, expected);
            assert_eq!(again.text, answer.text);
            assert_eq!(again.meta.outcome.evidence, answer.meta.outcome.evidence);
            let uses = |meta: &loop_runtime::agent::Meta| -> Vec<(u32, u32, u32)> {
                meta.tools.iter().map(|used| (used.calls, used.failures, used.refused)).collect()
            };
            assert_eq!(uses(&again.meta), uses(&answer.meta));
        }
    }
}

/// A way of driving a conversation that is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Awaited,
    Recursion,
    Stream,
    UnreadStream,
    Handle,
    Runner,
    RunnerStream,
    RunnerHandle,
}

impl Way {
    const ALL: [Self; 8] = [
        Self::Awaited,
        Self::Recursion,
        Self::Stream,
        Self::UnreadStream,
        Self::Handle,
        Self::Runner,
        Self::RunnerStream,
        Self::RunnerHandle,
    ];

    /// Resumes a conversation. The messages are those of a way that has some.
    async fn resume(self, agent: &Agent<Text>, run: &RunId) -> (Outcome, Option<Vec<Message>>) {
        let mut messages = Vec::new();
        let request = agent.chat(&mut messages).resume(run);
        let runner = agent.runner().resume(run);
        let outcome = match self {
            Self::Awaited => request.await.unwrap().meta.outcome,
            Self::Recursion => recurse(request.events().await.unwrap()).await.0.finish().await.outcome,
            Self::Stream => {
                let mut stream = request.events().await.unwrap();
                while stream.next().await.is_some() {}
                stream.finish().await.outcome
            }
            Self::UnreadStream => request.events().await.unwrap().finish().await.outcome,
            Self::Handle => request.start().await.unwrap().wait().await.unwrap().meta.outcome,
            Self::Runner => return (runner.await.unwrap(), None),
            Self::RunnerStream => return (runner.stream().await.unwrap().into_outcome().await, None),
            Self::RunnerHandle => return (runner.start().await.unwrap().wait().await, None),
        };
        (outcome, Some(messages))
    }
}

/// An outcome without its instants: how long no driver ran is real time.
fn timeless(mut outcome: Outcome) -> Outcome {
    outcome.passes.iter_mut().for_each(|pass| pass.at = loop_core::types::Millis(0));
    outcome.totals.wall_ms = 0;
    outcome
}

#[tokio::test(start_paused = true)]
async fn a_conversation_cut_off_after_any_entry_comes_to_the_same_end_in_every_way() {
    // I-12, I-31, C1, S1-44, S2-99
    let straight = conversing(Arc::default());
    let mut expected = ask("Go");
    let answer = straight.chat(&mut expected).await.unwrap();
    let run = &answer.meta.run;
    let cuts = beginnings(straight.runner(), run).await.len();
    for cut in 0..cuts {
        let mut first: Option<Outcome> = None;
        for way in Way::ALL {
            let journal = beginnings(straight.runner(), run).await.swap_remove(cut);
            let (outcome, messages) = way.resume(&conversing(journal), run).await;
            let what = format!("{way:?} after entry {cut}");
            assert!(messages.is_none_or(|messages| messages == expected), "the messages differ: {what}");
            // Lost calls are charged: apart from them the outcome is that of a conversation that was not cut off.
            assert_eq!(outcome.answer, answer.meta.outcome.answer, "{what}");
            assert_eq!(outcome.evidence, answer.meta.outcome.evidence, "{what}");
            assert_eq!(outcome.stop.reason(), answer.meta.outcome.stop.reason(), "{what}");
            let outcome = timeless(outcome);
            let first = first.get_or_insert_with(|| outcome.clone());
            assert_eq!(outcome, *first, "{what}");
        }
    }
}

fn extracting(journal: Arc<MemoryJournal>) -> Agent<Lead> {
    let tool =
        lead_tool().reflect(|lead| format!("# {}", lead.name)).validator("score", |lead: Lead| async move {
            if lead.score <= 100 { Ok(()) } else { Err("too much") }
        });
    let replies = [
        looks(&["ok"]),
        save_lead("Ann", 101),
        submits(),
        save_lead("Ann", 1).and_call("submit", target("x")),
    ];
    let agent = with_tools(Agent::output(by_turn(replies), tool), &Activity::default());
    agent.with_journal(journal).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_output_cut_off_after_any_entry_comes_to_the_same_end() {
    // I-12, I-13, H1
    let straight = extracting(Arc::default());
    let mut expected = ask("Go");
    let found = straight.chat(&mut expected).await.unwrap();
    assert_eq!(found.meta.attempts, 2);
    for journal in beginnings(straight.runner(), &found.meta.run).await {
        let mut messages = Vec::new();
        let again = extracting(journal).chat(&mut messages).resume(&found.meta.run).await.unwrap();
        assert_eq!((&messages, &again.value), (&expected, &found.value));
        assert_eq!(again.meta.outcome.evidence, found.meta.outcome.evidence);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_cut_off_is_made_again_with_its_key_or_is_in_doubt() {
    // I-6, H1
    let keyed = |effect, activity: &Activity, journal: Arc<MemoryJournal>| {
        let activity = activity.clone();
        let replies = [ScriptedReply::call("change", target("it")), says("Done.")];
        let agent = Agent::new(by_turn(replies)).tool(
            agents::change().effect(effect),
            move |_: Target, context: loop_runtime::tools::ToolContext| {
                activity.say(&*context.key);
                async { Ok::<_, String>("changed") }
            },
        );
        agent.approve("change").with_journal(journal).build().unwrap()
    };
    for (effect, times) in
        [(loop_runtime::tools::Effect::WriteKeyed, 1), (loop_runtime::tools::Effect::WriteIrreversible, 0)]
    {
        let activity = Activity::default();
        let straight = keyed(effect, &activity, Arc::default());
        let run = straight.chat(&mut ask("Go")).await.unwrap().meta.run;
        let entries = straight.runner().journal().read(&run).await.unwrap().entries;
        let announced = entries
            .iter()
            .position(|entry| matches!(entry.event.kind, EventKind::ToolStarted { .. }))
            .unwrap();
        let journal = beginnings(straight.runner(), &run).await.swap_remove(announced);
        let again = Activity::default();
        let mut messages = Vec::new();
        let resumed = keyed(effect, &again, journal).chat(&mut messages).resume(&run).await;
        assert_eq!(again.lines(), activity.lines()[..times], "{}", effect.name());
        assert_eq!(agents::texts(&messages)[0].contains("may or may not have happened"), times == 0);
        match resumed {
            Ok(answer) => assert_eq!((&*answer.text, times > 0), ("Done.", true)),
            // W5: whoever awaits it is told that an effect is in doubt.
            Err(error) => assert!(matches!(error, AgentError::InDoubt { .. }) && times == 0, "{error}"),
        }
        assert_valid(&messages);
    }
}

#[tokio::test]
async fn what_nobody_wrote_down_cannot_be_taken_up() {
    // H1, H11
    let model = || scripted([says("Hello."), says("Hello.")]);
    let agent = Agent::new(model()).build().unwrap();
    let run = agent.chat(&mut ask("Hi")).await.unwrap().meta.run;
    let error = agent.chat(&mut Vec::new()).resume(&run).await.unwrap_err();
    let expected = "nothing was written down; give the loop or the agent a journal (with_journal)";
    assert_eq!(error.to_string(), format!("run {run} cannot be found again: {expected}"));
    let journal = Arc::new(MemoryJournal::new());
    let agent = Agent::new(model()).with_journal(journal.clone()).build().unwrap();
    let run = agent.chat(&mut ask("Hi")).await.unwrap().meta.run;
    let other = Agent::new(model()).instructions("Be rude.").with_journal(journal).build().unwrap();
    let error = other.chat(&mut Vec::new()).resume(&run).await.unwrap_err();
    assert!(matches!(error, AgentError::Start(StartError::Changed { .. })), "{error:?}");
    let mut messages = Vec::new();
    assert_eq!(
        &*agent.chat(&mut messages).resume(&run).await.unwrap().text,
        "Hello.",
        "what is done is done"
    );
    assert_eq!(shape(&messages), "UA");
}

#[tokio::test]
async fn without_a_journal_nothing_is_kept() {
    let agent = Agent::new(scripted([says("Hello.")])).build().unwrap();
    let answer = agent.chat(&mut ask("Hi")).await.unwrap();
    assert_eq!(answer.meta.reason(), StopReason::Completed);
    assert!(agent.runner().journal().runs().await.unwrap().is_empty());
    assert!(agent.runner().journal().read(&answer.meta.run).await.is_err());
}
