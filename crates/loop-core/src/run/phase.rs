//! Phases: what a run is doing, with the data that only then exists.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{Certificate, Condition};
use crate::reply::Proposal;
use crate::run::command::SubCallBudget;
use crate::run::event::Reserve;
use crate::run::outcome::{Outcome, StoppedIn};
use crate::types::{CommandKey, Digest, EvidenceId, Millis, Observation, SubCallUse, Tier};

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
    Stopping {
        /// The reason.
        certificate: Certificate,
        /// A call in flight.
        call: Option<Call>,
        /// Tools in flight.
        batch: Option<Batch>,
        /// Since when.
        since: Millis,
        /// What the run was doing when the reason was fixed.
        stopped_in: StoppedIn,
    },
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

impl Phase {
    /// The phase as it is written, for example `waiting_for_person`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Calling { purpose: Purpose::Select, .. } => "selection",
            Self::Calling { purpose: Purpose::Main, .. } => "calling",
            Self::Calling { purpose: Purpose::Repair { .. }, .. } => "repairing",
            Self::Calling { purpose: Purpose::Final { .. }, .. } => "final_pass",
            Self::Running { stage: Stage::Gather, .. } => "gathering",
            Self::Running { stage: Stage::Act, .. } => "acting",
            Self::WaitingForPerson { .. } => "waiting_for_person",
            Self::Validating { .. } => "validating",
            Self::Stopping { .. } => "stopping",
            Self::Saving { .. } => "saving",
            Self::Done { .. } => "done",
        }
    }

    /// What the call of the phase is for; nothing where none is wanted, and while the run stops.
    pub(super) fn purpose(&self) -> Option<&Purpose> {
        if let Self::Calling { purpose, .. } = self { Some(purpose) } else { None }
    }

    /// The limit that makes the call of the phase the last one.
    pub fn final_cause(&self) -> Option<&Condition> {
        if let Some(Purpose::Final { cause }) = self.purpose() { Some(cause) } else { None }
    }

    /// The call of the phase where it is a main call that is not the last one.
    pub(super) fn main_call(&self) -> Option<&Call> {
        if let Self::Calling { call, purpose: Purpose::Main } = self { Some(call) } else { None }
    }

    /// The call that this phase commands or has in flight.
    pub(super) fn call(&self) -> Option<&Call> {
        match self {
            Self::Calling { call, .. } => Some(call),
            Self::Stopping { call, .. } => call.as_ref(),
            _ => None,
        }
    }

    pub(super) fn call_mut(&mut self) -> Option<&mut Call> {
        match self {
            Self::Calling { call, .. } => Some(call),
            Self::Stopping { call, .. } => call.as_mut(),
            _ => None,
        }
    }

    /// The tools that this phase runs.
    pub(super) fn batch(&self) -> Option<&Batch> {
        match self {
            Self::Running { batch, .. } => Some(batch),
            Self::Stopping { batch, .. } => batch.as_ref(),
            _ => None,
        }
    }

    pub(super) fn batch_mut(&mut self) -> Option<&mut Batch> {
        match self {
            Self::Running { batch, .. } => Some(batch),
            Self::Stopping { batch, .. } => batch.as_mut(),
            _ => None,
        }
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

    /// Whether anything is in flight that has to settle.
    pub(super) fn is_in_flight(&self) -> bool {
        self.call().is_some_and(|call| call.started.is_some())
            || self.batch().is_some_and(Batch::is_in_flight)
    }

    /// Whether the wall clock counts and a stop is still open.
    pub(super) fn is_working(&self) -> bool {
        match self {
            Self::Calling { .. }
            | Self::Running { .. }
            | Self::WaitingForPerson { .. }
            | Self::Validating { .. } => true,
            Self::Stopping { .. } | Self::Saving { .. } | Self::Done { .. } => false,
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
