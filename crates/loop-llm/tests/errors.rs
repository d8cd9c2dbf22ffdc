//! What statuses, headers and bodies of errors mean, whoever sent them, and what errors behind a 200 do.

use crate::common;

use std::time::{Duration, SystemTime};

use common::Wire;
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind as Kind;
use loop_llm::codec::classify;
use loop_llm::error::{RequestChange, RetryAdvice};
use loop_llm::{ErrorPhase, LlmError};
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::{Value, json};

/// Saturday, 21 November 2026, 12:00:00 GMT.
const NOW: u64 = 1_795_262_400;

#[track_caller]
fn error(status: u16, headers: &[(&str, &str)], body: impl ToString) -> LlmError {
    let header = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
    };
    let headers: HeaderMap = headers.iter().map(header).collect();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let secrets = Secrets::of(["hunter2!"]);
    let error = classify(status, &headers, body.to_string().as_bytes(), now, &secrets);
    assert_eq!((error.phase, error.detail.as_ref().unwrap().status), (ErrorPhase::Headers, Some(status)));
    error
}

/// OpenAI's form.
fn stated(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "t", "param": null, "code": code}})
}

/// Anthropic's form.
fn typed(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_9"})
}

/// Google's form.
fn status(code: u16, status: &str, message: &str, details: Value) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

fn reason(reason: &str) -> Value {
    json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}])
}

fn after(milliseconds: u64) -> RetryAdvice {
    RetryAdvice::After(Duration::from_millis(milliseconds))
}

/// What an error that is the first event of a stream becomes, the same as the first chunk and as a whole body.
#[track_caller]
fn within(profile: &str, body: &Value) -> LlmError {
    let error = Wire::new(profile, "m").stream(std::slice::from_ref(body)).unwrap_err();
    assert_eq!(Wire::new(profile, "m").end(body.to_string()).unwrap_err(), error, "as a whole");
    assert_eq!((error.phase, error.detail.as_ref().and_then(|it| it.status)), (ErrorPhase::Stream, None));
    error
}

