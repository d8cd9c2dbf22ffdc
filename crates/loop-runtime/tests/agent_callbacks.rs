//! Observers in place: when they are called, with what, and that nothing they do reaches the run.

use crate::agents;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agents::{Activity, ask, looks, meta_of, save_lead, says, scripted, shape, target, with_tools};
use agents::{Lead, lead_tool, submits};
use futures::StreamExt;
use loop_core::run::PersonAnswer;
use loop_core::{Note, Verdict};
use loop_llm::Scripted;
use loop_llm::scripted::ScriptedReply;
use loop_runtime::{
    Agent,
    agent::{AgentBuilder, AgentError, AgentEvent, OutputTool, Reflected},
    journal::{Journal, MemoryJournal},
    observe::{Observer, RunEvent, Step, steps},
    spec::Limits,
    tools::ToolDeclaration,
};
use loop_tools::{CancellationToken, ToolResult};
use serde_json::json;

/// One that says everything that it is told.
fn telling(activity: &Activity) -> Arc<dyn Observer> {
    let activity = activity.clone();
    steps(move |at, step| {
        let place = format!("{}.{}", at.attempt, at.pass);
        activity.say(match step {
            Step::AttemptStart => format!("attempt {place}"),
            Step::Pass => format!("pass {place} ({} calls)", at.totals.model_calls),
            Step::ToolCall { tool, input } => format!("call {place} {tool} {input}"),
            Step::ToolResult { tool, result, .. } => format!("result {place} {tool} {result}"),
            Step::ValidationFailure { by, message } => format!("rejected {place} {by}: {message}"),
            other => panic!("{other:?}"),
        });
        Ok(())
    })
}

fn reflected() -> OutputTool<Lead, Reflected> {
    lead_tool().reflect(|lead| format!("# {}", lead.name)).validator("score", |lead: Lead| async move {
        if lead.score <= 100 { Ok(()) } else { Err("too much") }
    })
}

/// A run with everything in it: helpers, one that fails, outputs, a rejection, a submission.
fn busy() -> Arc<Scripted> {
    scripted([
        looks(&["one", "fail"]).and_call("nobody", json!({})),
        save_lead("Ann", 101),
        submits(),
        save_lead("Ann", 1).and_call("look", target("panic")).and_call("submit", json!({})),
    ])
}

fn agent(model: Arc<Scripted>) -> AgentBuilder<Lead> {
    with_tools(Agent::output(model, reflected()), &Activity::default())
}

#[tokio::test]
async fn they_are_called_before_and_after_each_step_with_what_it_is_about() {
    // S2-43..S2-47, S2-68, S2-89, S2-91, S2-94
    let activity = Activity::default();
    let agent = agent(busy()).with_observer(telling(&activity)).build().unwrap();
    let found = agent.prompt("Go").await.unwrap();
    assert!(found.meta.observer_errors.is_empty());
    let expected = [
        "attempt 1.1",
        "pass 1.1 (1 calls)",
        r#"call 1.1 look {"target":"one"}"#,
        "result 1.1 look saw one",
        r#"call 1.1 look {"target":"fail"}"#,
        "result 1.1 look Error: no such thing",
        "pass 1.2 (2 calls)",
        r#"call 1.2 save_lead {"name":"Ann","score":101}"#,
        "result 1.2 save_lead # Ann",
        "pass 1.3 (3 calls)",
        "rejected 1.3 score: too much",
        "attempt 2.4",
        "pass 2.4 (4 calls)",
        r#"call 2.4 save_lead {"name":"Ann","score":1}"#,
        "result 2.4 save_lead # Ann",
        r#"call 2.4 look {"target":"panic"}"#,
        "result 2.4 look Error: the tool panicked: it went to pieces",
    ];
    assert_eq!(activity.lines(), expected);
}

