//! What the decoder of Chat Completions makes of replies, however their bytes are cut.

use crate::common::{Item, Wire, calls, sse};
use loop_core::reply::FinishReason;
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, PicoUsd, Usage};
use loop_llm::{
    LlmError, Message, ModelEvent, ModelReply, Profile, codec::Decoder, error::RetryAdvice, model::ReplyEnd,
};
use loop_testkit::llm::result;
use proptest::prelude::*;
use serde_json::{Value, json};

fn chat() -> Wire {
    Wire::new("openai-chat", "gpt-4o")
}

fn decoder() -> Decoder {
    let wire = chat();
    wire.codec.decoder(&wire.request, wire.aliases, wire.secrets)
}

/// A decoder of a call that was granted more than any model writes.
pub(crate) fn granted_much() -> Decoder {
    let wire = chat().with(|request| request.max_output_tokens = Some(10_000_000));
    wire.codec.decoder(&wire.request, wire.aliases, wire.secrets)
}

pub(crate) fn decode(pieces: &[&[u8]]) -> Vec<Item> {
    chat().decode(pieces)
}

#[track_caller]
pub(crate) fn end(body: &[u8]) -> Result<ModelReply, LlmError> {
    chat().end(body)
}

pub(crate) fn delta(delta: Value) -> Value {
    json!({"id": "r1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null})
}

pub(crate) fn text(text: &str) -> Value {
    delta(json!({"content": text}))
}

pub(crate) fn fragment(call: Value) -> Value {
    delta(json!({"tool_calls": [call]}))
}

pub(crate) fn stop(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn usage(usage: Value) -> Value {
    json!({"choices": [], "usage": usage})
}

/// The end of a stream of these chunks and `[DONE]`.
#[track_caller]
fn stream(chunks: &[Value]) -> Result<ModelReply, LlmError> {
    at(&chat(), chunks)
}

/// The same from another server.
#[track_caller]
pub(crate) fn at(wire: &Wire, chunks: &[Value]) -> Result<ModelReply, LlmError> {
    wire.end(format!("{}data: [DONE]\n\n", sse(chunks)))
}

#[track_caller]
fn is_object(reply: &ModelReply, nth: usize) -> bool {
    reply.tool_calls[nth].arguments.object().is_ok()
}

// wire WC01
#[test]
fn text_in_pieces_with_usage() {
    let counts = json!({"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10});
    let chunks = [
        delta(json!({"role": "assistant", "content": ""})),
        text("Hel"),
        text("lo"),
        stop("stop"),
        usage(counts),
    ];
    let reply = stream(&chunks).unwrap();
    assert_eq!(
        (&*reply.text, reply.finish, reply.stop),
        ("Hello", FinishReason::EndTurn, Some(ReplyEnd::EndTurn))
    );
    assert_eq!(reply.usage, Some(Usage { input: 8, output: 2, ..Usage::default() }));
    assert_eq!((reply.served_model.as_deref(), reply.reply.as_deref()), (Some("m"), Some("r1")));
    assert!(reply.warnings.is_empty());
}

// wire WC02 WC04
#[test]
fn a_call_in_fragments_after_text() {
    let chunks = [
        text("Let me look."),
        fragment(
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "find", "arguments": ""}}),
        ),
        fragment(json!({"index": 0, "function": {"arguments": "{\"q\":"}})),
        fragment(json!({"index": 0, "function": {"arguments": "\"é\""}})),
        fragment(json!({"index": 0, "function": {"arguments": "}"}})),
        stop("tool_calls"),
    ];
    let reply = stream(&chunks).unwrap();
    assert_eq!((&*reply.text, reply.finish), ("Let me look.", FinishReason::ToolUse));
    assert_eq!(calls(&reply), [("a", "find", "{\"q\":\"é\"}")]);
    assert!(is_object(&reply, 0));
}

// wire WC03
#[test]
fn interleaved_calls_are_not_mixed() {
    let begin = |index, id, name| {
        fragment(json!({"index": index, "id": id, "function": {"name": name, "arguments": ""}}))
    };
    let more = |index, piece| fragment(json!({"index": index, "function": {"arguments": piece}}));
    let chunks = [
        begin(1, "b", "two"),
        begin(0, "a", "one"),
        more(0, "{\"n\""),
        more(1, "{\"n\""),
        more(0, ":1}"),
        more(1, ":2}"),
        stop("tool_calls"),
    ];
    assert_eq!(calls(&stream(&chunks).unwrap()), [("a", "one", "{\"n\":1}"), ("b", "two", "{\"n\":2}")]);
}

fn one_call(arguments: &str, reason: &str) -> Result<ModelReply, LlmError> {
    stream(&[
        fragment(json!({"index": 0, "id": "a", "function": {"name": "find", "arguments": arguments}})),
        stop(reason),
    ])
}

// wire WC05
#[test]
fn calls_decide_and_not_the_word_for_the_end() {
    let reply = one_call("{}", "stop").unwrap();
    assert_eq!((reply.finish, reply.raw_stop.as_deref()), (FinishReason::ToolUse, Some("stop")));
}

// wire WC06 WC07 WC08
#[test]
fn arguments_are_an_object_or_invalid() {
    let reply = one_call("", "tool_calls").unwrap();
    assert!(is_object(&reply, 0) && reply.tool_calls[0].arguments.text().is_empty());
    for wrong in ["{\"a\":1", "[1]", "null", "{} {}"] {
        let reply = one_call(wrong, "tool_calls").unwrap();
        assert!(!is_object(&reply, 0), "{wrong}");
        assert_eq!(reply.finish, FinishReason::ToolUse);
    }
}

// wire WC09
#[test]
fn a_call_that_was_cut_off_is_dropped() {
    let reply = one_call("{\"a\":1}", "length").unwrap();
    assert_eq!((reply.finish, reply.stop), (FinishReason::MaxTokens, Some(ReplyEnd::MaxTokens)));
    assert!(reply.tool_calls.is_empty());
    assert_eq!(*reply.warnings, ["dropped_partial_calls".into()]);
}

// wire WC10
#[test]
fn a_filter_keeps_what_came() {
    let reply = stream(&[text("So far"), stop("content_filter")]).unwrap();
    assert_eq!(
        (&*reply.text, reply.finish, reply.stop),
        ("So far", FinishReason::Filtered, Some(ReplyEnd::ContentFilter))
    );
}

// wire WC11
#[test]
fn a_refusal_is_not_lost() {
    let no = |piece: &str| delta(json!({"refusal": piece}));
    let reply = stream(&[no("I will "), no("not."), stop("stop")]).unwrap();
    assert_eq!(
        (reply.finish, reply.refusal.as_deref(), &*reply.text),
        (FinishReason::Refusal, Some("I will not."), "")
    );
    assert_eq!(&**reply.shown(), "I will not.");
    let reply = stream(&[text("Hm."), no("No."), stop("stop")]).unwrap();
    assert_eq!((reply.refusal.as_deref(), &*reply.text), (Some("No."), "Hm."));
}

// wire WC12 WC15
#[test]
fn neither_usage_nor_done_must_come() {
    let reply = end(sse(&[text("Hi"), stop("stop")]).as_bytes()).unwrap();
    assert_eq!((reply.usage, reply.cost, reply.stop), (None, None, Some(ReplyEnd::EndTurn)));
}

// wire WC13 WC14
#[test]
fn an_end_that_is_not_said_is_an_error() {
    for body in [sse(&[text("Hi")]), ": ping\n\n".into(), "data: [DONE]\n\n".into()] {
        assert_eq!(end(body.as_bytes()).unwrap_err().kind, FailureKind::StreamInterrupted, "{body}");
    }
}

// wire WC16 WQ38 WQ02
#[test]
fn unknown_members_and_nulls_are_ignored() {
    let odd = [
        json!({"choices": null, "new": 1}),
        json!({"id": "r1", "model": "", "choices": [], "prompt_filter_results": []}),
        json!({"choices": [{"index": 0, "delta": null, "logprobs": {}, "content_filter_offsets": {}}]}),
        delta(json!({"content": null, "tool_calls": null, "future": [1], "role": 7})),
        json!({"obfuscation": "x", "model": "m", "choices": [{"delta": {"content": "Hi"}, "finish_reason": ""}]}),
        json!({"choices": [{"index": 1, "delta": {"content": "another choice"}, "finish_reason": "length"}]}),
        stop("stop"),
    ];
    let reply = stream(&odd).unwrap();
    // What nobody knows does not go back: the server may refuse it.
    assert_eq!(reply.raw, None);
    assert_eq!(reply, stream(&[delta(json!({})), text("Hi"), stop("stop")]).unwrap());
}

// wire WC17 WQ39 WQ16
#[test]
fn a_whole_reply_in_place_of_a_stream() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let body = json!({"id": "r1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    for body in [body.to_string(), format!("\n\n \r\n{body}\n"), format!("\u{feff}{body:#}")] {
        let reply = end(body.as_bytes()).unwrap();
        assert_eq!(
            (reply.finish, &*reply.text, calls(&reply)),
            (FinishReason::ToolUse, "", vec![("a", "find", "{}")])
        );
    }
}

// wire WC18
#[test]
fn an_empty_reply_is_marked() {
    let reply = stream(&[text(""), stop("stop")]).unwrap();
    assert_eq!((reply.finish, reply.stop), (FinishReason::Other, Some(ReplyEnd::Empty)));
    assert_eq!(stream(&[text(" \n"), stop("stop")]).unwrap().stop, Some(ReplyEnd::Empty));
}

// wire WC19 WQ12 WQ27
#[test]
fn other_words_for_the_end() {
    let ended = |word| stream(&[text("Hi"), stop(word)]).unwrap();
    assert_eq!(
        (ended("weird").stop, ended("weird").raw_stop.as_deref()),
        (Some(ReplyEnd::Other), Some("weird"))
    );
    assert_eq!(ended("model_length").stop, Some(ReplyEnd::ContextWindow));
    assert_eq!(ended("tool_calls").stop, Some(ReplyEnd::MalformedToolCall));
    assert_eq!(ended("tool_calls").finish, FinishReason::Other);
}

// wire WC20 WQ29 WQ31
#[test]
fn calls_whose_ids_collide_are_told_apart() {
    let call = |index, id, name| {
        fragment(json!({"index": index, "id": id, "function": {"name": name, "arguments": "{}"}}))
    };
    let reply = stream(&[call(0, "a", "one"), call(1, "a", "two"), stop("tool_calls")]).unwrap();
    assert_eq!(calls(&reply), [("a", "one", "{}"), ("a-2", "two", "{}")]);
    assert_eq!(*reply.warnings, ["duplicate_wire_id".into()]);
    let reply = stream(&[call(0, "a", "one"), call(0, "b", "two"), stop("stop")]).unwrap();
    assert_eq!(calls(&reply), [("a", "one", "{}"), ("b", "two", "{}")]);
    let reply = stream(&[call(0, "", "one"), stop("stop")]).unwrap();
    assert_eq!(calls(&reply), [("call_1", "one", "{}")]);
}

// wire WQ34 WQ35 WQ36 WQ37
#[test]
fn fragments_as_compatible_servers_send_them() {
    let check = |fragments: &[Value], wanted: (&str, &str, &str)| {
        let mut chunks: Vec<_> = fragments.iter().cloned().map(fragment).collect();
        chunks.push(stop("tool_calls"));
        assert_eq!(calls(&stream(&chunks).unwrap()), [wanted]);
    };
    let without_index = [
        json!({"id": "a", "function": {"name": "one", "arguments": "{\"n\":"}}),
        json!({"function": {"arguments": "1}"}}),
    ];
    check(&without_index, ("a", "one", "{\"n\":1}"));
    let late_name = [
        json!({"index": 0, "id": "a", "function": {"arguments": "{"}}),
        json!({"index": 0, "function": {"name": "one", "arguments": "}"}}),
    ];
    check(&late_name, ("a", "one", "{}"));
    check(
        &[json!({"index": 0, "id": "a", "function": {"name": "one", "arguments": {"n": 1}}})],
        ("a", "one", "{\"n\":1}"),
    );
    let repeated = json!({"index": 0, "id": "a", "function": {"name": "one", "arguments": " "}});
    check(&[repeated.clone(), repeated], ("a", "one", "  "));
}

// wire WQ09 WQ14 WQ25
#[test]
fn reasoning_is_kept_apart() {
    let chunks = [
        delta(json!({"content": null, "reasoning_content": "Hm"})),
        delta(json!({"reasoning": ", so"})),
        delta(
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "!"}]}, {"type": "text", "text": "Yes"}]}),
        ),
        stop("stop"),
    ];
    let reply = stream(&chunks).unwrap();
    assert_eq!((&*reply.reasoning, &*reply.text), ("Hm, so!", "Yes"));
}

