//! What runs of agents leave to be looked at: phases, requests, the order of facts, the cost, one result in five forms.

use std::sync::Arc;

use loop_core::EventKind;
use loop_core::types::{Status, Usage};
use loop_llm::scripted::ScriptedReply;
use loop_llm::{HttpModel, Profile};
use loop_prompts::submit::DEFAULT_SUBMIT_TOOL;
use loop_runtime::{
    Agent, Message,
    agent::{AgentBuilder, AgentModel, OutputTool, Text},
    journal::{Journal, MemoryJournal, Recorded, replay},
    models::{ModelSpec, Scripted},
    run::RunId,
    spec::ErrorStyle,
    tools::ToolDeclaration,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

#[derive(Deserialize, JsonSchema)]
struct Search {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Lead {
    name: String,
    budget_usd: u32,
}

fn search() -> ToolDeclaration {
    ToolDeclaration::read("search_user", "Search users by name")
}

fn calls_search(name: &str) -> ScriptedReply {
    ScriptedReply::call("search_user", json!({"name": name}))
}

fn lead(budget_usd: u32) -> ScriptedReply {
    ScriptedReply::call("save_lead", json!({"name": "Ann Lee", "budget_usd": budget_usd}))
}

fn save() -> OutputTool<Lead> {
    let rule = |lead: Lead| async move { if lead.budget_usd < 1_000 { Err("too small") } else { Ok(()) } };
    OutputTool::<Lead>::new("save_lead", "Save the lead").validator("worth_it", rule)
}

fn finder(model: &Arc<Scripted>) -> AgentBuilder<Text> {
    Agent::new(Arc::clone(model)).tool(search(), |search: Search, _| async move {
        if search.name == "Nobody" {
            Err("no connection")
        } else {
            Ok(format!("1 user named {}", search.name))
        }
    })
}

async fn recorded(journal: &MemoryJournal, run: &RunId) -> Recorded {
    journal.read(run).await.unwrap()
}

/// The facts of a run, each with the pass and slot that it belongs to, but the first.
fn facts(recorded: &Recorded) -> Vec<String> {
    let named = recorded.entries.iter().filter_map(|entry| match &entry.event.kind {
        EventKind::ModelReplied { key, .. }
        | EventKind::ToolFinished { key, .. }
        | EventKind::Checked { key, .. } => Some(format!("{} {key}", entry.event.kind.name())),
        _ => None,
    });
    named.collect()
}

#[tokio::test]
async fn the_phases_of_a_conversation_can_be_seen_and_drawn() {
    // S1-4, S1-22, S1-24
    let journal = Arc::new(MemoryJournal::new());
    let model = Arc::new(Scripted::new([calls_search("Bob"), ScriptedReply::text("There is one.")]));
    let agent = finder(&model).with_journal(journal.clone()).build().unwrap();
    let answer = agent.chat(&mut vec![Message::user("Find Bob")]).await.unwrap();
    let recorded = recorded(&journal, &answer.meta.run).await;
    let mut phases: Vec<&str> = Vec::new();
    for length in 1..=recorded.entries.len() {
        let mut so_far = recorded.clone();
        so_far.entries.truncate(length);
        let phase = replay(&answer.meta.run, &so_far).unwrap().phase().name();
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
    }
    assert_eq!(phases, ["calling", "acting", "calling", "done"]);
    assert_eq!(
        facts(&recorded),
        ["model_replied 1/main", "tool_finished 1/action-0", "model_replied 2/main"]
    );
    let called = &answer.meta.outcome.actions[0];
    assert_eq!((called.tool_name(), &*called.parameters), ("search_user", r#"{"name":"Bob"}"#));
}

#[tokio::test]
async fn each_request_is_complete_and_holds_all_that_was_recorded_before() {
    // S1-11, S1-12, S1-18, S1-20
    let replies = [calls_search("Bob"), calls_search("Alice"), ScriptedReply::text("Both are there.")];
    let model = Arc::new(Scripted::new(replies));
    let mut messages = vec![Message::user("Find Bob and Alice")];
    let answer = finder(&model).build().unwrap().chat(&mut messages).await.unwrap();
    let requests = model.requests();
    assert_eq!(requests.iter().map(|request| request.messages.len()).collect::<Vec<_>>(), [1, 3, 5]);
    for request in &requests {
        assert_eq!(request.messages, messages[..request.messages.len()]);
        assert_eq!((&request.system, &request.tools), (&requests[0].system, &requests[0].tools));
    }
    let Some(Message::Assistant(last)) = messages.last() else { panic!("{messages:?}") };
    assert_eq!((&*last.text, last.calls.len()), (&*answer.text, 0));
}

#[tokio::test]
async fn messages_have_roles_contents_calls_and_the_ids_that_they_answer() {
    // S1-26, S1-28, S1-32
    let model = Arc::new(Scripted::new([calls_search("Bob"), ScriptedReply::text("There is one.")]));
    let mut messages = vec![Message::user("Find Bob")];
    finder(&model).build().unwrap().chat(&mut messages).await.unwrap();
    let written: Vec<Value> = messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect();
    let roles: Vec<_> = written.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!((&written[0]["text"], &written[3]["text"]), (&json!("Find Bob"), &json!("There is one.")));
    assert_eq!(written[1]["calls"][0]["id"], written[2]["results"][0]["call"]);
    assert_eq!(written[2]["results"][0]["text"], "1 user named Bob");
    let read: Vec<Message> = serde_json::from_value(Value::Array(written)).unwrap();
    assert_eq!(read, messages);
}

/// A server that speaks Chat Completions: it calls the tool, and then says what came of it.
async fn chat_server() -> MockServer {
    let server = MockServer::start().await;
    let stream = |delta: Value, finish: &str| {
        let piece = |delta: Value, finish: Option<&str>| {
            json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
                   "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let (first, last) = (piece(delta, None), piece(json!({}), Some(finish)));
        let body = format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n");
        ResponseTemplate::new(200).set_body_raw(body, "text/event-stream")
    };
    let call = json!({"role": "assistant", "tool_calls": [{"index": 0, "id": "call_9", "type": "function",
        "function": {"name": "fetch_city", "arguments": "{\"name\":\"Bob\"}"}}]});
    let chat = || Mock::given(method("POST")).and(path("/v1/chat/completions"));
    chat().respond_with(stream(call, "tool_calls")).up_to_n_times(1).mount(&server).await;
    chat()
        .respond_with(stream(json!({"role": "assistant", "content": "Bergen."}), "stop"))
        .mount(&server)
        .await;
    let city = ResponseTemplate::new(200).set_body_json(json!({"city": "Bergen"}));
    Mock::given(method("GET")).and(path("/users/Bob")).respond_with(city).mount(&server).await;
    server
}

#[tokio::test]
async fn functions_are_called_in_openai_s_format_and_a_tool_stands_on_rest() {
    // S1-54
    let server = chat_server().await;
    let base_url = format!("{}/v1", server.uri());
    let client = HttpModel::new(Profile::named("openai-chat").unwrap(), Some(&base_url)).unwrap();
    let uri = server.uri();
    let agent = Agent::new(AgentModel::new(client, ModelSpec::new("openai-chat", "m")))
        .no_cost_limit()
        .tool(ToolDeclaration::read("fetch_city", "Fetch a user's city"), move |of: Search, _| {
            let url = format!("{uri}/users/{}", of.name);
            async move { loop_llm::http::http_client().unwrap().get(url).send().await?.text().await }
        })
        .build()
        .unwrap();
    let answer = agent.chat(&mut vec![Message::user("Where does Bob live?")]).await.unwrap();
    assert_eq!(&*answer.text, "Bergen.");
    let requested = server.received_requests().await.unwrap();
    let bodies: Vec<Value> = requested
        .iter()
        .filter(|requested| !requested.body.is_empty())
        .map(|requested| requested.body_json().unwrap())
        .collect();
    assert_eq!(bodies[0]["tools"][0]["type"], "function");
    assert_eq!(bodies[0]["tools"][0]["function"]["name"], "fetch_city");
    let turns = bodies[1]["messages"].as_array().unwrap();
    let answered = turns.last().unwrap();
    assert_eq!((&answered["role"], &answered["tool_call_id"]), (&json!("tool"), &json!("call_9")));
    assert_eq!(answered["content"], r#"{"city":"Bergen"}"#);
    let called = &turns[turns.len() - 2]["tool_calls"][0];
    assert_eq!((&called["function"]["name"], &called["id"]), (&json!("fetch_city"), &json!("call_9")));
}

#[tokio::test]
async fn what_submits_is_there_by_itself_and_the_formatter_gets_the_value() {
    // S2-21, S2-25, S2-26, S2-27, S2-30, S2-33, S2-58
    let submit = || ScriptedReply::call("submit", json!({}));
    let model = Arc::new(Scripted::new([lead(5_000), submit()]));
    let shown = save().reflect(|lead: &Lead| format!("{} has {}", lead.name, lead.budget_usd + 1));
    let mut messages = vec![Message::user("Ann Lee has 5000 USD")];
    Agent::output(Arc::clone(&model), shown).build().unwrap().chat(&mut messages).await.unwrap();
    let tools = Arc::clone(&model.requests()[0].tools);
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["save_lead", "submit"]);
    assert_eq!(&*tools[0].description, "Save the lead");
    assert_eq!(tools[0].parameters["properties"]["budget_usd"]["type"], "integer");
    assert_eq!(
        (&*DEFAULT_SUBMIT_TOOL.name, &*tools[1].description),
        ("submit", &*DEFAULT_SUBMIT_TOOL.description)
    );
    assert_eq!(
        &*tools[1].description,
        "Submit your final output for validation. Call this when you are satisfied with your output."
    );
    assert_eq!(tools[1].parameters["properties"], json!({}));
    let Message::Tool { results } = &messages[2] else { panic!("{messages:?}") };
    assert_eq!((&*results[0].text, results[0].is_error), ("Ann Lee has 5001", false));
}

#[tokio::test]
async fn the_steps_of_a_pass_have_one_order_and_its_tokens_are_summed() {
    // S2-14, S2-59, S2-87
    let journal = Arc::new(MemoryJournal::new());
    let mixed = calls_search("Ann").and_call("save_lead", json!({"name": "Ann", "budget_usd": 20}));
    let model = Arc::new(Scripted::new([mixed, calls_search("Bob"), lead(5_000)]));
    let agent = Agent::output(model, save())
        .helper(search(), |search: Search, _| async move { Ok::<_, String>(search.name) })
        .with_journal(journal.clone())
        .build()
        .unwrap();
    let found = agent.prompt("Ann Lee has 5000 USD").await.unwrap();
    let recorded = recorded(&journal, &found.meta.run).await;
    let order = [
        "model_replied 1/main",
        "tool_finished 1/action-0",
        "checked 1/check",
        "model_replied 2/main",
        "tool_finished 2/action-0",
        "model_replied 3/main",
        "checked 3/check",
    ];
    assert_eq!(facts(&recorded), order);
    let used = recorded.entries.iter().filter_map(|entry| match &entry.event.kind {
        EventKind::ModelReplied { reply, .. } => reply.usage,
        _ => None,
    });
    let used: Vec<Usage> = used.collect();
    let total: u64 = used.iter().map(Usage::total).sum();
    assert_eq!((used.len(), total), (3, found.meta.totals.usage.total()));
    assert_eq!(found.meta.attempts, 2);
}

#[tokio::test]
async fn what_a_reflection_costs_and_saves_is_in_the_bill() {
    // S2-85
    let submit = ScriptedReply::call("submit", json!({}));
    let plain = Arc::new(Scripted::new([lead(20), lead(5_000)]));
    let shown = Arc::new(Scripted::new([lead(20), lead(5_000), submit]));
    let without = Agent::output(plain, save()).build().unwrap().prompt("Go").await.unwrap().meta;
    let reflected = save().reflect(|lead: &Lead| lead.name.clone());
    let with = Agent::output(shown, reflected).build().unwrap().prompt("Go").await.unwrap().meta;
    assert_eq!((without.attempts, without.totals.passes), (2, 2));
    assert_eq!((with.attempts, with.totals.passes), (1, 3));
    assert!(with.totals.usage.total() > without.totals.usage.total());
}

#[tokio::test]
async fn a_long_result_is_cut_and_says_so() {
    // S2-86
    let model = Arc::new(Scripted::new([calls_search("x"), ScriptedReply::text("Much.")]));
    let agent = Agent::new(model)
        .tool(search(), |search: Search, _| async move { Ok::<_, String>(search.name.repeat(50_000)) })
        .build()
        .unwrap();
    let mut messages = vec![Message::user("How much?")];
    agent.chat(&mut messages).await.unwrap();
    let Message::Tool { results } = &messages[2] else { panic!("{messages:?}") };
    let limit = agent.runner().spec().limits.markdown_chars as usize;
    let kept = results[0].text.chars().take_while(|c| *c == 'x').count();
    let activity = results[0].text.trim_start_matches('x');
    assert_eq!((kept, activity.trim()), (limit, "… [cut: 16000 of 50000 characters]"));
}

#[tokio::test]
async fn one_result_is_shown_in_the_form_of_each_document() {
    // C7, C8
    let forms = [
        (ErrorStyle::Quoted, "> **Search user:** no connection"),
        (ErrorStyle::Named, "Error executing search_user: no connection"),
        (ErrorStyle::Prefixed, "Error: no connection"),
        (ErrorStyle::Tagged, "tool_failure: no connection"),
    ];
    for (style, failed) in forms {
        let both = calls_search("Bob").and_call("search_user", json!({"name": "Nobody"}));
        let model = Arc::new(Scripted::new([both, ScriptedReply::text("One of them.")]));
        let agent = finder(&model).errors(style).build().unwrap();
        let mut messages = vec![Message::user("Find both")];
        let answer = agent.chat(&mut messages).await.unwrap();
        let Message::Tool { results } = &messages[2] else { panic!("{messages:?}") };
        let reported: Vec<_> = results.iter().map(|result| (&*result.text, result.is_error)).collect();
        assert_eq!(reported, [("1 user named Bob", false), (failed, true)], "{style:?}");
        // The observation behind it is the same in each: status, summary, Markdown, data.
        let evidence = &answer.meta.outcome.evidence;
        let seen = |n: usize| (evidence[n].observation.status, &*evidence[n].observation.summary);
        assert_eq!(
            (seen(0), seen(1)),
            ((Status::Ok, "1 user named Bob"), (Status::PermanentError, "no connection"))
        );
        assert_eq!(
            (&*evidence[0].observation.data, &*evidence[1].observation.data),
            ("\"1 user named Bob\"", "null")
        );
    }
}
