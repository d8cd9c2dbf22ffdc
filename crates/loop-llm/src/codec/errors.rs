//! What a response that is no reply means.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::delay;
use crate::error::{Change, ErrorPhase, LlmError, LlmErrorKind, RetryAdvice};
use crate::mask;
use crate::secrets::Secrets;

/// The error that a response with a status other than 2xx stands for.
///
/// Delays that are dates are held against `now`; `secrets` are the credentials that were sent, and never stand in the
/// message. Of a long message only the first 4 KiB are judged.
pub fn classify(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
    secrets: &Secrets,
) -> LlmError {
    let text = String::from_utf8_lossy(body);
    let parsed = serde_json::from_str::<Value>(text.trim()).ok();
    let told = parsed.as_ref().map_or_else(|| Told::of_text(&text), Told::of);
    let mut error = judge(&told, status, headers, now, secrets);
    error.phase = ErrorPhase::Headers;
    error.detail.get_or_insert_default().status = Some(status);
    error
}

/// The error that an error object within a 200 stands for.
pub(crate) fn within(body: &Value, secrets: &Secrets) -> LlmError {
    let told = Told::of(body);
    // The number beside the text is a status, where it can be one.
    let number: Option<u16> =
        told.words.iter().find_map(|word| word.parse().ok().filter(|it| (400..600).contains(it)));
    // What passes is told by a number or a code, whatever the type beside it says.
    let passes =
        number.is_some_and(|it| it == 429 || it >= 500) || told.has(&PASSES) || told.has(&OVERLOADED);
    let faulty = REFUSALS.iter().find(|(word, _)| !passes && told.has(&[word])).map(|(_, status)| *status);
    let status = number.filter(|_| faulty.is_none()).or(faulty).unwrap_or(500);
    let mut error = judge(&told, status, &HeaderMap::new(), SystemTime::UNIX_EPOCH, secrets);
    if faulty.is_some() {
        error.retry = RetryAdvice::Never;
    }
    error
}

/// What an error body tells, whatever its form.
#[derive(Debug, Default)]
struct Told {
    message: String,
    /// Codes and types, in lower case.
    words: Vec<String>,
    param: String,
    used: Option<u64>,
    max: Option<u64>,
    retry_after: Option<f64>,
}

impl Told {
    fn of(body: &Value) -> Self {
        let error = body.get("error").filter(|error| !error.is_null());
        let object = match error {
            Some(error) if error.is_object() => error,
            _ => body,
        };
        let metadata = object.get("metadata");
        let inner = [object.get("innererror"), metadata, Some(body)];
        let word = |value: Option<&Value>| match value? {
            Value::String(text) => Some(head(text, MOST_WORD).to_ascii_lowercase()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let mut words: Vec<_> =
            ["code", "type", "status"].iter().filter_map(|key| word(object.get(key))).collect();
        words.extend(inner.iter().filter_map(|it| word(it.as_ref()?.get("code"))));
        words.extend(metadata.and_then(|metadata| word(metadata.get("error_type"))));
        let mut message = match error {
            Some(Value::String(text)) => text.clone(),
            _ => text_of(object.get("message")).or_else(|| details(body.get("detail"))).unwrap_or_default(),
        };
        if let Some(raw) = metadata.and_then(|metadata| text_of(metadata.get("raw"))) {
            message = format!("{message}: {raw}");
        }
        let number = |key: &str| object.get(key).and_then(Value::as_u64);
        let availability = metadata.and_then(|it| it.get("availability")).or(object.get("availability"));
        Self {
            message,
            words,
            param: object.get("param").and_then(Value::as_str).unwrap_or_default().to_owned(),
            used: number("n_prompt_tokens"),
            max: number("n_ctx"),
            retry_after: availability.and_then(|it| it.get("retry_after")).and_then(Value::as_f64),
        }
    }

    /// A body that is no JSON: a proxy's page, or a line of text.
    fn of_text(text: &str) -> Self {
        let message =
            if text.trim_start().starts_with('<') { page_title(text) } else { text.trim().to_owned() };
        Self { message, ..Self::default() }
    }

    fn has(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }
}

fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Field and text of each fault, as some frameworks list them.
fn details(detail: Option<&Value>) -> Option<String> {
    let Some(faults) = detail.and_then(Value::as_array) else { return text_of(detail) };
    let line = |fault: &Value| {
        let field = fault
            .get("loc")
            .and_then(Value::as_array)
            .map(|loc| loc.iter().filter_map(|part| text_of(Some(part))).collect::<Vec<_>>().join("."));
        format!("{}: {}", field.unwrap_or_default(), text_of(fault.get("msg")).unwrap_or_default())
    };
    Some(faults.iter().map(line).collect::<Vec<_>>().join("; "))
}

fn page_title(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let start = start + "<title>".len();
        let end = start + lower.get(start..)?.find("</title>")?;
        page.get(start..end)
    });
    format!("an HTML page in place of JSON: {}", title.unwrap_or("without a title").trim())
}

