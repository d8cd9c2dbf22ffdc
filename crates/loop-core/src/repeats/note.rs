//! Notes: what a model reads with a result that repeats something, before a call is refused.
//!
//! A note refuses nothing. It follows from the calls and their results alone, so a replay gives the same notes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::spec::RepeatNotes;
use crate::types::{Digest, Status};

/// Searches that are remembered. With one more the log begins anew.
const MAX_SEARCHES: usize = 64;

/// How much of a failure's text is compared, in characters.
const ERROR_CHARS: usize = 400;

/// How many other tools a note names.
const MAX_OTHERS: usize = 5;

/// What a result repeats. The model reads it with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum RepeatNote {
    /// The tool failed several times in a row, with nothing changed between. Failures of calls that were made in one reply
    /// count once.
    Failures {
        /// How many times, from 1.
        times: u32,
        /// How many of the last ones had the same error, from 1. Numbers and ids in it are not compared.
        same: u32,
        /// Whether the arguments differed.
        varied: bool,
    },
    /// The call returned the same result as before, with nothing changed between.
    SameResult {
        /// How many times in a row, from 2.
        times: u32,
        /// Whether a near-duplicate of the call returned it before: another order of words, or another page.
        similar: bool,
    },
    /// Searches in different words returned the same result, with nothing changed between.
    SameSearch {
        /// How many, from 2.
        times: u32,
    },
    /// The last calls form a cycle.
    Cycle {
        /// The number of calls in the cycle.
        length: u32,
        /// How many times it was repeated.
        times: u32,
    },
}

impl RepeatNote {
    /// The note as the model reads it, one line. `error` is the beginning of the last failure's text, cleaned and
    /// without line breaks; `others` are the other tools that may be called.
    pub fn message(&self, tool: &str, error: &str, others: &[&str]) -> String {
        let mut text = self.about(&format!("tool '{tool}'"));
        match self {
            Self::Failures { .. } if !error.is_empty() => {
                text.push_str(&format!("; the last error was: {error}"));
            }
            Self::SameResult { .. } => text.push_str("; use it, change something, or finish"),
            Self::Cycle { .. } => text.push_str("; try something else, or finish"),
            Self::Failures { .. } | Self::SameSearch { .. } => {}
        }
        if matches!(self, Self::Failures { .. } | Self::SameSearch { .. }) && !others.is_empty() {
            let named: Vec<&str> = others.iter().take(MAX_OTHERS).copied().collect();
            let more = if others.len() > named.len() { " and others" } else { "" };
            text.push_str(&format!("; other tools are: {}{more}", named.join(", ")));
        }
        text
    }

    /// What the result repeats, in one line for people.
    pub fn summary(&self) -> String {
        self.about("the tool")
    }

    fn about(&self, tool: &str) -> String {
        match self {
            Self::Failures { times, same, varied } => {
                let arguments = if *varied { " with varied arguments" } else { "" };
                let error = match (*same, *varied) {
                    (1, _) => String::new(),
                    (same, _) if same < *times => format!(", the last {same} times with the same error"),
                    (_, true) => " and the same error".to_owned(),
                    (_, false) => " with the same error".to_owned(),
                };
                format!("{tool} has failed {times} times in a row{arguments}{error}")
            }
            Self::SameResult { times, similar } => {
                let like = if *similar { " and ones like it have" } else { " has" };
                format!(
                    "this call{like} returned the same result {times} times, and nothing was changed between"
                )
            }
            Self::SameSearch { times } => format!(
                "{times} searches in different words have returned the same result, and nothing was changed \
                 between"
            ),
            Self::Cycle { length, times } => {
                format!("the last {length} calls have repeated {times} times with the same results")
            }
        }
    }

    /// The note's kind as a code.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// The failures and searches of a scope, as far as notes need them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct NoteLog {
    /// Tools whose last call failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    failing: BTreeMap<Arc<str>, FailingTool>,
    /// The last result of each group of searches: the same tool, and the same arguments but for the search text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    searches: BTreeMap<Digest, LastSearch>,
}

