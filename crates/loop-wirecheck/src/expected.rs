//! What a reply should have become: stop, usage and kind of error by tables of their own, written from what the
//! providers document and not from our codecs.

use loop_core::Usage;
use loop_llm::{Api, LlmErrorKind, ReplyEnd};
use serde_json::Value;

use super::exchange::{Exchange, Expect};

/// The stops that fit to what was recorded; `None` where nothing was said of the end.
pub(crate) fn stops(api: Api, exchange: &Exchange, expect: &Expect) -> Option<Vec<ReplyEnd>> {
    let word = expect.finish.as_deref()?;
    let has_calls = expect.calls.as_ref().map(|calls| !calls.is_empty());
    if expect.refusal.as_deref().is_some_and(|refusal| !refusal.is_empty()) {
        return Some(vec![ReplyEnd::Refusal]);
    }
    let reported = by_word(api, word, &exchange.body);
    Some(match reported {
        ReplyEnd::Refusal
        | ReplyEnd::ContentFilter
        | ReplyEnd::MalformedToolCall
        | ReplyEnd::MaxTokens
        | ReplyEnd::ContextWindow
        | ReplyEnd::PauseTurn
        | ReplyEnd::Compaction => vec![reported],
        // What was not written down is not held against anything.
        ReplyEnd::ToolUse if has_calls.is_none() => vec![ReplyEnd::ToolUse, ReplyEnd::MalformedToolCall],
        _ if has_calls.is_none() => vec![reported, ReplyEnd::ToolUse, ReplyEnd::Empty],
        _ if has_calls == Some(true) => vec![ReplyEnd::ToolUse],
        ReplyEnd::ToolUse => vec![ReplyEnd::MalformedToolCall],
        ReplyEnd::EndTurn if expect.text.is_none() => vec![ReplyEnd::EndTurn, ReplyEnd::Empty],
        ReplyEnd::EndTurn if expect.text.as_deref().is_some_and(|text| text.trim().is_empty()) => {
            // What is neither text nor a call of ours counts as something; only where there is some.
            let has_other =
                !expect.server_tools.is_empty() || OTHERS.iter().any(|word| holds(&exchange.body, word));
            if has_other { vec![ReplyEnd::EndTurn, ReplyEnd::Empty] } else { vec![ReplyEnd::Empty] }
        }
        reported => vec![reported],
    })
}

fn by_word(api: Api, word: &str, body: &[u8]) -> ReplyEnd {
    match api {
        Api::OpenaiChat => match word {
            "stop" => ReplyEnd::EndTurn,
            "tool_calls" | "function_call" => ReplyEnd::ToolUse,
            "length" => ReplyEnd::MaxTokens,
            "model_length" => ReplyEnd::ContextWindow,
            "content_filter" => ReplyEnd::ContentFilter,
            _ => ReplyEnd::Other,
        },
        Api::OpenaiResponses => {
            let reason = word.rsplit([':', ' ']).next().unwrap_or_default();
            match reason {
                "completed" => ReplyEnd::EndTurn,
                "max_output_tokens" => ReplyEnd::MaxTokens,
                "content_filter" => ReplyEnd::ContentFilter,
                "incomplete" if holds(body, "max_output_tokens\"}") => ReplyEnd::MaxTokens,
                "incomplete" if holds(body, "content_filter\"}") => ReplyEnd::ContentFilter,
                _ => ReplyEnd::Other,
            }
        }
        Api::Anthropic => match word {
            "end_turn" => ReplyEnd::EndTurn,
            "tool_use" => ReplyEnd::ToolUse,
            "max_tokens" => ReplyEnd::MaxTokens,
            "stop_sequence" => ReplyEnd::StopSequence,
            "model_context_window_exceeded" => ReplyEnd::ContextWindow,
            "pause_turn" => ReplyEnd::PauseTurn,
            "compaction" => ReplyEnd::Compaction,
            "refusal" => ReplyEnd::Refusal,
            _ => ReplyEnd::Other,
        },
        Api::Gemini => match word {
            "STOP" => ReplyEnd::EndTurn,
            "MAX_TOKENS" => ReplyEnd::MaxTokens,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
            | "MODEL_ARMOR" => ReplyEnd::ContentFilter,
            "IMAGE_SAFETY" | "IMAGE_PROHIBITED_CONTENT" | "IMAGE_RECITATION" | "IMAGE_OTHER" => {
                ReplyEnd::ContentFilter
            }
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
                ReplyEnd::MalformedToolCall
            }
            _ if word.starts_with("blocked") => ReplyEnd::ContentFilter,
            _ => ReplyEnd::Other,
        },
    }
}

