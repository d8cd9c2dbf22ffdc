//! Log lines for the operator. They may name a path of this machine, so callers do not get them.

use std::fmt;
use std::sync::OnceLock;

type Sink = Box<dyn Fn(&str) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sends log lines to this function. Only the first call in a process has an effect.
pub fn log_to(sink: impl Fn(&str) + Send + Sync + 'static) {
    _ = SINK.set(Box::new(sink));
}

/// Logs one line for the operator.
pub(crate) fn note(line: impl fmt::Display) {
    if let Some(sink) = SINK.get() {
        sink(&line.to_string());
    }
}
