//! The alphabets of conversations and typed outputs.

use loop_core::StopReason::{
    Completed, InvalidResponse, ManualStop, MaxAttempts, MaxMessages, MaxModelCalls, MaxPasses, MaxToolCalls,
    ModelFailure as ModelFailed, NeedsHuman, NoProgress, OutputLimit, PolicyBlocked, Refused,
    SubmitBeforeOutput, Timeout, TokenLimit, ToolFailure,
};
use loop_core::reply::FinishReason;
use loop_core::run::{CheckResult, PersonAnswer};
use loop_core::spec::{ModelSpec, Repeats};
use loop_core::types::{CommandKey, Millis, ModelFailure, Observation, Slot, Status};
use serde_json::json;

use crate::alphabet::Alphabet;
use crate::alphabets::{always, base};
use crate::checks::CUT;
use loop_testkit::{
    DraftReply, Setup, broken, calls, conversation, failure, found, model, observed, output, reflected,
    rejected, target, text,
};

/// Every alphabet of these protocols that is walked whole in a test run.
pub fn all() -> Vec<Alphabet> {
    let wide = [ordered, side_by_side, messages, answers_in_time, outputs, reflections, compaction];
    let mut all: Vec<Alphabet> = wide.map(|make| make(false)).into();
    all.extend([consents, reuse, interrupted, interrupted_outputs].map(|make| make()));
    all
}

fn small(setup: Setup) -> Setup {
    setup.limits(|limits| {
        limits.passes = 3;
        limits.tool_calls = 4;
        limits.model_calls = 5;
        limits.wall_ms = 60_000;
        limits.person_ms = Some(5_000);
    })
}

fn look(names: &[&str]) -> DraftReply {
    let wanted: Vec<_> = names.iter().map(|name| ("fetch_device", target(name))).collect();
    calls(&wanted)
}

fn ends_so(_: CommandKey) -> Vec<Observation> {
    vec![found("it"), observed(Status::RetryableError)]
}

/// As a formatter ends: it shows the output, or says that it does not fit.
fn reads(_: CommandKey) -> Vec<Observation> {
    vec![found("it"), observed(Status::InvalidInput)]
}

fn too_long() -> ModelFailure {
    ModelFailure { kind: loop_core::types::FailureKind::ContextTooLong, ..failure(false) }
}

fn broke_off() -> ModelFailure {
    ModelFailure { partial: Some(CUT.into()), ..failure(true) }
}

/// Everything that a reply can be, one call after another.
pub fn ordered(wide: bool) -> Alphabet {
    let mut all = vec![
        text("It is done."),
        look(&["a", "b"]),
        look(&["a"]).calling("nope", "{}").calling("fetch_device", "{"),
        calls(&[("nope", json!({}))]),
        calls(&[("restart", target("a"))]),
        calls(&[("fetch_docs", target("a"))]),
        text("\u{200b}"),
        text("It is do").ending(FinishReason::MaxTokens),
        text("").ending(FinishReason::MaxTokens),
        text("Let me look.").ending(FinishReason::ToolUse),
        text("No.").ending(FinishReason::Refusal),
        look(&["a"]).calling("escalate", "{}"),
    ];
    if wide {
        all.push(calls(&[("refuse", json!({"reason": "no"}))]));
        all.push(look(&["a", "a", "c"]));
        all.push(look(&["b"]).ending(FinishReason::Refusal));
    }
    let setup = small(conversation()).with(|spec| {
        spec.gate.no_progress = 2;
        spec.gate.forbid = vec!["fetch_docs".into()];
        spec.limits.tool_calls = 2;
    });
    Alphabet {
        replies: always(all),
        observations: if wide { ends_so } else { |_| vec![found("it")] },
        failures: vec![broke_off()],
        reaches: &[
            Completed,
            MaxPasses,
            MaxToolCalls,
            NoProgress,
            PolicyBlocked,
            NeedsHuman,
            Refused,
            OutputLimit,
            ModelFailed,
            MaxModelCalls,
        ],
        ..base("ordered", setup)
    }
}

