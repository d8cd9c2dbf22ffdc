//! What the decoder of Chat Completions makes of servers that write its protocol in their own way.

use crate::{common, openai_chat_decode};

use common::{Wire, calls, sse};
use loop_core::types::FailureKind;
use loop_llm::model::ReplyEnd;
use loop_llm::{Message, ModelEvent, ModelReply, Profile};
use loop_testkit::llm::result;
use openai_chat_decode::{at, back, delta, end, fragment, stop, text};
use serde_json::{Value, json};

/// A chunk with both ways to say a text, of which the message has all so far.
fn cumulative(piece: &str, whole: &str, reason: Value) -> Value {
    let message = |content: &str| json!({"role": "assistant", "content": content});
    json!({"id": "r1", "model": "sonar", "object": "chat.completion.chunk", "choices": [
        {"index": 0, "finish_reason": reason, "message": message(whole), "delta": message(piece)}]})
}

// X2: Perplexity.
#[test]
fn a_message_that_grows_beside_the_pieces_is_not_told_again() {
    let perplexity = Wire::new("compatible", "sonar");
    let chunks = [
        cumulative("po", "po", Value::Null),
        cumulative("ng", "pong", Value::Null),
        cumulative("", "pong", json!("stop")),
    ];
    let reply = at(&perplexity, &chunks).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("pong", Some(ReplyEnd::EndTurn)));
    // Whole, it is a message beside an empty delta.
    let reply = perplexity.end(cumulative("", "pong", json!("stop")).to_string()).unwrap();
    assert_eq!(&*reply.text, "pong");
    // A message without any piece counts, in a stream too.
    let reply = at(&perplexity, &[cumulative("", "pong", json!("stop"))]).unwrap();
    assert_eq!(&*reply.text, "pong");
    // Reasoning and calls are not told twice either.
    let call =
        json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}]);
    let both = json!({"choices": [{"delta": {"reasoning_content": "Hm.", "tool_calls": call},
        "message": {"reasoning_content": "Hm.", "tool_calls": call}, "finish_reason": "tool_calls"}]});
    let reply = at(&perplexity, &[both]).unwrap();
    assert_eq!((&*reply.reasoning, calls(&reply)), ("Hm.", vec![("a", "find", "{}")]));
}

