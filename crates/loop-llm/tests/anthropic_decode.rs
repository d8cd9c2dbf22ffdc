//! What the codec of Anthropic's Messages makes of replies, however their bytes are cut.

use crate::common;

use common::{Wire, calls, raw};
use loop_core::reply::FinishReason;
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, Usage};
use loop_llm::error::RetryAdvice;
use loop_llm::model::ReplyEnd;
use loop_llm::{LlmError, Message, ModelEvent, ModelReply, Profile};
use loop_testkit::llm::result;
use serde_json::{Value, json};

const MODEL: &str = "claude-sonnet-4-5";

fn wire() -> Wire {
    Wire::new("anthropic", MODEL)
}

/// A server that is compatible, of whose models nothing is known.
fn compatible() -> Wire {
    let anthropic = Profile::named("anthropic").unwrap();
    Wire::of(Profile { name: "copy".into(), known_models: false, ..(*anthropic).clone() }, "qwen3")
}

/// Events as they are sent, each with its name.
fn named(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

fn start() -> Value {
    let usage = json!({"input_tokens": 25, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1});
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}})
}

fn ping() -> Value {
    json!({"type": "ping"})
}

fn begin(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn close(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

/// A block, whole or in pieces.
fn block(index: u64, block: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![begin(index, block)];
    events.extend(deltas.iter().map(|it| delta(index, it.clone())));
    events.push(close(index));
    events
}

fn text(index: u64, pieces: &[&str]) -> Vec<Value> {
    let deltas: Vec<_> = pieces.iter().map(|piece| json!({"type": "text_delta", "text": piece})).collect();
    block(index, json!({"type": "text", "text": ""}), &deltas)
}

fn thinking(index: u64, pieces: &[&str], signature: &str) -> Vec<Value> {
    let mut deltas: Vec<_> =
        pieces.iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece})).collect();
    deltas.push(json!({"type": "signature_delta", "signature": signature}));
    block(index, json!({"type": "thinking", "thinking": "", "signature": ""}), &deltas)
}

fn tool(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
    let start = json!({"type": "tool_use", "id": id, "name": "weather", "input": {}});
    let deltas: Vec<_> =
        pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect();
    block(index, start, &deltas)
}

fn stop(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 89}})
}

fn over() -> Value {
    json!({"type": "message_stop"})
}

/// A whole stream of these blocks.
fn events(blocks: &[Vec<Value>], reason: &str) -> String {
    let mut events = vec![start(), ping()];
    events.extend(blocks.concat());
    events.extend([stop(reason), over()]);
    named(&events)
}

#[track_caller]
fn end(blocks: &[Vec<Value>], reason: &str) -> ModelReply {
    wire().end(events(blocks, reason)).unwrap()
}

/// A message in one piece.
fn message(content: Value, reason: &str, usage: Value) -> String {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": content,
        "stop_reason": reason, "stop_sequence": null, "stop_details": null, "usage": usage})
    .to_string()
}

#[track_caller]
fn whole(content: Value, reason: &str) -> ModelReply {
    wire().end(message(content, reason, json!({"input_tokens": 25, "output_tokens": 89}))).unwrap()
}

/// What the next request says of the reply and of its results: the turns after the first.
#[track_caller]
fn sent_back(reply: &ModelReply) -> Vec<Value> {
    let mut turns = vec![Message::user("Hi"), reply.turn()];
    if !reply.tool_calls.is_empty() {
        let results = reply.tool_calls.iter().map(|call| result(&call.id, false, "fine")).collect();
        turns.push(Message::Tool { results });
    }
    let body = wire().turns(&turns).sent();
    body["messages"].as_array().unwrap()[1..].to_vec()
}

// wire WA01
#[test]
fn a_text_in_pieces_between_pings() {
    let body = events(&[text(0, &["Hel", "lo \u{1f600}"])], "end_turn");
    let reply = wire().end(&body).unwrap();
    assert_eq!(
        (&*reply.text, reply.finish, reply.stop),
        ("Hello \u{1f600}", FinishReason::EndTurn, Some(ReplyEnd::EndTurn))
    );
    assert_eq!((reply.reply.as_deref(), reply.served_model.as_deref()), (Some("msg_1"), Some(MODEL)));
    assert_eq!((reply.raw_stop.as_deref(), reply.raw, reply.warnings.len()), (Some("end_turn"), None, 0));
    assert_eq!(reply.usage, Some(Usage { input: 25, output: 89, ..Usage::default() }));
    let items = wire().items(body.as_bytes());
    assert!(items.contains(&Ok(ModelEvent::KeepAlive)));
    assert!(matches!(items[0], Ok(ModelEvent::Started { reply: Some(_), model: Some(_) })));
}

