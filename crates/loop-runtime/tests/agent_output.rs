//! An agent that ends with a validated value, as its users use it.

use crate::agents;

use std::sync::Arc;
use std::time::Duration;

use agents::{
    Activity, Lead, Target, ask, assert_growing, assert_valid, behave, lead, lead_tool, look, looks, meta_of,
    refusal, results, save_lead, says, scripted, shape, submits, target, texts, used, verdicts, with_tools,
};
use loop_core::reply::FinishReason;
use loop_core::types::Usage;
use loop_llm::scripted::ScriptedReply;
use loop_llm::{Scripted, ToolChoice};
use loop_runtime::{
    Agent, Message, StopReason,
    agent::{AgentBuilder, AgentError, OutputTool},
    run::StopClass,
    tools::ToolDeclaration,
};
use loop_tools::CancellationToken;
use serde::Deserialize;
use serde_json::{Value, json};

fn given(name: &str, score: u32) -> Value {
    json!({"name": name, "score": score})
}

fn reflected() -> OutputTool<Lead, loop_runtime::agent::Reflected> {
    lead_tool().reflect(|lead| format!("# {} ({})", lead.name, lead.score))
}

/// The rule of these tests: a score of at most 100.
fn ruled<Mode>(tool: OutputTool<Lead, Mode>) -> OutputTool<Lead, Mode> {
    tool.validator("score", |lead: Lead| async move {
        if lead.score <= 100 { Ok(()) } else { Err(format!("{} is more than 100", lead.score)) }
    })
}

fn agent<Mode>(
    model: &Arc<Scripted>,
    tool: OutputTool<Lead, Mode>,
    activity: &Activity,
) -> AgentBuilder<Lead> {
    with_tools(Agent::output(model.clone(), tool), activity)
}

#[tokio::test]
async fn an_output_at_once_is_the_end() {
    // S2-23, S2-63, S2-70, S2-96, C29
    let model = scripted([save_lead("Ann", 7)]);
    let agent = Agent::output(model.clone(), lead_tool()).build().unwrap();
    let mut messages = ask("Who called?");
    let found = agent.chat(&mut messages).await.unwrap();
    assert_eq!(found.value, lead("Ann", 7));
    assert_eq!((found.meta.attempts, found.meta.totals.passes, model.left()), (1, 1, 0));
    assert_eq!((&*shape(&messages), texts(&messages)), ("UCT", vec!["Output received.".to_owned()]));
    assert_valid(&messages);
    let request = &model.requests()[0];
    let [tool] = &*request.tools else { panic!("{:?}", request.tools) };
    assert_eq!(&*tool.name, "save_lead");
    assert_eq!(
        tool.parameters["properties"]["name"]["description"], "Whom to call.",
        "the type gives the schema"
    );
    assert_eq!(request.tool_choice, ToolChoice::Prefer, "a reply without a call would be no output");
}

#[tokio::test]
async fn helpers_run_before_the_output() {
    // S2-1, S2-2, S2-6, S2-7, S2-15, S2-41, S2-42, S2-61, S2-67, S2-81, S2-82
    let activity = Activity::default();
    let usage = |input| Some(Usage { input, output: 10, ..Usage::default() });
    let replies = [looks(&["one"]), looks(&["two", "fail"]), save_lead("Ann", 7)];
    // S2-6: `stop_reason === 'tool_use'`: the handlers run, both messages are added, it is called again, tokens add up.
    let model = scripted(replies.into_iter().zip(1..).map(|(reply, n)| ScriptedReply {
        usage: usage(100 * n),
        finish: Some(FinishReason::ToolUse),
        ..reply
    }));
    let agent = agent(&model, lead_tool(), &activity).build().unwrap();
    let mut messages = ask("Who called?");
    let found = agent.chat(&mut messages).await.unwrap();
    assert_eq!((found.value, found.meta.totals.passes), (lead("Ann", 7), 3));
    let totals = found.meta.totals;
    assert_eq!((totals.usage.input, totals.usage.output, totals.model_calls), (600, 30, 3));
    assert_eq!(shape(&messages), "UCTCTCT");
    assert_eq!(texts(&messages), ["saw one", "saw two", "!Error: no such thing", "Output received."]);
    assert_growing(&model.requests());
    assert_eq!(
        model.requests()[0].messages,
        messages[..1],
        "the prompt is built once, and is the user's own"
    );
    let looked = used(&found.meta, "look");
    assert_eq!((looked.calls, looked.failures, used(&found.meta, "save_lead").calls), (3, 1, 0));
    assert_valid(&messages);
}

