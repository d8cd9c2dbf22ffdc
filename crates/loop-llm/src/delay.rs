//! How long a provider asks to wait, out of headers and words.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// The wait that a response asks for: `retry-after-ms`, `retry-after` in seconds or as a date held against `now`, the
/// words of the message, the window of the bucket that is empty, in this order.
pub(crate) fn asked(headers: &HeaderMap, message: &str, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let milliseconds = || header("retry-after-ms").and_then(|value| seconds(value, 1e-3));
    let after = || header("retry-after").and_then(|value| seconds(value, 1.0).or_else(|| date(value, now)));
    let window = || {
        ["requests", "tokens"]
            .iter()
            .filter(|bucket| header(&format!("x-ratelimit-remaining-{bucket}")) == Some("0"))
            .filter_map(|bucket| duration(header(&format!("x-ratelimit-reset-{bucket}"))?))
            .max()
    };
    milliseconds().or_else(after).or_else(|| in_words(message)).or_else(window)
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

fn date(text: &str, now: SystemTime) -> Option<Duration> {
    let then = httpdate::parse_http_date(text).ok()?;
    Some(then.duration_since(now).unwrap_or_default())
}

/// "Please try again in 5.289s", "retry after 20 seconds".
fn in_words(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    ["again in ", "retry in ", "retry after "].iter().find_map(|words| {
        let (_, after) = lower.split_once(words)?;
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | ' '))
            .unwrap_or(after.len());
        let mut words = after.get(..end)?.split_whitespace();
        let first = words.next()?.trim_end_matches('.');
        duration(first).or_else(|| {
            let unit = match words.next()?.trim_end_matches('.') {
                "ms" | "milliseconds" => 1e-3,
                "s" | "sec" | "second" | "seconds" => 1.0,
                "m" | "min" | "minute" | "minutes" => 60.0,
                _ => return None,
            };
            seconds(first, unit)
        })
    })
}

/// `6m0s`, `2m59.56s`, `120ms`.
fn duration(mut text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, rest) = text.split_at(end);
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        let unit = match unit {
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        sum = sum.checked_add(seconds(number, unit)?)?;
        text = rest;
    }
    Some(sum)
}