// wire WA02
#[test]
fn thinking_text_and_a_call() {
    let blocks = [
        thinking(0, &["Let me ", "see."], "EqQB"),
        text(1, &["I will ", "check."]),
        tool(2, "toolu_1", &["", "{\"city\":", " \"Oslo\", \"n\": 1.0}"]),
    ];
    let reply = end(&blocks, "tool_use");
    assert_eq!((&*reply.reasoning, &*reply.text), ("Let me see.", "I will check."));
    assert_eq!((reply.stop, reply.finish), (Some(ReplyEnd::ToolUse), FinishReason::ToolUse));
    let arguments = "{\"city\": \"Oslo\", \"n\": 1.0}";
    assert_eq!(calls(&reply), [("toolu_1", "weather", arguments)]);
    let json = reply.raw.as_ref().unwrap().json();
    let wanted = r#"{"type":"thinking","thinking":"Let me see.","signature":"EqQB"},{"type":"text","text":"I will check."},"#
        .to_owned()
        + r#"{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city": "Oslo", "n": 1.0}}"#;
    assert_eq!(json, wanted);
    let back = sent_back(&reply);
    assert_eq!(back[0]["content"], serde_json::from_str::<Value>(&format!("[{wanted}]")).unwrap());
    assert_eq!(back[1]["content"][0]["tool_use_id"], "toolu_1");
}

// wire WA03
#[test]
fn a_call_without_arguments() {
    for pieces in [&[][..], &[""], &["", ""]] {
        let reply = end(&[tool(0, "toolu_1", pieces)], "tool_use");
        let Ok(value) = reply.tool_calls[0].arguments.object() else { panic!("{reply:?}") };
        assert!(value.is_empty());
        assert_eq!(sent_back(&reply)[0]["content"][0]["input"], json!({}));
    }
    let reply = whole(json!([{"type": "tool_use", "id": "a", "name": "weather", "input": {}}]), "tool_use");
    assert_eq!(calls(&reply), [("a", "weather", "{}")]);
}

// wire WA04
#[test]
fn thinking_that_is_not_shown_goes_back_as_it_came() {
    let reply = end(&[thinking(0, &[], "EqQB"), text(1, &["Done."])], "end_turn");
    assert_eq!((&*reply.reasoning, &*reply.text), ("", "Done."));
    assert_eq!(raw(&reply)[0], json!({"type": "thinking", "thinking": "", "signature": "EqQB"}));
    assert_eq!(sent_back(&reply)[0]["content"], raw(&reply));
}

// wire WA05
#[test]
fn redacted_thinking_goes_back_as_it_came() {
    let redacted = json!({"type": "redacted_thinking", "data": "EmwKAhgB/+=="});
    let reply = end(&[block(0, redacted.clone(), &[]), tool(1, "a", &["{}"])], "tool_use");
    assert_eq!((&*reply.reasoning, &raw(&reply)[0]), ("", &redacted));
    let reply = whole(json!([redacted, {"type": "text", "text": "Done."}]), "end_turn");
    assert_eq!(sent_back(&reply)[0]["content"][0], redacted);
}