#[tokio::test]
async fn errors_of_helpers_are_told_and_the_model_recovers() {
    // S2-34..S2-36, S2-61, S2-76, S2-77
    let activity = Activity::default();
    let reply = looks(&["panic"]).and_call("nobody", json!({})).and_call("look", json!({"target": 1}));
    let model = scripted([reply, save_lead("Ann", 7)]);
    let agent = agent(&model, lead_tool(), &activity).build().unwrap();
    let mut messages = ask("Go");
    assert!(agent.chat(&mut messages).await.is_ok());
    let reported = texts(&messages);
    assert_eq!(
        reported[..2],
        ["!Error: the tool panicked: it went to pieces", "!Error: Unknown tool nobody"]
    );
    assert!(reported[2].starts_with("!Error: Invalid arguments: "), "{}", reported[2]);
    assert_valid(&messages);
}

#[tokio::test]
async fn all_calls_beside_an_output_are_processed_in_order() {
    // S2-73, S2-75
    let activity = Activity::default();
    let reply = looks(&["one"])
        .and_call("save_lead", given("First", 1))
        .and_call("look", target("two"))
        .and_call("save_lead", given("Last", 2))
        .and_call("look", target("fail"));
    let model = scripted([reply]);
    let agent = agent(&model, lead_tool(), &activity).build().unwrap();
    let mut messages = ask("Go");
    let found = agent.chat(&mut messages).await.unwrap();
    assert_eq!(found.value, lead("Last", 2), "the last one counts");
    assert_eq!(activity.lines().iter().filter(|line| line.starts_with("begins")).count(), 3);
    assert_eq!(
        texts(&messages),
        ["saw one", "Output received.", "saw two", "Output received.", "!Error: no such thing"]
    );
    assert_valid(&messages);
}

#[tokio::test]
async fn a_reflection_shows_the_output_until_it_is_submitted() {
    // S2-3, S2-8, S2-19..S2-28, S2-62, S2-65, S2-70, S2-71
    let activity = Activity::default();
    let model = scripted([save_lead("Ann", 1), looks(&["more"]), save_lead("Ann", 2), submits()]);
    let agent = agent(&model, reflected(), &activity).build().unwrap();
    let mut messages = ask("Go");
    let found = agent.chat(&mut messages).await.unwrap();
    assert_eq!(found.value, lead("Ann", 2), "the last output wins");
    assert_eq!(texts(&messages), ["# Ann (1)", "saw more", "# Ann (2)", "Output submitted."]);
    assert_eq!((shape(&messages), found.meta.attempts), ("UCTCTCTCT".to_owned(), 1));
    assert_eq!(used(&found.meta, "save_lead").calls, 2);
    let tools = &model.requests()[0].tools;
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["look", "change", "save_lead", "submit", "escalate", "refuse"]);
    assert_eq!(
        &*tools[3].description,
        "Submit your final output for validation. Call this when you are satisfied with your output."
    );
    assert_eq!(tools[3].parameters, json!({"type": "object", "properties": {}}));
    assert_growing(&model.requests());
    assert_valid(&messages);
}

#[tokio::test]
async fn a_submission_in_the_same_reply_takes_the_last_output_whatever_the_order() {
    // S2-74, S2-d1
    for reply in [
        save_lead("Ann", 1).and_call("look", target("x")).and_call("submit", json!({})),
        submits().and_call("look", target("x")).and_call("save_lead", given("Ann", 1)),
    ] {
        let activity = Activity::default();
        let model = scripted([reply]);
        let agent = agent(&model, reflected(), &activity).build().unwrap();
        let mut messages = ask("Go");
        let found = agent.chat(&mut messages).await.unwrap();
        assert_eq!((found.value, found.meta.totals.passes), (lead("Ann", 1), 1));
        assert_eq!(activity.lines(), ["begins x", "ends x"]);
        assert_eq!(results(&messages).len(), 3);
        assert!(texts(&messages).contains(&"# Ann (1)".to_owned()), "it is shown even so");
        assert_valid(&messages);
    }
}

