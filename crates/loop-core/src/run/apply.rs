//! The run and its state: how it begins, how an event is applied, and what can be read from it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{self, Certificate, Change, Condition, JudgedAction, Measure, StopReason};
use crate::policy;
use crate::repeats::Ledger;
use crate::reply::{Document, Echoes, Reading};
use crate::run::asking::AnswerFault;
use crate::run::budget::Budget;
use crate::run::calls::Calls;
use crate::run::clock::Clock;
use crate::run::draft::{Draft, PassRecord};
use crate::run::event::{Event, EventKind, History, Provenance, Started};
use crate::run::inbox::Inbox;
use crate::run::knowledge::Knowledge;
use crate::run::note::Note;
use crate::run::outcome::{Outcome, ServedCall};
use crate::run::phase::{Call, Phase, Purpose};
use crate::run::quote::{PromptSize, Quote};
use crate::run::route::Route;
use crate::spec::Setting;
use crate::spec::{Cite, CostMode, RunSpec, SPEC_VERSION, SpecNames, ToolSpec};
use crate::types::{
    CommandKey, Digest, Evidence, Millis, RunId, Slot, Status, Taint, Tier, Totals, WorkItem,
};

/// A run of the loop: its spec and its state.
///
/// Drive it like this: read [`commands`](Self::commands), do what they command, tell what happened with
/// [`apply`](Self::apply), until there is an [`outcome`](Self::outcome) and nothing is commanded any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub(super) spec: Arc<RunSpec>,
    pub(super) state: State,
}

/// Everything about a run but its spec: what a checkpoint stores. Each part has a module that holds what is always true of
/// it.
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
    /// A random text that outside text cannot guess. It marks contract block and fences.
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

/// Why an event was refused. The run is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The first event must be `started`, and no later one may be.
    #[error("{0}: a run begins with `started`, once")]
    NotTheStart(&'static str),
    /// The spec is not the one that the run was started with.
    #[error("the run was started with spec {expected}, this one is {found}")]
    OtherSpec {
        /// The digest in `started`.
        expected: Digest,
        /// The digest of the spec that was given.
        found: Digest,
    },
    /// The spec has a version whose rules this crate does not implement.
    #[error("the spec has version {found}, and this crate knows version {SPEC_VERSION}")]
    UnknownVersion {
        /// The version of the spec that was given.
        found: u32,
    },
    /// The event is earlier than the one before it.
    #[error("{event} at {at} ms, after an event at {now} ms")]
    BackInTime {
        /// The name of the event.
        event: &'static str,
        /// The event's instant, in milliseconds since the start.
        at: u64,
        /// The instant of the last event, in milliseconds since the start.
        now: u64,
    },
    /// The event cannot occur in this phase.
    #[error("{event} while {phase}")]
    OutOfOrder {
        /// The name of the event.
        event: &'static str,
        /// The name of the phase.
        phase: &'static str,
    },
    /// No such call or action is open, or this try of it has settled already.
    #[error("{event} for {key} attempt {attempt}, which is not open while {phase}")]
    NotOpen {
        /// The name of the event.
        event: &'static str,
        /// The call or action that it names.
        key: CommandKey,
        /// The try that it names, from 1.
        attempt: u32,
        /// The name of the phase.
        phase: &'static str,
    },
    /// A grant or a refusal differs from the one that the core computes.
    #[error("{key}: announced {announced}, but the state gives {computed}")]
    OtherQuote {
        /// The call.
        key: CommandKey,
        /// The quote in the event.
        announced: String,
        /// The quote that the core computes.
        computed: String,
    },
    /// A person's answer does not count.
    #[error("the answer to {key} does not count: {why}")]
    Answer {
        /// The action that it names.
        key: CommandKey,
        /// Why it does not count.
        why: AnswerFault,
    },
    /// The instruction of a person is empty.
    #[error("the instruction is empty")]
    EmptyInstruction,
    /// `deadline_reached` came before the deadline.
    #[error("deadline_reached at {at} ms, before the deadline")]
    Early {
        /// The event's instant, in milliseconds since the start.
        at: u64,
    },
}

