//! What a request from outside comes to in a run: an event, something that is kept, or a refusal with its reason.

use std::collections::{BTreeMap, VecDeque};

use loop_core::run::{AnswerFault, PersonAnswer, Phase, SaveResult};
use loop_core::types::{Approver, CommandKey, Digest, Millis};
use loop_core::{EventKind, Rejected, Run};

use crate::watch::events::{Answer, Approval, Control};

/// Answers and approvals of actions that a person is asked about later, in the order in which they came.
pub(crate) type EarlyAnswers = BTreeMap<CommandKey, VecDeque<PersonReply>>;

/// How much of what is said about an action is kept until it is asked about. What comes after that is refused, so that
/// people and programs that go on saying something fill no memory.
const KEPT_OF_ACTION: usize = 64;

/// What a person says about one action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PersonReply {
    /// An answer. The binding is what the person saw, if they said so.
    Answer(PersonAnswer, Option<Digest>),
    /// An approval of a known person.
    Approval(Approver, Digest),
}

/// What a request from outside comes to.
#[derive(Debug)]
pub(crate) enum Handled {
    /// An event of the run.
    Event(EventKind),
    /// The run asks later, and then it counts.
    Kept,
    /// It changes nothing.
    Refused(RefusedRequest),
}

/// Why a request changes nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefusedRequest {
    #[error("the run has stopped")]
    Over,
    #[error("the run was not asked to stop")]
    NothingToWithdraw,
    #[error(transparent)]
    Answer(#[from] AnswerFault),
    #[error(transparent)]
    Instruction(#[from] Rejected),
    #[error("it is for another process")]
    Elsewhere,
}

impl Handled {
    /// The event. `None`: the request is kept, or changes nothing.
    pub(crate) fn event(self) -> Option<EventKind> {
        match self {
            Self::Event(kind) => Some(kind),
            Self::Kept | Self::Refused(_) => None,
        }
    }
}

/// What a request from outside comes to.
pub(crate) fn received(run: &Run, now: Millis, early: &mut EarlyAnswers, control: Control) -> Handled {
    let over = matches!(run.phase(), Phase::Stopping { .. } | Phase::Saving { .. } | Phase::Done { .. });
    let event = match control {
        Control::Stop(_) if let Phase::Saving { attempt, .. } = run.phase() => {
            let result = SaveResult::Failed { message: STOPPED.into(), retry_at: None };
            Ok(EventKind::SaveFinished { attempt: *attempt, result })
        }
        Control::Stop(_) | Control::WithdrawStop if over => Err(RefusedRequest::Over),
        Control::Stop(how) => Ok(EventKind::StopRequested { how }),
        Control::WithdrawStop if run.is_stop_requested() => Ok(EventKind::StopWithdrawn),
        Control::WithdrawStop => Err(RefusedRequest::NothingToWithdraw),
        Control::Answer(answer) => {
            let Answer { key, answer, binding } = *answer;
            return said(run, now, early, key, PersonReply::Answer(answer, binding));
        }
        Control::Approve(approval) => {
            let Approval { key, by, binding } = *approval;
            return said(run, now, early, key, PersonReply::Approval(by, binding));
        }
        Control::Tell(text) => match run.takes_instruction(&text) {
            Ok(()) => Ok(EventKind::Instruction { text }),
            Err(rejected) => Err(rejected.into()),
        },
        // What is asked at another server is for the driver that reads it there.
        Control::Remote(_) => Err(RefusedRequest::Elsewhere),
    };
    event.map_or_else(Handled::Refused, Handled::Event)
}

/// The event of what was said about this action before a person was asked about it. `None`: nothing of it counts.
pub(crate) fn said_before(
    run: &Run,
    now: Millis,
    early: &mut EarlyAnswers,
    key: CommandKey,
) -> Option<EventKind> {
    while let Some(before) = early.get_mut(&key)?.pop_front() {
        if let Ok(kind) = event_of(run, now, key, before) {
            return Some(kind);
        }
    }
    early.remove(&key);
    None
}

fn said(run: &Run, now: Millis, early: &mut EarlyAnswers, key: CommandKey, said: PersonReply) -> Handled {
    match event_of(run, now, key, said) {
        Ok(kind) => Handled::Event(kind),
        Err((AnswerFault::NotYet, said)) => {
            let kept = early.entry(key).or_default();
            if !kept.contains(&said) {
                if kept.len() == KEPT_OF_ACTION {
                    return Handled::Refused(AnswerFault::NotYet.into());
                }
                kept.push_back(said);
            }
            Handled::Kept
        }
        Err((fault, _)) => Handled::Refused(fault.into()),
    }
}

/// The event of what a person says. Else why it does not count, and what was said.
fn event_of(
    run: &Run,
    now: Millis,
    key: CommandKey,
    said: PersonReply,
) -> Result<EventKind, (AnswerFault, PersonReply)> {
    match said {
        PersonReply::Answer(answer, binding) => match run.may_answer(now, &key, &answer, binding.as_ref()) {
            Ok(()) => Ok(EventKind::PersonAnswered { key, answer, binding }),
            Err(fault) => Err((fault, PersonReply::Answer(answer, binding))),
        },
        PersonReply::Approval(by, binding) => match run.may_approve(now, &key, &by, Some(&binding)) {
            Ok(()) => Ok(EventKind::ApprovedBy { key, by, binding: Some(binding) }),
            Err(fault) => Err((fault, PersonReply::Approval(by, binding))),
        },
    }
}

/// The reason of an outcome whose saving was stopped by hand.
pub(crate) const STOPPED: &str = "stopped before it was saved";
