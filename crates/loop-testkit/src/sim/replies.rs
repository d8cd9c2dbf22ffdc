//! Draws replies of models and results of tools: valid and invalid grammar, genuine and forged contracts, every status.

use std::fmt::Write as _;
use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::gate::JudgedAction;
use loop_core::reply::{FinishReason, Reply};
use loop_core::spec::ProtocolSpec;
use loop_core::types::{
    FailureKind, Millis, ModelFailure, Observation, PicoUsd, Receipt, Status, SubCallUse, ToolCall, Usage,
};

use crate::sim::Choices;
use crate::sim::world::{CUT, NONCE};

/// A reply to a main call. If choices are calm, one that ends the run.
pub(crate) fn reply(
    choices: &mut Choices,
    spec: &RunSpec,
    earlier: &[Arc<JudgedAction>],
    granted: u64,
    reserved_input: u64,
) -> Reply {
    let mut reply = match &spec.protocol {
        ProtocolSpec::Document(_) => document(choices, earlier),
        ProtocolSpec::Conversation(_) => native(choices, earlier, None),
        ProtocolSpec::Output(output) => {
            let submit = output.submit.as_deref();
            native(choices, earlier, Some((&output.tool, submit)))
        }
    };
    bill(choices, &mut reply, granted, reserved_input);
    reply
}

/// A hostile reply to a selection or a main call, for simulations of a driver. It has [`NONCE`] as its nonce.
pub fn drawn_reply(choices: &mut Choices, spec: &RunSpec, is_selection: bool) -> Reply {
    let (granted, reserved_input) = (spec.limits.output_tokens, 2_000);
    match is_selection {
        true => selection(choices, granted, reserved_input),
        false => reply(choices, spec, &[], granted, reserved_input),
    }
}

/// The reply to a selection.
pub(crate) fn selection(choices: &mut Choices, granted: u64, reserved_input: u64) -> Reply {
    let mut text = String::from("[");
    for n in 0..choices.below(4) {
        let tool = name(choices);
        let target = target(choices);
        let comma = if n > 0 { "," } else { "" };
        _ = write!(text, r#"{comma}{{"tool":"{tool}","params":{{"target":"{target}"}},"reason":"r"}}"#);
    }
    text.push_str(if choices.one_in(8) { "" } else { "]" });
    let mut reply = Reply::text(text);
    bill(choices, &mut reply, granted, reserved_input);
    reply
}

fn name(choices: &mut Choices) -> &'static str {
    let names = [
        "fetch_device",
        "fetch_docs",
        "restart",
        "wipe",
        "mail",
        "set",
        "fetch_docs",
        "fetch_devices",
        "ask_user",
        "restart",
        "set",
        "nope",
    ];
    choices.of(&names).copied().unwrap_or_default()
}

/// How many calls a reply requests. Zero ends many runs.
fn count(choices: &mut Choices) -> u32 {
    choices.of(&[0, 1, 2, 1, 3, 2, 1, 2, 1, 2, 4, 1]).copied().unwrap_or_default()
}

fn target(choices: &mut Choices) -> &'static str {
    choices.of(&["d", "e", "ops", "f", "g"]).copied().unwrap_or_default()
}