impl Run {
    /// Makes the first event and opens it: a run that commands its first call, or that a limit of 0 has stopped (S4-d3).
    pub fn start(id: RunId, spec: Arc<RunSpec>, item: WorkItem, facts: Facts) -> (Self, Event, Vec<Note>) {
        let names = SpecNames::of(&spec);
        Self::start_named(id, spec, names, item, facts)
    }

    /// The same with the names of the spec, which cost more than all the rest where many runs have one spec.
    pub fn start_named(
        id: RunId,
        spec: Arc<RunSpec>,
        names: SpecNames,
        item: WorkItem,
        facts: Facts,
    ) -> (Self, Event, Vec<Note>) {
        let started = Started {
            run: id,
            unix_ms: facts.unix_ms,
            nonce: facts.nonce,
            item,
            spec: names.spec,
            policy: names.policy,
            prompts: facts.prompts,
            tools: facts.tools,
            history: facts.history,
            provenance: facts.provenance,
        };
        let (run, notes) = Self::begin(spec, started.clone());
        (run, Event { at: Millis(0), kind: EventKind::Started(Box::new(started)) }, notes)
    }

    /// How a replay begins: the first event, and the spec that it names by hash.
    ///
    /// # Errors
    /// When the event is not `started`, or names another spec, or the spec has a version that this crate does not know.
    pub fn open(first: &Event, spec: Arc<RunSpec>) -> Result<(Self, Vec<Note>), Rejected> {
        let EventKind::Started(started) = &first.kind else {
            return Err(Rejected::NotTheStart(first.kind.name()));
        };
        check_spec(&spec, started.spec)?;
        Ok(Self::begin(spec, (**started).clone()))
    }

    /// The run that a checkpoint holds.
    ///
    /// # Errors
    /// When the spec is not the one that the run was started with, or has a version that this crate does not know.
    pub fn restore(state: State, spec: Arc<RunSpec>) -> Result<Self, Rejected> {
        check_spec(&spec, state.started.spec)?;
        Ok(Self { spec, state })
    }

