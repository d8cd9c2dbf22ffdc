//! Tool calls: admitted, announced, settled, numbered as evidence.

use std::sync::Arc;

use crate::gate::{
    self, Certificate, Condition, JudgeContext, JudgedAction, JudgedCall, Limit, Measure, ParentRun, Quota,
    StopReason, Verdict, judge,
};
use crate::policy::RunSources;
use crate::repeats::{RepeatNote, SettledCall};
use crate::reply::Proposal;
use crate::run::calls::{Poll, Work};
use crate::run::command::SubCallBudget;
use crate::run::eager_read::{DropReason, EagerRead};
use crate::run::event::Started;
use crate::run::gating;
use crate::run::inbox::Inbox;
use crate::run::note::Note;
use crate::run::phase::{Ask, Batch, Phase, Stage, Stopping};
use crate::run::rest::{RunParts, StopPoint};
use crate::spec::{OnInvalid, OnToolError, RunSpec, Setting};
use crate::types::{CommandKey, Digest, Effect, Evidence, Millis, Observation, Slot, Status};

/// How often a driver may end while a tool runs before the tool is not run again.
const KILLS: u32 = 3;

impl RunParts<'_> {
    /// The index of the work that an event announces, if it may start now.
    pub(super) fn may_start(&self, batch: &Batch, key: &CommandKey, attempt: u32) -> Option<usize> {
        if batch.is_held(self.inbox, self.spec) {
            return None;
        }
        let now = self.clock.now;
        let is_it =
            |work: &Work| work.key == *key && work.attempt == attempt && !work.announced && !work.waits(now);
        batch.in_turn(self.calls, self.spec).find(|(_, work)| is_it(work)).map(|(at, _)| at)
    }

    /// Applies the result of a tool: polls it again if it was not ready, else settles it.
    pub(super) fn tool_finished(&mut self, batch: &mut Batch, at: usize, observation: &Arc<Observation>) {
        let Some(work) = batch.work.get(at) else { return };
        let effect = self.calls.effect(work, self.spec);
        let mut observation = Arc::clone(observation);
        if is_cut_off(&observation) && !effect.is_repeatable() {
            Arc::make_mut(&mut observation).status = Status::InDoubt;
        }
        match self.asks_again_at(batch, work, &observation) {
            Some(not_before) => self.ask_again(batch, at, observation, not_before),
            None => self.settle(batch, at, observation),
        }
    }

    /// Applies the result of a tool after the stop reason was fixed. The tool is not run again.
    pub(super) fn finished_too_late(
        &mut self,
        mut stopping: Stopping,
        at: usize,
        observation: &Arc<Observation>,
    ) -> Phase {
        if let Some(batch) = &mut stopping.batch {
            let is_read = batch.work.get(at).is_some_and(|work| self.calls.is_read(work, self.spec));
            let mut observation = Arc::clone(observation);
            if is_cut_off(&observation) && !is_read {
                Arc::make_mut(&mut observation).status = Status::InDoubt;
            }
            self.settle(batch, at, observation);
        }
        self.stopping_settled(stopping)
    }

    /// When a tool that is not ready is polled again. `None`: it is not. Only a read or a repeatable write is polled,
    /// up to the tool's limit of polls and within the run's time.
    fn asks_again_at(&self, batch: &Batch, work: &Work, observation: &Observation) -> Option<Millis> {
        let after = observation.retry_after_ms.filter(|_| observation.status == Status::Pending)?;
        let tool = self.calls.tool(work, self.spec)?;
        let now = self.clock.now;
        let not_before = now.plus(after.max(1));
        let has_time = self.elapsed_ms().saturating_add(not_before.since(now)) < self.spec.working_ms();
        let may = !batch.is_held(self.inbox, self.spec)
            && tool.effect.is_repeatable()
            && work.poll.as_ref().map_or(0, |poll| poll.times) < tool.policy.repeats.polls
            && has_time;
        may.then_some(not_before)
    }

    /// Commands another poll of a tool, under its key and without a model call.
    fn ask_again(&mut self, batch: &mut Batch, at: usize, last: Arc<Observation>, not_before: Millis) {
        let Some(work) = batch.work.get_mut(at) else { return };
        let (key, attempt, used) = (work.key, work.attempt, last.sub_call.clone());
        let times = work.poll.take().map_or(0, |poll| poll.times) + 1;
        work.poll = Some(Box::new(Poll {
            times,
            not_before,
            last: Observation { sub_call: None, ..Arc::unwrap_or_clone(last) },
        }));
        work.attempt += 1;
        // Each poll is announced, also that of a read. Until then it is not in flight.
        work.announced = false;
        self.notes.push(Note::Polled { key, attempt: attempt + 1, not_before });
        if work.sub_call.take().is_some() {
            self.settle_sub_call(key, attempt, used);
            work.sub_call = self.grant_sub_call();
        }
    }

    /// The context in which the actions of a pass are judged.
    pub(super) fn context(&self, pass: u32, quota: Quota) -> JudgeContext<'_> {
        let spec = self.spec;
        let sources = sources(spec, self.started, &self.knowledge.evidence, self.inbox);
        JudgeContext {
            spec,
            ledger: &self.calls.ledger,
            trouble: &self.calls.trouble,
            taint: self.knowledge.taint,
            sources,
            plan: self.knowledge.plan.as_ref(),
            pass,
            quota,
            parent: self.started.parent.as_deref().map(|it| ParentRun { run: &it.run, lost: it.lost }),
        }
    }

    /// Records verdicts. Returns a batch of the actions that run and those that wait for an approver.
    pub(super) fn admit(&mut self, judged: Vec<JudgedCall>) -> Batch {
        let mut batch = Batch::default();
        let mut eager = std::mem::take(&mut self.eager).into_iter();
        let mut finished = Vec::new();
        for JudgedCall { mut judged, fingerprint, run_as } in judged {
            let early = eager.next().and_then(|read| self.use_read(read, &judged, run_as));
            let used = early.as_ref().map(|read| (read.key, read.attempt));
            let action = self.calls.actions.len() as u32;
            if let (Verdict::Run, Some(fingerprint)) = (&judged.verdict, fingerprint) {
                let evidence = self.knowledge.next_id(batch.work.len());
                judged.evidence = Some(evidence);
                let (key, attempt) = run_as;
                self.calls.ledger.started(&fingerprint, key, attempt, evidence);
                let signature = fingerprint.signature();
                self.budget.totals.tool_calls += 1;
                let tool = judged.tool.as_deref().and_then(|name| self.spec.tool(name));
                self.knowledge.take_slot(&judged, key, tool);
                let smart = tool.is_some_and(|tool| tool.smart);
                // With ordered execution each call waits for its turn.
                let waits = self.spec.protocol.execution().is_ordered();
                let announced = early.is_some() || !waits && tool.is_some_and(|tool| tool.effect.is_read());
                let observation = early.and_then(|read| read.observation);
                finished.extend(observation.map(|observation| (batch.work.len(), observation)));
                let sub_call = if smart { self.grant_sub_call() } else { None };
                batch.work.push(Work {
                    key,
                    attempt,
                    action,
                    evidence,
                    signature,
                    announced,
                    sub_call,
                    lease: None,
                    waiting: None,
                    observation: None,
                    poll: None,
                    lost: 0,
                });
            }
            if matches!(judged.verdict, Verdict::NeedsPerson { .. }) {
                batch.asks.push(action);
            }
            let judged = Arc::new(judged);
            self.notes.push(Note::ActionJudged(Arc::clone(&judged)));
            if let Some((key, attempt)) = used {
                self.notes.push(Note::ReadUsed { action: judged.key, key, attempt });
            }
            self.calls.actions.push(judged);
        }
        if !self.spec.gate.people {
            batch.asks.clear();
        }
        eager.for_each(|read| self.drop_read(read, DropReason::CallChanged));
        self.grant_leases(&mut batch);
        for (at, observation) in finished {
            self.tool_finished(&mut batch, at, &observation);
        }
        batch
    }

    /// The eager read whose result this action takes. Drops the read if it is not the admitted action's.
    fn use_read(
        &mut self,
        read: EagerRead,
        judged: &JudgedAction,
        run_as: (CommandKey, u32),
    ) -> Option<EagerRead> {
        let is_same = judged.tool.as_ref() == Some(&read.tool) && judged.parameters == read.parameters;
        let why = match judged.verdict == Verdict::Run && run_as == (read.key, read.attempt) {
            _ if !is_same => DropReason::CallChanged,
            false => DropReason::NotAdmitted,
            true => return Some(read),
        };
        self.drop_read(read, why);
        None
    }

    /// Grants a smart tool a model call as long as one is left for the document after it.
    fn grant_sub_call(&mut self) -> Option<SubCallBudget> {
        let limits = &self.spec.limits;
        let taken = self.budget.totals.model_calls.saturating_add(self.budget.granted_sub_calls);
        let taken = taken.saturating_add(self.budget.leased.model_calls);
        // A sub-call belongs to an action, which is never the final pass.
        let pays = || self.quoting().pays_for_sub_call(Slot::Action(0));
        if taken.saturating_add(2) > limits.model_calls || !pays() {
            return None;
        }
        self.budget.granted_sub_calls += 1;
        Some(SubCallBudget::of(limits))
    }

    /// Settles one piece of work with its result.
    pub(super) fn settle(&mut self, batch: &mut Batch, at: usize, observation: impl Into<Arc<Observation>>) {
        let mut observation = observation.into();
        let Some(work) = batch.work.get_mut(at) else { return };
        let (key, attempt, evidence) = (work.key, work.attempt, work.evidence);
        let (status, used) = (observation.status, observation.sub_call.clone());
        if let Some(lease) = work.lease.take() {
            let waited = work.waiting.take().map(|waiting| Box::new(waiting.used));
            let none = (!work.announced).then(Box::default);
            let used = observation.child.clone().or(waited).or(none);
            let charged = self.settle_lease(key, *lease, used);
            Arc::make_mut(&mut observation).child = Some(charged);
        }
        if self.spec.protocol.properties().has_contract {
            self.knowledge.echoes.read_observation(&observation);
        }
        let has_sub_call = work.sub_call.take().is_some();
        work.observation = Some(observation);
        // What the others have done until now was work.
        let others = batch.work.iter_mut().filter_map(|work| work.waiting.as_mut());
        others.for_each(|waiting| waiting.since = self.clock.now);
        self.notes.push(Note::ActionSettled { key, evidence, status });
        if has_sub_call {
            self.settle_sub_call(key, attempt, used);
        }
    }

    /// Decides what follows once a piece of a batch has settled: wait for the rest, or store the results and then ask
    /// an approver, validate an output, begin the next pass, or end the run.
    pub(super) fn batch_settled(&mut self, mut batch: Batch, stage: Stage) -> Phase {
        self.hold_back_doubtful(&mut batch);
        self.take_turns(&mut batch);
        // Work that was not started, and will not be, does not delay the end.
        let waits_for_all = !batch.is_held(self.inbox, self.spec);
        if batch.is_in_flight() || waits_for_all && batch.work.iter().any(|work| work.observation.is_none()) {
            return Phase::Running { batch, stage };
        }
        let place = StopPoint { phase: stage.phase_name(), pass: self.draft.passes.len() as u32 };
        let is_open = self.inbox.stop_requested.is_none();
        let first = self.knowledge.evidence.len();
        let asks = self.keep_evidence(batch);
        let ended = self.ended_by_trouble(first);
        // A failed run does not ask for approvals of actions that could not run.
        let ended = ended.or_else(|| self.submitted_nothing().filter(|_| is_open));
        if let Some(certificate) = ended {
            self.leave_undone(&asks, certificate.reason());
            return self.stop(place, certificate);
        }
        if self.out_of_time().is_some() {
            // An approved action could not run any more.
            self.leave_undone(&asks, StopReason::Timeout);
        } else if is_open && !asks.is_empty() {
            let since = self.clock.now;
            let deadline = self.spec.limits.person_ms.map(|ms| since.plus(ms));
            let ask = |action| Ask { action, deadline, answered: false, answer: None, approvers: Vec::new() };
            let asks = asks.into_iter().map(ask);
            return Phase::WaitingForPerson { asks: asks.collect(), since };
        }
        // A requested stop precedes the validation of an output.
        let validation = if is_open { self.validation() } else { None };
        validation.unwrap_or_else(|| self.next_pass(place))
    }

    /// Settles waiting writes that are duplicates of a write in doubt in the same batch: they are not started. A model
    /// that still needs one requests it again.
    fn hold_back_doubtful(&mut self, batch: &mut Batch) {
        let is_doubtful = |work: &&Work| {
            work.observation.as_ref().is_some_and(|observation| observation.status == Status::InDoubt)
        };
        let doubtful: Vec<Digest> =
            batch.work.iter().filter(is_doubtful).map(|work| work.signature).collect();
        if doubtful.is_empty() {
            return;
        }
        // A write that was started before and lost is in doubt itself.
        let is_untried = |work: &Work| !work.announced && work.attempt == 1 && work.observation.is_none();
        for at in 0..batch.work.len() {
            let Some(work) = batch.work.get(at).filter(|work| is_untried(work)) else { continue };
            if doubtful.contains(&work.signature) && !self.calls.is_read(work, self.spec) {
                let name = self.calls.tool_name(work);
                let message = "not started: the same call before it may or may not have happened";
                self.settle(batch, at, Observation::failed(Status::Duplicate, &name, message));
            }
        }
    }

    /// With ordered execution, lets the next call start if it is a read and no stop prevents it. A write is announced
    /// first.
    fn take_turns(&self, batch: &mut Batch) {
        if !self.spec.protocol.execution().is_ordered() || batch.is_held(self.inbox, self.spec) {
            return;
        }
        let next = batch.work.iter_mut().find(|work| work.observation.is_none() && work.waiting.is_none());
        // A poll is announced each time.
        let is_free = |work: &&mut Work| self.calls.is_read(work, self.spec) && work.poll.is_none();
        if let Some(work) = next.filter(is_free) {
            work.announced = true;
        }
    }

    /// Judges the calls of a reply that arrived after the stop reason was fixed. None of them runs.
    pub(super) fn leave_all_undone(&mut self, proposal: &Proposal, reason: StopReason) {
        if !self.spec.protocol.properties().answers_every_call {
            return;
        }
        let pass = self.draft.passes.len() as u32;
        let quota = Quota { left: u32::MAX, limit: Limit::ToolCalls };
        let mut judged = judge(&proposal.actions, self.context(pass, quota));
        let is_violation = |judged: &JudgedAction| self.knowledge.is_violation(judged);
        let (ending, last) = gate::ending(proposal.ending.clone(), &judged, None, is_violation, self.spec);
        self.draft.take_ending(&ending, last);
        for judged in &mut judged {
            judged.judged.verdict = Verdict::Ended { reason };
        }
        self.admit(judged);
    }

    /// Records that these actions do not run, because the run ends for this reason.
    pub(super) fn leave_undone(&mut self, actions: &[u32], reason: StopReason) {
        for at in actions {
            if let Some(action) = self.calls.actions.get_mut(*at as usize) {
                Arc::make_mut(action).verdict = Verdict::Ended { reason };
                self.notes.push(Note::ActionJudged(Arc::clone(action)));
            }
        }
    }

    /// Why the run ends after the calls that have just settled. `None`: it continues. Reasons are a tool failure that
    /// ends the run, too many failures, a declared stop reason, or an open breaker for invalid calls. `first` is the
    /// index of their first evidence.
    fn ended_by_trouble(&self, first: usize) -> Option<Certificate> {
        let gate = &self.spec.gate;
        let settled = self.knowledge.evidence.get(first..)?;
        let mut failed = settled.iter().filter(|evidence| evidence.observation.status.is_failure());
        let setting = gate.on_tool_error;
        let stops = failed.clone().find(|evidence| setting.stops_at(evidence.observation.status));
        let escalated = failed.find_map(|evidence| self.calls.trouble.escalated(&evidence.tool, setting));
        let declared = self.spec.stop_reasons.iter().filter_map(|reason| gate::declared(reason, settled));
        let is_useless = |evidence: &&Evidence| evidence.observation.status == Status::InvalidInput;
        let useless = settled.iter().find(is_useless);
        let invalid = useless
            .filter(|_| gate.on_invalid == OnInvalid::Stop)
            .map(|evidence| gating::invalid(&evidence.tool, &evidence.observation.summary));
        let useless = self.calls.trouble.useless(&gate.breakers).filter(|_| useless.is_some());
        let by_failure = stops.map(|evidence| tool_failure(evidence, setting));
        let is_failure = |it: &&Evidence| it.observation.status.is_failure();
        let last_failed = settled.iter().rev().find(is_failure);
        let dead_end = last_failed.and_then(|it| self.calls.trouble.dead_end(it.pass, &gate.breakers));
        let ends = by_failure.into_iter().chain(escalated).chain(declared).chain(invalid).chain(useless);
        let ends = ends.chain(dead_end);
        let mut ends = ends.peekable();
        ends.peek()?;
        let requested = self.requested_stop();
        let reached = self.limits_reached();
        let (reached, before_next) = gate::split(reached, self.spec.acts_last());
        Certificate::of(requested.into_iter().chain(reached).chain(ends).chain(before_next))
    }

    /// Moves the batch's observations to the evidence, in request order. Returns the actions that wait for an approver.
    pub(super) fn keep_evidence(&mut self, mut batch: Batch) -> Vec<u32> {
        self.give_up_work(&mut batch);
        // The ledger is updated once all have settled, so that their order of completion does not matter.
        let first = self.knowledge.evidence.len();
        let settled: Vec<SettledCall> = batch.work.iter().filter_map(|work| self.settled(work)).collect();
        let before = self.knowledge.taint;
        let notes = self.calls.ledger.settled(&settled, &self.spec.gate.repeat_notes);
        self.take_notes(notes, &batch);
        for mut work in batch.work {
            let is_run = self.calls.is_run(&work, self.spec);
            let unknown = |status| is_unknown(&work, self.calls.effect(&work, self.spec), is_run, status);
            let unknown = work.observation.as_ref().and_then(|observation| unknown(observation.status));
            let (Some(action), Some(observation)) = (self.calls.of(&work), work.observation.take()) else {
                continue;
            };
            let tool: Arc<str> = action.tool_name().into();
            let (pass, parameters) = (action.key.pass, action.parameters.clone());
            if let Some(tool) = self.spec.tool(&tool) {
                self.knowledge.taint = self.knowledge.taint.after_result(tool, &observation);
                self.knowledge.settle_plan(self.spec, tool, &work, &parameters, &observation, before);
            }
            self.calls.trouble.settled(&tool, pass, observation.status);
            let (id, key) = (work.evidence, work.key);
            match unknown {
                Some(true) => _ = self.calls.doubts.insert(key, Arc::clone(&tool)),
                Some(false) => _ = self.calls.doubts.remove(&key),
                None => {}
            }
            let shortened = false;
            self.knowledge.evidence.push(Evidence {
                id,
                key,
                pass,
                tool,
                parameters,
                observation,
                shortened,
            });
        }
        self.take_back_schema_violations(first);
        batch.asks
    }

    /// Records the notes of a batch, each with the number of its result.
    fn take_notes(&mut self, notes: Vec<(CommandKey, RepeatNote)>, batch: &Batch) {
        for (key, note) in notes {
            let Some(evidence) = batch.work.iter().find(|work| work.key == key).map(|work| work.evidence)
            else {
                continue;
            };
            self.calls.notes.insert(evidence, note);
            self.notes.push(Note::ResultNoted { key, evidence, note });
        }
    }

    /// The result of a piece of work, for the ledger. `None`: it has not settled.
    fn settled(&self, work: &Work) -> Option<SettledCall> {
        let observation = work.observation.as_ref()?;
        let rules = &self.calls.tool(work, self.spec)?.policy.repeats;
        let polled = work.poll.as_ref().map_or(0, |poll| poll.times) + work.lost;
        Some(SettledCall::of(work.signature, work.key, work.attempt, polled, observation, rules))
    }

    /// Settles work that cannot settle by itself any more. A write that may have been started is in doubt.
    fn give_up_work(&mut self, batch: &mut Batch) {
        for at in 0..batch.work.len() {
            let Some(work) = batch.work.get_mut(at).filter(|work| work.observation.is_none()) else {
                continue;
            };
            let is_read = self.calls.is_read(work, self.spec);
            let sub_call = work.lost_sub_call();
            let observation = if let Some(poll) = work.poll.as_ref().filter(|_| is_read || !work.announced) {
                // The last poll's result is the result.
                let last = poll.last.clone();
                if !work.announced {
                    work.attempt = work.attempt.saturating_sub(1);
                }
                last
            } else if !is_read && (work.announced || work.lost > 0) {
                let message = "the run stopped before it ended";
                Observation::failed(Status::InDoubt, &self.calls.tool_name(work), message)
            } else {
                let message = "cancelled: the run stopped before it ended";
                Observation::failed(Status::Cancelled, &self.calls.tool_name(work), message)
            };
            self.settle(batch, at, Observation { sub_call, ..observation });
        }
    }

    /// Handles the tools in flight whose driver is gone. A read or a repeatable write runs again while the run still
    /// works.
    pub(super) fn lose_tools(&mut self, batch: &mut Batch, is_working: bool) {
        if is_working {
            batch.work.iter_mut().for_each(|work| work.waiting = None);
        }
        for at in 0..batch.work.len() {
            let Some(work) = batch.work.get(at).filter(|work| work.is_in_flight()) else { continue };
            // A run that was called has a journal of its own, and continues within its lease.
            if work.lease.is_some() && is_working {
                continue;
            }
            self.notes.push(Note::Lost { key: work.key, attempt: work.attempt });
            // The tool may be what ends the driver. After the stop reason is fixed nothing is started again.
            let is_last = work.lost + 1 >= KILLS || !is_working;
            let effect = self.calls.effect(work, self.spec);
            let (status, message) = match effect {
                Effect::WriteIrreversible | Effect::Egress | Effect::Exec => {
                    (Status::InDoubt, "the program ended while it ran")
                }
                Effect::WriteIdempotent | Effect::WriteKeyed if is_last => {
                    (Status::InDoubt, "the program ended each time it ran")
                }
                Effect::Read if is_last => (Status::RetryableError, "the program ended each time it ran"),
                Effect::Read | Effect::WriteIdempotent | Effect::WriteKeyed => {
                    self.work_again(batch, at, effect);
                    continue;
                }
            };
            let mut observation = Observation::failed(status, &self.calls.tool_name(work), message);
            observation.sub_call = work.lost_sub_call();
            self.settle(batch, at, observation);
        }
    }

    /// Commands a lost piece of work again, and charges what its sub-call may have used.
    fn work_again(&mut self, batch: &mut Batch, at: usize, effect: Effect) {
        let Some(work) = batch.work.get_mut(at) else { return };
        let (key, attempt, used) = (work.key, work.attempt, work.lost_sub_call());
        work.attempt += 1;
        work.lost += 1;
        work.announced = effect.is_read();
        if work.sub_call.take().is_some() {
            self.settle_sub_call(key, attempt, used);
            work.sub_call = self.grant_sub_call();
        }
    }
}

