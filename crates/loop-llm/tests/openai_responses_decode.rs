//! What the decoder of Responses makes of replies, however their bytes are cut.

use crate::common;

use common::{Wire, calls, raw};
use loop_core::reply::FinishReason;
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, PicoUsd, Usage};
use loop_llm::error::RetryAdvice;
use loop_llm::model::{Filtered, ReplyEnd};
use loop_llm::{LlmError, ModelEvent, ModelReply};
use serde_json::{Value, json};

fn responses() -> Wire {
    Wire::new("openai-responses", "gpt-6-sol")
}

/// Events with their names, as OpenAI sends them.
fn named(events: &[Value]) -> String {
    let event = |(nth, event): (usize, &Value)| {
        let mut event = event.clone();
        event["sequence_number"] = nth.into();
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().enumerate().map(event).collect()
}

#[track_caller]
fn end(events: &[Value]) -> Result<ModelReply, LlmError> {
    responses().end(named(events))
}

/// The end of a response with this output, as a stream that tells it and as one body: the same.
#[track_caller]
fn output(output: &[Value]) -> ModelReply {
    let whole = responses().end(response("completed", output).to_string()).unwrap();
    let mut events = vec![created()];
    for (index, item) in output.iter().enumerate() {
        events.extend([added(index, item), done(index, item)]);
    }
    events.push(completed(output));
    assert_eq!(end(&events).unwrap(), whole, "as a stream");
    // A server that tells nothing but the end.
    assert_eq!(end(&[completed(output)]).unwrap(), whole, "the end alone");
    whole
}

fn response(status: &str, output: &[Value]) -> Value {
    json!({"id": "resp_1", "object": "response", "status": status, "model": "gpt-6-sol-2026", "error": null,
        "incomplete_details": null, "service_tier": "default", "output": output, "usage": {"input_tokens": 8,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 2, "total_tokens": 10}})
}

fn created() -> Value {
    let mut response = response("in_progress", &[]);
    (response["usage"], response["service_tier"]) = (Value::Null, "auto".into());
    json!({"type": "response.created", "response": response})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": response("completed", output)})
}

/// The item as it begins: without what is not known yet.
fn added(index: usize, item: &Value) -> Value {
    let mut item = item.clone();
    for (key, nothing) in
        [("content", json!([])), ("summary", json!([])), ("arguments", json!("")), ("input", json!(""))]
    {
        if item.get(key).is_some() {
            item[key] = nothing;
        }
    }
    item.as_object_mut().unwrap().remove("encrypted_content");
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

/// A piece of something in the item `id` at `index`.
fn delta(kind: &str, id: &str, index: usize, piece: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "item_id": id, "output_index": index, "content_index": 0,
        "delta": piece, "obfuscation": "xX"})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
}

fn reasoning(summary: &[&str]) -> Value {
    let summary: Vec<Value> =
        summary.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
    json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA+/="})
}

fn function(id: &str, call: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "status": "completed", "call_id": call, "name": name,
        "arguments": arguments})
}

/// A response that ended before its time.
fn incomplete(reason: &str, output: &[Value]) -> Value {
    let mut response = response("incomplete", output);
    response["incomplete_details"] = json!({"reason": reason});
    json!({"type": "response.incomplete", "response": response})
}

fn failed(code: &str) -> Value {
    let mut response = response("failed", &[]);
    response["error"] = json!({"code": code, "message": "it failed"});
    json!({"type": "response.failed", "response": response})
}

// wire WR01
#[test]
fn reasoning_and_text() {
    let items = [reasoning(&["**Look** ", "closely"]), message("Hellö")];
    let part = json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0,
        "summary_index": 0, "part": {"type": "summary_text", "text": ""}});
    let mut second = delta("reasoning_summary_text", "rs_1", 0, "closely");
    second["summary_index"] = 1.into();
    let text = json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 1,
        "content_index": 0, "text": "Hellö"});
    let events = [
        created(),
        added(0, &items[0]),
        part,
        delta("reasoning_summary_text", "rs_1", 0, "**Look"),
        delta("reasoning_summary_text", "rs_1", 0, "** "),
        second,
        done(0, &items[0]),
        added(1, &items[1]),
        delta("output_text", "msg_1", 1, "Hel"),
        delta("output_text", "msg_1", 1, "lö"),
        text,
        done(1, &items[1]),
        completed(&items),
    ];
    let reply = end(&events).unwrap();
    assert_eq!((&*reply.text, &*reply.reasoning), ("Hellö", "**Look** closely"));
    assert_eq!((reply.stop, reply.finish), (Some(ReplyEnd::EndTurn), FinishReason::EndTurn));
    assert_eq!(raw(&reply), json!(items));
    assert_eq!(
        (reply.reply.as_deref(), reply.served_model.as_deref()),
        (Some("resp_1"), Some("gpt-6-sol-2026"))
    );
    assert_eq!(
        (reply.served_tier.as_deref(), reply.raw_stop.as_deref()),
        (Some("default"), Some("completed"))
    );
    assert_eq!(reply.usage, Some(Usage { input: 8, output: 2, ..Usage::default() }));
    assert_eq!((reply, output(&items).warnings), (output(&items), vec![]));
    let first = responses().items(named(&events).as_bytes()).swap_remove(0);
    let begun = ModelEvent::Started { reply: Some("resp_1".into()), model: Some("gpt-6-sol-2026".into()) };
    assert_eq!(first.unwrap(), begun);
}

