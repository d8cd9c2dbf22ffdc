//! The writes that a journal starts, read from its commands alone: independent of what a fork is told of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::run::PersonAnswer;
use loop_core::types::Status;
use loop_core::{Command, EventKind, Run, Verdict};
use loop_testkit::World;

/// A write that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedWrite {
    /// The idempotency key that the tool receives.
    pub key: Arc<str>,
    /// The tool with its parameters.
    pub call: String,
    /// The place of the start in the journal.
    pub at: usize,
    /// How its try ended. `None`: the journal does not say.
    pub status: Option<Status>,
}

/// The writes that a journal starts, in their order.
pub fn started_writes(world: &World) -> Vec<StartedWrite> {
    let mut started: Vec<(StartedWrite, _)> = Vec::new();
    for at in 1..world.journal.len() {
        let before = world.run_after(at);
        match &world.journal[at].0.kind {
            EventKind::ToolStarted { key, attempt } => {
                let commands = before.commands();
                let tool = commands.iter().find_map(|command| match command {
                    Command::RunTool(tool) if (tool.key, tool.attempt) == (*key, *attempt) => Some(tool),
                    _ => None,
                });
                let tool = tool.expect("what is started was commanded");
                if !tool.effect.is_read() {
                    let call = format!("{} {}", tool.tool, tool.parameters);
                    let key = before.idempotency_key(key);
                    started.push((StartedWrite { key, call, at, status: None }, (tool.key, tool.attempt)));
                }
            }
            EventKind::ToolFinished { key, attempt, observation } => {
                let tried = started.iter_mut().rev().find(|(_, of)| *of == (*key, *attempt));
                tried.into_iter().for_each(|(write, _)| write.status = Some(observation.status));
            }
            _ => {}
        }
    }
    started.into_iter().map(|(write, _)| write).collect()
}

/// How often a person has approved each call, before each place of the journal.
fn approvals(world: &World, before: usize) -> BTreeMap<String, usize> {
    let mut approvals = BTreeMap::new();
    for at in 1..before {
        if let EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, .. }
        | EventKind::ApprovedBy { key, .. } = &world.journal[at].0.kind
        {
            let run: Run = world.run_after(at + 1);
            let action = run.actions().iter().find(|action| action.key == *key).expect("it was asked about");
            if action.verdict != Verdict::Run {
                // More people have to approve it.
                continue;
            }
            *approvals.entry(format!("{} {}", action.tool_name(), action.parameters)).or_default() += 1;
        }
    }
    approvals
}

/// No write that `parent` started from its event `from` on, or that was in flight there, is started by `fork` without an
/// approval of the fork, and the first approved one has the key that the parent used.
///
/// A write that failed in a retryable way before the fork begins may be tried again: the fork has that result.
pub fn repeats_nothing(parent: &World, from: usize, fork: &World) {
    let all = started_writes(parent);
    let is_open = |write: &&StartedWrite| {
        let settled = (write.at + 1..from).any(|at| {
            let EventKind::ToolFinished { .. } = &parent.journal[at].0.kind else { return false };
            parent.run_after(at).idempotency_key(&key_of(&parent.journal[at].0.kind)) == write.key
        });
        write.at >= from || !settled
    };
    let mine: Vec<&StartedWrite> = all.iter().filter(is_open).collect();
    let mut first = BTreeMap::new();
    for write in started_writes(fork) {
        let Some(of) = mine.iter().find(|of| of.call == write.call) else { continue };
        // The parent's last word on the call, which the fork has if it was open where the fork begins.
        let last = mine.iter().rev().find(|of| of.call == write.call).and_then(|of| of.status);
        if last.is_some_and(|status| status.is_retryable()) {
            continue;
        }
        let approved = approvals(fork, write.at).get(&write.call).copied().unwrap_or_default();
        assert!(approved > 0, "{write:?} is started without an approval; the parent: {mine:?}");
        if first.insert(write.call.clone(), ()).is_none() {
            let keys: Vec<&str> = all.iter().filter(|it| it.call == write.call).map(|it| &*it.key).collect();
            assert!(keys.contains(&&*write.key), "{write:?} has another key than {of:?}");
        }
    }
}

fn key_of(kind: &EventKind) -> loop_core::types::CommandKey {
    match kind {
        EventKind::ToolFinished { key, .. } => *key,
        other => panic!("{} names no call", other.name()),
    }
}