/// Reads side by side, writes one by one; a driver that is gone at any moment.
pub fn side_by_side(wide: bool) -> Alphabet {
    let mut all = vec![
        calls(&[("restart", target("a")), ("fetch_device", target("a")), ("restart", target("b"))]),
        look(&["a", "a"]),
        text("It is done."),
    ];
    if wide {
        all.push(calls(&[("wipe", target("a")), ("fetch_docs", target("a")), ("wipe", target("a"))]));
    }
    let setup = small(conversation()).parallel().approving(&["restart", "wipe"]);
    Alphabet {
        replies: always(all),
        observations: |key| if key.slot == Slot::Action(0) { ends_so(key) } else { vec![found("it")] },
        resumes: vec![0],
        stops: wide,
        reaches: &[Completed, MaxPasses],
        ..base("side by side", setup.limits(|limits| (limits.passes, limits.model_calls) = (2, 3)))
    }
}

/// Stops and crashes at any moment while an order is kept.
pub fn interrupted() -> Alphabet {
    let mixed = calls(&[("fetch_device", target("a")), ("restart", target("a"))]);
    let setup = small(conversation()).approving(&["restart", "wipe"]);
    Alphabet {
        replies: always([mixed, calls(&[("wipe", target("a")), ("nope", json!({}))]), text("It is done.")]),
        resumes: vec![0],
        stops: true,
        reaches: &[Completed, ManualStop, MaxPasses],
        ..base("interrupted", setup.limits(|limits| (limits.passes, limits.model_calls) = (2, 3)))
    }
}

/// People who agree, refuse, or say nothing, in a conversation.
pub fn consents() -> Alphabet {
    Alphabet {
        replies: always([
            calls(&[("wipe", target("a")), ("fetch_device", target("a")), ("wipe", target("a"))]),
            text("It is done."),
        ]),
        observations: ends_so,
        answers: vec![PersonAnswer::Approved, PersonAnswer::Denied { why: "no".into() }],
        deadlines: true,
        reaches: &[Completed, MaxPasses, Timeout],
        ..base("consents", small(conversation()).people().limits(|limits| limits.passes = 2))
    }
}

/// What was looked up is given again, until something changes.
pub fn reuse() -> Alphabet {
    let around =
        calls(&[("fetch_device", target("a")), ("restart", target("a")), ("fetch_device", target("a"))]);
    let setup = small(conversation()).parallel().approving(&["restart"]).repeating(Repeats::Reuse);
    Alphabet {
        replies: always([around, look(&["a", "b"]), look(&["a"]), text("It is done.")]),
        observations: ends_so,
        reaches: &[Completed, MaxPasses],
        ..base("reuse", setup.with(|spec| spec.gate.no_progress = 2))
    }
}

/// Few messages, and some before the run.
pub fn messages(wide: bool) -> Alphabet {
    let setup = small(conversation()).limits(|limits| {
        limits.messages = Some(if wide { 12 } else { 9 });
        limits.passes = 5;
        limits.model_calls = 6;
        limits.tool_calls = 2;
    });
    Alphabet {
        history: Some(3),
        replies: always([
            look(&["a"]),
            look(&["b", "c"]),
            calls(&[("nope", json!({}))]),
            look(&["d", "e"]).calling("nope", "").calling("nope", ""),
            text("It is done."),
        ]),
        reaches: &[Completed, MaxMessages, MaxToolCalls, NoProgress],
        ..base("messages", setup)
    }
}

/// Time that runs out at any moment, with a final pass before it.
pub fn answers_in_time(wide: bool) -> Alphabet {
    let later = ModelFailure { retry_at: Some(Millis(700)), ..failure(true) };
    let timed_out = ModelFailure { kind: loop_core::types::FailureKind::Timeout, ..broke_off() };
    Alphabet {
        replies: always([look(&["a", "b"]), text("It is done.")]),
        failures: if wide { vec![later, timed_out] } else { vec![timed_out] },
        steps: if wide { vec![0, 46_000, 70_000] } else { vec![0, 46_000] },
        deadlines: true,
        reaches: &[Completed, Timeout, MaxPasses],
        ..base("answers in time", small(conversation()).limits(|limits| limits.passes = 2))
    }
}

