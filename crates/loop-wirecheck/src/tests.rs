//! The whole comparison over small exchanges, right and broken.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use loop_llm::{Effort, ErrorPhase, LlmError, LlmErrorKind, Message, OutputFormat, ToolChoice};
use serde_json::{Value, json};

use super::*;

#[test]
fn a_dash_is_a_name() {
    let sorted = |arguments: &[&str]| dashes_last(arguments.iter().map(OsString::from));
    assert_eq!(sorted(&["-", "--json"]), ["--json", "--", "-"]);
    assert_eq!(sorted(&["a"]), ["a"]);
}

/// A conversation of two exchanges for each protocol: a call, then its result and an answer. Written by hand.
fn conversations() -> String {
    let lines = [chat(), responses(), anthropic(), gemini()].concat();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn exchanges() -> Vec<Exchange> {
    exchange::read("t", &conversations()).unwrap()
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

fn expect(text: &str, calls: Value, finish: &str, usage: &Value) -> Value {
    json!({"text": text, "reasoning": "", "refusal": "", "tool_calls": calls, "finish": finish, "usage": usage,
        "server_tools": [], "error": null})
}

fn call(id: Option<&str>) -> Value {
    json!([{"id": id, "name": "weather", "arguments": "{\"city\":\"Oslo\"}"}])
}

fn line(id: &str, provider: &str, endpoint: &str, request: &Value, body: String, expect: &Value) -> Value {
    let is_streamed = body.starts_with("data:") || body.starts_with("event:");
    json!({"id": id, "provider": provider, "endpoint": endpoint, "status": 200, "request_json": request,
        "path": "/v1beta/models/gemini-2.5-flash:generateContent", "streaming": is_streamed,
        "response_body": body, "expect": expect, "features": ["tools"]})
}

fn events(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn chat() -> Vec<Value> {
    let tool = json!({"type": "function", "function": {"name": "weather", "description": "W", "parameters": schema()}});
    let mut request = json!({"model": "m", "stream": true, "temperature": 0.5, "max_tokens": 99, "tools": [tool],
        "messages": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": [
            {"type": "text", "text": "Weather?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}],
        "tool_choice": "required", "stop": "END"});
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
    let delta = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let body = events(&[
        delta(json!({"content": "I look."}), Value::Null),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "weather", "arguments": "{\"city\":"}}]}),
            Value::Null,
        ),
        delta(
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"Oslo\"}"}}]}),
            "tool_calls".into(),
        ),
        json!({"choices": [], "usage": usage}),
    ]);
    let first = line(
        "chat#0",
        "x",
        "openai_chat",
        &request,
        body,
        &expect("I look.", call(Some("c1")), "tool_calls", &usage),
    );
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{ \"city\": \"Oslo\" }"}}]}));
    messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": "3 degrees"}));
    request["stream"] = false.into();
    let body = json!({"choices": [{"message": {"role": "assistant", "content": "Cold."}, "finish_reason": "stop"}],
        "usage": usage});
    let second = line(
        "chat#1",
        "x",
        "openai_chat",
        &request,
        body.to_string(),
        &expect("Cold.", json!([]), "stop", &usage),
    );
    vec![first, second]
}

fn responses() -> Vec<Value> {
    let tool = json!({"type": "function", "name": "weather", "description": "W", "parameters": schema()});
    let mut request = json!({"model": "gpt-5.2", "instructions": "Be terse.", "store": false, "tools": [tool],
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}],
        "tool_choice": "required", "max_output_tokens": 99, "temperature": 0.5});
    let usage = json!({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5});
    let whole = |output: &[Value]| json!({"id": "r", "object": "response", "status": "completed", "output": output, "usage": usage});
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let requested = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather",
        "arguments": "{\"city\":\"Oslo\"}"});
    let body = whole(&[thought.clone(), requested.clone()]).to_string();
    let first = line(
        "responses#0",
        "openai",
        "openai_responses",
        &request,
        body,
        &expect("", call(Some("c1")), "completed", &usage),
    );
    let input = request["input"].as_array_mut().unwrap();
    input.extend([
        thought,
        requested,
        json!({"type": "function_call_output", "call_id": "c1", "output": "3 degrees"}),
    ]);
    let stated = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Cold."}]});
    let second = line(
        "responses#1",
        "openai",
        "openai_responses",
        &request,
        whole(&[stated]).to_string(),
        &expect("Cold.", json!([]), "completed", &usage),
    );
    vec![first, second]
}

