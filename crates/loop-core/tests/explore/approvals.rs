//! Answers of people: which of them counts, once, in time, and for exactly what was shown (I-26, K8).

use loop_core::run::{PersonAnswer, Phase};
use loop_core::types::{CommandKey, Digest, Millis, Slot};
use loop_core::{Command, Event, EventKind, Run};

use crate::edge::Ghost;
use loop_testkit::digest;

type Result = std::result::Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(what()) }
}

/// The actions that wait for an answer, each with the instant at which silence becomes a no.
fn open(run: &Run) -> Vec<(CommandKey, Option<Millis>)> {
    let Phase::WaitingForPerson { asks, .. } = run.phase() else { return Vec::new() };
    let open = asks.iter().filter(|ask| !ask.answered);
    open.map(|ask| (run.actions()[ask.action as usize].key, ask.deadline)).collect()
}

fn is_question(run: &Run, key: CommandKey) -> bool {
    let action = run.actions().iter().find(|action| action.key == key);
    let tool = action.and_then(|action| run.spec().tool(action.tool_name()));
    tool.is_some_and(|tool| tool.policy.asks_person)
}

/// Whether an answer says something to what it answers: consent to a call, words to a question, a no to either.
fn suits(run: &Run, key: CommandKey, answer: &PersonAnswer) -> bool {
    match answer {
        PersonAnswer::Approved => !is_question(run, key),
        PersonAnswer::Answered { text } => is_question(run, key) && !text.trim().is_empty(),
        PersonAnswer::Denied { .. } => true,
    }
}

/// Whether the run has to take the event, where it is an answer: to what is open, in time, for what was shown.
pub fn counts(run: &Run, event: &Event) -> bool {
    let EventKind::PersonAnswered { key, answer, binding } = &event.kind else { return true };
    let is_open = open(run)
        .iter()
        .any(|(open, deadline)| open == key && deadline.is_none_or(|deadline| event.at < deadline));
    is_open && suits(run, *key, answer) && binding.is_none_or(|binding| run.binding(key) == Some(binding))
}

fn all() -> [PersonAnswer; 4] {
    [
        PersonAnswer::Approved,
        PersonAnswer::Denied { why: "no".into() },
        PersonAnswer::Answered { text: "web-1".into() },
        PersonAnswer::Answered { text: " ".into() },
    ]
}

/// Answers that must not be taken: to what is not asked, not asked yet or answered already, of a kind that says nothing
/// to it, too late, or for something else than what is asked.
pub fn that_do_not_count(run: &Run) -> Vec<Event> {
    let now = run.now();
    let open = open(run);
    let mut events = Vec::new();
    let mut answer = |at: Millis, key: CommandKey, answer: &PersonAnswer, binding: Option<Digest>| {
        let kind = EventKind::PersonAnswered { key, answer: answer.clone(), binding };
        events.push(Event { at, kind });
    };
    let known: Vec<CommandKey> = run.actions().iter().map(|action| action.key).collect();
    let nobody = [CommandKey::new(9, Slot::Action(0)), CommandKey::new(run.pass(), Slot::Main)];
    for given in &all() {
        for key in known.iter().chain(&nobody).filter(|key| !open.iter().any(|(open, _)| open == *key)) {
            answer(now, *key, given, None);
            answer(now, *key, given, run.binding(key));
        }
        for (key, deadline) in &open {
            let own = run.binding(key);
            if !suits(run, *key, given) {
                answer(now, *key, given, None);
                answer(now, *key, given, own);
                continue;
            }
            for late in deadline.iter().flat_map(|end| [*end, end.plus(1)]).filter(|late| *late >= now) {
                answer(late, *key, given, None);
                answer(late, *key, given, own);
            }
            answer(now, *key, given, Some(digest()));
            for other in known.iter().filter(|other| *other != key) {
                answer(now, *key, given, run.binding(other));
            }
        }
    }
    events
}

/// K8: what is shown to a person is what is asked, until the same instant.
pub fn are_bound(run: &Run, _: &Ghost) -> Result {
    let (requested, open) = (run.requested(), open(run));
    let commanded: Vec<CommandKey> = run
        .commands()
        .iter()
        .filter_map(|command| match command {
            Command::AskPerson { key, .. } => Some(*key),
            _ => None,
        })
        .collect();
    let keys = || open.iter().map(|(key, _)| *key);
    must(requested.iter().map(|it| it.key).eq(keys()) && commanded.iter().copied().eq(keys()), || {
        format!("{open:?} is open, {requested:?} is shown, {commanded:?} is commanded")
    })?;
    for (ask, (_, deadline)) in requested.iter().zip(&open) {
        must(ask.deadline == *deadline, || format!("{ask:?} ends at {deadline:?}"))?;
    }
    Ok(())
}
