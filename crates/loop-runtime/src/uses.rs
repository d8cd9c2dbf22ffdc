//! What tools were used: how often, with what success, for how long (S2-102). Read from a run's entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::{
    CommandKey, EvidenceId, Execution, Fact, JudgedAction, Millis, Note, RunSpec, Status, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::journal::Entry;

/// What one tool was used for in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolUse {
    /// Its own name, or what the model wrote where no tool has it.
    pub tool: Arc<str>,
    /// How often it was run.
    pub calls: u32,
    /// How many of those failed; to find nothing is no failure.
    pub failures: u32,
    /// How many calls were not run.
    pub refused: u32,
    /// Milliseconds that it ran, over all calls.
    pub ms: u64,
}

/// Counts what tools are used for, entry by entry.
#[derive(Clone, Debug, Default)]
pub struct ToolUses {
    tools: BTreeMap<Arc<str>, ToolUse>,
    open: Vec<Open>,
    /// When a tool ended last: where an order is kept, the next begins then.
    ended: Millis,
}

/// A call that runs.
#[derive(Clone, Debug)]
struct Open {
    key: CommandKey,
    /// The number of its observation, where it has one already.
    evidence: Option<EvidenceId>,
    tool: Arc<str>,
    since: Millis,
}

impl ToolUses {
    /// Counts what one entry tells; entries come in their order.
    pub fn hear(&mut self, entry: &Entry, spec: &RunSpec) {
        let at = entry.event.at;
        if let Fact::ToolStarted { key, .. } = &entry.event.fact {
            self.open.iter_mut().filter(|open| open.key == *key).for_each(|open| open.since = at);
        }
        for note in &entry.notes {
            match note {
                Note::ActionSettled { key, evidence, status } => {
                    // A retry goes by the key of the first try, and by a number of its own.
                    let is_it =
                        |open: &Open| open.evidence.map_or(open.key == *key, |number| number == *evidence);
                    let found = self.open.iter().position(is_it);
                    if let Some(Open { tool, since, .. }) = found.map(|at| self.open.swap_remove(at)) {
                        self.settled(&tool, since, at, *status, spec.protocol.execution());
                    }
                }
                Note::ActionJudged(judged) => self.judged(judged, at),
                _ => {}
            }
        }
    }

    fn settled(&mut self, tool: &Arc<str>, since: Millis, at: Millis, status: Status, execution: Execution) {
        let since = if execution.is_ordered() { since.max(self.ended) } else { since };
        self.ended = at;
        let used = self.of(tool);
        used.calls += 1;
        used.failures += u32::from(!matches!(status, Status::Ok | Status::Empty));
        used.ms += at.since(since);
    }

    fn judged(&mut self, judged: &JudgedAction, since: Millis) {
        let tool = Arc::clone(judged.tool.as_ref().unwrap_or(&judged.action.tool));
        match judged.verdict {
            Verdict::Run => {
                self.open.push(Open { key: judged.key, evidence: judged.evidence, tool, since });
            }
            // A person is still to be asked, or the protocol takes it itself.
            Verdict::NeedsPerson { .. } | Verdict::Kept => {}
            Verdict::UnknownTool { .. }
            | Verdict::InvalidArguments { .. }
            | Verdict::Denied { .. }
            | Verdict::Duplicate { .. }
            | Verdict::Skipped
            | Verdict::OverLimit { .. } => {
                self.open.retain(|open| open.key != judged.key);
                self.of(&tool).refused += 1;
            }
        }
    }

    /// Each tool that was asked for, by name.
    pub fn all(&self) -> Vec<ToolUse> {
        self.tools.values().cloned().collect()
    }

    fn of(&mut self, tool: &Arc<str>) -> &mut ToolUse {
        let empty = || ToolUse { tool: Arc::clone(tool), ..ToolUse::default() };
        self.tools.entry(Arc::clone(tool)).or_insert_with(empty)
    }
}
