//! Maps error responses of all providers to [`LlmError`].

mod kinds;
mod overflow;
mod reported;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use reqwest::header::HeaderMap;
use serde_json::Value;

use self::kinds::{Case, OVERLOADED, RATE_LIMITED, REFUSALS};
use self::reported::ReportedError;
pub(crate) use self::reported::filtered;
use crate::error::{ErrorPhase, LlmError, RequestChange, RetryAdvice};
use crate::{delay, mask};

/// The error of a response with a status other than 2xx.
///
/// Delays that are dates are compared with `now`. `secrets` are the credentials of the call, which are masked in the
/// message. Only the first 4 KiB of a long message are classified.
pub fn classify(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
    secrets: &Secrets,
) -> LlmError {
    let reported = ReportedError::of_text(&String::from_utf8_lossy(body));
    let mut error = judge(&reported, status, headers, now, secrets);
    error.phase = ErrorPhase::Headers;
    error.detail.get_or_insert_default().status = Some(status);
    error
}

/// The error of an error object in a response with status 200.
pub(crate) fn within(body: &Value, secrets: &Secrets) -> LlmError {
    let reported = ReportedError::of(body);
    // A numeric code is used as the status, if it can be one.
    let number: Option<u16> =
        reported.words.iter().find_map(|word| word.parse().ok().filter(|it| (400..600).contains(it)));
    // A number or a code decides whether the error is temporary, even if the type contradicts it.
    let passes = number.is_some_and(|it| it == 429 || it >= 500)
        || reported.has(&RATE_LIMITED)
        || reported.has(&OVERLOADED);
    let faulty =
        REFUSALS.iter().find(|(word, _)| !passes && reported.has(&[word])).map(|(_, status)| *status);
    let status = number.filter(|_| faulty.is_none()).or(faulty).unwrap_or(500);
    let mut error = judge(&reported, status, &HeaderMap::new(), SystemTime::UNIX_EPOCH, secrets);
    if faulty.is_some() && !matches!(error.retry, RetryAdvice::AfterChange(_)) {
        error.retry = RetryAdvice::Never;
    }
    error
}

fn judge(
    reported: &ReportedError,
    status: u16,
    headers: &HeaderMap,
    now: SystemTime,
    secrets: &Secrets,
) -> LlmError {
    let theirs =
        |name: &str| reported.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value);
    let header = |name: &str| {
        let ours = headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        ours.or_else(|| theirs(name))
    };
    // A delay of zero is ignored, as the retry would follow at once.
    let requested = delay::requested(header, reported.wait, head(&reported.message, MAX_JUDGED), now)
        .filter(|delay| !delay.is_zero());
    let has_delay = header("retry-after").is_some() || header("retry-after-ms").is_some();
    let case = Case::new(reported, status, has_delay);
    let kind = case.kind();
    let mut message = mask::line(&reported.message, secrets);
    if message.is_empty() {
        message = format!("status {status} without a message");
    }
    if let Some(hint) = case.hint() {
        message = format!("{message} ({hint})");
    }
    let mut error = LlmError::new(kind, ErrorPhase::Stream, message);
    if kind == FailureKind::ContextTooLong {
        let (used, max) = overflow::numbers(&case.text);
        let detail = error.detail.get_or_insert_default();
        (detail.used_tokens, detail.max_tokens) = (reported.used.or(used), reported.max.or(max));
    }
    if kind == FailureKind::ContentFilter && !reported.filters.is_empty() {
        let category = mask::line(&reported.filters.join(", "), secrets);
        error.detail.get_or_insert_default().category = Some(category.into());
    }
    if kind == FailureKind::InvalidRequest && case.wants_other_api() {
        error.retry = RetryAdvice::AfterChange(RequestChange::OtherApi);
    }
    if kind == FailureKind::InvalidRequest
        && error.retry == RetryAdvice::Never
        && let Some(change) = case.refused()
    {
        error.retry = RetryAdvice::AfterChange(change);
    }
    if kind == FailureKind::Overloaded && case.is_loading() {
        error.retry = RetryAdvice::After(LOADING);
    }
    let should_retry = match header("x-should-retry") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => reported.retryable,
    };
    let is_final =
        matches!(error.retry, RetryAdvice::Never | RetryAdvice::AfterChange(RequestChange::LeaveNew));
    if should_retry == Some(true) && status != 413 && is_final {
        error.retry = RetryAdvice::Backoff;
    }
    if let (true, Some(delay)) =
        (matches!(error.retry, RetryAdvice::Backoff | RetryAdvice::After(_)), requested)
    {
        error.retry = RetryAdvice::After(delay);
    }
    // The advice is about the same request.
    if should_retry == Some(false) && !matches!(error.retry, RetryAdvice::AfterChange(_)) {
        error.retry = RetryAdvice::Never;
    }
    let request = request_id(headers, secrets)
        .or_else(|| reported.request.as_deref().map(|id| mask::line(id, secrets).into()));
    if let Some(id) = request {
        error.detail.get_or_insert_default().request = Some(id);
    }
    error
}

/// The provider's request id, for its support.
pub(crate) fn request_id(headers: &HeaderMap, secrets: &Secrets) -> Option<Arc<str>> {
    let names = ["x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "x-generation-id"];
    let id = names.iter().find_map(|name| headers.get(*name)?.to_str().ok())?;
    Some(mask::line(id, secrets).into())
}

/// The first bytes of a text, at most `max`.
fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

/// Maximum bytes of a message that are classified.
const MAX_JUDGED: usize = 4 << 10;
/// Maximum bytes of a code or a type.
const MAX_WORD: usize = 256;
/// The retry delay while a model is being loaded.
const LOADING: Duration = Duration::from_secs(10);