/// Whether a body holds a text, blanks in the body apart.
fn holds(body: &[u8], text: &str) -> bool {
    let body: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    String::from_utf8_lossy(&body).contains(text)
}

/// What replies hold beside text and calls.
const OTHERS: [&str; 7] = [
    "\"inlineData\"",
    "\"executableCode\"",
    "\"image_generation_call\"",
    "\"images\":[{",
    "\"audio\":{",
    "\"type\":\"server_tool_use\"",
    "\"redacted_thinking\"",
];

/// The buckets out of what the provider said; `None` where there is nothing to count with.
pub(crate) fn usage(api: Api, reported: &Value) -> Option<Usage> {
    let at = |pointer: &str| reported.pointer(pointer).and_then(Value::as_u64);
    let first = |pointers: &[&str]| pointers.iter().find_map(|pointer| at(pointer));
    let zero = |pointer: &str| at(pointer).unwrap_or(0);
    let mut usage = Usage::default();
    match api {
        Api::OpenaiChat => {
            let (prompt, completion) = (at("/prompt_tokens")?, at("/completion_tokens")?);
            let cached = [
                "/prompt_tokens_details/cached_tokens",
                "/prompt_token_details/cached_tokens",
                "/prompt_cache_hit_tokens",
                "/num_cached_tokens",
            ];
            usage.cache_read = first(&cached).unwrap_or(0).min(prompt);
            let written = zero("/prompt_tokens_details/cache_write_tokens");
            usage.cache_write_short = written.min(prompt - usage.cache_read);
            usage.input = prompt - usage.cache_read - usage.cache_write_short;
            let reasoning = zero("/completion_tokens_details/reasoning_tokens");
            let is_beside = reasoning > 0 && at("/total_tokens") == Some(prompt + completion + reasoning);
            usage.reasoning = if is_beside { reasoning } else { reasoning.min(completion) };
            usage.output = if is_beside { completion } else { completion - usage.reasoning };
        }
        Api::OpenaiResponses => {
            let (input, output) = (at("/input_tokens")?, at("/output_tokens")?);
            usage.cache_read = zero("/input_tokens_details/cached_tokens").min(input);
            let written = zero("/input_tokens_details/cache_write_tokens");
            usage.cache_write_short = written.min(input - usage.cache_read);
            usage.input = input - usage.cache_read - usage.cache_write_short;
            usage.reasoning = zero("/output_tokens_details/reasoning_tokens").min(output);
            usage.output = output - usage.reasoning;
        }
        Api::Anthropic => {
            let output = at("/output_tokens")?;
            usage.input = zero("/input_tokens");
            usage.cache_read = zero("/cache_read_input_tokens");
            usage.cache_write_long = zero("/cache_creation/ephemeral_1h_input_tokens");
            let written = zero("/cache_creation_input_tokens");
            usage.cache_write_short = at("/cache_creation/ephemeral_5m_input_tokens")
                .unwrap_or_else(|| written.saturating_sub(usage.cache_write_long));
            usage.reasoning = zero("/output_tokens_details/thinking_tokens").min(output);
            usage.output = output - usage.reasoning;
        }
        Api::Gemini => {
            let tools = zero("/toolUsePromptTokenCount");
            let prompt = zero("/promptTokenCount");
            usage.cache_read = zero("/cachedContentTokenCount").min(prompt);
            usage.input = prompt - usage.cache_read + tools;
            usage.reasoning = zero("/thoughtsTokenCount");
            let left = || Some(at("/totalTokenCount")?.saturating_sub(prompt + tools + usage.reasoning));
            usage.output = at("/candidatesTokenCount").or_else(left)?;
        }
    }
    Some(usage)
}

