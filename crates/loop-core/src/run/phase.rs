//! Phases: what a run is doing, with the data that only then exists.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{Certificate, Condition};
use crate::reply::Proposal;
use crate::run::calls::Calls;
use crate::run::command::SubCallBudget;
use crate::run::event::Reserve;
use crate::run::inbox::Inbox;
use crate::run::outcome::{Outcome, StoppedIn};
use crate::spec::{Execution, RunSpec};
use crate::types::{CommandKey, Digest, EvidenceId, Millis, Observation, Slot, SubCallUse, Tier};

/// What a run is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// A model is called.
    Calling {
        /// The call.
        call: Call,
        /// What it is for.
        purpose: Purpose,
    },
    /// Tools run.
    Running {
        /// What runs, and what waits for a person after it.
        batch: Batch,
        /// Who asked for it.
        stage: Stage,
    },
    /// Actions wait for a person's consent.
    WaitingForPerson {
        /// Indices of the actions, in request order.
        asks: Vec<Ask>,
        /// Since when; the time does not count against the wall clock.
        since: Millis,
    },
    /// The output that an attempt came to is validated.
    Validating {
        /// Which validation.
        key: CommandKey,
        /// Which try, from 1.
        attempt: u32,
        /// The arguments of the output tool's call.
        output: Arc<str>,
    },
    /// The reason is fixed; what is in flight is cut off and settles.
    Stopping(Stopping),
    /// The outcome is being saved.
    Saving {
        /// What is saved.
        outcome: Box<Outcome>,
        /// Which try, from 1.
        attempt: u32,
        /// Not before this instant.
        not_before: Option<Millis>,
    },
    /// The end.
    Done {
        /// What there is.
        outcome: Box<Outcome>,
    },
}

/// What a call to a model is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Purpose {
    /// The auxiliary model selects tools before the first pass.
    Select,
    /// The main call of a pass.
    Main,
    /// The reply's contract block was missing or unreadable and is requested again, once.
    Repair {
        /// What the reply proposed so far.
        proposal: Box<Proposal>,
    },
    /// The final pass: the last call, without tools. It turns a stop by limit into a finished document or answer.
    Final {
        /// The limit that ends the run.
        cause: Condition,
    },
}

/// When tools run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Before the first pass: the selected tools.
    Gather,
    /// After a pass: its actions.
    Act,
}

/// A run whose reason to stop is fixed, while something of it is still in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stopping {
    /// The reason.
    pub certificate: Certificate,
    /// A call in flight.
    pub call: Option<Call>,
    /// Tools in flight.
    pub batch: Option<Batch>,
    /// Since when.
    pub since: Millis,
    /// What the run was doing when the reason was fixed.
    pub stopped_in: StoppedIn,
}

impl Stopping {
    /// What was granted to the call in flight, if an event names this try of it.
    pub(super) fn call_in_flight(&self, key: &CommandKey, attempt: u32) -> Option<StartedCall> {
        self.call.as_ref().and_then(|call| call.in_flight(key, attempt))
    }

    /// The place of the tool in flight, if an event names this try of it.
    pub(super) fn tool_in_flight(&self, key: &CommandKey, attempt: u32) -> Option<usize> {
        self.batch.as_ref().and_then(|batch| batch.in_flight(key, attempt))
    }

    /// Whether anything is in flight that has to settle.
    pub(super) fn is_in_flight(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.started.is_some())
            || self.batch.as_ref().is_some_and(Batch::is_in_flight)
    }
}

impl Purpose {
    /// The name of the phase in which a call is made for this.
    pub(super) fn phase_name(&self) -> &'static str {
        match self {
            Self::Select => "selection",
            Self::Main => "calling",
            Self::Repair { .. } => "repairing",
            Self::Final { .. } => "final_pass",
        }
    }

    /// The limit that makes it the last call.
    pub(super) fn final_cause(&self) -> Option<&Condition> {
        if let Self::Final { cause } = self { Some(cause) } else { None }
    }
}

impl Stage {
    /// The name of the phase in which tools run at this stage.
    pub(super) fn phase_name(self) -> &'static str {
        match self {
            Self::Gather => "gathering",
            Self::Act => "acting",
        }
    }
}

impl Phase {
    /// The phase in which every run begins.
    pub(super) fn first() -> Self {
        let call = Call::commanded(CommandKey::new(0, Slot::Select), Tier::Selector);
        Self::calling(call, Purpose::Select)
    }

    /// A model is called for this purpose.
    pub(super) fn calling(call: Call, purpose: Purpose) -> Self {
        Self::Calling { call, purpose }
    }

    /// The tools of this stage run.
    pub(super) fn running(batch: Batch, stage: Stage) -> Self {
        Self::Running { batch, stage }
    }

    /// A person is asked, since this instant.
    pub(super) fn waiting(asks: Vec<Ask>, since: Millis) -> Self {
        Self::WaitingForPerson { asks, since }
    }