#[tokio::test]
async fn a_formatter_that_fails_is_told_and_sees_sound_outputs_alone() {
    // S2-34, S2-62, S2-d2
    let activity = Activity::default();
    let seen = activity.clone();
    let tool = lead_tool().reflect_with(move |lead: Lead| {
        seen.say(&*lead.name);
        async move {
            assert!(lead.score != 13, "unlucky");
            if lead.score > 100 { Err("too long to show") } else { Ok(format!("# {}", lead.name)) }
        }
    });
    let model = scripted([
        ScriptedReply::call("save_lead", json!({"name": 7})),
        save_lead("Ann", 101),
        save_lead("Eve", 13),
        save_lead("Bob", 1),
        submits(),
    ]);
    let agent = agent(&model, tool, &activity).build().unwrap();
    let mut messages = ask("Go");
    let found = agent.chat(&mut messages).await.unwrap();
    assert_eq!(found.value, lead("Bob", 1));
    let reported = texts(&messages);
    assert!(reported[0].starts_with("!Error: Invalid arguments: "), "{}", reported[0]);
    assert_eq!(reported[1..4], ["!Error: too long to show", "!Error: the tool panicked: unlucky", "# Bob"]);
    assert_eq!(activity.lines(), ["Ann", "Eve", "Bob"], "never the one that nobody could read");
    assert_valid(&messages);
}

#[tokio::test]
async fn an_output_of_which_a_member_has_the_wrong_type_does_not_count() {
    // S2-d2: what the core knows of a schema does not say that it is a text or nothing.
    #[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    struct Card {
        name: String,
        phone: Option<String>,
    }
    let card = |phone: serde_json::Value| ScriptedReply::call("save", json!({"name": "Ann", "phone": phone}));
    let model = scripted([card(json!("1")), card(json!(2)), card(json!(3)).and_call("submit", json!({}))]);
    let tool = OutputTool::<Card>::new("save", "Save a card").reflect(|card: &Card| card.name.clone());
    let agent = Agent::output(model, tool).build().unwrap();
    let mut messages = ask("Go");
    let found = agent.chat(&mut messages).await.unwrap();
    assert_eq!(found.value, Card { name: "Ann".into(), phone: Some("1".into()) });
    let reported = texts(&messages);
    assert_eq!(reported[0], "Ann");
    assert!(reported[1].starts_with("!Error: ") && reported[1].contains("/phone"), "{}", reported[1]);
    assert_eq!(found.meta.attempts, 1);
    assert_valid(&messages);
}