// wire WQ01
#[test]
fn a_first_chunk_without_a_choice() {
    let first = json!({"choices": [], "id": "", "model": "", "object": "", "prompt_filter_results": [{"prompt_index": 0}]});
    let counts = json!({"prompt_tokens": 8, "completion_tokens": 2});
    let azure = Wire::new("azure", "prod-a");
    let items = azure.items(sse(std::slice::from_ref(&first)).as_bytes());
    assert!(
        matches!(&items[..], [Ok(ModelEvent::Started { reply: None, model: None }), Err(_)]),
        "{items:?}"
    );
    let reply = at(&azure, &[first, text("Hel"), text("lo"), stop("stop"), usage(counts)]).unwrap();
    assert_eq!(
        (&*reply.text, reply.stop, reply.usage.unwrap().output),
        ("Hello", Some(ReplyEnd::EndTurn), 2)
    );
    assert_eq!((reply.reply.as_deref(), reply.served_model.as_deref()), (Some("r1"), Some("m")));
}

#[test]
fn a_text_that_no_filter_saw_is_marked() {
    let mut invisible = text("Hi");
    invisible["choices"][0]["content_filter_results"] =
        json!({"error": {"code": "content_filter_error", "message": "no"}});
    let reply = stream(&[invisible, stop("stop")]).unwrap();
    assert_eq!((&*reply.text, &*reply.warnings), ("Hi", &["text_not_filtered".into()][..]));
    let mut seen = text("Hi");
    seen["choices"][0]["content_filter_results"] = json!({"hate": {"filtered": false}, "error": null});
    assert_eq!(stream(&[seen, stop("stop")]).unwrap().warnings.len(), 0);
}

