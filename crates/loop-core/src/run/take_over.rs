//! Forks, retries and salvaged runs: a run that begins with what another run had.
//!
//! What is taken over is in the first event ([`Parent`]). A fork and a salvaged run continue from the parent's state:
//! what was in flight there is settled as after the end of a driver. No write that the parent started after that
//! place, or may have started, is made again without an approval, and an approved one has the parent's idempotency key.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::gate::{Certificate, JudgedAction, Verdict};
use crate::repeats::{CallFacts, Fingerprint, Rules};
use crate::run::apply::{Facts, Run, State};
use crate::run::budget::Budget;
use crate::run::calls::{Calls, Work};
use crate::run::check::CheckSubject;
use crate::run::clock::Clock;
use crate::run::draft::Draft;
use crate::run::event::{Event, EventKind, Started};
use crate::run::inbox::Inbox;
use crate::run::knowledge::{CompactedPart, Knowledge};
use crate::run::note::Note;
use crate::run::parent::{CarriedState, LaterResult, Parent, ParentEffect, Takeover};
use crate::run::phase::{Ask, Batch, Phase, Purpose};
use crate::run::rejected::Rejected;
use crate::run::rest::{RunParts, StopPoint};
use crate::run::route::Route;
use crate::spec::{Execution, RunSpec, SpecNames};
use crate::types::{
    Arguments, CommandKey, Digest, Effect, EvidenceId, Millis, Observation, RunId, Slot, Status,
};

/// Why a run cannot begin with what another run had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTakenOver {
    /// The reason for which the parent ends is fixed: it stops, or makes its final pass.
    #[error("the reason why it ends is fixed there")]
    Fixed,
    /// Other limits, gate settings or tools, and calls that were admitted under the parent's own have not settled.
    #[error("calls that were admitted under its own settings are open there, and the new run has other ones")]
    Admitted,
    /// The new run follows another protocol.
    #[error("it follows another protocol than the new run")]
    OtherProtocol,
    /// A retry of a run that is not over.
    #[error("it is not over")]
    NotOver,
    /// A retry of a run that does not write a document.
    #[error("its protocol is not `document`: what it knows is a conversation, and not evidence")]
    NoDocument,
    /// Another run called it as a tool.
    #[error("it is a part of run {root}, which called it; fork or retry that one")]
    Called {
        /// The run at the top of the tree.
        root: RunId,
    },
    /// An entry does not follow from those before it.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

impl Run {
    /// Whether a fork can begin here: the reason why the run ends is not fixed yet.
    pub fn may_fork(&self) -> bool {
        self.state.phase.is_working() && self.state.phase.final_cause().is_none()
    }

    /// Whether a fork under other limits can begin here. A model call must come next, and either a fork [may
    /// begin](Self::may_fork) at all, or that call is the final pass because of a limit.
    pub fn may_fork_under_other_limits(&self) -> bool {
        self.is_between_calls() && (self.may_fork() || self.state.phase.ends_by_limit())
    }

    /// Whether nothing is in flight or admitted: the next thing that happens is the announcement of a model call.
    pub fn is_between_calls(&self) -> bool {
        matches!(&self.state.phase, Phase::Calling { call, .. } if call.started.is_none())
    }