#[tokio::test]
async fn an_output_with_a_member_twice_is_the_one_that_was_validated() {
    let twice = json!(r#"{"name": "Ann", "name": "Eve", "score": 7}"#);
    let model = scripted([ScriptedReply::call("save_lead", twice)]);
    let agent = Agent::output(model, lead_tool()).build().unwrap();
    assert_eq!(agent.prompt("Go").await.unwrap().value, lead("Eve", 7));
}

#[tokio::test]
async fn a_submission_before_any_output_is_an_error() {
    // S2-60, S2-72, S2-55, S2-93, S2-98
    let activity = Activity::default();
    let model = scripted([looks(&["x"]), submits()]);
    let agent = agent(&model, reflected(), &activity).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::SubmitBeforeOutput { attempt, meta } = &error else { panic!("{error:?}") };
    assert_eq!((*attempt, &*error.code(), meta.totals.passes), (1, "SUBMIT_BEFORE_OUTPUT", 2));
    assert_eq!(
        error.to_string(),
        "the model submitted before it gave an output (attempt 1); say in the instructions which comes first"
    );
    assert!(texts(&messages)[1].contains("call save_lead first"), "{:?}", texts(&messages));
    assert_valid(&messages);
}

#[tokio::test]
async fn a_submission_has_another_name_and_text() {
    // S2-103
    let model = scripted([save_lead("Ann", 1), ScriptedReply::call("done", json!({}))]);
    let agent = Agent::output(model.clone(), reflected().submit_as("done", "End here.")).build().unwrap();
    let mut messages = ask("Go");
    assert!(agent.chat(&mut messages).await.is_ok());
    let tools = &model.requests()[0].tools;
    assert_eq!((&*tools[1].name, &*tools[1].description), ("done", "End here."));
}

#[tokio::test]
async fn a_reply_without_calls_is_invalid() {
    // S2-60, S2-92, S2-93, C11
    let model = scripted([says("I think it was Ann.")]);
    let agent = Agent::output(model, lead_tool()).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::InvalidResponse { message, meta } = &error else { panic!("{error:?}") };
    assert!(message.contains("calls no tool, where `save_lead` had to be called"), "{message}");
    assert_eq!((&*error.code(), meta.totals.passes, meta.attempts), ("INVALID_RESPONSE", 1, 1));
    assert_eq!(shape(&messages), "UA");
    assert_valid(&messages);
    // A refusal and a reply that was cut are told apart.
    let agent = Agent::output(scripted([refusal("No.")]), lead_tool()).build().unwrap();
    let error = agent.prompt("Go").await.unwrap_err();
    assert_eq!(meta_of(&error).outcome.stop.class, StopClass::Refused);
    let cut = ScriptedReply { finish: Some(loop_core::reply::FinishReason::MaxTokens), ..says("I will") };
    let agent = Agent::output(scripted([cut]), lead_tool()).build().unwrap();
    let error = agent.prompt("Go").await.unwrap_err();
    assert!(error.to_string().contains("cut at the output limit"), "{error}");
}

#[tokio::test]
async fn a_rejected_output_is_told_in_the_same_history() {
    // S2-4, S2-5, S2-14, S2-17, S2-18, S2-52, S2-53, S2-65, S2-83, S2-84
    let activity = Activity::default();
    let usage = |input| Some(Usage { input, output: 10, ..Usage::default() });
    let replies = [looks(&["x"]), save_lead("Ann", 101), save_lead("Ann", 100)];
    let model = scripted(
        replies.into_iter().zip(1..).map(|(reply, n)| ScriptedReply { usage: usage(100 * n), ..reply }),
    );
    let agent = agent(&model, ruled(lead_tool()), &activity).build().unwrap();
    let mut messages = ask("Go");
    let found = agent.chat(&mut messages).await.unwrap();
    assert_eq!((found.value, found.meta.attempts), (lead("Ann", 100), 2));
    assert_eq!(shape(&messages), "UCTCTUCT");
    assert_eq!(
        messages[5].text(),
        "The output was not accepted. score: 101 is more than 100\n\nCorrect it and call `save_lead` again."
    );
    let totals = found.meta.totals;
    assert_eq!(
        (totals.usage.input, totals.usage.output, totals.model_calls),
        (600, 30, 3),
        "over all attempts"
    );
    assert_growing(&model.requests());
    assert_valid(&messages);
}

#[tokio::test]
async fn the_schema_comes_first_and_then_validators_in_their_order() {
    // S2-4
    let activity = Activity::default();
    let (first, second) = (activity.clone(), activity.clone());
    let tool = lead_tool()
        .validator("first", move |lead: Lead| {
            first.say(format!("first {}", lead.score));
            async move { if lead.score == 2 { Err("two") } else { Ok(()) } }
        })
        .validator("second", move |lead: Lead| {
            second.say(format!("second {}", lead.score));
            async move { if lead.score == 3 { Err("three") } else { Ok(()) } }
        });
    let model = scripted([
        ScriptedReply::call("save_lead", json!({"name": "Ann", "score": "1"})),
        ScriptedReply::call("save_lead", json!("no JSON")),
        save_lead("Ann", 2),
        save_lead("Ann", 3),
        save_lead("Ann", 4),
    ]);
    let agent = agent(&model, tool, &activity).attempts(5).build().unwrap();
    let mut messages = ask("Go");
    assert_eq!(agent.chat(&mut messages).await.unwrap().value, lead("Ann", 4));
    let stated_of: Vec<&str> =
        messages.iter().skip(1).filter(|m| matches!(m, Message::User { .. })).map(|m| m.text()).collect();
    let begin = [
        "The output was not accepted. schema: /score: ",
        "The output was not accepted. schema: the arguments are not JSON",
        "The output was not accepted. first: two",
        "The output was not accepted. second: three",
    ];
    assert_eq!(stated_of.len(), begin.len());
    for (activity, begin) in stated_of.iter().zip(begin) {
        assert!(activity.starts_with(begin), "{activity} begins with {begin}");
    }
    assert_eq!(activity.lines(), ["first 2", "first 3", "second 3", "first 4", "second 4"]);
    assert_valid(&messages);
}

#[tokio::test]
async fn what_fits_the_schema_and_is_no_such_value_is_rejected_by_the_schema() {
    /// The schema of a text and nothing more: its reader wants more.
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "Loose")]
    struct Even(u32);
    #[derive(Deserialize, schemars::JsonSchema)]
    struct Loose {
        number: u32,
    }
    impl TryFrom<Loose> for Even {
        type Error = String;
        fn try_from(loose: Loose) -> Result<Self, String> {
            if loose.number.is_multiple_of(2) {
                Ok(Self(loose.number))
            } else {
                Err(format!("{} is odd", loose.number))
            }
        }
    }
    impl schemars::JsonSchema for Even {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Even".into()
        }
        fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
            Loose::json_schema(generator)
        }
    }
    let give = |n: u32| ScriptedReply::call("give", json!({"number": n}));
    let agent =
        Agent::output(scripted([give(3), give(4)]), OutputTool::<Even>::new("give", "Give")).build().unwrap();
    let mut messages = ask("Go");
    assert_eq!(agent.chat(&mut messages).await.unwrap().value.0, 4);
    assert!(messages[3].text().contains("schema: 3 is odd"), "{}", messages[3].text());
}

