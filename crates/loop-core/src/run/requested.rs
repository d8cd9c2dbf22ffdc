//! Commands and deadlines, read from the state alone.

use std::sync::Arc;

use crate::run::Run;
use crate::run::check::{CheckSubject, Checking};
use crate::run::command::{CallModel, Check, Command, RunTool};
use crate::run::phase::{Batch, Call, Phase, Stopping};
use crate::run::stopping::grace_ends;
use crate::spec::CHECK_MS;
use crate::types::{Action, CommandKey, KEY_BYTES, Millis, Slot};

impl Run {
    /// The commands that the driver must carry out now. Calling it twice gives the same list. A command stays until it
    /// is settled, so the driver compares (key, attempt) with what it has in flight.
    pub fn commands(&self) -> Vec<Command> {
        match &self.state.phase {
            Phase::Calling { call, .. } => {
                self.command_call(call).into_iter().chain(self.command_eager(call)).collect()
            }
            Phase::Running { batch, .. } => self.command_tools(batch),
            Phase::WaitingForPerson { asks, .. } => asks
                .iter()
                .filter(|ask| !ask.answered)
                .filter_map(|ask| {
                    let action = self.state.calls.actions.get(ask.action as usize)?;
                    let (key, tool) = (action.key, action.tool_name().into());
                    // The approver sees the rebuilt parameters that would run, not those that the model wrote.
                    let action =
                        Action { tool, parameters: action.parameters.clone(), ..action.action.clone() };
                    Some(Command::AskPerson { key, action, deadline: ask.deadline })
                })
                .collect(),
            Phase::Validating(checking) => self.command_check(checking).into_iter().collect(),
            Phase::Stopping(Stopping { call, batch, check, .. }) => {
                let calls = call.iter().map(|call| (call.key, call.attempt));
                let calls = calls.chain(check.iter().map(|check| (check.key, check.attempt)));
                let tools = batch.iter().flat_map(|batch| &batch.work).filter(|work| work.is_in_flight());
                let tools = tools.map(|work| (work.key, work.attempt));
                calls.chain(tools).map(|(key, attempt)| Command::Abort { key, attempt }).collect()
            }
            Phase::Saving { attempt, not_before, .. } => {
                let due = not_before.is_none_or(|at| at <= self.state.clock.now);
                due.then_some(Command::Save { attempt: *attempt }).into_iter().collect()
            }
            Phase::Done { .. } => Vec::new(),
        }
    }

    /// The next instant at which the driver must apply [`DeadlineReached`](crate::EventKind::DeadlineReached). `None`:
    /// there is none. An earlier event of this kind is rejected.
    pub fn deadline(&self) -> Option<Millis> {
        let wall = self.state.clock.ends_at(self.spec.limits.wall_ms);
        match &self.state.phase {
            Phase::Calling { call, .. } => {
                let wait = call.not_before.filter(|at| call.started.is_none() && *at > self.state.clock.now);
                Some(wait.map_or(wall, |at| at.min(wall)))
            }
            Phase::Running { .. } if self.state.phase.waiting_since().is_some() => None,
            Phase::Running { batch, .. } => {
                let in_turn = batch.in_turn(&self.state.calls, &self.spec);
                let open = in_turn.filter(|(_, work)| work.waits(self.state.clock.now));
                let polls = open.filter_map(|(_, work)| work.poll.as_ref().map(|poll| poll.not_before));
                Some(polls.min().map_or(wall, |at| at.min(wall)))
            }
            Phase::Validating(_) => Some(wall),
            Phase::WaitingForPerson { asks, .. } => {
                asks.iter().filter(|ask| !ask.answered).filter_map(|ask| ask.deadline).min()
            }
            Phase::Stopping(Stopping { since, .. }) => Some(grace_ends(*since)),
            Phase::Saving { not_before, .. } => not_before.filter(|at| *at > self.state.clock.now),
            Phase::Done { .. } => None,
        }
    }