// wire WA06
#[test]
fn three_calls_are_answered_in_one_turn() {
    let reply = end(&[tool(0, "a", &["{}"]), tool(1, "b", &["{}"]), tool(2, "c", &["{}"])], "tool_use");
    assert_eq!(reply.tool_calls.iter().map(|call| &*call.id).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(reply.raw, None, "calls say it all");
    let results = ["c", "a", "b"].map(|id| result(id, false, id)).to_vec();
    let turns = [Message::user("Hi"), reply.turn(), Message::Tool { results }, Message::user("And now?")];
    let body = wire().turns(&turns).sent();
    let back = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": id});
    let wanted = json!([back("a"), back("b"), back("c"), {"type": "text", "text": "And now?"}]);
    assert_eq!((body["messages"].as_array().unwrap().len(), &body["messages"][2]["content"]), (3, &wanted));
}

// wire WA09
#[test]
fn a_call_that_was_cut_is_not_meant() {
    let cut = vec![
        begin(1, json!({"type": "tool_use", "id": "a", "name": "weather", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{\"city\":\"Os"})),
        close(1),
    ];
    let reply = end(&[text(0, &["Let me"]), cut.clone()], "max_tokens");
    assert_eq!((reply.stop, reply.tool_calls.len(), &reply.raw), (Some(ReplyEnd::MaxTokens), 0, &None));
    assert_eq!(*reply.warnings, ["dropped_partial_calls".into()]);
    let reply = end(&[thinking(0, &["Hm."], "s"), text(1, &["Let me"]), cut], "max_tokens");
    assert_eq!(raw(&reply).as_array().unwrap().len(), 2, "nobody answers the call");
    // Thinking that was cut, and that leads to nothing.
    let open = vec![
        begin(0, json!({"type": "thinking", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
    ];
    assert_eq!(end(&[open], "max_tokens").raw, None);
    assert_eq!(end(&[thinking(0, &["Hm."], "s")], "max_tokens").raw, None);
}

// wire WA10
#[test]
fn a_pause_goes_on_with_the_same_turn() {
    let uses = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let pieces =
        ["{\"query\":", " \"x\"}"].map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
    let reply = end(&[thinking(0, &["Hm."], "s"), block(1, uses, &pieces)], "pause_turn");
    assert_eq!((reply.stop, reply.tool_calls.len()), (Some(ReplyEnd::PauseTurn), 0));
    let back = sent_back(&reply);
    assert_eq!((back.len(), back[0]["role"].as_str()), (1, Some("assistant")));
    assert_eq!(back[0]["content"][1]["input"], json!({"query": "x"}));
    // The turn that goes on is the same turn.
    let more = whole(json!([{"type": "text", "text": "Found."}]), "end_turn");
    let turns = [Message::user("Hi"), reply.turn(), more.turn(), Message::user("Thanks")];
    let body = wire().turns(&turns).sent();
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 3);
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
}

// wire WA11
#[test]
fn a_refusal_says_why() {
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "This is about malware."});
    let refusal = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_sequence": null,
        "stop_details": details}, "usage": {"output_tokens": 3}});
    let mut all = vec![start()];
    all.extend(thinking(0, &["Hm."], "s"));
    all.extend(text(1, &["I can"]));
    all.extend([refusal, over()]);
    let reply = wire().end(named(&all)).unwrap();
    assert_eq!((reply.stop, reply.finish), (Some(ReplyEnd::Refusal), FinishReason::Refusal));
    assert_eq!(
        (reply.stop_detail.as_deref(), reply.refusal.as_deref()),
        (Some("cyber"), Some("This is about malware."))
    );
    assert_eq!((&*reply.text, &reply.raw), ("I can", &None), "a refused turn does not go back as it came");
    let reply = end(&[], "refusal");
    assert_eq!((reply.stop, reply.refusal), (Some(ReplyEnd::Refusal), None));
}

// wire WA12 WA13
#[test]
fn words_for_the_end() {
    let ended = |reason| end(&[text(0, &["So"])], reason);
    assert_eq!(ended("model_context_window_exceeded").stop, Some(ReplyEnd::ContextWindow));
    assert_eq!(ended("max_tokens").stop, Some(ReplyEnd::MaxTokens));
    assert_eq!(ended("compaction").stop, Some(ReplyEnd::Compaction));
    let future = ended("future_reason");
    assert_eq!((future.stop, future.raw_stop.as_deref()), (Some(ReplyEnd::Other), Some("future_reason")));
    let sequence = json!({"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"}, "usage": {"output_tokens": 1}});
    let events = [vec![start()], text(0, &["So"]), vec![sequence, over()]].concat();
    let reply = wire().end(named(&events)).unwrap();
    assert_eq!((reply.stop, reply.stop_detail.as_deref()), (Some(ReplyEnd::StopSequence), Some("END")));
    // A call decides, not the word.
    assert_eq!(end(&[tool(0, "a", &["{}"])], "end_turn").stop, Some(ReplyEnd::ToolUse));
    assert_eq!(end(&[text(0, &["So"])], "tool_use").stop, Some(ReplyEnd::MalformedToolCall));
}

// wire WA14
#[test]
fn an_error_within_a_stream() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let pieces = ["Hel", "lo"].map(|piece| delta(0, json!({"type": "text_delta", "text": piece})));
    let mut events = vec![start(), begin(0, json!({"type": "text", "text": ""}))];
    events.extend(pieces);
    events.push(error);
    let error = wire().end(named(&events)).unwrap_err();
    assert_eq!((error.kind, error.phase), (FailureKind::Overloaded, loop_llm::ErrorPhase::Stream));
    assert_eq!((&*error.partial.unwrap().text, error.retry), ("Hello", RetryAdvice::Backoff));
    let whole = json!({"type": "error", "error": {"type": "api_error", "message": "Oh"}, "request_id": "r"});
    assert_eq!(wire().end(whole.to_string()).unwrap_err().kind, FailureKind::ServerError);
}

// wire WA15, L8
#[test]
fn a_stream_without_its_end_is_an_error() {
    let all = [vec![start()], text(0, &["Hello"]), vec![stop("end_turn"), over()]].concat();
    for count in 0..all.len() {
        let error = wire().end(named(&all[..count])).unwrap_err();
        let kind = if count == 0 { FailureKind::BadResponse } else { FailureKind::StreamInterrupted };
        assert_eq!(error.kind, kind, "{count} events");
    }
    let done = named(&all[..all.len() - 1]) + "data: [DONE]\n\n";
    assert_eq!(wire().end(done).unwrap_err().kind, FailureKind::StreamInterrupted);
}