// wire WR02
#[test]
fn a_call_is_named_by_its_call_id() {
    let items = [reasoning(&[]), function("fc_1", "call_a", "find", "{\"q\": 1.0}")];
    let reply = end(&[
        created(),
        added(0, &items[0]),
        done(0, &items[0]),
        added(1, &items[1]),
        delta("function_call_arguments", "fc_1", 1, "{\"q\":"),
        delta("function_call_arguments", "fc_1", 1, " 1.0}"),
        json!({"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 1,
            "arguments": "{\"q\": 1.0}"}),
        done(1, &items[1]),
        completed(&items),
    ])
    .unwrap();
    assert_eq!(calls(&reply), [("call_a", "find", "{\"q\": 1.0}")]);
    assert_eq!((reply.stop, reply.raw_stop.as_deref()), (Some(ReplyEnd::ToolUse), Some("completed")));
    assert_eq!(raw(&reply), json!(items));
    assert_eq!(reply, output(&items));
}

// wire WR03, L14
#[test]
fn two_calls_in_the_order_of_the_output() {
    let items = [function("fc_1", "a", "find", "{}"), function("fc_2", "b", "look", "{\"x\":1}")];
    let reply = output(&items);
    assert_eq!(calls(&reply), [("a", "find", "{}"), ("b", "look", "{\"x\":1}")]);
    // Calls say it all.
    assert_eq!((reply.stop, reply.raw), (Some(ReplyEnd::ToolUse), None));
    let reply = end(&[
        added(1, &items[1]),
        added(0, &items[0]),
        delta("function_call_arguments", "fc_1", 0, "{"),
        delta("function_call_arguments", "fc_2", 1, "{\"x\""),
        delta("function_call_arguments", "fc_1", 0, "}"),
        delta("function_call_arguments", "fc_2", 1, ":1}"),
        done(1, &items[1]),
        done(0, &items[0]),
        done(0, &items[0]),
        completed(&[]),
    ])
    .unwrap();
    assert_eq!(calls(&reply), [("a", "find", "{}"), ("b", "look", "{\"x\":1}")]);
}

// wire WR05, L12
#[test]
fn a_call_that_was_cut_is_not_meant() {
    let mut cut = function("fc_1", "a", "find", "{\"q\":");
    cut["status"] = "incomplete".into();
    let mut second = reasoning(&["s"]);
    second["id"] = "rs_2".into();
    let items = [reasoning(&["r"]), message("So"), second, cut];
    let reply = end(&[created(), incomplete("max_output_tokens", &items)]).unwrap();
    assert_eq!(
        (reply.stop, reply.raw_stop.as_deref()),
        (Some(ReplyEnd::MaxTokens), Some("max_output_tokens"))
    );
    assert_eq!((&*reply.text, &*reply.tool_calls), ("So", &[][..]));
    assert_eq!(reply.warnings, ["dropped_partial_calls".into()]);
    // Nor does the reasoning go back that led to it.
    assert_eq!(raw(&reply), json!(items[..2]));
    let whole = incomplete("max_output_tokens", &items)["response"].to_string();
    assert_eq!(responses().end(whole).unwrap(), reply);
    // For a reason that nobody knows it was cut all the same.
    let reply = end(&[incomplete("weird", &items)]).unwrap();
    assert_eq!((reply.stop, reply.raw_stop.as_deref()), (Some(ReplyEnd::MaxTokens), Some("weird")));
}

