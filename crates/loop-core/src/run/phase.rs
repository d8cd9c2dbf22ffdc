//! Phases: what a run is doing, with the data that exists only in that phase.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{Certificate, Condition, StopReason};
use crate::reply::Proposal;
use crate::run::budget::Reserve;
use crate::run::calls::{Calls, Work};
use crate::run::check::{CheckSubject, Checking};
use crate::run::eager_read::EagerRead;
use crate::run::inbox::Inbox;
use crate::run::outcome::{Outcome, StoppedIn};
use crate::spec::{Execution, RunSpec};
use crate::types::{Approver, CommandKey, Millis, Slot, Tier};

/// What a run is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// A model call is commanded or in flight.
    Calling {
        /// The call.
        call: Call,
        /// The purpose of the call.
        purpose: Purpose,
    },
    /// Tools run.
    Running {
        /// The actions that run, and those that wait for an approver afterwards.
        batch: Batch,
        /// Before the first pass, or after one.
        stage: Stage,
    },
    /// Actions wait for an approval or an answer.
    WaitingForPerson {
        /// The actions, in request order.
        asks: Vec<Ask>,
        /// Since when, counted from the start of the run. The time does not count against the wall clock.
        since: Millis,
    },
    /// A document or an output is checked.
    Validating(Checking),
    /// The stop reason is fixed. What is in flight is cancelled and settles.
    Stopping(Stopping),
    /// The outcome is being saved.
    Saving {
        /// The outcome to save.
        outcome: Box<Outcome>,
        /// The try, from 1.
        attempt: u32,
        /// The earliest instant of the try, since the start of the run. `None`: at once.
        not_before: Option<Millis>,
    },
    /// The end.
    Done {
        /// The final outcome.
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

/// A run whose stop reason is fixed while a call or tools are still in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stopping {
    /// The reason.
    pub certificate: Certificate,
    /// The call in flight. `None`: there is none.
    pub call: Option<Call>,
    /// The tools in flight. `None`: there are none.
    pub batch: Option<Batch>,
    /// The check in flight that asks a model. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<Checking>>,
    /// When the reason was fixed, since the start of the run.
    pub since: Millis,
    /// What the run was doing when the reason was fixed.
    pub stopped_in: StoppedIn,
}

impl Stopping {
    /// The grant of the call in flight, if `key` and `attempt` name it.
    pub(super) fn call_in_flight(&self, key: &CommandKey, attempt: u32) -> Option<StartedCall> {
        self.call.as_ref().and_then(|call| call.in_flight(key, attempt))
    }

    /// The index of the tool in flight, if `key` and `attempt` name it.
    pub(super) fn tool_in_flight(&self, key: &CommandKey, attempt: u32) -> Option<usize> {
        self.batch.as_ref().and_then(|batch| batch.in_flight(key, attempt))
    }

    /// Whether anything is in flight that has to settle.
    pub(super) fn is_in_flight(&self) -> bool {
        self.check.is_some()
            || self.call.as_ref().is_some_and(|call| call.started.is_some())
            || self.batch.as_ref().is_some_and(Batch::is_in_flight)
    }
}

impl Purpose {
    /// The name of the phase of a call with this purpose.
    pub(super) fn phase_name(&self) -> &'static str {
        match self {
            Self::Select => "selection",
            Self::Main => "calling",
            Self::Repair { .. } => "repairing",
            Self::Final { .. } => "final_pass",
        }
    }

    /// The limit that makes it the last call, or made a call before it the last one of the document.
    pub(super) fn final_cause(&self) -> Option<&Condition> {
        match self {
            Self::Final { cause } => Some(cause),
            Self::Select | Self::Main | Self::Repair { .. } => None,
        }
    }
}

impl Stage {
    /// The name of the phase of tools at this stage.
    pub(super) fn phase_name(self) -> &'static str {
        match self {
            Self::Gather => "gathering",
            Self::Act => "acting",
        }
    }
}

impl Phase {
    /// The first phase of every run.
    pub(super) fn first() -> Self {
        let call = Call::commanded(CommandKey::new(0, Slot::Select), Tier::Selector);
        Self::Calling { call, purpose: Purpose::Select }
    }

