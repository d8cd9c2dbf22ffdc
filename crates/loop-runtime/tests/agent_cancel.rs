//! An agent that is cancelled: wherever it is, it returns in time, says where it was, and leaves valid messages.

use crate::agents;

use std::sync::Arc;
use std::time::Duration;

use agents::{
    Activity, Lead, ask, assert_valid, change, conversation, lead_tool, look, looks, meta_of, save_lead,
    says, scripted, shape, target, texts, with_tools,
};
use async_trait::async_trait;
use loop_core::policy::ResultOrigin;
use loop_core::types::Status;
use loop_llm::model::Timing;
use loop_llm::scripted::ScriptedReply;
use loop_llm::{ChatModel, EventStream, LlmError, ModelRequest, Scripted};
use loop_runtime::{
    Agent, Message, StopReason,
    agent::{AgentError, AgentModel, Text},
    models::ModelSpec,
};
use loop_tools::{CancellationToken, Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use serde_json::Value;
use tokio::time::Instant;

/// A token that is cancelled after so many milliseconds.
fn cancelled_after(ms: u64) -> CancellationToken {
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        cancel.cancel();
    });
    token
}

/// How a cancelled agent ended.
#[derive(Debug, PartialEq)]
struct Ended {
    phase: &'static str,
    pass: u32,
    attempt: u32,
    /// Milliseconds from the beginning.
    after: u64,
}

fn ended(error: &AgentError, began: Instant) -> Ended {
    let AgentError::Cancelled { phase, pass, attempt, meta } = error else { panic!("{error:?}") };
    assert_eq!((&*error.code(), meta.reason()), ("EXECUTION_CANCELLED", StopReason::ManualStop));
    Ended { phase, pass: *pass, attempt: *attempt, after: began.elapsed().as_millis() as u64 }
}

/// Cancels a conversation after so many milliseconds, and goes on with its messages afterwards.
async fn cancelled(agent: &Agent<Text>, ms: u64) -> (Ended, Vec<Message>, AgentError) {
    let mut messages = ask("Go");
    let began = Instant::now();
    let error = agent.chat(&mut messages).until(&cancelled_after(ms)).await.unwrap_err();
    let ended = ended(&error, began);
    assert_valid(&messages);
    let mut on = messages.clone();
    on.push(Message::user("Go on."));
    let next = Agent::new(scripted([looks(&["ok"]), says("Here.")]));
    let next = with_tools(next, &Activity::default()).build().unwrap();
    assert_eq!(&*next.chat(&mut on).await.unwrap().text, "Here.");
    assert_valid(&on);
    (ended, messages, error)
}

#[tokio::test(start_paused = true)]
async fn before_the_first_call_no_request_is_sent() {
    // S2-49, S2-79
    let model = scripted([says("Never.")]);
    let agent = conversation(&model, &Activity::default()).build().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut messages = ask("Go");
    let began = Instant::now();
    let error = agent.chat(&mut messages).until(&cancel).await.unwrap_err();
    assert_eq!(ended(&error, began), Ended { phase: "start", pass: 0, attempt: 0, after: 0 });
    assert_eq!(error.to_string(), "cancelled in phase start of pass 0");
    assert_eq!((model.requests().len(), meta_of(&error).totals.model_calls, &*shape(&messages)), (0, 0, "U"));
    assert_valid(&messages);
    // The same messages can be asked again.
    assert_eq!(&*agent.chat(&mut messages).await.unwrap().text, "Never.");
}

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_a_stream_what_came_is_kept() {
    // S2-50, S2-51, S2-66, S2-79, I-19
    let timing = Timing { pause: Duration::from_millis(100) };
    let model = Arc::new(Scripted::replies(["one\ntwo\nthree\nfour\n"]).paced(timing));
    let agent = conversation(&model, &Activity::default()).build().unwrap();
    let (ended, messages, error) = cancelled(&agent, 250).await;
    assert_eq!(ended, Ended { phase: "iteration", pass: 1, attempt: 0, after: 250 });
    let answer = meta_of(&error).outcome.answer.as_deref().unwrap();
    assert!(answer.starts_with("one\n") && !answer.contains("four"), "{answer}");
    assert_eq!((&*shape(&messages), messages[1].text()), ("UA", answer));
}