/// The kinds that fit to an error: its status and what its body says.
pub(crate) fn kinds(status: u16, body: &[u8]) -> Vec<LlmErrorKind> {
    use LlmErrorKind as Kind;
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let quoted = |words: &[&str]| words.iter().any(|word| text.contains(&format!("\"{word}\"")));
    if matches!(status, 400 | 413 | 422 | 500) {
        let overflow =
            ["prompt is too long", "exceeds the maximum number of tokens", "maximum context length"];
        if quoted(&["context_length_exceeded", "exceed_context_size_error"]) || has(&overflow) {
            return vec![Kind::ContextTooLong];
        }
    }
    if quoted(&SPENT) || has(&["enforced_spend_limit_reached", "specified api usage limits"]) {
        return vec![Kind::QuotaExhausted];
    }
    let of_word = WORDS.iter().find(|(words, statuses, _)| statuses.contains(&status) && quoted(words));
    if let Some((_, _, kind)) = of_word {
        return vec![*kind];
    }
    match status {
        400 if has(&["api_key_invalid", "api key not valid"]) => vec![Kind::Auth],
        400 if quoted(&["failed_precondition"]) => vec![Kind::Permission],
        400 if has(&["thought_signature", "thought signature", "encrypted content"]) => {
            vec![Kind::StaleReasoning]
        }
        400 if has(&["signature"]) && has(&["thinking"]) => vec![Kind::StaleReasoning],
        400 if has(&["credit balance is too low"]) => vec![Kind::Billing],
        400 | 405 | 415 | 422 | 424 => vec![Kind::InvalidRequest],
        401 => vec![Kind::Auth],
        402 => vec![Kind::Billing, Kind::RateLimited],
        403 => vec![Kind::Permission],
        404 if has(&["model", "not_found_error", "not_found"]) => vec![Kind::ModelNotFound],
        404 => vec![Kind::InvalidRequest, Kind::ModelNotFound],
        408 | 504 => vec![Kind::Timeout],
        409 => vec![Kind::ServerError],
        413 => vec![Kind::RequestTooLarge],
        429 if has(&["perday", "daily", "limit: 0"]) => vec![Kind::QuotaExhausted],
        429 if has(&["request too large"]) => vec![Kind::RequestTooLarge],
        429 if quoted(&["slow_down"]) => vec![Kind::Overloaded],
        429 => vec![Kind::RateLimited],
        499 => vec![Kind::Cancelled],
        498 | 503 | 529 => vec![Kind::Overloaded],
        500.. => vec![Kind::ServerError],
        400..500 => vec![Kind::InvalidRequest],
        _ => vec![Kind::BadResponse],
    }
}

/// The kinds that fit to an error object within a 2xx.
pub(crate) fn kinds_within(error: &Value) -> Vec<LlmErrorKind> {
    let inner = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
    let number = ["status_code", "status", "code"].iter().find_map(|key| {
        let value = inner.get(*key)?;
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
        u16::try_from(number).ok().filter(|number| (400..600).contains(number))
    });
    let body = inner.to_string();
    let of_type =
        TYPES.iter().find(|(word, _)| body.contains(&format!("\"{word}\""))).map(|(_, status)| *status);
    kinds(number.or(of_type).unwrap_or(500), body.as_bytes())
}

/// Codes of an account that has nothing left.
const SPENT: [&str; 5] = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
];

type Row = (&'static [&'static str], &'static [u16], LlmErrorKind);

/// Codes that say more than the status that they come with.
const WORDS: [Row; 5] = [
    (
        &["content_filter", "content_policy_violation", "invalid_prompt", "bio_policy"],
        &[400, 422, 500],
        LlmErrorKind::ContentFilter,
    ),
    (&["tool_use_failed"], &[400, 422, 500], LlmErrorKind::MalformedToolCall),
    (&["model_not_found"], &[400, 403, 404], LlmErrorKind::ModelNotFound),
    (&["previous_response_not_found"], &[400, 404], LlmErrorKind::StateLost),
    (&["invalid_encrypted_content"], &[400], LlmErrorKind::StaleReasoning),
];