    /// The outcome is saved, in this try, not before this instant.
    pub(super) fn saving(outcome: Box<Outcome>, attempt: u32, not_before: Option<Millis>) -> Self {
        Self::Saving { outcome, attempt, not_before }
    }

    /// The end.
    pub(super) fn done(outcome: Box<Outcome>) -> Self {
        Self::Done { outcome }
    }

    /// Whether it is the end.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// The phase as it is written, for example `waiting_for_person`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Calling { purpose, .. } => purpose.phase_name(),
            Self::Running { stage, .. } => stage.phase_name(),
            Self::WaitingForPerson { .. } => "waiting_for_person",
            Self::Validating { .. } => "validating",
            Self::Stopping(_) => "stopping",
            Self::Saving { .. } => "saving",
            Self::Done { .. } => "done",
        }
    }

    /// The limit that makes the call of the phase the last one.
    pub fn final_cause(&self) -> Option<&Condition> {
        if let Self::Calling { purpose, .. } = self { purpose.final_cause() } else { None }
    }

    /// The call that this phase commands or has in flight.
    pub(super) fn call(&self) -> Option<&Call> {
        match self {
            Self::Calling { call, .. } => Some(call),
            Self::Stopping(stopping) => stopping.call.as_ref(),
            _ => None,
        }
    }

    /// The tools that this phase runs.
    pub(super) fn batch(&self) -> Option<&Batch> {
        match self {
            Self::Running { batch, .. } => Some(batch),
            Self::Stopping(stopping) => stopping.batch.as_ref(),
            _ => None,
        }
    }

    /// What a person is asked.
    pub(super) fn asks(&self) -> &[Ask] {
        if let Self::WaitingForPerson { asks, .. } = self { asks } else { &[] }
    }

    /// What a person will be asked, once what runs has settled.
    pub(super) fn asks_later(&self) -> &[u32] {
        if let Self::Running { batch, .. } = self { &batch.asks } else { &[] }
    }

    /// What there is at the end: from `Saving` on.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Saving { outcome, .. } | Self::Done { outcome } => Some(outcome),
            _ => None,
        }
    }

    /// Since when the run waits for a person, if it does.
    pub(super) fn waiting_since(&self) -> Option<Millis> {
        if let Self::WaitingForPerson { since, .. } = self { Some(*since) } else { None }
    }

    /// Whether the wall clock counts and a stop is still open.
    pub(super) fn is_working(&self) -> bool {
        match self {
            Self::Calling { .. }
            | Self::Running { .. }
            | Self::WaitingForPerson { .. }
            | Self::Validating { .. } => true,
            Self::Stopping(_) | Self::Saving { .. } | Self::Done { .. } => false,
        }
    }

    /// Whether a stop at the next gate has to wait for what this phase does.
    pub(super) fn holds_back_a_stop(&self) -> bool {
        match self {
            Self::Calling { call, .. } => call.started.is_some(),
            Self::Running { batch, .. } => batch.is_in_flight(),
            Self::WaitingForPerson { .. } => false,
            Self::Validating { .. } => true,
            Self::Stopping(_) | Self::Saving { .. } | Self::Done { .. } => true,
        }
    }

    /// Whether a pass that could read an instruction is still to come.
    pub(super) fn takes_instruction(&self) -> bool {
        match self {
            // What the last call was tried with, it is tried with again.
            Self::Calling { call, purpose: Purpose::Final { .. } } => {
                call.started.is_none() && call.attempt <= 1
            }
            phase => phase.is_working(),
        }
    }
}

/// A model call: commanded, or in flight once it is started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Call {
    /// The call's key.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// The tier that is due.
    pub tier: Tier,
    /// How many tries were made on other tiers before this one.
    pub elsewhere: u32,
    /// How many tries on this tier ended with the program. They do not count as failures.
    pub lost: u32,
    /// The earliest instant of the try, since the start of the run. `None`: at once.
    pub not_before: Option<Millis>,
    /// The message of the failure before this try. `None`: it is the first.
    pub failed: Option<Arc<str>>,
    /// Ids of the sections that tries before this one returned before they broke off. They belong to this call's
    /// pass.
    pub kept: Vec<Arc<str>>,
    /// Whether the provider found the request too long, and its input was shortened for that.
    pub shortened: bool,
    /// What was granted. `None`: the call is not in flight.
    pub started: Option<StartedCall>,
}

impl Call {
    pub(super) fn commanded(key: CommandKey, tier: Tier) -> Self {
        Self {
            key,
            attempt: 1,
            tier,
            elsewhere: 0,
            lost: 0,
            not_before: None,
            failed: None,
            kept: Vec::new(),
            shortened: false,
            started: None,
        }
    }

    /// What was granted to it, if it is in flight and an event names this try of it.
    pub(super) fn in_flight(&self, key: &CommandKey, attempt: u32) -> Option<StartedCall> {
        self.started.filter(|_| self.key == *key && self.attempt == attempt)
    }