// wire WA16
#[test]
fn a_turn_of_nothing_is_empty() {
    assert_eq!(end(&[], "end_turn").stop, Some(ReplyEnd::Empty));
    let reply = end(&[text(0, &["\n"])], "end_turn");
    assert_eq!((reply.stop, reply.raw), (Some(ReplyEnd::Empty), None));
    assert_eq!(whole(json!([]), "end_turn").stop, Some(ReplyEnd::Empty));
}

// wire WA17
#[test]
fn blocks_and_deltas_that_nobody_knows_go_back_in_place() {
    let future = json!({"type": "future_block", "data": {"z": 1, "a": [1.0]}, "note": "be"});
    let deltas = [
        json!({"type": "future_delta", "note": "gin", "score": 2}),
        json!({"type": "future_delta", "note": "ning", "score": 3, "nothing": null}),
    ];
    let events = [
        vec![
            json!({"type": "future_event", "x": 1}),
            start(),
            begin(9, json!("no block")),
            delta(7, json!({"type": "nowhere"})),
        ],
        text(0, &["Before."]),
        block(1, future, &deltas),
        text(2, &["After."]),
        vec![stop("end_turn"), over()],
    ];
    let reply = wire().end(named(&events.concat())).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("Before.After.", Some(ReplyEnd::EndTurn)));
    let wanted =
        json!({"type": "future_block", "data": {"z": 1, "a": [1.0]}, "note": "beginning", "score": 3});
    assert_eq!(
        raw(&reply),
        json!([{"type": "text", "text": "Before."}, wanted, {"type": "text", "text": "After."}])
    );
    assert_eq!(sent_back(&reply)[0]["content"], raw(&reply));
    // A block that is all there is, is a reply.
    assert_eq!(
        end(&[block(0, json!({"type": "future_block"}), &[])], "end_turn").stop,
        Some(ReplyEnd::EndTurn)
    );
    let compaction = json!({"type": "compaction", "content": null});
    let deltas = ["In ", "short."].map(|piece| json!({"type": "compaction_delta", "content": piece}));
    let reply = end(&[block(0, compaction, &deltas)], "compaction");
    assert_eq!(raw(&reply), json!([{"type": "compaction", "content": "In short."}]));
}

// wire WA25
#[test]
fn counts_that_are_null_stay() {
    let usage = json!({"input_tokens": null, "cache_read_input_tokens": null, "output_tokens": 7});
    let reported = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let reply =
        wire().end(named(&[vec![start()], text(0, &["Hi"]), vec![reported, over()]].concat())).unwrap();
    assert_eq!(
        (reply.usage, reply.warnings.len()),
        (Some(Usage { input: 25, output: 7, ..Usage::default() }), 0)
    );
}

// wire WA27
#[test]
fn what_the_provider_did_goes_back_verbatim() {
    let uses = r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{ "query" : "x"}}"#;
    let found =
        r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"z":1.0,"a":"é"}]}"#;
    let cites =
        r#"{"citations":[{"type":"web_search_result_location","url":"u"}],"type":"text","text":"There."}"#;
    let body = format!(
        r#"{{"id":"msg_1","type":"message","content":[{uses},{found}, {cites}],"stop_reason":"end_turn","usage":{{"input_tokens":1,"output_tokens":2}}}}"#
    );
    let reply = wire().end(&body).unwrap();
    assert_eq!((reply.tool_calls.len(), &*reply.text, reply.stop), (0, "There.", Some(ReplyEnd::EndTurn)));
    assert_eq!(reply.raw.as_ref().unwrap().json(), format!("{uses},{found},{cites}"));
    let sent = wire().turns(&[Message::user("Hi"), reply.turn(), Message::user("So?")]);
    let body = String::from_utf8(sent.codec.encode(&sent.request).unwrap().body.to_bytes().to_vec()).unwrap();
    assert!(body.contains(&format!("[{uses},{found},{cites}]")), "{body}");
    // The same in pieces.
    let cited = [
        json!({"type": "text_delta", "text": "There."}),
        json!({"type": "citations_delta", "citation": {"url": "u"}}),
        json!({"type": "citations_delta", "citation": {"url": "v"}}),
    ];
    let query = json!({"type": "input_json_delta", "partial_json": "{ \"query\" : \"x\"}"});
    let start = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let blocks = [
        block(0, start, &[query]),
        block(1, serde_json::from_str(found).unwrap(), &[]),
        block(2, json!({"type": "text", "text": "", "citations": []}), &cited),
    ];
    let reply = end(&blocks, "end_turn");
    let parts = raw(&reply);
    assert_eq!(
        (&parts[0]["input"], &parts[1]),
        (&json!({"query": "x"}), &serde_json::from_str(found).unwrap())
    );
    assert_eq!(parts[2]["citations"], json!([{"url": "u"}, {"url": "v"}]));
    // What waits for a result that will not come does not go back.
    let reply = end(&[text(0, &["Hm."]), blocks[0].clone()], "max_tokens");
    assert_eq!(reply.raw, None);
}

