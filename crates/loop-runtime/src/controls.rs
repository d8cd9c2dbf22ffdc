//! What a request from outside comes to in a run: the event that it is, or nothing.

use std::collections::BTreeMap;

use loop_core::{AnswerFault, CommandKey, Digest, EventKind, Millis, PersonAnswer, Phase, Run, SaveResult};

use crate::events::{Answer, Approval, Control};

/// Answers to questions that are not open yet.
pub(crate) type EarlyAnswers = BTreeMap<CommandKey, (PersonAnswer, Option<Digest>)>;

/// The event of a request from outside. `None`: it comes too late, or the question is not open yet and the answer is kept.
pub(crate) fn kind_of(
    run: &Run,
    now: Millis,
    early: &mut EarlyAnswers,
    control: Control,
) -> Option<EventKind> {
    let over = matches!(run.phase(), Phase::Stopping { .. } | Phase::Saving { .. } | Phase::Done { .. });
    match control {
        Control::Stop(_) if let Phase::Saving { attempt, .. } = run.phase() => {
            let result = SaveResult::Failed { message: STOPPED.into(), retry_at: None };
            Some(EventKind::SaveFinished { attempt: *attempt, result })
        }
        Control::Stop(_) | Control::WithdrawStop if over => None,
        Control::Stop(how) => Some(EventKind::StopRequested { how }),
        Control::WithdrawStop => run.is_stop_requested().then_some(EventKind::StopWithdrawn),
        Control::Answer(answer) => answered(run, now, early, *answer),
        Control::Approve(approval) => {
            let Approval { key, by, binding } = *approval;
            let may = run.may_approve(now, &key, &by, Some(&binding));
            may.is_ok().then_some(EventKind::ApprovedBy { key, by, binding: Some(binding) })
        }
        Control::Tell(text) => {
            run.takes_instruction(&text).is_ok().then_some(EventKind::Instruction { text })
        }
        // What is asked at another server is for the driver that reads it there.
        Control::Remote(_) => None,
    }
}

/// The event of an answer that was given before its question was open. `None`: there is none, or it does not count.
pub(crate) fn answered_before(
    run: &Run,
    now: Millis,
    early: &mut EarlyAnswers,
    key: CommandKey,
) -> Option<EventKind> {
    let (answer, binding) = early.remove(&key)?;
    answered(run, now, early, Answer { key, answer, binding })
}

/// The event of an answer: none where it does not count, or not yet.
fn answered(run: &Run, now: Millis, early: &mut EarlyAnswers, given: Answer) -> Option<EventKind> {
    let Answer { key, answer, binding } = given;
    match run.may_answer(now, &key, &answer, binding.as_ref()) {
        Ok(()) => Some(EventKind::PersonAnswered { key, answer, binding }),
        Err(AnswerFault::NotYet) => {
            early.insert(key, (answer, binding));
            None
        }
        Err(_) => None,
    }
}

/// The reason of an outcome whose saving was stopped by hand.
pub(crate) const STOPPED: &str = "stopped before it was saved";
