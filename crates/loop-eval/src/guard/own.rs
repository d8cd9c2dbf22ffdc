//! Our own policies, over the guard of the core.

use std::borrow::Cow;

use loop_core::repeats::{CallFacts, Guard, Running};
use loop_core::{RepeatNote, RepeatRule, Repeats, Status, ThreeTier, ToolRepeats};

use super::effects::ActionKind;
use super::policy::Judge;
use super::prepared::{Call, Reported};

/// How often a call is tried that fails in a way that may pass.
const TRIES: u32 = 3;

/// A guard in one run. Tools have no settings of their own.
pub(super) struct Own {
    guard: Guard,
    /// The call that was let run last.
    running: Option<Running>,
    rules: ToolRepeats,
}

impl Own {
    pub(super) fn new(repeats: Repeats, three_tier: ThreeTier) -> Self {
        Self { guard: Guard::new(repeats, three_tier), running: None, rules: ToolRepeats::default() }
    }
}

impl Judge for Own {
    fn new_turn(&mut self) {
        self.guard.new_turn();
    }

    fn refuses(&mut self, call: &Call<'_>) -> Option<String> {
        let facts = CallFacts {
            tool: call.tool,
            arguments: call.arguments,
            rules: &self.rules,
            is_read: call.action == ActionKind::Read,
            tries: TRIES,
        };
        match self.guard.before(&facts) {
            Ok(running) => {
                self.running = Some(running);
                None
            }
            Err(rule) => Some(name(&rule)),
        }
    }

    fn reported(&mut self, call: &Call<'_>, reported: &Reported<'_>) -> Option<String> {
        let running = self.running.take()?;
        let text = match reported.is_whole {
            true => Cow::Borrowed(reported.result),
            false => Cow::Owned(format!("{} {}", reported.sha256, reported.result)),
        };
        let note = match reported.is_of_unknown_kind {
            // To the guard a failure changes nothing; a program may have done much before it failed.
            true if call.action == ActionKind::Run => {
                self.guard.after(running, Status::Ok, &format!("failed: {text}"))
            }
            true => self.guard.after_failure(running, &text),
            false => self.guard.after(running, reported.status, &text),
        };
        note.map(note_name)
    }

    fn is_stuck(&self) -> bool {
        self.guard.is_stuck()
    }
}

fn note_name(note: RepeatNote) -> String {
    match note {
        RepeatNote::Failures { times, .. } => format!("{times} failures of its tool in a row"),
        RepeatNote::SameResult { times, similar: false } => format!("the same result {times} times"),
        RepeatNote::SameResult { times, similar: true } => {
            format!("the same result {times} times, of calls like it")
        }
        RepeatNote::SameSearch { times } => format!("the same result of {times} searches"),
        RepeatNote::Cycle { length, times } => format!("{times} times round a cycle of {length}"),
    }
}

fn name(rule: &RepeatRule) -> String {
    match rule {
        RepeatRule::Exact => "the same call".to_owned(),
        RepeatRule::SameResult { times, ignored } if ignored.is_empty() => {
            format!("the same result {times} times")
        }
        RepeatRule::SameResult { times, ignored } => {
            format!("the same result {times} times, {} apart", ignored.join(", "))
        }
        RepeatRule::Failed => "it failed for good".to_owned(),
        RepeatRule::Cycle { length, times } => format!("{times} times round a cycle of {length}"),
        RepeatRule::Limit { limit } => format!("the limit of {limit}"),
        RepeatRule::Similar { query, millis } => format!("like `{query}` by {millis}"),
    }
}
