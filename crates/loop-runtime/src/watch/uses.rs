//! How tools were used: how often, with what success, for how long. Read from a run's entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::gate::JudgedAction;
use loop_core::spec::Execution;
use loop_core::types::{CommandKey, EvidenceId, Millis, Status};
use loop_core::{EventKind, Note, RunSpec, Verdict};
use loop_journal::Entry;
use serde::{Deserialize, Serialize};

/// What one tool was used for in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolUse {
    /// The tool's own name, or what the model wrote if no tool was found.
    pub tool: Arc<str>,
    /// How many times it ran.
    pub calls: u32,
    /// How many of those failed. An empty result is not a failure.
    pub failures: u32,
    /// How many requested calls did not run.
    pub refused: u32,
    /// How many times it ran before its reply was complete and in vain. They are not among `calls`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    /// Milliseconds that it ran, over all calls.
    pub ms: u64,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Counts what tools are used for, entry by entry.
#[derive(Clone, Debug, Default)]
pub struct ToolUses {
    tools: BTreeMap<Arc<str>, ToolUse>,
    open: Vec<Call>,
    /// The reads that started before their reply was complete, with the time of their start and of their end.
    early: BTreeMap<(CommandKey, u32), (Millis, Option<Millis>)>,
    /// The tools of the calls that were to run, by their keys.
    ran: BTreeMap<CommandKey, Arc<str>>,
    /// When a tool ended last: where an order is kept, the next begins then.
    ended: Millis,
}

/// A call that runs.
#[derive(Clone, Debug)]
struct Call {
    key: CommandKey,
    /// The number of its observation, where it has one already.
    evidence: Option<EvidenceId>,
    tool: Arc<str>,
    since: Millis,
    /// When it ended, if that was before its reply was complete.
    ended: Option<Millis>,
}

impl ToolUses {
    /// Counts one entry. Pass the entries of a run in their order.
    pub fn hear(&mut self, entry: &Entry, spec: &RunSpec) {
        let at = entry.event.at;
        if let EventKind::ToolStarted { key, .. } = &entry.event.kind {
            let found = self.open_of(key, |_| true);
            if let Some(open) = found.and_then(|at| self.open.get_mut(at)) {
                open.since = at;
            }
        }
        match &entry.event.kind {
            EventKind::EagerStarted { key, attempt, .. } => {
                self.early.insert((*key, *attempt), (at, None));
            }
            EventKind::ToolFinished { key, attempt, .. } => {
                if let Some((_, ended)) = self.early.get_mut(&(*key, *attempt)) {
                    *ended = Some(at);
                }
            }
            _ => {}
        }
        for note in &entry.notes {
            match note {
                Note::ReadUsed { action, key, attempt } => {
                    let early = self.early.remove(&(*key, *attempt));
                    let open = self.open.iter_mut().rev().find(|open| open.key == *action);
                    if let (Some((since, ended)), Some(open)) = (early, open) {
                        (open.since, open.ended) = (since, ended);
                    }
                }
                Note::ReadDropped(read) => {
                    self.early.remove(&(read.key, read.attempt));
                    self.count(&read.tool, |used| used.dropped += 1);
                }
                Note::ActionSettled { key, evidence, status } => {
                    let by_number = self.open.iter().position(|open| open.evidence == Some(*evidence));
                    // What a person denied was not run.
                    let by_key = || {
                        let found = self.open_of(key, |open| open.evidence.is_none());
                        found.filter(|_| *status != Status::Denied)
                    };
                    let found = by_number.or_else(by_key);
                    if let Some(Call { tool, since, ended, .. }) = found.map(|at| self.open.swap_remove(at)) {
                        self.settled(&tool, since, ended.unwrap_or(at), *status, spec.protocol.execution());
                    }
                }
                Note::ActionJudged(judged) => self.judged(judged, at),
                _ => {}
            }
        }
    }

    /// The call that goes by this key. A retry goes by the key of the first try: then it is one of the same tool.
    fn open_of(&self, key: &CommandKey, may_be: impl Fn(&Call) -> bool) -> Option<usize> {
        let tool = self.ran.get(key);
        let is_it = |open: &Call| open.key == *key && may_be(open);
        let is_like_it = |open: &Call| Some(&open.tool) == tool && may_be(open);
        self.open.iter().position(is_it).or_else(|| self.open.iter().position(is_like_it))
    }

    fn settled(&mut self, tool: &Arc<str>, since: Millis, at: Millis, status: Status, execution: Execution) {
        let since = if execution.is_ordered() { since.max(self.ended) } else { since };
        self.ended = at;
        self.count(tool, |used| {
            used.calls += 1;
            used.failures += u32::from(!matches!(status, Status::Ok | Status::Empty));
            used.ms += at.since(since);
        });
    }

    fn judged(&mut self, judged: &JudgedAction, since: Millis) {
        let tool = Arc::clone(judged.tool.as_ref().unwrap_or(&judged.action.tool));
        match judged.verdict {
            Verdict::Run => {
                self.ran.insert(judged.key, Arc::clone(&tool));
                self.open.push(Call { key: judged.key, evidence: judged.evidence, tool, since, ended: None });
            }
            // A person is still to be asked, or the protocol takes it itself.
            Verdict::NeedsPerson { .. } | Verdict::Kept => {}
            Verdict::UnknownTool { .. }
            | Verdict::InvalidArguments { .. }
            | Verdict::Denied { .. }
            | Verdict::Duplicate { .. }
            | Verdict::Skipped
            | Verdict::OverLimit { .. }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. } => {
                self.open.retain(|open| open.key != judged.key);
                self.count(&tool, |used| used.refused += 1);
            }
        }
    }

    /// Each tool that was requested, by name.
    pub fn all(&self) -> Vec<ToolUse> {
        self.tools.values().cloned().collect()
    }

    fn count(&mut self, tool: &Arc<str>, counts: impl FnOnce(&mut ToolUse)) {
        let empty = || ToolUse { tool: Arc::clone(tool), ..ToolUse::default() };
        counts(self.tools.entry(Arc::clone(tool)).or_insert_with(empty));
    }
}