#[tokio::test(start_paused = true)]
async fn what_it_can_go_on_from_at_once_and_what_needs_a_message_first() {
    // S1-20, S1-21
    let demanding = |model: &Arc<Scripted>| {
        let agent = conversation(model, &Activity::default());
        agent.gate(|gate| gate.required_tools = vec!["look".into()]).build().unwrap()
    };
    // Cut off while it repairs an answer that was not accepted: that answer is not said again.
    let model = scripted([says("At once."), looks(&["hang"]), says("Here.")]);
    let agent = demanding(&model);
    let (_, mut messages, _) = cancelled(&agent, 500).await;
    assert_eq!(shape(&messages), "UAUCT");
    assert_eq!(
        &*Agent::new(scripted([says("Here.")])).build().unwrap().chat(&mut messages).await.unwrap().text,
        "Here."
    );
    assert_eq!(shape(&messages), "UAUCTA");
    // The model fails there.
    let broken = ScriptedReply { fails: Some("gone".to_owned()), ..ScriptedReply::default() };
    let model = scripted([says("At once."), broken.clone(), broken.clone(), broken]);
    let mut messages = ask("Go");
    let error = demanding(&model).chat(&mut messages).await.unwrap_err();
    assert_eq!((&*error.code(), &*shape(&messages)), ("MODEL_FAILURE", "UAU"));
    // Cut off in the middle of its text: nobody has said anything to that yet.
    let timing = Timing { pause: Duration::from_millis(100) };
    let model = Arc::new(Scripted::replies(["one\ntwo\nthree\n"]).paced(timing));
    let agent = conversation(&model, &Activity::default()).build().unwrap();
    let (_, mut messages, _) = cancelled(&agent, 250).await;
    assert_eq!(shape(&messages), "UA");
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert!(error.to_string().contains("add a Message::user, for example \"Go on.\""), "{error}");
}

#[derive(Debug)]
struct Silent;