// wire WU03 WU04 WU17
#[test]
fn counts_are_parted_by_what_they_cost() {
    let of = |wire: &Wire, usage: Value| {
        let body = message(json!([{"type": "text", "text": "Hi"}]), "end_turn", usage);
        let reply = wire.end(body).unwrap();
        (reply.usage, reply.warnings.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let all = json!({"input_tokens": 50, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 200,
        "cache_creation": {"ephemeral_5m_input_tokens": 150, "ephemeral_1h_input_tokens": 50},
        "output_tokens": 300, "output_tokens_details": {"thinking_tokens": 120}, "service_tier": "standard"});
    let usage = |write_short, write_long| Usage {
        input: 50,
        cache_read: 1800,
        cache_write_short: write_short,
        cache_write_long: write_long,
        output: 180,
        reasoning: 120,
        estimated: false,
    };
    assert_eq!(of(&wire(), all.clone()), (Some(usage(150, 50)), vec![]));
    assert_eq!(usage(150, 50).total_input(), 2050);
    let mut unsplit = all.clone();
    unsplit.as_object_mut().unwrap().remove("cache_creation");
    assert_eq!(of(&wire(), unsplit.clone()).0, Some(usage(200, 0)));
    let long = wire().with(|request| request.cache.long = true);
    assert_eq!(of(&long, unsplit).0, Some(usage(0, 200)));
    let mut long_split = all.clone();
    long_split["cache_creation"] = json!({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 200});
    assert_eq!(of(&long, long_split).0, Some(usage(0, 200)));
    let mut odd = all;
    odd["output_tokens_details"]["thinking_tokens"] = json!(500);
    assert_eq!(of(&wire(), odd).1, ["usage_inconsistent"]);
    assert_eq!(of(&wire(), json!({"input_tokens": 5})), (None, vec!["usage_unusable".into()]));
    assert_eq!(of(&wire(), json!({})), (None, vec![]));
}

// wire WX02 WX12
#[test]
fn a_turn_with_fields_that_nobody_knows_goes_back_the_same() {
    let content = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "s", "future": {"b": 1, "a": 2}},
        {"type": "text", "text": "So.", "citations": null},
        {"type": "tool_use", "id": "a", "name": "weather", "input": {"x": 1}, "caller": {"type": "code", "tool_id": "t"}},
    ]);
    let reply = whole(content.clone(), "tool_use");
    assert_eq!(sent_back(&reply)[0]["content"], content);
    let written = serde_json::to_string(&reply).unwrap();
    assert_eq!(serde_json::from_str::<ModelReply>(&written).unwrap(), reply);
    // Of a call that only says who calls, and a text that only says that it cites nothing, there is nothing to keep.
    let plain = json!([{"type": "text", "text": "So.", "citations": []}, {"type": "tool_use", "id": "a", "name": "weather", "input": {}, "caller": {"type": "direct"}}]);
    assert_eq!(whole(plain, "tool_use").raw, None);
    // The order of texts and calls is what a list of texts and one of calls does not say.
    let mixed = json!([{"type": "tool_use", "id": "a", "name": "weather", "input": {}}, {"type": "text", "text": "So."}]);
    assert_eq!(sent_back(&whole(mixed.clone(), "tool_use"))[0]["content"], mixed);
}

// wire WA22: texts of blanks alone are refused when they come back.
#[test]
fn blank_texts_do_not_go_back() {
    let content = json!([
        {"type": "text", "text": "\n\n"},
        {"type": "thinking", "thinking": "4", "signature": "s"},
        {"type": "text", "text": "It is 4."},
    ]);
    let reply = whole(content, "end_turn");
    assert_eq!((&*reply.text, raw(&reply).as_array().unwrap().len()), ("\n\nIt is 4.", 2));
    let blocks = [text(0, &["\n", "\n"]), thinking(1, &["4"], "s"), text(2, &["\n", "It is 4."])];
    assert_eq!(raw(&end(&blocks, "end_turn"))[0]["type"], "thinking");
}

#[test]
fn what_was_damaged_on_its_way_does_not_go_back() {
    let body = events(&[thinking(0, &["It is X."], "s"), text(1, &["So."])], "end_turn");
    let (before, after) = body.split_once('X').unwrap();
    let damaged = [before.as_bytes(), b"\xff", after.as_bytes()].concat();
    let reply = wire().end(damaged).unwrap();
    assert_eq!((&*reply.text, reply.raw), ("So.", None));
    assert_eq!(*reply.warnings, ["invalid_utf8".into()]);
}

