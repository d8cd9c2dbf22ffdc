//! Parses the delay that a provider requests, from headers such as `retry-after` and from error messages.

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How long the header `retry-after` of an answer asks to wait: seconds, or until a time, compared with the clock of this
/// machine. `None`: the header is not there, or says neither.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    wait(headers.get(RETRY_AFTER)?.to_str().ok()?.trim(), SystemTime::now())
}

/// The requested delay, from the first of: `retry-after-ms`, `retry-after`, the body (`reported`), the message, the reset
/// time of the exhausted rate limit bucket. Dates are compared with `now`.
pub(crate) fn requested<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    reported: Option<Duration>,
    message: &str,
    now: SystemTime,
) -> Option<Duration> {
    let milliseconds = || MILLISECONDS.iter().find_map(|name| seconds(header(name)?, 1e-3));
    let after = || header("retry-after").and_then(|value| wait(value, now));
    let window = || {
        let empty = WINDOWS.iter().filter(|(remaining, _)| header(remaining) == Some("0"));
        empty.filter_map(|(_, reset)| wait(header(reset)?, now)).max().or_else(|| joint(header("ratelimit")?))
    };
    milliseconds().or_else(after).or(reported).or_else(|| in_words(message)).or_else(window)
}

/// The reset of the exhausted limits of a joint header: `limit=9, remaining=0, reset=50`, or `"default";r=0;t=50`.
fn joint(header: &str) -> Option<Duration> {
    let (mut is_empty, mut longest) = (false, None);
    for part in header.split([',', ';']) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match (name.trim(), value.trim()) {
            ("remaining" | "r", left) => is_empty = left == "0",
            ("reset" | "t", left) if is_empty => longest = longest.max(seconds(left, 1.0)),
            // A name in quotes begins the next limit.
            _ => {}
        }
    }
    longest
}

/// Headers that hold milliseconds.
const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// The headers of each rate limit bucket: what remains, and when it resets.
const WINDOWS: [(&str, &str); 8] = [
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
];

/// Seconds, a duration, or a time: a date, or seconds or milliseconds since 1970.
fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let moment = match text.parse::<f64>() {
        Ok(number) if number >= MILLISECONDS_FROM => {
            SystemTime::UNIX_EPOCH.checked_add(seconds(text, 1e-3)?)?
        }
        Ok(number) if number >= SECONDS_FROM => SystemTime::UNIX_EPOCH.checked_add(seconds(text, 1.0)?)?,
        Ok(_) => return seconds(text, 1.0),
        Err(_) => match span(text) {
            Some(span) => return Some(span),
            None => {
                // Times such as `2026-11-21T12:00:30Z` and `2026-11-21T13:00:30.5+01:00`.
                let moment = || text.parse::<Timestamp>().ok().map(SystemTime::from);
                httpdate::parse_http_date(text).ok().or_else(moment)?
            }
        },
    };
    Some(moment.duration_since(now).unwrap_or_default())
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

fn in_words(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    PHRASES.iter().find_map(|phrase| {
        lower.match_indices(phrase).find_map(|(at, _)| {
            let after = lower.get(at + phrase.len()..)?;
            let end = after
                .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | ' '))
                .unwrap_or(after.len());
            let mut words = after.get(..end)?.split(' ').map(|word| word.trim_end_matches('.'));
            let first = words.find(|word| !FILLERS.contains(word))?;
            span(first).or_else(|| span(&format!("{first} {}", words.next()?)))
        })
    })
}

/// What comes before a delay in words.
const PHRASES: [&str; 8] = [
    "again in ",
    "again after ",
    "retry in ",
    "retry after ",
    "request after ",
    "request in ",
    "wait ",
    "available in ",
];
/// Words between such a phrase and its number.
const FILLERS: [&str; 6] = ["", "about", "another", "at", "for", "least"];

/// A duration such as `6m0s`, `1.5s` or `20 seconds`.
pub(crate) fn span(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}

/// Larger numbers are times, in seconds or milliseconds since 1970.
const SECONDS_FROM: f64 = 1e8;
const MILLISECONDS_FROM: f64 = 1e11;
