//! Draws the next event of a hostile simulation: the result of a command, or something unexpected.

use loop_core::run::{
    CallModel, Check, CheckResult, PersonAnswer, Phase, PromptSize, Refusal, RunTool, SaveResult, StopMode,
};
use loop_core::types::{Approver, CommandKey, Digest, Millis, PicoUsd, Slot};
use loop_core::{Command, Event, EventKind, Quote, Run};

use crate::sim::{Choices, replies};
use crate::{broken, rejected};

/// The next event and its instant. `now` is the clock of the world, which this may move.
pub(crate) fn next(choices: &mut Choices, run: &Run, log: &[Event], now: &mut u64) -> Event {
    let commands = run.commands();
    let what = if choices.is_calm() { 0 } else { choices.below(100) };
    let kind = match what {
        0..=75 => None,
        76..=80 => {
            *now += choices.of(&[10, 1_000, 10_000, 10, 1_000, 70_000]).copied().unwrap_or_default();
            None
        }
        81 => Some(past_deadline(choices, run, now)),
        82 => Some(EventKind::StopRequested {
            how: if choices.one_in(2) { StopMode::AtGate } else { StopMode::Now },
        }),
        83..=84 => Some(EventKind::StopWithdrawn),
        85..=87 => {
            let away_ms = [0, 500, 40_000].get(choices.below(3) as usize).copied().unwrap_or_default();
            *now += away_ms;
            Some(EventKind::Resumed { away_ms, by: None })
        }
        88..=89 => Some(EventKind::Instruction { text: replies::words(choices) }),
        _ => return stray(choices, run, log, *now),
    };
    let kind = kind.unwrap_or_else(|| {
        let at = choices.below(commands.len() as u32) as usize;
        match commands.get(at) {
            Some(command) => follow(choices, run, command, now),
            None => past_deadline(choices, run, now),
        }
    });
    Event { at: Millis(*now), kind }
}

/// Moves the clock to the run's deadline and a bit beyond it.
fn past_deadline(choices: &mut Choices, run: &Run, now: &mut u64) -> EventKind {
    if let Some(due) = run.deadline() {
        *now = due.0.max(*now) + u64::from(choices.below(2)) * 3;
    }
    EventKind::DeadlineReached
}

fn follow(choices: &mut Choices, run: &Run, command: &Command, now: &mut u64) -> EventKind {
    match command {
        Command::CallModel(call @ CallModel { granted: None, .. }) => announce(choices, run, call),
        Command::CallModel(call) => {
            let early = run.spec().starts_reads_early() && choices.one_in(4);
            if let Some(kind) = early.then(|| eager(choices, run, call, *now)).flatten() {
                return kind;
            }
            *now += choices.of(&[20, 900, 20, 4_000]).copied().unwrap_or_default();
            settle(choices, run, call, *now)
        }
        Command::RunTool(RunTool { key, attempt, announced: false, .. }) => {
            EventKind::ToolStarted { key: *key, attempt: *attempt }
        }
        Command::RunTool(tool) => {
            *now += choices.of(&[5, 300, 5, 900, 12_000]).copied().unwrap_or_default();
            let observation = replies::observation(choices, tool.sub_call.is_some()).into();
            EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation }
        }
        Command::Check(Check { key, attempt, announced: false, .. }) => {
            EventKind::CheckStarted { key: *key, attempt: *attempt }
        }
        Command::Check(check) => {
            *now += choices.of(&[5, 900, 5, 30_000]).copied().unwrap_or_default();
            checked(choices, check.key, check.attempt, check.sub_call.is_some())
        }
        Command::AskPerson { key, action, deadline } => {
            let is_question = run.spec().tool(&action.tool).is_some_and(|tool| tool.policy.asks_person);
            *now += [40, 2_000].get(choices.below(2) as usize).copied().unwrap_or_default();
            // An answer that comes too late: now and then it is reported all the same.
            let is_late = choices.one_in(12);
            if is_late {
                *now = deadline.map_or(*now, |deadline| deadline.0.max(*now));
            } else if deadline.is_some_and(|deadline| *now >= deadline.0) {
                return EventKind::DeadlineReached;
            }
            let answer = match choices.below(3) {
                0 | 1 if is_question => PersonAnswer::Answered { text: replies::words(choices) },
                0 | 1 => PersonAnswer::Approved,
                _ => PersonAnswer::Denied { why: replies::words(choices) },
            };
            let binding = if choices.one_in(2) { run.binding(key) } else { None };
            if answer == PersonAnswer::Approved && (run.spec().gate.approvals > 1 || choices.one_in(3)) {
                let by = approver(&ACCOUNTS, |account| !has_approved(run, key, account));
                return EventKind::ApprovedBy { key: *key, by, binding };
            }
            EventKind::PersonAnswered { key: *key, answer, binding }
        }
        Command::Abort { key, attempt } => {
            if choices.one_in(3) {
                return past_deadline(choices, run, now);
            }
            *now += 50;
            let (key, attempt) = (*key, *attempt);
            let is_call = matches!(run.phase(), Phase::Stopping(stopping) if stopping.call.as_ref().is_some_and(|call| call.key == key));
            if key.slot == Slot::Check {
                return checked(choices, key, attempt, /*asks*/ true);
            }
            match is_call {
                true if choices.one_in(3) => {
                    EventKind::ModelFailed { key, attempt, failure: replies::failure(choices, *now).into() }
                }
                true => {
                    let reply = replies::reply(choices, run.spec(), run.actions(), 500, 1_000).into();
                    EventKind::ModelReplied { key, attempt, reply }
                }
                false => {
                    let observation = replies::observation(choices, /*has_sub_call*/ false).into();
                    EventKind::ToolFinished { key, attempt, observation }
                }
            }
        }
        Command::Save { attempt } => {
            let result = match choices.below(4) {
                0 | 1 => SaveResult::Saved { location: "x".into() },
                2 => SaveResult::Failed { message: "busy".into(), retry_at: Some(Millis(*now + 400)) },
                _ => SaveResult::Failed { message: "gone".into(), retry_at: None },
            };
            EventKind::SaveFinished { attempt: *attempt, result }
        }
    }
}