fn judge(told: &Told, status: u16, headers: &HeaderMap, now: SystemTime, secrets: &Secrets) -> LlmError {
    // No wait at all is no advice: it would be asked for again at once.
    let asked = delay::asked(headers, head(&told.message, MOST_JUDGED), now)
        .or_else(|| told.retry_after.and_then(|delay| Duration::try_from_secs_f64(delay).ok()))
        .filter(|delay| !delay.is_zero());
    let has_header = headers.contains_key("retry-after") || headers.contains_key("retry-after-ms");
    let kind = kind(told, status, has_header);
    let mut message = mask::line(&told.message, secrets);
    if message.is_empty() {
        message = format!("status {status} without a message");
    }
    let mut error = LlmError::new(kind, ErrorPhase::Stream, message);
    if kind == LlmErrorKind::ContextTooLong {
        let text = head(&told.message, MOST_JUDGED).to_ascii_lowercase();
        let (used, max) = context_numbers(&text);
        let detail = error.detail.get_or_insert_default();
        (detail.used_tokens, detail.max_tokens) = (told.used.or(used), told.max.or(max));
    }
    if kind == LlmErrorKind::InvalidRequest && wants_other_api(told, status) {
        error.retry = RetryAdvice::AfterChange(Change::OtherApi);
    }
    if status != 413 && headers.get("x-should-retry").is_some_and(|value| value == "true") {
        error.retry = RetryAdvice::Backoff;
    }
    if let (true, Some(delay)) = (error.is_retryable(), asked) {
        error.retry = RetryAdvice::After(delay);
    }
    if headers.get("x-should-retry").is_some_and(|value| value == "false") {
        error.retry = RetryAdvice::Never;
    }
    if let Some(id) = request_id(headers, secrets) {
        error.detail.get_or_insert_default().request = Some(id);
    }
    error
}