// X3: Snowflake Cortex, and OpenRouter with Novita.
#[test]
fn a_complete_reply_that_does_not_say_why_it_ended_is_complete() {
    let requested =
        || fragment(json!({"index": 0, "id": "a", "function": {"name": "find", "arguments": "{\"q\":1}"}}));
    for (server, word) in [("compatible", Value::Null), ("openrouter", json!(""))] {
        let server = Wire::new(server, "m");
        let with = |chunk: Value| {
            let mut chunk = chunk;
            chunk["choices"][0]["finish_reason"] = word.clone();
            chunk
        };
        let reported =
            |reply: &ModelReply| reply.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
        let reply = at(&server, &[with(text("Hi"))]).unwrap();
        assert_eq!(
            (&*reply.text, reply.stop, reply.raw_stop.as_deref()),
            ("Hi", Some(ReplyEnd::EndTurn), None)
        );
        assert_eq!(reported(&reply), ["no_finish_reason"]);
        let reply = at(&server, &[with(text("I look.")), with(requested())]).unwrap();
        assert_eq!((calls(&reply), reply.stop), (vec![("a", "find", "{\"q\":1}")], Some(ReplyEnd::ToolUse)));
        assert_eq!(reported(&reply), ["no_finish_reason"]);
        // The same as one body.
        let message = |message: Value| {
            json!({"choices": [{"index": 0, "message": message, "finish_reason": word}]}).to_string()
        };
        let reply = server.end(message(json!({"role": "assistant", "content": "Hi"}))).unwrap();
        assert_eq!(
            (&*reply.text, reply.stop, reported(&reply)),
            ("Hi", Some(ReplyEnd::EndTurn), vec!["no_finish_reason".to_owned()])
        );
        let call = json!({"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}});
        let reply = server.end(message(json!({"content": null, "tool_calls": [call]}))).unwrap();
        assert_eq!((calls(&reply), reply.stop), (vec![("a", "find", "{}")], Some(ReplyEnd::ToolUse)));
        // Without the word that it is over, nobody knows.
        assert_eq!(server.stream(&[with(text("Hi"))]).unwrap_err().kind, FailureKind::StreamInterrupted);
        // Nor where nothing can be shown or run, or a call is not all there.
        for chunks in [
            vec![],
            vec![with(delta(json!({"reasoning": "Hm"})))],
            vec![
                with(text("Hi")),
                with(fragment(
                    json!({"index": 0, "id": "a", "function": {"name": "find", "arguments": "{\"q\":"}}),
                )),
            ],
        ] {
            assert_eq!(at(&server, &chunks).unwrap_err().kind, FailureKind::StreamInterrupted, "{chunks:?}");
        }
    }
}

// X4
#[test]
fn a_call_that_names_no_tool_is_left_out_and_text_stays_text() {
    let nameless = |index: u64, arguments: &str| {
        fragment(json!({"index": index, "id": "x", "function": {"name": "", "arguments": arguments}}))
    };
    let find = fragment(json!({"index": 1, "id": "a", "function": {"name": "find", "arguments": "{}"}}));
    let wire = Wire::new("deepseek", "m");
    let check = |chunks: &[Value], wanted: (&str, Vec<(&str, &str, &str)>, ReplyEnd)| {
        let body = format!("{}data: [DONE]\n\n", sse(chunks));
        for item in wire.items(body.as_bytes()) {
            match item.unwrap() {
                ModelEvent::ToolCallStarted { name, .. } => assert_eq!(&*name, "find"),
                ModelEvent::ToolArgumentsDelta { nth, .. } => assert_eq!(nth, 1),
                ModelEvent::Finished(reply) => {
                    assert_eq!((&*reply.text, calls(&reply), reply.stop.unwrap()), wanted);
                    let warnings: Vec<&str> = reply.warnings.iter().map(|it| &**it).collect();
                    assert_eq!(warnings, ["call_without_name"]);
                    // It is not in the history, where nobody would answer it.
                    assert!(
                        !wire
                            .turns(
                                &[
                                    Message::user("?"),
                                    reply.turn(),
                                    Message::Tool {
                                        results: reply
                                            .tool_calls
                                            .iter()
                                            .map(|call| result(&call.id, false, "1"))
                                            .collect(),
                                    }
                                ][..2 + usize::from(!reply.tool_calls.is_empty())]
                            )
                            .sent()
                            .to_string()
                            .contains("\"x\"")
                    );
                }
                _ => {}
            }
        }
    };
    let thought = || delta(json!({"reasoning_content": "Hm."}));
    check(&[text("Hi"), nameless(0, "{}"), stop("stop")], ("Hi", vec![], ReplyEnd::EndTurn));
    check(
        &[text("Hi"), nameless(0, "{\"a\": 1}"), stop("tool_calls")],
        ("Hi", vec![], ReplyEnd::MalformedToolCall),
    );
    check(&[nameless(0, "{}"), stop("stop")], ("", vec![], ReplyEnd::MalformedToolCall));
    check(
        &[thought(), nameless(0, "{}"), find, stop("tool_calls")],
        ("", vec![("a", "find", "{}")], ReplyEnd::ToolUse),
    );
}

// X5: Groq answers members that it does not know with 400.
#[test]
fn only_members_that_a_server_takes_go_back() {
    let reported = json!({"role": "assistant", "content": "Hi", "channel": "final", "executed_tools": [{"name": "s"}],
        "padding": "xxxx", "annotations": [{"url": "u"}], "tool_calls": [{"id": "a", "type": "function", "token_id": 7,
        "function": {"name": "find", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "S"}}}]});
    let whole = json!({"choices": [{"message": reported, "finish_reason": "tool_calls"}]}).to_string();
    let piece = {
        let mut reported = reported;
        reported["tool_calls"][0]["index"] = 0.into();
        delta(reported)
    };
    let plain = json!({"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}});
    let mut signed = plain.clone();
    signed["extra_content"] = json!({"google": {"thought_signature": "S"}});
    for (name, call) in
        [("groq", &plain), ("openai-chat", &plain), ("mistral", &plain), ("compatible", &signed)]
    {
        let server = Wire::new(name, "m");
        for reply in [server.end(&whole).unwrap(), at(&server, &[piece.clone(), stop("tool_calls")]).unwrap()]
        {
            let mut sent = back(&server, &reply);
            // Mistral wants ids of nine letters.
            sent["tool_calls"][0]["id"] = "a".into();
            assert_eq!(sent, json!({"role": "assistant", "content": "Hi", "tool_calls": [call]}), "{name}");
        }
    }
    // A server of one's own may be known to take more.
    let own = Profile { members_back: ["channel".into()].into(), ..Profile::default() };
    let own = Wire::of(own, "m");
    assert_eq!(back(&own, &own.end(&whole).unwrap())["channel"], json!("final"));
}

// X9
#[test]
fn a_refusal_stays_in_the_history() {
    let no = |piece: &str| delta(json!({"refusal": piece}));
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": null, "refusal": "I will not."},
        "finish_reason": "stop"}]});
    let as_text = json!({"role": "assistant", "content": "I will not."});
    let as_refusal = json!({"role": "assistant", "content": null, "refusal": "I will not."});
    for (name, wanted) in [("openai-chat", &as_refusal), ("azure", &as_refusal), ("groq", &as_text)] {
        let server = Wire::new(name, "m");
        for reply in [
            at(&server, &[no("I will "), no("not."), stop("stop")]).unwrap(),
            server.end(whole.to_string()).unwrap(),
        ] {
            assert_eq!(&back(&server, &reply), wanted, "{name}");
        }
    }
}