fn anthropic() -> Vec<Value> {
    let tool = json!({"name": "weather", "description": "W", "input_schema": schema()});
    let mut request = json!({"model": "claude-sonnet-4-5", "system": "Be terse.", "max_tokens": 99, "tools": [tool],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Weather?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]}],
        "tool_choice": {"type": "any"}, "temperature": 0.5, "stop_sequences": ["END"]});
    let usage = json!({"input_tokens": 3, "output_tokens": 2});
    let whole = |content: &Value, stop: &str| {
        json!({"type": "message", "role": "assistant", "content": content,
        "stop_reason": stop, "usage": usage})
        .to_string()
    };
    let turn = json!([{"type": "thinking", "thinking": "", "signature": "EqQB"},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}]);
    let first = line(
        "anthropic#0",
        "anthropic",
        "anthropic_messages",
        &request,
        whole(&turn, "tool_use"),
        &expect("", call(Some("c1")), "tool_use", &usage),
    );
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": turn}));
    messages.push(
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": true,
        "content": "3 degrees"}]}),
    );
    let stated = json!([{"type": "text", "text": "Cold."}]);
    let second = line(
        "anthropic#1",
        "anthropic",
        "anthropic_messages",
        &request,
        whole(&stated, "end_turn"),
        &expect("Cold.", json!([]), "end_turn", &usage),
    );
    vec![first, second]
}