#[async_trait]
impl ChatModel for Silent {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_answers_is_left() {
    // S2-51
    let agent =
        Agent::new(AgentModel::new(Silent, ModelSpec::new("silent", "m"))).no_cost_limit().build().unwrap();
    let (ended, messages, _) = cancelled(&agent, 700).await;
    assert_eq!(ended, Ended { phase: "iteration", pass: 1, attempt: 0, after: 700 });
    assert_eq!(shape(&messages), "U");
}

/// A tool that goes on whatever it is told, and keeps its thread for a while each time.
struct Deaf(ToolDeclaration);

#[async_trait]
impl Tool for Deaf {
    fn spec(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, _: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_tool_that_ignores_it_two_seconds_are_the_most() {
    // S2-50, S2-51, S2-66
    let model = scripted([looks(&["ok", "x"]).and_call("look", target("y")), says("Never.")]);
    let schema = serde_json::json!({"type": "object", "properties": {"target": {"type": "string"}}});
    let deaf = Deaf(ToolDeclaration::read("look", "Looks").schema(schema).timeout_ms(60_000));
    let agent = Agent::new(model.clone()).with_tool(Arc::new(deaf)).build().unwrap();
    let (ended, messages, error) = cancelled(&agent, 1_000).await;
    assert_eq!((ended.phase, ended.pass), ("iteration", 1));
    assert!(ended.after <= 3_000, "within two seconds: {}", ended.after);
    assert_eq!(model.requests().len(), 1);
    assert_eq!(shape(&messages), "UCT");
    assert!(
        texts(&messages).iter().all(|text| text.starts_with("!Error: cancelled")),
        "{:?}",
        texts(&messages)
    );
    assert_eq!(meta_of(&error).outcome.evidence.len(), 3, "those that never began are answered as well");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_cut_off_is_in_doubt() {
    // S2-51, I-6
    let activity = Activity::default();
    let write = change().effect(loop_runtime::tools::Effect::WriteIrreversible);
    let reported = activity.clone();
    let model = scripted([
        looks(&["ok"]).and_call("change", target("hang")).and_call("look", target("late")),
        ScriptedReply::call("change", target("hang")),
    ]);
    let reads = activity.clone();
    let agent = Agent::new(model)
        .tool(look(), move |target: agents::Target, _| agents::behave(target, reads.clone()))
        .tool(write, move |target: agents::Target, _| agents::behave(target, reported.clone()))
        .approve("change")
        .build()
        .unwrap();
    let (_, mut messages, error) = cancelled(&agent, 500).await;
    assert_eq!(activity.lines(), ["begins ok", "ends ok", "begins hang"]);
    assert_eq!(agents::statuses(meta_of(&error)), [Status::Ok, Status::InDoubt, Status::Cancelled]);
    let reported = texts(&messages);
    assert_eq!(reported[0], "saw ok");
    assert!(reported[1].contains("may or may not have happened"), "{reported:?}");
    assert!(reported[2].starts_with("!Error: cancelled"), "{reported:?}");
    let marks: Vec<_> =
        agents::results(&messages).iter().map(|result| (result.status, result.origin)).collect();
    let of_tool = Some(ResultOrigin::Tool { untrusted: false, private: false });
    let ended = [Status::Ok, Status::InDoubt, Status::Cancelled];
    assert_eq!(marks, ended.map(|status| (Some(status), of_tool)));
    // The next turn knows of it, whatever the words are: nobody has said that it may be done again.
    for message in &mut messages {
        if let Message::Tool { results } = message {
            results.iter_mut().for_each(|result| result.text = "It is paid.".into());
        }
    }
    messages.push(Message::user("Once more"));
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(agents::verdicts(meta_of(&error)), ["needs_person"]);
    assert_eq!(activity.lines().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn side_by_side_what_had_ended_stays() {
    // S2-66, I-20
    let activity = Activity::default();
    let model = scripted([looks(&["hang", "slow-100", "slow-900"])]);
    let agent = conversation(&model, &activity).parallel().build().unwrap();
    let (_, messages, _) = cancelled(&agent, 500).await;
    let reported = texts(&messages);
    assert_eq!(reported[1], "saw slow-100");
    assert!(
        reported[0].starts_with("!Error: cancelled") && reported[2].starts_with("!Error: cancelled"),
        "{reported:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn between_two_passes_no_further_call_is_made() {
    // S2-49
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let model = scripted([looks(&["x"]), says("Never.")]);
    let agent = Agent::new(model.clone()).tool(look(), move |_: agents::Target, _: ToolContext| {
        token.cancel();
        async { Ok::<_, String>("seen") }
    });
    let mut messages = ask("Go");
    let error = agent.build().unwrap().chat(&mut messages).until(&cancel).await.unwrap_err();
    assert!(matches!(error, AgentError::Cancelled { phase: "iteration", .. }), "{error:?}");
    assert_eq!((model.requests().len(), &*shape(&messages)), (1, "UCT"));
    assert_valid(&messages);
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_to_try_again() {
    // S2-51
    let breaks = ScriptedReply { fails: Some("gone".to_owned()), ..says("half an ans") };
    let model = scripted([breaks, says("Never.")]);
    let agent = conversation(&model, &Activity::default()).build().unwrap();
    let (ended, ..) = cancelled(&agent, 100).await;
    assert_eq!((ended.phase, ended.pass, ended.after), ("iteration", 1, 100));
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_validation_and_in_a_later_attempt() {
    // S2-50, S2-79, S2-93
    let tool = lead_tool().validator("slow", |lead: Lead| async move {
        if lead.score > 100 {
            return Err("too much");
        }
        std::future::pending().await
    });
    let model = scripted([save_lead("Ann", 101), save_lead("Ann", 1), says("Never.")]);
    let agent = Agent::output(model.clone(), tool).build().unwrap();
    let mut messages = ask("Go");
    let began = Instant::now();
    let error = agent.chat(&mut messages).until(&cancelled_after(5_000)).await.unwrap_err();
    assert_eq!(ended(&error, began), Ended { phase: "validation", pass: 2, attempt: 2, after: 5_000 });
    assert_eq!(error.to_string(), "cancelled in phase validation of pass 2 (attempt 2)");
    let outcome = &meta_of(&error).outcome;
    assert!(
        outcome.output.as_ref().is_some_and(|output| !output.valid),
        "it is kept, and not said to be valid"
    );
    assert_eq!((meta_of(&error).attempts, model.left(), &*shape(&messages)), (2, 1, "UCTUCT"));
    assert_valid(&messages);
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_too_late_changes_nothing() {
    let cancel = CancellationToken::new();
    let model = scripted([says("Done."), says("Again.")]);
    let agent = conversation(&model, &Activity::default()).build().unwrap();
    let mut messages = ask("Go");
    assert!(agent.chat(&mut messages).until(&cancel).await.is_ok());
    cancel.cancel();
    assert_eq!(shape(&messages), "UA");
    messages.push(Message::user("Again?"));
    assert!(agent.chat(&mut messages).until(&cancel).await.is_err(), "the next one is cancelled at once");
    assert_eq!(model.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_ends_what_is_in_flight() {
    // I-14
    let activity = Activity::default();
    let model = scripted([looks(&["hang"])]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    let late = tokio::time::timeout(Duration::from_secs(5), agent.chat(&mut messages)).await;
    assert!(late.is_err());
    assert_eq!((activity.lines(), messages.len()), (vec!["begins hang".to_owned()], 1));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}