// wire WR06, L20
#[test]
fn a_filter_stops_it() {
    let reply = end(&[incomplete("content_filter", &[reasoning(&[]), message("So")])]).unwrap();
    assert_eq!((reply.stop, reply.filtered), (Some(ReplyEnd::ContentFilter), Some(Filtered::Output)));
    assert_eq!((&*reply.text, &reply.raw, &reply.stop_detail), ("So", &None, &None));
    // Azure tells what it found, and where.
    let found = |source: &str| {
        let mut last = incomplete("content_filter", &[]);
        let results =
            json!({"hate": {"filtered": false}, "violence": {"filtered": true, "severity": "high"}});
        let filter = json!({"blocked": true, "source_type": source, "content_filter_results": results});
        last["response"]["content_filters"] = json!([{"blocked": false, "source_type": "prompt"}, filter]);
        let reply = Wire::new("azure-responses", "prod-a").end(named(&[last])).unwrap();
        (reply.filtered, reply.stop_detail.unwrap().to_string())
    };
    assert_eq!(found("completion"), (Some(Filtered::Output), "violence".to_owned()));
    assert_eq!(found("prompt"), (Some(Filtered::Input), "violence".to_owned()));
}

// wire WR07 WR08 WR09, L7
#[test]
fn a_response_that_failed() {
    let check = |code: &str, kind: FailureKind, retry: RetryAdvice| {
        let events = [created(), delta("output_text", "msg_1", 0, "So"), failed(code)];
        let error = end(&events).unwrap_err();
        assert_eq!((error.kind, error.retry, &*error.message), (kind, retry, "it failed"), "{code}");
        let partial = error.partial.unwrap();
        assert_eq!((&*partial.text, partial.usage.unwrap().total_input()), ("So", 8));
        let whole = responses().end(failed(code)["response"].to_string()).unwrap_err();
        assert_eq!((whole.kind, whole.retry), (kind, retry), "{code}");
    };
    let (never, backoff) = (RetryAdvice::Never, RetryAdvice::Backoff);
    check("rate_limit_exceeded", FailureKind::RateLimited, backoff);
    check("server_is_overloaded", FailureKind::Overloaded, backoff);
    check("slow_down", FailureKind::Overloaded, backoff);
    check("context_length_exceeded", FailureKind::ContextTooLong, never);
    check("insufficient_quota", FailureKind::QuotaExhausted, never);
    check("invalid_prompt", FailureKind::ContentFilter, never);
    check("server_error", FailureKind::ServerError, backoff);
    check("vector_store_timeout", FailureKind::ServerError, backoff);
    let silent = json!({"type": "response.failed", "response": {"status": "failed", "error": null}});
    assert_eq!(end(&[silent]).unwrap_err().kind, FailureKind::ServerError);
    let cancelled = end(&[json!({"type": "response.cancelled", "response": {"status": "cancelled"}})]);
    assert_eq!(cancelled.unwrap_err().kind, FailureKind::Cancelled);
    let running = responses().end(response("in_progress", &[]).to_string()).unwrap_err();
    assert_eq!((running.kind, running.retry), (FailureKind::BadResponse, never));
}

// wire WR10, L7
#[test]
fn an_error_in_place_of_the_end() {
    let text = delta("output_text", "msg_1", 0, "So");
    let flat = json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": null});
    let nested =
        json!({"type": "error", "error": {"type": "server_error", "code": null, "message": "broke"}});
    let bare = json!({"error": {"code": "server_is_overloaded", "message": "busy"}});
    for (event, kind, message) in [
        (flat, FailureKind::RateLimited, "slow"),
        (nested, FailureKind::ServerError, "broke"),
        (bare, FailureKind::Overloaded, "busy"),
    ] {
        let error = end(&[created(), text.clone(), event, completed(&[])]).unwrap_err();
        assert_eq!((error.kind, &*error.message, error.is_retryable()), (kind, message, true));
        assert_eq!(*error.partial.unwrap().text, *"So");
    }
}

// wire WR11, L6 L8
#[test]
fn an_end_that_never_comes() {
    let events = [created(), delta("output_text", "msg_1", 0, "So"), done(0, &message("So"))];
    for tail in ["", "data: [DONE]\n\n"] {
        let error = responses().end(named(&events) + tail).unwrap_err();
        assert_eq!(error.kind, FailureKind::StreamInterrupted);
        assert_eq!(*error.partial.unwrap().text, *"So");
    }
    let error = end(&[created()]).unwrap_err();
    assert_eq!(error.kind, FailureKind::StreamInterrupted);
}

// wire WR12
#[test]
fn the_item_that_is_done_holds() {
    let item = function("fc_1", "call_a", "find", "{\"q\":2}");
    let events = [
        added(0, &item),
        delta("function_call_arguments", "fc_1", 0, "{\"q\":1}"),
        done(0, &item),
        completed(&[]),
    ];
    let reply = end(&events).unwrap();
    assert_eq!(calls(&reply), [("call_a", "find", "{\"q\":2}")]);
    assert_eq!(reply.warnings, ["arguments_replaced".into()]);
    // The first time that it is.
    let again = function("fc_1", "call_a", "find", "{\"q\":3}");
    let reply = end(&[done(0, &item), done(0, &again), completed(&[])]).unwrap();
    assert_eq!((&*calls(&reply), &*reply.warnings), (&[("call_a", "find", "{\"q\":2}")][..], &[][..]));
    // A text that was told cannot be taken back.
    let events = [delta("output_text", "msg_1", 0, "Yes"), done(0, &message("No")), completed(&[])];
    let reply = end(&events).unwrap();
    assert_eq!((&*reply.text, &*reply.warnings), ("Yes", &["text_differs".into()][..]));
}