    /// What a fork takes over that begins after the first `entries` entries of the parent's journal. `self` is the
    /// parent after them, `later` are the events of all entries that follow.
    ///
    /// # Errors
    /// If no fork can begin here, or a later event cannot follow.
    pub fn fork<'e>(
        &self,
        entries: u64,
        later: impl IntoIterator<Item = &'e Event>,
    ) -> Result<Parent, NotTakenOver> {
        if !self.may_fork() && !self.may_fork_under_other_limits() {
            return Err(NotTakenOver::Fixed);
        }
        let mut after = self.clone();
        let mut found = ParentWrites::default();
        self.open_writes().filter(|(_, work)| is_begun(work)).for_each(|(_, work)| found.begun(self, work));
        for event in later {
            found.attempts(&after);
            let notes = after.apply(event)?;
            if let EventKind::ToolStarted { key, attempt } = &event.kind {
                let batch = after.state.phase.batch().map_or(&[][..], |batch| &batch.work);
                let started = batch.iter().find(|work| work.key == *key && work.attempt == *attempt);
                started.into_iter().for_each(|work| found.begun(&after, work));
            }
            notes.iter().for_each(|note| found.hear(note));
        }
        let (effects, results) = found.of(self, &after);
        let lost = after.outcome().is_none();
        Ok(Parent {
            results,
            ..self.parent(Takeover::Fork, entries, CarriedState::of(&self.state), effects, lost)
        })
    }

    /// What a salvaged run takes over: all that `self` is after the readable entries of its journal. `lost` says whether
    /// it may have done more.
    ///
    /// # Errors
    /// If the run is over: nothing is left to continue.
    pub fn salvage(&self, entries: u64, lost: bool) -> Result<Parent, NotTakenOver> {
        let continues = self.state.phase.is_working() || matches!(self.state.phase, Phase::Stopping(_));
        if !continues {
            return Err(NotTakenOver::Fixed);
        }
        let mut found = ParentWrites::default();
        self.open_writes().filter(|(_, work)| is_begun(work)).for_each(|(_, work)| found.begun(self, work));
        let (effects, _) = found.of(self, self);
        Ok(self.parent(Takeover::Salvage, entries, CarriedState::of(&self.state), effects, lost))
    }

    /// What a retry takes over: the evidence, the taint, and which writes were made. `self` is the ended run.
    ///
    /// # Errors
    /// If the run is not over, or has no evidence that a prompt can show.
    pub fn retry(&self, entries: u64) -> Result<Parent, NotTakenOver> {
        if self.outcome().is_none() {
            return Err(NotTakenOver::NotOver);
        }
        if self.spec.protocol.properties().answers_every_call {
            return Err(NotTakenOver::NoDocument);
        }
        let mut names = Names { run: self, numbers: BTreeMap::new(), foreign: BTreeMap::new() };
        let mut effects = Vec::new();
        let mut evidence = self.state.knowledge.evidence.clone();
        for it in &mut evidence {
            let key = self.idempotency_key(&it.key);
            let is_read = self.spec.tool(&it.tool).is_some_and(|tool| tool.effect.is_read());
            if !is_read && !it.observation.status.is_unrun() {
                let (tool, parameters) = (Arc::clone(&it.tool), it.parameters.clone());
                let (status, evidence) = (Some(it.observation.status), Some(it.id));
                effects.push(ParentEffect { key, tool, parameters, status, evidence });
            }
            (it.key, it.pass, it.shortened) = (names.of(it.key), 0, false);
        }
        let mut ledger = self.state.calls.ledger.for_retry(|key| names.of(key));
        // With a scope for each step or attempt the ledger has forgotten the writes of earlier ones. To the retry they
        // are what the parent did, like the others.
        for effect in effects.iter().filter(|effect| effect.status.is_some_and(Status::is_citable)) {
            if let Some(signature) = signature(&self.spec, &effect.tool, &effect.parameters)
                && !ledger.knows(&signature)
            {
                ledger.ran_elsewhere(signature, Arc::clone(&effect.key));
            }
        }
        let plan = self.state.knowledge.plan.clone().map(|plan| plan.with_keys(|key| names.of(key)));
        let calls = Calls { foreign: names.foreign, ..Calls::start(ledger) };
        let known = &self.state.knowledge;
        let knowledge = Knowledge {
            evidence,
            echoes: known.echoes.clone(),
            taint: known.taint,
            plan,
            compacted: CompactedPart::default(),
            warnings: Vec::new(),
        };
        let state = CarriedState {
            clock: Clock::default(),
            phase: Phase::first(),
            inbox: Inbox::default(),
            route: Route::start(),
            knowledge,
            calls,
            draft: Draft::default(),
            budget: Budget::default(),
        };
        Ok(Parent { times: Vec::new(), ..self.parent(Takeover::Retry, entries, state, effects, false) })
    }

    /// Makes the first event of a run that begins with what `of` had, and applies it. Work item and history are those of
    /// `of`. A fork and a salvaged run keep its nonce too, because the texts that they take over hold it.
    ///
    /// # Errors
    /// If the new spec cannot continue from there.
    pub fn start_from(
        id: RunId,
        spec: Arc<RunSpec>,
        names: SpecNames,
        of: &Self,
        parent: Parent,
        facts: Facts,
    ) -> Result<(Self, Event, Vec<Note>), NotTakenOver> {
        let before = &of.state.started;
        // Its item is a model's text, and its caller's policy would be lost.
        if let Some(by) = before.provenance.called_by.as_deref() {
            return Err(NotTakenOver::Called { root: by.root.clone() });
        }
        if std::mem::discriminant(&spec.protocol) != std::mem::discriminant(&of.spec.protocol) {
            return Err(NotTakenOver::OtherProtocol);
        }
        let changed = (names.policy, facts.tools) != (before.policy, before.tools);
        let is_retry = parent.how == Takeover::Retry;
        if !changed && parent.how == Takeover::Fork && parent.state.phase.final_cause().is_some() {
            return Err(NotTakenOver::Fixed);
        }
        // A check judges a document, and admits nothing.
        let is_open = match &parent.state.phase {
            Phase::Calling { .. } => false,
            Phase::Validating(checking) => matches!(checking.about, CheckSubject::Output { .. }),
            _ => true,
        };
        if changed && !is_retry && is_open {
            return Err(NotTakenOver::Admitted);
        }
        let begun = Started::of(id, &spec, names, before.item.clone(), facts);
        let started = Started {
            nonce: if is_retry { begun.nonce } else { Arc::clone(&before.nonce) },
            history: before.history.clone().filter(|_| !is_retry),
            parent: Some(Box::new(Parent { changed, ..parent })),
            ..begun
        };
        let (run, notes) = Self::begin(spec, started.clone());
        let at = started.parent.as_ref().map_or(Millis(0), |parent| parent.began_at());
        Ok((run, Event { at, kind: EventKind::Started(Box::new(started)) }, notes))
    }

    fn parent(
        &self,
        how: Takeover,
        entries: u64,
        state: CarriedState,
        effects: Vec<ParentEffect>,
        lost: bool,
    ) -> Parent {
        let started = &self.state.started;
        let before = started.parent.as_deref();
        let began = before.map_or(Millis(0), Parent::began_at);
        let times = before.map_or(&[][..], |parent| &parent.times).iter().copied();
        Parent {
            run: started.run.clone(),
            how,
            entries,
            effects,
            lost,
            changed: false,
            times: times.chain([(began, started.unix_ms)]).collect(),
            state: Box::new(state),
            results: Vec::new(),
        }
    }

    /// The open writes of the batch, with their places.
    fn open_writes(&self) -> impl Iterator<Item = (usize, &Work)> {
        let batch = self.state.phase.batch().map_or(&[][..], |batch| &batch.work);
        batch
            .iter()
            .enumerate()
            .filter(|(_, work)| work.observation.is_none() && !self.state.calls.is_read(work, &self.spec))
    }
}