#[test]
fn half_a_character_is_shown_as_one_that_is_missing_and_never_run() {
    // A server that cuts at 16 bits writes `\ud83d` alone.
    let text = r#"data: {"choices":[{"delta":{"content":"A \ud83d"},"finish_reason":"stop"}]}"#;
    let reply = end(format!("{text}\n\n").as_bytes()).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("A \u{fffd}", Some(ReplyEnd::EndTurn)));
    let call = r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"n","arguments":"{\"path\":\"x\ud83d\"}"}}]},"finish_reason":"tool_calls"}]}"#;
    assert_eq!(end(format!("{call}\n\n").as_bytes()).unwrap_err().kind, FailureKind::BadResponse);
}

#[test]
fn a_message_at_the_end_of_a_stream_repeats_no_call_and_an_empty_entry_is_none() {
    let first = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}}]}}]}"#;
    let last = r#"data: {"choices":[{"message":{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let reply = end(format!("{first}\n\n{last}\n\n").as_bytes()).unwrap();
    assert_eq!(reply.tool_calls.len(), 1, "{:?}", reply.tool_calls);
    let empty = r#"{"choices":[{"message":{"content":"hello","tool_calls":[{"id":"","type":"function","function":{"name":"","arguments":""}}]},"finish_reason":"stop"}]}"#;
    let reply = end(empty.as_bytes()).unwrap();
    assert_eq!((reply.tool_calls.len(), reply.stop), (0, Some(ReplyEnd::EndTurn)));
    let reported = r#"{"id":"r","choices":[],"usage":{"prompt_tokens":3000,"completion_tokens":400}}"#;
    let error = end(reported.as_bytes()).unwrap_err();
    assert_eq!(error.partial.unwrap().usage.unwrap().output, 400);
}