// wire WR13 WX02
#[test]
fn what_is_not_known_is_kept_in_its_place() {
    let future = json!({"type": "future_thing", "id": "ft_1", "deep": {"z": 1.0, "a": [null]}});
    let search =
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}});
    let items = [reasoning(&[]), future, search, message("So")];
    let reply = output(&items);
    assert_eq!((&*reply.text, reply.stop), ("So", Some(ReplyEnd::EndTurn)));
    assert_eq!(raw(&reply), json!(items));
    // To the byte, as it was written.
    let written = r#"{"type":"future_thing", "n": 1.50, "n2":1e3}"#;
    let body = format!(r#"{{"status":"completed","output":[{written}, {}]}}"#, message("So"));
    let kept = responses().end(body).unwrap().raw.unwrap();
    assert!(kept.json().starts_with(&format!("{written},{{")), "{}", kept.json());
    let events = [
        created(),
        json!({"type": "response.future.delta", "delta": "?", "item_id": "ft_1", "output_index": 0}),
        json!({"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 1}),
        json!({"type": 7, "delta": {"a": 1}}),
        json!({}),
        completed(&items),
    ];
    assert_eq!(end(&events).unwrap(), reply);
}

// wire WR14, L20
#[test]
fn a_refusal() {
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "refusal", "refusal": "I cannot."}]});
    let whole = output(std::slice::from_ref(&item));
    assert_eq!(
        (whole.refusal.as_deref(), &*whole.text, whole.stop),
        (Some("I cannot."), "", Some(ReplyEnd::Refusal))
    );
    let events = [
        created(),
        added(0, &item),
        delta("refusal", "msg_1", 0, "I can"),
        delta("refusal", "msg_1", 0, "not."),
        json!({"type": "response.refusal.done", "item_id": "msg_1", "output_index": 0, "content_index": 0,
            "refusal": "I cannot."}),
        done(0, &item),
        completed(&[item]),
    ];
    assert_eq!(end(&events).unwrap(), whole);
}

// wire WR15
#[test]
fn a_phase_goes_back() {
    let mut comment = message("I look. ");
    comment["phase"] = "commentary".into();
    let items = [comment, function("fc_1", "a", "find", "{}")];
    let reply = output(&items);
    assert_eq!((&*reply.text, reply.stop), ("I look. ", Some(ReplyEnd::ToolUse)));
    assert_eq!(raw(&reply), json!(items));
}

// wire WR17
#[test]
fn the_text_ends_before_a_stop_text() {
    let mut wire = responses();
    wire.request.stop = vec!["END".into(), "\n\n".into()];
    let items = [reasoning(&["r"]), message("One. ENDless"), function("fc_1", "a", "find", "{}")];
    let events = [
        created(),
        done(0, &items[0]),
        delta("output_text", "msg_1", 1, "One. E"),
        delta("output_text", "msg_1", 1, "N"),
        delta("output_text", "msg_1", 1, "Dless"),
        done(1, &items[1]),
        added(2, &items[2]),
        delta("function_call_arguments", "fc_1", 2, "{}"),
        done(2, &items[2]),
        completed(&items),
    ];
    let reply = wire.end(named(&events)).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("One. ", Some(ReplyEnd::StopSequence)));
    assert_eq!((reply.stop_detail.as_deref(), &*reply.tool_calls), (Some("END"), &[][..]));
    assert_eq!((reply.finish, reply.raw_stop.as_deref()), (FinishReason::EndTurn, Some("completed")));
    // The items say more than the reply does.
    assert_eq!((&reply.raw, reply.usage.unwrap().output), (&None, 2));
    assert_eq!(wire.end(completed(&items)["response"].to_string()).unwrap(), reply);
    assert_eq!(wire.end(named(&[incomplete("max_output_tokens", &items)])).unwrap().stop, reply.stop);
    // What looks like the beginning of one is text in the end.
    let almost = [delta("output_text", "msg_1", 0, "One. EN"), completed(&[message("One. EN")])];
    let reply = wire.end(named(&almost)).unwrap();
    assert_eq!((&*reply.text, reply.stop), ("One. EN", Some(ReplyEnd::EndTurn)));
    // What had begun before it is meant.
    let items = [function("fc_1", "a", "find", "{}"), message("One. END")];
    let reply = wire.end(named(&[completed(&items)])).unwrap();
    assert_eq!((calls(&reply).len(), reply.stop), (1, Some(ReplyEnd::ToolUse)));
}