/// Whether a piece of work was started at some time, so that its effect may have happened.
fn is_begun(work: &Work) -> bool {
    work.announced || work.lost > 0 || work.poll.is_some()
}

/// The keys under which a retry knows the calls of its parent.
struct Names<'a> {
    run: &'a Run,
    numbers: BTreeMap<CommandKey, u32>,
    foreign: BTreeMap<CommandKey, Arc<str>>,
}

impl Names<'_> {
    fn of(&mut self, key: CommandKey) -> CommandKey {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        let name = CommandKey::new(0, Slot::Inherited(number));
        self.foreign.entry(name).or_insert_with(|| self.run.idempotency_key(&key));
        name
    }
}

fn signature(spec: &RunSpec, tool: &str, parameters: &Arguments) -> Option<Digest> {
    let parameters = parameters.value().unwrap_or(&Value::Null);
    let fingerprint = Fingerprint::of(&CallFacts::of(spec.tool(tool)?, parameters), &Rules::of_run(spec));
    Some(fingerprint.signature())
}

/// The writes that a parent started, as its later events show them.
#[derive(Default)]
struct ParentWrites {
    /// Each with its key and the number of its result, in the order of the first starts.
    effects: Vec<(CommandKey, EvidenceId, ParentEffect)>,
    /// The last try of each piece of work, by the number of its result.
    attempts: BTreeMap<EvidenceId, u32>,
}

impl ParentWrites {
    /// Records the start of a piece of work. The same work is recorded once.
    fn begun(&mut self, run: &Run, work: &Work) {
        let Some(action) = run.state.calls.of(work) else { return };
        if run.state.calls.is_read(work, &run.spec) {
            return;
        }
        let is_it = |(key, id, _): &&mut (CommandKey, EvidenceId, ParentEffect)| {
            (*key, *id) == (work.key, work.evidence)
        };
        match self.effects.iter_mut().find(is_it) {
            Some((_, _, effect)) => effect.status = None,
            None => {
                let effect = ParentEffect {
                    key: run.idempotency_key(&work.key),
                    tool: action.tool_name().into(),
                    parameters: action.parameters.clone(),
                    status: None,
                    evidence: None,
                };
                self.effects.push((work.key, work.evidence, effect));
            }
        }
    }