/// The result of a check, which may have called a model.
fn checked(choices: &mut Choices, key: CommandKey, attempt: u32, asks: bool) -> EventKind {
    let result = match choices.below(4) {
        0 | 1 => CheckResult::Passed,
        2 => rejected("no"),
        _ => broken(),
    };
    let used = if asks && !choices.one_in(4) { Some(replies::sub_call(choices).into()) } else { None };
    EventKind::Checked { key, attempt, result, used }
}

/// The announcement of a call with a prompt of some size: it is granted, or refused.
fn announce(choices: &mut Choices, run: &Run, call: &CallModel) -> EventKind {
    let evidence = run.evidence().iter().filter(|evidence| !evidence.shortened).count() as u64;
    let passes = run.passes().len() as u64;
    let usual = 1_500 + 400 * evidence + 300 * passes;
    let bytes = match choices.below(16) {
        15 => 1_000_000,
        14 => usual * 9,
        _ => usual,
    };
    let shared_bytes = if choices.one_in(3) { bytes } else { 0 };
    let prompt = PromptSize { bytes, shared_bytes };
    let (key, attempt) = (call.key, call.attempt);
    let mut quoted = run.quote(&key, prompt);
    if let Ok(quote) = &quoted
        && let Some(left) = shared_rest(choices, run, &key, quote)
    {
        quoted = Err(Refusal::SharedBudget { left });
    }
    EventKind::announced(key, attempt, prompt, run.started().prompts, quoted)
}

/// The rest of a shared budget that refuses the call: nothing, or a part of the worst case of the call and the final
/// pass after it. Sometimes exactly the worst case, which does not justify a refusal.
fn shared_rest(choices: &mut Choices, run: &Run, key: &CommandKey, quote: &Quote) -> Option<PicoUsd> {
    if !choices.one_in(10) {
        return None;
    }
    let needs = quote.reserve.cost.unwrap_or_default().plus(run.final_pass_reserve(key, quote)).0;
    let part = [4, 0, 1, 2, 3, 5, 6, 7, 8, 8].get(choices.below(10) as usize).copied().unwrap_or_default();
    let left = PicoUsd((needs / 8).saturating_mul(part));
    Some(if part == 8 { PicoUsd(needs.saturating_sub(u64::from(choices.below(2)))) } else { left })
}

/// The accounts of approvers.
const ACCOUNTS: [&str; 3] = ["token 1", "token 2", "token 3"];