#[tokio::test(start_paused = true)]
async fn a_validator_that_panics_or_hangs_ends_it_in_time() {
    // S2-93, C10
    let panics = lead_tool().validator("bad", |_: Lead| async { panic!("no map") as Result<(), String> });
    let agent = Agent::output(scripted([save_lead("Ann", 1)]), panics).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(error.to_string(), "The output could not be checked: bad: the validator panicked: no map.");
    assert_eq!((meta_of(&error).reason(), &*error.code()), (StopReason::ToolFailure, "TOOL_FAILURE"));
    let kept = meta_of(&error).outcome.output.clone().unwrap();
    assert_eq!((kept.valid, serde_json::from_str::<Lead>(&kept.value).unwrap()), (false, lead("Ann", 1)));
    assert_valid(&messages);
    let hangs = lead_tool().validator("slow", |_: Lead| async {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        Ok::<(), String>(())
    });
    let agent = Agent::output(scripted([save_lead("Ann", 1)]), hangs).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    assert_eq!(error.to_string(), "The output could not be checked: slow: timeout after 30000 ms.");
    assert_eq!(meta_of(&error).latency_ms, 30_000);
    assert_valid(&messages);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validator_that_keeps_its_thread_does_not_keep_the_run() {
    // S2-49, T1
    let (begins, begun) = std::sync::mpsc::channel();
    let (ends, end) = std::sync::mpsc::channel::<()>();
    let end = std::sync::Arc::new(std::sync::Mutex::new(end));
    let keeps = lead_tool().validator("slow", move |_: Lead| {
        let (begins, end) = (begins.clone(), std::sync::Arc::clone(&end));
        async move {
            begins.send(()).unwrap();
            // An error: the test is over.
            _ = end.lock().unwrap().recv();
            Ok::<(), String>(())
        }
    });
    let agent = Agent::output(scripted([save_lead("Ann", 1)]), keeps).build().unwrap();
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    std::thread::spawn(move || {
        begun.recv().unwrap();
        later.cancel();
    });
    // Otherwise this does not end.
    let error = agent.chat(&mut ask("Go")).until(&cancel).await.unwrap_err();
    assert!(matches!(&error, AgentError::Cancelled { phase, .. } if &**phase == "validation"), "{error:?}");
    assert!(meta_of(&error).outcome.output.is_some());
    drop(ends);
}

#[tokio::test]
async fn after_the_last_attempt_it_says_what_was_wrong() {
    // S2-54, S2-93, C13, C31
    let model = scripted((0..4).map(|n| save_lead("Ann", 101 + n)));
    let agent = Agent::output(model.clone(), ruled(lead_tool())).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::MaxAttempts { attempts, message, meta } = &error else { panic!("{error:?}") };
    assert_eq!((*attempts, &**message, &*error.code()), (3, "score: 103 is more than 100", "MAX_ATTEMPTS"));
    assert_eq!(
        error.to_string(),
        "no valid output in 3 attempts; the last was rejected: score: 103 is more than 100"
    );
    assert_eq!((model.left(), meta.attempts, meta.totals.passes), (1, 3, 3), "three by default");
    let best = meta.outcome.output.as_ref().unwrap();
    assert_eq!((best.valid, best.value.contains("103")), (false, true), "nothing that was paid for is lost");
    assert_eq!(shape(&messages), "UCTUCTUCT");
    assert_valid(&messages);
    // The same messages go on.
    messages.push(Message::user("Once more, and at most 100."));
    let agent = Agent::output(scripted([save_lead("Ann", 5)]), ruled(lead_tool())).build().unwrap();
    assert_eq!(agent.chat(&mut messages).await.unwrap().value, lead("Ann", 5));
    assert_valid(&messages);
}

#[tokio::test]
async fn an_attempt_may_take_fifteen_passes() {
    // S2-37..S2-40, S2-64, S2-78, S2-93, C13
    let activity = Activity::default();
    let model = scripted((0..20).map(|n| looks(&[&n.to_string()])));
    let agent = agent(&model, ruled(lead_tool()), &activity).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::MaxIterations { attempt, iterations, limit, meta } = &error else { panic!("{error:?}") };
    assert_eq!((*attempt, *iterations, *limit, model.requests().len()), (1, 15, 15, 15));
    assert_eq!(error.to_string(), "Max iterations reached: 15 of 15 (attempt 1)");
    assert_eq!((&*error.code(), meta.totals.passes), ("MAX_ITERATIONS", 15));
    assert!(meta.outcome.output.is_none() && meta.outcome.rejection.is_none(), "nothing was validated");
    assert_valid(&messages);
}

#[tokio::test]
async fn each_attempt_has_passes_of_its_own() {
    // S2-37, S2-78
    let activity = Activity::default();
    let replies = [looks(&["1"]), save_lead("Ann", 101), looks(&["2"]), looks(&["3"]), looks(&["4"])];
    let model = scripted(replies);
    let agent = agent(&model, ruled(lead_tool()), &activity).passes_per_attempt(2).build().unwrap();
    let mut messages = ask("Go");
    let error = agent.chat(&mut messages).await.unwrap_err();
    let AgentError::MaxIterations { attempt, iterations, limit, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*attempt, *iterations, *limit, model.left()), (2, 2, 2, 1));
    assert_valid(&messages);
    // An output in the last pass counts.
    let model = scripted([looks(&["1"]), save_lead("Ann", 1)]);
    let agent = agents::with_tools(Agent::output(model, lead_tool()), &activity)
        .passes_per_attempt(2)
        .build()
        .unwrap();
    assert!(agent.prompt("Go").await.is_ok());
}

