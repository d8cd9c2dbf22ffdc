//! What statuses, headers and bodies of errors mean.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime};

use loop_llm::openai_chat::{Aliases, Decoder, classify};
use loop_llm::{ErrorCause, ErrorPhase, LlmError, LlmErrorKind as Kind, RetryAdvice, Secrets};
use reqwest::header::{HeaderMap, HeaderName};
use secrecy::SecretString;
use serde_json::json;

/// Saturday, 21 November 2026, 12:00:00 GMT.
const NOW: u64 = 1_795_262_400;

fn error(status: u16, headers: &[(&str, &str)], body: impl ToString) -> LlmError {
    let header = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
    };
    let headers: HeaderMap = headers.iter().map(header).collect();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let secrets = Secrets::new([SecretString::from("hunter2!")]);
    let error = classify(status, &headers, body.to_string().as_bytes(), now, &secrets);
    assert_eq!((error.phase, error.detail.as_ref().unwrap().status), (ErrorPhase::Headers, Some(status)));
    error
}

fn said(code: &str, message: &str) -> serde_json::Value {
    json!({"error": {"message": message, "type": "t", "param": null, "code": code}})
}

fn after(milliseconds: u64) -> RetryAdvice {
    RetryAdvice::After(Duration::from_millis(milliseconds))
}

// WE01 WE22 WE23 WQ08
#[test]
fn delays_by_header_date_words_and_window() {
    let retry = |headers: &[(&str, &str)], message: &str| {
        error(429, headers, said("rate_limit_exceeded", message)).retry
    };
    assert_eq!(retry(&[("retry-after-ms", "1500"), ("retry-after", "9")], ""), after(1_500));
    assert_eq!(retry(&[("retry-after", "9")], "try again in 1s"), after(9_000));
    assert_eq!(retry(&[("retry-after", "Sat, 21 Nov 2026 12:00:30 GMT")], ""), after(30_000));
    assert_eq!(retry(&[("retry-after", "Sat, 21 Nov 2026 11:00:00 GMT")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after", "0")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after-ms", "0")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[("retry-after", "3600")], ""), after(3_600_000));
    assert_eq!(retry(&[("retry-after", "-5")], ""), RetryAdvice::Backoff);
    assert_eq!(retry(&[], "Please try again in 5.289s. Visit us"), after(5_289));
    assert_eq!(retry(&[], "Please retry after 20 seconds."), after(20_000));
    assert_eq!(retry(&[], "try again in 1m26.5s"), after(86_500));
    let window = [
        ("x-ratelimit-remaining-requests", "9"),
        ("x-ratelimit-reset-requests", "1h"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    assert_eq!(retry(&window, ""), after(360_000));
    assert_eq!(retry(&[], "slowly"), RetryAdvice::Backoff);
}

// WE02 WE03 WE05 WE06 WQ03 WQ06 WQ23 WQ33
#[test]
fn kinds_by_status_and_code() {
    let check = |status, code: &str, kind: Kind, cause: Option<ErrorCause>| {
        let error = error(status, &[], said(code, "the model does not like it"));
        assert_eq!((error.kind, error.cause()), (kind, cause), "{status} {code}");
        error.is_retryable()
    };
    assert!(!check(429, "insufficient_quota", Kind::RateLimited, Some(ErrorCause::QuotaExhausted)));
    assert!(!check(402, "", Kind::RateLimited, Some(ErrorCause::QuotaExhausted)));
    assert!(check(429, "slow_down", Kind::Overloaded, None));
    assert!(!check(401, "invalid_api_key", Kind::Auth, None));
    assert!(!check(403, "", Kind::Auth, Some(ErrorCause::Permission)));
    assert!(!check(404, "model_not_found", Kind::ModelNotFound, None));
    assert!(!check(400, "", Kind::InvalidRequest, None));
    assert!(!check(400, "content_filter", Kind::InvalidRequest, Some(ErrorCause::ContentFilter)));
    assert!(!check(400, "tool_use_failed", Kind::BadResponse, Some(ErrorCause::MalformedToolCall)));
    assert!(!check(413, "", Kind::InvalidRequest, Some(ErrorCause::RequestTooLarge)));
    assert!(check(408, "", Kind::Timeout, None));
    assert!(check(409, "", Kind::ServerError, None));
    assert!(check(500, "server_error", Kind::ServerError, None));
    assert!(check(502, "", Kind::ServerError, None));
    assert!(check(503, "unavailable_error", Kind::Overloaded, None));
    let effort = json!({"error": {"message": "Function tools with reasoning_effort are not supported", "param": "reasoning_effort"}});
    assert_eq!(error(400, &[], effort).cause(), Some(ErrorCause::OtherInterface));
    let big = error(
        429,
        &[],
        said("rate_limit_exceeded", "Request too large: Limit 10, Requested 20 tokens per min"),
    );
    assert_eq!((big.cause(), big.retry), (Some(ErrorCause::RequestTooLarge), RetryAdvice::Never));
    assert_eq!(error(402, &[("retry-after", "3")], said("", "in flight")).retry, after(3_000));
}

// WE04 WQ32
#[test]
fn a_request_that_does_not_fit() {
    let check = |status, body: serde_json::Value, used, max| {
        let error = error(status, &[], body);
        assert_eq!(
            (error.kind, error.cause()),
            (Kind::ContextTooLong, Some(ErrorCause::Context { used, max }))
        );
    };
    let text = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens";
    check(400, said("context_length_exceeded", text), Some(130_001), Some(128_000));
    check(
        400,
        json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}}),
        Some(9000),
        Some(8192),
    );
    check(400, said("", "prompt is too long: 208310 tokens > 200000 maximum"), Some(208_310), Some(200_000));
    check(413, said("", "Please reduce the length of the messages"), None, None);
    check(
        500,
        said("", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        Some(1_200_000),
        Some(1_048_576),
    );
    check(
        400,
        json!({"object": "error", "message": "the request exceeds the available context size"}),
        None,
        None,
    );
    assert_eq!(error(429, &[], said("", "maximum context length, tokens per min")).kind, Kind::RateLimited);
}

