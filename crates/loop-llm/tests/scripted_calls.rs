//! The scripted model as a model that calls tools.

use futures::StreamExt;
use loop_core::reply::FinishReason;
use loop_core::types::{FailureKind, Usage};
use loop_llm::request::Raw;
use loop_llm::scripted::ScriptedReply;
use loop_llm::{
    ChatModel, Message, ModelEvent, ModelRequest, Scripted, ToolChoice, ToolDefinition, complete,
};
use loop_testkit::llm::result;
use serde_json::json;

fn request() -> ModelRequest {
    ModelRequest::new("m", "Be brief.", "Find Bob.")
}

fn search() -> ToolDefinition {
    ToolDefinition {
        name: "search_user".into(),
        description: "Search users by name".into(),
        parameters: json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
        strict: Default::default(),
    }
}

async fn events(model: &dyn ChatModel) -> Vec<ModelEvent> {
    model.stream(&request()).await.unwrap().map(Result::unwrap).collect().await
}

#[tokio::test]
async fn a_reply_with_calls_comes_as_a_stream_of_pieces() {
    // S1-15, S1-26
    let script = r#"{"version": 1, "replies": [{
        "reasoning": "Who\nis it?", "text": "One\nmoment.",
        "calls": [
            {"name": "search_user", "arguments": {"name": "a rather long name, é"}},
            {"name": "now"},
            {"id": "mine", "name": "raw", "arguments": "{\"a\":"}
        ],
        "raw": {"blocks": [1]}
    }]}"#;
    let stated = events(&Scripted::from_json(script).unwrap()).await;
    let mut arguments = vec![String::new(); 3];
    let mut kinds = Vec::new();
    for event in &stated {
        kinds.push(match event {
            ModelEvent::Started { .. } => "started".to_owned(),
            ModelEvent::ReasoningDelta { text } => format!("reasoning {text:?}"),
            ModelEvent::TextDelta { text } => format!("text {text:?}"),
            ModelEvent::ToolCallStarted { nth, name } => format!("call {nth} {name}"),
            ModelEvent::ToolArgumentsDelta { nth, text } => {
                arguments[*nth as usize].push_str(text);
                format!("arguments {nth}")
            }
            ModelEvent::Usage(_) => "usage".to_owned(),
            ModelEvent::Finished(_) => "finished".to_owned(),
            ModelEvent::ToolCallCompleted { nth } => format!("completed {nth}"),
            ModelEvent::KeepAlive => "alive".to_owned(),
        });
    }
    let expected = [
        "started",
        "reasoning \"Who\\n\"",
        "reasoning \"is it?\"",
        "text \"One\\n\"",
        "text \"moment.\"",
        "call 0 search_user",
        "arguments 0",
        "arguments 0",
        "arguments 0",
        "completed 0",
        "call 1 now",
        "arguments 1",
        "completed 1",
        "call 2 raw",
        "arguments 2",
        "completed 2",
        "usage",
        "finished",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(arguments, [r#"{"name":"a rather long name, é"}"#, "{}", r#"{"a":"#]);
    let Some(ModelEvent::Finished(reply)) = stated.last() else { panic!("no end") };
    let calls: Vec<_> =
        reply.tool_calls.iter().map(|call| (&*call.id, &*call.name, &**call.arguments.text())).collect();
    let expected = [
        ("call_1", "search_user", arguments[0].as_str()),
        ("call_2", "now", "{}"),
        ("mine", "raw", r#"{"a":"#),
    ];
    assert_eq!(calls, expected);
    assert!(reply.tool_calls[0].arguments.object().is_ok());
    assert!(reply.tool_calls[2].arguments.object().is_err(), "S1-d2: it is sent as it stands");
    assert_eq!((reply.finish, reply.stop), (FinishReason::ToolUse, Some(loop_llm::model::ReplyEnd::ToolUse)));
    assert_eq!(&*reply.reasoning, "Who\nis it?");
    assert_eq!(reply.raw, Some(Raw::from_text("scripted/script/m\n{\"blocks\":[1]}")));
    let Message::Assistant(turn) = reply.turn() else { panic!("no turn of a model") };
    assert_eq!((turn.calls.len(), turn.raw.is_some(), &*turn.reasoning), (3, true, "Who\nis it?"));
    let usage = reply.usage.unwrap();
    let written = "One\nmoment.search_usernowraw{}".len() + arguments[0].len() + arguments[2].len();
    assert_eq!((usage.output, usage.reasoning), (written.div_ceil(4) as u64, 3));
}

#[tokio::test]
async fn ids_that_are_left_out_are_unique_over_the_script() {
    // S1-d3: ids that are given may be doubled, so that a loop can be held against that.
    let model = Scripted::new([
        ScriptedReply::call("a", json!({})).and_call_as("call_2", "b", json!({})).and_call("c", json!({})),
        ScriptedReply::call("d", json!({})).and_call_as("call_2", "e", json!({})),
    ]);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let reply = complete(&model, &request()).await.unwrap();
        ids.extend(reply.tool_calls.iter().map(|call| call.id.to_string()));
    }
    assert_eq!(ids, ["call_1", "call_2", "call_3", "call_4", "call_2"]);
    assert_eq!(model.left(), 0);
}

#[tokio::test]
async fn what_a_reply_with_calls_says_of_itself_may_be_given() {
    let usage = Usage { input: 1, output: 2, ..Usage::default() };
    let model = Scripted::new([
        ScriptedReply {
            finish: Some(FinishReason::MaxTokens),
            usage: Some(usage),
            ..ScriptedReply::call("a", json!(""))
        },
        ScriptedReply { fails: Some("cut".into()), ..ScriptedReply::call("a", json!({"b": 1})) },
        ScriptedReply::text("Done."),
    ]);
    let reply = complete(&model, &request()).await.unwrap();
    assert_eq!((reply.finish, reply.usage), (FinishReason::MaxTokens, Some(usage)));
    assert!(reply.tool_calls[0].arguments.object().is_ok_and(|value| value.is_empty()));
    let cut: Vec<_> = model.stream(&request()).await.unwrap().collect().await;
    assert!(matches!(cut[0], Ok(ModelEvent::ToolCallStarted { nth: 0, .. })));
    assert_eq!(cut.last().unwrap().as_ref().unwrap_err().kind, FailureKind::StreamInterrupted);
    assert!(
        !cut.iter().any(|event| matches!(event, Ok(ModelEvent::Finished(_)))),
        "a reply that broke off is none"
    );
    let last = complete(&model, &request()).await.unwrap();
    assert_eq!((&*last.text, last.finish), ("Done.", FinishReason::EndTurn));
}

#[tokio::test]
async fn the_requests_are_kept_as_they_were() {
    // S1-12: what a conversation sends can be held against what came before.
    let model = Scripted::new([
        ScriptedReply::call("search_user", json!({"name": "Bob"})),
        ScriptedReply::text("ok"),
    ]);
    let mut requested = vec![ModelRequest { tools: vec![search()].into(), ..request() }];
    let reply = complete(&model, &requested[0]).await.unwrap();
    let mut next = ModelRequest { tool_choice: ToolChoice::None, ..requested[0].clone() };
    next.messages.extend([reply.turn(), Message::Tool { results: vec![result("call_1", false, "[]")] }]);
    requested.push(next);
    // Another conversation, and one turn in another form.
    requested.push(ModelRequest {
        messages: vec![Message::user("Hello"), requested[1].messages[1].clone()],
        ..request()
    });
    requested.push(requested[0].clone());
    complete(&model, &requested[1]).await.unwrap();
    for without_reply in &requested[2..] {
        assert!(complete(&model, without_reply).await.is_err(), "it is kept as well");
    }
    assert_eq!(model.requests(), requested);
}

#[test]
fn calls_that_cannot_be_read_are_refused_with_a_reason() {
    let refused = |call: &str| {
        let script = format!(r#"{{"version": 1, "replies": [{{"calls": [{call}]}}]}}"#);
        Scripted::from_json(&script).unwrap_err().to_string()
    };
    assert!(refused(r#"{"arguments": {}}"#).contains("missing field `name`"));
    assert!(
        refused(r#"{"name": "a", "arguments": [1]}"#).contains("arguments has to be an object or a text")
    );
    assert!(refused(r#"{"name": "a", "args": {}}"#).contains("unknown field `args`"));
}

#[test]
fn a_scripted_call_is_written_as_it_is_read() {
    let reply = ScriptedReply {
        reasoning: "r".into(),
        raw: Some(json!([1])),
        ..ScriptedReply::call("a", json!({"b": 1})).and_call_as("x", "c", json!("text"))
    };
    let text = serde_json::to_string(&reply).unwrap();
    let expected = r#"{"text":"","calls":[{"name":"a","arguments":{"b":1}},{"id":"x","name":"c","arguments":"text"}],"reasoning":"r","raw":[1],"no_usage":false,"delay_ms":0}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<ScriptedReply>(&text).unwrap(), reply);
}