#[tokio::test]
async fn helpers_and_the_output_may_not_share_a_name() {
    // S2-22, S2-98, S2-d3
    let build = |name: &str, tool: OutputTool<Lead>| {
        let helper = ToolDeclaration::read(name, "Helps");
        let agent = Agent::output(scripted([]), tool);
        agent
            .helper(helper, |target: Target, _| behave(target, Activity::default()))
            .build()
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        build("save_lead", lead_tool()),
        "the helper `save_lead` has the name of the output tool; rename one of them"
    );
    let helper = ToolDeclaration::read("submit", "Helps");
    let agent = Agent::output(scripted([]), reflected());
    let error =
        agent.helper(helper, |target: Target, _| behave(target, Activity::default())).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the helper `submit` has the name of the tool that submits; rename the helper, or the other with submit_as"
    );
    // Without a reflection nothing submits, and the name is free.
    let helper = ToolDeclaration::read("submit", "Helps");
    let agent = Agent::output(scripted([]), lead_tool());
    assert!(agent.helper(helper, |target: Target, _| behave(target, Activity::default())).build().is_ok());
    let error = Agent::output(scripted([]), reflected().submit_as("save_lead", "")).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the output tool and the tool that submits are both called `save_lead`; give the latter another name with submit_as"
    );
    // An alias hides neither.
    let helper = ToolDeclaration::read("help", "Helps").alias("save_lead");
    let agent = Agent::output(scripted([]), lead_tool());
    let error =
        agent.helper(helper, |target: Target, _| behave(target, Activity::default())).build().unwrap_err();
    assert!(error.to_string().contains("save_lead"), "{error}");
    let twice = Agent::new(scripted([]))
        .tool(look(), |target: Target, _| behave(target, Activity::default()))
        .tool(look(), |target: Target, _| behave(target, Activity::default()));
    assert!(twice.build().unwrap_err().to_string().contains("look"));
    let silent = Agent::new(scripted([]))
        .tool(ToolDeclaration::new("x"), |target: Target, _| behave(target, Activity::default()));
    assert!(
        silent.build().unwrap_err().to_string().contains("effect"),
        "a tool says what it does to the world"
    );
}