    fn hear(&mut self, note: &Note) {
        let Note::ActionSettled { key, evidence, status } = note else { return };
        let is_it = |(of, id, _): &&mut (CommandKey, EvidenceId, ParentEffect)| (of, id) == (key, evidence);
        if let Some((_, _, effect)) = self.effects.iter_mut().find(is_it) {
            effect.status = Some(*status);
        }
    }

    fn attempts(&mut self, run: &Run) {
        let batch = run.state.phase.batch().map_or(&[][..], |batch| &batch.work);
        self.attempts.extend(batch.iter().map(|work| (work.evidence, work.attempt)));
    }

    /// The effects, and the results that a fork at `before` takes over. `after` is the parent's last state.
    fn of(self, before: &Run, after: &Run) -> (Vec<ParentEffect>, Vec<LaterResult>) {
        let Self { effects, attempts } = self;
        let batch = before.state.phase.batch().map_or(&[][..], |batch| &batch.work);
        let is_begun = |work: &Work| {
            let is_it = |(key, id, _): &(CommandKey, EvidenceId, _)| (*key, *id) == (work.key, work.evidence);
            effects.iter().any(is_it)
        };
        let is_open = |work: &&Work| work.observation.is_none();
        // With ordered execution a call does not run after those that follow it.
        let is_ordered = before.spec.protocol.execution() != Execution::Parallel;
        let last = batch.iter().filter(is_open).filter(|work| is_begun(work)).map(|work| work.evidence).max();
        let is_taken =
            |work: &&Work| is_begun(work) || is_ordered && last.is_some_and(|last| work.evidence < last);
        let taken = batch.iter().filter(is_open).filter(is_taken).filter_map(|work| {
            let found = Observation::clone(after.observation(work.evidence)?);
            let attempt = attempts.get(&work.evidence).copied().unwrap_or(work.attempt);
            // The parent paid for its sub-call.
            let observation = Arc::new(Observation { sub_call: None, ..found });
            Some(LaterResult { evidence: work.evidence, attempt, observation })
        });
        let results = taken.collect();
        let is_open_here = |id: EvidenceId| batch.iter().any(|work| work.evidence == id);
        let listed = effects
            .into_iter()
            .map(|(_, id, effect)| ParentEffect { evidence: is_open_here(id).then_some(id), ..effect });
        (listed.collect(), results)
    }
}

