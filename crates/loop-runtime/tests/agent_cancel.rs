//! An agent that is cancelled: wherever it is, it returns in time, says where it was, and leaves valid messages.

use crate::agents;

use std::sync::Arc;
use std::time::Duration;

use agents::{
    Activity, Lead, ask, assert_valid, change, conversation, lead_tool, look, looks, meta_of, save_lead,
    says, scripted, shape, target, texts, with_tools,
};
use loop_core::policy::ResultOrigin;
use loop_core::types::Status;
use loop_llm::Scripted;
use loop_llm::model::Timing;
use loop_llm::scripted::ScriptedReply;
use loop_runtime::{
    Agent, Message, StopReason,
    agent::{AgentError, Text},
};
use loop_tools::{CancellationToken, ToolContext};
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
