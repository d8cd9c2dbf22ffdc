//! What the decoder of generateContent makes of replies, however their bytes are cut.

use crate::common;

use common::{Wire, calls, raw, sse};
use loop_core::reply::FinishReason;
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, Usage};
use loop_llm::error::RetryAdvice;
use loop_llm::model::{Filtered, ReplyEnd};
use loop_llm::{LlmError, ModelEvent, ModelReply};
use serde_json::{Value, json};

fn gemini() -> Wire {
    Wire::new("gemini", "gemini-3-flash-preview")
}

/// A chunk with these parts.
fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "modelVersion": "m-1", "responseId": "r1"})
}

fn text(text: &str) -> Value {
    parts(json!([{"text": text}]))
}

fn stop(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}]})
}

/// The end of these chunks as events, as one list, and, where it is one chunk, as a whole reply: all the same.
#[track_caller]
fn end(chunks: &[Value]) -> Result<ModelReply, LlmError> {
    let reply = gemini().stream(chunks);
    assert_eq!(gemini().end(Value::from(chunks.to_vec()).to_string()), reply, "as a list");
    if let [chunk] = chunks {
        assert_eq!(gemini().end(format!("\n{chunk}\n")), reply, "as a whole");
    }
    reply
}

// wire WG01
#[test]
fn text_in_chunks() {
    let usage = json!({"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10, "serviceTier": "standard"});
    let mut last = stop("STOP");
    last["usageMetadata"] = usage;
    let reply = end(&[text("Hel"), text("lö"), last]).unwrap();
    assert_eq!(
        (&*reply.text, reply.finish, reply.stop),
        ("Hellö", FinishReason::EndTurn, Some(ReplyEnd::EndTurn))
    );
    assert_eq!(reply.usage, Some(Usage { input: 8, output: 2, ..Usage::default() }));
    assert_eq!((reply.served_model.as_deref(), reply.reply.as_deref()), (Some("m-1"), Some("r1")));
    assert_eq!((reply.served_tier.as_deref(), reply.raw_stop.as_deref()), (Some("standard"), Some("STOP")));
    // What text and calls say is not kept twice.
    assert_eq!((reply.raw, reply.warnings), (None, vec![]));
}

// wire WG02
#[test]
fn a_signed_call() {
    let part =
        json!({"functionCall": {"id": "c1", "name": "find", "args": {"q": "é"}}, "thoughtSignature": "S"});
    let reply = end(&[parts(json!([part])), stop("STOP")]).unwrap();
    assert_eq!((reply.finish, reply.stop), (FinishReason::ToolUse, Some(ReplyEnd::ToolUse)));
    assert_eq!(calls(&reply), [("c1", "find", "{\"q\":\"é\"}")]);
    assert_eq!(raw(&reply), json!([part]));
}

// wire WG03
#[test]
fn two_calls_without_ids() {
    let signed = json!({"functionCall": {"name": "a", "args": {}}, "thoughtSignature": "S"});
    let plain = json!({"functionCall": {"name": "b", "args": {}}});
    let reply = end(&[parts(json!([signed])), parts(json!([plain])), stop("STOP")]).unwrap();
    assert_eq!(calls(&reply), [("call_1", "a", "{}"), ("call_2", "b", "{}")]);
    assert_eq!(raw(&reply), json!([signed, plain]));
}

#[test]
fn arguments_keep_their_text() {
    let args = r#"{"b": 1.0, "a":12345678901234567890123, "a":"\ud83d\ude00"}"#;
    let call = |args: &str| {
        let part = format!(r#"{{"functionCall":{{"name":"f"{args}}}}}"#);
        let body = format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}},"finishReason":"STOP"}}]}}"#);
        gemini().end(body).unwrap()
    };
    // wire WX09
    let reply = call(&format!(",\"args\":{args}"));
    assert_eq!(calls(&reply), [("call_1", "f", args)]);
    assert!(reply.raw.is_none());
    for none in ["", ",\"args\":null"] {
        assert!(call(none).tool_calls[0].arguments.object().is_ok_and(|value| value.is_empty()));
    }
    assert!(call(",\"args\":[1]").tool_calls[0].arguments.object().is_err());
}

