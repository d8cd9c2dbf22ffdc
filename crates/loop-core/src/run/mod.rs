//! The run: a plain value. Facts change it, wishes are read from it.
//!
//! This room decides what follows an event: the next phase, what a call may take, what is kept of a reply, when the run is
//! over. It decides from the state and the event alone, and asks the rooms below: `reply` what a text proposes, `gate`
//! what is said to it. It is the only room that has a state.
//!
//! It never looks at a clock, at bytes of a prompt or at a provider's words: sizes and instants come with the events.
//!
//! ```text
//!            ┌──────── picker failed: default tools ───────┐
//! Picking ───┴▶ Gathering ─▶ Calling ─▶ (Repairing) ─▶ gate ─▶ Acting ─▶ (WaitingForPerson) ─┐
//!                             ▲                         │                                   │
//!                             └──────── next pass ──────┼───────────────────────────────────┘
//!                  last permitted pass or call: Landing ┤
//!                                                       ▼
//!                     any phase, stop now ─▶ Stopping ─▶ Saving ─▶ Done
//! ```
//!
//! Where an attempt has ended with an output, `Validating` comes before the next pass: a valid one ends the run.

mod acting;
mod asking;
mod attempts;
mod calls;
mod command;
mod compact;
mod event;
mod final_pass;
mod gating;
mod note;
mod outcome;
mod phase;
mod quote;
mod requested;
mod select;
mod stopping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{
    self, Certificate, Change, Condition, JudgedAction, Measure, StopReason, TierChange, Trouble, Written,
};
use crate::policy;
use crate::repeats::Ledger;
use crate::reply::{Document, Echoes, Reading};
use crate::spec::Setting;
use crate::spec::{Cite, CostMode, RunSpec, SPEC_VERSION, SpecNames, ToolSpec};
use crate::types::{
    CommandKey, Confidence, Digest, Evidence, EvidenceId, Legs, Millis, RunId, Slot, Status, Tier, Told,
    Totals, WorkItem, is_default,
};

pub use asking::{AnswerFault, Asked};
pub use attempts::{Attempt, AttemptState};
pub use command::{CallModel, Command, RunTool, SubCallBudget, Validate};
pub use event::{
    Event, Fact, History, Overridden, PersonAnswer, Provenance, Refusal, Reserve, SaveResult, Started,
    StopMode, Validation,
};
pub use note::{Decision, Note, PickedBy};
pub use outcome::{Outcome, Output, PassSummary, Rejection, Saved, ServedCall, StoppedIn};
pub use phase::{Ask, Batch, Call, Phase, Poll, StartedCall, Work};
pub use quote::{PromptSize, Quote};

/// A run of the loop: its spec and its state.
///
/// Drive it like this: read [`commands`](Self::commands), do what they wish, tell what happened with
/// [`apply`](Self::apply), until there is an [`outcome`](Self::outcome) and nothing is wished any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    spec: Arc<RunSpec>,
    state: State,
}

/// Everything about a run but its spec: what a checkpoint stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    started: Arc<Started>,
    /// The instant of the last event.
    now: Millis,
    /// Milliseconds spent waiting for people, or without a driver.
    uncounted_ms: u64,
    phase: Phase,
    /// Since when a stop at the next gate is asked for.
    stop_asked: Option<Millis>,
    tier: Tier,
    passes: Vec<PassRecord>,
    /// The calls to models that settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<CallRecord>,
    document: Document,
    confidence: Confidence,
    confidence_reason: Arc<str>,
    evidence: Vec<Evidence>,
    actions: Vec<JudgedAction>,
    ledger: Ledger,
    totals: Totals,
    /// Sub-calls that are granted and not yet settled.
    granted_sub_calls: u32,
    /// Contracts that stand in what was read, so that an echo of one is known.
    echoes: Echoes,
    /// Bytes and input tokens of the last main call, by which the next one is estimated.
    last_main: Option<MainCall>,
    /// What a section may cite, in ascending order: the work item, and what was found or found to be absent.
    citable: Vec<EvidenceId>,
    /// Contents of the evidence so far.
    known: BTreeSet<Digest>,
    /// Whether evidence with new content has come since the last pass.
    fresh: bool,
    /// The pass that the escalated model took over with.
    escalated: Option<u32>,
    /// The main calls that another tier's model took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tier_changes: Vec<TierChange>,
    /// Whether another route was taken from the base model.
    rerouted: bool,
    /// The passes that were granted to mend an answer, and what was missing then.
    mending: Vec<Mending>,
    /// What people told the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    told: Vec<Told>,
    /// Attempts at an output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<Attempt>,
    /// The final answer of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Arc<str>>,
    /// What came of a reply that failed midway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partial: Option<Arc<str>>,
    /// The pass that it is of.
    #[serde(default, skip_serializing_if = "is_default")]
    partial_pass: u32,
    /// What of a conversation is shown in short.
    #[serde(default, skip_serializing_if = "is_default")]
    compacted: Compacted,
    /// What it was doing when its reason was fixed.
    #[serde(default, skip_serializing_if = "is_default")]
    stopped_in: StoppedIn,
    /// What went wrong in a row.
    #[serde(default, skip_serializing_if = "is_default")]
    trouble: Trouble,
    /// What was read so far.
    #[serde(default, skip_serializing_if = "is_default")]
    legs: Legs,
    /// The effects that were started and whose outcome is unknown: the tool by the key under which it ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    doubts: BTreeMap<CommandKey, Arc<str>>,
}

