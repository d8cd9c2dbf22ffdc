//! Events of any kind in any order: what the core accepts keeps its promises. I-4, I-8, I-9, I-11, I-25.

use loop_core::reply::Reply;
use loop_core::run::{CallModel, CheckResult, PersonAnswer, RunTool, SaveResult, StopMode};
use loop_core::types::{FailureKind, ModelFailure, Observation, Receipt, Status, ToolCall};
use loop_core::{Command, EventKind};
use loop_testkit::fuzz::{Bytes, FuzzRun, NONCE, conversation, document, found, usage};
use serde_json::json;

/// Each byte chooses what happens next: what a command asks for, or an event that nothing asked for.
pub(crate) fn target(data: &[u8]) {
    let mut bytes = Bytes::of(data);
    let mut spec = if bytes.take().is_multiple_of(2) { document() } else { conversation() };
    spec.gate.people = bytes.take().is_multiple_of(2);
    if bytes.take().is_multiple_of(2) {
        spec.gate.approved = vec!["*".into()];
    }
    spec.limits.passes = u32::from(bytes.take() % 4);
    spec.limits.tool_calls = u32::from(bytes.take() % 5);
    let limits = spec.limits.clone();
    let mut driven = FuzzRun::start(spec);
    while !bytes.is_over() {
        let kind = next(&driven, &mut bytes);
        let was_done = driven.run.is_done();
        let was_judged = driven.run.actions().len();
        let accepted = driven.apply(kind.clone());
        assert!(!(was_done && accepted), "I-9: {kind:?} after the end");
        let totals = driven.run.totals();
        assert!(totals.tool_calls <= limits.tool_calls, "I-4: {} tool calls", totals.tool_calls);
        assert!(totals.model_calls <= limits.model_calls, "I-4: {} model calls", totals.model_calls);
        assert!(driven.run.actions().len() >= was_judged, "a decision is lost");
        if driven.run.is_done() {
            assert!(driven.run.commands().is_empty(), "I-9: a command after the end");
        } else {
            let waits = !driven.run.commands().is_empty() || driven.run.deadline().is_some();
            assert!(waits || !driven.run.requested().is_empty(), "I-8: a live run owes nothing");
        }
        for command in driven.run.commands() {
            if let Command::RunTool(RunTool { key, .. }) = command {
                let judged = driven.run.actions().iter().find(|action| action.key == key);
                let is_allowed = judged.is_some_and(|action| action.verdict == loop_core::Verdict::Run);
                assert!(is_allowed, "I-25: {key} is commanded, and was decided as {judged:?}");
            }
        }
    }
    driven.is_replayed();
    let stored = serde_json::to_string(driven.run.state()).unwrap();
    let state = serde_json::from_str(&stored).unwrap();
    let restored = loop_core::Run::restore(state, std::sync::Arc::clone(driven.run.spec())).unwrap();
    assert_eq!(restored, driven.run, "I-11: a checkpoint");
}

fn next(driven: &FuzzRun, bytes: &mut Bytes<'_>) -> EventKind {
    let commands = driven.run.commands();
    let choice = bytes.take();
    // Three of four follow a command.
    if !choice.is_multiple_of(4)
        && let Some(command) = commands.get(usize::from(choice / 4) % commands.len().max(1))
        && let Some(kind) = follows(driven, command, bytes)
    {
        return kind;
    }
    stray(driven, bytes)
}

fn follows(driven: &FuzzRun, command: &Command, bytes: &mut Bytes<'_>) -> Option<EventKind> {
    Some(match command {
        Command::CallModel(call) if call.granted.is_none() => driven.announced(call),
        Command::CallModel(CallModel { key, attempt, .. }) if bytes.take().is_multiple_of(6) => {
            EventKind::ModelFailed { key: *key, attempt: *attempt, failure: Box::new(failure(bytes)) }
        }
        Command::CallModel(CallModel { key, attempt, .. }) => {
            EventKind::ModelReplied { key: *key, attempt: *attempt, reply: Box::new(reply(bytes)) }
        }
        Command::RunTool(RunTool { key, attempt, .. }) if bytes.take().is_multiple_of(2) => {
            EventKind::ToolStarted { key: *key, attempt: *attempt }
        }
        Command::RunTool(RunTool { key, attempt, .. }) => {
            EventKind::ToolFinished { key: *key, attempt: *attempt, observation: observation(bytes).into() }
        }
        _ => return None,
    })
}