    /// Whether it waits for nothing but its announcement.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.started.is_none() && self.not_before.is_none_or(|at| at <= now)
    }

    /// Which try on its tier, from 1, those apart that ended with the program.
    pub(super) fn try_here(&self) -> u32 {
        self.attempt.saturating_sub(self.elsewhere).saturating_sub(self.lost)
    }
}

/// What a call in flight was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StartedCall {
    /// The granted tier.
    pub tier: Tier,
    /// Maximum output tokens.
    pub max_output_tokens: u64,
    /// Size of its prompt, in bytes.
    pub prompt_bytes: u64,
    /// What it reserves until it settles.
    pub reserve: Reserve,
}

/// Tools that run in parallel, in request order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Batch {
    /// The actions that run.
    pub work: Vec<Work>,
    /// Indices of the actions that wait for a person afterwards.
    pub asks: Vec<u32>,
}

/// One admitted action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Work {
    /// Its idempotency key: the key of the first time that the same call was requested.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// Its index in the run's list of actions.
    pub action: u32,
    /// The number that its result gets.
    pub evidence: EvidenceId,
    /// Its fingerprint in the ledger.
    pub signature: Digest,
    /// Whether it may be started: reads always, writes once they are announced.
    pub announced: bool,
    /// What its sub-call may spend. `None`: it makes none.
    pub sub_call: Option<SubCallBudget>,
    /// Its result. `None`: it has not settled.
    pub observation: Option<Observation>,
    /// When it is asked again. `None`: its tool has not answered that it is not ready.
    pub poll: Option<Box<Poll>>,
    /// How many tries ended with the program. They do not count as failures.
    pub lost: u32,
}

/// A tool that was not ready and is asked again, without a model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Poll {
    /// How many times it has been asked again, the next time included.
    pub times: u32,
    /// The earliest instant of the next time, since the start of the run.
    pub not_before: Millis,
    /// Its last answer.
    pub last: Observation,
}

impl Work {
    /// Whether it runs: started, or free to start at any moment, and not settled.
    pub(super) fn is_in_flight(&self) -> bool {
        self.announced && self.observation.is_none()
    }

    /// Whether it waits for the instant at which its tool is asked again.
    pub(super) fn waits(&self, now: Millis) -> bool {
        self.poll.as_ref().is_some_and(|poll| poll.not_before > now)
    }

    /// What is held to have been used by the sub-call of a try that nobody can ask any more.
    pub(super) fn lost_sub_call(&self) -> Option<SubCallUse> {
        let granted = self.sub_call.filter(|_| self.announced);
        granted.map(|_| SubCallUse::new(false, None))
    }
}

impl Batch {
    /// Whether anything in it runs.
    pub(super) fn is_in_flight(&self) -> bool {
        self.work.iter().any(Work::is_in_flight)
    }

    /// The place of the work in flight, if an event names this try of it.
    pub(super) fn in_flight(&self, key: &CommandKey, attempt: u32) -> Option<usize> {
        self.work.iter().position(|work| work.key == *key && work.attempt == attempt && work.is_in_flight())
    }

    /// Lets a piece of work start.
    pub(super) fn announce(&mut self, at: usize) {
        if let Some(work) = self.work.get_mut(at) {
            work.announced = true;
        }
    }

    /// Whether nothing more of it is started: a stop is asked for, or a tool has failed and that ends the run.
    pub(super) fn is_held(&self, inbox: &Inbox, spec: &RunSpec) -> bool {
        let setting = spec.gate.on_tool_error;
        let ends = |work: &Work| work.observation.as_ref().is_some_and(|it| setting.stops_at(it.status));
        inbox.stop_requested.is_some() || self.work.iter().any(ends)
    }

    /// The places of its open work whose turn has come. Where calls are native what changes something is done one at a
    /// time, and so is everything where an order is kept (C3).
    pub(super) fn in_turn<'a>(
        &'a self,
        calls: &'a Calls,
        spec: &'a RunSpec,
    ) -> impl Iterator<Item = (usize, &'a Work)> {
        let open = self.work.iter().enumerate().filter(|(_, work)| work.observation.is_none());
        let mut writes = 0;
        let turns = open.enumerate().filter(move |(nth, (_, work))| {
            let changes = spec.protocol.properties().one_write_at_a_time && !calls.is_read(work, spec);
            writes += u32::from(changes);
            match spec.protocol.execution() {
                Execution::Ordered | Execution::Single => *nth == 0,
                Execution::Parallel => !changes || writes == 1,
            }
        });
        turns.map(|(_, work)| work)
    }
}

/// An action that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    /// Its index in the run's list of actions.
    pub action: u32,
    /// When the time to answer ends, since the start of the run. No answer by then is a denial.
    pub deadline: Millis,
    /// Whether the person has answered.
    pub answered: bool,
    /// The answer to a question, until all are answered. `None`: not answered, or not a question.
    pub answer: Option<Arc<str>>,
}