/// A call to a model that settled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct CallRecord {
    key: CommandKey,
    attempt: u32,
    tier: Tier,
    /// The model that served, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    served: Option<Arc<str>>,
}

/// What of a conversation is shown in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Compacted {
    /// The last pass that is; 0 for none.
    through: u32,
    /// Whether the messages before the run are.
    history: bool,
}

/// The last main call's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct MainCall {
    tier: Tier,
    bytes: u64,
    input_tokens: u64,
}

/// A main call whose reply was read: what prompts show of it later.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassRecord {
    /// From 1.
    pub pass: u32,
    /// Whether it was the landing.
    pub landing: bool,
    /// The reply as it came.
    pub reply: Arc<str>,
    /// The provider's own turn, where it must go back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Arc<str>>,
    /// How many observations its prompt showed.
    pub evidence_seen: u32,
    /// How many calls it asked for beyond `limits.asked_calls`: they were not read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread_calls: u32,
    /// How many actions its prompt listed as executed.
    pub actions_seen: u32,
    /// The sections that it changed.
    pub changed: Vec<Arc<str>>,
    /// What it reasoned, where a provider wants that back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Arc<str>>,
    /// Of the changed sections, the ones that it took away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<Arc<str>>,
    /// The tier that replied.
    pub tier: Tier,
    /// Whether its prompt showed evidence whose content no pass before had seen.
    pub fresh: bool,
    /// What it said of its confidence, or what the repaired contract did.
    pub confidence: Confidence,
    /// Why it said so.
    pub confidence_reason: Arc<str>,
    /// When its reply was read.
    pub at: Millis,
    /// Where it was cut at its output limit, or else the reply that repaired its contract was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

impl PassRecord {
    /// What the outcome tells of it.
    pub(super) fn summary(&self) -> PassSummary {
        PassSummary {
            pass: self.pass,
            landing: self.landing,
            tier: self.tier,
            confidence: self.confidence,
            confidence_reason: Arc::clone(&self.confidence_reason),
            changed: self.changed.clone(),
            at: self.at,
        }
    }
}

/// A reply that was cut at its output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cut {
    /// What it had written.
    pub written: Written,
    /// The output tokens that its call was granted.
    pub granted: u64,
}

/// A pass that was granted to mend an answer at high confidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Mending {
    pass: u32,
    /// What was demanded and not there.
    missing: Vec<Arc<str>>,
}

/// Facts of the start that the core cannot know by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Wall time in milliseconds since 1970.
    pub unix_ms: u64,
    /// A random text that nobody outside can guess.
    pub nonce: Arc<str>,
    /// Names the prompt templates.
    pub prompts: Digest,
    /// Names the tool manifest.
    pub tools: Digest,
    /// The messages that a conversation goes on from; without them it begins with the work item.
    pub history: Option<History>,
    /// Which program begins it, and which settings replaced the domain's.
    pub provenance: Provenance,
}