fn stray(driven: &FuzzRun, bytes: &mut Bytes<'_>) -> EventKind {
    let actions = driven.run.actions();
    let key = actions.get(usize::from(bytes.take()) % actions.len().max(1)).map(|action| action.key);
    let key = key.unwrap_or_else(|| "1/action-0".parse().unwrap());
    let main = "1/main".parse().unwrap();
    let attempt = u32::from(bytes.take() % 3);
    match bytes.take() % 13 {
        0 => EventKind::StopRequested { how: StopMode::AtGate },
        1 => EventKind::StopRequested { how: StopMode::Now },
        2 => EventKind::StopWithdrawn,
        3 => EventKind::DeadlineReached,
        4 => EventKind::Resumed { away_ms: u64::from(bytes.take()) * 1_000, by: None },
        5 => EventKind::Instruction { text: bytes.text().into() },
        6 => EventKind::PersonAnswered {
            key,
            answer: PersonAnswer::Approved,
            binding: driven.run.binding(&key),
        },
        7 => EventKind::PersonAnswered {
            key,
            answer: PersonAnswer::Denied { why: bytes.text().into() },
            binding: None,
        },
        8 => EventKind::ToolFinished { key, attempt, observation: observation(bytes).into() },
        9 => EventKind::ToolStarted { key, attempt },
        10 => EventKind::ModelReplied { key: main, attempt, reply: Box::new(reply(bytes)) },
        11 => EventKind::Checked { key, attempt, result: CheckResult::Passed, used: None },
        _ => EventKind::SaveFinished { attempt, result: SaveResult::Saved { location: "there".into() } },
    }
}

fn failure(bytes: &mut Bytes<'_>) -> ModelFailure {
    ModelFailure {
        refused: None,
        kind: *bytes.one(&[FailureKind::Overloaded, FailureKind::ContextTooLong, FailureKind::Connection]),
        message: "try later".into(),
        retryable: bytes.take().is_multiple_of(2),
        retry_at: None,
        partial: None,
        served_model: None,
        usage: Some(usage()),
        received: Receipt::default(),
    }
}

const STATUSES: [Status; 7] = [
    Status::Ok,
    Status::Empty,
    Status::RetryableError,
    Status::PermanentError,
    Status::Timeout,
    Status::Pending,
    Status::InDoubt,
];

fn observation(bytes: &mut Bytes<'_>) -> Observation {
    let status = *bytes.one(&STATUSES);
    Observation { status, ..found(&bytes.text()) }
}

fn reply(bytes: &mut Bytes<'_>) -> Reply {
    let wanted: Vec<(&str, String)> = (0..bytes.take() % 4)
        .map(|_| (*bytes.one(&["look", "change", "nope"]), format!("t{}", bytes.take() % 3)))
        .collect();
    let calls = (0..).zip(&wanted).map(|(nth, (tool, target))| ToolCall {
        id: format!("c{nth}").into(),
        name: (*tool).into(),
        arguments: json!({"target": target}).to_string().as_str().into(),
    });
    let actions: Vec<_> = (0..)
        .zip(&wanted)
        .map(|(nth, (tool, target))| {
            json!({"action_id": format!("a{nth}"), "action_type": tool, "reason": "to know",
                "parameters": {"target": target}, "priority": "required"})
        })
        .collect();
    let confidence = bytes.one(&["low", "medium", "high"]);
    let contract = json!({"nonce": NONCE, "analysis_confidence": confidence, "confidence_reason": "because",
        "ai_actions": actions});
    let text = format!("## 🔍 Situation\n\n{}\n\n```json\n{contract}\n```\n", bytes.text());
    Reply { calls: calls.collect(), usage: Some(usage()), ..Reply::text(text) }
}