/// The turn of a reply as the same server gets it back, as it is kept and as it is built anew.
#[track_caller]
pub(crate) fn back(wire: &Wire, reply: &ModelReply) -> Value {
    let mut turns = vec![Message::user("?"), reply.turn()];
    let results: Vec<_> = reply.tool_calls.iter().map(|call| result(&call.id, false, "1")).collect();
    if !results.is_empty() {
        turns.push(Message::Tool { results });
    }
    wire.turns(&turns).sent()["messages"][2].clone()
}

// wire WQ09
#[test]
fn content_in_parts_goes_back_in_parts() {
    let mistral = Wire::new("mistral", "magistral-medium");
    let thought = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let parts = json!([thought("Hm, so"), {"type": "text", "text": "Yes"}, {"type": "text", "text": "."}]);
    let whole =
        json!({"choices": [{"message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}]});
    let reply = mistral.end(whole.to_string()).unwrap();
    assert_eq!((&*reply.reasoning, &*reply.text), ("Hm, so", "Yes."));
    assert_eq!(back(&mistral, &reply), json!({"role": "assistant", "content": parts}));
    let list = |part: Value| delta(json!({"content": [part]}));
    let sent = [text(""), list(thought("Hm")), list(thought(", so")), text("Ye"), text("s."), stop("stop")];
    let reply = at(&mistral, &sent).unwrap();
    assert_eq!((&*reply.reasoning, &*reply.text), ("Hm, so", "Yes."));
    let joined = json!([thought("Hm, so"), {"type": "text", "text": "Yes."}]);
    assert_eq!(back(&mistral, &reply), json!({"role": "assistant", "content": joined}));
    let reply = at(&mistral, &[text("First"), list(thought("Hm")), stop("stop")]).unwrap();
    let joined = json!([{"type": "text", "text": "First"}, thought("Hm")]);
    assert_eq!(back(&mistral, &reply)["content"], joined);
}

// wire WQ14 WQ15
#[test]
fn reasoning_goes_back_with_calls_alone() {
    let deepseek = Wire::new("deepseek", "deepseek-reasoner");
    let call =
        json!({"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let mut last = stop("tool_calls");
    last["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4});
    let thought = |piece: &str| delta(json!({"content": null, "reasoning_content": piece}));
    let chunks = [thought("Hm"), thought("."), fragment(call.clone()), last];
    let reply = at(&deepseek, &chunks).unwrap();
    assert_eq!((&*reply.reasoning, &*reply.text, reply.tool_calls.len()), ("Hm.", "", 1));
    assert_eq!(reply.usage.unwrap().cache_read, 4);
    let turn = back(&deepseek, &reply);
    assert_eq!((&turn["reasoning_content"], &turn["tool_calls"][0]["id"]), (&json!("Hm."), &json!("a")));
    // Even when there is none.
    let reply = at(&deepseek, &[fragment(call), stop("tool_calls")]).unwrap();
    assert_eq!(back(&deepseek, &reply)["reasoning_content"], json!(""));
    // Without a call it stays behind.
    let reply = at(&deepseek, &[thought("Hm"), text("Yes."), stop("stop")]).unwrap();
    assert_eq!(back(&deepseek, &reply), json!({"role": "assistant", "content": "Yes."}));
    // So it does where nobody asked for it.
    let reply = stream(&[thought("Hm"), text("Yes."), stop("stop")]).unwrap();
    assert_eq!((&*reply.reasoning, reply.raw), ("Hm", None));
}

// wire WQ16 WQ18
#[test]
fn signs_of_life_are_no_part_of_a_reply() {
    for comment in [": keep-alive\n\n", ": OPENROUTER PROCESSING\n\n", ":\n"] {
        let body = format!("{comment}{}{comment}{}", sse(&[text("Hi")]), sse(&[stop("stop")]));
        let items = chat().items(body.as_bytes());
        assert_eq!(items.iter().filter(|item| **item == Ok(ModelEvent::KeepAlive)).count(), 2);
        assert_eq!(&*end(body.as_bytes()).unwrap().text, "Hi");
    }
}

// wire WQ21
#[test]
fn details_of_reasoning_go_back_as_they_came() {
    let openrouter = Wire::new("openrouter", "anthropic/claude-sonnet");
    let detail = |detail: Value| delta(json!({"content": "", "reasoning_details": [detail]}));
    let piece = |text: &str| json!({"type": "reasoning.text", "index": 0, "format": "f", "text": text});
    let seal = json!({"type": "reasoning.text", "index": 0, "format": "f", "signature": "S"});
    let sealed = json!({"type": "reasoning.encrypted", "index": 1, "data": "E", "id": "e1"});
    let more = json!({"type": "reasoning.encrypted", "index": 1, "data": "F", "id": "e2"});
    let sent = [piece("Hm"), piece(", so"), seal, sealed.clone(), more.clone()].map(detail);
    let chunks: Vec<Value> = sent.into_iter().chain([text("Yes."), stop("stop")]).collect();
    let reply = at(&openrouter, &chunks).unwrap();
    assert_eq!((&*reply.reasoning, &*reply.text), ("Hm, so", "Yes."));
    let text =
        json!({"type": "reasoning.text", "index": 0, "format": "f", "text": "Hm, so", "signature": "S"});
    let details = json!([text, sealed, more]);
    let wanted = json!({"role": "assistant", "content": "Yes.", "reasoning_details": details});
    assert_eq!(back(&openrouter, &reply), wanted);
    // What comes at once stays as it is.
    let details =
        json!([{"type": "reasoning.summary", "summary": "a"}, {"type": "reasoning.summary", "summary": "b"}]);
    let message =
        json!({"role": "assistant", "content": "Yes.", "reasoning": "ab", "reasoning_details": details});
    let whole = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    let reply = openrouter.end(whole.to_string()).unwrap();
    assert_eq!((&*reply.reasoning, back(&openrouter, &reply)), ("ab", message));
    // wire WX03
    let other = Wire::new("openrouter", "openai/gpt-5");
    assert_eq!(back(&other, &reply), json!({"role": "assistant", "content": "Yes."}));
}

// wire WX02
#[test]
fn members_of_calls_go_back_with_their_calls() {
    let begin = |index: u64, id: &str, signature: Value| {
        let extra = json!({"google": {"thought_signature": signature}});
        fragment(
            json!({"index": index, "id": id, "function": {"name": id, "arguments": "{}"}, "extra_content": extra}),
        )
    };
    let plain = json!({"index": 2, "id": "c", "function": {"name": "c", "arguments": "{}"}});
    let chunks = [begin(1, "b", json!("S")), fragment(plain), begin(0, "a", json!("T")), stop("tool_calls")];
    // Google's compatible surface signs calls in this way, and demands the signature back.
    let google = Wire::new("compatible", "gemini-3-pro");
    let reply = at(&google, &chunks).unwrap();
    let turn = back(&google, &reply);
    let reported: Vec<_> = turn["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| {
            (call["id"].as_str().unwrap(), call["extra_content"]["google"]["thought_signature"].as_str())
        })
        .collect();
    assert_eq!(reported, [("a", Some("T")), ("b", Some("S")), ("c", None)]);
    let mut cut = chunks.to_vec();
    cut[3] = stop("length");
    assert_eq!(at(&google, &cut).unwrap().raw, None);
}

// wire WQ30
#[test]
fn a_prompt_that_was_cut_off_without_a_word_is_suspected() {
    let counted = |profile: &str, tokens: u64| {
        let wire = Wire::new(profile, "m")
            .with(|request| request.messages = vec![Message::user("word ".repeat(8_000))]);
        let counts = json!({"prompt_tokens": tokens, "completion_tokens": 1});
        at(&wire, &[text("Hi"), stop("stop"), usage(counts)]).unwrap().warnings
    };
    let warnings = counted("ollama", 4_096);
    let says = "context_truncated_suspected: the server read 4096 tokens of a prompt of 40006 bytes";
    assert!(warnings.len() == 1 && warnings[0].starts_with(says), "{warnings:?}");
    // It refuses a prompt that is too long.
    assert_eq!(counted("ollama", 8_000).len() + counted("vllm", 4_096).len(), 0);
    assert_eq!(*counted("ollama", 0), ["usage_empty".into()]);
    // The same by each protocol that such a server speaks.
    let tokens = 4_096;
    for (api, body) in [
        (
            "openai-responses",
            json!({"id": "r", "object": "response", "status": "completed", "model": "m",
                "usage": {"input_tokens": tokens, "output_tokens": 1}, "output": [{"type": "message",
                "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}]}),
        ),
        (
            "anthropic",
            json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "Hi"}],
                "usage": {"input_tokens": 96, "cache_read_input_tokens": tokens - 96, "output_tokens": 1}}),
        ),
        (
            "gemini",
            json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 1}}),
        ),
    ] {
        let profile = Profile { cuts_silently: true, ..(*Profile::named(api).unwrap()).clone() };
        let long = |profile: Profile| {
            Wire::of(profile, "m")
                .with(|request| request.messages = vec![Message::user("word ".repeat(8_000))])
        };
        let warnings = long(profile).end(body.to_string()).unwrap().warnings;
        assert!(warnings.len() == 1 && warnings[0].starts_with(says), "{api}: {warnings:?}");
        let own = long((*Profile::named(api).unwrap()).clone());
        assert_eq!(own.end(body.to_string()).unwrap().warnings.len(), 0, "{api}");
    }
}

// wire WQ40
#[test]
fn reasoning_between_tags() {
    let tags = Wire::of(Profile { think_tags: true, ..Profile::default() }, "m");
    for (sent, reasoning, visible) in [
        ("<think>a</think>b", "a", "b"),
        (" \n<think>\na < b</thi</think>\n\nb </think> <think>", "\na < b</thi", "b </think> <think>"),
        ("<thinking>", "", "<thinking>"),
        ("a<think>b", "", "a<think>b"),
        ("<think>a", "a", ""),
    ] {
        for size in [1, 3, 100] {
            let pieces = sent.as_bytes().chunks(size).map(|piece| text(std::str::from_utf8(piece).unwrap()));
            let chunks: Vec<Value> = pieces.chain([stop("stop")]).collect();
            let reply = at(&tags, &chunks).unwrap();
            assert_eq!((&*reply.reasoning, &*reply.text), (reasoning, visible), "{sent:?} by {size}");
        }
    }
    assert_eq!(&*stream(&[text("<think>a</think>b"), stop("stop")]).unwrap().text, "<think>a</think>b");
}

#[test]
fn arguments_that_come_whole_each_time_replace_what_came() {
    let whole = Wire::of(Profile { whole_arguments_each_chunk: true, ..Profile::default() }, "m");
    let piece =
        |text: &str| fragment(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": text}}));
    let chunks = [piece("{\"a\":1}"), piece("{\"a\":1}"), stop("tool_calls")];
    assert_eq!(calls(&at(&whole, &chunks).unwrap()), [("a", "f", "{\"a\":1}")]);
    let chunks = [piece("{\"a\":"), piece("1}"), stop("tool_calls")];
    assert_eq!(calls(&at(&whole, &chunks).unwrap()), [("a", "f", "{\"a\":1}")]);
}

// wire WU01 WU07 WU08 WU09 WU10 WQ05 WQ26
#[test]
fn usage_is_in_disjoint_buckets() {
    let counted = |counts: Value| stream(&[text("Hi"), stop("stop"), usage(counts)]).unwrap();
    let details = |cached: u64| {
        json!({"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 6},
            "completion_tokens_details": {"reasoning_tokens": 192}, "cost": 0.0123})
    };
    let reply = counted(details(1914));
    let wanted = Usage {
        input: 86,
        cache_read: 1914,
        cache_write_short: 6,
        output: 108,
        reasoning: 192,
        ..Usage::default()
    };
    assert_eq!((reply.usage, reply.cost), (Some(wanted), Some(PicoUsd(12_300_000_000))));
    let odd = counted(details(5_000));
    let wanted = Usage { cache_read: 2006, output: 108, reasoning: 192, ..Usage::default() };
    assert_eq!((odd.usage, &*odd.warnings), (Some(wanted), &["usage_inconsistent".into()][..]));
    let beside = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115,
        "completion_tokens_details": {"reasoning_tokens": 100}});
    let at_xai = Wire::new("xai-chat", "m");
    let xai = at(&at_xai, &[text("Hi"), stop("stop"), usage(beside)]).unwrap();
    assert_eq!(xai.usage, Some(Usage { input: 10, output: 5, reasoning: 100, ..Usage::default() }));
    assert!(xai.warnings.is_empty());
    let deepseek =
        counted(json!({"prompt_tokens": 1000, "completion_tokens": 1, "prompt_cache_hit_tokens": 900}));
    assert_eq!(deepseek.usage, Some(Usage { input: 100, cache_read: 900, output: 1, ..Usage::default() }));
    let groq = json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}});
    assert_eq!(stream(&[text("Hi"), stop("stop"), groq]).unwrap().usage.unwrap().input, 3);
    let mut growing = text("Hi");
    growing["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 1});
    let mut last = stop("stop");
    last["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 2});
    assert_eq!(stream(&[growing, last]).unwrap().usage.unwrap().output, 2);
}

// wire WQ07 WQ17 WQ19 WQ20
#[test]
fn errors_behind_a_status_of_200() {
    let check = |body: &str, kind: FailureKind, partial: &str| {
        let error = end(body.as_bytes()).unwrap_err();
        assert_eq!((error.kind, &*error.partial.clone().unwrap().text), (kind, partial), "{body}");
        error
    };
    let whole =
        check(r#"{"error":{"code":429,"message":"slower, try again in 2s"}}"#, FailureKind::RateLimited, "");
    assert_eq!(whole.retry, RetryAdvice::After(std::time::Duration::from_secs(2)));
    let gone = json!({"error": {"code": 502, "message": "gone", "metadata": {"error_type": "provider_unavailable"}},
        "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]});
    assert!(check(&sse(&[text("Hi"), gone]), FailureKind::ServerError, "Hi").is_retryable());
    let tool = json!({"error": {"code": "tool_use_failed", "message": "no", "failed_generation": "x"}});
    check(&sse(&[tool]), FailureKind::MalformedToolCall, "");
    check(&sse(&[text("Hi"), stop("insufficient_system_resource")]), FailureKind::Overloaded, "Hi");
    check(&sse(&[text("Hi"), stop("error")]), FailureKind::ServerError, "Hi");
    check("event: error\ndata: {\"message\":\"no\"}\n\n", FailureKind::ServerError, "");
}

#[test]
fn an_error_that_says_the_request_is_wrong_is_not_tried_again() {
    let reported = |kind: &str, code: Value| {
        let error = json!({"error": {"message": "no", "type": kind, "code": code}});
        let whole = end(error.to_string().as_bytes()).unwrap_err();
        assert_eq!(stream(&[error]).unwrap_err(), whole);
        (whole.kind, whole.is_retryable())
    };
    assert_eq!(reported("invalid_request_error", Value::Null), (FailureKind::InvalidRequest, false));
    // A code that passes by itself is believed before the type.
    assert_eq!(reported("invalid_request_error", json!(503)), (FailureKind::Overloaded, true));
    assert_eq!(
        reported("invalid_request_error", json!("rate_limit_exceeded")),
        (FailureKind::RateLimited, true)
    );
    assert_eq!(reported("authentication_error", Value::Null), (FailureKind::Auth, false));
    assert_eq!(reported("permission_error", Value::Null), (FailureKind::Permission, false));
    assert_eq!(reported("not_found_error", Value::Null), (FailureKind::ModelNotFound, false));
    assert_eq!(reported("server_error", Value::Null), (FailureKind::ServerError, true));
}

// wire WE26
#[test]
fn bytes_that_are_no_reply() {
    for body in ["", " \n", "null", "<html><title>Bad gateway</title>", "[1]", "{\"choices\""] {
        let error = end(body.as_bytes()).unwrap_err();
        assert_eq!((error.kind, error.retry), (FailureKind::BadResponse, RetryAdvice::Backoff), "{body:?}");
    }
    let error = end(format!("{}data: {{\n\n", sse(&[text("Hi")])).as_bytes()).unwrap_err();
    assert_eq!(error.kind, FailureKind::BadResponse);
    let body = |delta: &[u8]| {
        [b"data: {\"choices\":[{\"delta\":", delta, b",\"finish_reason\":\"stop\"}]}\n\n"].concat()
    };
    let reply = end(&body(b"{\"content\":\"a\xff\"}")).unwrap();
    assert_eq!((&*reply.text, &*reply.warnings), ("a\u{fffd}", &["invalid_utf8".into()][..]));
    let call = b"{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"\xff\"}}]}";
    assert_eq!(end(&body(call)).unwrap_err().kind, FailureKind::BadResponse);
}

#[test]
fn a_mark_counts_at_the_very_beginning_alone() {
    let body = sse(&[text("Hi"), stop("stop")]);
    assert_eq!(&*end(format!("\u{feff}\n{body}").as_bytes()).unwrap().text, "Hi");
    for before in ["\u{feff}\u{feff}", "\n\u{feff}", " "] {
        let reply = end(format!("{before}{body}").as_bytes()).unwrap();
        assert_eq!((&*reply.text, reply.stop), ("", Some(ReplyEnd::Empty)), "{before:?}");
    }
}

// wire WX10
#[test]
fn a_second_end_is_not_heard() {
    let body = format!("{0}data: [DONE]\n\n{0}data: [DONE]\n\n", sse(&[text("Hi"), stop("stop")]));
    assert_eq!(&*end(body.as_bytes()).unwrap().text, "Hi");
    let reply = stream(&[text("Hi"), stop("stop"), stop("length")]).unwrap();
    assert_eq!(
        (reply.stop, &*reply.warnings),
        (Some(ReplyEnd::EndTurn), &["second_finish_reason".into()][..])
    );
}

#[test]
fn counts_that_cannot_be_used_are_no_usage() {
    let counted = |counts: Value| stream(&[text("Hi"), stop("stop"), usage(counts)]).unwrap();
    let unusable = [
        json!({"prompt_tokens": -1, "completion_tokens": 1e30}),
        json!({"completion_tokens": 5}),
        json!({"prompt_tokens": -1, "completion_tokens": 5}),
        json!({"prompt_tokens": 1_000_000_001, "completion_tokens": 5}),
        json!({"prompt_tokens": "eight", "completion_tokens": 5}),
        json!({"prompt_tokens": 8}),
        json!({"prompt_tokens": 8, "completion_tokens": -5}),
    ];
    for counts in unusable {
        let reply = counted(counts.clone());
        assert_eq!((reply.usage, &*reply.warnings), (None, &["usage_unusable".into()][..]), "{counts}");
    }
    for silent in [json!({}), json!({"prompt_tokens": null, "total_tokens": 3})] {
        let reply = counted(silent);
        assert_eq!((reply.usage, reply.warnings.len()), (None, 0));
    }
    let largest = counted(json!({"prompt_tokens": 1_000_000_000, "completion_tokens": 5}));
    assert_eq!((largest.usage.unwrap().input, largest.warnings.len()), (1_000_000_000, 0));
}

#[test]
fn no_tokens_at_all_are_believed_of_an_empty_reply_alone() {
    let zeros = || usage(json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}));
    let body = sse(&[zeros(), text("Hi"), stop("stop")]);
    let items = decode(&[body.as_bytes()]);
    assert!(!items.iter().any(|item| matches!(item, Ok(ModelEvent::Usage(_)))));
    let reply = end(body.as_bytes()).unwrap();
    assert_eq!((reply.usage, &*reply.warnings), (None, &["usage_empty".into()][..]));
    let broken = end(sse(&[text("Hi"), zeros()]).as_bytes()).unwrap_err();
    assert_eq!(broken.partial.unwrap().usage, None);
    assert_eq!(stream(&[stop("stop"), zeros()]).unwrap().usage, Some(Usage::default()));
}

#[test]
fn a_price_of_nothing_is_no_price() {
    let cost = |cost: f64| {
        let counts = json!({"prompt_tokens": 8, "completion_tokens": 5, "cost": cost});
        stream(&[text("Hi"), stop("stop"), usage(counts)]).unwrap().cost
    };
    assert_eq!([cost(0.0), cost(-0.5), cost(1e-13), cost(1e30)], [None; 4]);
    assert_eq!(cost(0.5), Some(PicoUsd(500_000_000_000)));
}

/// What is heard of a reply with the secret, by text and by reasoning, and its end.
#[track_caller]
fn masked(body: &str) -> (String, String, Item) {
    let secrets = || Secrets::of(["sk-canary/0123456789"]);
    let run = |size: usize| {
        let wire = Wire { secrets: secrets(), ..chat() };
        wire.decode(&body.as_bytes().chunks(size).collect::<Vec<_>>())
    };
    let mut items = run(body.len());
    assert_eq!(run(1), items);
    assert!(!format!("{items:?}").contains("canary"), "{items:?}");
    let (mut text, mut reasoning) = (String::new(), String::new());
    for item in &items {
        match item {
            Ok(ModelEvent::TextDelta { text: piece }) => text.push_str(piece),
            Ok(ModelEvent::ReasoningDelta { text: piece }) => reasoning.push_str(piece),
            _ => {}
        }
    }
    (text, reasoning, items.pop().unwrap())
}

#[test]
fn a_secret_in_a_reply_is_masked_however_it_is_cut() {
    let pieces = ["The key is sk-", "canary/01234567", "89, or sk", " and more: s"];
    let thought = |piece: &str| delta(json!({"reasoning": piece}));
    let mut chunks: Vec<_> = pieces.iter().flat_map(|piece| [text(piece), thought(piece)]).collect();
    let wanted = "The key is [masked], or sk and more: s";
    let (reported, thoughts, end) = masked(&sse(&chunks));
    assert_eq!((reported.as_str(), thoughts.as_str()), (wanted, wanted));
    assert_eq!(&*end.unwrap_err().partial.unwrap().text, wanted);
    chunks.push(stop("stop"));
    let Ok(ModelEvent::Finished(reply)) = masked(&sse(&chunks)).2 else { panic!("it is whole") };
    assert_eq!((&*reply.text, &*reply.reasoning), (wanted, wanted));
    let refused = [delta(json!({"refusal": "not sk-canary/"})), delta(json!({"refusal": "0123456789"}))];
    let refused = [refused[0].clone(), refused[1].clone(), stop("sk-canary/0123456789")];
    let Ok(ModelEvent::Finished(reply)) = masked(&sse(&refused)).2 else { panic!("it is whole") };
    assert_eq!(
        (reply.refusal.as_deref(), reply.raw_stop.as_deref()),
        (Some("not [masked]"), Some("[masked]"))
    );
    let named = json!({"id": "sk-canary/0123456789", "model": "sk-canary/0123456789", "choices": []});
    let error = json!({"error": {"message": "key sk-canary/0123456789, sk-canary%2F0123456789"}});
    assert_eq!(&*masked(&sse(&[named, error])).2.unwrap_err().message, "key ***, ***");
}

#[test]
fn a_reply_without_a_stream_has_a_greatest_size() {
    let whole = |bytes: usize| {
        let open = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"pad":""#;
        let body = format!("{open}{}\"}}", "x".repeat(bytes - open.len() - 2));
        let uneven = decode(&body.as_bytes().chunks(1_000_003).collect::<Vec<_>>());
        assert_eq!(decode(&[body.as_bytes()]), uneven);
        uneven.into_iter().next_back().unwrap()
    };
    assert!(matches!(whole(8 << 20), Ok(ModelEvent::Finished(reply)) if &*reply.text == "Hi"));
    let error = whole((8 << 20) + 1).unwrap_err();
    assert!(error.kind == FailureKind::BadResponse && error.message.contains("8 MiB"), "{error}");
    let blanks = " ".repeat((8 << 20) + 1);
    assert!(decode(&[blanks.as_bytes()]).pop().unwrap().unwrap_err().message.contains("8 MiB"));
}

// wire WE28
#[test]
fn guards_bound_lines_calls_and_arguments() {
    let body = format!("data: {}", "x".repeat((8 << 20) + 1));
    assert_eq!(decode(&[body.as_bytes()]).pop().unwrap().unwrap_err().kind, FailureKind::BadResponse);
    let call = |nth: usize| {
        fragment(json!({"index": nth, "id": format!("c{nth}"), "function": {"name": "f", "arguments": "{}"}}))
    };
    let many = |count: usize| {
        let mut chunks: Vec<_> = (0..count).map(call).collect();
        chunks.push(stop("tool_calls"));
        decode(&[sse(&chunks).as_bytes()]).pop().unwrap()
    };
    assert!(matches!(many(128), Ok(ModelEvent::Finished(reply)) if reply.tool_calls.len() == 128));
    assert!(matches!(many(129), Ok(ModelEvent::Finished(reply)) if reply.unread_calls == 1));
    let piece =
        fragment(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "x".repeat(1 << 19)}}));
    let body = sse(&[piece.clone(), piece.clone(), piece]);
    let mut granted = granted_much();
    let cut = granted.push(body.as_bytes()).pop().unwrap();
    assert!(matches!(cut, Ok(ModelEvent::Finished(reply)) if reply.stop == Some(ReplyEnd::Capped)));
}

