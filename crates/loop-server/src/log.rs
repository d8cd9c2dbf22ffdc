//! Log lines for the operator. Callers do not get them, since they may name a path of this machine.

use std::fmt;
use std::sync::OnceLock;

type Sink = Box<dyn Fn(&str) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sends the lines for the operator to this function. The first call of a process counts.
pub fn log_to(sink: impl Fn(&str) + Send + Sync + 'static) {
    _ = SINK.set(Box::new(sink));
}

/// Tells the operator one line.
pub(crate) fn note(line: impl fmt::Display) {
    if let Some(sink) = SINK.get() {
        sink(&line.to_string());
    }
}