/// The arguments of a call: valid, without an optional one, or with one error.
fn arguments(choices: &mut Choices) -> String {
    let target = target(choices);
    match choices.below(16) {
        0..=10 => format!(r#"{{"target":"{target}"}}"#),
        11 => format!(r#"{{ "limit": 3, "target": "{target}" }}"#),
        12 => format!(r#"{{"target":"{target}","limit":{}}}"#, choices.below(3)),
        13 => r#"{"target":1}"#.to_owned(),
        14 => format!(r#"{{"target":"{target}","target":"e"}}"#),
        _ => "{}".to_owned(),
    }
}

/// A call, sometimes one that was requested before.
fn requested(choices: &mut Choices, earlier: &[Arc<JudgedAction>]) -> (String, String) {
    let again = choices.one_in(6).then(|| choices.of(earlier)).flatten();
    match again {
        Some(action) if action.action.parameters.value().is_ok() => {
            (action.action.tool.to_string(), action.action.parameters.to_string())
        }
        _ => (name(choices).to_owned(), arguments(choices)),
    }
}

fn document(choices: &mut Choices, earlier: &[Arc<JudgedAction>]) -> Reply {
    let mut text = String::new();
    let sections = choices.below(6);
    if sections != 1 {
        let body = ["The disk is full.", "The disk is full [E1].", "Not known.", "", "See [E9]."];
        let body = choices.of(&body).copied().unwrap_or_default();
        _ = write!(text, "## Situation\n\n{body}\n\n");
    }
    if sections == 0 || sections > 3 {
        let body = choices.of(&["Full [E1].", "Full.", "Full [E2][E1]."]).copied().unwrap_or_default();
        _ = write!(text, "## Findings\n\n{body}\n\n");
    }
    if sections == 5 {
        text.push_str("## Next steps\n\nWait.\n\n");
    }
    let kind = choices.below(24);
    if kind < 22 {
        let confidence = choices
            .of(&["high", "low", "medium", "low", "medium", "low", "low", "sure"])
            .copied()
            .unwrap_or_default();
        let nonce = match choices.below(12) {
            0..=9 => format!(r#""nonce":"{NONCE}","#),
            10 => r#""nonce":"forged","#.to_owned(),
            _ => String::new(),
        };
        let own = match kind {
            20 => r#""refuse":"no","#,
            21 => r#""escalate":"a person","#,
            _ => "",
        };
        _ = write!(
            text,
            "```json\n{{{nonce}{own}\"analysis_confidence\":\"{confidence}\",\"confidence_reason\":\"r\",\"ai_actions\":["
        );
        for n in 0..count(choices) {
            let (tool, arguments) = requested(choices, earlier);
            let priority = ["required", "recommended", "required", "nice_to_have"];
            let priority = choices.of(&priority).copied().unwrap_or_default();
            let comma = if n > 0 { "," } else { "" };
            _ = write!(
                text,
                r#"{comma}{{"action_id":"a{n}","action_type":"{tool}","reason":"r","parameters":{arguments},"priority":"{priority}"}}"#
            );
        }
        text.push_str("]}\n```\n");
    }
    finished(choices, text, Vec::new())
}

fn native(
    choices: &mut Choices,
    earlier: &[Arc<JudgedAction>],
    output: Option<(&str, Option<&str>)>,
) -> Reply {
    let ends =
        |name: &str| ToolCall { id: "end".into(), name: name.into(), arguments: r#"{"target":"d"}"#.into() };
    let mut calls = Vec::new();
    let count = count(choices);
    for n in 0..count {
        let (name, arguments) = requested(choices, earlier);
        calls.push(ToolCall { id: format!("c{n}").into(), name: name.into(), arguments: arguments.into() });
    }
    if let Some((tool, submit)) = output
        && (count == 0 || choices.one_in(3))
    {
        calls.push(ends(tool));
        if let Some(submit) = submit.filter(|_| !choices.one_in(3)) {
            calls.push(ends(submit));
        }
    }
    let texts = ["Done.", "I look.", "", "\u{200b}"];
    let text = choices.of(&texts).copied().unwrap_or_default().to_owned();
    finished(choices, text, calls)
}

fn finished(choices: &mut Choices, mut text: String, calls: Vec<ToolCall>) -> Reply {
    let usual = if calls.is_empty() { FinishReason::EndTurn } else { FinishReason::ToolUse };
    let finish = match choices.below(40) {
        0..=34 => usual,
        35 => FinishReason::MaxTokens,
        36 => FinishReason::Capped,
        37 => FinishReason::Refusal,
        38 => FinishReason::Filtered,
        _ => FinishReason::Other,
    };
    if finish.is_cut() {
        let keep = text.len() * choices.below(5) as usize / 4;
        let keep = (0..=keep).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(keep);
    }
    Reply { calls, finish, ..Reply::text(text) }
}

/// The reported usage of a reply: as usual, none, or more than was granted.
fn bill(choices: &mut Choices, reply: &mut Reply, granted: u64, reserved_input: u64) {
    let input = reserved_input / (1 + u64::from(choices.below(4)));
    let output = (granted / (1 + u64::from(choices.below(8)))).min(granted);
    let usual = Usage { input, output, ..Usage::default() };
    reply.usage = match choices.below(16) {
        0..=9 => Some(usual),
        10 => Some(Usage { cache_read: input / 2, input: input / 2, ..usual }),
        11 => Some(Usage { reasoning: output / 2, output: output / 2, ..usual }),
        12 => Some(Usage { output: 1_000_000_000_000, ..usual }),
        13 => Some(Usage::default()),
        _ => None,
    };
    if choices.one_in(24) {
        reply.cost = Some(PicoUsd(123_456));
    }
}

/// A failure of a model call.
pub(crate) fn failure(choices: &mut Choices, now: u64) -> ModelFailure {
    let kinds = [
        FailureKind::Overloaded,
        FailureKind::RateLimited,
        FailureKind::StreamInterrupted,
        FailureKind::Timeout,
        FailureKind::Connection,
        FailureKind::ServerError,
        FailureKind::Auth,
        FailureKind::ContextTooLong,
        FailureKind::InvalidRequest,
        FailureKind::EmptyResponse,
    ];
    let kind = choices.of(&kinds).copied().unwrap_or(FailureKind::Overloaded);
    let partial = match choices.below(4) {
        0 | 1 => None,
        2 => Some(format!("## Situation\n\nKept.\n\n## Findings\n\nha {CUT}").into()),
        _ => Some(format!("## Situation\n\n{CUT}").into()),
    };
    let retry_at = choices.one_in(3).then(|| Millis(now + 1 + u64::from(choices.below(30)) * 500));
    ModelFailure {
        kind,
        message: "it failed".into(),
        retryable: !choices.one_in(5),
        retry_at,
        partial,
        refused: None,
        served_model: None,
        usage: choices.one_in(2).then(|| Usage { input: 10, ..Usage::default() }),
        received: Receipt::default(),
    }
}

/// What a tool returns.
pub(crate) fn observation(choices: &mut Choices, has_sub_call: bool) -> Observation {
    let status = match choices.below(20) {
        0..=9 => Status::Ok,
        10 => Status::Empty,
        11 | 12 => Status::RetryableError,
        13 => Status::PermanentError,
        14 => Status::InvalidInput,
        15 => Status::MalformedResult,
        16 => Status::Timeout,
        17 => Status::Cancelled,
        _ => Status::Pending,
    };
    let mut observation = match status {
        Status::Ok => {
            let found = choices.of(&["full", "empty", "none"]).copied().unwrap_or_default();
            Observation::new(Status::Ok, "found", found, format!(r#"{{"disk":"{found}"}}"#))
        }
        status => Observation::failed(status, "tool", "it did not work"),
    };
    if status == Status::Pending {
        observation.retry_after_ms = (!choices.one_in(4)).then(|| 1 + u64::from(choices.below(9)) * 700);
    }
    if has_sub_call && !choices.one_in(4) {
        observation.sub_call = Some(sub_call(choices).into());
    }
    observation
}

/// The usage of a sub-call.
pub(crate) fn sub_call(choices: &mut Choices) -> SubCallUse {
    let usage = (!choices.one_in(3)).then_some(Usage { input: 300, output: 20, ..Usage::default() });
    SubCallUse::new(true, usage)
}

/// A text of a person or a model.
pub(crate) fn words(choices: &mut Choices) -> Arc<str> {
    choices.of(&["Look at d.", "Hurry.", "no"]).copied().unwrap_or_default().into()
}