// wire WE01 WE22 WE23 WQ08, L1
#[test]
fn delays_by_header_date_words_and_window() {
    let retry = |headers: &[(&str, &str)], message: &str| {
        error(429, headers, stated("rate_limit_exceeded", message)).retry
    };
    assert_eq!(retry(&[("retry-after-ms", "1500"), ("retry-after", "9")], ""), after(1_500));
    assert_eq!(retry(&[("retry-after", "9")], "try again in 1s"), after(9_000));
    assert_eq!(retry(&[("retry-after", "Sat, 21 Nov 2026 12:00:30 GMT")], ""), after(30_000));
    assert_eq!(retry(&[("retry-after", "Sat, 21 Nov 2026 11:00:00 GMT")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after", "0")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after-ms", "0")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after", "3600")], ""), after(3_600_000));
    assert_eq!(retry(&[("retry-after", "-5")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after", "1e300")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after", "2m1.5s")], ""), after(121_500));
    assert_eq!(retry(&[], "Please try again in 5.289s. Visit us"), after(5_289));
    assert_eq!(retry(&[], "Please retry after 20 seconds."), after(20_000));
    assert_eq!(retry(&[], "try again in 1m26.5s"), after(86_500));
    assert_eq!(retry(&[], "slowly"), RetryAdvice::Backoff);
}

// L1
#[test]
fn an_empty_bucket_says_when_it_is_full_again() {
    let wait = |remaining: &str, reset: &str, at: &str| {
        let headers = [(remaining, "0"), (reset, at)];
        error(429, &headers, stated("rate_limit_exceeded", "slow")).retry
    };
    let openai = |at: &str| wait("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", at);
    assert_eq!(openai("6m0s"), after(360_000));
    assert_eq!(openai("120ms"), after(120));
    assert_eq!(openai("17"), after(17_000));
    let anthropic = |at: &str| {
        wait("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset", at)
    };
    assert_eq!(anthropic("2026-11-21T12:00:30Z"), after(30_000));
    assert_eq!(anthropic("2026-11-21T13:00:30.5+01:00"), after(30_500));
    assert_eq!(anthropic("2026-11-21T06:30:01-05:30"), after(1_000));
    for odd in ["2026-11-21T11:00:00Z", "2026-11-21T", "2026-13-21T12:00:30Z", "T", "2026-11-21T1:1", "soon"]
    {
        assert_eq!(anthropic(odd), RetryAdvice::Backoff, "{odd}");
    }
    let moment = (NOW + 90) * 1_000;
    assert_eq!(wait("x-ratelimit-remaining", "x-ratelimit-reset", &moment.to_string()), after(90_000));
    assert_eq!(wait("x-ratelimit-remaining", "x-ratelimit-reset", &(NOW + 2).to_string()), after(2_000));
    // The one that is empty, and not another.
    let both = [
        ("x-ratelimit-remaining-requests", "9"),
        ("x-ratelimit-reset-requests", "1h"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    assert_eq!(error(429, &both, stated("rate_limit_exceeded", "")).retry, after(360_000));
    // OpenRouter tells the headers of the provider behind it.
    let headers = json!({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": moment.to_string()});
    let behind = json!({"error": {"code": 429, "message": "slow", "metadata": {"headers": headers}}});
    assert_eq!(error(429, &[], behind).retry, after(90_000));
}

// wire WE02 WE03 WE05 WE08 WE13 WQ06 WQ23, L2 L3 L4
#[test]
fn kinds_by_status_and_code() {
    let check = |status, code: &str, kind: Kind, retry: RetryAdvice| {
        let error = error(status, &[], stated(code, "it does not like it"));
        assert_eq!((error.kind, error.retry), (kind, retry), "{status} {code}");
    };
    let (never, backoff) = (RetryAdvice::Never, RetryAdvice::Backoff);
    for code in [
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    ] {
        check(429, code, Kind::QuotaExhausted, never);
    }
    check(402, "", Kind::Billing, never);
    check(402, "payment_required", Kind::Billing, never);
    check(429, "slow_down", Kind::Overloaded, backoff);
    check(429, "", Kind::RateLimited, backoff);
    check(401, "invalid_api_key", Kind::Auth, never);
    check(403, "", Kind::Permission, never);
    check(404, "model_not_found", Kind::ModelNotFound, never);
    check(400, "model_not_found", Kind::ModelNotFound, never);
    check(404, "DeploymentNotFound", Kind::ModelNotFound, never);
    check(404, "", Kind::InvalidRequest, never);
    check(400, "", Kind::InvalidRequest, never);
    for code in ["content_filter", "invalid_prompt", "content_policy_violation", "bio_policy"] {
        check(400, code, Kind::ContentFilter, never);
    }
    check(400, "tool_use_failed", Kind::MalformedToolCall, RetryAdvice::AfterChange(RequestChange::Feedback));
    check(413, "", Kind::RequestTooLarge, never);
    check(408, "", Kind::Timeout, backoff);
    check(504, "", Kind::Timeout, backoff);
    check(409, "", Kind::ServerError, backoff);
    check(500, "server_error", Kind::ServerError, backoff);
    check(502, "", Kind::ServerError, backoff);
    check(503, "server_is_overloaded", Kind::Overloaded, backoff);
    check(503, "", Kind::Overloaded, backoff);
    check(529, "overloaded_error", Kind::Overloaded, backoff);
    check(498, "", Kind::Overloaded, backoff);
    check(499, "", Kind::Cancelled, never);
    let big = "Request too large: Limit 10, Requested 20 tokens per min";
    let big = error(429, &[], stated("rate_limit_exceeded", big));
    assert_eq!((big.kind, big.retry), (Kind::RequestTooLarge, never));
    let in_flight = error(402, &[("retry-after", "3")], stated("payment_required", "in flight"));
    assert_eq!((in_flight.kind, in_flight.retry), (Kind::RateLimited, after(3_000)));
}

// wire WE06
#[test]
fn what_only_the_other_interface_takes() {
    let effort = json!({"error": {"message": "Function tools with reasoning_effort are not supported for gpt-x in \
         /v1/chat/completions. Please use /v1/responses instead.", "param": "reasoning_effort"}});
    let only = stated("", "This model is only supported in v1/responses and not in v1/chat/completions.");
    for (status, body) in [(400, effort), (404, only)] {
        let error = error(status, &[], body);
        let advice = RetryAdvice::AfterChange(RequestChange::OtherApi);
        assert_eq!((error.kind, error.retry), (Kind::InvalidRequest, advice), "{status}");
    }
    let other = stated("", "reasoning_effort has to be low, medium or high");
    assert_eq!(error(400, &[], other).retry, RetryAdvice::Never);
}

// wire WE10 WE11
#[test]
fn anthropic_says_it_by_type() {
    let check = |status, kind: &str, message: &str, wanted: Kind, retryable: bool| {
        let error = error(status, &[], typed(kind, message));
        assert_eq!((error.kind, error.is_retryable()), (wanted, retryable), "{status} {kind} {message}");
        assert_eq!(error.detail.unwrap().request.as_deref(), Some("req_9"));
    };
    check(401, "authentication_error", "no", Kind::Auth, false);
    check(402, "billing_error", "no", Kind::Billing, false);
    check(403, "permission_error", "no", Kind::Permission, false);
    check(404, "not_found_error", "no", Kind::ModelNotFound, false);
    check(409, "conflict_error", "no", Kind::ServerError, true);
    check(413, "request_too_large", "no", Kind::RequestTooLarge, false);
    check(429, "rate_limit_error", "no", Kind::RateLimited, true);
    check(500, "api_error", "no", Kind::ServerError, true);
    check(504, "timeout_error", "no", Kind::Timeout, true);
    check(529, "overloaded_error", "no", Kind::Overloaded, true);
    let wrong = "invalid_request_error";
    check(400, wrong, "no", Kind::InvalidRequest, false);
    check(400, wrong, "Your credit balance is too low to access the API.", Kind::Billing, false);
    let limits = "You have reached your specified API usage limits. You will regain access on 2026-12-01.";
    check(400, wrong, limits, Kind::QuotaExhausted, false);
    check(400, wrong, "Output blocked by content filtering policy", Kind::ContentFilter, false);

    assert_eq!(error(429, &[("retry-after", "30")], typed("rate_limit_error", "slow")).retry, after(30_000));
    let mut spent = typed("rate_limit_error", "This would exceed the spend limit");
    spent["error"]["details"] = json!({"error_code": "enforced_spend_limit_reached"});
    let spent = error(429, &[], spent);
    assert_eq!((spent.kind, spent.retry), (Kind::QuotaExhausted, RetryAdvice::Never));
}

// wire WE14 WE15 WE16 WE17
#[test]
fn google_says_it_by_status_and_details() {
    let retry_in =
        |delay: &str| json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
    let quota = |id: &str| json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]});
    let minute = quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    let limited = |message: &str, details: Value| {
        let error = error(429, &[], status(429, "RESOURCE_EXHAUSTED", message, details));
        (error.kind, error.retry)
    };
    assert_eq!(limited("slow", json!([minute, retry_in("34s")])), (Kind::RateLimited, after(34_000)));
    assert_eq!(limited("again in 9s", json!([retry_in("34.07s")])), (Kind::RateLimited, after(34_070)));
    assert_eq!(limited("Please retry in 12.3s.", json!([])), (Kind::RateLimited, after(12_300)));
    assert_eq!(limited("limit: 20, model: m", json!([])), (Kind::RateLimited, RetryAdvice::Backoff));
    assert_eq!(limited("limit: 0.5", json!([])), (Kind::RateLimited, RetryAdvice::Backoff));
    for (message, details) in [
        ("slow", json!([quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), retry_in("34s")])),
        ("limit: 10, and limit: 0, model: m", json!([minute, retry_in("34s")])),
    ] {
        assert_eq!(limited(message, details), (Kind::QuotaExhausted, RetryAdvice::Never), "{message}");
    }
    let check = |code, word: &str, details: Value, wanted: Kind| {
        let body = status(code, word, "no", details);
        assert_eq!(error(code, &[], &body).kind, wanted, "{code} {word}");
        // What streams as a list fails as one.
        assert_eq!(error(code, &[], json!([body])).kind, wanted, "[{code} {word}]");
        assert_eq!(within("gemini", &body).kind, wanted, "200 {code} {word}");
    };
    check(400, "INVALID_ARGUMENT", reason("API_KEY_INVALID"), Kind::Auth);
    check(400, "FAILED_PRECONDITION", json!([]), Kind::Permission);
    check(400, "INVALID_ARGUMENT", json!([]), Kind::InvalidRequest);
    check(401, "UNAUTHENTICATED", json!([]), Kind::Auth);
    check(403, "PERMISSION_DENIED", json!([]), Kind::Permission);
    check(403, "PERMISSION_DENIED", reason("BILLING_DISABLED"), Kind::Billing);
    check(404, "NOT_FOUND", json!([]), Kind::ModelNotFound);
    check(429, "RESOURCE_EXHAUSTED", json!([]), Kind::RateLimited);
    check(499, "CANCELLED", json!([]), Kind::Cancelled);
    check(500, "INTERNAL", json!([]), Kind::ServerError);
    check(503, "UNAVAILABLE", json!([]), Kind::Overloaded);
    check(504, "DEADLINE_EXCEEDED", json!([]), Kind::Timeout);
}

// wire WR18 WR19 WE12 WE18
#[test]
fn reasoning_and_state_that_are_not_taken_any_more() {
    let stale = (Kind::StaleReasoning, RetryAdvice::AfterChange(RequestChange::StripReasoning));
    let reported = |error: LlmError| (error.kind, error.retry);
    let wrong = "invalid_request_error";
    let signature = "Function call is missing a thought_signature in functionCall parts.";
    let bodies = [
        stated("invalid_encrypted_content", "no"),
        stated("", "The encrypted content gAAA could not be verified."),
        stated(
            "",
            "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        ),
        stated("", "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
        typed(wrong, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        typed(
            wrong,
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        ),
        status(400, "INVALID_ARGUMENT", signature, json!([])),
    ];
    for body in bodies {
        assert_eq!(reported(error(400, &[], &body)), stale, "{body}");
    }
    // The same behind a 200.
    assert_eq!(reported(within("openai-responses", &stated("invalid_encrypted_content", "no"))), stale);
    assert_eq!(
        reported(within("anthropic", &typed(wrong, "Invalid `signature` in `thinking` block"))),
        stale
    );
    let lost = stated("previous_response_not_found", "Previous response with id 'resp_1' not found.");
    let rebuild = RetryAdvice::AfterChange(RequestChange::RebuildState);
    assert_eq!(reported(error(400, &[], lost)), (Kind::StateLost, rebuild));
    let other = typed(wrong, "thinking.budget_tokens: Input should be greater than or equal to 1024");
    assert_eq!(reported(error(400, &[], other)), (Kind::InvalidRequest, RetryAdvice::Never));
    assert_eq!(error(500, &[], stated("", "the signature of thinking")).kind, Kind::ServerError);
}

// wire WQ03
#[test]
fn a_filter_tells_what_it_found() {
    let results = json!({
        "hate": {"filtered": false, "severity": "safe"},
        "jailbreak": {"detected": true, "filtered": true},
        "violence": {"filtered": true, "severity": "high"},
    });
    let azure = json!({"error": {"code": "content_filter", "param": "prompt", "status": 400, "message": "filtered",
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": results}}});
    let listed = json!({"error": {"code": "content_filter", "message": "filtered", "content_filters": [
        {"blocked": true, "source_type": "prompt", "content_filter_results": results}]}});
    let moderated = json!({"error": {"code": 403, "message": "flagged",
        "metadata": {"reasons": ["harassment"], "flagged_input": "x"}}});
    for (status, body, wanted) in [
        (400, azure, Some("jailbreak, violence")),
        (400, listed, Some("jailbreak, violence")),
        (403, moderated, Some("harassment")),
        (400, stated("content_filter", "filtered"), None),
    ] {
        let error = error(status, &[], &body);
        assert_eq!((error.kind, error.retry), (Kind::ContentFilter, RetryAdvice::Never), "{body}");
        assert_eq!(error.detail.unwrap().category.as_deref(), wanted, "{body}");
    }
}

// wire WE04 WE09 WE17 WQ32
#[test]
fn a_request_that_does_not_fit() {
    let check = |status, body: Value, used, max| {
        let error = error(status, &[], &body);
        let detail = error.detail.unwrap();
        assert_eq!((error.kind, error.retry), (Kind::ContextTooLong, RetryAdvice::Never), "{body}");
        assert_eq!((detail.used_tokens, detail.max_tokens), (used, max), "{body}");
    };
    let text = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens";
    check(400, stated("context_length_exceeded", text), Some(130_001), Some(128_000));
    let llama =
        json!({"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192});
    check(400, json!({"error": llama}), Some(9000), Some(8192));
    let wrong = "invalid_request_error";
    check(
        400,
        typed(wrong, "prompt is too long: 208310 tokens > 200000 maximum"),
        Some(208_310),
        Some(200_000),
    );
    let sum = "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease them";
    check(400, typed(wrong, sum), Some(190_000), Some(200_000));
    check(413, stated("", "Please reduce the length of the messages"), None, None);
    let google = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
    check(400, status(400, "INVALID_ARGUMENT", google, json!([])), Some(1_200_000), Some(1_048_576));
    check(500, stated("", google), Some(1_200_000), Some(1_048_576));
    let flat = json!({"object": "error", "message": "the request exceeds the available context size"});
    check(400, flat, None, None);
    let xai = "This model's maximum prompt length is 131072 but the request contains 140000 tokens.";
    check(400, json!({"code": "x", "error": xai}), Some(140_000), Some(131_072));
    let mistral = "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length";
    check(400, json!({"object": "error", "message": mistral}), Some(40_000), Some(32_768));
    let behind = json!({"code": 400, "message": "Provider returned error", "metadata": {"raw": text}});
    check(400, json!({"error": behind}), Some(130_001), Some(128_000));
    let word = json!({"code": 400, "message": "no", "metadata": {"error_type": "context_length_exceeded"}});
    check(400, json!({"error": word}), None, None);
    assert_eq!(error(429, &[], stated("", "maximum context length, tokens per min")).kind, Kind::RateLimited);
}

#[test]
fn only_the_beginning_of_a_message_is_judged_and_each_match_by_what_is_near() {
    let kind = |message: &str| error(400, &[], stated("", message)).kind;
    let pad = |bytes: usize| "x ".repeat(bytes / 2);
    assert_eq!(kind(&format!("{} exceeds the context length", pad(4_000))), Kind::ContextTooLong);
    assert_eq!(kind(&format!("{} exceeds the context length", pad(4_100))), Kind::InvalidRequest);
    assert_eq!(kind(&format!("exceeds the {}context", "é".repeat(10))), Kind::ContextTooLong);
    assert_eq!(kind(&format!("exceeds the {}context", "é".repeat(20))), Kind::InvalidRequest);
    assert_eq!(kind("exceeds it. context"), Kind::InvalidRequest);
    // It comes to an end: by the square of its length it would take an hour.
    let long = error(400, &[], stated("", &"exceed".repeat(1 << 20)));
    assert_eq!((long.kind, long.message.chars().count()), (Kind::InvalidRequest, 501));
    let retry = error(429, &[], stated("", &format!("{} try again in 7s", pad(4_200)))).retry;
    assert_eq!(retry, RetryAdvice::Backoff);
}

#[test]
fn what_is_too_large_stays_so_whatever_else_is_said() {
    for code in ["rate_limit_exceeded", "slow_down", "insufficient_quota", "timeout", "invalid_api_key"] {
        let headers = [("x-should-retry", "true"), ("retry-after", "3")];
        let error =
            error(413, &headers, stated(code, "Request too large for model, tokens per minute (TPM)"));
        assert_eq!((error.kind, error.retry), (Kind::RequestTooLarge, RetryAdvice::Never), "{code}");
    }
}

// wire WE07
#[test]
fn a_server_that_knows_whether_to_try_again() {
    assert_eq!(error(500, &[("x-should-retry", "false")], "").retry, RetryAdvice::Never);
    assert_eq!(error(500, &[("x-should-retry", "false")], "").kind, Kind::ServerError);
    assert_eq!(error(400, &[("x-should-retry", "true")], "").retry, RetryAdvice::Backoff);
    let stale = error(400, &[("x-should-retry", "true")], stated("invalid_encrypted_content", "no"));
    assert_eq!(stale.retry, RetryAdvice::AfterChange(RequestChange::StripReasoning));
    let reported = loop_llm::report::ModelReport::of(Err(stale.clone())).error.unwrap();
    assert_eq!(
        (reported.retryable, json!(reported.change)),
        (stale.is_retryable(), json!("strip_reasoning"))
    );
    let available = |availability: Value| json!({"error": {"code": 503, "message": "no", "metadata": {"availability": availability}}});
    let never = available(json!({"retryable": false}));
    assert_eq!(error(503, &[], never).retry, RetryAdvice::Never);
    let later = available(json!({"retryable": true, "retry_after": 2.5}));
    assert_eq!(error(503, &[], later).retry, after(2_500));
}

// wire WQ33
#[test]
fn a_server_that_is_loading_its_model_is_given_time() {
    let body = json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}});
    let error_ = error(503, &[], &body);
    assert_eq!((error_.kind, error_.retry), (Kind::Overloaded, after(10_000)));
    assert_eq!(error(503, &[("retry-after", "2")], body).retry, after(2_000));
    let template = "Conversation roles must alternate user/assistant: {{ raise_exception('...') }}";
    let broken = json!({"error": {"code": 500, "message": template, "type": "server_error"}});
    let broken = error(500, &[], broken);
    let change = RetryAdvice::AfterChange(RequestChange::InstructAsUser);
    assert_eq!((broken.kind, broken.retry), (Kind::InvalidRequest, change));
}

// wire WE25 WE27 WQ11 WQ24 WQ28 WQ41
#[test]
fn bodies_of_any_form_become_one_masked_line() {
    let check = |status, body: &str, kind: Kind, message: &str| {
        let error = error(status, &[("x-request-id", "req_1")], body);
        assert_eq!((error.kind, &*error.message), (kind, message), "{body}");
        assert_eq!(error.detail.unwrap().request.as_deref(), Some("req_1"));
    };
    let key = r#"{"error":{"message":"Incorrect key: hunter2!\nSee"}}"#;
    check(401, key, Kind::Auth, "Incorrect key: *** See");
    let marked = r#"{"error":{"message":"Incorrect key: sk-proj-0123456789"}}"#;
    check(401, marked, Kind::Auth, "Incorrect key: ***");
    check(400, r#"{"code":"x","error":"text"}"#, Kind::InvalidRequest, "text");
    check(400, r#"{"object":"error","message":"flat","code":40001}"#, Kind::InvalidRequest, "flat");
    check(422, r#"{"detail":[{"loc":["body","x"],"msg":"wrong"}]}"#, Kind::InvalidRequest, "body.x: wrong");
    let page = "an HTML page in place of JSON: 502 Bad Gateway";
    check(502, "<HTML><head><title>502 Bad Gateway</title>", Kind::ServerError, page);
    check(500, "", Kind::ServerError, "status 500 without a message");
    check(500, "oh\tno", Kind::ServerError, "oh no");
    check(500, "[[],7]", Kind::ServerError, "status 500 without a message");
    check(307, "", Kind::BadResponse, "status 307 without a message");
}

// wire WQ07 WQ19 WQ20 WQ28, L7
#[test]
fn errors_behind_a_200() {
    let chat = |body: Value| within("compatible", &json!({"error": body}));
    let limited = json!({"type": "invalid_request_error", "code": "rate_limit_exceeded", "message": "slow"});
    assert_eq!((chat(limited.clone()).kind, chat(limited).is_retryable()), (Kind::RateLimited, true));
    let busy = chat(json!({"type": "invalid_request_error", "code": 503, "message": "busy"}));
    assert_eq!((busy.kind, busy.is_retryable()), (Kind::Overloaded, true));
    let wrong = chat(json!({"type": "invalid_request_error", "message": "no"}));
    assert_eq!((wrong.kind, wrong.retry), (Kind::InvalidRequest, RetryAdvice::Never));
    let router = json!({"code": 429, "message": "slow", "metadata": {"availability": {"retry_after": 7}}});
    assert_eq!((chat(router.clone()).kind, chat(router).retry), (Kind::RateLimited, after(7_000)));
    let gone = chat(json!({"code": 502, "message": "m", "metadata": {"error_type": "provider_unavailable"}}));
    assert_eq!((gone.kind, gone.retry), (Kind::ServerError, RetryAdvice::Backoff));
    let paid = chat(json!({"code": 402, "message": "m", "metadata": {"error_type": "payment_required"}}));
    assert_eq!((paid.kind, paid.retry), (Kind::Billing, RetryAdvice::Never));
    let call = json!({"type": "invalid_request_error", "code": "tool_use_failed", "message": "m"});
    let feedback = RetryAdvice::AfterChange(RequestChange::Feedback);
    assert_eq!((chat(call.clone()).kind, chat(call).retry), (Kind::MalformedToolCall, feedback));
    let flat = within("compatible", &json!({"object": "error", "message": "no", "type": "x", "code": 400}));
    assert_eq!(flat.kind, Kind::InvalidRequest);
    let silent = chat(json!({}));
    assert_eq!((silent.kind, silent.is_retryable()), (Kind::ServerError, true));
}

// wire WE08, L7
#[test]
fn a_stream_of_messages_tells_an_error_by_its_type_alone() {
    let kind = |word: &str| within("anthropic", &typed(word, "m")).kind;
    assert_eq!(kind("overloaded_error"), Kind::Overloaded);
    assert_eq!(kind("rate_limit_error"), Kind::RateLimited);
    assert_eq!(kind("api_error"), Kind::ServerError);
    assert_eq!(kind("timeout_error"), Kind::Timeout);
    assert_eq!(kind("invalid_request_error"), Kind::InvalidRequest);
    assert_eq!(kind("authentication_error"), Kind::Auth);
    assert_eq!(kind("permission_error"), Kind::Permission);
    assert_eq!(kind("not_found_error"), Kind::ModelNotFound);
    assert_eq!(kind("billing_error"), Kind::Billing);
    assert_eq!(kind("request_too_large"), Kind::RequestTooLarge);
}

// T17
#[test]
fn what_a_server_refuses_by_name_is_told() {
    let openai = |param: &str, message: &str| json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": null}});
    let template =
        |message: &str| json!({"error": {"code": 500, "message": message, "type": "server_error"}});
    for (status, body, change) in [
        (400, openai("tool_choice", "tool_choice none is not supported"), RequestChange::LeaveToolChoice),
        (
            422,
            json!({"detail": [{"loc": ["body", "tool_choice"], "msg": "Input should be 'auto'"}]}),
            RequestChange::LeaveToolChoice,
        ),
        (400, openai("", "Unknown parameter: 'parallel_tool_calls'"), RequestChange::LeaveOneCall),
        (
            500,
            template("Jinja Exception: System message must be at the beginning."),
            RequestChange::InstructAsUser,
        ),
        (400, openai("messages[4].role", "Invalid value: 'system'"), RequestChange::InstructAsUser),
        (
            400,
            json!({"error": "Only user and assistant roles are supported!"}),
            RequestChange::InstructAsUser,
        ),
        // Issue 43, P5: a user's message after results, by the provider and behind another.
        (
            400,
            json!({"object": "error", "message": "Unexpected role 'user' after role 'tool'",
                "type": "invalid_request_message_order", "param": null, "code": "3230"}),
            RequestChange::InstructAsUser,
        ),
        (
            400,
            json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw":
                "{\"object\":\"error\",\"message\":\"Unexpected role 'user' after role 'tool'\",\"code\":\"3230\"}"}}}),
            RequestChange::InstructAsUser,
        ),
        // What names nothing.
        (400, Value::Null, RequestChange::LeaveNew),
        (400, json!({"error": {"message": "Bad Request"}}), RequestChange::LeaveNew),
        (400, openai("", "Invalid request."), RequestChange::LeaveNew),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Error"}}),
            RequestChange::LeaveNew,
        ),
        (
            400,
            json!({"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}}),
            RequestChange::LeaveNew,
        ),
        (422, json!({"detail": "Unprocessable Entity"}), RequestChange::LeaveNew),
    ] {
        let error = error(status, &[("x-should-retry", "false")], &body);
        assert_eq!(
            (error.kind, error.retry),
            (Kind::InvalidRequest, RetryAdvice::AfterChange(change)),
            "{body}"
        );
        assert!(error.is_free(), "{body}");
    }
    // Another parameter that is refused is not left out, and what passes is what it was.
    let other = error(400, &[], openai("temperature", "temperature is not supported with tool_choice"));
    assert_eq!((other.kind, other.retry), (Kind::InvalidRequest, RetryAdvice::Never));
    assert_eq!(error(500, &[], template("internal error")).kind, Kind::ServerError);
    assert_eq!(error(503, &[], template("tool_choice worker is busy")).kind, Kind::Overloaded);
}