/// A tool whose last call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct FailingTool {
    times: u32,
    /// How many of the last failures had the same error. A failure that may be tried again counts as none.
    same: u32,
    error: Digest,
    call: Digest,
    varied: bool,
    /// The ledger's changes after the last failure, without those that the failing tool made itself.
    changes: u64,
}

/// The last result of a group of searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct LastSearch {
    call: Digest,
    result: Digest,
    times: u32,
    changes: u64,
}

/// A call that settled, as notes see it.
pub(super) struct ReturnedCall<'a> {
    pub(super) tool: &'a Arc<str>,
    pub(super) call: Digest,
    /// The group of searches. `None`: it is not a search.
    pub(super) search: Option<Digest>,
    pub(super) status: Status,
    /// The digest of its result.
    pub(super) result: Digest,
    /// [`error_digest`] of a failure. `None`: it did not fail.
    pub(super) error: Option<Digest>,
    /// The ledger's changes before it.
    pub(super) changes: u64,
    /// Whether it failed in a way that may pass, and tries are left.
    pub(super) may_pass: bool,
    /// Whether a call of the tool that was made in the same reply has failed: the model has read neither.
    pub(super) is_together: bool,
}

impl NoteLog {
    /// Counts a result. Returns its note, if it fails or searches in vain once too often.
    pub(super) fn returned(&mut self, of: &ReturnedCall<'_>, rules: &RepeatNotes) -> Option<RepeatNote> {
        if of.status.is_citable() {
            if !self.failing.is_empty() {
                self.failing.remove(of.tool);
            }
            return self.searched(of, rules);
        }
        let error = of.error?;
        if let Some(failing) = self.failing.get_mut(of.tool).filter(|_| of.is_together) {
            failing.varied |= failing.call != of.call;
            return None;
        }
        let same = u32::from(!of.may_pass);
        let fresh = FailingTool { times: 1, same, error, call: of.call, varied: false, changes: of.changes };
        let before = self.failing.get(of.tool).filter(|before| before.changes == of.changes);
        let failing = before.map_or(fresh, |before| FailingTool {
            times: before.times.saturating_add(1),
            same: if before.error == error { before.same.saturating_add(same) } else { same },
            varied: before.varied || before.call != of.call,
            ..fresh
        });
        self.failing.insert(Arc::clone(of.tool), failing);
        let FailingTool { times, same, varied, .. } = failing;
        let reached = |count: u32, limit: u32| limit > 0 && count >= limit.max(2);
        (reached(times, rules.failures) || reached(same, rules.same)).then(|| RepeatNote::Failures {
            times,
            same: same.max(1),
            varied,
        })
    }

    fn searched(&mut self, of: &ReturnedCall<'_>, rules: &RepeatNotes) -> Option<RepeatNote> {
        let group = of.search?;
        let before = self.searches.get(&group).copied();
        let same = before.filter(|before| before.result == of.result && before.changes == of.changes);
        let times = match same {
            // The same search again is another rule's.
            Some(before) if before.call == of.call => return None,
            Some(before) => before.times.saturating_add(1),
            None => 1,
        };
        if before.is_none() && self.searches.len() == MAX_SEARCHES {
            self.searches.clear();
        }
        let searched = LastSearch { call: of.call, result: of.result, times, changes: of.changes };
        self.searches.insert(group, searched);
        (rules.searches > 0 && times >= rules.searches.max(2)).then_some(RepeatNote::SameSearch { times })
    }

    /// Leaves out a change that a call of `tool` made: what a failing tool changes does not excuse its own failures.
    pub(super) fn changed_by(&mut self, tool: &str) {
        if let Some(failing) = self.failing.get_mut(tool) {
            failing.changes = failing.changes.saturating_add(1);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The digest of a failure's text without its numbers and ids: words that hold a digit count as one.
pub(super) fn error_digest(text: &str) -> Digest {
    let mut plain = String::new();
    let end = text.char_indices().nth(ERROR_CHARS).map_or(text.len(), |(at, _)| at);
    let beginning = text.get(..end).unwrap_or(text);
    for word in beginning.split_whitespace() {
        let is_name = word.contains(|c: char| c.is_numeric());
        plain.push_str(if is_name { "#" } else { word });
        plain.push(' ');
    }
    Digest::of("repeat-error", plain.as_bytes())
}