#[tokio::test]
async fn in_a_conversation_there_are_passes_and_tools() {
    // S2-43, S2-44, S2-45
    let activity = Activity::default();
    let model = scripted([looks(&["x"]), ScriptedReply::call("nobody", json!({})), says("Done.")]);
    let agent =
        agents::conversation(&model, &Activity::default()).with_observer(telling(&activity)).build().unwrap();
    agent.chat(&mut ask("Go")).await.unwrap();
    assert_eq!(
        activity.lines(),
        [
            "pass 0.1 (1 calls)",
            r#"call 0.1 look {"target":"x"}"#,
            "result 0.1 look saw x",
            "pass 0.2 (2 calls)",
            "pass 0.3 (3 calls)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_told_where_it_is_and_a_call_once_however_often_it_is_asked_again() {
    // S2-43, S2-44, S4-58: the key of a retry is that of the first try; a blank reply is no pass.
    let activity = Activity::default();
    let (busy, slow) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let before = |count: &Arc<AtomicU32>| count.fetch_add(1, Ordering::SeqCst);
    let fetch = ToolDeclaration::read("fetch", "Fetches a thing");
    let wait = ToolDeclaration::read("wait", "Waits for a thing");
    let model = scripted([
        ScriptedReply::call("fetch", target("a")),
        says(" "),
        ScriptedReply::call("fetch", target("a")).and_call("wait", target("b")),
        says("Done."),
    ]);
    let agent = Agent::new(model)
        .tool(fetch, move |_: agents::Target, _| {
            let first = before(&busy) == 0;
            async move {
                Ok::<_, String>(match first {
                    true => ToolResult::retryable("fetch", "Fetch", "busy"),
                    false => ToolResult::value("fetch", json!("it")),
                })
            }
        })
        .tool(wait, move |_: agents::Target, _| {
            let times = before(&slow);
            async move {
                Ok::<_, String>(match times {
                    0..2 => ToolResult::pending("wait", "Wait", 100),
                    _ => ToolResult::value("wait", json!("ready")),
                })
            }
        });
    let agent = agent.with_observer(telling(&activity)).build().unwrap();
    let answer = agent.chat(&mut ask("Go")).await.unwrap();
    assert_eq!(
        activity.lines(),
        [
            "pass 0.1 (1 calls)",
            r#"call 0.1 fetch {"target":"a"}"#,
            "result 0.1 fetch Error: busy",
            "pass 0.2 (3 calls)",
            r#"call 0.2 fetch {"target":"a"}"#,
            "result 0.2 fetch it",
            r#"call 0.2 wait {"target":"b"}"#,
            "result 0.2 wait ready",
            "pass 0.3 (4 calls)",
        ]
    );
    assert_eq!((agents::used(&answer.meta, "fetch").calls, agents::used(&answer.meta, "wait").calls), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_a_person_approved_is_counted() {
    // S2-102
    let tries = Arc::new(AtomicU32::new(0));
    let revise = ToolDeclaration::new("revise")
        .effect(loop_runtime::tools::Effect::WriteIdempotent)
        .description("Revises");
    let once = || ScriptedReply::call("revise", target("a"));
    let agent = Agent::new(scripted([once(), once(), says("Done.")])).ask_people().tool(
        revise,
        move |_: agents::Target, _| {
            let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                Ok::<_, String>(match first {
                    true => ToolResult::retryable("revise", "Revise", "busy"),
                    false => ToolResult::value("revise", json!("it")),
                })
            }
        },
    );
    let agent = agent.build().unwrap();
    let mut messages = ask("Go");
    let mut run = agent.chat(&mut messages).events().await.unwrap();
    let remote = run.remote();
    while let Some(event) = run.next().await {
        let AgentEvent::Run(RunEvent::Recorded(entry)) = event else { continue };
        for note in &entry.notes {
            if let Note::ActionJudged(action) = note
                && matches!(action.verdict, Verdict::NeedsPerson { .. })
            {
                remote.answer(action.key, PersonAnswer::Approved);
            }
        }
    }
    let meta = run.finish().await;
    assert_eq!(meta.outcome.answer.as_deref(), Some("Done."));
    let used = agents::used(&meta, "revise");
    assert_eq!((used.calls, used.failures, used.refused, used.ms), (2, 1, 0, 200));
}

#[tokio::test]
async fn several_are_called_in_the_order_in_which_they_were_added() {
    // S2-68
    let activity = Activity::default();
    let (one, two) = (activity.clone(), activity.clone());
    let naming = |name: &'static str, activity: Activity| {
        steps(move |_, step| {
            if let Step::ToolCall { tool, .. } = step {
                activity.say(format!("{name} {tool}"));
            }
            Ok(())
        })
    };
    let model = scripted([looks(&["x"]), says("Done.")]);
    let agent = agents::conversation(&model, &Activity::default());
    let agent = agent.with_observer(naming("one", one)).with_observer(naming("two", two)).build().unwrap();
    agent.chat(&mut ask("Go")).await.unwrap();
    assert_eq!(activity.lines(), ["one look", "two look"]);
}

/// One that fails each time, by an error or by a panic.
fn hostile() -> Arc<dyn Observer> {
    steps(|at, step| match step {
        Step::AttemptStart => Err("no attempt".to_owned()),
        Step::Pass => panic!("no pass {}", at.pass),
        Step::ToolCall { tool, .. } => Err(format!("no {tool}")),
        Step::ToolResult { .. } => panic!("no result"),
        Step::ValidationFailure { by, .. } => Err(format!("no {by}")),
        _ => Ok(()),
    })
}

async fn written(agent: &Agent<Lead>, run: &loop_runtime::run::RunId) -> String {
    let entries = agent.runner().journal().read(run).await.unwrap().entries;
    let loop_core::EventKind::Started(started) = &entries[0].event.kind else { panic!("{:?}", entries[0]) };
    serde_json::to_string(&entries[1..]).unwrap().replace(&*started.nonce, "NONCE")
}

#[tokio::test(start_paused = true)]
async fn what_they_throw_is_collected_and_changes_nothing() {
    // S2-48, S2-68, S2-90, S2-93, I-30
    let journal = || -> Arc<dyn Journal> { Arc::new(MemoryJournal::new()) };
    let plain = agent(busy()).with_journal(journal()).build().unwrap();
    let mut expected = ask("Go");
    let straight = plain.chat(&mut expected).await.unwrap();
    let thrown = agent(busy()).with_journal(journal()).with_observer(hostile()).build().unwrap();
    let mut messages = ask("Go");
    let found = thrown.chat(&mut messages).await.unwrap();
    assert_eq!((&found.value, &messages), (&straight.value, &expected));
    assert_eq!(written(&thrown, &found.meta.run).await, written(&plain, &straight.meta.run).await);
    assert!(straight.meta.observer_errors.is_empty());
    let errors: Vec<String> = found.meta.observer_errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "attempt_start: no attempt",
            "pass: it panicked: no pass 1",
            "tool_call: no look",
            "tool_result: it panicked: no result",
            "tool_call: no look",
            "tool_result: it panicked: no result",
            "pass: it panicked: no pass 2",
            "tool_call: no save_lead",
            "tool_result: it panicked: no result",
            "pass: it panicked: no pass 3",
            "validation_failure: no score",
            "attempt_start: no attempt",
            "pass: it panicked: no pass 4",
            "tool_call: no save_lead",
            "tool_result: it panicked: no result",
            "tool_call: no look",
            "tool_result: it panicked: no result",
        ]
    );
}

