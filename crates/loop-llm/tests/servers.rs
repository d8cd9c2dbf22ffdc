//! Bodies of compatible servers and gateways as people met them: counts, refusals and waits in forms of their own.

use std::time::{Duration, SystemTime};

use loop_core::secrets::Secrets;
use loop_core::types::FailureKind as Kind;
use loop_llm::codec::classify;
use loop_llm::error::RetryAdvice;
use loop_llm::model::ReplyEnd;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::common::Wire;

/// Input and output tokens of a reply whose last chunks are these. `None`: unknown.
fn counted(api: &str, chunks: &[Value]) -> Option<(u64, u64)> {
    let reply = Wire::new(api, "m").stream(chunks).unwrap();
    assert_eq!(&*reply.text, "a", "{chunks:?}");
    reply.usage.map(|usage| (usage.total_input(), usage.total_output()))
}

#[test]
fn counts_are_read_in_each_form_or_unknown() {
    let text = || json!({"choices": [{"index": 0, "delta": {"content": "a"}}]});
    let end = |usage: Value| {
        vec![
            text(),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        ]
    };
    let real = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let in_choice = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": real}]});
    let zeros =
        json!({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}});
    for (chunks, wanted) in [
        (vec![text(), in_choice], Some((10, 5))),
        (end(json!({"prompt_tokens": 10.0, "completion_tokens": 5.0})), Some((10, 5))),
        (end(json!({"prompt_tokens": "10", "completion_tokens": "5"})), Some((10, 5))),
        (end(json!({"prompt_tokens": 10.5, "completion_tokens": 5})), None),
        (end(json!({"input_tokens": 10, "output_tokens": 5})), Some((10, 5))),
        ([end(real.clone()), vec![zeros]].concat(), Some((10, 5))),
        (
            [end(real), vec![json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 0}})]]
                .concat(),
            Some((10, 5)),
        ),
        (end(json!({"prompt_tokens": 0, "completion_tokens": 5})), None),
        (end(json!({"prompt_tokens": -1, "completion_tokens": 5})), None),
    ] {
        assert_eq!(counted("compatible", &chunks), wanted, "{chunks:?}");
    }
    // Reasoning beside the completion, of a server that is not known to count so.
    let chunks = end(
        json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 215, "completion_tokens_details": {"reasoning_tokens": 200}}),
    );
    let reply = Wire::new("compatible", "m").stream(&chunks).unwrap();
    assert_eq!(
        (reply.usage.map(|usage| usage.total_output()), &*reply.warnings),
        (Some(205), &["usage_inconsistent".into()][..])
    );
    let message = |start: Value, delta: Option<Value>| {
        let mut last = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
        if let Some(usage) = delta {
            last["usage"] = usage;
        }
        vec![
            json!({"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": start}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}),
            json!({"type": "content_block_stop", "index": 0}),
            last,
            json!({"type": "message_stop"}),
        ]
    };
    let start = json!({"input_tokens": 10, "output_tokens": 1});
    for (delta, wanted) in [
        // The count at the beginning is a placeholder.
        (None, None),
        (Some(json!({})), None),
        (Some(json!({"output_tokens": 5})), Some((10, 5))),
        (Some(json!({"input_tokens": 0, "output_tokens": 5})), Some((10, 5))),
        (Some(json!({"output_tokens": 5.0})), Some((10, 5))),
        (Some(json!({"prompt_tokens": 12, "completion_tokens": 5})), Some((12, 5))),
    ] {
        assert_eq!(counted("anthropic", &message(start.clone(), delta.clone())), wanted, "{delta:?}");
    }
    let parts = |usage: Value| json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}], "usageMetadata": usage});
    for (usage, wanted) in [
        (json!({"candidatesTokenCount": 5}), None),
        (json!({"candidatesTokenCount": 5, "totalTokenCount": 5}), None),
        (json!({"candidatesTokenCount": 5, "totalTokenCount": 15}), Some((10, 5))),
        (
            json!({"promptTokenCount": 10.0, "candidatesTokenCount": "5", "totalTokenCount": 15}),
            Some((10, 5)),
        ),
        (json!({"promptTokenCount": 0, "candidatesTokenCount": 5, "totalTokenCount": 5}), None),
    ] {
        assert_eq!(counted("gemini", &[parts(usage.clone())]), wanted, "{usage}");
    }
}