// wire WG04
#[test]
fn thoughts_are_told_and_do_not_go_back() {
    let thought = |text: &str| json!({"text": text, "thought": true});
    let reply = end(&[parts(json!([thought("Hm"), thought(", so")])), text("Yes."), stop("STOP")]).unwrap();
    assert_eq!((&*reply.reasoning, &*reply.text, reply.raw), ("Hm, so", "Yes.", None));
    let signed = json!({"text": "Yes.", "thoughtSignature": "S"});
    let reply = end(&[parts(json!([thought("Hm"), signed])), stop("STOP")]).unwrap();
    assert_eq!(raw(&reply), json!([signed]));
    let sealed = json!({"text": "Hm", "thought": true, "thoughtSignature": "S"});
    let reply = end(&[parts(json!([sealed])), text("Yes."), stop("STOP")]).unwrap();
    assert_eq!(raw(&reply), json!([sealed, {"text": "Yes."}]));
}

// wire WG05
#[test]
fn a_signature_without_a_text_is_a_part_of_its_own() {
    let seal = json!({"text": "", "thoughtSignature": "S"});
    let reply = end(&[text("Yes"), text("."), parts(json!([seal])), stop("STOP")]).unwrap();
    assert_eq!(&*reply.text, "Yes.");
    assert_eq!(raw(&reply), json!([{"text": "Yes."}, seal]));
    let bare = json!({"thoughtSignature": "S"});
    let reply = end(&[parts(json!([bare])), stop("STOP")]).unwrap();
    assert_eq!((raw(&reply), reply.stop), (json!([bare]), Some(ReplyEnd::Empty)));
}

// wire WG06
#[test]
fn a_request_that_was_blocked() {
    for reason in ["SAFETY", "OTHER", "PROHIBITED_CONTENT", "MODEL_ARMOR", "JAILBREAK"] {
        let blocked =
            json!({"promptFeedback": {"blockReason": reason}, "usageMetadata": {"trafficType": "ON_DEMAND"}});
        let reply = end(&[blocked]).unwrap();
        assert_eq!((reply.finish, reply.stop), (FinishReason::Filtered, Some(ReplyEnd::ContentFilter)));
        assert_eq!((reply.filtered, reply.stop_detail.as_deref()), (Some(Filtered::Input), Some(reason)));
        assert_eq!((reply.usage, reply.served_tier.as_deref()), (None, Some("ON_DEMAND")));
    }
    let ratings = json!({"promptFeedback": {"safetyRatings": []}});
    assert_eq!(end(&[ratings, text("Hi"), stop("STOP")]).unwrap().stop, Some(ReplyEnd::EndTurn));
}

// wire WG07
#[test]
fn a_reply_that_was_filtered() {
    let words =
        ["RECITATION", "SAFETY", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"];
    for word in words.into_iter().chain(["IMAGE_SAFETY", "IMAGE_RECITATION", "IMAGE_OTHER"]) {
        let reply = end(&[stop(word)]).unwrap();
        assert_eq!((reply.stop, reply.filtered), (Some(ReplyEnd::ContentFilter), Some(Filtered::Output)));
        assert_eq!((reply.stop_detail.as_deref(), reply.raw_stop.as_deref()), (Some(word), Some(word)));
    }
    let reply = end(&[text("So far"), stop("SAFETY")]).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("So far", Some(ReplyEnd::ContentFilter)));
}

// wire WG08
#[test]
fn a_malformed_call_is_not_run() {
    let call = json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "S"});
    for word in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"] {
        let mut last = stop(word);
        last["candidates"][0]["finishMessage"] = "Malformed function call: f(".into();
        let reply = end(&[parts(json!([{"text": "I"}, call])), last]).unwrap();
        assert_eq!((reply.stop, reply.finish), (Some(ReplyEnd::MalformedToolCall), FinishReason::Other));
        assert_eq!(reply.stop_detail.as_deref(), Some("Malformed function call: f("));
        assert_eq!((reply.tool_calls.len(), reply.raw), (0, None));
    }
}