fn gemini() -> Vec<Value> {
    let tool = json!({"functionDeclarations": [{"name": "weather", "description": "W", "parametersJsonSchema": schema()}]});
    let mut request = json!({"systemInstruction": {"parts": [{"text": "Be terse."}]}, "tools": [tool],
        "contents": [{"role": "user", "parts": [{"text": "Weather?"},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 99, "stopSequences": ["END"]}});
    let usage = json!({"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5});
    let whole = |part: &Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": [part]},
        "finishReason": "STOP"}], "usageMetadata": usage})
        .to_string()
    };
    let part =
        json!({"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "CpQ"});
    let first = line(
        "gemini#0",
        "gemini",
        "gemini_generate",
        &request,
        whole(&part),
        &expect("", call(None), "STOP", &usage),
    );
    let contents = request["contents"].as_array_mut().unwrap();
    contents.push(json!({"role": "model", "parts": [part]}));
    contents.push(json!({"role": "user", "parts": [{"functionResponse": {"name": "weather",
        "response": {"error": "3 degrees"}}}]}));
    let second = line(
        "gemini#1",
        "gemini",
        "gemini_generate",
        &request,
        whole(&json!({"text": "Cold."})),
        &expect("Cold.", json!([]), "STOP", &usage),
    );
    vec![first, second]
}

fn reported(report: &Report) -> String {
    report.text(100).join("\n")
}

#[test]
fn what_was_recorded_as_it_is_meant_agrees_in_every_column() {
    let report = compare(&exchanges(), &[]);
    let sums = report.sums();
    assert_eq!((sums.agreed, sums.of), (8, 8), "{}", reported(&report));
    assert!(verdict(&report).is_ok());
    for column in [Column::Text, Column::Calls, Column::Stop, Column::Usage, Column::Request] {
        assert!(report.judged.iter().all(|it| it.findings.as_ref().unwrap().columns.contains_key(&column)));
    }
    let replayed =
        report.judged.iter().filter(|it| it.findings.as_ref().unwrap().columns.contains_key(&Column::Replay));
    assert_eq!(replayed.count(), 4);
}

#[test]
fn a_decoder_that_understands_nothing_shows_in_every_exchange() {
    type End = Option<Result<ModelReply, LlmError>>;
    let broken: [fn() -> End; 3] = [
        || Some(Ok(ModelReply::text("", None))),
        || Some(Err(LlmError::new(LlmErrorKind::ServerError, ErrorPhase::Stream, ""))),
        || None,
    ];
    for end in broken {
        let decode = |_: &Exchange, _: &Codec, _: &ModelRequest| Decoded { end: end(), faults: Vec::new() };
        let report = compare_with(&exchanges(), &[], &decode);
        assert_eq!(report.sums().differ, 8, "{}", reported(&report));
        assert!(matches!(verdict(&report), Err(Failure::Check(_))));
    }
}

#[test]
fn a_decoder_that_loses_one_thing_shows() {
    let faults: [fn(&mut ModelReply); 5] = [
        |reply| reply.text = reply.text.replace('.', "").into(),
        |reply| reply.tool_calls.clear(),
        |reply| reply.usage = None,
        |reply| reply.stop = Some(loop_llm::ReplyEnd::Other),
        |reply| reply.raw = None,
    ];
    for (nth, fault) in faults.into_iter().enumerate() {
        let decode = |exchange: &Exchange, codec: &Codec, request: &ModelRequest| {
            let mut decoded = decoding::decode(exchange, codec, request);
            if let Some(Ok(reply)) = &mut decoded.end {
                fault(reply);
            }
            decoded
        };
        let report = compare_with(&exchanges(), &[], &decode);
        assert!(report.sums().differ >= 3, "fault {nth}: {}", reported(&report));
    }
}

#[test]
fn a_request_that_says_less_or_other_things_shows_in_every_protocol() {
    let faults: [fn(&mut ModelRequest); 12] = [
        |request| request.system = "".into(),
        |request| request.tools = [].into(),
        |request| request.tool_choice = ToolChoice::Auto,
        |request| request.max_output_tokens = Some(98),
        |request| request.temperature = None,
        |request| request.output = OutputFormat::JsonObject,
        |request| request.effort = Some(Effort::High),
        |request| {
            request.messages.truncate(1);
        },
        |request| {
            if let Message::User { text, .. } = &mut request.messages[0] {
                *text = "Weather".into();
            }
        },
        |request| {
            if let Message::User { images, .. } = &mut request.messages[0] {
                images.clear();
            }
        },
        |request| {
            if let Message::Tool { results } = &mut request.messages[2] {
                results[0].text = "4 degrees".into();
            }
        },
        |request| {
            if let Message::Assistant(turn) = &mut request.messages[1] {
                turn.calls[0].name = "wetter".into();
                turn.raw = None;
            }
        },
    ];
    for exchange in exchanges().iter().filter(|exchange| exchange.id.ends_with("#1")) {
        let api = target::api(exchange).unwrap();
        let codec = Codec::new(target::profile(api, exchange));
        let neutral = request::read(api, &codec, exchange).unwrap();
        let compare = |neutral: &Neutral| {
            let mut lacks = BTreeSet::new();
            match request::compare(api, &codec, neutral, &mut lacks) {
                Encoded::Compared(differences) => differences.len() + lacks.len(),
                // What the encoder refuses is named among what has no place.
                Encoded::NotAtAll => lacks.len(),
            }
        };
        assert_eq!(compare(&neutral), 0);
        for (nth, fault) in faults.iter().enumerate() {
            let mut broken = neutral.clone();
            fault(&mut broken.request);
            assert!(compare(&broken) > 0, "{}: fault {nth} is not seen", exchange.id);
        }
    }
}

#[test]
fn what_has_no_place_is_named_and_not_agreed() {
    let mut all = exchanges();
    all.retain(|exchange| exchange.id == "responses#0");
    let tools = all[0].request.as_mut().unwrap()["tools"].as_array_mut().unwrap();
    tools.push(json!({"type": "web_search"}));
    let report = compare(&all, &[]);
    let sums = report.sums();
    assert_eq!((sums.agreed, sums.partly, sums.differ), (0, 1, 0), "{}", reported(&report));
    assert!(reported(&report).contains("not expressed: tool of the server: web_search: 1"));
    assert!(verdict(&report).is_ok());
}

// X10: what means the same is no difference.
#[test]
fn what_a_client_says_without_need_is_no_difference() {
    let mut all = exchanges();
    all.retain(|exchange| exchange.id.ends_with("#1"));
    for exchange in &mut all {
        let request = exchange.request.as_mut().unwrap();
        match exchange.endpoint.as_str() {
            "gemini_generate" => {
                request["tools"][0]["codeExecution"] = Value::Null;
                request["contents"][1]["parts"][0]["thought"] = false.into();
                request["contents"][0]["parts"][0]["thought"] = false.into();
            }
            "openai_chat" => {}
            _ => request["tools"][0]["defer_loading"] = false.into(),
        }
    }
    let report = compare(&all, &[]);
    assert_eq!((report.sums().agreed, report.sums().of), (4, 4), "{}", reported(&report));
    // What means something has no place, and is named.
    for exchange in &mut all {
        let tool = &mut exchange.request.as_mut().unwrap()["tools"][0];
        if tool.get("defer_loading").is_some() {
            tool["defer_loading"] = true.into();
        }
    }
    let report = compare(&all, &[]);
    assert_eq!((report.sums().agreed, report.sums().partly), (2, 2), "{}", reported(&report));
}

// X1, X10: the order of what is required says nothing, that of properties does, in tools and in the form of the text.
#[test]
fn an_encoder_that_turns_properties_around_shows() {
    let form = |names: [&str; 2]| {
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties, "required": ["answer", "reasoning"], "additionalProperties": false})
    };
    let (right, turned) = (form(["reasoning", "answer"]), form(["answer", "reasoning"]));
    for mut exchange in exchanges().into_iter().filter(|exchange| exchange.id.ends_with("#1")) {
        let request = exchange.request.as_mut().unwrap();
        match exchange.endpoint.as_str() {
            "openai_chat" => {
                request["tools"][0]["function"]["parameters"] = right.clone();
                let form = json!({"name": "f", "schema": right, "strict": true, "description": "F"});
                request["response_format"] = json!({"type": "json_schema", "json_schema": form});
            }
            "openai_responses" => {
                request["tools"][0]["parameters"] = right.clone();
                request["text"] = json!({"format": {"type": "json_schema", "name": "f", "schema": right, "strict": true,
                    "description": "F"}});
            }
            "anthropic_messages" => {
                request["tools"][0]["input_schema"] = right.clone();
                request["output_config"] = json!({"format": {"type": "json_schema", "schema": right}});
            }
            _ => {
                request["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] = right.clone();
                request["generationConfig"]["responseMimeType"] = "application/json".into();
                request["generationConfig"]["responseJsonSchema"] = right.clone();
                // The recorded one takes no form beside tools.
                exchange.path = exchange.path.replace("gemini-2.5-flash", "gemini-3-pro");
            }
        }
        let api = target::api(&exchange).unwrap();
        let codec = Codec::new(target::profile(api, &exchange));
        let neutral = request::read(api, &codec, &exchange).unwrap();
        let compare = |neutral: &Neutral| match request::compare(api, &codec, neutral, &mut BTreeSet::new()) {
            Encoded::Compared(differences) => differences,
            Encoded::NotAtAll => panic!("{}: it is not sent", exchange.id),
        };
        let differences = compare(&neutral);
        assert!(differences.is_empty(), "{}: {differences:?}", exchange.id);
        let mut broken = neutral.clone();
        let mut tools = broken.request.tools.to_vec();
        tools[0].parameters = turned.clone();
        broken.request.tools = tools.into();
        assert_eq!(compare(&broken).len(), 1, "{}: the tool", exchange.id);
        let mut broken = neutral.clone();
        if let OutputFormat::JsonSchema { schema, .. } = &mut broken.request.output {
            *schema = turned.clone();
        }
        assert_eq!(compare(&broken).len(), 1, "{}: the form", exchange.id);
    }
}

