//! A failure that ends a command before a run begins: one line and exit code 1.

use std::fmt;
use std::process::ExitCode;

/// One line for people: what, where, how to fix it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }

    /// The failure of a command that is not in this build, with the feature that adds it.
    #[cfg_attr(
        all(feature = "mock", feature = "mcp-server", feature = "restate", feature = "server"),
        expect(dead_code)
    )]
    pub(crate) fn not_built(command: &str, feature: &str) -> Self {
        Self(format!(
            "this loopgate is built without `{command}`; build it with --features {feature} to get it"
        ))
    }

    /// Prints it, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        super::stream::note(format!("loopgate: {}", self.line()));
        ExitCode::from(1)
    }

    /// Its text in one line.
    pub(crate) fn line(&self) -> String {
        self.0.lines().map(str::trim).collect::<Vec<_>>().join(" ")
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // A transparent error repeats its source.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            source = cause.source();
        }
        Self(message)
    }
}
