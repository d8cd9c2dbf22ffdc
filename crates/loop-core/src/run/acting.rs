//! Tools: admitted, announced, settled, numbered.

use std::sync::Arc;

use crate::gate::{
    self, Certificate, Change, Condition, JudgeContext, Judged, JudgedAction, Limit, Measure, Quota,
    StopReason, Verdict, judge, manual_stop,
};
use crate::policy::RunSources;
use crate::repeats::Settled;
use crate::reply::Proposal;
use crate::run::command::SubCallBudget;
use crate::run::model_calls::Charge;
use crate::run::note::Note;
use crate::run::phase::{Ask, Batch, Phase, Poll, Stage, Work};
use crate::run::{Rejected, Run, gating};
use crate::spec::Setting;
use crate::spec::{OnInvalid, OnToolError};
use crate::types::{CommandKey, Digest, Effect, Evidence, Millis, Observation, Status, SubCallUse};

impl Run {
    pub(super) fn tool_started(&mut self, key: &CommandKey, attempt: u32) -> Result<(), Rejected> {
        let phase = self.state.phase.name();
        let not_open = self.not_open("tool_started", key, attempt);
        let blocked = self.is_held() || !self.state.phase.is_working();
        let now = self.state.clock.now;
        let is_it =
            |work: &Work| work.key == *key && work.attempt == attempt && !work.announced && !work.waits(now);
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
        // What was cut off may have happened all the same, and once the reason is fixed it is not made again.
        let is_over =
            !self.state.phase.is_working() && !batch.work.get(at).is_some_and(|work| self.is_read(work));
        let is_cut = matches!(observation.status, Status::Timeout | Status::Cancelled);
        if is_cut && (is_over || !self.is_repeatable(at)) {
            observation.status = Status::InDoubt;
        }
        match self.asks_again_at(at, &observation) {
            Some(not_before) => self.ask_again(at, observation, not_before, notes),
            None => self.settle(at, observation, notes),
        }
        self.batch_settled(notes);
        Ok(())
    }

    /// When a tool that is not ready is asked again, if it is: what may be done twice, as often as its rules say, as
    /// long as the run's time lasts.
    fn asks_again_at(&self, at: usize, observation: &Observation) -> Option<Millis> {
        let after = observation.retry_after_ms.filter(|_| observation.status == Status::Pending)?;
        let work = self.state.phase.batch().and_then(|batch| batch.work.get(at))?;
        let action = self.state.calls.actions.get(work.action as usize)?;
        let polls = self.spec.tool(action.tool_name())?.policy.repeats.polls;
        let not_before = self.state.clock.now.plus(after.max(1));
        let has_time =
            self.elapsed_ms().saturating_add(not_before.since(self.state.clock.now)) < self.working_ms();
        let may = self.state.phase.is_working()
            && !self.is_held()
            && self.is_repeatable(at)
            && work.poll.as_ref().map_or(0, |poll| poll.times) < polls
            && has_time;
        may.then_some(not_before)
    }

    /// Wishes a tool that is not ready once more, under its key, without a model.
    fn ask_again(&mut self, at: usize, last: Observation, not_before: Millis, notes: &mut Vec<Note>) {
        let Some(work) = self.state.phase.batch_mut().and_then(|batch| batch.work.get_mut(at)) else {
            return;
        };
        let (key, attempt, granted, used) = (work.key, work.attempt, work.sub_call.take(), last.sub_call);
        let times = work.poll.take().map_or(0, |poll| poll.times) + 1;
        work.poll = Some(Box::new(Poll { times, not_before, last: Observation { sub_call: None, ..last } }));
        work.attempt += 1;
        // Its start is told, also where it only looks: until then nothing of it is in flight.
        work.announced = false;
        notes.push(Note::Polled { key, attempt: attempt + 1, not_before });
        if granted.is_some() {
            self.state.budget.release_sub_call();
            if let Some(used) = used {
                self.charge_sub_call(key, attempt, used, notes);
            }
            let granted = self.grant_sub_call();
            if let Some(work) = self.state.phase.batch_mut().and_then(|batch| batch.work.get_mut(at)) {
                work.sub_call = granted;
            }
        }
    }