// Issue 43, R17
#[test]
fn arguments_under_the_index_of_a_block_that_has_ended_are_those_of_the_open_one() {
    let [begins, piece, ends] =
        [0, 1, 2].map(|at| tool(1, "b", &["{\"only\":\"drafts\"}"]).get(at).unwrap().clone());
    let mut moved = piece;
    moved["index"] = json!(0);
    let body = events(&[tool(0, "a", &["{\"q\":\"x\"}"]), vec![begins, moved, ends]], "tool_use");
    let reply = wire().end(body).unwrap();
    assert_eq!(
        calls(&reply),
        vec![("a", "weather", "{\"q\":\"x\"}"), ("b", "weather", "{\"only\":\"drafts\"}")]
    );
}

// Issue 43, R17
#[test]
fn a_call_that_begins_again_with_each_piece_is_one() {
    let call = tool(0, "a", &["{\"city\":", "\"Oslo\"}"]);
    let again = |id: &str| tool(0, id, &[]).swap_remove(0);
    let pieces = vec![
        call[0].clone(),
        again("a2"),
        call[1].clone(),
        again("a3"),
        call[2].clone(),
        again("a4"),
        call[3].clone(),
    ];
    let reply = end(&[pieces, tool(1, "b", &["{}"])], "tool_use");
    assert_eq!(calls(&reply), [("a", "weather", "{\"city\":\"Oslo\"}"), ("b", "weather", "{}")]);
    // Whole calls under one index are several, though none was ended.
    let whole = |id: &str| tool(0, id, &["{}"])[..2].to_vec();
    let reply = end(&[whole("a"), whole("b")], "tool_use");
    assert_eq!(calls(&reply), [("a", "weather", "{}"), ("b", "weather", "{}")]);
}

// Whatever keeps a turn from going back, its calls keep their arguments.
#[test]
fn calls_have_their_arguments_where_nothing_is_kept() {
    let call =
        |index: u64| [tool(index, "a", &["{\"city\":", "\"Oslo\"}"]), tool(index + 1, "b", &["{}"])].concat();
    let wanted = vec![("a", "weather", "{\"city\":\"Oslo\"}"), ("b", "weather", "{}")];
    // A byte of an earlier text that is no UTF-8.
    let body = events(&[text(0, &["It is X."]), thinking(1, &["Hm."], "s"), call(2)], "tool_use");
    let (before, after) = body.split_once('X').unwrap();
    let reply = wire().end([before.as_bytes(), b"\xff", after.as_bytes()].concat()).unwrap();
    assert_eq!((calls(&reply), &reply.raw), (wanted.clone(), &None));
    // The text goes on after it, under its own index and under that of another block.
    let late = vec![delta(0, json!({"type": "text_delta", "text": " So."})), close(0)];
    let body = events(&[text(0, &["It is X."]), text(2, &["?"]), call(2), late, text(3, &["!"])], "tool_use");
    let (before, after) = body.split_once('X').unwrap();
    let reply = wire().end([before.as_bytes(), b"\xff", after.as_bytes()].concat()).unwrap();
    assert_eq!((calls(&reply), &*reply.text), (wanted.clone(), "It is \u{fffd}.? So.!"));
    // The input comes with the block itself.
    let early =
        begin(1, json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}}));
    for rest in [vec![early.clone(), close(1)], vec![early]] {
        let body = events(&[text(0, &["It is X."]), rest], "tool_use");
        let (before, after) = body.split_once('X').unwrap();
        let reply = wire().end([before.as_bytes(), b"\xff", after.as_bytes()].concat()).unwrap();
        assert_eq!(calls(&reply), wanted[..1]);
    }
    // More blocks than are kept.
    let blocks: Vec<Value> = (0..4_097).map(|n| begin(n, json!({"type": "thinking"}))).collect();
    let reply = wire().end(events(&[blocks[..4_090].to_vec(), call(4_090)], "tool_use")).unwrap();
    assert_eq!((calls(&reply), reply.raw.is_some()), (wanted.clone(), false), "none is signed");
    let reply = end(&[blocks, call(4_097)], "tool_use");
    assert_eq!((calls(&reply), &reply.raw), (wanted.clone(), &None));
    // More bytes than are kept.
    let large = "x".repeat(6 << 20);
    let body = events(&[thinking(0, &["Hm."], "s"), text(1, &[&large, &large, &large]), call(2)], "tool_use");
    for size in [body.len(), 100_003] {
        let granted = wire().with(|request| request.max_output_tokens = Some(10_000_000));
        let items = granted.decode(&body.as_bytes().chunks(size).collect::<Vec<_>>());
        let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { panic!("no end") };
        assert_eq!((calls(reply), &reply.raw, reply.text.len()), (wanted.clone(), &None, 18 << 20));
    }
}