// wire WR20
#[test]
fn ids_that_change_between_events() {
    let item = |id: &str| function(id, "call_a", "find", "{\"q\":1}");
    let text = |id: &str| {
        let mut text = message("So");
        text["id"] = id.into();
        text
    };
    let reply = end(&[
        created(),
        added(0, &text("msg_a")),
        delta("output_text", "msg_b", 0, "So"),
        done(0, &text("msg_c")),
        added(1, &item("fc_a")),
        delta("function_call_arguments", "fc_b", 1, "{\"q\":"),
        delta("function_call_arguments", "fc_c", 1, "1}"),
        done(1, &item("fc_d")),
        completed(&[text("msg_e"), item("fc_e")]),
    ])
    .unwrap();
    assert_eq!((&*reply.text, &*calls(&reply)), ("So", &[("call_a", "find", "{\"q\":1}")][..]));
    assert_eq!(reply.warnings, Vec::<std::sync::Arc<str>>::new());
}

#[test]
fn servers_that_tell_less() {
    // No places: ids alone. No ids: places alone. Neither, and one item after the other.
    let strip = |events: &[Value], keys: &[&str]| -> Vec<Value> {
        let mut events = events.to_vec();
        for event in &mut events {
            let event = event.as_object_mut().unwrap();
            event.retain(|key, _| !keys.contains(&key.as_str()));
            if let (Some(item), true) = (event.get_mut("item"), keys.contains(&"item_id")) {
                item.as_object_mut().unwrap().remove("id");
            }
        }
        events
    };
    let items = [message("So"), function("fc_1", "a", "find", "{\"q\":1}")];
    let events = [
        added(0, &items[0]),
        delta("output_text", "msg_1", 0, "So"),
        done(0, &items[0]),
        added(1, &items[1]),
        delta("function_call_arguments", "fc_1", 1, "{\"q\":1}"),
        done(1, &items[1]),
        completed(&[]),
    ];
    for keys in [&["output_index"][..], &["item_id"], &["item_id", "output_index", "content_index"]] {
        let reply = end(&strip(&events, keys)).unwrap();
        let reported = (&*reply.text, &*calls(&reply), &*reply.warnings);
        assert_eq!(reported, ("So", &[("a", "find", "{\"q\":1}")][..], &[][..]), "{keys:?}");
    }
    // No items that are done: pieces, and their ends.
    let pieces: Vec<Value> =
        events.iter().filter(|event| event["type"] != "response.output_item.done").cloned().collect();
    let reply = end(&pieces).unwrap();
    assert_eq!((&*reply.text, &*calls(&reply)), ("So", &[("a", "find", "{\"q\":1}")][..]));
    assert_eq!(reply.raw, None);
    let text =
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "text": "So"});
    assert_eq!(&*end(&[text, completed(&[])]).unwrap().text, "So");
    // All items at the same place, told apart by their ids.
    let mut second = function("fc_2", "b", "look", "{}");
    second["id"] = "fc_2".into();
    let events = [
        added(0, &items[1]),
        added(0, &second),
        delta("function_call_arguments", "fc_1", 0, "{\"q\":1}"),
        done(0, &items[1]),
        done(0, &second),
        completed(&[]),
    ];
    assert_eq!(calls(&end(&events).unwrap()), [("a", "find", "{\"q\":1}"), ("b", "look", "{}")]);
    // Names of events beside data without a type, and an end by another name.
    let body =
        "event: response.output_text.delta\ndata: {\"delta\":\"So\"}\n\nevent: response.done\ndata: {}\n\n";
    assert_eq!(&*responses().end(body).unwrap().text, "So");
    // A content that is a text, arguments that are an object, no call's id.
    let plain = json!({"type": "message", "content": "So"});
    let object = json!({"type": "function_call", "id": "fc_9", "name": "find", "arguments": {"q": 1}});
    let reply = output(&[plain, object]);
    assert_eq!((&*reply.text, &*calls(&reply)), ("So", &[("fc_9", "find", "{\"q\":1}")][..]));
}