    /// The idempotency key that a tool receives with the call under `key`: `run/pass/slot`. A call that another run made
    /// first, as the parent of this one, keeps the key of that run.
    pub fn idempotency_key(&self, key: &CommandKey) -> Arc<str> {
        let foreign = self.state.calls.foreign.get(key).map(Arc::clone);
        foreign.unwrap_or_else(|| {
            let run = self.id().as_str();
            // Asked for each dispatch of a tool.
            let mut text = String::with_capacity(run.len() + 1 + KEY_BYTES);
            text.push_str(run);
            text.push('/');
            key.push_to(&mut text);
            text.into()
        })
    }

    fn command_call(&self, call: &Call) -> Option<Command> {
        let waits = call.not_before.is_some_and(|at| at > self.state.clock.now)
            || self.state.inbox.stop_requested.is_some();
        if call.started.is_none() && waits {
            return None;
        }
        let tier = call.started.map_or(call.tier, |started| started.tier);
        let timeout_ms = match call.key.slot {
            Slot::Select => self.in_time(self.spec.limits.selector_ms),
            Slot::Final => self.spec.model(tier).timeout_ms,
            Slot::Main | Slot::Repair | Slot::Action(_) | Slot::Check | Slot::Save | Slot::Inherited(_) => {
                self.in_time(self.spec.model(tier).timeout_ms)
            }
        };
        Some(Command::CallModel(CallModel {
            key: call.key,
            attempt: call.attempt,
            tier,
            granted: call.started.map(|started| started.max_output_tokens),
            timeout_ms,
        }))
    }

    fn command_check(&self, checking: &Checking) -> Option<Command> {
        if !checking.announced && self.state.inbox.stop_requested.is_some() {
            return None;
        }
        let timeout_ms = match &checking.about {
            CheckSubject::Output { .. } => {
                self.in_time(self.spec.protocol.output().map_or(0, |output| output.validate_ms))
            }
            // No pass has to follow it, so it may take the time of one.
            CheckSubject::Document { .. } => {
                let left = self.spec.limits.wall_ms.saturating_sub(self.elapsed_ms());
                let asks = checking.sub_call.map_or(0, |granted| granted.timeout_ms);
                CHECK_MS.saturating_add(asks).min(left).max(1)
            }
        };
        Some(Command::Check(Check {
            key: checking.key,
            attempt: checking.attempt,
            what: checking.what(),
            announced: checking.announced,
            timeout_ms,
            sub_call: checking.sub_call,
        }))
    }

    /// The timeout, cut to leave the time reserved for the final pass. At least 1 ms.
    pub(super) fn in_time(&self, timeout_ms: u64) -> u64 {
        timeout_ms.min(self.spec.working_ms().saturating_sub(self.elapsed_ms())).max(1)
    }

    fn command_tools(&self, batch: &Batch) -> Vec<Command> {
        let is_held = batch.is_held(&self.state.inbox, &self.spec);
        let in_turn = batch.in_turn(&self.state.calls, &self.spec);
        in_turn
            .filter(|(_, work)| work.waiting.is_none())
            .filter(|(_, work)| work.announced || !is_held && !work.waits(self.state.clock.now))
            .filter_map(|(_, work)| {
                let action = self.state.calls.actions.get(work.action as usize)?;
                let tool = self.spec.tool(action.tool_name())?;
                Some(Command::RunTool(RunTool {
                    key: work.key,
                    attempt: work.attempt,
                    tool: Arc::clone(&tool.name),
                    parameters: action.parameters.clone(),
                    effect: tool.effect,
                    announced: work.announced,
                    // The timeout of a write is not cut for the final pass.
                    timeout_ms: if tool.effect.is_read() {
                        self.in_time(tool.timeout_ms)
                    } else {
                        tool.timeout_ms
                    },
                    sub_call: work.sub_call,
                    lease: work.lease.as_deref().copied(),
                }))
            })
            .collect()
    }
}