#[test]
fn pieces_belong_to_the_latest_block_of_their_index() {
    let uses = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let query = json!({"type": "input_json_delta", "partial_json": "{\"query\":\"Oslo\"}"});
    let body = [tool(0, "a", &["{}"]), block(0, uses, &[query]), block(1, found, &[])];
    let reply = end(&body, "tool_use");
    assert_eq!(calls(&reply), [("a", "weather", "{}")]);
    assert_eq!(raw(&reply)[1]["input"], json!({"query": "Oslo"}));
}

#[test]
fn an_input_that_is_damaged_is_not_run() {
    let early = begin(0, json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "X"}}));
    for call in [vec![early, close(0)], tool(0, "a", &["{\"city\":", "\"X\"}"])] {
        let body = events(&[call], "tool_use");
        let (before, after) = body.split_once('X').unwrap();
        let error = wire().end([before.as_bytes(), b"\xff", after.as_bytes()].concat()).unwrap_err();
        assert_eq!(error.kind, FailureKind::BadResponse);
    }
}

#[test]
fn a_block_with_absurdly_many_members_does_not_go_back() {
    // Minutes, if each member were looked for among all that came.
    let members = |n: usize| -> Value {
        let keys = (0..10_000).map(|key| (format!("key{n}_{key}"), json!(1)));
        Value::Object(keys.chain([("type".to_owned(), json!("future_delta"))]).collect())
    };
    let deltas: Vec<Value> = (0..20).map(members).collect();
    let wide = [
        vec![begin(0, json!({"type": "future_block"}))],
        deltas.into_iter().map(|it| delta(0, it)).collect(),
    ];
    let body = events(&[wide.concat(), tool(1, "a", &["{\"n\":", "1}"])], "tool_use");
    let items = wire().decode(&body.as_bytes().chunks(100_003).collect::<Vec<_>>());
    let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { panic!("no end") };
    assert_eq!((calls(reply), &reply.raw), (vec![("a", "weather", "{\"n\":1}")], &None));
}

// wire WX09
#[test]
fn arguments_keep_their_text() {
    let odd = r#"{"n": 1.0, "big": 12345678901234567890123, "a": 1, "a": 2, "s": "\ud83d\ude00"}"#;
    let body = format!(
        r#"{{"content":[{{"type":"tool_use","id":"a","name":"weather","input":{odd}}}],"stop_reason":"tool_use"}}"#
    );
    let reply = wire().end(&body).unwrap();
    assert_eq!(calls(&reply), [("a", "weather", odd)]);
    let pieces: Vec<&str> = odd.split_inclusive(',').collect();
    assert_eq!(calls(&end(&[tool(0, "a", &pieces)], "tool_use")), [("a", "weather", odd)]);
    // With `thinking` before it the call goes back in the turn's own form.
    let reply = end(&[thinking(0, &[], "s"), tool(1, "a", &pieces)], "tool_use");
    assert!(reply.raw.as_ref().unwrap().json().contains(odd));
    // Arguments that are no object are answered, and go back as one.
    let reply = end(&[thinking(0, &[], "s"), tool(1, "a", &["{\"city\": \"Os"])], "tool_use");
    assert!(reply.tool_calls[0].arguments.object().is_err());
    assert_eq!(raw(&reply)[1]["input"], json!({"unreadable_arguments": "{\"city\": \"Os"}));
}

// wire WX10
#[test]
fn two_ends_are_one() {
    let mut events =
        [vec![start()], text(0, &["Hi"]), vec![stop("end_turn"), stop("max_tokens"), over()]].concat();
    events.extend([text(0, &["More"]), vec![stop("end_turn"), over()]].concat());
    let reply = wire().end(named(&events)).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("Hi", Some(ReplyEnd::EndTurn)));
    assert_eq!(*reply.warnings, ["second_finish_reason".into()]);
}

