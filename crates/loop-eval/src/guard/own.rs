//! Our own policies, over the guard of the core.

use std::collections::BTreeMap;

use loop_core::repeats::{CallFacts, Guard};
use loop_core::{RepeatRule, Repeats, Status, ThreeTier, ToolRepeats};

use super::policy::Judge;
use super::prepared::{Call, Told};

/// How often a call is tried that fails in a way that may pass.
const TRIES: u32 = 3;

/// A guard in one run. Tools have no settings of their own.
pub(super) struct Own {
    guard: Guard,
    rules: ToolRepeats,
    /// How often a call is tried, by what it told last.
    tries: BTreeMap<u32, u32>,
    /// The same for a tool, where a call was not made before: it may be nearly one that was.
    tries_of_tool: BTreeMap<String, u32>,
}

impl Own {
    pub(super) fn new(repeats: Repeats, three_tier: ThreeTier) -> Self {
        Self {
            guard: Guard::new(repeats, three_tier),
            rules: ToolRepeats::default(),
            tries: BTreeMap::new(),
            tries_of_tool: BTreeMap::new(),
        }
    }
}

impl Judge for Own {
    fn new_turn(&mut self) {
        self.guard.new_turn();
    }

    fn refuses(&mut self, call: &Call<'_>) -> Option<String> {
        let tries = self.tries.get(&call.same).or_else(|| self.tries_of_tool.get(call.tool));
        let facts = CallFacts {
            tool: call.tool,
            arguments: call.arguments,
            rules: &self.rules,
            is_read: call.is_read,
            tries: tries.copied().unwrap_or(TRIES),
        };
        self.guard.before(&facts).err().map(|rule| name(&rule))
    }

    fn told(&mut self, call: &Call<'_>, told: &Told<'_>) {
        // A failure that does not say whether it may pass counts by its text, like any other result.
        let (status, tries) = match told.is_of_unknown_kind {
            true => (Status::RetryableError, 1),
            false => (told.status, TRIES),
        };
        self.tries.insert(call.same, tries);
        match self.tries_of_tool.get_mut(call.tool) {
            Some(of_tool) => *of_tool = tries,
            None => drop(self.tries_of_tool.insert(call.tool.to_owned(), tries)),
        }
        match told.is_whole {
            true => self.guard.after(status, told.result),
            false => self.guard.after(status, &format!("{} {}", told.sha256, told.result)),
        }
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
        RepeatRule::Cycle { length, times } => format!("{times} times round a circle of {length}"),
        RepeatRule::Limit { limit } => format!("the limit of {limit}"),
        RepeatRule::Similar { query, millis } => format!("like `{query}` by {millis}"),
    }
}
