//! Invariants of runs with native calls.

use loop_core::run::{AttemptState, Phase, Purpose, Stage, Stopping, Work};
use loop_core::spec::Execution;
use loop_core::types::{Slot, Status};
use loop_core::{Run, Verdict};

/// Checks what is true in every state of a run with native calls.
pub fn is_sound(run: &Run) -> Result<(), String> {
    if !run.spec().protocol.properties().native_calls {
        return Ok(());
    }
    every_call_has_its_result(run)?;
    turns_are_kept(run)?;
    turns_can_be_sent(run)?;
    messages_are_few_enough(run)?;
    attempts_follow_each_other(run)
}

fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// I-5, S1-25: calls are stored pass by pass, in order, each once. Before the next model call, each has its result.
fn every_call_has_its_result(run: &Run) -> Result<(), String> {
    let mut expected = (0, 0);
    for action in run.actions() {
        let Slot::Action(n) = action.key.slot else { return Err(format!("{} is not a call", action.key)) };
        let next = if action.key.pass == expected.0 { expected } else { (action.key.pass, 0) };
        must((action.key.pass, n) == next && action.key.pass >= expected.0, || {
            format!("{} follows {expected:?}", action.key)
        })?;
        expected = (action.key.pass, n + 1);
    }
    must(expected.0 as usize <= run.passes().len(), || format!("a call of pass {}, not read", expected.0))?;
    if matches!(
        run.phase(),
        Phase::Running { stage: Stage::Act, .. } | Phase::WaitingForPerson { .. } | Phase::Stopping { .. }
    ) {
        return Ok(());
    }
    for action in run.actions() {
        let observed =
            action.evidence.is_some_and(|id| run.evidence().iter().any(|evidence| evidence.id == id));
        let settled = match action.verdict {
            Verdict::Run => observed,
            Verdict::Denied { .. } => observed || action.evidence.is_none(),
            Verdict::Kept
            | Verdict::UnknownTool { .. }
            | Verdict::InvalidArguments { .. }
            | Verdict::Duplicate { .. }
            | Verdict::Skipped
            | Verdict::NeedsPerson { .. }
            | Verdict::OverLimit { .. }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. } => action.evidence.is_none(),
        };
        must(settled, || format!("{} has no result while {}", action.key, run.phase().name()))?;
    }
    Ok(())
}

/// C3, S1-25: in order means one at a time. In parallel means that a call with an effect runs alone.
fn turns_are_kept(run: &Run) -> Result<(), String> {
    let (Phase::Running { batch, stage: Stage::Act } | Phase::Stopping(Stopping { batch: Some(batch), .. })) =
        run.phase()
    else {
        return Ok(());
    };
    let is_read = |work: &Work| {
        let action = run.actions().get(work.action as usize);
        let tool = action.and_then(|action| run.spec().tool(action.tool_name()));
        tool.is_some_and(|tool| tool.effect.is_read())
    };
    let ran = |work: &Work| {
        work.observation.as_ref().is_some_and(|observation| {
            use Status::{Cancelled, Denied, Duplicate, InDoubt};
            !matches!(observation.status, Denied | Duplicate | Cancelled | InDoubt)
        })
    };
    // A run that was called and has waited for people holds no other call back, also once it is driven again.
    let open = |work: &&Work| work.observation.is_none() && work.lease.is_none();
    let in_flight: Vec<&Work> = batch.work.iter().filter(open).filter(|work| work.announced).collect();
    match run.spec().protocol.execution() {
        Execution::Ordered | Execution::Single => {
            must(in_flight.len() <= 1, || format!("{} calls at once", in_flight.len()))?;
            let waiting = batch.work.iter().position(|work| open(&work));
            let early = waiting.and_then(|at| batch.work.get(at + 1..)).unwrap_or_default();
            must(!early.iter().any(|work| work.announced || ran(work)), || "a call came early".to_owned())
        }
        Execution::Parallel => {
            let writes = in_flight.iter().filter(|work| !is_read(work)).count();
            must(writes <= 1, || format!("{writes} writes at once"))
        }
    }
}