// wire WG09
#[test]
fn an_end_without_parts_is_empty() {
    for chunk in [stop("STOP"), json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})] {
        assert_eq!(end(&[chunk]).unwrap().stop, Some(ReplyEnd::Empty));
    }
    let nothing =
        json!({"usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}, "modelVersion": "m"});
    let reply = gemini().end(nothing.to_string()).unwrap();
    assert_eq!((reply.stop, reply.usage.unwrap().input), (Some(ReplyEnd::Empty), 9));
    assert_eq!(gemini().stream(&[nothing]).unwrap_err().kind, FailureKind::StreamInterrupted);
}

// wire WG10
#[test]
fn a_reply_that_was_cut_while_thinking() {
    let thought = parts(json!([{"text": "Hm", "thought": true}]));
    let reply = end(&[thought, stop("MAX_TOKENS")]).unwrap();
    assert_eq!((&*reply.text, &*reply.reasoning, reply.stop), ("", "Hm", Some(ReplyEnd::MaxTokens)));
    let call = json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "S"});
    let signed = json!({"text": "Look", "thoughtSignature": "T"});
    let reply = end(&[parts(json!([signed, call])), stop("MAX_TOKENS")]).unwrap();
    assert_eq!((reply.tool_calls.len(), raw(&reply)), (0, json!([signed])));
    assert_eq!(*reply.warnings, ["dropped_partial_calls".into()]);
}

// wire WG11
#[test]
fn a_word_for_the_end_on_every_chunk() {
    let piece = |piece: &str| {
        let mut chunk = text(piece);
        chunk["candidates"][0]["finishReason"] = "STOP".into();
        chunk
    };
    let reply = end(&[piece("a"), piece("b"), piece("c")]).unwrap();
    assert_eq!((&*reply.text, reply.stop, reply.warnings), ("abc", Some(ReplyEnd::EndTurn), vec![]));
    // wire WX10
    let reply = end(&[piece("a"), stop("MAX_TOKENS")]).unwrap();
    assert_eq!(
        (reply.stop, &*reply.warnings),
        (Some(ReplyEnd::EndTurn), &["second_finish_reason".into()][..])
    );
    // What takes more back holds, whenever it comes.
    let reply = end(&[piece("a"), stop("SAFETY")]).unwrap();
    assert_eq!((reply.stop, reply.raw_stop.as_deref()), (Some(ReplyEnd::ContentFilter), Some("SAFETY")));
}

// wire WG12
#[test]
fn an_end_that_is_not_said_is_an_error() {
    let error = end(&[text("H"), text("i")]).unwrap_err();
    assert_eq!((error.kind, &*error.partial.unwrap().text), (FailureKind::StreamInterrupted, "Hi"));
    assert_eq!(gemini().end(": ping\n\n").unwrap_err().kind, FailureKind::StreamInterrupted);
}

// wire WG18
#[test]
fn errors_behind_a_status_of_200() {
    let busy =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    for body in [json!([busy]).to_string(), busy.to_string(), sse(std::slice::from_ref(&busy))] {
        let error = gemini().end(&body).unwrap_err();
        assert_eq!((error.kind, error.is_retryable()), (FailureKind::Overloaded, true), "{body}");
    }
    // L7
    let error = end(&[text("Hi"), busy]).unwrap_err();
    assert_eq!((error.kind, &*error.partial.unwrap().text), (FailureKind::Overloaded, "Hi"));
    let error = end(&[text("Hi"), stop("MISSING_THOUGHT_SIGNATURE")]).unwrap_err();
    assert_eq!(error.kind, FailureKind::StaleReasoning);
    for body in ["[]", "[1]", "null", "{}", "{\"message\":\"no\"}", "<html>", "", "[{\"candidates\":"] {
        let error = gemini().end(body).unwrap_err();
        assert_eq!((error.kind, error.retry), (FailureKind::BadResponse, RetryAdvice::Backoff), "{body:?}");
    }
    let error = gemini().end(format!("{}data: {{\n\n", sse(&[text("Hi")]))).unwrap_err();
    assert_eq!(error.kind, FailureKind::BadResponse);
}