#[tokio::test]
async fn an_error_tells_of_them_as_well() {
    // S2-93
    let limits = Limits { passes: 1, ..Limits::extract(3, 15) };
    let agent = agent(scripted([looks(&["x"])])).limits(limits).with_observer(hostile()).build().unwrap();
    let error = agent.prompt("Go").await.unwrap_err();
    assert!(matches!(error, AgentError::MaxIterations { .. }), "{error:?}");
    assert_eq!(meta_of(&error).observer_errors.len(), 2, "{:?}", meta_of(&error).observer_errors);
}

#[tokio::test]
async fn each_run_has_its_own() {
    // S2-90
    let failing = steps(|_, step| if step == Step::Pass { Err("thrown".to_owned()) } else { Ok(()) });
    let agent = Agent::new(scripted([says("One."), says("Two.")])).with_observer(failing).build().unwrap();
    for _ in 0..2 {
        let answer = agent.chat(&mut ask("Go")).await.unwrap();
        assert_eq!(answer.meta.observer_errors.len(), 1);
    }
}

#[tokio::test]
async fn one_that_cancels_is_heard_before_the_next_call() {
    // S2-49, S2-66
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let cancelling = steps(move |_, step| {
        if let Step::ToolResult { .. } = step {
            token.cancel();
        }
        Ok(())
    });
    let model = scripted([looks(&["x"]), says("Never asked.")]);
    let agent = agents::conversation(&model, &Activity::default());
    let agent = agent.with_observer(cancelling).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).until(&cancel).await.unwrap_err();
    let AgentError::Cancelled { phase, pass, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*phase, *pass, model.requests().len(), &*shape(&messages)), ("iteration", 2, 1, "UCT"));
}