#[test]
fn a_reply_that_breaks_off_after_its_end_is_whole() {
    let mut decoder = decoder();
    decoder.push(sse(&[text("Hi"), stop("stop")]).as_bytes());
    let items = decoder.interrupt(FailureKind::Timeout, "late");
    assert!(matches!(&items[..], [Ok(ModelEvent::Finished(reply))] if &*reply.text == "Hi"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_have_one_end_wherever_they_are_cut(
        noise in prop::collection::vec(prop_oneof![
            Just(sse(&[text("é")]).into_bytes()),
            Just(sse(&[stop("stop")]).into_bytes()),
            Just(b"data: [DONE]\r\n\r\n".to_vec()),
            Just(b"\xef\xbb\xbf".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b": hi\r".to_vec()),
            prop::collection::vec(any::<u8>(), 0..12),
        ], 0..8),
        size in 1_usize..50,
    ) {
        let body = noise.concat();
        let whole = decode(&[&body]);
        prop_assert_eq!(&decode(&body.chunks(size).collect::<Vec<_>>()), &whole);
        let ends = whole.iter().filter(|item| matches!(item, Err(_) | Ok(ModelEvent::Finished(_)))).count();
        prop_assert_eq!(ends, 1);
    }
}

#[test]
fn each_call_of_a_whole_message_is_one_whatever_its_id() {
    let whole = |first: Value, second: Value| {
        let function = |id: Value, arguments: &str| {
            let mut call = json!({"type": "function", "function": {"name": "a", "arguments": arguments}});
            if !id.is_null() {
                call["id"] = id;
            }
            call
        };
        let calls = json!([function(first, "{\"x\":1}"), function(second, "{\"x\":2}")]);
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let body =
            json!({"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
        end(body.to_string().as_bytes()).unwrap()
    };
    for (first, second) in [
        (Value::Null, Value::Null),
        (json!(""), json!("")),
        (json!("c"), json!("c")),
        (json!("c"), Value::Null),
        (json!("c"), json!("d")),
    ] {
        let reply = whole(first.clone(), second.clone());
        let reported: Vec<_> =
            calls(&reply).into_iter().map(|(_, name, arguments)| (name, arguments)).collect();
        assert_eq!(reported, [("a", "{\"x\":1}"), ("a", "{\"x\":2}")], "{first} {second}");
        assert_ne!(reply.tool_calls[0].id, reply.tool_calls[1].id, "{first} {second}");
    }
}

#[test]
fn what_was_no_text_does_not_go_back_as_it_came() {
    let openrouter = Wire::new("openrouter", "m");
    let chunks = [
        delta(
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "Hm\u{e9}", "signature": "s"}]}),
        ),
        text("Hi"),
        stop("stop"),
    ];
    let sent = sse(&chunks).into_bytes();
    assert!(openrouter.end(&sent).unwrap().raw.is_some());
    let mut damaged = sent;
    let at = damaged.iter().position(|byte| *byte == 0xc3).unwrap();
    damaged[at] = 0xff;
    let reply = openrouter.end(&damaged).unwrap();
    assert_eq!((reply.raw, &*reply.text), (None, "Hi"));
}
