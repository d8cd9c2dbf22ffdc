//! An agent that converses, as its users use it.

use crate::{agents, recursing::recurse};

use std::sync::Arc;
use std::time::Duration;

use agents::{
    Activity, Search, Target, ask, assert_growing, assert_valid, change, conversation, look, looks, meta_of,
    results, says, scripted, shape, statuses, target, texts, used, verdicts,
};
use loop_core::spec::Repeats;
use loop_core::types::{Millis, PicoUsd, Price, ResultPicture, Status, Usage};
use loop_llm::ToolChoice;
use loop_llm::request::Image;
use loop_llm::scripted::ScriptedReply;
use loop_runtime::{
    Agent, Message, StopReason,
    agent::{AgentError, AgentModel},
    models::{ModelSpec, Offline},
    run::StopClass,
    spec::{ErrorStyle, Limits},
    tools::{Effect, ToolDeclaration, ToolResult},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

#[tokio::test]
async fn find_user_named_alice() {
    // S1-42, S1-1, S1-9, S1-16..S1-21, S1-28, S1-34, S1-51
    let model = scripted([
        ScriptedReply::call("search_user", json!({"name": "Alice"})),
        says("Found 15 users named Alice"),
    ]);
    let search = ToolDeclaration::read("search_user", "Search users by name");
    let agent = Agent::new(model.clone()).tool(search, |search: Search, _| async move {
        Ok::<_, String>(format!("15 users named {}", search.name))
    });
    let mut messages = ask("Find user named Alice");
    let answer = agent.build().unwrap().chat(&mut messages).await.unwrap();
    assert_eq!(&*answer.text, "Found 15 users named Alice");
    assert_eq!(shape(&messages), "UCTA");
    assert_eq!(texts(&messages), ["15 users named Alice"]);
    let Message::Assistant(turn) = &messages[1] else { panic!("{messages:#?}") };
    assert_eq!(*results(&messages)[0].call, *turn.calls[0].id);
    assert_eq!((model.left(), answer.meta.totals.passes), (0, 2));
    let requests = model.requests();
    assert_eq!(shape(&requests[0].messages), "U");
    assert_eq!(shape(&requests[1].messages), "UCT", "history grows, and the call comes before its result");
    assert_growing(&requests);
    assert_valid(&messages);
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Update {
    id: u32,
    company: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct ById {
    id: u32,
}

#[derive(Serialize)]
struct User {
    id: u32,
    name: &'static str,
}

#[tokio::test]
async fn find_bob_and_update_his_company() {
    // S1-43, S1-6, S1-8
    let model = scripted([
        ScriptedReply::call("search_user", json!({"name": "Bob"})),
        ScriptedReply::call("get_user_by_id", json!({"id": 42})),
        ScriptedReply::call("update_user", json!({"id": 42, "company": "EPAM"})),
        says("Updated Bob's company to EPAM"),
    ]);
    let update =
        ToolDeclaration::new("update_user").description("Update a user").effect(Effect::WriteIdempotent);
    let agent = Agent::new(model.clone())
        .tool(ToolDeclaration::read("search_user", "Search"), |search: Search, _| async move {
            Ok::<_, String>(json!([{"id": 42, "name": search.name}]))
        })
        .tool(ToolDeclaration::read("get_user_by_id", "Get"), |by: ById, _| async move {
            Ok::<_, String>(User { id: by.id, name: "Bob" })
        })
        .tool(update, |update: Update, _| async move {
            Ok::<_, String>(format!("user {} works at {}", update.id, update.company))
        })
        .approve("update_user")
        .build()
        .unwrap();
    let mut messages = ask("Find Bob and update his company to EPAM");
    let (run, depth) = recurse(agent.chat(&mut messages).events().await.unwrap()).await;
    let answer = run.answer().await.unwrap();
    assert_eq!((&*answer.text, depth), ("Updated Bob's company to EPAM", 4));
    assert_eq!(shape(&messages), "UCTCTCTA");
    assert_eq!(
        texts(&messages),
        [r#"[{"id":42,"name":"Bob"}]"#, r#"{"id":42,"name":"Bob"}"#, "user 42 works at EPAM"]
    );
    assert_growing(&model.requests());
    assert_valid(&messages);
}

#[tokio::test]
async fn a_chat_goes_on_with_the_same_messages() {
    // S1-7, S1-12, S1-21
    let activity = Activity::default();
    let model = scripted([looks(&["x"]), says("One."), looks(&["y"]), says("Two.")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("First");
    agent.chat(&mut messages).await.unwrap();
    let before = messages.clone();
    messages.push(Message::user("Second"));
    let answer = agent.chat(&mut messages).await.unwrap();
    assert_eq!((&*answer.text, &*shape(&messages)), ("Two.", "UCTAUCTA"));
    assert_eq!(messages[..4], before, "what was said stays as it is");
    assert_eq!(model.requests()[2].messages, messages[..5]);
    assert_growing(&model.requests());
    assert_valid(&messages);
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_before_anything_is_asked() {
    let model = scripted([]);
    let agent = Agent::new(model.clone()).build().unwrap();
    let error = agent.chat(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "the messages before the run: there are none; begin with Message::user");
    assert_eq!((&*error.code(), error.meta().is_none()), ("NOT_STARTED", true));
    let mut messages = vec![Message::user("Hi"), Message::assistant("Hello")];
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert!(error.to_string().contains("add a Message::user"), "{error}");
    assert_eq!((messages.len(), model.requests().len()), (2, 0));
}

#[tokio::test]
async fn every_call_is_answered_in_order_whatever_becomes_of_it() {
    // S1-25, S1-29, S1-41, S1-d1, S1-d2, C27, C9, C10, S2-36, S2-42
    let activity = Activity::default();
    let reply = looks(&["ok", "fail", "panic"])
        .and_call("lok", json!({}))
        .and_call("", json!({}))
        .and_call("look", json!("no JSON"))
        .and_call("look", json!("[1]"))
        .and_call("look", json!(""))
        .and_call("look", json!({"target": 7}))
        .and_call("change", target("it"));
    let model = scripted([reply, says("Done.")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    // T2: an answer is there, and the change that it asked for was not made.
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(&*error.code(), "EFFECT_NOT_DONE");
    let meta = meta_of(&error);
    assert_eq!(shape(&messages), "UCTA", "all results are in one message");
    let reported = texts(&messages);
    let begin = [
        "saw ok",
        "!Error: no such thing",
        "!Error: the tool panicked: it went to pieces",
        "!Error: Unknown tool lok. Did you mean: look?",
        "!Error: The call names no tool",
        "!Error: Invalid arguments: the arguments are not JSON",
        "!Error: Invalid arguments: ",
        "!Error: Invalid arguments: ",
        "!Error: Invalid arguments: ",
        "!Error: Not run: ",
    ];
    assert_eq!(reported.len(), begin.len());
    for (reported, begin) in reported.iter().zip(begin) {
        assert!(reported.starts_with(begin), "{reported} begins with {begin}");
    }
    assert_eq!(statuses(meta), [Status::Ok, Status::PermanentError, Status::PermanentError]);
    let (looked, changed, unknown) = (used(meta, "look"), used(meta, "change"), used(meta, "lok"));
    assert_eq!((looked.calls, looked.failures, looked.refused), (3, 2, 4));
    assert_eq!((changed.calls, changed.refused, unknown.refused), (0, 0, 1));
    assert_valid(&messages);
}

#[tokio::test]
async fn errors_are_told_in_the_words_of_a_named_style() {
    // C8, S1-29
    let activity = Activity::default();
    let reply = looks(&["fail"]).and_call("nobody", json!({}));
    let model = scripted([reply, says("Done.")]);
    let agent = conversation(&model, &activity).errors(ErrorStyle::Named).build().unwrap();
    let mut messages = ask("Go");
    agent.chat(&mut messages).await.unwrap();
    assert_eq!(
        texts(&messages),
        ["!Error executing look: no such thing", "!Error executing nobody: Unknown tool"]
    );
}

#[tokio::test]
async fn ids_that_are_doubled_or_missing_are_made_unique() {
    // S1-d3
    let activity = Activity::default();
    let reply = ScriptedReply { raw: Some(json!({"own": "turn"})), ..ScriptedReply::default() }
        .and_call_as("a", "look", target("1"))
        .and_call_as("", "look", target("2"))
        .and_call_as("a", "look", target("3"))
        .and_call_as("call_1_2", "look", target("4"));
    let model = scripted([reply, says("Done.")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    agent.chat(&mut messages).await.unwrap();
    let ids: Vec<&str> = results(&messages).iter().map(|result| &*result.call).collect();
    assert_eq!(ids, ["a", "call_1_2", "call_1_3", "call_1_4"]);
    assert_eq!(texts(&messages), ["saw 1", "saw 2", "saw 3", "saw 4"]);
    let Message::Assistant(turn) = &messages[1] else { panic!("{messages:#?}") };
    assert_eq!(turn.raw, None, "the provider's own turn has other ids");
    assert_valid(&messages);
}

/// How many are there; whoever gives up leaves.
struct Waiting<'a>(&'a watch::Sender<u32>, bool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.send_modify(|there| *there -= 1);
        }
    }
}

/// An agent whose tool returns once it runs twice at a time, and gives up after a second.
fn meeting(model: &Arc<loop_llm::Scripted>) -> loop_runtime::agent::AgentBuilder<loop_runtime::agent::Text> {
    let there = Arc::new(watch::Sender::new(0));
    Agent::new(model.clone()).tool(look().timeout_ms(1_000), move |target: Target, _| {
        let there = there.clone();
        async move {
            there.send_modify(|there| *there += 1);
            let mut waiting = Waiting(&there, false);
            there.subscribe().wait_for(|there| *there == 2).await.unwrap();
            waiting.1 = true;
            Ok::<_, String>(format!("{} met", target.target))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_run_side_by_side_and_ordered_ones_never() {
    // S2-101, C3, S1-25
    let model = scripted([looks(&["one", "two"]), says("Done.")]);
    let mut messages = ask("Go");
    let answer = meeting(&model).parallel().build().unwrap().chat(&mut messages).await.unwrap();
    assert_eq!(texts(&messages), ["one met", "two met"], "they waited for each other");
    assert_eq!(answer.meta.latency_ms, 0);
    let model = scripted([looks(&["one", "two"]), says("Done.")]);
    let mut messages = ask("Go");
    let answer = meeting(&model).build().unwrap().chat(&mut messages).await.unwrap();
    assert_eq!(texts(&messages), ["!Error: timeout after 1000 ms"; 2], "neither met anybody");
    assert_eq!(answer.meta.latency_ms, 2_000, "one after the other");
    assert_eq!(used(&answer.meta, "look").ms, 2_000);
}

#[tokio::test(start_paused = true)]
async fn results_stand_in_the_order_of_their_calls() {
    // C3, I-20, S1-25
    let activity = Activity::default();
    for (parallel, done) in [
        (true, ["begins slow-300", "begins slow-20", "ends slow-20", "ends slow-300"]),
        (false, ["begins slow-300", "ends slow-300", "begins slow-20", "ends slow-20"]),
    ] {
        let activity = Activity::default();
        let model = scripted([looks(&["slow-300", "slow-20"]), says("Done.")]);
        let agent = conversation(&model, &activity);
        let agent = if parallel { agent.parallel() } else { agent };
        let mut messages = ask("Go");
        agent.build().unwrap().chat(&mut messages).await.unwrap();
        assert_eq!(texts(&messages), ["saw slow-300", "saw slow-20"]);
        assert_eq!(activity.lines(), done);
    }
    // What changes something is done by itself even so.
    let reply =
        looks(&["slow-100"]).and_call("change", target("slow-30")).and_call("change", target("slow-10"));
    let model = scripted([reply, says("Done.")]);
    let agent = conversation(&model, &activity).parallel().approve("change").build().unwrap();
    agent.chat(&mut ask("Go")).await.unwrap();
    let ends: Vec<String> = activity.lines().into_iter().filter(|line| line.starts_with("ends")).collect();
    assert_eq!(ends, ["ends slow-30", "ends slow-10", "ends slow-100"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_cut_off_and_the_model_is_told() {
    // S1-41, S1-13
    let activity = Activity::default();
    let model = scripted([looks(&["hang", "ok"]), says("Done.")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    let answer = agent.chat(&mut messages).await.unwrap();
    assert_eq!(texts(&messages), ["!Error: timeout after 12000 ms", "saw ok"]);
    assert_eq!(answer.meta.latency_ms, 12_000);
}

/// What the model reads of a value that a tool gives.
async fn reported<T: Serialize + Send + 'static>(
    declaration: ToolDeclaration,
    value: impl Fn() -> T + Send + Sync + 'static,
) -> String {
    let model = scripted([ScriptedReply::call(&*declaration.name, target("x")), says("Done.")]);
    let name = declaration.name.clone();
    let agent = Agent::new(model).tool(declaration, move |_: Target, _| {
        let value = value();
        async move { Ok::<_, String>(value) }
    });
    let agent = if &*name == "change" { agent.approve(name) } else { agent };
    let mut messages = ask("Go");
    agent.build().unwrap().chat(&mut messages).await.unwrap();
    texts(&messages)[0].clone()
}

#[tokio::test]
async fn a_tool_may_give_anything_that_is_json() {
    // S2-31, S2-32, S1-30
    assert_eq!(reported(look(), || "plain text").await, "plain text");
    assert_eq!(reported(look(), || 7).await, "7");
    assert_eq!(reported(look(), || true).await, "true");
    assert_eq!(reported(look(), || vec![1, 2]).await, "[1,2]");
    assert_eq!(reported(look(), || User { id: 1, name: "A" }).await, r#"{"id":1,"name":"A"}"#);
    assert_eq!(reported(look(), || Some("there")).await, "there");
    // Nothing is nothing found; a write that has nothing to tell is done.
    assert_eq!(reported(look(), || ()).await, "No data found");
    assert_eq!(reported(look(), String::new).await, "No data found");
    assert_eq!(reported(look(), Vec::<u8>::new).await, "No data found");
    assert_eq!(reported(change(), || ()).await, "Done.");
    assert_eq!(reported(change(), String::new).await, "Done.");
    // A result is what it says, and not told as JSON.
    assert_eq!(reported(look(), || ToolResult::ok("look", "s", "## Whole", 1)).await, "## Whole");
    assert_eq!(reported(look(), || ToolResult::failed("look", "Look", "gone")).await, "!Error: gone");
    // What is no JSON is an error of the tool's.
    let odd = || std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(reported(look(), odd).await.starts_with("!Error: its result is not JSON"));
}

#[tokio::test]
async fn a_model_hands_the_work_over_or_refuses_it_with_its_reason() {
    // S4-15, S4-28, T5
    let activity = Activity::default();
    for (name, class, told, result) in [
        (
            "escalate",
            StopClass::NeedsHuman,
            "The model handed the work to a person: no signature.",
            "A person takes over.",
        ),
        ("refuse", StopClass::Refused, "The model refused the work: no signature.", "The work is refused."),
    ] {
        let ends = || ScriptedReply::call(name, json!({"reason": "no signature"}));
        let both = looks(&["x"]).and_call(name, json!({"reason": "not yet"}));
        let model = scripted([both, ends()]);
        let agent = conversation(&model, &activity).build().unwrap();
        let mut messages = ask("Go");
        let error = agent.chat(&mut messages).await.unwrap_err();
        let AgentError::Stopped { explanation, .. } = &error else { panic!("{error:?}") };
        assert_eq!((explanation.as_ref(), meta_of(&error).outcome.stop.class), (told, class));
        assert_valid(&messages);
        let wait = format!("Not yet: the run continues. Call {name} alone if it still applies.");
        assert_eq!(texts(&messages), ["saw x", &wait, result]);
        let request = &model.requests()[1];
        let offered: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(offered[offered.len() - 2..], ["escalate", "refuse"]);
        assert_eq!(request.tools[offered.len() - 1].parameters["required"], json!(["reason"]));
    }
}

#[tokio::test]
async fn a_blank_answer_is_asked_for_again_and_is_never_a_success() {
    // C11, S4-78
    let activity = Activity::default();
    let model = scripted([looks(&["x"]), says(" \n"), says("\u{200b}"), says("At last.")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    assert_eq!(&*agent.chat(&mut messages).await.unwrap().text, "At last.");
    assert_eq!(shape(&messages), "UCTA");
    let model = scripted([looks(&["x"]), says(""), says(" "), says("")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::Stopped { reason, explanation, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*reason, StopReason::ModelFailure);
    assert!(explanation.contains("empty_response"), "{explanation}");
    assert_eq!((&*error.code(), &*shape(&messages)), ("MODEL_FAILURE", "UCT"));
    assert_eq!(meta_of(&error).totals.model_calls, 4, "all that was paid for is counted");
    assert_valid(&messages);
}

#[tokio::test]
async fn pictures_of_tools_reach_the_model() {
    let picture = ResultPicture { media_type: "image/png".into(), base64: "iVBORw0KGgo=".into() };
    let image = Image { media_type: "image/png".into(), base64: "iVBORw0KGgo=".into() };
    let model = scripted([looks(&["x"]), says("A cat.")]);
    let agent = Agent::new(model.clone()).tool(look(), move |_: Target, _| {
        let shown = ToolResult::ok("look", "s", "[picture 1]", 1);
        let result = ToolResult { pictures: vec![picture.clone()], ..shown };
        async move { result }
    });
    let mut messages = ask("What is it?");
    agent.build().unwrap().chat(&mut messages).await.unwrap();
    let request = &model.requests()[1];
    assert_eq!(results(&request.messages)[0].images, [image], "{request:#?}");
    assert!(request.bytes() > 8_000, "it is counted by its area, not by its bytes");
}

#[tokio::test]
async fn images_in_messages_reach_the_model() {
    let activity = Activity::default();
    let image = Image { media_type: "image/png".into(), base64: "iVBORw0KGgo=".into() };
    let model = scripted([says("A cat."), looks(&["x"]), says("Two cats.")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = vec![Message::User {
        text: "What is it?".into(),
        images: vec![image.clone()],
        author: Default::default(),
    }];
    let answer = agent.chat(&mut messages).await.unwrap();
    assert_eq!((&*answer.text, &*shape(&messages)), ("A cat.", "UA"));
    assert_eq!(model.requests()[0].messages, messages[..1], "with its image, and once");
    messages.push(Message::User { text: "And now?".into(), images: vec![image], author: Default::default() });
    agent.chat(&mut messages).await.unwrap();
    assert_eq!(model.requests()[1].messages, messages[..3]);
    assert_growing(&model.requests());
    assert_valid(&messages);
}

#[tokio::test]
async fn the_last_permitted_pass_answers_with_what_there_is() {
    // S1-46..S1-48, S1-55, C13
    let activity = Activity::default();
    let model = scripted([looks(&["1"]), looks(&["2"]), says("As far as I came.")]);
    let limits = Limits { passes: 3, ..Limits::agent() };
    let agent = conversation(&model, &activity).limits(limits).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::MaxIterations { attempt, iterations, limit, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*attempt, *iterations, *limit), (0, 3, 3));
    assert_eq!(
        (error.to_string(), &*error.code()),
        ("Max iterations reached: 3 of 3".to_owned(), "MAX_ITERATIONS")
    );
    // What a `main` prints that returns it.
    let meta = meta_of(&error);
    let line = format!(
        "Max iterations reached: 3 of 3 [MAX_ITERATIONS; run {}, model calls: 3, cost: {}]",
        meta.run, meta.totals.cost
    );
    assert_eq!(format!("{error:?}"), line);
    assert!(format!("{error:#?}").contains("As far as I came."), "the whole is shown where it is asked for");
    assert_eq!(meta_of(&error).outcome.answer.as_deref(), Some("As far as I came."));
    assert_eq!(meta_of(&error).outcome.stop.class, StopClass::Partial);
    assert_eq!(shape(&messages), "UCTCTA", "what was said to the final pass is not kept");
    let requests = model.requests();
    assert_eq!(shape(&requests[2].messages), "UCTCTO");
    assert_eq!((&requests[1].tool_choice, &requests[2].tool_choice), (&ToolChoice::Auto, &ToolChoice::None));
    assert_growing(&requests);
    assert_valid(&messages);
    // Ten by default.
    let endless = (0..20).map(|n| looks(&[&n.to_string()]));
    let model = scripted(endless);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(
        (error.to_string(), model.requests().len()),
        ("Max iterations reached: 10 of 10".to_owned(), 10)
    );
    assert_eq!(
        texts(&messages)[9],
        "!Error: Not run: the run was ending (max_passes)",
        "what the final pass asks for is left undone"
    );
    assert_valid(&messages);
}

async fn stopped(
    limits: Limits,
    model: Arc<loop_llm::Scripted>,
) -> (StopReason, Vec<Message>, Arc<loop_llm::Scripted>) {
    let spec =
        ModelSpec { price: Some(Price::flat(1_000_000, 1_000_000)), ..ModelSpec::new("scripted", "script") };
    let activity = Activity::default();
    let client: Arc<dyn loop_llm::ChatModel> = model.clone();
    let agent = agents::with_tools(Agent::new(AgentModel::from((client, spec))), &activity)
        .limits(limits)
        .build()
        .unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_valid(&messages);
    (meta_of(&error).reason(), messages, model)
}

fn endless() -> Arc<loop_llm::Scripted> {
    let usage = Some(Usage { input: 1_000, output: 100, ..Usage::default() });
    scripted((0..60).map(|n| ScriptedReply { usage, ..looks(&[&n.to_string()]) }))
}

#[tokio::test(start_paused = true)]
async fn each_limit_ends_it_with_a_reason_of_its_own() {
    // S1-39, S2-104, C12
    let (reason, messages, model) = stopped(Limits { messages: Some(7), ..Limits::agent() }, endless()).await;
    assert_eq!(reason, StopReason::MaxMessages);
    assert!(model.requests().iter().all(|request| request.messages.len() <= 8), "{}", shape(&messages));
    let (reason, ..) = stopped(Limits { tokens: Some(4_000), ..Limits::agent() }, endless()).await;
    assert_eq!(reason, StopReason::TokenLimit);
    let cost = Some(PicoUsd(4_000_000_000));
    let (reason, ..) = stopped(Limits { cost, ..Limits::agent() }, endless()).await;
    assert_eq!(reason, StopReason::BudgetExceeded);
    let (reason, ..) = stopped(Limits { tool_calls: 2, ..Limits::agent() }, endless()).await;
    assert_eq!(reason, StopReason::MaxToolCalls);
    let (reason, _, model) = stopped(Limits { model_calls: 2, ..Limits::agent() }, endless()).await;
    assert_eq!((reason, model.requests().len()), (StopReason::MaxModelCalls, 2));
    let slow = scripted((0..60).map(|_| looks(&["slow-900"])));
    let (reason, ..) = stopped(Limits { wall_ms: 2_000, passes: 50, ..Limits::agent() }, slow).await;
    assert_eq!(reason, StopReason::Timeout);
}

#[tokio::test]
async fn a_limit_of_money_binds_or_is_refused_and_is_taken_away_only_by_name() {
    // P7
    let unpriced = || AgentModel::new(scripted_of([says("Hello.")]), ModelSpec::new("compatible", "own"));
    let refused = |agent: loop_runtime::agent::AgentBuilder<loop_runtime::agent::Text>| {
        agent.build().unwrap_err().to_string()
    };
    let why = "the price of `own` is unknown, so the limit of $0.100000 for a run cannot be kept; give the price with \
               ModelSpec::with_price, or run without a limit of money with AgentBuilder::no_cost_limit";
    assert_eq!(refused(Agent::new(unpriced())), why);
    // Ten cents that somebody wrote are those that nobody wrote.
    let ten_cents = Some(PicoUsd(PicoUsd::PER_USD / 10));
    assert_eq!(refused(Agent::new(unpriced()).limits(Limits { cost: ten_cents, ..Limits::agent() })), why);
    let one_dollar = Limits { cost: Some(PicoUsd(PicoUsd::PER_USD)), ..Limits::agent() };
    assert!(refused(Agent::new(unpriced()).limits(one_dollar)).contains("the limit of $1.000000"));
    for agent in [
        Agent::new(unpriced()).no_cost_limit(),
        Agent::new(unpriced()).no_cost_limit().limits(Limits::agent()),
        Agent::new(unpriced()).limits(Limits { cost: None, ..Limits::agent() }),
    ] {
        let agent = agent.build().unwrap();
        assert_eq!(agent.runner().spec().limits.cost, None);
        assert!(agent.chat(&mut ask("Hi")).await.is_ok());
    }
    // With a price the default binds, and so does the same amount where it was set.
    let price = Price::flat(80_000_000, 80_000_000);
    for limits in [None, Some(Limits { cost: ten_cents, ..Limits::agent() })] {
        let spec = ModelSpec::new("compatible", "own").with_price(price.clone());
        let usage = Some(Usage { input: 60, output: 30, ..Usage::default() });
        let dear = scripted_of((0..9).map(|n| ScriptedReply { usage, ..looks(&[&n.to_string()]) }));
        let agent = agents::with_tools(Agent::new(AgentModel::new(dear, spec)), &Activity::default());
        let agent = match limits {
            Some(limits) => agent.limits(limits),
            None => agent,
        };
        let agent = agent.build().unwrap();
        assert_eq!(agent.runner().spec().limits.cost, ten_cents);
        let error = agent.chat(&mut ask("Go")).await.unwrap_err();
        assert_eq!(meta_of(&error).reason(), StopReason::BudgetExceeded);
    }
    // What costs nothing needs no price of its own.
    let agent = Agent::new(scripted([says("Hello.")])).build().unwrap();
    assert_eq!(agent.runner().spec().limits.cost, ten_cents);
    let answer = agent.chat(&mut ask("Hi")).await.unwrap();
    assert_eq!(answer.meta.totals.cost.total(), Some(PicoUsd(0)));
}

fn scripted_of(replies: impl IntoIterator<Item = ScriptedReply>) -> loop_llm::Scripted {
    loop_llm::Scripted::new(replies)
}

#[test]
fn a_setting_of_the_gate_changes_no_other() {
    let agent =
        conversation(&scripted([]), &Activity::default()).approve("change").ask_people().reuse_results();
    let agent = agent.gate(|gate| gate.required_tools = vec!["look".into()]).build().unwrap();
    let gate = &agent.runner().spec().gate;
    assert_eq!((gate.no_progress, gate.people, gate.repeats), (3, true, Some(Repeats::Reuse)));
    assert_eq!((&*gate.approved, &*gate.required_tools), (&["change".into()][..], &["look".into()][..]));
}

#[test]
fn a_name_that_no_tool_has_is_refused_at_build() {
    let activity = Activity::default();
    let demanding = |name: &'static str| {
        let agent = conversation(&scripted([]), &activity);
        agent.gate(move |gate| gate.required_tools = vec![name.into()]).build()
    };
    assert_eq!(
        demanding("loook").unwrap_err().to_string(),
        "gate.required_tools: `loook` is demanded, and no tool has that name; there are: look, change"
    );
    assert!(demanding("look").is_ok());
    let bare = Agent::new(scripted([])).approve("look").build().unwrap_err();
    assert_eq!(bare.to_string(), "`look` is approved, and no tool has that name; there are none");
    // An alias means the tool, whose own name policy goes by.
    let seen = ToolDeclaration::read("look", "Looks a thing up").alias("see");
    let agent = Agent::new(scripted([])).tool(seen, |_: agents::Target, _| async { Ok::<_, String>("") });
    let agent = agent.approve("see").build().unwrap();
    assert_eq!(&*agent.runner().spec().gate.approved, &["look".into()][..]);
}

#[tokio::test]
async fn a_write_needs_consent_that_was_given_before() {
    // S1-43, C9
    let activity = Activity::default();
    let calls = || ScriptedReply::call("change", target("it"));
    let model = scripted([calls(), says("Changed.")]);
    let agent = conversation(&model, &activity).approve("change").build().unwrap();
    assert_eq!(&*agent.chat(&mut ask("Go")).await.unwrap().text, "Changed.");
    assert_eq!(activity.lines(), ["begins it", "ends it"]);
    let activity = Activity::default();
    let model = scripted([calls(), says("Never asked.")]);
    let agent = conversation(&model, &activity).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(meta_of(&error).outcome.stop.class, StopClass::NeedsHuman);
    assert_eq!(
        (model.left(), activity.lines().len(), verdicts(meta_of(&error))),
        (1, 0, vec!["needs_person"])
    );
    assert_eq!(shape(&messages), "UCT");
    assert!(texts(&messages)[0].starts_with("!Error: Not run: "), "{:?}", texts(&messages));
    assert_valid(&messages);
    // The conversation goes on from there.
    messages.push(Message::user("Leave it."));
    assert_eq!(&*agent.chat(&mut messages).await.unwrap().text, "Never asked.");
    let error = conversation(&scripted([]), &activity).approve("chnge").build().unwrap_err();
    assert_eq!(error.to_string(), "`chnge` is approved, and no tool has that name; there are: look, change");
}

#[tokio::test]
async fn an_agent_without_tools_answers() {
    // S1-19, S1-33
    let agent = Agent::new(scripted([says("Hello.")])).instructions("Be short.").build().unwrap();
    let mut messages = ask("Hi");
    assert_eq!(&*agent.chat(&mut messages).await.unwrap().text, "Hello.");
    assert_eq!(shape(&messages), "UA");
    let agent = Agent::new(Offline::new()).build().unwrap();
    assert!(agent.chat(&mut ask("What is the weather?")).await.is_ok());
}

#[tokio::test]
async fn clones_share_an_agent_and_a_queue_works_conversations_off() {
    // S1-5
    use futures::StreamExt;
    let activity = Activity::default();
    let agent =
        conversation(&scripted((0..5).map(|n| says(&format!("answer {n}")))), &activity).build().unwrap();
    let conversations = futures::stream::iter((0..5).map(|n| ask(&format!("question {n}"))));
    let mut ended: Vec<(usize, String)> = agent
        .clone()
        .queue(conversations, 2)
        .map(|(n, messages, answer)| {
            assert_eq!((messages[0].text(), &*shape(&messages)), (&*format!("question {n}"), "UA"));
            (n, answer.unwrap().text.to_string())
        })
        .collect()
        .await;
    ended.sort();
    assert_eq!(ended.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_told_the_key_by_which_it_may_drop_a_second_call() {
    let model = scripted([looks(&["a", "b"]), says("Done.")]);
    let agent =
        Agent::new(model).tool(look(), |_: Target, context: loop_runtime::tools::ToolContext| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, String>(context.key.to_string())
        });
    let mut messages = ask("Go");
    let answer = agent.build().unwrap().chat(&mut messages).await.unwrap();
    let run = answer.meta.run;
    assert_eq!(texts(&messages), [format!("{run}/1/action-0"), format!("{run}/1/action-1")]);
    assert_eq!(answer.meta.outcome.totals.wall_ms, Millis(10).0);
}

#[tokio::test]
async fn a_call_is_made_again_as_long_as_it_may_bring_something() {
    // S1-38: what is told of the third equal result, of what failed for good, and of a third round.
    let requested = ["x", "x", "x", "fail", "fail", "a", "b", "a", "b", "a"];
    let replies = requested.map(|target| looks(&[target])).into_iter().chain([says("Done.")]);
    let agent = agents::conversation(&scripted(replies), &Activity::default());
    let limits = Limits { passes: 20, model_calls: 20, ..Limits::agent() };
    let agent = agent.limits(limits).build().unwrap();
    let mut messages = ask("Go");
    let answer = agent.chat(&mut messages).await.unwrap();
    assert_eq!(&*answer.text, "Done.");
    let reported = texts(&messages);
    let same = "!Error: Tool 'look' has already returned the same result 2 times, and nothing was changed since; \
                its result is that of pass 2";
    let failed =
        "!Error: Tool 'look' has already failed with identical parameters; its result is that of pass 4";
    let round = "!Error: The last 2 calls have repeated 2 times with the same results, and tool 'look' would \
                 begin the next round; its result is that of pass";
    assert_eq!((&*reported[2], &*reported[4]), (same, failed));
    assert!(reported[9].starts_with(round), "{}", reported[9]);
}

/// An agent that changes what the user names, after it has looked.
fn reaching(model: &Arc<loop_llm::Scripted>, activity: &Activity) -> Agent {
    let mut reaches = change();
    reaches.policy.authority = vec!["/target".into()];
    let (one, two) = (activity.clone(), activity.clone());
    Agent::new(Arc::clone(model))
        .tool(look(), move |target: Target, _| agents::behave(target, one.clone()))
        .tool(reaches, move |target: Target, _| agents::behave(target, two.clone()))
        .approve("change")
        .gate(|gate| gate.required_tools = vec!["look".into()])
        .build()
        .unwrap()
}

#[tokio::test]
async fn whom_the_user_named_a_turn_earlier_may_be_reached() {
    // Issue 40, H9
    let activity = Activity::default();
    let changes = |name: &str| ScriptedReply::call("change", target(name));
    let model = scripted([
        // It is rejected, since it has not looked. The loop says so in the user's place.
        says("I shall write to eve@evil.example."),
        looks(&["x"]),
        says("Shall I write to zoe@brown.example, or to mallory@evil.example?"),
        looks(&["x"]),
        changes("zoe@brown.example"),
        changes("eve@evil.example"),
        changes("mallory@evil.example"),
        says("Done."),
    ]);
    let agent = reaching(&model, &activity);
    let mut messages = ask("Please write to zoe@brown.example.");
    agent.chat(&mut messages).await.unwrap();
    assert_eq!(shape(&messages), "UAUCTA");
    // Messages that were stored and read back say the same.
    let stored = serde_json::to_string(&messages).unwrap();
    assert_eq!(stored.matches(r#""author":"runner""#).count(), 1, "{stored}");
    let mut messages: Vec<Message> = serde_json::from_str(&stored).unwrap();
    messages.push(Message::user("Yes, go on."));
    // T2: two of the three changes were denied.
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(&*error.code(), "EFFECT_NOT_DONE");
    assert_eq!(verdicts(meta_of(&error)), ["run", "run", "denied", "denied"]);
    assert_eq!(activity.lines()[4..], ["begins zoe@brown.example", "ends zoe@brown.example"]);
}

#[tokio::test]
async fn what_the_loop_said_last_is_not_what_the_user_asks_for() {
    // Issue 40, H9: a run that ended in the middle is continued without a word of the user.
    let activity = Activity::default();
    let model = scripted([ScriptedReply::call("change", target("eve@evil.example")), says("Done.")]);
    let agent = reaching(&model, &activity);
    let mut messages: Vec<Message> = serde_json::from_value(json!([
        {"role": "user", "text": "Hello"},
        {"role": "assistant", "text": "I write to eve@evil.example."},
        {"role": "user", "text": "rejected: I write to eve@evil.example.", "author": "runner"},
    ]))
    .unwrap();
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(verdicts(meta_of(&error)), ["denied"]);
    assert!(activity.lines().is_empty());
}