#[test]
fn reasoning_goes_back_encrypted_or_stored_or_not_at_all() {
    let open = json!({"type": "reasoning", "id": "rs_1", "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}]});
    let mut comment = message("So");
    comment["phase"] = "final_answer".into();
    let items = [open.clone(), comment.clone()];
    let reply = output(&items);
    assert_eq!(&*reply.reasoning, "hm");
    // The server would miss it by the id of the other.
    comment.as_object_mut().unwrap().remove("id");
    assert_eq!(raw(&reply), json!([comment]));
    assert_eq!(output(&[open, message("So")]).raw, None);
    let mut stored = responses();
    stored.request.extra.insert("store".into(), true.into());
    assert_eq!(raw(&stored.end(named(&[completed(&items)])).unwrap()), json!(items));
    // Nothing follows it.
    assert_eq!(output(&[reasoning(&["r"])]).raw, None);
    let events =
        [delta("reasoning_text", "rs_1", 0, "h"), delta("reasoning_text", "rs_1", 0, "m"), completed(&items)];
    assert_eq!(&*end(&events).unwrap().reasoning, "hm");
}

// L19
#[test]
fn a_reply_without_anything_is_empty() {
    for items in [&[][..], &[reasoning(&["r"])], &[message("")], &[message(" \n")]] {
        assert_eq!(output(items).stop, Some(ReplyEnd::Empty), "{items:?}");
    }
    assert_eq!(
        output(&[json!({"type": "compaction", "encrypted_content": "x"})]).stop,
        Some(ReplyEnd::Empty)
    );
    let picture = json!({"type": "image_generation_call", "id": "ig_1", "result": "QUJD"});
    assert_eq!(output(&[picture]).stop, Some(ReplyEnd::EndTurn));
    let odd = responses().end(response("weird", &[]).to_string()).unwrap();
    assert_eq!((odd.stop, odd.raw_stop.as_deref()), (Some(ReplyEnd::Other), Some("weird")));
}

#[test]
fn a_tool_that_takes_any_text() {
    let item = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_c", "name": "patch",
        "input": "*** Begin"});
    let whole = output(std::slice::from_ref(&item));
    assert_eq!(calls(&whole), [("call_c", "patch", "*** Begin")]);
    assert!(whole.tool_calls[0].arguments.object().is_err());
    assert_eq!((raw(&whole), whole.stop), (json!([item]), Some(ReplyEnd::ToolUse)));
    let piece = |text: &str| delta("custom_tool_call_input", "ctc_1", 0, text);
    let events = [created(), added(0, &item), piece("*** "), piece("Begin"), done(0, &item), completed(&[])];
    assert_eq!(end(&events).unwrap().tool_calls, whole.tool_calls);
}

// L18
#[test]
fn two_calls_with_one_id() {
    let items = [reasoning(&[]), function("fc_1", "a", "find", "{}"), function("fc_2", "a", "look", "{}")];
    let reply = output(&items);
    assert_eq!(calls(&reply), [("a", "find", "{}"), ("a-2", "look", "{}")]);
    // Results of these ids would not fit the items.
    assert_eq!(reply.raw, None);
}

// wire WU02, L21
#[test]
fn tokens_in_disjoint_buckets() {
    let usage = |usage: Value, long: bool| {
        let mut wire = responses();
        wire.request.cache.long = long;
        let mut last = completed(&[message("So")]);
        last["response"]["usage"] = usage;
        wire.end(named(&[last])).unwrap()
    };
    let reported = json!({"input_tokens": 2006, "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 500},
        "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2016});
    let counts =
        Usage { input: 506, cache_read: 1000, cache_write_short: 500, output: 10, ..Usage::default() };
    assert_eq!(usage(reported.clone(), false).usage, Some(counts));
    // Nothing is asked to be kept for long, so nothing is counted as that.
    assert_eq!(usage(reported, true).usage, Some(counts));
    let reported = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 300,
        "output_tokens_details": {"reasoning_tokens": 192}});
    let reply = usage(reported, false);
    let counts = Usage { cache_read: 10, output: 108, reasoning: 192, ..Usage::default() };
    assert_eq!((reply.usage, &*reply.warnings), (Some(counts), &["usage_inconsistent".into()][..]));
    assert_eq!(usage(Value::Null, false).usage, None);
    for odd in
        [json!({"input_tokens": -1, "output_tokens": 1}), json!({"input_tokens": 1e12, "output_tokens": 1})]
    {
        let reply = usage(odd, false);
        assert_eq!((reply.usage, &*reply.warnings), (None, &["usage_unusable".into()][..]));
    }
    // xAI says what it cost.
    let mut last = completed(&[message("So")]);
    last["response"]["usage"]["cost_in_usd_ticks"] = 9_243_500.into();
    let reply = Wire::new("xai", "grok-4.3").end(named(&[last])).unwrap();
    assert_eq!(reply.cost, Some(PicoUsd(924_350_000)));
}