#[test]
fn only_the_beginning_of_a_message_is_judged_and_each_match_by_what_is_near() {
    let kind = |message: &str| error(400, &[], said("", message)).kind;
    let pad = |bytes: usize| "x ".repeat(bytes / 2);
    assert_eq!(kind(&format!("{} exceeds the context length", pad(4_000))), Kind::ContextTooLong);
    assert_eq!(kind(&format!("{} exceeds the context length", pad(4_100))), Kind::InvalidRequest);
    assert_eq!(kind(&format!("exceeds the {}context", "é".repeat(10))), Kind::ContextTooLong);
    assert_eq!(kind(&format!("exceeds the {}context", "é".repeat(20))), Kind::InvalidRequest);
    assert_eq!(kind("exceeds it. context"), Kind::InvalidRequest);
    // It comes to an end: by the square of its length it would take an hour.
    let long = error(400, &[], said("", &"exceed".repeat(1 << 20)));
    assert_eq!((long.kind, long.message.chars().count()), (Kind::InvalidRequest, 501));
    let retry = error(429, &[], said("", &format!("{} try again in 7s", pad(4_200)))).retry;
    assert_eq!(retry, RetryAdvice::Backoff);
}

#[test]
fn what_is_too_large_stays_so_whatever_else_is_said() {
    for code in ["rate_limit_exceeded", "slow_down", "insufficient_quota", "timeout", "invalid_api_key"] {
        let headers = [("x-should-retry", "true"), ("retry-after", "3")];
        let error = error(413, &headers, said(code, "Request too large for model, tokens per minute (TPM)"));
        let told = (error.kind, error.cause(), error.retry);
        assert_eq!(
            told,
            (Kind::InvalidRequest, Some(ErrorCause::RequestTooLarge), RetryAdvice::Never),
            "{code}"
        );
    }
}

// WE07
#[test]
fn a_server_that_knows_whether_to_try_again() {
    assert_eq!(error(500, &[("x-should-retry", "false")], "").retry, RetryAdvice::Never);
    assert_eq!(error(400, &[("x-should-retry", "true")], "").retry, RetryAdvice::Backoff);
}

// WE25 WE27 WQ11 WQ24 WQ28 WQ41
#[test]
fn bodies_of_any_form_become_one_masked_line() {
    let check = |status, body: &str, kind: Kind, message: &str| {
        let error = error(status, &[("x-request-id", "req_1")], body);
        assert_eq!((error.kind, &*error.message), (kind, message), "{body}");
        assert_eq!(error.detail.unwrap().request.as_deref(), Some("req_1"));
    };
    check(
        401,
        r#"{"error":{"message":"Incorrect key: hunter2!\nSee"}}"#,
        Kind::Auth,
        "Incorrect key: *** See",
    );
    check(
        401,
        r#"{"error":{"message":"Incorrect key: sk-proj-0123456789"}}"#,
        Kind::Auth,
        "Incorrect key: ***",
    );
    check(400, r#"{"code":"x","error":"text"}"#, Kind::InvalidRequest, "text");
    check(400, r#"{"object":"error","message":"flat","code":40001}"#, Kind::InvalidRequest, "flat");
    check(422, r#"{"detail":[{"loc":["body","x"],"msg":"wrong"}]}"#, Kind::InvalidRequest, "body.x: wrong");
    check(
        502,
        "<HTML><head><title>502 Bad Gateway</title>",
        Kind::ServerError,
        "an HTML page in place of JSON: 502 Bad Gateway",
    );
    check(500, "", Kind::ServerError, "status 500 without a message");
    check(500, "oh\tno", Kind::ServerError, "oh no");
    check(307, "", Kind::BadResponse, "status 307 without a message");
}

#[test]
fn what_passes_is_told_by_its_code_whatever_the_type_beside_it_says() {
    // WE05: an error within a 200.
    let ended = |body: &str| {
        let mut decoder = Decoder::new(Aliases::default(), Secrets::default());
        let mut items = decoder.push(format!("data: {{\"error\":{body}}}\n\n").as_bytes());
        items.extend(decoder.finish());
        items.pop().unwrap().unwrap_err()
    };
    let limited =
        ended("{\"type\":\"invalid_request_error\",\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}");
    assert_eq!((limited.kind, limited.is_retryable()), (Kind::RateLimited, true));
    let busy = ended("{\"type\":\"invalid_request_error\",\"code\":503,\"message\":\"busy\"}");
    assert!(busy.is_retryable(), "{busy:?}");
    let wrong = ended("{\"type\":\"invalid_request_error\",\"message\":\"no\"}");
    assert!(!wrong.is_retryable(), "{wrong:?}");
}
