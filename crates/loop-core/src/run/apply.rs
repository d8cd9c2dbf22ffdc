//! The run and its state: how it begins, how an event is applied, and what can be read from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{self, Certificate, Condition, Effects, JudgedAction, Measure, StopReason};
use crate::policy::{self, EffectPlan};
use crate::repeats::{Ledger, RepeatNote};
use crate::reply::{Document, Echoes};
use crate::run::budget::Budget;
use crate::run::calls::Calls;
use crate::run::clock::Clock;
use crate::run::draft::{Draft, PassRecord};
use crate::run::eager_read::EagerRead;
use crate::run::event::{Event, EventKind, History, Provenance, Started};
use crate::run::inbox::Inbox;
use crate::run::knowledge::Knowledge;
use crate::run::note::Note;
use crate::run::outcome::{Outcome, ServedCall};
use crate::run::parent::Takeover;
use crate::run::phase::Phase;
use crate::run::rejected::Rejected;
use crate::run::rest::{RunParts, StopPoint};
use crate::run::route::Route;
use crate::run::step::step;
use crate::run::warning::RunWarning;
use crate::spec::{RunSpec, SPEC_VERSION, Setting, SpecNames, ToolSpec};
use crate::types::{
    CommandKey, Digest, Evidence, EvidenceId, Millis, Observation, RequestPart, RunId, Taint, Tier, Totals,
    WorkItem,
};

/// A run of the loop: its spec and its state.
///
/// To drive a run: read [`commands`](Self::commands), carry them out, and report what happened with
/// [`apply`](Self::apply), until there is an [`outcome`](Self::outcome) and no more commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub(super) spec: Arc<RunSpec>,
    pub(super) state: State,
}

/// The state of a run, without its spec: the content of a checkpoint. Each part has a module that states its
/// invariants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// The first event's data; it never changes.
    pub(super) started: Arc<Started>,
    pub(super) clock: Clock,
    pub(super) phase: Phase,
    pub(super) inbox: Inbox,
    pub(super) route: Route,
    pub(super) knowledge: Knowledge,
    pub(super) calls: Calls,
    pub(super) draft: Draft,
    pub(super) budget: Budget,
}

/// What the caller must supply at the start, because the core has no clock and no randomness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Wall-clock time of the start, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// A random text that outside text cannot guess. It marks the contract block and fences.
    pub nonce: Arc<str>,
    /// The digest of the prompt templates.
    pub prompts: Digest,
    /// The digest of the tool manifest.
    pub tools: Digest,
    /// The messages that a conversation continues. `None`: it begins with the work item.
    pub history: Option<History>,
    /// The program that begins the run, and the settings that replaced the domain's.
    pub provenance: Provenance,
}

impl Started {
    /// Of a run without a parent.
    pub(super) fn of(run: RunId, spec: &RunSpec, names: SpecNames, item: WorkItem, facts: Facts) -> Self {
        Self {
            run,
            unix_ms: facts.unix_ms,
            utc_offset: spec.gate.utc_offset,
            nonce: facts.nonce,
            item,
            spec: names.spec,
            policy: names.policy,
            prompts: facts.prompts,
            tools: facts.tools,
            history: facts.history,
            provenance: facts.provenance,
            parent: None,
        }
    }
}

impl Run {
    /// Makes the first event and applies it. The run then commands its first call, or has stopped at a limit of 0.
    pub fn start(id: RunId, spec: Arc<RunSpec>, item: WorkItem, facts: Facts) -> (Self, Event, Vec<Note>) {
        let names = SpecNames::of(&spec);
        Self::start_named(id, spec, names, item, facts)
    }

    /// As [`start`](Self::start), with precomputed digests of the spec. They are the main cost of a start, so many runs
    /// of one spec share them.
    pub fn start_named(
        id: RunId,
        spec: Arc<RunSpec>,
        names: SpecNames,
        item: WorkItem,
        facts: Facts,
    ) -> (Self, Event, Vec<Note>) {
        let started = Started::of(id, &spec, names, item, facts);
        let (run, notes) = Self::begin(spec, started.clone());
        (run, Event { at: Millis(0), kind: EventKind::Started(Box::new(started)) }, notes)
    }

    /// Begins a replay: the first event, and the spec that it names by digest.
    ///
    /// # Errors
    /// If the event is not `started` or names another spec, or the spec has an unknown version.
    pub fn open(first: &Event, spec: Arc<RunSpec>) -> Result<(Self, Vec<Note>), Rejected> {
        let EventKind::Started(started) = &first.kind else {
            return Err(Rejected::NotTheStart(first.kind.name()));
        };
        check_spec(&spec, started.spec)?;
        let began = started.parent.as_ref().map_or(Millis(0), |parent| parent.began_at());
        if first.at != began {
            return Err(Rejected::BackInTime { event: first.kind.name(), at: first.at.0, now: began.0 });
        }
        Ok(Self::begin(spec, (**started).clone()))
    }