impl RunParts<'_> {
    /// Continues from the phase of the parent. Nothing of the parent is in flight afterwards.
    pub(super) fn take_over(&mut self, phase: Phase, parent: &Parent) -> Phase {
        // A stop was requested of the parent.
        self.inbox.stop_requested = None;
        self.keep_keys(&parent.run);
        self.keep_effects(&parent.effects);
        match phase {
            Phase::Calling { call, purpose } => {
                let phase = self.lose_call(call, purpose);
                if parent.changed { self.under_other_limits(phase) } else { phase }
            }
            Phase::Running { mut batch, stage } => {
                self.settle_begun(&mut batch, parent);
                self.lose_tools(&mut batch, /*is_working*/ true);
                self.batch_settled(batch, stage)
            }
            Phase::WaitingForPerson { asks, since } => {
                let asks = asks.into_iter().map(|ask| self.asked_anew(ask, parent)).collect();
                Phase::WaitingForPerson { asks, since }
            }
            Phase::Validating(checking) => self.check_anew(checking),
            Phase::Stopping(mut stopping) => {
                // The journal of the new run has no other entry that says why it stopped.
                let certificate = Box::new(stopping.certificate.clone());
                self.notes.push(Note::Stopped { certificate });
                if let Some(batch) = &mut stopping.batch {
                    self.settle_begun(batch, parent);
                    self.lose_tools(batch, /*is_working*/ false);
                }
                self.finish(stopping)
            }
            phase @ (Phase::Saving { .. } | Phase::Done { .. }) => phase,
        }
    }

    /// The calls so far keep the idempotency keys of the run that requested them.
    fn keep_keys(&mut self, parent: &RunId) {
        for action in &self.calls.actions {
            let key = action.key;
            self.calls.foreign.entry(key).or_insert_with(|| format!("{parent}/{key}").into());
        }
    }

    /// Puts the writes in doubt that the parent started and whose results are not taken over.
    fn keep_effects(&mut self, effects: &[ParentEffect]) {
        for effect in effects.iter().filter(|effect| effect.evidence.is_none()) {
            if let Some(signature) = signature(self.spec, &effect.tool, &effect.parameters) {
                self.calls.ledger.ran_elsewhere(signature, Arc::clone(&effect.key));
            }
        }
    }

    /// Settles open calls that the parent started: with the parent's result where there is one, else in doubt. If the
    /// parent may have started others, every open write is in doubt.
    fn settle_begun(&mut self, batch: &mut Batch, parent: &Parent) {
        for at in 0..batch.work.len() {
            let Some(work) = batch.work.get_mut(at).filter(|work| work.observation.is_none()) else {
                continue;
            };
            if let Some(taken) = parent.results.iter().find(|taken| taken.evidence == work.evidence) {
                work.attempt = taken.attempt;
                self.settle(batch, at, Arc::clone(&taken.observation));
                continue;
            }
            let is_it = |effect: &ParentEffect| effect.evidence == Some(work.evidence);
            let is_doubtful = parent.lost || parent.effects.iter().any(is_it);
            if is_doubtful && !self.calls.is_read(work, self.spec) {
                let message = format!("run {} may have made it", parent.run);
                let observation = Observation::failed(Status::InDoubt, &self.calls.tool_name(work), &message);
                self.settle(batch, at, observation);
            }
        }
    }

    /// An approval counts for the run that it was given to: the approver is asked again. Answers to questions and
    /// denials stay.
    fn asked_anew(&mut self, ask: Ask, parent: &Parent) -> Ask {
        let Some(action) = self.calls.actions.get(ask.action as usize).map(Arc::clone) else { return ask };
        let deadline = self.spec.limits.person_ms.map(|ms| self.clock.now.plus(ms));
        // The policy may be another one, so all are asked again.
        let ask = Ask { deadline, approvers: Vec::new(), ..ask };
        let signature = signature(self.spec, action.tool_name(), &action.parameters);
        let is_elsewhere = signature.is_some_and(|signature| self.calls.ledger.is_elsewhere(&signature));
        let is_approved = ask.answered && ask.answer.is_none() && action.verdict == Verdict::Run;
        let effect = self.spec.tool(action.tool_name()).map_or(Effect::WriteIrreversible, |tool| tool.effect);
        let why = match is_elsewhere {
            true => format!("run {} has started it already", parent.run),
            false if parent.lost && !effect.is_read() => {
                format!("run {} may have made it already, or may still make it", parent.run)
            }
            false if is_approved => format!("the approval was given to run {}", parent.run),
            false => return ask,
        };
        if ask.answered && !is_approved {
            return ask;
        }
        let judged = JudgedAction {
            verdict: Verdict::NeedsPerson { effect, why: Some(why.into()) },
            ..(*action).clone()
        };
        let judged = Arc::new(judged);
        self.notes.push(Note::ActionJudged(Arc::clone(&judged)));
        if let Some(place) = self.calls.actions.get_mut(ask.action as usize) {
            *place = judged;
        }
        Ask { answered: false, ..ask }
    }

    /// Checks the limits of the new run before it makes a call that its parent commanded.
    fn under_other_limits(&mut self, phase: Phase) -> Phase {
        let Phase::Calling { call, purpose } = phase else { return phase };
        let place = StopPoint::of(&call, &purpose);
        if let Some(certificate) = Certificate::of(self.limits_reached()) {
            return self.stop(place, certificate);
        }
        match purpose {
            Purpose::Main => self.main_call(place, call),
            // The limit that made the call the last one may be another one now.
            Purpose::Final { .. } if call.attempt == 1 => self.next_pass(place),
            Purpose::Select | Purpose::Repair { .. } | Purpose::Final { .. } => {
                Phase::Calling { call, purpose }
            }
        }
    }
}

impl CarriedState {
    pub(super) fn of(state: &State) -> Self {
        let State { started: _, clock, phase, inbox, route, knowledge, calls, draft, mut budget } =
            state.clone();
        // A new run asks the shared budget anew.
        budget.shared = None;
        Self { clock, phase, inbox, route, knowledge, calls, draft, budget }
    }

    /// A run with this first event that continues from here.
    pub(super) fn with(self, started: Arc<Started>) -> State {
        let Self { clock, phase, inbox, route, knowledge, calls, draft, budget } = self;
        State { started, clock, phase, inbox, route, knowledge, calls, draft, budget }
    }
}