/// Outputs at once and after helpers, valid, rejected, and nothing that anybody can tell.
pub fn outputs(wide: bool) -> Alphabet {
    let all = vec![
        calls(&[("save", target("x"))]),
        calls(&[
            ("fetch_device", target("a")),
            ("save", target("y")),
            ("save", target("z")),
            ("nope", json!({})),
        ]),
        look(&["a"]),
        calls(&[("nope", json!({}))]),
        text("Here you are."),
        text("No.").ending(FinishReason::Refusal),
        calls(&[("restart", target("a")), ("save", target("w"))]),
        calls(&[("save", target("v")), ("fetch_device", target("b")), ("escalate", json!({}))]),
        text(""),
    ];
    let setup = small(output()).output_spec(|output| {
        output.attempts = 2;
        output.passes_per_attempt = 2;
    });
    let setup = setup.limits(|limits| (limits.passes, limits.model_calls, limits.tool_calls) = (3, 4, 1));
    Alphabet {
        replies: always(all),
        checks: vec![CheckResult::Passed, rejected("no"), broken()],
        failures: if wide { vec![failure(true)] } else { Vec::new() },
        reaches: &[
            Completed,
            MaxAttempts,
            MaxPasses,
            MaxToolCalls,
            InvalidResponse,
            Refused,
            NeedsHuman,
            ToolFailure,
            NoProgress,
        ],
        ..base("outputs", setup.with(|spec| spec.gate.no_progress = 1))
    }
}

/// Outputs that are shown to the model and submitted, in every order.
pub fn reflections(wide: bool) -> Alphabet {
    let submit = || ("submit", json!({}));
    let unreadable = || ("save", json!({"target": 1}));
    let mut all = vec![
        calls(&[("save", target("x"))]),
        calls(&[submit()]),
        calls(&[submit(), ("save", target("y")), ("fetch_device", target("a"))]),
        calls(&[("save", target("z")), unreadable()]),
        calls(&[unreadable(), submit()]),
        calls(&[("save", target("v")), ("wipe", target("a")), submit()]),
    ];
    if wide {
        all.push(look(&["a"]));
    }
    let setup = small(reflected()).people().output_spec(|output| {
        output.attempts = 2;
        output.passes_per_attempt = 2;
    });
    Alphabet {
        replies: always(all),
        checks: vec![CheckResult::Passed, rejected("no")],
        observations: reads,
        answers: vec![PersonAnswer::Approved],
        reaches: &[Completed, MaxAttempts, MaxPasses, SubmitBeforeOutput],
        ..base("reflections", setup)
    }
}

/// Stops, crashes and the wall clock at any moment on the way to an output.
pub fn interrupted_outputs() -> Alphabet {
    let mixed = calls(&[("save", target("x")), ("restart", target("a"))]);
    let setup = small(output()).approving(&["restart"]).output_spec(|output| output.attempts = 2);
    Alphabet {
        replies: [mixed, calls(&[("save", target("y"))])].map(|draft| vec![draft.reply()]).into(),
        checks: vec![CheckResult::Passed, rejected("no")],
        resumes: vec![0],
        stops: true,
        deadlines: true,
        reaches: &[Completed, ManualStop, Timeout, MaxAttempts, ToolFailure],
        ..base("interrupted outputs", setup.limits(|limits| (limits.passes, limits.model_calls) = (2, 3)))
    }
}

/// Prompts that do not fit, so that what is older is shown in short.
pub fn compaction(wide: bool) -> Alphabet {
    let setup = small(conversation()).with(|spec| {
        spec.models.base = ModelSpec { context_tokens: 4_000, ..model(spec.models.base.price.clone()) };
        spec.limits.passes = if wide { 5 } else { 4 };
        spec.limits.model_calls = if wide { 7 } else { 5 };
    });
    Alphabet {
        history: Some(2),
        replies: always([look(&["a", "b"]), look(&["c"]), text("It is done.")]),
        prompts: vec![(2_000, 0), (100_000, 0)],
        failures: vec![too_long()],
        reaches: &[Completed, TokenLimit, MaxPasses],
        ..base("compaction", setup)
    }
}