/// The status that an error's type has where it comes with one.
const TYPES: [(&str, u16); 12] = [
    ("rate_limit_exceeded", 429),
    ("rate_limit_error", 429),
    ("RESOURCE_EXHAUSTED", 429),
    ("overloaded_error", 529),
    ("server_is_overloaded", 503),
    ("UNAVAILABLE", 503),
    ("timeout_error", 504),
    ("authentication_error", 401),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("invalid_request_error", 400),
    ("api_error", 500),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::super::exchange::ExpectedCall;
    use super::*;

    fn buckets(api: Api, reported: &Value) -> [u64; 6] {
        let usage = usage(api, reported).unwrap();
        let writes = (usage.cache_write_short, usage.cache_write_long);
        [usage.input, usage.cache_read, writes.0, writes.1, usage.output, usage.reasoning]
    }

    #[test]
    fn buckets_are_disjoint() {
        let chat = json!({"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920}, "completion_tokens_details": {"reasoning_tokens": 192}});
        assert_eq!(buckets(Api::OpenaiChat, &chat), [86, 1920, 0, 0, 108, 192]);
        let beside = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115,
            "completion_tokens_details": {"reasoning_tokens": 100}});
        assert_eq!(buckets(Api::OpenaiChat, &beside), [10, 0, 0, 0, 5, 100]);
        let odd = json!({"prompt_tokens": 10, "completion_tokens": 1, "num_cached_tokens": 20});
        assert_eq!(buckets(Api::OpenaiChat, &odd), [0, 10, 0, 0, 1, 0]);
        let responses = json!({"input_tokens": 2006, "output_tokens": 10,
            "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 500}});
        assert_eq!(buckets(Api::OpenaiResponses, &responses), [506, 1000, 500, 0, 10, 0]);
        let anthropic = json!({"input_tokens": 50, "cache_read_input_tokens": 1800, "output_tokens": 300,
            "cache_creation_input_tokens": 200, "output_tokens_details": {"thinking_tokens": 120},
            "cache_creation": {"ephemeral_5m_input_tokens": 150, "ephemeral_1h_input_tokens": 50}});
        assert_eq!(buckets(Api::Anthropic, &anthropic), [50, 1800, 150, 50, 180, 120]);
        let plain = json!({"input_tokens": 1, "cache_creation_input_tokens": 200, "output_tokens": 2});
        assert_eq!(buckets(Api::Anthropic, &plain), [1, 0, 200, 0, 2, 0]);
        let gemini = json!({"promptTokenCount": 2006, "cachedContentTokenCount": 1920, "candidatesTokenCount": 108,
            "thoughtsTokenCount": 192, "toolUsePromptTokenCount": 4});
        assert_eq!(buckets(Api::Gemini, &gemini), [90, 1920, 0, 0, 108, 192]);
        let thoughts = json!({"promptTokenCount": 60, "thoughtsTokenCount": 40, "totalTokenCount": 100});
        assert_eq!(buckets(Api::Gemini, &thoughts), [60, 0, 0, 0, 0, 40]);
        assert_eq!(usage(Api::OpenaiChat, &json!({"prompt_tokens": 1})), None);
    }

    #[test]
    fn calls_decide_unless_the_reply_was_cut() {
        let expect = |finish: &str, calls: usize, text: &str| Expect {
            finish: Some(finish.to_owned()),
            calls: Some(vec![ExpectedCall::default(); calls]),
            text: Some(text.to_owned()),
            ..Expect::default()
        };
        let stop = |api, finish: &str, calls, text: &str| {
            stops(api, &Exchange::default(), &expect(finish, calls, text)).unwrap()
        };
        assert_eq!(stop(Api::OpenaiChat, "stop", 1, ""), [ReplyEnd::ToolUse]);
        assert_eq!(stop(Api::OpenaiChat, "length", 1, ""), [ReplyEnd::MaxTokens]);
        assert_eq!(stop(Api::OpenaiChat, "tool_calls", 0, "a"), [ReplyEnd::MalformedToolCall]);
        assert_eq!(stop(Api::Gemini, "STOP", 0, " "), [ReplyEnd::Empty]);
        assert_eq!(stop(Api::Gemini, "blocked:SAFETY", 0, ""), [ReplyEnd::ContentFilter]);
        assert_eq!(stop(Api::OpenaiResponses, "completed", 0, "a"), [ReplyEnd::EndTurn]);
        assert_eq!(
            stop(Api::OpenaiResponses, "incomplete: max_output_tokens", 0, "a"),
            [ReplyEnd::MaxTokens]
        );
        assert_eq!(stop(Api::Anthropic, "model_context_window_exceeded", 0, "a"), [ReplyEnd::ContextWindow]);
        assert_eq!(stops(Api::Anthropic, &Exchange::default(), &Expect::default()), None);
        let word_alone = Expect { finish: Some("tool_calls".to_owned()), ..Expect::default() };
        let fitting = stops(Api::OpenaiChat, &Exchange::default(), &word_alone);
        assert_eq!(fitting.unwrap(), [ReplyEnd::ToolUse, ReplyEnd::MalformedToolCall]);
    }

    #[test]
    fn a_kind_fits_status_and_body() {
        use LlmErrorKind as Kind;
        let kinds = |status, body: &str| super::kinds(status, body.as_bytes());
        assert_eq!(kinds(429, "{\"error\":{\"code\":\"insufficient_quota\"}}"), [Kind::QuotaExhausted]);
        assert_eq!(kinds(429, "{}"), [Kind::RateLimited]);
        assert_eq!(kinds(400, "{\"error\":{\"code\":\"model_not_found\"}}"), [Kind::ModelNotFound]);
        assert_eq!(kinds(400, "prompt is too long: 2 tokens > 1 maximum"), [Kind::ContextTooLong]);
        assert_eq!(kinds(529, ""), [Kind::Overloaded]);
        let within = |error: Value| kinds_within(&error);
        assert_eq!(within(json!({"code": "tool_use_failed", "status_code": 400})), [Kind::MalformedToolCall]);
        assert_eq!(within(json!({"type": "overloaded_error"})), [Kind::Overloaded]);
        assert_eq!(within(json!({"error": {"code": 429, "message": "slow"}})), [Kind::RateLimited]);
        assert_eq!(within(json!({"message": "?"})), [Kind::ServerError]);
    }
}