/// I-16: the messages to a provider have one turn of the model for each pass, in order and not empty, and each result
/// belongs to an earlier call.
fn turns_can_be_sent(run: &Run) -> Result<(), String> {
    let requested_in = |pass: u32| run.actions().iter().filter(move |action| action.key.pass == pass);
    for (n, pass) in (1..).zip(run.passes()) {
        must(pass.pass == n, || format!("pass {} stands at place {n}", pass.pass))?;
        let requested = requested_in(n).count();
        let is_seen = u32::try_from(run.actions().len()).is_ok_and(|all| pass.actions_seen <= all);
        must(is_seen, || format!("pass {n} saw {} actions", pass.actions_seen))?;
        // Another call is made: then what the model said is a turn, and no turn is empty.
        let is_sent = matches!(
            run.phase(),
            Phase::Calling { purpose: Purpose::Main, .. }
                | Phase::Calling { purpose: Purpose::Final { .. }, .. }
        );
        let is_empty = pass.reply.trim().is_empty() && requested == 0;
        must(!is_sent || !is_empty, || format!("pass {n} is an empty turn"))?;
    }
    let orphan = run.evidence().iter().find(|evidence| {
        let of = run.actions().iter().filter(|action| action.evidence == Some(evidence.id));
        of.count() != 1 || evidence.pass as usize > run.passes().len()
    });
    must(orphan.is_none(), || format!("{orphan:?} belongs to no call"))
}

/// S1-39: no call is made with more messages than allowed.
fn messages_are_few_enough(run: &Run) -> Result<(), String> {
    let calls = matches!(
        run.phase(),
        Phase::Calling { purpose: Purpose::Main, .. } | Phase::Calling { purpose: Purpose::Final { .. }, .. }
    );
    let limit = run.spec().limits.messages.unwrap_or(u32::MAX);
    must(!calls || run.messages() <= limit, || format!("{} messages of {limit}", run.messages()))
}

/// S2-14, S2-18: attempts follow each other, each ends once, and the next begins after it.
fn attempts_follow_each_other(run: &Run) -> Result<(), String> {
    let attempts = run.attempts();
    let Some(output) = run.spec().protocol.output() else {
        return must(attempts.is_empty(), || "attempts at no output".to_owned());
    };
    must(attempts.len() <= output.attempts.max(1) as usize, || format!("{} attempts", attempts.len()))?;
    let read = run.passes().len() as u32;
    for (n, attempt) in attempts.iter().enumerate() {
        let next = attempts.get(n + 1);
        let ends = next.map_or(read + 1, |next| next.from_pass);
        let passes = ends.saturating_sub(attempt.from_pass);
        must(attempt.from_pass <= ends, || format!("attempt {} begins after the next", n + 1))?;
        must(passes <= output.passes_per_attempt.max(1), || format!("{passes} passes in one attempt"))?;
        let is_rejected = matches!(attempt.state, AttemptState::Rejected(_));
        must(is_rejected || next.is_none(), || format!("attempt {} has not ended", n + 1))?;
        let ended = !matches!(attempt.state, AttemptState::Open);
        // One that was taken back after it was submitted ends the run, where there is no other.
        let is_taken_back = attempt.state == AttemptState::Ends && run.outcome().is_some();
        must(!ended || attempt.output.is_some() || is_taken_back, || {
            format!("attempt {} ended without an output", n + 1)
        })?;
    }
    let valid = attempts.iter().filter(|attempt| attempt.state == AttemptState::Valid).count();
    must(valid <= 1, || "two valid outputs".to_owned())?;
    if let Some(outcome) = run.outcome() {
        let reported = outcome.output.as_ref().is_some_and(|output| output.valid);
        must(reported == (valid == 1), || "the outcome says otherwise of the output".to_owned())?;
    }
    Ok(())
}