// wire WG19
#[test]
fn other_words_for_the_end() {
    for word in ["OTHER", "NO_IMAGE", "FINISH_REASON_UNSPECIFIED", "WORD_OF_TOMORROW"] {
        let reply = end(&[text("Hi"), stop(word)]).unwrap();
        assert_eq!((reply.stop, reply.raw_stop.as_deref()), (Some(ReplyEnd::Other), Some(word)));
    }
}

// wire WG20
#[test]
fn several_calls_are_told_though_one_was_asked_for() {
    let wire = gemini().with(|request| request.one_call_at_a_time = true);
    let call = |name: &str| json!({"functionCall": {"name": name}});
    let reply = wire.stream(&[parts(json!([call("a"), call("b")])), stop("STOP")]).unwrap();
    assert_eq!(reply.tool_calls.len(), 2);
}

// wire WG21
#[test]
fn signed_parts_stay_apart() {
    let signed = |text: &str| json!({"text": text, "thoughtSignature": text});
    let sent = [
        text("a"),
        text("b"),
        parts(json!([signed("c")])),
        parts(json!([signed("d")])),
        text("e"),
        stop("STOP"),
    ];
    let reply = end(&sent).unwrap();
    assert_eq!(&*reply.text, "abcde");
    assert_eq!(raw(&reply), json!([{"text": "ab"}, signed("c"), signed("d"), {"text": "e"}]));
}

// wire WG22 WX02
#[test]
fn parts_of_another_kind_go_back_in_their_place() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1+1", "new": 1.50}});
    let ran =
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}, "thoughtSignature": "S"});
    let odd = json!({"text": "two", "partMetadata": {"k": [1]}});
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "QUJD"}});
    let sent = json!([{"text": "a"}, code, ran, odd, picture, {"text": ""}, {}, 7]);
    let reply = end(&[parts(sent), stop("STOP")]).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("atwo", Some(ReplyEnd::EndTurn)));
    assert_eq!(raw(&reply), json!([{"text": "a"}, code, ran, odd, picture]));
    let reply = end(&[parts(json!([code])), stop("STOP")]).unwrap();
    assert_eq!(reply.stop, Some(ReplyEnd::EndTurn), "it did something");
    let written = r#"{"toolCall":{ "id":"x", "n":1.0 }}"#;
    let body = format!(r#"{{"candidates":[{{"content":{{"parts":[{written}]}},"finishReason":"STOP"}}]}}"#);
    assert_eq!(gemini().end(body).unwrap().raw.unwrap().json(), written);
}

#[test]
fn unknown_members_nulls_and_kinds_are_ignored() {
    let odd = [
        json!({"candidates": null, "new": 1}),
        json!({"candidates": [{"content": null, "finishReason": null, "index": 0, "safetyRatings": []}]}),
        json!({"candidates": [{"content": {"parts": null}, "finishReason": ""}], "usageMetadata": 7}),
        json!({"candidates": [{"content": {"parts": [{"text": "another"}]}, "index": 1, "finishReason": "SAFETY"}]}),
        json!({"candidates": [{"content": {"parts": [{"text": "Hi", "thought": false}, {"text": 7}], "x": {}}, "avgLogprobs": -0.1}]}),
        json!({"candidates": [{"finishReason": "STOP", "finishMessage": "Done."}], "promptFeedback": null}),
    ];
    let reply = end(&odd).unwrap();
    assert_eq!((&*reply.text, reply.stop, reply.stop_detail), ("Hi", Some(ReplyEnd::EndTurn), None));
}

