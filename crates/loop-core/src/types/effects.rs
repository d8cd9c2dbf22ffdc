//! How the requested effects of a run ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many requested effects ended in which way. An effect is a call of a tool that does more than read; each counts
/// once, and so does each of a run that is called as a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// They ran, and the tool reports success.
    pub executed: u32,
    /// They ran, and the tool reports failure.
    pub failed: u32,
    /// Policy or an approver denied them.
    pub denied: u32,
    /// They need an approval that was not given, or the tool is not ready yet.
    pub waiting: u32,
    /// They were begun, and whether they happened is unknown.
    pub in_doubt: u32,
    /// They were not begun for another reason: a limit, invalid arguments, a repeat, the end of the run.
    pub not_run: u32,
}

impl Effects {
    /// Whether no effect was requested.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The counts of both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            executed: self.executed.saturating_add(other.executed),
            failed: self.failed.saturating_add(other.failed),
            denied: self.denied.saturating_add(other.denied),
            waiting: self.waiting.saturating_add(other.waiting),
            in_doubt: self.in_doubt.saturating_add(other.in_doubt),
            not_run: self.not_run.saturating_add(other.not_run),
        }
    }
}

impl fmt::Display for Effects {
    /// The counts that are not 0, for example `1 executed, 2 denied`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executed, failed, denied, waiting, in_doubt, not_run } = *self;
        let all = [
            (executed, "executed"),
            (failed, "failed"),
            (denied, "denied"),
            (waiting, "waiting"),
            (in_doubt, "in doubt"),
            (not_run, "not run"),
        ];
        let counts = all.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if counts.is_empty() { "none" } else { "" })?;
        f.write_str(&counts.join(", "))
    }
}