/// Why an event was refused. The run is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The first event must be `started`, and only the first.
    #[error("{0}: a run begins with `started`, once")]
    NotTheStart(&'static str),
    /// The spec at hand is not the one that the run was started with.
    #[error("the run was started with spec {expected}, this one is {found}")]
    OtherSpec {
        /// The hash in `started`.
        expected: Digest,
        /// The hash of the spec at hand.
        found: Digest,
    },
    /// The spec follows rules that this crate does not know.
    #[error("the spec has version {found}, and this crate knows version {SPEC_VERSION}")]
    UnknownVersion {
        /// The version of the spec at hand.
        found: u32,
    },
    /// Time goes forward only.
    #[error("{event} at {at} ms, after an event at {now} ms")]
    BackInTime {
        /// What was to be applied.
        event: &'static str,
        /// Its instant.
        at: u64,
        /// The run's instant.
        now: u64,
    },
    /// Such an event cannot follow in this phase.
    #[error("{event} while {phase}")]
    OutOfOrder {
        /// What was to be applied.
        event: &'static str,
        /// The phase.
        phase: &'static str,
    },
    /// No such call or action is open, or this try of it is settled already.
    #[error("{event} for {key} attempt {attempt}, which is not open while {phase}")]
    NotOpen {
        /// What was to be applied.
        event: &'static str,
        /// The call or action.
        key: CommandKey,
        /// The try.
        attempt: u32,
        /// The phase.
        phase: &'static str,
    },
    /// A grant or a refusal differs from what the state gives.
    #[error("{key}: announced {announced}, but the state gives {computed}")]
    OtherQuote {
        /// The call.
        key: CommandKey,
        /// What the event says.
        announced: String,
        /// What the core computes.
        computed: String,
    },
    /// What a person answered does not count.
    #[error("the answer to {key} does not count: {why}")]
    Answer {
        /// The action.
        key: CommandKey,
        /// Why it does not.
        why: AnswerFault,
    },
    /// A person told the run nothing.
    #[error("what the run is told is empty")]
    ToldNothing,
    /// The deadline has not come.
    #[error("deadline_reached at {at} ms, before the deadline")]
    Early {
        /// The event's instant.
        at: u64,
    },
}

