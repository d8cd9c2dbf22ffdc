//! Parses the body of an error response, in the formats of all providers.

use std::time::Duration;

use serde_json::Value;

use super::{MAX_WORD, head};
use crate::delay;

#[derive(Debug, Default)]
pub(super) struct ReportedError {
    pub(super) message: String,
    /// Codes, types and reasons, in lower case.
    pub(super) words: Vec<String>,
    /// The names of the exceeded quotas, in lower case.
    pub(super) quotas: Vec<String>,
    pub(super) param: String,
    pub(super) used: Option<u64>,
    pub(super) max: Option<u64>,
    /// The requested delay.
    pub(super) wait: Option<Duration>,
    /// Whether the body says that a retry may succeed. `None` if it says nothing.
    pub(super) retryable: Option<bool>,
    /// Headers of the upstream server, in lower case.
    pub(super) headers: Vec<(String, String)>,
    /// The names of the content filters that matched.
    pub(super) filters: Vec<String>,
    /// The provider's request id.
    pub(super) request: Option<String>,
}

impl ReportedError {
    /// A body as text: JSON, a proxy's HTML page, or a line.
    pub(super) fn of_text(text: &str) -> Self {
        if let Ok(body) = serde_json::from_str::<Value>(text.trim()) {
            return Self::of(&body);
        }
        let message =
            if text.trim_start().starts_with('<') { page_title(text) } else { text.trim().to_owned() };
        Self { message, ..Self::default() }
    }

    pub(super) fn of(body: &Value) -> Self {
        // A stream of JSON values that ends with an error is a list.
        let listed = body.as_array().and_then(|list| list.iter().find(|value| value.is_object()));
        let body = listed.unwrap_or(body);
        let error = body.get("error").filter(|error| !error.is_null());
        let more = MORE_ERRORS.iter().filter_map(|place| body.pointer(place)).find(|error| error.is_object());
        let object = match error {
            Some(error) if error.is_object() => error,
            _ => more.unwrap_or(body),
        };
        let metadata = object.get("metadata");
        let mut reported = Self::default();
        reported.words.extend(CODES.iter().filter_map(|key| word(object.get(*key))));
        // A number says something only with its place.
        let of_base = body.pointer("/base_resp/status_code").filter(|_| error.is_none());
        reported.words.extend(word(of_base).map(|code| format!("base_resp {code}")));
        let is_lone =
            |error: &&Value| error.as_object().is_some_and(|it| it.len() == 2 && it.contains_key("message"));
        let lone = error.filter(is_lone).and_then(|error| error.get("code")).filter(|code| code.is_string());
        reported.words.extend(word(lone).map(|code| format!("lone {code}")));
        let inner = [object.get("innererror"), metadata, Some(body)];
        reported.words.extend(inner.iter().filter_map(|it| word(it.as_ref()?.get("code"))));
        reported.words.extend(metadata.and_then(|metadata| word(metadata.get("error_type"))));
        reported.message = match error {
            Some(Value::String(text)) => text.clone(),
            _ => MESSAGES
                .iter()
                .find_map(|key| text_of(object.get(*key)))
                .or_else(|| faults(body.get("detail")))
                .or_else(|| body.as_str().map(ToOwned::to_owned))
                .unwrap_or_default(),
        };
        if let Some(raw) = metadata.and_then(|metadata| text_of(metadata.get("raw"))) {
            reported.message = format!("{}: {raw}", reported.message);
        }
        let number = |key: &str| object.get(key).and_then(Value::as_u64);
        (reported.used, reported.max) = (number("n_prompt_tokens"), number("n_ctx"));
        object.get("param").and_then(Value::as_str).unwrap_or_default().clone_into(&mut reported.param);
        reported.request = body.get("request_id").and_then(Value::as_str).map(ToOwned::to_owned);
        let availability = metadata.and_then(|it| it.get("availability")).or(object.get("availability"));
        reported.retryable = availability.and_then(|it| it.get("retryable")).and_then(Value::as_bool);
        let seconds = availability.and_then(|it| it.get("retry_after")).and_then(Value::as_f64);
        reported.wait = seconds.and_then(|delay| Duration::try_from_secs_f64(delay).ok());
        let headers = metadata.and_then(|it| it.get("headers")).and_then(Value::as_object);
        reported.headers.extend(headers.into_iter().flatten().filter_map(|(name, value)| {
            let value = text_of(Some(value))?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        }));
        reported.details(object.get("details"));
        reported.filters(object, metadata);
        reported
    }

    /// Anthropic's `details` object, or Google's list of objects of many types.
    fn details(&mut self, details: Option<&Value>) {
        let Some(details) = details else { return };
        self.words.extend(word(details.get("error_code")));
        for detail in details.as_array().into_iter().flatten() {
            self.words.extend(word(detail.get("reason")));
            let span = detail.get("retryDelay").and_then(Value::as_str).and_then(delay::span);
            self.wait = self.wait.or(span);
            for violation in detail.get("violations").and_then(Value::as_array).into_iter().flatten() {
                self.quotas.extend(word(violation.get("quotaId")));
            }
        }
    }

    /// Results of Azure's content filters and OpenRouter's moderation.
    fn filters(&mut self, object: &Value, metadata: Option<&Value>) {
        let inner = object.get("innererror");
        let one = [inner, Some(object)].into_iter().flatten();
        let results =
            one.filter_map(|it| it.get("content_filter_result").or(it.get("content_filter_results")));
        let listed = object.get("content_filters").and_then(Value::as_array).into_iter().flatten();
        let listed = listed.filter_map(|filter| filter.get("content_filter_results"));
        for name in results.chain(listed).flat_map(filtered) {
            if !self.filters.contains(name) {
                self.filters.push(name.clone());
            }
        }
        let reasons = metadata.and_then(|it| it.get("reasons")).and_then(Value::as_array);
        self.filters.extend(reasons.into_iter().flatten().filter_map(|reason| text_of(Some(reason))));
    }

    pub(super) fn has(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }
}

/// Where providers have an error that is not in `error`.
const MORE_ERRORS: [&str; 2] = ["/base_resp", "/errors/0"];
/// The members of an error that hold a code, and those that hold its message.
const CODES: [&str; 8] =
    ["code", "type", "status", "status_code", "error_code", "error_type", "__type", "err_code"];
const MESSAGES: [&str; 7] =
    ["message", "status_msg", "error_msg", "error_message", "msg", "Message", "errmsg"];

/// The names of Azure's content filters that stopped the call.
pub(crate) fn filtered(results: &Value) -> impl Iterator<Item = &String> {
    let found = results.as_object().into_iter().flatten();
    found.filter(|(_, found)| found.get("filtered") == Some(&Value::Bool(true))).map(|(name, _)| name)
}

fn word(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(head(text, MAX_WORD).to_ascii_lowercase()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Field and message of each validation error, as some frameworks list them.
fn faults(detail: Option<&Value>) -> Option<String> {
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