    /// Whether nothing more of a batch is started: a stop is asked for, or a tool has failed and that ends the run.
    pub(super) fn is_held(&self) -> bool {
        let setting = self.spec.gate.on_tool_error;
        let ends = |work: &Work| work.observation.as_ref().is_some_and(|it| setting.stops_at(it.status));
        self.state.inbox.stop_requested.is_some()
            || self.state.phase.batch().is_some_and(|batch| batch.work.iter().any(ends))
    }

    /// What the actions of a pass are judged against.
    pub(super) fn context(&self, pass: u32, quota: Quota) -> JudgeContext<'_> {
        let (spec, state) = (&*self.spec, &self.state);
        let sources = RunSources {
            spec,
            item: &state.started.item,
            evidence: &state.knowledge.evidence,
            instructions: state.inbox.instructions(),
            requested_before: state.started.history.as_ref().map_or(&[], |history| &history.requested),
        };
        JudgeContext {
            spec,
            ledger: &state.calls.ledger,
            trouble: &state.calls.trouble,
            taint: state.knowledge.taint,
            sources,
            pass,
            quota,
        }
    }

    /// Writes verdicts down and makes a batch of what runs and what waits for a person.
    pub(super) fn admit(&mut self, judged: Vec<Judged>, notes: &mut Vec<Note>) -> Batch {
        let mut batch = Batch::default();
        for Judged { mut judged, fingerprint, run_as } in judged {
            let action = self.state.calls.actions.len() as u32;
            if let (Verdict::Run, Some(fingerprint)) = (&judged.verdict, fingerprint) {
                let evidence = self.state.knowledge.next_id(batch.work.len());
                judged.evidence = Some(evidence);
                let (key, attempt) = run_as;
                self.state.calls.ledger.started(&fingerprint, key, attempt, evidence);
                let signature = fingerprint.signature();
                self.state.budget.totals.tool_calls += 1;
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
                    poll: None,
                    lost: 0,
                });
            }
            if matches!(judged.verdict, Verdict::NeedsPerson { .. }) {
                batch.asks.push(action);
            }
            notes.push(Note::ActionJudged(judged.clone()));
            self.state.calls.actions.push(judged);
        }
        if !self.spec.gate.people {
            batch.asks.clear();
        }
        batch
    }

    /// Runs a batch, or goes on where there is nothing to run.
    pub(super) fn act(&mut self, batch: Batch, notes: &mut Vec<Note>) {
        self.state.phase = Phase::Running { batch, stage: Stage::Act };
        self.batch_settled(notes);
    }

    /// A call to a model is granted to a smart tool as long as one is left for the document after it (S0-65).
    pub(super) fn grant_sub_call(&mut self) -> Option<SubCallBudget> {
        let limits = &self.spec.limits;
        let taken = self.state.budget.totals.model_calls.saturating_add(self.state.budget.granted_sub_calls);
        if taken.saturating_add(2) > limits.model_calls || !self.quoting().pays_for_sub_call() {
            return None;
        }
        self.state.budget.granted_sub_calls += 1;
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
        let (key, attempt, evidence) = (work.key, work.attempt, work.evidence);
        let granted = work.sub_call.take();
        let (status, used) = (observation.status, observation.sub_call.clone());
        if self.spec.protocol.properties().has_contract {
            self.state.knowledge.echoes.read_observation(&observation);
        }
        work.observation = Some(observation);
        notes.push(Note::ActionSettled { key, evidence, status });
        if granted.is_some() {
            self.state.budget.release_sub_call();
            if let Some(used) = used {
                self.charge_sub_call(key, attempt, used, notes);
            }
        }
    }

    /// Whether doing a piece of work twice is the same as doing it once.
    fn is_repeatable(&self, at: usize) -> bool {
        let work = self.state.phase.batch().and_then(|batch| batch.work.get(at));
        let action = work.and_then(|work| self.state.calls.actions.get(work.action as usize));
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
        self.state.budget.totals.model_calls += 1;
        self.state.budget.totals.sub_calls += 1;
        let reserve = self.quoting().sub_call_reserve();
        let (tier, usage, received) = (self.auxiliary_tier(), used.usage, used.received);
        let charge = Charge { key, attempt, tier, usage, received, reported: None, reserve };
        self.charge(charge, notes);
        self.served_by(used.served_model.as_ref());
    }

    /// Goes on when everything in the batch has settled.
    pub(super) fn batch_settled(&mut self, notes: &mut Vec<Note>) {
        if self.state.phase.batch().is_none() {
            return;
        }
        if matches!(self.state.phase, Phase::Stopping { .. }) {
            return self.stopping_settled(notes);
        }
        self.hold_back_doubtful(notes);
        self.take_turns();
        let Some(batch) = self.state.phase.batch() else {
            return;
        };
        // What was not started, and will not be, is not waited for.
        let waits_for_all = !self.is_held();
        if batch.is_in_flight() || waits_for_all && batch.work.iter().any(|work| work.observation.is_none()) {
            return;
        }
        let first = self.state.knowledge.evidence.len();
        let asks = self.keep_evidence(notes);
        if let Some(certificate) = self.ended_by_trouble(first) {
            self.leave_undone(&asks, certificate.reason(), notes);
            return self.stop(certificate, notes);
        }
        if self.state.inbox.stop_requested.is_none()
            && let Some(certificate) = self.submitted_nothing()
        {
            // The run has failed: nobody is asked about what would not run any more.
            self.leave_undone(&asks, certificate.reason(), notes);
            return self.stop(certificate, notes);
        }
        if self.out_of_time().is_some() {
            // What a person would allow could not run any more.
            self.leave_undone(&asks, StopReason::Timeout, notes);
            return self.go_on(notes);
        }
        if asks.is_empty() || self.state.inbox.stop_requested.is_some() {
            return self.go_on(notes);
        }
        let deadline = self.state.clock.now.plus(self.spec.limits.person_ms);
        let asks =
            asks.into_iter().map(|action| Ask { action, deadline, answered: false, answer: None }).collect();
        self.state.phase = Phase::WaitingForPerson { asks, since: self.state.clock.now };
    }

    /// Settles writes that wait for their turn while the same call before them may or may not have happened: they are
    /// not started, and whoever still wants one asks for it again.
    fn hold_back_doubtful(&mut self, notes: &mut Vec<Note>) {
        let Some(batch) = self.state.phase.batch() else { return };
        let is_doubtful = |work: &Work| {
            work.observation.as_ref().is_some_and(|observation| observation.status == Status::InDoubt)
        };
        let doubtful: Vec<Digest> =
            batch.work.iter().filter(|work| is_doubtful(work)).map(|work| work.signature).collect();
        if doubtful.is_empty() {
            return;
        }
        // What was started before and lost has a doubt of its own.
        let is_untried = |work: &Work| !work.announced && work.attempt == 1 && work.observation.is_none();
        let waits = |work: &Work| is_untried(work) && !self.is_read(work);
        let held: Vec<(usize, Arc<str>)> = batch
            .work
            .iter()
            .enumerate()
            .filter(|(_, work)| waits(work) && doubtful.contains(&work.signature))
            .filter_map(|(at, work)| Some((at, self.state.calls.actions.get(work.action as usize)?)))
            .map(|(at, action)| (at, action.tool_name().into()))
            .collect();
        for (at, name) in held {
            let message = "not started: the same call before it may or may not have happened";
            self.settle(at, Observation::failed(Status::Duplicate, &name, message), notes);
        }
    }

    /// What comes after the calls of a pass: the validation of an output, or the next pass.
    fn go_on(&mut self, notes: &mut Vec<Note>) {
        if self.state.inbox.stop_requested.is_some() {
            return self.next_pass(notes);
        }
        if !self.validates() {
            self.next_pass(notes);
        }
    }

    /// Where an order is kept: lets the next call start, if it only looks and nothing stops it. One that changes
    /// something is announced first.
    fn take_turns(&mut self) {
        if !self.spec.protocol.execution().is_ordered() || self.is_held() {
            return;
        }
        let Some(batch) = self.state.phase.batch() else { return };
        let next = batch.work.iter().position(|work| work.observation.is_none());
        // What is asked again is announced each time.
        let is_free = |work: &Work| self.is_read(work) && work.poll.is_none();
        let Some(at) = next.filter(|at| batch.work.get(*at).is_some_and(is_free)) else {
            return;
        };
        if let Some(work) = self.state.phase.batch_mut().and_then(|batch| batch.work.get_mut(at)) {
            work.announced = true;
        }
    }

    /// Whether a piece of work only looks.
    pub(super) fn is_read(&self, work: &Work) -> bool {
        let action = self.state.calls.actions.get(work.action as usize);
        let tool = action.and_then(|action| self.spec.tool(action.tool_name()));
        tool.is_some_and(|tool| tool.effect.is_read())
    }

    /// Judges what a reply asks for that came when the reason was fixed already: nothing of it is run.
    pub(super) fn leave_all_undone(&mut self, proposal: &Proposal, notes: &mut Vec<Note>) {
        if !self.spec.protocol.properties().answers_every_call {
            return;
        }
        let Phase::Stopping { certificate, .. } = &self.state.phase else { return };
        let reason = certificate.reason();
        let pass = self.state.draft.passes.len() as u32;
        let quota = Quota { left: u32::MAX, limit: Limit::ToolCalls };
        let mut judged = judge(&proposal.actions, self.context(pass, quota));
        let is_violation = |judged: &JudgedAction| self.is_violation(judged);
        let stored = None;
        let (ending, last) = gate::ending(proposal.ending.clone(), &judged, stored, is_violation, &self.spec);
        self.take_ending(&ending, last);
        for judged in &mut judged {
            judged.judged.verdict = Verdict::Ended { reason };
        }
        self.admit(judged, notes);
    }

    /// Records that these actions will not be run, since the run ends for this reason.
    pub(super) fn leave_undone(&mut self, actions: &[u32], reason: StopReason, notes: &mut Vec<Note>) {
        for at in actions {
            if let Some(action) = self.state.calls.actions.get_mut(*at as usize) {
                action.verdict = Verdict::Ended { reason };
                notes.push(Note::ActionJudged(action.clone()));
            }
        }
    }

    /// Why the run ends with the calls that have just settled, if it does: a tool failed and that is the end, or it
    /// failed too often, the domain declares an end for what was found, or too many calls were of no use. `first` is
    /// where their evidence begins.
    fn ended_by_trouble(&self, first: usize) -> Option<Certificate> {
        let gate = &self.spec.gate;
        let settled = self.state.knowledge.evidence.get(first..)?;
        let mut failed = settled.iter().filter(|evidence| evidence.observation.status.is_failure());
        let setting = gate.on_tool_error;
        let stops = failed.clone().find(|evidence| setting.stops_at(evidence.observation.status));
        let escalated =
            failed.find_map(|evidence| self.state.calls.trouble.escalated(&evidence.tool, setting));
        let declared = self.spec.stop_reasons.iter().filter_map(|reason| gate::declared(reason, settled));
        let is_useless = |evidence: &&Evidence| evidence.observation.status == Status::InvalidInput;
        let useless = settled.iter().find(is_useless);
        let invalid = useless
            .filter(|_| gate.on_invalid == OnInvalid::Stop)
            .map(|evidence| gating::invalid(&evidence.tool, &evidence.observation.summary));
        let useless = self.state.calls.trouble.useless(&gate.breakers).filter(|_| useless.is_some());
        let by_failure = stops.map(|evidence| tool_failure(evidence, setting));
        let ends = by_failure.into_iter().chain(escalated).chain(declared).chain(invalid).chain(useless);
        let mut ends = ends.peekable();
        ends.peek()?;
        let requested = self.state.inbox.stop_requested.map(manual_stop);
        let reached = gate::limits_reached(&self.spec.limits, &self.state.budget.totals, self.elapsed_ms());
        let (reached, before_next) = gate::split(reached, self.spec.acts_last());
        Certificate::of(requested.into_iter().chain(reached).chain(ends).chain(before_next))
    }

    /// Moves the batch's observations to the evidence, in request order (I-20); gives what waits for a person.
    pub(super) fn keep_evidence(&mut self, notes: &mut Vec<Note>) -> Vec<u32> {
        self.give_up_work(notes);
        let Some(batch) = self.state.phase.batch_mut().map(std::mem::take) else {
            return Vec::new();
        };
        // Not before all have settled: the order in which they do must not matter.
        let first = self.state.knowledge.evidence.len();
        let settled: Vec<Settled> = batch.work.iter().filter_map(|work| self.settled(work)).collect();
        self.state.calls.ledger.settled(&settled);
        for mut work in batch.work {
            let action = self.state.calls.actions.get(work.action as usize);
            let (Some(action), Some(observation)) = (action, work.observation.take()) else {
                continue;
            };
            if let Some(tool) = self.spec.tool(action.tool_name()) {
                self.state.knowledge.taint = self.state.knowledge.taint.after(tool, observation.status);
            }
            self.state.calls.trouble.settled(action.tool_name(), observation.status);
            let (key, name) = (work.key, Arc::from(action.tool_name()));
            match self.is_unknown(&work, observation.status) {
                Some(true) => _ = self.state.calls.doubts.insert(key, name),
                Some(false) => _ = self.state.calls.doubts.remove(&key),
                None => {}
            }
            self.state.knowledge.evidence.push(Evidence {
                id: work.evidence,
                key: work.key,
                pass: action.key.pass,
                tool: action.tool_name().into(),
                parameters: action.parameters.clone(),
                observation,
                shortened: false,
            });
        }
        self.take_back_schema_violations(first);
        batch.asks
    }

    /// Whether the outcome of an effect that ended so is unknown; `None` where that is as it was before. An effect that
    /// may be repeated answers for all its tries under one key.
    fn is_unknown(&self, work: &Work, status: Status) -> Option<bool> {
        let action = self.state.calls.actions.get(work.action as usize);
        let tool = action.and_then(|action| self.spec.tool(action.tool_name()));
        let effect = tool.map_or(Effect::WriteIrreversible, |tool| tool.effect);
        if effect.is_read() {
            return None;
        }
        match status {
            Status::InDoubt | Status::Timeout => Some(true),
            Status::Cancelled => work.announced.then_some(true),
            // An earlier try may have happened: the program ended while it ran.
            Status::RetryableError | Status::Pending => (work.lost > 0).then_some(true),
            Status::Ok | Status::Empty => Some(false),
            Status::PermanentError | Status::InvalidInput | Status::MalformedResult => {
                matches!(effect, Effect::WriteIdempotent | Effect::WriteKeyed).then_some(false)
            }
            Status::Denied | Status::Duplicate | Status::Skipped => None,
        }
    }

    /// What a piece of work returned, as the ledger takes it.
    fn settled(&self, work: &Work) -> Option<Settled> {
        let observation = work.observation.as_ref()?;
        let action = self.state.calls.actions.get(work.action as usize)?;
        let tool = self.spec.tool(action.tool_name())?;
        let rules = &tool.policy.repeats;
        let polled = work.poll.as_ref().map_or(0, |poll| poll.times) + work.lost;
        Some(Settled::of(work.signature, work.key, work.attempt, polled, observation, rules))
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
            let action = self.state.calls.actions.get(work.action as usize);
            let name: Arc<str> = action.map_or_else(|| "".into(), |action| action.tool_name().into());
            let is_read = self.spec.tool(&name).is_some_and(|tool| tool.effect.is_read());
            if let Some(poll) = work.poll.as_ref().filter(|_| is_read || !work.announced) {
                // It is as ready as it was when it was asked last.
                if let Some(batch) = self.state.phase.batch_mut().filter(|_| !work.announced)
                    && let Some(work) = batch.work.get_mut(at)
                {
                    work.attempt = work.attempt.saturating_sub(1);
                }
                let last = Observation { sub_call: work.lost_sub_call(), ..poll.last.clone() };
                self.settle(at, last, notes);
                continue;
            }
            let (status, message) = if !is_read && (work.announced || work.lost > 0) {
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

/// The condition that a tool failed, where that ends the run (S4-84).
fn tool_failure(evidence: &Evidence, setting: OnToolError) -> Condition {
    let Evidence { tool, observation, .. } = evidence;
    let what = format!("{tool}: {}: {}", observation.status.name(), observation.summary);
    let to = match setting.escalates_after() {
        Some(max) => format!("{{ escalate_after = {max} }}").into(),
        None => "continue".into(),
    };
    let to = Measure::Text(to);
    Condition {
        reason: StopReason::ToolFailure,
        value: Measure::Text(what.into()),
        threshold: None,
        change: Some(Change { setting: Setting::OnToolError, to }),
    }
}