impl Run {
    /// Makes the first event and opens it: a run that wishes its first call, or that a limit of 0 has stopped (S4-d3).
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
        (run, Event { at: Millis(0), fact: Fact::Started(Box::new(started)) }, notes)
    }

    /// How a replay begins: the first event, and the spec that it names by hash.
    ///
    /// # Errors
    /// When the event is not `started`, or names another spec, or the spec has a version that this crate does not know.
    pub fn open(first: &Event, spec: Arc<RunSpec>) -> Result<(Self, Vec<Note>), Rejected> {
        let Fact::Started(started) = &first.fact else {
            return Err(Rejected::NotTheStart(first.fact.name()));
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
        let before = self.state.now;
        if event.at < before {
            let event_name = event.fact.name();
            return Err(Rejected::BackInTime { event: event_name, at: event.at.0, now: before.0 });
        }
        // What is due is read before the clock moves: an instant that has come is no deadline any more.
        let deadline = self.deadline();
        self.state.now = event.at;
        let mut notes = Vec::new();
        let applied = match &event.fact {
            Fact::Started(_) => Err(Rejected::NotTheStart(event.fact.name())),
            Fact::CallStarted {
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
            Fact::CallRefused { key, attempt, prompt_bytes, shared_bytes, refusal } => {
                let prompt = PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes };
                self.call_refused(key, *attempt, prompt, *refusal, &mut notes)
            }
            Fact::ModelReplied { key, attempt, reply } => {
                self.model_replied(key, *attempt, reply, &mut notes)
            }
            Fact::ModelFailed { key, attempt, failure } => {
                self.model_failed(key, *attempt, failure, &mut notes)
            }
            Fact::ToolStarted { key, attempt } => self.tool_started(key, *attempt),
            Fact::ToolFinished { key, attempt, observation } => {
                self.tool_finished(key, *attempt, observation, &mut notes)
            }
            Fact::PersonAnswered { key, answer, binding } => {
                self.person_answered(key, answer, binding.as_ref(), &mut notes)
            }
            Fact::Told { text } => self.take_told(text),
            Fact::StopRequested { how } => self.stop_requested(*how, &mut notes),
            Fact::StopWithdrawn => self.stop_withdrawn(),
            Fact::DeadlineReached => self.deadline_reached(deadline, &mut notes),
            Fact::Resumed { away_ms } => {
                // No more time can have passed without a driver than has passed at all.
                self.resumed((*away_ms).min(event.at.since(before)), &mut notes)
            }
            Fact::Validated { key, attempt, result } => self.validated(key, *attempt, result, &mut notes),
            Fact::SaveFinished { attempt, result } => self.save_finished(*attempt, result),
        };
        match applied {
            Ok(()) => Ok(notes),
            Err(rejected) => {
                self.state.now = before;
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
        match &self.state.phase {
            Phase::Saving { outcome, .. } | Phase::Done { outcome } => Some(outcome),
            Phase::Picking { .. }
            | Phase::Gathering { .. }
            | Phase::Calling { .. }
            | Phase::Repairing { .. }
            | Phase::Acting { .. }
            | Phase::WaitingForPerson { .. }
            | Phase::Validating { .. }
            | Phase::Landing { .. }
            | Phase::Stopping { .. } => None,
        }
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
        self.state.now
    }

    /// What it is doing.
    pub fn phase(&self) -> &Phase {
        &self.state.phase
    }

    /// The pass whose main call is wished, in flight, or was read last; 0 while picking and gathering.
    pub fn pass(&self) -> u32 {
        let read = self.state.passes.len() as u32;
        self.state.phase.call().map_or(read, |call| call.key.pass)
    }

    /// How many calls the reply of this pass asked for beyond `limits.asked_calls`, which were not read; pass 0 is the
    /// selection.
    pub fn unread_calls(&self, pass: u32) -> u32 {
        if pass == 0 {
            let of_passes: u32 = self.state.passes.iter().map(|pass| pass.unread_calls).sum();
            return self.state.totals.unread_calls.saturating_sub(of_passes);
        }
        let at = self.state.passes.binary_search_by_key(&pass, |record| record.pass);
        at.ok().and_then(|at| self.state.passes.get(at)).map_or(0, |record| record.unread_calls)
    }

    /// Takes an announcement back that was applied as the last event, and could not be made durable: what it announces is
    /// not begun, costs nothing and is not in doubt. Other facts announce nothing and are left as they are. A run whose
    /// journal fails ends here; it cannot be driven on.
    pub fn take_back(&mut self, announced: &Fact) {
        match announced {
            Fact::CallStarted { key, .. } => {
                if let Some(call) = self.state.phase.call_mut().filter(|call| call.key == *key) {
                    call.started = None;
                    self.state.totals.model_calls = self.state.totals.model_calls.saturating_sub(1);
                }
            }
            Fact::ToolStarted { key, attempt } => {
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
        &self.state.passes
    }

    /// The calls to models that settled, in that order: which model each was for, and which served it.
    pub fn model_calls(&self) -> Vec<ServedCall> {
        let served = |call: &CallRecord| {
            let asked = self.spec.model(call.tier);
            ServedCall {
                key: call.key,
                attempt: call.attempt,
                tier: call.tier,
                provider: Arc::clone(&asked.provider),
                model: Arc::clone(&asked.model),
                base_model: asked.base_model.clone(),
                served_model: call.served.clone(),
            }
        };
        self.state.calls.iter().map(served).collect()
    }

    /// What came of a reply that broke off and that no other has taken the place of: the last thing that was said, and
    /// part of no pass.
    pub fn broken_off(&self) -> Option<&Arc<str>> {
        let is_last = self.state.partial_pass as usize > self.state.passes.len();
        self.state.partial.as_ref().filter(|_| is_last)
    }

    /// The document so far.
    pub fn document(&self) -> &Document {
        &self.state.document
    }

    /// Settled observations by number.
    pub fn evidence(&self) -> &[Evidence] {
        &self.state.evidence
    }

    /// Every action that was asked for, with its verdict.
    pub fn actions(&self) -> &[JudgedAction] {
        &self.state.actions
    }

    /// What was used so far.
    pub fn totals(&self) -> &Totals {
        &self.state.totals
    }

    /// Whether a stop at the next gate is asked for.
    pub fn is_stop_asked(&self) -> bool {
        self.state.stop_asked.is_some()
    }

    /// The tier of the next main call.
    pub fn tier(&self) -> Tier {
        self.state.tier
    }

    /// The tier of small calls: repairs, and those that smart tools make.
    pub fn small_tier(&self) -> Tier {
        // Without a model of its own the picker is the base model, which cannot be had.
        if self.state.rerouted && self.spec.models.picker.is_none() { Tier::Fallback } else { Tier::Picker }
    }

    /// What was missing when this pass was granted to mend the answer before it; `None` for any other pass.
    pub fn mending(&self, pass: u32) -> Option<&[Arc<str>]> {
        let granted = self.state.mending.iter().find(|mending| mending.pass == pass);
        granted.map(|mending| mending.missing.as_slice())
    }

    /// What the domain demands and the document does not have yet: required sections, citations and what they cite,
    /// required tools.
    pub fn missing(&self) -> Vec<Arc<str>> {
        let mut missing = Vec::new();
        for spec in self.spec.sections() {
            match self.state.document.get(&spec.id) {
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
    fn unobserved(&self) -> impl Iterator<Item = &Arc<str>> {
        let observed = |tool: &Arc<str>| {
            let found =
                |evidence: &Evidence| evidence.tool == *tool && evidence.observation.status == Status::Ok;
            self.state.evidence.iter().any(found)
        };
        self.spec.gate.required_tools.iter().filter(move |tool| !observed(tool))
    }

    /// Milliseconds that count against the wall clock.
    pub fn elapsed_ms(&self) -> u64 {
        let waiting = match &self.state.phase {
            Phase::WaitingForPerson { since, .. } => self.state.now.since(*since),
            Phase::Picking { .. }
            | Phase::Gathering { .. }
            | Phase::Calling { .. }
            | Phase::Repairing { .. }
            | Phase::Acting { .. }
            | Phase::Validating { .. }
            | Phase::Landing { .. }
            | Phase::Stopping { .. }
            | Phase::Saving { .. }
            | Phase::Done { .. } => 0,
        };
        self.state.now.0.saturating_sub(self.state.uncounted_ms).saturating_sub(waiting)
    }

    fn begin(spec: Arc<RunSpec>, started: Started) -> (Self, Vec<Note>) {
        let limits = &spec.limits;
        let may_pick = limits.tool_calls > 0 && limits.picked > 0;
        let is_no_choice =
            |tool: &ToolSpec| policy::is_barred(&spec, tool) || policy::unselectable(tool).is_some();
        let picks = spec.picking.enabled
            && spec.protocol.properties().selects_tools
            && !spec.tools.iter().all(is_no_choice)
            && may_pick;
        let mut echoes = Echoes::default();
        let item = &started.item;
        if spec.protocol.properties().has_contract {
            for text in [&item.title, &item.full, &item.compact] {
                echoes.read(text);
            }
        }
        let call = Call::wished(CommandKey::new(0, Slot::Pick), Tier::Picker);
        let history = started.history.as_ref();
        let legs = history.map_or(Legs::default(), |history| history.legs);
        let ledger = history.map_or(Ledger::default(), |history| Ledger::in_doubt(&history.doubts));
        let state = State {
            started: Arc::new(started),
            now: Millis(0),
            uncounted_ms: 0,
            phase: Phase::Picking { call },
            stop_asked: None,
            told: Vec::new(),
            tier: Tier::Base,
            passes: Vec::new(),
            calls: Vec::new(),
            document: Document::default(),
            confidence: Confidence::Unknown,
            confidence_reason: "".into(),
            evidence: Vec::new(),
            actions: Vec::new(),
            ledger,
            totals: Totals::default(),
            granted_sub_calls: 0,
            echoes,
            last_main: None,
            citable: vec![EvidenceId::ITEM],
            known: BTreeSet::new(),
            fresh: false,
            escalated: None,
            tier_changes: Vec::new(),
            rerouted: false,
            mending: Vec::new(),
            attempts: Vec::new(),
            answer: None,
            partial: None,
            partial_pass: 0,
            compacted: Compacted::default(),
            stopped_in: StoppedIn::default(),
            trouble: Trouble::default(),
            doubts: BTreeMap::new(),
            legs: Legs::at_start(&spec).and(legs),
        };
        let mut run = Self { spec, state };
        let mut notes = Vec::new();
        let unpriced = run.unpriced_limit();
        let mut reached = gate::limits_reached(&run.spec.limits, &run.state.totals, 0);
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
        } else if !picks {
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

    fn reading(&self) -> Reading<'_> {
        Reading {
            spec: &self.spec,
            nonce: &self.state.started.nonce,
            echoes: &self.state.echoes,
            has_read_untrusted: self.state.legs.untrusted,
        }
    }

    fn out_of_order<T>(&self, event: &'static str) -> Result<T, Rejected> {
        Err(Rejected::OutOfOrder { event, phase: self.state.phase.name() })
    }

    fn not_open(&self, event: &'static str, key: &CommandKey, attempt: u32) -> Rejected {
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