    /// The only way to change a run. Pure. Refuses what cannot follow from the state, and then changes nothing.
    ///
    /// # Errors
    /// What was wrong with the event, as a sentence.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<Note>, Rejected> {
        let before = self.state.clock.now;
        if event.at < before {
            let event_name = event.kind.name();
            return Err(Rejected::BackInTime { event: event_name, at: event.at.0, now: before.0 });
        }
        // What is due is read before the clock moves: an instant that has come is no deadline any more.
        let deadline = self.deadline();
        self.state.clock.now = event.at;
        let mut notes = Vec::new();
        let applied = match &event.kind {
            EventKind::Started(_) => Err(Rejected::NotTheStart(event.kind.name())),
            EventKind::CallStarted {
                key,
                attempt,
                tier,
                prompt_bytes,
                shared_bytes,
                max_output_tokens,
                reserve,
                ..
            } => {
                let prompt = PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes };
                let announced =
                    Quote { tier: *tier, max_output_tokens: *max_output_tokens, reserve: *reserve };
                self.call_started(key, *attempt, prompt, announced, &mut notes)
            }
            EventKind::CallRefused { key, attempt, prompt_bytes, shared_bytes, refusal } => {
                let prompt = PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes };
                self.call_refused(key, *attempt, prompt, *refusal, &mut notes)
            }
            EventKind::ModelReplied { key, attempt, reply } => {
                self.model_replied(key, *attempt, reply, &mut notes)
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                self.model_failed(key, *attempt, failure, &mut notes)
            }
            EventKind::ToolStarted { key, attempt } => self.tool_started(key, *attempt),
            EventKind::ToolFinished { key, attempt, observation } => {
                self.tool_finished(key, *attempt, observation, &mut notes)
            }
            EventKind::PersonAnswered { key, answer, binding } => {
                self.person_answered(key, answer, binding.as_ref(), &mut notes)
            }
            EventKind::Instruction { text } => self.take_instruction(text),
            EventKind::StopRequested { how } => self.stop_requested(*how, &mut notes),
            EventKind::StopWithdrawn => self.stop_withdrawn(),
            EventKind::DeadlineReached => self.deadline_reached(deadline, &mut notes),
            EventKind::Resumed { away_ms } => {
                // No more time can have passed without a driver than has passed at all.
                self.resumed((*away_ms).min(event.at.since(before)), &mut notes)
            }
            EventKind::Validated { key, attempt, result } => {
                self.validated(key, *attempt, result, &mut notes)
            }
            EventKind::SaveFinished { attempt, result } => self.save_finished(*attempt, result),
        };
        match applied {
            Ok(()) => Ok(notes),
            Err(rejected) => {
                self.state.clock.now = before;
                Err(rejected)
            }
        }
    }

    /// The id under which the run is traced: the caller's, or the run's own.
    pub fn trace_id(&self) -> &Arc<str> {
        let given = self.state.started.item.trace.as_ref();
        given.unwrap_or(&self.state.started.run.0)
    }

    /// What there is at the end: from `Saving` on; `saved` is filled in `Done`.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.state.phase.outcome()
    }

    /// Whether nothing more can happen.
    pub fn is_done(&self) -> bool {
        matches!(self.state.phase, Phase::Done { .. })
    }

    /// The run's name.
    pub fn id(&self) -> &RunId {
        &self.state.started.run
    }

    /// The spec that it runs by.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// Everything but the spec, to be stored.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The first event's data: work item, nonce, hashes.
    pub fn started(&self) -> &Started {
        &self.state.started
    }

    /// The instant of the last event.
    pub fn now(&self) -> Millis {
        self.state.clock.now
    }

    /// What it is doing.
    pub fn phase(&self) -> &Phase {
        &self.state.phase
    }

    /// The pass whose main call is commanded, in flight, or was read last; 0 while selecting and gathering.
    pub fn pass(&self) -> u32 {
        let read = self.state.draft.passes.len() as u32;
        self.state.phase.call().map_or(read, |call| call.key.pass)
    }

    /// How many calls the reply of this pass asked for beyond `limits.requested_calls`, which were not read; pass 0 is the
    /// selection.
    pub fn unread_calls(&self, pass: u32) -> u32 {
        if pass == 0 {
            let of_passes: u32 = self.state.draft.passes.iter().map(|pass| pass.unread_calls).sum();
            return self.state.budget.totals.unread_calls.saturating_sub(of_passes);
        }
        let at = self.state.draft.passes.binary_search_by_key(&pass, |record| record.pass);
        at.ok().and_then(|at| self.state.draft.passes.get(at)).map_or(0, |record| record.unread_calls)
    }

    /// Takes an announcement back that was applied as the last event, and could not be made durable: what it announces is
    /// not begun, costs nothing and is not in doubt. Other facts announce nothing and are left as they are. A run whose
    /// journal fails ends here; it cannot be driven on.
    pub fn take_back(&mut self, announced: &EventKind) {
        match announced {
            EventKind::CallStarted { key, .. } => {
                if let Some(call) = self.state.phase.call_mut().filter(|call| call.key == *key) {
                    call.started = None;
                    self.state.budget.totals.model_calls =
                        self.state.budget.totals.model_calls.saturating_sub(1);
                }
            }
            EventKind::ToolStarted { key, attempt } => {
                let works = self.state.phase.batch_mut().into_iter().flat_map(|batch| batch.work.iter_mut());
                works
                    .filter(|work| work.key == *key && work.attempt == *attempt)
                    .for_each(|work| work.announced = false);
            }
            _ => {}
        }
    }

    /// The main calls whose replies were read.
    pub fn passes(&self) -> &[PassRecord] {
        &self.state.draft.passes
    }

    /// The calls to models that settled, in that order: which model each was for, and which served it.
    pub fn model_calls(&self) -> Vec<ServedCall> {
        self.state.budget.served_calls(&self.spec)
    }

    /// What came of a reply that broke off and that no other has taken the place of: the last thing that was said, and
    /// part of no pass.
    pub fn broken_off(&self) -> Option<&Arc<str>> {
        self.state.draft.broken_off()
    }

    /// The document so far.
    pub fn document(&self) -> &Document {
        &self.state.draft.document
    }

    /// Settled observations by number.
    pub fn evidence(&self) -> &[Evidence] {
        &self.state.knowledge.evidence
    }

    /// Every action that was asked for, with its verdict.
    pub fn actions(&self) -> &[JudgedAction] {
        &self.state.calls.actions
    }

    /// What was used so far.
    pub fn totals(&self) -> &Totals {
        &self.state.budget.totals
    }

    /// Whether a stop at the next gate is asked for.
    pub fn is_stop_requested(&self) -> bool {
        self.state.inbox.stop_requested.is_some()
    }

    /// The tier of the next main call.
    pub fn tier(&self) -> Tier {
        self.state.route.tier
    }

    /// The tier of small calls: repairs, and those that smart tools make.
    pub fn auxiliary_tier(&self) -> Tier {
        self.state.route.auxiliary_tier(&self.spec)
    }

    /// What was missing when this pass was granted to repair the answer before it; `None` for any other pass.
    pub fn revisions(&self, pass: u32) -> Option<&[Arc<str>]> {
        self.state.draft.revisions(pass)
    }

    /// What the domain demands and the document does not have yet: required sections, citations and what they cite,
    /// required tools.
    pub fn missing(&self) -> Vec<Arc<str>> {
        let mut missing = Vec::new();
        for spec in self.spec.sections() {
            match self.state.draft.document.get(&spec.id) {
                None if spec.required => missing.push(Arc::from(format!("section `{}`", spec.id))),
                Some(section) if !spec.cite.is_met_by(&section.evidence) => {
                    let what = if spec.cite == Cite::Evidence && !section.evidence.is_empty() {
                        format!(
                            "a citation of evidence other than the work item (E0) in section `{}`",
                            spec.id
                        )
                    } else {
                        format!("a citation in section `{}`", spec.id)
                    };
                    missing.push(what.into());
                }
                // One that is sound does not vouch for the others.
                Some(section) if spec.cite != Cite::No => {
                    let bad = section.bad_citations();
                    if !bad.is_empty() {
                        let bad: Vec<String> = bad.iter().map(|id| format!("[{id}]")).collect();
                        let what = format!("evidence for {} in section `{}`", bad.join(", "), spec.id);
                        missing.push(what.into());
                    }
                }
                None | Some(_) => {}
            }
        }
        missing.extend(self.unobserved().map(|tool| Arc::from(format!("a result of `{tool}`"))));
        missing
    }

    /// The required tools that returned nothing: neither a failure nor an empty result is what was demanded.
    pub(super) fn unobserved(&self) -> impl Iterator<Item = &Arc<str>> {
        let observed = |tool: &Arc<str>| {
            let found =
                |evidence: &Evidence| evidence.tool == *tool && evidence.observation.status == Status::Ok;
            self.state.knowledge.evidence.iter().any(found)
        };
        self.spec.gate.required_tools.iter().filter(move |tool| !observed(tool))
    }

    /// Milliseconds that count against the wall clock.
    pub fn elapsed_ms(&self) -> u64 {
        self.state.clock.elapsed_ms(self.state.phase.waiting_since())
    }

    fn begin(spec: Arc<RunSpec>, started: Started) -> (Self, Vec<Note>) {
        let limits = &spec.limits;
        let may_select = limits.tool_calls > 0 && limits.selected > 0;
        let is_no_choice =
            |tool: &ToolSpec| policy::is_forbidden(&spec, tool) || policy::unselectable(tool).is_some();
        let selections = spec.selection.enabled
            && spec.protocol.properties().selects_tools
            && !spec.tools.iter().all(is_no_choice)
            && may_select;
        let mut echoes = Echoes::default();
        let item = &started.item;
        if spec.protocol.properties().has_contract {
            for text in [&item.title, &item.full, &item.compact] {
                echoes.read(text);
            }
        }
        let call = Call::commanded(CommandKey::new(0, Slot::Select), Tier::Selector);
        let history = started.history.as_ref();
        let taint = history.map_or(Taint::default(), |history| history.taint);
        let ledger = history.map_or(Ledger::default(), |history| Ledger::in_doubt(&history.doubts));
        let state = State {
            started: Arc::new(started),
            clock: Clock::default(),
            phase: Phase::Calling { call, purpose: Purpose::Select },
            inbox: Inbox::default(),
            route: Route::start(),
            knowledge: Knowledge { echoes, taint: Taint::at_start(&spec).and(taint), ..Knowledge::default() },
            calls: Calls::start(ledger),
            draft: Draft::default(),
            budget: Budget::default(),
        };
        let mut run = Self { spec, state };
        let mut notes = Vec::new();
        let unpriced = run.unpriced_limit();
        let mut reached = gate::limits_reached(&run.spec.limits, &run.state.budget.totals, 0);
        if run.spec.limits.tool_calls == 0 && policy::has_tools(&run.spec) {
            // In S4's order: steps, tool calls, time.
            let at = reached.iter().position(|limit| limit.reason == StopReason::Timeout);
            reached.insert(at.unwrap_or(reached.len()), gate::no_tool_calls());
        }
        if run.spec.limits.cost_mode != CostMode::After {
            // What the first call takes is not known before it is rendered: no amount can be named that would do.
            let is_amount = |reason| matches!(reason, StopReason::BudgetExceeded | StopReason::TokenLimit);
            reached.iter_mut().filter(|limit| is_amount(limit.reason)).for_each(|limit| limit.change = None);
        }
        if let Some(certificate) = Certificate::of(reached.into_iter().chain(unpriced)) {
            run.stop(certificate, &mut notes);
        } else if !selections {
            run.next_pass(&mut notes);
        }
        (run, notes)
    }

    /// A limit of money that nobody could keep, since the price is not known.
    fn unpriced_limit(&self) -> Option<Condition> {
        let model = &self.spec.models.base;
        let limit = self.spec.unpriced_limit()?;
        let value = format!("the price of {}/{} is not known", model.provider, model.model);
        Some(Condition {
            reason: StopReason::BudgetExceeded,
            value: Measure::Text(value.into()),
            threshold: Some(Measure::PicoUsd(limit)),
            change: Some(Change { setting: Setting::Cost, to: Measure::Text("none".into()) }),
        })
    }

    pub(super) fn reading(&self) -> Reading<'_> {
        Reading {
            spec: &self.spec,
            nonce: &self.state.started.nonce,
            echoes: &self.state.knowledge.echoes,
            has_read_untrusted: self.state.knowledge.taint.untrusted,
        }
    }

    pub(super) fn out_of_order<T>(&self, event: &'static str) -> Result<T, Rejected> {
        Err(Rejected::OutOfOrder { event, phase: self.state.phase.name() })
    }

    pub(super) fn not_open(&self, event: &'static str, key: &CommandKey, attempt: u32) -> Rejected {
        Rejected::NotOpen { event, key: *key, attempt, phase: self.state.phase.name() }
    }
}

/// Whether a run can go on by this spec: it is the one that the run was started with, and its rules are known.
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