/// The authorised sources of the values of a run's calls.
pub(super) fn sources<'a>(
    spec: &'a RunSpec,
    started: &'a Started,
    evidence: &'a [Evidence],
    inbox: &'a Inbox,
) -> RunSources<'a> {
    let history = started.history.as_ref();
    // A model wrote the item of a run that was called as a tool.
    let (item, user_texts) = match (started.provenance.called_by.as_deref(), history) {
        (Some(by), _) => (&by.item, &*by.user_texts),
        (None, Some(history)) => (&started.item, &*history.user_texts),
        (None, None) => (&started.item, &[][..]),
    };
    RunSources {
        spec,
        item,
        evidence,
        instructions: inbox.instructions(),
        requested_before: history.map_or(&[], |history| &history.requested),
        user_texts,
    }
}

/// Whether a tool was stopped before its end. Its effect may have happened.
fn is_cut_off(observation: &Observation) -> bool {
    matches!(observation.status, Status::Timeout | Status::Cancelled)
}

/// Whether the outcome of a write with this status is unknown. `None`: the status does not say, so the earlier state
/// stays. The status of a repeatable write covers all its tries under one key.
fn is_unknown(work: &Work, effect: Effect, is_run: bool, status: Status) -> Option<bool> {
    if effect.is_read() {
        // A run of its own reports an effect of its own.
        return (is_run && status == Status::InDoubt).then_some(true);
    }
    match status {
        Status::InDoubt | Status::Timeout => Some(true),
        Status::Cancelled => work.announced.then_some(true),
        // An earlier try may have happened: its driver ended while it ran.
        Status::RetryableError | Status::Pending => (work.lost > 0).then_some(true),
        Status::Ok | Status::Empty => Some(false),
        Status::PermanentError | Status::InvalidInput | Status::MalformedResult => {
            effect.is_repeatable().then_some(false)
        }
        Status::Denied | Status::Duplicate | Status::Skipped => None,
    }
}

/// The condition that a tool failed, where the setting ends the run for it.
fn tool_failure(evidence: &Evidence, setting: OnToolError) -> Condition {
    let Evidence { tool, observation, .. } = evidence;
    let what = format!("{tool}: {}: {}", observation.status.name(), observation.summary);
    let to = setting.escalates_after().map_or(OnToolError::Continue, OnToolError::EscalateAfter);
    let to = Measure::Text(to.written().into());
    Condition::new(StopReason::ToolFailure, Measure::Text(what.into())).change(Setting::OnToolError, to)
}
