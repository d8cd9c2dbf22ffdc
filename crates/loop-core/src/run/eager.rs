//! Eager reads: tool calls that start while the reply that requests them is still being received.
//!
//! A call may start if the gate would run it should the reply end with it. That is computed by applying such a reply to
//! a copy of the run, so there is one set of rules. The reads are the first calls of their reply, without a gap. Once
//! the reply is complete, the gate decides as always: an admitted action takes the result of its read, and every other
//! read is dropped.

use std::sync::Arc;

use crate::policy;
use crate::reply::{FinishReason, Reply};
use crate::run::Run;
use crate::run::command::{Command, RunTool};
use crate::run::eager_read::{DropReason, DroppedRead, EagerRead, NotEager};
use crate::run::event::{Event, EventKind};
use crate::run::note::Note;
use crate::run::phase::{Call, Phase, Purpose};
use crate::run::rest::RunParts;
use crate::types::{Arguments, CommandKey, Effect, Millis, Observation, ToolCall};

impl Run {
    /// The announcement of the next call in a reply that is still being received, if the call may start at `at`. Apply
    /// it and journal it; then [`commands`](Self::commands) contains the read.
    ///
    /// `call` and `attempt` name the model call; `name` and `arguments` are as the model wrote them. The calls of a
    /// reply are asked about in their order. Once one is refused for good, the later calls of the reply must not be
    /// asked about.
    ///
    /// # Errors
    /// Why the call has to wait for its complete reply.
    pub fn eager_read(
        &self,
        at: Millis,
        (call, attempt): (CommandKey, u32),
        name: &Arc<str>,
        arguments: &Arguments,
    ) -> Result<EventKind, NotEager> {
        let read = self.eager(at, (&call, attempt), name, arguments)?;
        Ok(EventKind::EagerStarted {
            call,
            call_attempt: attempt,
            key: read.key,
            attempt: read.attempt,
            name: read.name,
            arguments: read.arguments,
        })
    }

    /// The read that an event announces, if it may start at `at`. `None`: the event announces none.
    pub(super) fn announced_early(
        &self,
        at: Millis,
        event: &EventKind,
    ) -> Option<Result<EagerRead, (CommandKey, NotEager)>> {
        let EventKind::EagerStarted { call, call_attempt, key, attempt, name, arguments } = event else {
            return None;
        };
        let read = self.eager(at, (call, *call_attempt), name, arguments);
        let read = read.and_then(|read| match (read.key, read.attempt) == (*key, *attempt) {
            true => Ok(read),
            false => Err(NotEager::Refused),
        });
        Some(read.map_err(|why| (*key, why)))
    }

    fn eager(
        &self,
        at: Millis,
        (key, attempt): (&CommandKey, u32),
        name: &Arc<str>,
        arguments: &Arguments,
    ) -> Result<EagerRead, NotEager> {
        if !self.spec.starts_reads_early() {
            return Err(NotEager::Off);
        }
        let Phase::Calling { call, purpose: Purpose::Main } = &self.state.phase else {
            return Err(NotEager::NoReply);
        };
        if call.in_flight(key, attempt).is_none() {
            return Err(NotEager::NoReply);
        }
        let tool = policy::resolve(&self.spec, name).map(|(tool, _)| tool);
        if !tool.is_some_and(|tool| {
            tool.policy.cheap && tool.effect.is_read() && !tool.smart && tool.policy.lease.is_none()
        }) {
            return Err(NotEager::Tool);
        }
        let begun = call.eager.len() as u32;
        let totals = &self.state.budget.totals;
        let used = totals.tool_calls.saturating_add(totals.eager_dropped).saturating_add(begun);
        if used >= self.spec.limits.tool_calls {
            return Err(NotEager::Limit);
        }
        // The reply, if this call were its last.
        let written = |name: &Arc<str>, arguments: &Arguments| ToolCall {
            id: Arc::default(),
            name: Arc::clone(name),
            arguments: arguments.clone(),
        };
        let before = call.eager.iter().map(|read| written(&read.name, &read.arguments));
        let calls = before.chain([written(name, arguments)]).collect();
        let reply: Box<Reply> =
            Reply { calls, finish: FinishReason::ToolUse, ..Reply::text(Arc::default()) }.into();
        let mut trial = self.clone();
        let action = trial.state.calls.actions.len() as u32 + begun;
        let kind = EventKind::ModelReplied { key: *key, attempt, reply };
        trial.apply(&Event { at, kind }).map_err(|_| NotEager::Refused)?;
        let Phase::Running { batch, .. } = &trial.state.phase else { return Err(NotEager::Refused) };
        let admitted = batch.work.iter().find(|work| work.action == action).ok_or(NotEager::Refused)?;
        let judged = trial.state.calls.of(admitted).ok_or(NotEager::Refused)?;
        let mut in_turn = batch.in_turn(&trial.state.calls, &trial.spec);
        if !in_turn.any(|(_, work)| work.action == action && work.is_in_flight()) {
            return Err(NotEager::Waits);
        }
        Ok(EagerRead {
            key: admitted.key,
            attempt: admitted.attempt,
            tool: judged.tool_name().into(),
            parameters: judged.parameters.clone(),
            name: Arc::clone(name),
            arguments: arguments.clone(),
            observation: None,
        })
    }

    /// The commands of the reads that run before the reply of `call` is complete.
    pub(super) fn command_eager<'a>(&'a self, call: &'a Call) -> impl Iterator<Item = Command> + 'a {
        call.eager.iter().filter(|read| read.observation.is_none()).map(|read| {
            let limit = self.spec.tool(&read.tool).map_or(0, |tool| tool.timeout_ms);
            Command::RunTool(RunTool {
                key: read.key,
                attempt: read.attempt,
                tool: Arc::clone(&read.tool),
                parameters: read.parameters.clone(),
                effect: Effect::Read,
                announced: true,
                timeout_ms: self.in_time(limit),
                sub_call: None,
                lease: None,
            })
        })
    }
}

impl Call {
    /// The index of the eager read in flight, if `key` and `attempt` name it.
    pub(super) fn eager_in_flight(&self, key: &CommandKey, attempt: u32) -> Option<usize> {
        let is_it =
            |read: &EagerRead| read.key == *key && read.attempt == attempt && read.observation.is_none();
        self.eager.iter().position(is_it)
    }

    /// Stores the result of an eager read until the reply is complete.
    pub(super) fn eager_finished(&mut self, at: usize, observation: &Arc<Observation>) {
        if let Some(read) = self.eager.get_mut(at) {
            read.observation = Some(Arc::clone(observation));
        }
    }
}

impl RunParts<'_> {
    /// Drops the eager reads of a call whose reply will not be judged.
    pub(super) fn drop_reads_of(&mut self, call: &mut Call, why: DropReason) {
        std::mem::take(&mut call.eager).into_iter().for_each(|read| self.drop_read(read, why));
    }

    /// Counts and records an eager read whose result is not used.
    pub(super) fn drop_read(&mut self, read: EagerRead, why: DropReason) {
        let EagerRead { key, attempt, tool, parameters, observation, .. } = read;
        let finished = observation.is_some();
        let dropped = DroppedRead { key, attempt, tool, parameters, finished, why };
        self.budget.totals.eager_dropped += 1;
        self.notes.push(Note::ReadDropped(dropped.clone()));
        self.calls.dropped.push(dropped);
    }
}