/// The reply to chunks with these counts, each in one.
#[track_caller]
fn counted(counts: &[Value]) -> ModelReply {
    let chunk = |counts: &Value| {
        let mut chunk = text("x");
        chunk["usageMetadata"] = counts.clone();
        chunk
    };
    let mut chunks: Vec<Value> = counts.iter().map(chunk).collect();
    chunks.push(stop("STOP"));
    end(&chunks).unwrap()
}

// wire WU05
#[test]
fn usage_is_in_disjoint_buckets() {
    let reply = counted(&[
        json!({"promptTokenCount": 2006, "cachedContentTokenCount": 1920, "candidatesTokenCount": 108,
        "thoughtsTokenCount": 192, "toolUsePromptTokenCount": 0, "totalTokenCount": 2306}),
    ]);
    let wanted = Usage { input: 86, cache_read: 1920, output: 108, reasoning: 192, ..Usage::default() };
    assert_eq!((reply.usage, reply.warnings.len()), (Some(wanted), 0));
    let reply =
        counted(&[json!({"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 1})]);
    assert_eq!(reply.usage.unwrap().input, 15);
}

// wire WU06
#[test]
fn counts_that_are_missing_follow_from_the_total() {
    let usage = |counts: Value| {
        let usage = counted(&[counts]).usage.unwrap();
        (usage.input, usage.output, usage.reasoning)
    };
    assert_eq!(
        usage(json!({"totalTokenCount": 100, "promptTokenCount": 60, "thoughtsTokenCount": 40})),
        (60, 0, 40)
    );
    assert_eq!(usage(json!({"totalTokenCount": 100, "promptTokenCount": 60})), (60, 40, 0));
    assert_eq!(
        usage(json!({"totalTokenCount": 100, "promptTokenCount": 60, "candidatesTokenCount": 30})),
        (60, 30, 10)
    );
    let without_prompt =
        json!({"totalTokenCount": 100, "candidatesTokenCount": 30, "thoughtsTokenCount": 10});
    assert_eq!(usage(without_prompt), (60, 30, 10));
}

#[test]
fn the_last_value_of_each_count_holds() {
    let reply = counted(&[
        json!({"promptTokenCount": 9, "thoughtsTokenCount": 14, "totalTokenCount": 23}),
        json!({"trafficType": "ON_DEMAND"}),
        json!({"promptTokenCount": 9, "candidatesTokenCount": 12}),
    ]);
    assert_eq!(reply.usage, Some(Usage { input: 9, output: 12, reasoning: 14, ..Usage::default() }));
}

// Issue 43, P3
#[test]
fn counts_under_the_names_of_others_are_read() {
    let wanted = Some(Usage { input: 9, output: 12, ..Usage::default() });
    for counts in [
        json!({"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}),
        json!({"input_tokens": 9.0, "output_tokens": 12}),
        json!({"prompt_token_count": 9, "candidates_token_count": 12, "total_token_count": 21}),
    ] {
        assert_eq!(counted(std::slice::from_ref(&counts)).usage, wanted, "{counts}");
        for place in ["/usage", "/candidates/0/usageMetadata", "/candidates/0/usage"] {
            let mut chunk = stop("STOP");
            let (before, name) = place.rsplit_once('/').unwrap();
            chunk.as_object_mut().unwrap().remove("usageMetadata");
            chunk.pointer_mut(before).unwrap()[name] = counts.clone();
            assert_eq!(end(&[text("Hi"), chunk.clone()]).unwrap().usage, wanted, "{chunk}");
        }
    }
    // Its own names come first.
    let both = json!({"promptTokenCount": 9, "candidatesTokenCount": 12, "prompt_tokens": 1, "completion_tokens": 1});
    assert_eq!(counted(&[both]).usage, wanted);
}

// L21
#[test]
fn counts_that_cannot_be_used_are_no_usage() {
    for odd in [json!({"promptTokenCount": -1, "candidatesTokenCount": 2}), json!({"promptTokenCount": 5e12})]
    {
        let reply = counted(std::slice::from_ref(&odd));
        assert_eq!((reply.usage, &*reply.warnings), (None, &["usage_unusable".into()][..]), "{odd}");
    }
    let silent = counted(&[json!({"candidatesTokenCount": 2})]);
    assert_eq!((silent.usage, silent.warnings.len()), (None, 0));
    let odd =
        counted(&[json!({"promptTokenCount": 10, "cachedContentTokenCount": 20, "candidatesTokenCount": 1})]);
    assert_eq!((odd.usage.unwrap().cache_read, &*odd.warnings), (10, &["usage_inconsistent".into()][..]));
}

#[test]
fn arguments_that_come_value_by_value_are_refused() {
    let values = json!([{"jsonPath": "$.q", "stringValue": "Os", "willContinue": true}]);
    for call in [
        json!({"name": "find", "id": "c1", "willContinue": true}),
        json!({"name": "find", "partialArgs": values, "willContinue": true}),
        json!({"partialArgs": values}),
    ] {
        let sent = [parts(json!([{"functionCall": call}])), stop("STOP")];
        let error = gemini().stream(&sent).unwrap_err();
        assert_eq!((error.kind, error.retry), (FailureKind::BadResponse, RetryAdvice::Never), "{call}");
        assert!(error.message.contains("streamFunctionCallArguments"), "{}", error.message);
    }
}

/// The end of these chunks with a byte that is no UTF-8 in place of the `X` in them.
#[track_caller]
fn damaged(chunks: &[Value]) -> Result<ModelReply, LlmError> {
    let body = sse(chunks);
    let (before, after) = body.split_once('X').unwrap();
    gemini().end([before.as_bytes(), b"\xff", after.as_bytes()].concat())
}

#[test]
fn what_was_damaged_on_its_way_does_not_go_back() {
    let signed = |text: &str| parts(json!([{"text": text, "thoughtSignature": "S"}]));
    let reply = damaged(&[signed("aX"), signed("b"), stop("STOP")]).unwrap();
    assert_eq!((&*reply.text, reply.raw), ("a\u{fffd}b", None));
    assert_eq!(*reply.warnings, ["invalid_utf8".into()]);
    for part in [
        json!({"text": "a", "thoughtSignature": "X"}),
        json!({"functionCall": {"name": "f"}, "thoughtSignature": "X"}),
        json!({"executableCode": {"code": "X"}}),
    ] {
        assert_eq!(damaged(&[parts(json!([part])), signed("b"), stop("STOP")]).unwrap().raw, None, "{part}");
    }
    // Nobody signed a text that stands by itself.
    let reply = damaged(&[text("aX"), signed("b"), stop("STOP")]).unwrap();
    assert_eq!(raw(&reply)[1], json!({"text": "b", "thoughtSignature": "S"}));
    // Arguments are not run.
    let call = json!({"name": "f", "args": {"a": "X"}});
    let sent = [parts(json!([{"functionCall": call}])), parts(json!([{"functionCall": {}}])), stop("STOP")];
    assert_eq!(damaged(&sent).unwrap_err().kind, FailureKind::BadResponse);
}

#[test]
fn a_secret_is_masked_also_in_what_goes_back() {
    let wire = Wire { secrets: Secrets::of(["sk-canary/0123456789"]), ..gemini() };
    let signed = parts(json!([{"text": "sk-canary/0123456789", "thoughtSignature": "S"}]));
    let items =
        wire.items(sse(&[text("It is sk-can"), text("ary/0123456789 "), signed, stop("STOP")]).as_bytes());
    assert!(!format!("{items:?}").contains("canary"), "{items:?}");
    let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { panic!("{items:?}") };
    assert_eq!(
        raw(reply),
        json!([{"text": "It is [masked] "}, {"text": "[masked]", "thoughtSignature": "S"}])
    );
}

// wire WE28
#[test]
fn guards_bound_calls_and_arguments() {
    let many = |count: usize| {
        let calls: Vec<Value> =
            (0..count).map(|_| json!({"functionCall": {"name": "f", "args": {}}})).collect();
        gemini().decode(&[sse(&[parts(calls.into()), stop("STOP")]).as_bytes()]).pop().unwrap()
    };
    assert!(matches!(many(128), Ok(ModelEvent::Finished(reply)) if reply.tool_calls.len() == 128));
    assert!(matches!(many(129), Ok(ModelEvent::Finished(reply)) if reply.unread_calls == 1));
    let large = json!({"functionCall": {"name": "f", "args": {"a": "x".repeat(1 << 20)}}});
    let granted = gemini().with(|request| request.max_output_tokens = Some(10_000_000));
    let cut = granted.decode(&[sse(&[parts(json!([large])), stop("STOP")]).as_bytes()]).pop().unwrap();
    assert!(matches!(cut, Ok(ModelEvent::Finished(reply)) if reply.stop == Some(ReplyEnd::Capped)));
}

// X3, X4
#[test]
fn a_body_that_is_whole_is_complete_and_a_call_that_names_no_tool_is_left_out() {
    let call =
        |name: &str| json!({"functionCall": {"name": name, "args": {"q": 1}}, "thoughtSignature": "S"});
    let body = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}}], "modelVersion": "m"});
    let reply = gemini().end(body(json!([{"text": "Hi"}, call("find")])).to_string()).unwrap();
    assert_eq!((&*reply.text, reply.tool_calls.len(), reply.stop), ("Hi", 1, Some(ReplyEnd::ToolUse)));
    assert_eq!(*reply.warnings, ["no_finish_reason".into()]);
    let reply = end(&[parts(json!([{"text": "Hi"}, call("")])), stop("STOP")]).unwrap();
    assert_eq!((&*reply.text, reply.tool_calls.len(), reply.stop), ("Hi", 0, Some(ReplyEnd::EndTurn)));
    assert_eq!((&*reply.warnings, &reply.raw), (&["call_without_name".into()][..], &None));
}

// P4
#[test]
fn a_count_before_the_end_is_not_that_of_the_whole() {
    let counted = json!({"candidates": [{"content": {"parts": [{"text": "So far"}]}}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2}});
    let broken = |chunks: &[Value]| {
        let wire = gemini();
        let mut decoder = wire.codec.decoder(&wire.request, wire.aliases, wire.secrets);
        decoder.push(sse(chunks).as_bytes());
        decoder.interrupt(FailureKind::StreamInterrupted, "gone").pop().unwrap()
    };
    let partial = *broken(std::slice::from_ref(&counted)).unwrap_err().partial.unwrap();
    let so_far = Usage { input: 9, output: 2, ..Usage::default() };
    assert_eq!((partial.usage, partial.usage_so_far), (None, Some(so_far)));
    let Ok(ModelEvent::Finished(whole)) = broken(&[counted.clone(), stop("STOP")]) else { panic!() };
    assert_eq!(whole.usage, Some(so_far));
    // What our own cap cut may go on with the provider.
    let wire = gemini().with(|request| request.max_output_tokens = Some(100));
    let long = parts(json!([{"text": "x".repeat(10_000)}]));
    let Some(Ok(ModelEvent::Finished(cut))) = wire.decode(&[sse(&[counted, long]).as_bytes()]).pop() else {
        panic!()
    };
    assert_eq!((cut.stop, cut.usage), (Some(ReplyEnd::Capped), None));
}

// T18
#[test]
fn no_call_is_kept_without_the_arguments_that_were_sent() {
    let args = json!({"only": "drafts"});
    let chunks = [
        parts(json!([{"functionCall": {"name": "remove"}}])),
        parts(json!([{"functionCall": {"args": args}}])),
        stop("STOP"),
    ];
    let reply = end(&chunks).unwrap();
    let found: Vec<_> =
        reply.tool_calls.iter().map(|call| (&*call.name, call.arguments.text().as_ref())).collect();
    assert_eq!(found, [("remove", "{\"only\":\"drafts\"}")]);
}