    /// Whether it is the end.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// The phase's name in outcomes and messages, for example `waiting_for_person`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Calling { purpose, .. } => purpose.phase_name(),
            Self::Running { stage, .. } => stage.phase_name(),
            Self::WaitingForPerson { .. } => "waiting_for_person",
            Self::Validating(_) => "validating",
            Self::Stopping(_) => "stopping",
            Self::Saving { .. } => "saving",
            Self::Done { .. } => "done",
        }
    }

    /// The limit that makes the call of the phase the last one.
    pub fn final_cause(&self) -> Option<&Condition> {
        match self {
            Self::Calling { purpose, .. } => purpose.final_cause(),
            Self::Validating(Checking { about: CheckSubject::Document { cause, .. }, .. }) => cause.as_ref(),
            _ => None,
        }
    }

    /// Whether the final pass comes next, because a limit leaves no other call.
    pub(super) fn ends_by_limit(&self) -> bool {
        let Self::Calling { call, purpose: Purpose::Final { cause } } = self else { return false };
        let is_limit = matches!(
            cause.reason,
            StopReason::MaxPasses
                | StopReason::MaxModelCalls
                | StopReason::BudgetExceeded
                | StopReason::SharedBudgetExceeded
                | StopReason::TokenLimit
                | StopReason::Timeout
        );
        is_limit && call.started.is_none() && call.attempt == 1
    }

    /// The call that this phase commands or has in flight.
    pub(super) fn call(&self) -> Option<&Call> {
        match self {
            Self::Calling { call, .. } => Some(call),
            Self::Stopping(stopping) => stopping.call.as_ref(),
            _ => None,
        }
    }

    /// The check that this phase commands or has in flight.
    pub(super) fn check(&self) -> Option<&Checking> {
        match self {
            Self::Validating(checking) => Some(checking),
            Self::Stopping(stopping) => stopping.check.as_deref(),
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

    /// The actions that a person is asked about now.
    pub(super) fn asks(&self) -> &[Ask] {
        if let Self::WaitingForPerson { asks, .. } = self { asks } else { &[] }
    }

    /// Indices of the actions that a person is asked about once the batch has settled.
    pub(super) fn asks_later(&self) -> &[u32] {
        if let Self::Running { batch, .. } = self { &batch.asks } else { &[] }
    }

    /// The outcome, from `Saving` on.
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Saving { outcome, .. } | Self::Done { outcome } => Some(outcome),
            _ => None,
        }
    }

    /// Since when the run waits for a person, or for nothing but runs that do. `None`: it does not.
    pub(super) fn waiting_since(&self) -> Option<Millis> {
        match self {
            Self::WaitingForPerson { since, .. } => Some(*since),
            Self::Running { batch, .. } => batch.waiting_since(),
            _ => None,
        }
    }

    /// Whether the wall clock counts and the run can still be stopped.
    pub(super) fn is_working(&self) -> bool {
        match self {
            Self::Calling { .. }
            | Self::Running { .. }
            | Self::WaitingForPerson { .. }
            | Self::Validating(_) => true,
            Self::Stopping(_) | Self::Saving { .. } | Self::Done { .. } => false,
        }
    }

    /// Whether a stop at the next gate has to wait until this phase settles.
    pub(super) fn holds_back_a_stop(&self) -> bool {
        match self {
            Self::Calling { call, .. } => call.started.is_some(),
            Self::Running { batch, .. } => batch.is_in_flight(),
            Self::WaitingForPerson { .. } => false,
            Self::Validating(checking) => checking.announced,
            Self::Stopping(_) | Self::Saving { .. } | Self::Done { .. } => true,
        }
    }

    /// Whether a pass that could read an instruction is still to come.
    pub(super) fn takes_instruction(&self) -> bool {
        match self {
            // A retry of the last call uses the prompt of the first try.
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
    /// The first calls of the reply, if they started before the reply is complete. Empty unless the call is in flight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eager: Vec<EagerRead>,
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
            eager: Vec::new(),
        }
    }

    /// The grant, if the call is in flight and `key` and `attempt` name it.
    pub(super) fn in_flight(&self, key: &CommandKey, attempt: u32) -> Option<StartedCall> {
        self.started.filter(|_| self.key == *key && self.attempt == attempt)
    }

    /// Whether it may be announced at `now`.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.started.is_none() && self.not_before.is_none_or(|at| at <= now)
    }

    /// The number of the try on its tier, from 1. Tries that were lost with their driver do not count.
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

impl Batch {
    /// Whether anything in it runs.
    pub(super) fn is_in_flight(&self) -> bool {
        self.work.iter().any(Work::is_in_flight)
    }

    /// Since when everything in it that is open is a run that waits for people. `None`: something else is open, or nothing.
    pub(super) fn waiting_since(&self) -> Option<Millis> {
        let open = self.work.iter().filter(|work| work.observation.is_none());
        let since = open.map(|work| work.waiting.as_ref().map(|waiting| waiting.since));
        since.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The index of the work in flight, if `key` and `attempt` name it.
    pub(super) fn in_flight(&self, key: &CommandKey, attempt: u32) -> Option<usize> {
        let is_it = |work: &Work| work.key == *key && work.attempt == attempt;
        self.work.iter().position(|work| is_it(work) && work.is_in_flight())
    }

    /// The index of the run in flight that was called as a tool, if `key` and `attempt` name it.
    pub(super) fn leased_in_flight(&self, key: &CommandKey, attempt: u32) -> Option<usize> {
        let at = self.in_flight(key, attempt)?;
        self.work.get(at).is_some_and(|work| work.lease.is_some()).then_some(at)
    }

    /// Marks a piece of work as announced, so that it may start.
    pub(super) fn announce(&mut self, at: usize) {
        if let Some(work) = self.work.get_mut(at) {
            work.announced = true;
        }
    }

    /// Whether no more of its work is started: a stop is requested, or a failed tool ends the run.
    pub(super) fn is_held(&self, inbox: &Inbox, spec: &RunSpec) -> bool {
        let setting = spec.gate.on_tool_error;
        let ends = |work: &Work| work.observation.as_ref().is_some_and(|it| setting.stops_at(it.status));
        inbox.stop_requested.is_some() || self.work.iter().any(ends)
    }

    /// The open work that may run now, with its indices. With native calls only one write runs at a time. With ordered
    /// or single execution only one call does.
    pub(super) fn in_turn<'a>(
        &'a self,
        calls: &'a Calls,
        spec: &'a RunSpec,
    ) -> impl Iterator<Item = (usize, &'a Work)> {
        // A run that waits for people holds no other call back.
        let is_open = |work: &Work| work.observation.is_none() && work.waiting.is_none();
        let open = self.work.iter().enumerate().filter(move |(_, work)| is_open(work));
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
    /// When the time to answer ends, since the start of the run. No answer by then is a denial. `None`: it does not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// Whether the person has answered.
    pub answered: bool,
    /// The answer to a question, until all are answered. `None`: not answered, or not a question.
    pub answer: Option<Arc<str>>,
    /// Who has approved it so far. Empty: no known person has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Approver>,
}

impl Ask {
    /// Whether the time to answer is over at this instant.
    pub(crate) fn is_over(&self, now: Millis) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}