/// The first of these accounts that is allowed.
fn approver(accounts: &[&str], may: impl Fn(&str) -> bool) -> Approver {
    let account = accounts.iter().copied().find(|account| may(account)).unwrap_or_default();
    Approver { account: account.into(), user: "".into(), claim: None }
}

fn has_approved(run: &Run, key: &CommandKey, account: &str) -> bool {
    let requested = run.requested();
    let request = requested.iter().find(|request| request.key == *key);
    request.is_some_and(|request| request.approvers.iter().any(|by| *by.account == *account))
}

/// The announcement of an eager read, if one is allowed.
fn eager(choices: &mut Choices, run: &Run, call: &CallModel, now: u64) -> Option<EventKind> {
    let name = (*choices.of(&["fetch_device", "fetch_docs"])?).into();
    let arguments = r#"{"target":"d"}"#.into();
    run.eager_read(Millis(now), (call.key, call.attempt), &name, &arguments).ok()
}

/// The result of a model call in flight.
fn settle(choices: &mut Choices, run: &Run, call: &CallModel, now: u64) -> EventKind {
    let (key, attempt) = (call.key, call.attempt);
    if choices.below(8) == 7 {
        return EventKind::ModelFailed { key, attempt, failure: replies::failure(choices, now).into() };
    }
    let (granted, reserved) = (call.granted.unwrap_or_default(), run.reserved().input_tokens);
    let reply = match key.slot {
        Slot::Select => replies::selection(choices, granted, reserved),
        _ => replies::reply(choices, run.spec(), run.actions(), granted, reserved),
    };
    EventKind::ModelReplied { key, attempt, reply: reply.into() }
}

/// An event that seldom fits: repeated, of another attempt, from the past, early, or an answer to something else.
fn stray(choices: &mut Choices, run: &Run, log: &[Event], now: u64) -> Event {
    let at = Millis(now);
    let kind = match choices.below(8) {
        0 => {
            let past = Millis(run.now().0.saturating_sub(1 + u64::from(choices.below(3)) * 900));
            let mut clock = now;
            let kind = match run.commands().first() {
                Some(command) => follow(choices, run, command, &mut clock),
                None => EventKind::DeadlineReached,
            };
            return Event { at: past, kind };
        }
        1 => EventKind::DeadlineReached,
        2 | 3 => answer(choices, run),
        _ => {
            let back = choices.below(log.len().min(6) as u32) as usize;
            let again = log.iter().rev().nth(back).map(|event| event.kind.clone());
            again.map_or(EventKind::DeadlineReached, |kind| of_other_try(choices, kind))
        }
    };
    Event { at, kind }
}

/// An answer that seldom counts: for an action that may not wait, or with another binding.
fn answer(choices: &mut Choices, run: &Run) -> EventKind {
    let recent = run.actions().iter().rev().nth(choices.below(3) as usize);
    let key = recent.map_or(CommandKey::new(1, Slot::Action(0)), |action| action.key);
    let answer = match choices.below(3) {
        0 => PersonAnswer::Approved,
        1 => PersonAnswer::Denied { why: "no".into() },
        _ => PersonAnswer::Answered { text: replies::words(choices) },
    };
    let binding = if choices.one_in(2) { Some(Digest::of("sim", b"another")) } else { None };
    if choices.one_in(2) {
        // One that has approved it already, or one that was not checked.
        let accounts = if choices.one_in(2) { &ACCOUNTS[..] } else { &[] };
        let by = approver(accounts, |account| has_approved(run, &key, account));
        return EventKind::ApprovedBy { key, by, binding };
    }
    EventKind::PersonAnswered { key, answer, binding }
}

fn of_other_try(choices: &mut Choices, mut kind: EventKind) -> EventKind {
    let by = choices.below(4);
    let tried = match &mut kind {
        EventKind::CallStarted { attempt, .. }
        | EventKind::CallRefused { attempt, .. }
        | EventKind::ModelReplied { attempt, .. }
        | EventKind::ModelFailed { attempt, .. }
        | EventKind::ToolStarted { attempt, .. }
        | EventKind::ToolFinished { attempt, .. }
        | EventKind::CheckStarted { attempt, .. }
        | EventKind::Checked { attempt, .. }
        | EventKind::SaveFinished { attempt, .. } => attempt,
        _ => return kind,
    };
    match by {
        1 => *tried = tried.saturating_sub(1),
        2 => *tried += 1,
        _ => {}
    }
    kind
}