// X5: what the server said and no server is documented to take may not go back.
#[test]
fn a_turn_with_members_that_the_client_did_not_send_shows() {
    let mut all = exchanges();
    all.retain(|exchange| exchange.id.starts_with("chat"));
    let decode = |exchange: &Exchange, codec: &Codec, request: &ModelRequest| {
        let mut decoded = decoding::decode(exchange, codec, request);
        if let Some(Ok(reply)) = &mut decoded.end
            && !reply.tool_calls.is_empty()
        {
            let call = r#"{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"},"token_id":7}"#;
            let turn = format!(
                r#"{{"role":"assistant","content":"I look.","channel":"final","tool_calls":[{call}]}}"#
            );
            reply.raw = Some(loop_llm::Raw::from_text(format!("openai-chat/compatible/m\n{turn}")));
        }
        decoded
    };
    let report = compare_with(&all, &[], &decode);
    let shown = reported(&report);
    assert!(
        shown.contains("replay/0/channel") && shown.contains("replay/0/tool_calls/0/token_id"),
        "{shown}"
    );
}

#[test]
fn other_protocols_are_named_and_nothing_else_is_no_success() {
    let mut text = conversations();
    text.push_str("{\"endpoint\":\"bedrock_converse\"}\n");
    let report = compare(&exchange::read("t", &text).unwrap(), &[]);
    assert!(report.summary().starts_with("agreed 8 of 8; unsupported 1 (bedrock_converse 1)"));
    let report = compare(&exchange::read("t", "{\"endpoint\":\"bedrock_converse\"}").unwrap(), &[]);
    assert!(matches!(verdict(&report), Err(Failure::Usage(_))));
    assert!(matches!(verdict(&compare(&[], &[])), Err(Failure::Usage(_))));
    let unjudged = compare(&exchange::read("t", "{\"endpoint\":\"openai_chat\"}").unwrap(), &[]);
    assert!(matches!(verdict(&unjudged), Err(Failure::Usage(_))));
    assert_eq!(unjudged.sums().unjudged, 1);
}

#[test]
fn a_row_excuses_its_own_field_and_says_when_it_is_not_needed() {
    let mut all = exchanges();
    all[0].expect.as_mut().unwrap().text = Some("I looked.".to_owned());
    let row = |id: &str, field: &str, bytes: &str| Row {
        id: id.to_owned(),
        field: field.to_owned(),
        bytes: bytes.to_owned(),
        why: "the text was changed by hand".to_owned(),
    };
    let report = compare(&all, &[row("chat#0", "text", "I look."), row("chat#1", "text", "Cold.")]);
    let sums = report.sums();
    assert_eq!(
        (sums.agreed, sums.excepted, sums.excused, sums.differ),
        (7, 1, 1, 0),
        "{}",
        reported(&report)
    );
    assert!(report.exceptions.iter().any(|line| line == "exception not needed any more: chat#1 text"));
    let report = compare(&all, &[row("chat#0", "text", "not in it"), row("chat#0", "usage", "I look.")]);
    assert_eq!(report.sums().differ, 1);
    assert!(report.exceptions.iter().any(|line| line.starts_with("exception void")));
}
