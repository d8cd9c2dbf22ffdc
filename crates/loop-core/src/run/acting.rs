//! Tools: admitted, announced, settled, numbered.

use std::sync::Arc;

use crate::action::Verdict;
use crate::command::SubCallBudget;
use crate::contract::{Readings, contracts_in, echoes};
use crate::ids::{CommandKey, Digest, EvidenceId};
use crate::judge::{Bench, Judged, Room, judge};
use crate::note::Note;
use crate::observation::{Observation, Status, SubCallUse};
use crate::outcome::Evidence;
use crate::policy_spec::Repeats;
use crate::proposal::Proposal;
use crate::protocol;
use crate::run::calls::Charge;
use crate::run::{Ask, Batch, Phase, Rejected, Run, Work};
use crate::spec::Effect;

impl Run {
    pub(super) fn tool_started(&mut self, key: &CommandKey, attempt: u32) -> Result<(), Rejected> {
        let phase = self.state.phase.name();
        let not_open = self.not_open("tool_started", key, attempt);
        let blocked = self.state.stop_asked.is_some() || !self.state.phase.is_working();
        let is_it = |work: &Work| work.key == *key && work.attempt == attempt && !work.announced;
        let Some(batch) = self.state.phase.batch() else {
            return Err(Rejected::OutOfOrder { event: "tool_started", phase });
        };
        let is_its_turn = self.in_turn(batch).any(is_it);
        let batch = self.state.phase.batch_mut().filter(|_| is_its_turn);
        match batch.and_then(|batch| batch.work.iter_mut().find(|work| is_it(work))) {
            Some(work) if !blocked => {
                work.announced = true;
                Ok(())
            }
            Some(_) | None => Err(not_open),
        }
    }

    pub(super) fn tool_finished(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        observation: &Observation,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let not_open = self.not_open("tool_finished", key, attempt);
        let Some(batch) = self.state.phase.batch() else {
            return self.out_of_order("tool_finished");
        };
        let open = batch
            .work
            .iter()
            .position(|work| work.key == *key && work.attempt == attempt && work.is_in_flight());
        let Some(at) = open else { return Err(not_open) };
        let mut observation = observation.clone();
        // What was cut off may have happened all the same.
        if matches!(observation.status, Status::Timeout | Status::Cancelled) && !self.is_repeatable(at) {
            observation.status = Status::InDoubt;
        }
        self.settle(at, observation, notes);
        self.batch_settled(notes);
        Ok(())
    }

    /// Writes verdicts down and makes a batch of what runs and what waits for a person.
    pub(super) fn admit(&mut self, judged: Vec<Judged>, notes: &mut Vec<Note>) -> Batch {
        let mut batch = Batch::default();
        for Judged { mut judged, signature, run_as } in judged {
            let action = self.state.actions.len() as u32;
            if let (Verdict::Run, Some(signature)) = (&judged.verdict, signature) {
                let evidence = EvidenceId((self.state.evidence.len() + batch.work.len()) as u32 + 1);
                judged.evidence = Some(evidence);
                let (key, attempt) = run_as;
                self.state.ledger.started(signature, key, attempt, evidence);
                self.state.totals.tool_calls += 1;
                let tool = judged.tool.as_deref().and_then(|name| self.spec.tool(name));
                let smart = tool.is_some_and(|tool| tool.smart);
                // Where an order is kept each waits for its turn.
                let waits = self.spec.protocol.execution().is_ordered();
                let announced = !waits && tool.is_some_and(|tool| tool.effect.is_read());
                let sub_call = if smart { self.grant_sub_call() } else { None };
                batch.work.push(Work {
                    key,
                    attempt,
                    action,
                    evidence,
                    signature,
                    announced,
                    sub_call,
                    observation: None,
                });
            }
            if matches!(judged.verdict, Verdict::NeedsPerson { .. }) {
                batch.asks.push(action);
            }
            notes.push(Note::ActionJudged(judged.clone()));
            self.state.actions.push(judged);
        }
        if !self.spec.gate.people {
            batch.asks.clear();
        }
        batch
    }

    /// Runs a batch, or goes on where there is nothing to run.
    pub(super) fn act(&mut self, batch: Batch, notes: &mut Vec<Note>) {
        self.state.phase = Phase::Acting { batch };
        self.batch_settled(notes);
    }