// wire A6.9: everything but the end may be missing.
#[test]
fn servers_that_say_less() {
    let wire = compatible();
    let events = [
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        delta(1, json!({"type": "text_delta", "text": "So."})),
        begin(2, json!({"type": "tool_use", "id": "call.a/1", "name": "weather", "input": {"city": "Oslo"}})),
        over(),
    ];
    let reply = wire.end(named(&events)).unwrap();
    assert_eq!((&*reply.reasoning, &*reply.text, reply.usage), ("Hm.", "So.", None));
    assert_eq!(calls(&reply), [("call.a/1", "weather", "{\"city\":\"Oslo\"}")]);
    assert_eq!(*reply.warnings, ["no_finish_reason".into()]);
    // Thinking goes back without a signature, since there is none; ids as they are taken.
    let parts = raw(&reply);
    assert_eq!(parts[0], json!({"type": "thinking", "thinking": "Hm."}));
    let id = parts[2]["id"].as_str().unwrap();
    assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    let turns =
        [Message::user("Hi"), reply.turn(), Message::Tool { results: vec![result("call.a/1", false, "3")] }];
    let body = wire.turns(&turns).sent();
    assert_eq!(
        (&body["messages"][1]["content"], &body["messages"][2]["content"][0]["tool_use_id"]),
        (&parts, &json!(id))
    );
    // Anthropic itself refuses thinking without a signature.
    assert_eq!(unsigned_reply().raw, None);
    // Events without names, ids that are missing, and usage at the end alone.
    let usage = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"input_tokens": 3, "output_tokens": 4}});
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 0}}}),
        begin(0, json!({"type": "tool_use", "name": "weather"})),
        delta(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
        usage,
        over(),
    ];
    let reply = wire.stream(&events).unwrap();
    assert_eq!(
        (calls(&reply), reply.usage),
        (vec![("call_1", "weather", "{}")], Some(Usage { input: 3, output: 4, ..Usage::default() }))
    );
}

fn unsigned_reply() -> ModelReply {
    let unsigned = block(0, json!({"type": "thinking", "thinking": "Hm."}), &[]);
    end(&[unsigned, text(1, &["So."])], "end_turn")
}

#[test]
fn secrets_come_out_nowhere() {
    let key = "sk-ant-0123456789abcdef";
    let wire = Wire { secrets: Secrets::of([key]), ..wire() };
    let blocks = [
        thinking(0, &["The key is sk-ant-01", "23456789abcdef."], "s"),
        text(1, &["It is sk-ant-0123456", "789abcdef."]),
        tool(2, "a", &["{\"city\":\"sk-ant-01234", "56789abcdef\"}"]),
    ];
    let items = wire.items(events(&blocks, "tool_use").as_bytes());
    assert!(!format!("{items:?}").contains("0123456789abcdef"));
    let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { panic!("{items:?}") };
    assert!(reply.raw.as_ref().unwrap().json().contains("[masked]"));
}

#[test]
fn pages_and_nothing_are_no_replies() {
    let kind = |body: &str| -> LlmError { wire().end(body).unwrap_err() };
    for body in ["<html>busy</html>", "null", "[]", "{}", "data: {broken\n\n", "  "] {
        assert_eq!(kind(body).kind, FailureKind::BadResponse, "{body}");
    }
    assert_eq!(kind("data: {}\n\n").kind, FailureKind::StreamInterrupted);
}

// X3, X4
#[test]
fn a_body_that_is_whole_is_complete_and_a_call_that_names_no_tool_is_left_out() {
    let say = |blocks: Value, stop: Value| json!({"type": "message", "role": "assistant", "content": blocks, "stop_reason": stop});
    let call = |name: &str, id: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {"q": 1}});
    let reply = wire()
        .end(say(json!([{"type": "text", "text": "Hi"}, call("find", "a")]), Value::Null).to_string())
        .unwrap();
    assert_eq!(
        (&*reply.text, calls(&reply), reply.stop),
        ("Hi", vec![("a", "find", "{\"q\":1}")], Some(ReplyEnd::ToolUse))
    );
    assert_eq!(*reply.warnings, ["no_finish_reason".into()]);
    let reply = wire()
        .end(say(json!([{"type": "text", "text": "Hi"}, call("", "a")]), json!("end_turn")).to_string())
        .unwrap();
    assert_eq!((&*reply.text, reply.tool_calls.len(), reply.stop), ("Hi", 0, Some(ReplyEnd::EndTurn)));
    assert_eq!((&*reply.warnings, &reply.raw), (&["call_without_name".into()][..], &None));
}

// T18
#[test]
fn no_call_is_kept_without_the_arguments_that_were_sent() {
    let begin = |index: u64, id: &str, name: &str| json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}});
    let piece = |index: u64, json: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let start = json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}});
    let reply =
        |events: &[Value]| wire().stream(&[std::slice::from_ref(&start), events, &end[..]].concat()).unwrap();
    for events in [
        vec![begin(0, "b", "remove"), piece(1, "{\"only\":"), piece(1, "\"drafts\"}"), stop(1), stop(0)],
        vec![begin(0, "b", "remove"), stop(0), piece(1, "{\"only\":\"drafts\"}"), stop(1)],
    ] {
        assert_eq!(calls(&reply(&events)), [("b", "remove", "{\"only\":\"drafts\"}")], "{events:?}");
    }
    let reply = reply(&[piece(3, "{\"q\":1}"), begin(0, "b", "remove"), stop(0)]);
    assert_eq!((calls(&reply), reply.stop), (vec![], Some(ReplyEnd::MalformedToolCall)));
}