    /// Restores a run from a checkpoint.
    ///
    /// # Errors
    /// If the spec is not the one that the run was started with, or has an unknown version.
    pub fn restore(state: State, spec: Arc<RunSpec>) -> Result<Self, Rejected> {
        check_spec(&spec, state.started.spec)?;
        Ok(Self { spec, state })
    }

    /// Applies an event, the only way to change a run. Returns the decisions. A rejected event changes nothing.
    ///
    /// # Errors
    /// Why the event cannot follow.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<Note>, Rejected> {
        let (before, at) = (self.state.clock.now, event.at);
        if at < before {
            return Err(Rejected::BackInTime { event: event.kind.name(), at: at.0, now: before.0 });
        }
        // Read the deadline before the clock moves: `deadline` does not return an instant that has passed.
        if event.kind == EventKind::DeadlineReached && self.deadline().is_none_or(|due| due > at) {
            return Err(Rejected::Early { at: at.0 });
        }
        let announced = self.announced_early(at, &event.kind).transpose();
        let eager = announced.map_err(|(key, why)| Rejected::NotEager { key, why })?;
        self.state.clock.now = at;
        let (phase, mut rest) = self.apart();
        rest.since_last_ms = at.since(before);
        rest.eager.extend(eager);
        let taken = std::mem::replace(phase, Phase::first());
        match step(taken, &mut rest, &event.kind) {
            Ok(next) => {
                // A later driver asks the shared budget anew: it may have more, on another day.
                if matches!(event.kind, EventKind::Resumed { .. }) {
                    rest.budget.shared = None;
                }
                debug_assert!(rest.eager.is_empty(), "an eager read is neither used nor dropped");
                *phase = next;
                Ok(rest.notes)
            }
            Err(refused) => {
                let (same, why) = *refused;
                *phase = same;
                rest.clock.now = before;
                Err(why)
            }
        }
    }

    /// The phase, and everything else.
    pub(super) fn apart(&mut self) -> (&mut Phase, RunParts<'_>) {
        let State { started, clock, phase, inbox, route, knowledge, calls, draft, budget } = &mut self.state;
        let (notes, since_last_ms, eager) = (Vec::new(), 0, Vec::new());
        let rest = RunParts {
            spec: &self.spec,
            started,
            clock,
            inbox,
            route,
            knowledge,
            calls,
            draft,
            budget,
            notes,
            since_last_ms,
            eager,
        };
        (phase, rest)
    }

    /// The id under which the run is traced: the caller's, or the run's own.
    pub fn trace_id(&self) -> &Arc<str> {
        let given = self.state.started.item.trace.as_ref();
        given.unwrap_or(&self.state.started.run.0)
    }

    /// The outcome, from `Saving` on. Its `saved` is set in `Done`.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.state.phase.outcome()
    }

    /// Whether the run is done: no event is accepted any more.
    pub fn is_done(&self) -> bool {
        self.state.phase.is_done()
    }

    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.state.started.run
    }

    /// The run's spec.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// The state without the spec, for a checkpoint.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The first event's data: work item, nonce, digests.
    pub fn started(&self) -> &Started {
        &self.state.started
    }

    /// The same, shared with the run.
    pub fn started_shared(&self) -> &Arc<Started> {
        &self.state.started
    }

    /// The instant of the last event.
    pub fn now(&self) -> Millis {
        self.state.clock.now
    }

    /// The current phase.
    pub fn phase(&self) -> &Phase {
        &self.state.phase
    }

    /// The pass whose main call is commanded, in flight, or was read last; 0 while selecting and gathering.
    pub fn pass(&self) -> u32 {
        let read = self.state.draft.passes.len() as u32;
        self.state.phase.call().map_or(read, |call| call.key.pass)
    }

    /// How many calls of this pass's reply were not read, because they exceeded `limits.requested_calls`. Pass 0 is the
    /// selection.
    pub fn unread_calls(&self, pass: u32) -> u32 {
        if pass == 0 {
            let of_passes: u32 = self.state.draft.passes.iter().map(|pass| pass.unread_calls).sum();
            return self.state.budget.totals.unread_calls.saturating_sub(of_passes);
        }
        let at = self.state.draft.passes.binary_search_by_key(&pass, |record| record.pass);
        at.ok().and_then(|at| self.state.draft.passes.get(at)).map_or(0, |record| record.unread_calls)
    }

    /// Takes back an announcement that was applied as the last event and could not be journaled. The announced call is
    /// not begun, costs nothing and is not in doubt. Other events change nothing here. A run whose journal fails ends
    /// here. Do not drive it any further.
    pub fn take_back(&mut self, announced: &EventKind) {
        match (announced, &mut self.state.phase) {
            (EventKind::CallStarted { key, .. }, Phase::Calling { call, .. }) if call.key == *key => {
                call.started = None;
                let totals = &mut self.state.budget.totals;
                totals.model_calls = totals.model_calls.saturating_sub(1);
            }
            (EventKind::EagerStarted { key, attempt, .. }, Phase::Calling { call, .. }) => {
                call.eager.retain(|read| (read.key, read.attempt) != (*key, *attempt));
            }
            (EventKind::ToolStarted { key, attempt }, Phase::Running { batch, .. }) => {
                let works = batch.work.iter_mut();
                works
                    .filter(|work| work.key == *key && work.attempt == *attempt)
                    .for_each(|work| work.announced = false);
            }
            _ => {}
        }
    }

    /// The parts that a provider refused by name. Requests leave them out.
    pub fn left_out(&self) -> &BTreeSet<RequestPart> {
        &self.state.route.left_out
    }

    /// The main calls whose replies were read, in order.
    pub fn passes(&self) -> &[PassRecord] {
        &self.state.draft.passes
    }

    /// The model calls that settled, in order of settling, each with the requested model and the one that served.
    pub fn model_calls(&self) -> Vec<ServedCall> {
        self.state.budget.served_calls(&self.spec)
    }

    /// What was irregular so far and did not end the run, each once.
    pub fn warnings(&self) -> &[RunWarning] {
        &self.state.knowledge.warnings
    }

    /// The text of a partial reply that no later reply replaced. It is the last text of the run, and belongs to no
    /// pass.
    pub fn broken_off(&self) -> Option<&Arc<str>> {
        self.state.draft.broken_off()
    }

    /// The document so far.
    pub fn document(&self) -> &Document {
        &self.state.draft.document
    }

    /// The settled results, by number.
    pub fn evidence(&self) -> &[Evidence] {
        &self.state.knowledge.evidence
    }

    /// The note that the result with this number carries, since it repeats something. `None`: it carries none.
    pub fn repeat_note(&self, id: EvidenceId) -> Option<RepeatNote> {
        self.state.calls.notes.get(&id).copied()
    }

    /// The reads that started before the reply of the call in flight is complete, in the order of their calls. Empty if
    /// there are none.
    pub fn eager_reads(&self) -> &[EagerRead] {
        self.state.phase.call().map_or(&[], |call| &call.eager)
    }

    /// The result with this number, also while other calls of its batch still run. `None`: it has not settled.
    pub fn observation(&self, id: EvidenceId) -> Option<&Arc<Observation>> {
        let settled =
            Evidence::find(&self.state.knowledge.evidence, id).map(|evidence| &evidence.observation);
        let work = || self.state.phase.batch()?.work.iter().find(|work| work.evidence == id);
        settled.or_else(|| work()?.observation.as_ref())
    }

    /// Every requested action, with its verdict.
    pub fn actions(&self) -> &[Arc<JudgedAction>] {
        &self.state.calls.actions
    }

    /// How an action ended or what it waits for, counted as one effect. For an action that called a run, all effects of
    /// that run are counted. All zero if the action is not an effect.
    pub fn effect_of(&self, action: &Arc<JudgedAction>) -> Effects {
        self.effects_of(std::slice::from_ref(action))
    }

    /// How the effects ended, or what they wait for.
    pub fn effects(&self) -> Effects {
        self.effects_of(self.actions())
    }

    fn effects_of(&self, actions: &[Arc<JudgedAction>]) -> Effects {
        let is_in_doubt = |key: &CommandKey| self.state.calls.doubts.contains_key(key);
        Effects::of(&self.spec, actions, self.evidence(), is_in_doubt)
    }

    /// Usage and cost so far.
    pub fn totals(&self) -> &Totals {
        &self.state.budget.totals
    }

    /// Whether a stop is requested.
    pub fn is_stop_requested(&self) -> bool {
        self.state.inbox.stop_requested.is_some()
    }

    /// Whether the run waits for people: it asks them itself, or nothing but called runs that wait for people is open.
    pub fn waits_for_people(&self) -> bool {
        self.state.phase.waiting_since().is_some()
    }

    /// The runs that it called and that wait for people, if nothing else is open.
    pub fn waits_below(&self) -> impl Iterator<Item = &RunId> {
        let batch = self.state.phase.batch().filter(|_| self.waits_for_people());
        let waiting =
            batch.into_iter().flat_map(|batch| &batch.work).filter_map(|work| work.waiting.as_ref());
        waiting.filter_map(|waiting| waiting.used.run.as_ref())
    }

    /// The tier of the next main call.
    pub fn tier(&self) -> Tier {
        self.state.route.tier
    }

    /// The tier of auxiliary calls: repairs, and the sub-calls of smart tools.
    pub fn auxiliary_tier(&self) -> Tier {
        self.state.route.auxiliary_tier(&self.spec)
    }

    /// What was missing when this pass was granted to revise the answer. `None` for any other pass.
    pub fn revisions(&self, pass: u32) -> Option<&[Arc<str>]> {
        self.state.draft.revisions(pass)
    }

    /// What the domain requires and the document does not have yet: required sections, valid citations, results of
    /// required tools, evidence for its values.
    pub fn missing(&self) -> Vec<Arc<str>> {
        self.state.draft.missing(&self.spec, &self.state.knowledge, &self.state.started)
    }

    /// Milliseconds that count against the wall clock.
    pub fn elapsed_ms(&self) -> u64 {
        self.state.clock.elapsed_ms(self.state.phase.waiting_since())
    }

    pub(super) fn begin(spec: Arc<RunSpec>, started: Started) -> (Self, Vec<Note>) {
        let limits = &spec.limits;
        let may_select = limits.tool_calls > 0 && limits.selected > 0;
        let is_no_choice =
            |tool: &ToolSpec| policy::is_forbidden(&spec, tool) || policy::unselectable(tool).is_some();
        let selections = spec.selection.enabled
            && spec.protocol.properties().selects_tools
            && !spec.tools.iter().all(is_no_choice)
            && may_select;
        let started = Arc::new(started);
        let mut state = match &started.parent {
            Some(parent) => parent.state.as_ref().clone().with(Arc::clone(&started)),
            None => Self::blank(&spec, Arc::clone(&started)),
        };
        state.knowledge.taint = Taint::at_start(&spec).and(state.knowledge.taint);
        state.knowledge.plan = EffectPlan::at_start(&spec, started.policy, state.knowledge.plan);
        let mut run = Self { spec, state };
        let unpriced = run.unpriced_limit();
        let (phase, mut rest) = run.apart();
        if let Some(parent) = started.parent.as_deref().filter(|parent| parent.how != Takeover::Retry) {
            let taken = std::mem::replace(phase, Phase::first());
            *phase = rest.take_over(taken, parent);
            let notes = rest.notes;
            return (run, notes);
        }
        let mut reached = rest.limits_reached();
        if rest.spec.limits.tool_calls == 0 && policy::has_tools(rest.spec) {
            // The order is steps, tool calls, time.
            let at = reached.iter().position(|limit| limit.reason == StopReason::Timeout);
            reached.insert(at.unwrap_or(reached.len()), gate::no_tool_calls());
        }
        let place = StopPoint { phase: phase.name(), pass: 0 };
        if let Some(certificate) = Certificate::of(reached.into_iter().chain(unpriced)) {
            *phase = rest.stop(place, certificate);
        } else if !selections {
            *phase = rest.next_pass(place);
        }
        let notes = rest.notes;
        (run, notes)
    }

    /// The state of a run that begins with its work item, and the messages before it.
    fn blank(spec: &RunSpec, started: Arc<Started>) -> State {
        let mut echoes = Echoes::default();
        let item = &started.item;
        if spec.protocol.properties().has_contract {
            for text in [&item.title, &item.full, &item.compact] {
                echoes.read(text);
            }
        }
        let history = started.history.as_ref();
        let by = started.provenance.called_by.as_deref();
        let taint = history.map_or(Taint::default(), |history| history.taint);
        let taint = by.map_or(taint, |by| taint.and(by.taint));
        let ledger = history.map_or(Ledger::default(), |history| Ledger::in_doubt(&history.doubts));
        State {
            started,
            clock: Clock::default(),
            phase: Phase::first(),
            inbox: Inbox::default(),
            route: Route::start(),
            knowledge: Knowledge { echoes, taint, ..Knowledge::default() },
            calls: Calls::start(ledger),
            draft: Draft::default(),
            budget: Budget::default(),
        }
    }

    /// The condition that a cost limit cannot be enforced, because the price is not known. `None`: it can.
    fn unpriced_limit(&self) -> Option<Condition> {
        let model = &self.spec.models.base;
        let limit = self.spec.unpriced_limit()?;
        let value = format!("the price of {}/{} is not known", model.provider, model.model);
        let (value, none) = (Measure::Text(value.into()), Measure::Text("none".into()));
        Some(Condition::at_limit(StopReason::BudgetExceeded, value, limit, Setting::Cost, none))
    }
}

/// Checks that the spec is the one that the run was started with, and that its version is known.
fn check_spec(spec: &RunSpec, expected: Digest) -> Result<(), Rejected> {
    let found = spec.hash();
    if found != expected {
        return Err(Rejected::OtherSpec { expected, found });
    }
    if spec.version != SPEC_VERSION {
        return Err(Rejected::UnknownVersion { found: spec.version });
    }
    Ok(())
}