    /// A call to a model is granted to a smart tool as long as one is left for the document after it (S0-65).
    pub(super) fn grant_sub_call(&mut self) -> Option<SubCallBudget> {
        let limits = &self.spec.limits;
        let taken = self.state.totals.model_calls.saturating_add(self.state.granted_sub_calls);
        if taken.saturating_add(2) > limits.model_calls || !self.pays_for_sub_call() {
            return None;
        }
        self.state.granted_sub_calls += 1;
        Some(SubCallBudget {
            bytes: limits.sub_call_bytes,
            output_tokens: limits.sub_call_tokens,
            timeout_ms: limits.sub_call_ms,
        })
    }

    /// Settles one piece of work.
    pub(super) fn settle(&mut self, at: usize, observation: Observation, notes: &mut Vec<Note>) {
        let Some(work) = self.state.phase.batch_mut().and_then(|batch| batch.work.get_mut(at)) else {
            return;
        };
        let (key, attempt, signature, evidence) = (work.key, work.attempt, work.signature, work.evidence);
        let granted = work.sub_call.take();
        let (status, used) = (observation.status, observation.sub_call);
        let readings = self.spec.readings();
        if !self.spec.protocol.is_native() {
            let read = [&observation.summary, &observation.markdown];
            let known = read
                .iter()
                .flat_map(|text| echoes(text, readings))
                .chain(echoes_in_data(&observation.data, readings));
            self.state.echoes.extend(known);
        }
        work.observation = Some(observation);
        self.state.ledger.settled(&signature, key, attempt, status);
        notes.push(Note::ActionSettled { key, evidence, status });
        if granted.is_some() {
            self.state.granted_sub_calls = self.state.granted_sub_calls.saturating_sub(1);
            if let Some(used) = used {
                self.charge_sub_call(key, attempt, used, notes);
            }
        }
    }

    /// Whether doing a piece of work twice is the same as doing it once.
    fn is_repeatable(&self, at: usize) -> bool {
        let work = self.state.phase.batch().and_then(|batch| batch.work.get(at));
        let action = work.and_then(|work| self.state.actions.get(work.action as usize));
        let tool = action.and_then(|action| self.spec.tool(action.tool_name()));
        tool.is_some_and(|tool| {
            matches!(tool.effect, Effect::Read | Effect::WriteIdempotent | Effect::WriteKeyed)
        })
    }

    pub(super) fn charge_sub_call(
        &mut self,
        key: CommandKey,
        attempt: u32,
        used: SubCallUse,
        notes: &mut Vec<Note>,
    ) {
        self.state.totals.model_calls += 1;
        self.state.totals.sub_calls += 1;
        let reserve = self.sub_call_reserve();
        let charge =
            Charge { key, attempt, tier: self.small_tier(), usage: used.usage, reported: None, reserve };
        self.charge(charge, notes);
    }

    /// Goes on when everything in the batch has settled.
    pub(super) fn batch_settled(&mut self, notes: &mut Vec<Note>) {
        if self.state.phase.batch().is_none() {
            return;
        }
        if matches!(self.state.phase, Phase::Stopping { .. }) {
            return self.stopping_settled(notes);
        }
        self.take_turns();
        let Some(batch) = self.state.phase.batch() else {
            return;
        };
        // Once a stop is asked for, what was not started is not waited for.
        let waits_for_all = self.state.stop_asked.is_none();
        if batch.is_in_flight() || waits_for_all && batch.work.iter().any(|work| work.observation.is_none()) {
            return;
        }
        let asks = self.keep_evidence(notes);
        if self.out_of_time().is_some() {
            // What a person would allow could not run any more.
            self.leave_undone(&asks, "limits.wall_ms", notes);
            return self.go_on(notes);
        }
        if asks.is_empty() || self.state.stop_asked.is_some() {
            return self.go_on(notes);
        }
        let deadline = self.state.now.plus(self.spec.limits.person_ms);
        let asks = asks.into_iter().map(|action| Ask { action, deadline, answered: false }).collect();
        self.state.phase = Phase::WaitingForPerson { asks, since: self.state.now };
    }

    /// What comes after the calls of a pass: the validation of an output, or the next pass.
    fn go_on(&mut self, notes: &mut Vec<Note>) {
        if self.state.stop_asked.is_some() || !self.validates() {
            self.next_pass(notes);
        }
    }

    /// Where an order is kept: lets the next call start, if it only looks and nothing stops it. One that changes
    /// something is announced first.
    fn take_turns(&mut self) {
        if !self.spec.protocol.execution().is_ordered() || self.state.stop_asked.is_some() {
            return;
        }
        let Some(batch) = self.state.phase.batch() else { return };
        let next = batch.work.iter().position(|work| work.observation.is_none());
        let Some(at) = next.filter(|at| batch.work.get(*at).is_some_and(|work| self.is_read(work))) else {
            return;
        };
        if let Some(work) = self.state.phase.batch_mut().and_then(|batch| batch.work.get_mut(at)) {
            work.announced = true;
        }
    }