// T18
#[test]
fn no_call_is_kept_without_the_arguments_that_were_sent() {
    let head = |index: u64, id: &str, name: &str, arguments: Value| {
        fragment(json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}}))
    };
    let tail =
        |index: u64, arguments: &str| fragment(json!({"index": index, "function": {"arguments": arguments}}));
    let wire = Wire::new("compatible", "m");
    let (look, remove) = (("a", "look", "{\"q\":\"x\"}"), ("b", "remove", "{\"only\":\"drafts\"}"));
    for chunks in [
        // The arguments of the second call come under an index of their own, whole or in pieces.
        vec![
            head(0, "a", "look", json!("")),
            tail(0, look.2),
            head(0, "b", "remove", json!("")),
            tail(1, remove.2),
        ],
        vec![
            head(0, "a", "look", json!("")),
            tail(0, look.2),
            head(0, "b", "remove", json!("{}")),
            tail(1, &remove.2[..4]),
            tail(1, &remove.2[4..]),
        ],
        // An id that changes with each piece of a call.
        vec![
            head(0, "a", "look", json!("{\"q\"")),
            head(0, "a2", "", json!(":\"x\"")),
            head(0, "a3", "", json!("}")),
            head(1, "b", "remove", json!(remove.2)),
        ],
        vec![
            head(0, "a", "look", Value::Null),
            head(0, "a2", "", json!(look.2)),
            head(1, "b", "remove", json!("")),
            fragment(json!({"index": 1, "id": "b2", "function": {"name": null, "arguments": remove.2}})),
        ],
        // An id that changes with each piece, beside the name again.
        vec![
            head(0, "a", "look", json!("")),
            head(0, "a2", "look", json!("{\"q\":")),
            head(0, "a3", "look", json!("\"x\"}")),
            head(0, "a4", "look", json!("")),
            head(1, "b", "remove", Value::Null),
            head(1, "b2", "remove", json!(remove.2)),
        ],
        // The same by turns.
        vec![
            head(0, "a", "look", json!("")),
            head(1, "b", "remove", json!("")),
            head(0, "a2", "look", json!("{\"q\":")),
            head(1, "b2", "remove", json!(remove.2)),
            head(0, "a3", "look", json!("\"x\"}")),
        ],
        // Interleaved, before the name, with the name in each piece, and as an object.
        vec![
            head(0, "a", "look", json!("")),
            head(1, "b", "remove", json!("")),
            tail(0, look.2),
            tail(1, remove.2),
        ],
        vec![
            tail(0, look.2),
            head(0, "a", "look", json!("")),
            head(1, "b", "remove", json!({"only": "drafts"})),
        ],
        vec![
            head(0, "a", "look", json!("{\"q\":")),
            head(0, "a", "look", json!("\"x\"}")),
            head(1, "b", "remove", json!(remove.2)),
        ],
    ] {
        let reply = at(&wire, &[&chunks[..], &[stop("tool_calls")]].concat()).unwrap();
        assert_eq!((calls(&reply), reply.stop), (vec![look, remove], Some(ReplyEnd::ToolUse)), "{chunks:?}");
    }
    // Whole calls under one index are several, and so are calls of one tool whose pieces have no index.
    let again = ("b", "look", "{\"q\":\"y\"}");
    let loose = |id: &str, arguments: &str| {
        fragment(json!({"id": id, "function": {"name": "look", "arguments": arguments}}))
    };
    for chunks in [
        vec![head(0, "a", "look", json!(look.2)), head(0, "b", "look", json!(again.2))],
        vec![loose("a", ""), loose("b", ""), loose("a", look.2), loose("b", again.2)],
    ] {
        let reply = at(&wire, &[&chunks[..], &[stop("tool_calls")]].concat()).unwrap();
        assert_eq!(calls(&reply), [look, again], "{chunks:?}");
    }
    // Whose arguments they are cannot be told, so no call is kept.
    for chunks in [
        vec![head(0, "a", "look", json!(look.2)), tail(1, remove.2), head(2, "b", "remove", json!(""))],
        vec![head(0, "a", "look", json!("")), head(1, "b", "remove", json!(remove.2)), tail(2, look.2)],
    ] {
        let reply = at(&wire, &[&chunks[..], &[stop("tool_calls")]].concat()).unwrap();
        assert_eq!((calls(&reply), reply.stop), (vec![], Some(ReplyEnd::MalformedToolCall)), "{chunks:?}");
    }
    // A whole body. A call that takes no arguments is one.
    let whole = |list: Value| {
        let message = json!({"role": "assistant", "content": null, "tool_calls": list});
        wire.end(
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string(),
        )
        .unwrap()
    };
    let named = |arguments: Value| json!({"id": "b", "function": {"name": "remove", "arguments": arguments}});
    for list in [
        json!([named(json!("")), {"function": {"arguments": remove.2}}]),
        json!([named(json!({"only": "drafts"}))]),
    ] {
        assert_eq!(calls(&whole(list)), [remove]);
    }
    for arguments in [json!(""), json!("{}"), json!({}), Value::Null] {
        assert_eq!(whole(json!([named(arguments)])).stop, Some(ReplyEnd::ToolUse));
    }
}