fn kind_of(status: u16, body: &Value) -> Kind {
    classify(
        status,
        &HeaderMap::new(),
        body.to_string().as_bytes(),
        SystemTime::UNIX_EPOCH,
        &Secrets::default(),
    )
    .kind
}

#[test]
fn refusals_are_classified_by_words_and_fields() {
    for (status, body, kind) in [
        (
            401,
            json!({"error": {"message": "This model supports only 256K context", "type": "authentication_error"}}),
            Kind::ContextTooLong,
        ),
        (
            401,
            json!({"error": {"message": "Incorrect API key provided", "type": "authentication_error"}}),
            Kind::Auth,
        ),
        (403, json!({"error": {"message": "maximum context length is 4096 tokens"}}), Kind::ContextTooLong),
        (
            429,
            json!({"error": {"message": "too many input tokens per minute", "code": "rate_limit_exceeded"}}),
            Kind::RateLimited,
        ),
        (
            400,
            json!({"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
            Kind::ContextTooLong,
        ),
        (400, json!({"error": {"code": "1113", "message": "Insufficient balance"}}), Kind::Billing),
        // The numbers of one provider are those of others too, who mean something else.
        (400, json!({"error": {"code": "1002", "message": "x"}}), Kind::InvalidRequest),
        (400, json!({"error": {"code": 1008, "message": "x", "type": "bad_request"}}), Kind::InvalidRequest),
        (400, json!({"success": false, "errors": [{"code": 1002, "message": "x"}]}), Kind::InvalidRequest),
        (400, json!({"code": 1301, "message": "x"}), Kind::InvalidRequest),
        (
            400,
            json!({"object": "error", "code": "1302", "message": "x", "type": "invalid"}),
            Kind::InvalidRequest,
        ),
        (400, json!({"error": {"code": "1261", "message": "x", "param": null}}), Kind::InvalidRequest),
        (400, json!({"base_resp": {"status_code": 1113, "status_msg": "x"}}), Kind::InvalidRequest),
        (
            400,
            json!({"code": "InvalidParameter", "message": "Range of input length should be [1, 30720]"}),
            Kind::ContextTooLong,
        ),
        (400, json!({"code": "Arrearage", "message": "Access denied"}), Kind::Billing),
        (
            400,
            json!({"__type": "ThrottlingException", "message": "Too many requests, please wait"}),
            Kind::RateLimited,
        ),
        (
            400,
            json!({"success": false, "errors": [{"code": 5007, "message": "the context window limit was exceeded"}]}),
            Kind::ContextTooLong,
        ),
        (
            200,
            json!({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
            Kind::Billing,
        ),
    ] {
        assert_eq!(kind_of(status, &body), kind, "{status} {body}");
    }
    // In place of a reply, and within one.
    let minimax = |code: u64, message: &str| json!({"choices": null, "base_resp": {"status_code": code, "status_msg": message}});
    for (code, message, kind) in [
        (1008, "insufficient balance", Kind::Billing),
        (1002, "rate limit", Kind::RateLimited),
        (1004, "login fail", Kind::Auth),
        (2013, "invalid params, context window exceeds limit (2013)", Kind::ContextTooLong),
    ] {
        for body in [minimax(code, message).to_string(), format!("data: {}\n\n", minimax(code, message))] {
            let error = Wire::new("compatible", "m").end(body).unwrap_err();
            assert_eq!((error.kind, error.message.contains(message)), (kind, true), "{code}: {error:?}");
        }
    }
    let fine = json!({"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}], "base_resp": {"status_code": 0, "status_msg": ""}});
    assert_eq!(&*Wire::new("compatible", "m").end(fine.to_string()).unwrap().text, "a");
}

#[test]
fn an_error_field_of_a_stream_is_the_end_of_it() {
    let full = "the request exceeds the available context size. try increasing the context size";
    for profile in ["llama-cpp", "openai", "anthropic", "gemini"] {
        for (body, kind, says) in [
            (
                format!("error: {}\n\ndata: [DONE]\n\n", json!({"code": 400, "message": full})),
                Kind::ContextTooLong,
                full,
            ),
            (
                format!("error: {}\n\n", json!({"error": {"message": "boom", "code": 500}})),
                Kind::ServerError,
                "boom",
            ),
            ("error:out of memory\n".to_owned(), Kind::ServerError, "out of memory"),
        ] {
            let error = Wire::new(profile, "m").end(body).unwrap_err();
            assert_eq!((error.kind, &*error.message), (kind, says), "{profile}");
        }
    }
}

#[test]
fn a_wait_is_read_from_each_header_and_from_words() {
    let wait = |headers: &[(&'static str, &'static str)], message: &str| {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let body = json!({"error": {"message": message}}).to_string();
        match classify(429, &headers, body.as_bytes(), SystemTime::UNIX_EPOCH, &Secrets::default()).retry {
            RetryAdvice::After(wait) => Some(wait),
            _ => None,
        }
    };
    let seconds = |seconds: u64| Some(Duration::from_secs(seconds));
    for (headers, message, wanted) in [
        (&[("x-ms-retry-after-ms", "1500")][..], "", Some(Duration::from_millis(1500))),
        (&[("ratelimit", "limit=100, remaining=0, reset=50")], "", seconds(50)),
        (&[("ratelimit", "\"burst\";r=3;t=9, \"day\";r=0;t=70")], "", seconds(70)),
        (&[("ratelimit", "limit=100, remaining=4, reset=50")], "", None),
        (&[], "Please wait 2 seconds before making another request.", seconds(2)),
        (&[], "Rate limited, wait for about 5 s", seconds(5)),
        (&[], "You can try again after 30 seconds.", seconds(30)),
        (&[], "Please retry your request after 20 seconds.", seconds(20)),
        (&[], "wait until it is over, then wait 3 seconds", seconds(3)),
        (&[], "Please wait.", None),
    ] {
        assert_eq!(wait(headers, message), wanted, "{headers:?} {message}");
    }
}

#[test]
fn a_refusal_of_reasoning_names_the_setting() {
    let hint = |message: &str| {
        let body = json!({"error": {"message": message}}).to_string();
        classify(400, &HeaderMap::new(), body.as_bytes(), SystemTime::UNIX_EPOCH, &Secrets::default())
            .message
            .to_string()
    };
    let lacks = hint(
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
    );
    assert!(lacks.contains("reasoning_back = \"with_tool_calls\""), "{lacks}");
    let refuses = hint("Unexpected field reasoning_content in messages[1]");
    assert!(refuses.contains("reasoning_back = \"never\""), "{refuses}");
    assert!(!hint("model not found").contains("reasoning_back"));
}

#[test]
fn the_end_may_be_in_any_case_and_in_the_words_of_others() {
    for (word, stop) in [
        ("STOP", ReplyEnd::EndTurn),
        ("eos", ReplyEnd::EndTurn),
        ("LENGTH", ReplyEnd::MaxTokens),
        ("max_tokens", ReplyEnd::MaxTokens),
        ("odd", ReplyEnd::Other),
    ] {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": word}]});
        let reply = Wire::new("compatible", "m").stream(&[chunk]).unwrap();
        assert_eq!((reply.stop, reply.raw_stop.as_deref()), (Some(stop), Some(word)));
    }
}

#[test]
fn thoughts_of_local_models_are_split_from_their_text() {
    for profile in ["ollama", "vllm", "lm-studio", "llama-cpp", "compatible"] {
        for pieces in [&["<thi", "nk>secret</th", "ink>hi"][..], &["secret</think>", "hi"]] {
            let chunks: Vec<Value> = pieces
                .iter()
                .map(|piece| json!({"choices": [{"index": 0, "delta": {"content": piece}}]}))
                .collect();
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            let reply = Wire::new(profile, "m").stream(&[chunks, vec![end]].concat()).unwrap();
            assert_eq!(
                (&*reply.text, &*reply.reasoning, reply.stop),
                ("hi", "secret", Some(ReplyEnd::EndTurn)),
                "{profile} {pieces:?}"
            );
        }
    }
}