#[tokio::test]
async fn an_output_that_is_no_object_is_refused_at_build() {
    let error =
        Agent::output(scripted([]), OutputTool::<Vec<Lead>>::new("give", "Give")).build().unwrap_err();
    assert!(error.to_string().contains("give"), "{error}");
}

#[tokio::test]
async fn results_are_reused_within_an_attempt_where_that_is_asked_for() {
    // S2-12, S2-100, C5, C6
    let activity = Activity::default();
    let replies =
        || [looks(&["x"]), looks(&["x"]), save_lead("Ann", 101), looks(&["x"]), save_lead("Ann", 1)];
    let model = scripted(replies());
    let twice = agent(&model, ruled(lead_tool()), &activity).reuse_results().build().unwrap();
    let mut messages = ask("Go");
    let found = twice.chat(&mut messages).await.unwrap();
    assert_eq!(activity.lines(), ["begins x", "ends x", "begins x", "ends x"], "once in each attempt");
    assert_eq!(texts(&messages)[..2], ["saw x", "(cached, pass 1)\nsaw x"]);
    assert_eq!(verdicts(&found.meta), ["run", "duplicate", "kept", "run", "kept"]);
    assert_valid(&messages);
    // Otherwise each call runs, until it has returned the same twice.
    let activity = Activity::default();
    let model = scripted(replies());
    let each = agent(&model, ruled(lead_tool()), &activity).build().unwrap();
    let found = each.prompt("Go").await.unwrap();
    assert_eq!(activity.lines().len(), 4);
    assert_eq!(verdicts(&found.meta), ["run", "run", "kept", "duplicate", "kept"]);
}

#[tokio::test(start_paused = true)]
async fn settings_by_which_there_could_never_be_an_output_are_refused_at_build() {
    let agent = || Agent::output(scripted([]), lead_tool());
    let zero =
        |setting: &str| format!("{setting} is 0, so that there could never be an output; set 1 or more");
    assert_eq!(agent().attempts(0).build().unwrap_err().to_string(), zero("attempts"));
    assert_eq!(agent().passes_per_attempt(0).build().unwrap_err().to_string(), zero("passes_per_attempt"));
    assert_eq!(agent().validate_ms(0).build().unwrap_err().to_string(), zero("validate_ms"));
    // What the run ends with is no tool to choose.
    let error = agent().gate(|gate| gate.required_tools = vec!["save_lead".into()]).build().unwrap_err();
    assert!(error.to_string().ends_with("no tool has that name; there are none"), "{error}");
    let slow = lead_tool().validator("slow", |_: Lead| std::future::pending::<Result<(), String>>());
    let agent = Agent::output(scripted([save_lead("Ann", 1)]), slow).validate_ms(50).build().unwrap();
    let error = agent.prompt("Go").await.unwrap_err();
    assert!(error.to_string().contains("timeout after 50 ms"), "{error}");
}
