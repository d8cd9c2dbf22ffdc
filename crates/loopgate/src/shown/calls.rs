//! Lines about a model call that waits.

use std::time::Duration;

use loop_runtime::observe::CallNews;

/// A line about what a call waits for.
pub(crate) fn news(news: &CallNews) -> String {
    match news {
        CallNews::Retrying { next_try, wait_ms, kind, message, .. } => {
            format!("the call failed ({}: {message}); try {next_try} {}", kind.name(), until(*wait_ms))
        }
        CallNews::Queued { wait_ms: Some(ms) } => {
            format!("the call waits for its turn behind a rate limit; it may go {}", until(*ms))
        }
        CallNews::Queued { wait_ms: None } => {
            "the call waits for its turn behind other calls (rate limit)".to_owned()
        }
        CallNews::Sent => "the call is sent".to_owned(),
        CallNews::Silent { for_ms } => format!("the provider has sent nothing for {}", seconds(*for_ms)),
        _ => "the call waits".to_owned(),
    }
}

/// The suffix of a retry: when it begins, if it has to wait.
pub(crate) fn wait(ms: Option<u64>) -> String {
    ms.filter(|ms| *ms > 0).map_or_else(String::new, |ms| format!(", {}", until(ms)))
}

fn until(ms: u64) -> String {
    let at = jiff::Timestamp::now() + Duration::from_millis(ms);
    format!("in {}, at {} UTC", seconds(ms), at.strftime("%H:%M:%S"))
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1_000.0)
}