/// The provider's id of an exchange, for its support.
pub(crate) fn request_id(headers: &HeaderMap, secrets: &Secrets) -> Option<Arc<str>> {
    let names = ["x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "x-generation-id"];
    let id = names.iter().find_map(|name| headers.get(*name)?.to_str().ok())?;
    Some(mask::line(id, secrets).into())
}

fn kind(told: &Told, status: u16, has_header: bool) -> LlmErrorKind {
    use LlmErrorKind as Kind;
    let text = head(&told.message, MOST_JUDGED).to_ascii_lowercase();
    let has = |words: &[&str]| told.has(words);
    let says_overflow = matches!(status, 400 | 413 | 422 | 500) && is_overflow(&text);
    match status {
        300..400 => Kind::BadResponse,
        _ if has(&["context_length_exceeded", "exceed_context_size_error"]) || says_overflow => {
            Kind::ContextTooLong
        }
        413 => Kind::RequestTooLarge,
        _ if has(&OUT_OF_MONEY) => Kind::QuotaExhausted,
        402 if !has_header => Kind::Billing,
        _ if has(&FILTERED) => Kind::ContentFilter,
        _ if has(&["tool_use_failed"]) => Kind::MalformedToolCall,
        _ if has(&["model_not_found"]) => Kind::ModelNotFound,
        _ if has(&["invalid_api_key", "authentication_error"]) => Kind::Auth,
        429 if text.contains("request too large") => Kind::RequestTooLarge,
        _ if has(&OVERLOADED) => Kind::Overloaded,
        _ if has(&["rate_limit_exceeded"]) => Kind::RateLimited,
        _ if has(&["timeout"]) => Kind::Timeout,
        401 => Kind::Auth,
        403 => Kind::Permission,
        404 if text.contains("model") => Kind::ModelNotFound,
        408 => Kind::Timeout,
        402 | 429 => Kind::RateLimited,
        498 | 503 | 529 => Kind::Overloaded,
        // A conflict passes, as a fault of the server does.
        409 | 500.. => Kind::ServerError,
        200..300 => Kind::BadResponse,
        _ => Kind::InvalidRequest,
    }
}

/// Whether the model takes what was asked of it on the provider's other interface alone.
fn wants_other_api(told: &Told, status: u16) -> bool {
    status == 400 && told.param == "reasoning_effort" && told.message.to_ascii_lowercase().contains("tool")
}

/// The first bytes of a text, at most `most`.
fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// Whether a text in lower case says that a request does not fit.
fn is_overflow(text: &str) -> bool {
    let near = |first: &str, second: &[&str], most: usize| {
        text.match_indices(first).any(|(start, _)| {
            let after = text.get(start + first.len()..).unwrap_or_default();
            second.iter().any(|word| {
                let window = head(after, after.ceil_char_boundary(most + word.len()));
                window.find(word).is_some_and(|at| !head(window, at).contains('.'))
            })
        })
    };
    if text.contains("tokens per min") {
        return false;
    }
    let windows = [
        "context length",
        "context window",
        "context size",
        "context_length",
        "context_window",
        "context_size",
    ];
    text.contains("prompt is too long")
        || text.contains("maximum context length")
        || (text.contains("input token count") && text.contains("exceeds the maximum"))
        || windows.iter().any(|window| near(window, &["exceed"], 40))
        || near("exceed", &["context"], 40)
        || near("too many", &["tokens"], 40)
        || near("reduce the length of", &["tokens", "messages"], 40)
}

/// Tokens that the request has, and may have, out of a text in lower case.
fn context_numbers(text: &str) -> (Option<u64>, Option<u64>) {
    let after = |words: &str| {
        let (_, rest) = text.split_once(words)?;
        let start = rest.find(|c: char| c.is_ascii_digit()).filter(|start| *start <= 24)?;
        let digits = rest.get(start..)?;
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(digits.len());
        digits.get(..end)?.replace(',', "").parse().ok()
    };
    let first = |words: &[&str]| words.iter().find_map(|words| after(words));
    let used = first(&[
        "prompt is too long:",
        "resulted in",
        "input token count",
        "you requested",
        "however, you requested",
    ]);
    let max =
        first(&["tokens >", "maximum context length is", "maximum context length of", "tokens allowed"]);
    (used, max)
}

/// How much of a message is judged.
const MOST_JUDGED: usize = 4 << 10;
/// How much of a code or a type is looked at.
const MOST_WORD: usize = 256;

/// Codes of errors that pass by themselves.
const PASSES: [&str; 3] = ["rate_limit_exceeded", "rate_limit_error", "rate_limited"];
/// Types of errors that come again with the same request, and the statuses that they have otherwise.
const REFUSALS: [(&str, u16); 6] = [
    ("authentication_error", 401),
    ("permission_error", 403),
    ("permission_denied", 403),
    ("not_found_error", 404),
    ("not_found", 404),
    ("invalid_request_error", 400),
];
const OUT_OF_MONEY: [&str; 6] = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "payment_required",
];
const FILTERED: [&str; 5] = [
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "bio_policy",
    "responsibleaipolicyviolation",
];
const OVERLOADED: [&str; 6] = [
    "slow_down",
    "server_is_overloaded",
    "overloaded_error",
    "provider_overloaded",
    "unavailable_error",
    "insufficient_system_resource",
];