    /// Whether a piece of work only looks.
    pub(super) fn is_read(&self, work: &Work) -> bool {
        let action = self.state.actions.get(work.action as usize);
        let tool = action.and_then(|action| self.spec.tool(action.tool_name()));
        tool.is_some_and(|tool| tool.effect.is_read())
    }

    /// Judges what a reply asks for that came when the reason was fixed already: nothing of it is run.
    pub(super) fn leave_all_undone(&mut self, proposal: &Proposal, notes: &mut Vec<Note>) {
        if !self.spec.protocol.is_native() {
            return;
        }
        let Phase::Stopping { certificate, .. } = &self.state.phase else { return };
        let setting: Arc<str> = certificate.reason().name().into();
        let pass = self.state.passes.len() as u32;
        let room = Room { left: u32::MAX, setting: "limits.tool_calls" };
        let bench = Bench { spec: &self.spec, ledger: &self.state.ledger, pass, room };
        let mut judged = judge(&proposal.actions, bench);
        let (ending, last) =
            protocol::ending(proposal.ending.clone(), &judged, /*stored*/ None, &self.spec);
        self.take_ending(&ending, last);
        for judged in &mut judged {
            judged.judged.verdict = Verdict::OverLimit { setting: Arc::clone(&setting) };
        }
        self.admit(judged, notes);
    }

    /// Writes down that these actions will not be run, and which setting says so.
    pub(super) fn leave_undone(&mut self, actions: &[u32], setting: &str, notes: &mut Vec<Note>) {
        for at in actions {
            if let Some(action) = self.state.actions.get_mut(*at as usize) {
                action.verdict = Verdict::OverLimit { setting: setting.into() };
                notes.push(Note::ActionJudged(action.clone()));
            }
        }
    }

    /// Moves the batch's observations to the evidence, in request order (I-20); gives what waits for a person.
    pub(super) fn keep_evidence(&mut self, notes: &mut Vec<Note>) -> Vec<u32> {
        self.give_up_work(notes);
        let Some(batch) = self.state.phase.batch_mut().map(std::mem::take) else {
            return Vec::new();
        };
        // Not before all have settled: the order in which they do must not matter.
        let denied = |work: &Work| work.observation.as_ref().is_some_and(|it| it.status == Status::Denied);
        let changed = batch.work.iter().any(|work| !self.is_read(work) && !denied(work));
        if changed && self.spec.repeats() == Repeats::Reuse {
            self.state.ledger.forget_results();
        }
        for work in batch.work {
            let action = self.state.actions.get(work.action as usize);
            let (Some(action), Some(observation)) = (action, work.observation) else {
                continue;
            };
            if observation.status.is_citable() {
                self.state.citable.push(work.evidence);
                self.state.fresh |= self.state.known.insert(observation.digest);
            }
            self.state.evidence.push(Evidence {
                id: work.evidence,
                key: work.key,
                pass: action.key.pass,
                tool: action.tool_name().into(),
                parameters: Arc::clone(&action.parameters),
                observation,
                shortened: false,
            });
        }
        batch.asks
    }

    /// Settles what will never settle by itself: a write that may have been started is in doubt.
    fn give_up_work(&mut self, notes: &mut Vec<Note>) {
        let open: Vec<(usize, Work)> = self
            .state
            .phase
            .batch()
            .iter()
            .flat_map(|batch| batch.work.iter().enumerate())
            .filter(|(_, work)| work.observation.is_none())
            .map(|(at, work)| (at, work.clone()))
            .collect();
        for (at, work) in open {
            let action = self.state.actions.get(work.action as usize);
            let name: Arc<str> = action.map_or_else(|| "".into(), |action| action.tool_name().into());
            let is_read = self.spec.tool(&name).is_some_and(|tool| tool.effect.is_read());
            let (status, message) = if !is_read && (work.announced || work.attempt > 1) {
                (Status::InDoubt, "it may or may not have happened: the run stopped before it ended")
            } else {
                (Status::Cancelled, "cancelled: the run stopped before it ended")
            };
            let mut observation = Observation::failed(status, &name, message);
            observation.sub_call = work.lost_sub_call();
            self.settle(at, observation, notes);
        }
    }
}

/// Contracts in a tool's data, also inside its strings.
fn echoes_in_data(data: &str, readings: Readings) -> Vec<Digest> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str(data) {
        contracts_in(&value, readings, &mut found);
    }
    found
}