// wire WX10, L14
#[test]
fn a_second_end_is_not_heard() {
    let items = [message("So")];
    let mut later = response("completed", &[message("So"), message("Later")]);
    later["usage"]["output_tokens"] = 99.into();
    let events =
        [completed(&items), json!({"type": "response.completed", "response": later}), failed("server_error")];
    let reply = end(&events).unwrap();
    assert_eq!((&*reply.text, reply.usage.unwrap().output), ("So", 2));
    assert_eq!(reply.warnings, ["second_end".into()]);
    let after = named(&[completed(&items), delta("output_text", "msg_2", 1, "?")]) + "data: [DONE]\n\n";
    let reply = responses().end(after).unwrap();
    assert_eq!((&*reply.text, &*reply.warnings), ("So", &[][..]));
}

// wire WE26, L15
#[test]
fn bytes_that_are_no_text() {
    let events = [
        added(0, &message("")),
        delta("output_text", "msg_1", 0, "a@b"),
        done(0, &message("a@b")),
        completed(&[]),
    ];
    let mut body = named(&events).into_bytes();
    body.iter_mut().filter(|byte| **byte == b'@').for_each(|byte| *byte = 0xff);
    let reply = responses().end(&body).unwrap();
    assert_eq!((&*reply.text, &*reply.warnings), ("a\u{fffd}b", &["invalid_utf8".into()][..]));
    let mut body =
        named(&[delta("function_call_arguments", "fc_1", 0, "{\"q\":\"@\"}"), completed(&[])]).into_bytes();
    body.iter_mut().filter(|byte| **byte == b'@').for_each(|byte| *byte = 0xff);
    assert_eq!(responses().end(&body).unwrap_err().kind, FailureKind::BadResponse);
    let error = responses().end("data: {\"type\":\n\n").unwrap_err();
    assert_eq!(error.kind, FailureKind::BadResponse);
    for body in ["null", "[]", "{}", "{\"detail\":\"x\"}", "<html>", "\"x\""] {
        let error = responses().end(body).unwrap_err();
        assert_eq!((error.kind, error.is_retryable()), (FailureKind::BadResponse, true), "{body}");
    }
}

// wire WX09
#[test]
fn arguments_keep_their_text() {
    let arguments = r#"{"b": 1.0, "a":12345678901234567890123, "a":"\ud83d\ude00"}"#;
    let reply = output(&[function("fc_1", "a", "find", arguments)]);
    assert_eq!(calls(&reply), [("a", "find", arguments)]);
    for (arguments, is_object) in [("", true), ("{\"a\":1", false), ("[1]", false)] {
        let reply = output(&[function("fc_1", "a", "find", arguments)]);
        assert_eq!(reply.tool_calls[0].arguments.object().is_ok(), is_object, "{arguments}");
        assert_eq!(**reply.tool_calls[0].arguments.text(), *arguments);
    }
}

#[test]
fn secrets_do_not_come_back() {
    let mut wire = responses();
    wire.secrets = Secrets::of(["hunter2-hunter2"]);
    let items = [reasoning(&["hunter2-hunter2"]), message("at hunter2-hunter2")];
    let mut events = vec![added(0, &items[0]), done(0, &items[0])];
    events.extend(
        "at hunter2-hunter2".chars().map(|c| delta("output_text", "msg_1", 1, c.encode_utf8(&mut [0; 4]))),
    );
    events.push(completed(&items));
    let reply = wire.end(named(&events)).unwrap();
    assert_eq!((&*reply.text, &*reply.reasoning), ("at [masked]", "[masked]"));
    assert!(!format!("{reply:?}").contains("hunter2"), "{reply:?}");
}

// L23
#[test]
fn more_items_than_any_reply_has() {
    let items: String = (0..1_001).map(|nth| format!("{{\"type\":\"x\",\"id\":\"{nth}\"}},")).collect();
    let body = format!("{{\"status\":\"completed\",\"output\":[{items}{{}}]}}");
    let cut = responses().decode(&[body.as_bytes()]).pop().unwrap();
    assert!(matches!(cut, Ok(ModelEvent::Finished(reply)) if reply.stop == Some(ReplyEnd::Capped)));
}

// X6: Bedrock counts the parts of an item in another way when they are whole.
#[test]
fn a_part_that_is_whole_under_another_index_is_told_once() {
    let piece = |at: usize, text: &str| {
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
        "content_index": at, "delta": text})
    };
    let whole = |at: usize, text: &str| {
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0,
        "content_index": at, "text": text})
    };
    let item = |texts: &[&str]| {
        let parts: Vec<Value> =
            texts.iter().map(|text| json!({"type": "output_text", "text": text})).collect();
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts})
    };
    let reported = |events: Vec<Value>, item: Value| {
        let mut all = vec![created()];
        all.extend(events);
        all.extend([done(0, &item), completed(&[item])]);
        let reply = end(&all).unwrap();
        assert!(reply.warnings.is_empty(), "{:?}", reply.warnings);
        reply.text.to_string()
    };
    for (in_pieces, in_whole) in [(0, 1), (1, 0), (0, 0), (3, 7)] {
        let events = vec![piece(in_pieces, "po"), piece(in_pieces, "ng"), whole(in_whole, "pong")];
        assert_eq!(reported(events.clone(), item(&["pong"])), "pong", "{in_pieces} and {in_whole}");
        assert_eq!(reported(events[..2].to_vec(), item(&["", "pong"])), "pong");
    }
    // Parts that say the same are two, and so are one that came in pieces and one that did not.
    assert_eq!(
        reported(vec![piece(0, "a"), whole(0, "a"), piece(1, "a"), whole(1, "a")], item(&["a", "a"])),
        "aa"
    );
    assert_eq!(reported(vec![piece(0, "a")], item(&["a", "a"])), "aa");
    assert_eq!(reported(vec![piece(1, "a"), piece(2, "ab")], item(&["a", "ab"])), "aab");
}

// X7: xAI gives one id to several items of reasoning.
#[test]
fn items_that_share_an_id_are_kept_by_their_places() {
    let thought = |n: u32| {
        json!({"type": "reasoning", "id": "rs_1", "status": "completed",
        "summary": [{"type": "summary_text", "text": format!("T{n}. ")}], "encrypted_content": format!("g{n}")})
    };
    let call = |n: u32| function(&format!("fc_{n}"), &format!("call_{n}"), "look", "{}");
    let items = [thought(1), call(1), thought(2), call(2)];
    let mut events = vec![created()];
    for (nth, item) in items.iter().enumerate() {
        let begun = match item["type"] == "reasoning" {
            true => json!({"type": "reasoning", "id": "rs_1", "summary": []}),
            false => {
                json!({"type": "function_call", "id": item["id"], "call_id": item["call_id"], "name": "look", "arguments": ""})
            }
        };
        events.push(json!({"type": "response.output_item.added", "output_index": nth, "item": begun}));
        if item["type"] == "reasoning" {
            events.push(json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": nth,
                "summary_index": 0, "delta": item["summary"][0]["text"]}));
        }
        events.push(done(nth, item));
    }
    events.push(completed(&items));
    for reply in [end(&events).unwrap(), output(&items)] {
        assert_eq!(&*reply.reasoning, "T1. T2. ");
        assert_eq!(raw(&reply), json!(items));
        assert_eq!(calls(&reply).len(), 2);
        assert!(reply.warnings.is_empty(), "{:?}", reply.warnings);
    }
    // The same item told twice is one.
    let again =
        vec![created(), done(0, &items[0]), done(0, &items[0]), done(1, &items[1]), completed(&items[..2])];
    assert_eq!(raw(&end(&again).unwrap()), json!(items[..2]));
}

// X4
#[test]
fn a_call_that_names_no_tool_is_left_out() {
    let reply = output(&[message("So"), function("fc_1", "a", "", "{}")]);
    assert_eq!((&*reply.text, reply.tool_calls.len(), reply.stop), ("So", 0, Some(ReplyEnd::EndTurn)));
    assert_eq!(*reply.warnings, ["call_without_name".into()]);
    assert!(!raw(&reply).to_string().contains("function_call"));
}

// T18
#[test]
fn no_call_is_kept_without_the_arguments_that_were_sent() {
    let remove = |arguments: &str| function("fc_1", "b", "remove", arguments);
    let piece = |id: &str, index: u64, delta: &str| json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": index, "delta": delta});
    let begun = json!({"type": "response.output_item.added", "output_index": 0, "item": remove("")});
    let again = |id: &str| added(0, &function(id, "b", "remove", ""));
    let wanted = [("b", "remove", "{\"only\":\"drafts\"}")];
    for pieces in [
        // Another index and id, or an id that changes with each event.
        vec![piece("fc_2", 1, "{\"only\":"), piece("fc_2", 1, "\"drafts\"}")],
        vec![piece("x1", 0, "{\"only\":"), piece("x2", 0, "\"drafts\"}")],
        // The call begins again with each of its pieces.
        vec![again("x1"), piece("x1", 0, "{\"only\":"), again("x2"), piece("x2", 0, "\"drafts\"}")],
    ] {
        let events = [&[created(), begun.clone()], &pieces[..], &[completed(&[])]].concat();
        assert_eq!(calls(&end(&events).unwrap()), wanted, "{pieces:?}");
    }
}
