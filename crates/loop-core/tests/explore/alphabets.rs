//! The alphabets. Each is small enough to be walked whole, and together they reach every reason to stop.

use loop_core::StopReason;
use loop_core::policy::Taint;
use loop_core::reply::{FinishReason, Reply};
use loop_core::run::{PersonAnswer, SaveResult};
use loop_core::spec::{CostMode, DefaultCall, ModelSpec, SectionSpec, ToolSpec};
use loop_core::types::{
    CommandKey, Effect, Millis, ModelFailure, Observation, PicoUsd, Slot, Status, SubCallUse,
};
use serde_json::json;

use crate::alphabet::{Alphabet, Used};
use crate::checks::CUT;
use crate::{conversations, earned, judged, planned};
use loop_core::StopReason::{
    BudgetExceeded, Completed, Confident, EvidenceMissing, InvalidResponse, ManualStop, MaxAttempts,
    MaxMessages, MaxModelCalls, MaxPasses, MaxToolCalls, ModelFailure as ModelFailed, NeedsHuman,
    NoNewActions, NoProgress, OutputLimit, PolicyBlocked, Refused, StaleConfidence, SubmitBeforeOutput,
    Timeout, TokenLimit, ToolFailure,
};
use loop_testkit::{
    DraftReply, Setup, bare_draft, draft, failure, found, model, observed, run, saved_at, target, text, tool,
    used,
};

/// Every reason that a run can end with, a journal that fails apart.
pub const REASONS: [StopReason; 23] = [
    Confident,
    NoNewActions,
    StaleConfidence,
    NoProgress,
    MaxPasses,
    MaxModelCalls,
    MaxToolCalls,
    BudgetExceeded,
    TokenLimit,
    OutputLimit,
    Timeout,
    EvidenceMissing,
    Refused,
    PolicyBlocked,
    NeedsHuman,
    ModelFailed,
    ManualStop,
    Completed,
    MaxMessages,
    MaxAttempts,
    InvalidResponse,
    SubmitBeforeOutput,
    ToolFailure,
];

/// Every alphabet that is walked whole in a test run.
pub fn all() -> Vec<Alphabet> {
    let modes = [CostMode::Strict, CostMode::Estimated, CostMode::After];
    let mut all: Vec<Alphabet> =
        modes.iter().flat_map(|mode| [money(*mode, false), tokens(*mode, false)]).collect();
    all.push(cheaper(false));
    all.extend([plain, time, lost_writes, people, context, selection, five_passes].map(|make| make(false)));
    all.extend([verdicts, tools, stops, crashes, routes, cuts].map(|make| make()));
    all.extend(conversations::all());
    all.extend(judged::all());
    all.extend(planned::all());
    all.extend(earned::all());
    all
}

/// Small limits: three passes, two actions.
fn small() -> Setup {
    run().limits(|limits| {
        limits.passes = 3;
        limits.tool_calls = 4;
        limits.model_calls = 6;
        limits.wall_ms = 60_000;
        limits.person_ms = Some(5_000);
    })
}

pub fn base(name: &'static str, setup: Setup) -> Alphabet {
    Alphabet {
        name,
        setup,
        history: None,
        read_before: Taint::default(),
        requested_before: Vec::new(),
        instructions: Vec::new(),
        replies: Vec::new(),
        repairs: Vec::new(),
        selections: Vec::new(),
        failures: Vec::new(),
        usages: vec![Used::Fixed(100, 50)],
        prompts: vec![(2_000, 0)],
        observations: |key| vec![found(&key.to_string())],
        answers: Vec::new(),
        checks: Vec::new(),
        asked: vec![None],
        saves: vec![saved_at("x")],
        stops: false,
        resumes: Vec::new(),
        steps: vec![0],
        deadlines: false,
        honest: true,
        reaches: &[],
        by_shape: false,
    }
}

pub fn replies(draft: impl IntoIterator<Item = DraftReply>) -> Vec<Reply> {
    draft.into_iter().map(|draft| draft.reply()).collect()
}

/// The same replies in every pass.
pub fn always(draft: impl IntoIterator<Item = DraftReply>) -> Vec<Vec<Reply>> {
    vec![replies(draft)]
}

fn asks(draft: DraftReply, targets: &[&str]) -> DraftReply {
    targets.iter().fold(draft, |draft, name| draft.asks("fetch_device", target(name)))
}

/// Replies of each confidence with no action, one, or two.
pub fn plain(wide: bool) -> Alphabet {
    let mut sets: Vec<&[&str]> = vec![&[], &["a"], &["b"], &["a", "b"]];
    if wide {
        sets.extend([&["c"] as &[&str], &["a", "b", "c"], &["b", "c", "d"]]);
    }
    let mut all = Vec::new();
    for confidence in ["low", "medium", "high"] {
        all.extend(sets.iter().map(|targets| asks(draft(confidence), targets)));
    }
    all.push(text("## Situation\nWithout a contract."));
    Alphabet {
        replies: always(all),
        repairs: replies([bare_draft("high"), asks(bare_draft("low"), &["a"]), text("what?")]),
        reaches: &[Confident, NoNewActions, MaxPasses],
        ..base("plain", small().limits(|limits| limits.tool_calls = 6))
    }
}

/// Every verdict, and every way in which a reply can end the run.
pub fn verdicts() -> Alphabet {
    let setup = small().with(|spec| spec.gate.forbid = vec!["fetch_docs".into()]);
    let setup = setup.limits(|limits| limits.tool_calls = 2);
    let low = || draft("low");
    let all = [
        low().asks("fetch_docs", target("a")),
        low().asks("wipe", target("a")),
        low().asks("nope", target("a")),
        low().asks("fetch_device", json!({"limit": "x"})),
        low().asks_as("nice_to_have", "fetch_device", target("a")),
        low().asks("fetch_device", target("a")).asks("fetch_devices", target("a")),
        low().asks_as("recommended", "fetch_device", target("a")).asks("fetch_device", target("b")),
        low().asks("fetch_device", target("c")).asks("wipe", target("b")),
        low().asks("fetch_device", target("d")).asks("fetch_device", target("e")),
        draft("high").member("refuse", json!("no")),
        low().member("escalate", json!("too hard")).asks("fetch_device", target("a")),
        draft("high").asks("fetch_docs", target("a")),
        text("I cannot.").ending(FinishReason::Refusal),
        bare_draft("high"),
    ];
    Alphabet {
        replies: always(all),
        reaches: &[
            Refused,
            NeedsHuman,
            PolicyBlocked,
            MaxToolCalls,
            NoNewActions,
            Confident,
            EvidenceMissing,
        ],
        ..base("verdicts", setup)
    }
}

/// Every status that a tool can end with, and what is asked for again after it.
pub fn tools() -> Alphabet {
    let observations = |_: CommandKey| {
        let failed = [
            Status::Empty,
            Status::RetryableError,
            Status::PermanentError,
            Status::InvalidInput,
            Status::MalformedResult,
            Status::Timeout,
            Status::Pending,
        ];
        std::iter::once(found("it")).chain(failed.map(observed)).collect()
    };
    Alphabet {
        replies: always([asks(draft("low"), &["a", "b"]), asks(draft("medium"), &["a"])]),
        observations,
        reaches: &[MaxPasses, NoNewActions],
        ..base("tools", small().limits(|limits| limits.tool_calls = 5))
    }
}

/// A stop at the gate, a stop now, a stop that is taken back, at any moment.
pub fn stops() -> Alphabet {
    Alphabet {
        replies: always([
            asks(draft("low"), &["a", "b"]),
            draft("high").asks("wipe", target("a")),
            text("## Situation\nWithout a contract."),
        ]),
        repairs: replies([asks(bare_draft("low"), &["c"])]),
        selections: replies([text(r#"[{"tool": "fetch_device", "params": {"target": "p"}}]"#), text("none")]),
        failures: vec![failure(true)],
        observations: |_| vec![found("it"), observed(Status::Cancelled)],
        answers: vec![PersonAnswer::Approved],
        stops: true,
        reaches: &[ManualStop],
        ..base("stops", small().selector(&[]).people().limits(|limits| limits.passes = 2))
    }
}

/// Deadlines at their instant and long after, jumps of the clock, and steps of no time at all.
pub fn time(wide: bool) -> Alphabet {
    let mut later = failure(true);
    later.retry_at = Some(Millis(700));
    let busy = SaveResult::Failed { message: "busy".into(), retry_at: Some(Millis(500_000)) };
    // The first step leaves time for a final pass alone, the second none.
    let steps = if wide { vec![0, 46_000, 70_000] } else { vec![0, 46_000] };
    Alphabet {
        replies: always([asks(draft("low"), &["a"]), draft("high").asks("wipe", target("a"))]),
        failures: vec![later],
        answers: vec![PersonAnswer::Approved],
        steps,
        deadlines: true,
        saves: if wide { vec![saved_at("x"), busy] } else { vec![saved_at("x")] },
        reaches: &[Timeout, MaxPasses],
        ..base(
            "time",
            small().people().saving().limits(|limits| (limits.passes, limits.model_calls) = (2, 3)),
        )
    }
}

fn failures() -> Vec<ModelFailure> {
    let with = |retryable: bool, partial: Option<&str>, usage: bool| ModelFailure {
        partial: partial.map(Into::into),
        usage: usage.then(|| used(10, 0)),
        ..failure(retryable)
    };
    let cut = format!("## Situation\nKept.\n## Findings\n{CUT}");
    let requested =
        // T12: a contract proves the section before it, and nothing that it asks for runs.
        format!("## Findings\nKept.\n## Situation\nWhole.\n{}## More\n{CUT}", asks(bare_draft("high"), &["z"]).whole_text());
    vec![
        with(true, None, true),
        with(true, None, false),
        with(false, None, true),
        with(true, Some(&cut), false),
        with(false, Some(&requested), true),
        with(true, Some(CUT), true),
    ]
}

/// Models that cannot be had, and another route beside them; a driver that is gone at any moment.
pub fn routes() -> Alphabet {
    let of_the_request =
        ModelFailure { kind: loop_core::types::FailureKind::ContentFilter, ..failure(false) };
    Alphabet {
        replies: always([
            asks(draft("low"), &["a"]),
            draft("high"),
            text("## Situation\nWithout a contract."),
        ]),
        repairs: replies([bare_draft("high")]),
        failures: vec![failure(true), failure(false), of_the_request],
        resumes: vec![0],
        reaches: &[ModelFailed, MaxModelCalls, Confident],
        ..base(
            "routes",
            small()
                .escalating()
                .with_fallback()
                .limits(|limits| (limits.passes, limits.model_calls) = (3, 7))
                .with(|spec| spec.gate.escalate_after = 1),
        )
    }
}

/// Models that fail in every way, blank replies, replies without a contract; and a driver that is gone at any moment.
pub fn crashes() -> Alphabet {
    Alphabet {
        replies: always([
            asks(draft("low"), &["a", "b"]),
            text(" \n"),
            text("## Situation\nWithout a contract."),
        ]),
        repairs: replies([bare_draft("high"), text("")]),
        failures: failures(),
        resumes: vec![0],
        reaches: &[ModelFailed, MaxModelCalls, Confident],
        ..base("crashes", small().limits(|limits| (limits.passes, limits.model_calls) = (3, 3)))
    }
}

/// Replies that were cut at their output limit or by our own cap, with and without anything to be seen, and replies that
/// call a tool where none can be called.
pub fn cuts() -> Alphabet {
    let half = format!("## Situation\nKept.\n## Findings\n{CUT}");
    let cut = |draft: DraftReply| draft.ending(FinishReason::MaxTokens);
    let native = || loop_testkit::calls(&[("fetch_device", target("a"))]);
    Alphabet {
        replies: always([
            asks(draft("low"), &["a"]),
            cut(asks(draft("low"), &["b"])),
            cut(text("## Situation\nWithout a contract.")),
            text(&half).ending(FinishReason::Capped),
            cut(text("")),
            text(CUT).ending(FinishReason::Capped),
            native(),
        ]),
        repairs: replies([bare_draft("high"), cut(text("{\"analysis_conf"))]),
        stops: true,
        reaches: &[OutputLimit, ModelFailed, Confident, NoNewActions, MaxPasses],
        ..base("cuts", small().limits(|limits| (limits.passes, limits.model_calls) = (3, 6)))
    }
}

/// A driver that is gone while writes run and people are asked.
pub fn lost_writes(wide: bool) -> Alphabet {
    let both = draft("low").asks("restart", target("a")).asks("wipe", target("a"));
    let mut stated_first = vec![both, draft("high")];
    if wide {
        stated_first.push(draft("low").asks("restart", target("b")));
    }
    Alphabet {
        replies: always(stated_first),
        answers: vec![PersonAnswer::Approved],
        observations: |_| vec![found("it"), observed(Status::Timeout)],
        resumes: vec![0],
        reaches: &[Confident, MaxPasses],
        ..base("lost writes", small().people().limits(|limits| limits.passes = if wide { 3 } else { 2 }))
    }
}

/// People who agree, refuse, or say nothing, while the run may be stopped.
pub fn people(wide: bool) -> Alphabet {
    let both = draft("low").asks("restart", target("a")).asks("wipe", target("a"));
    let reads_too = draft("medium").asks("fetch_device", target("a")).asks("wipe", target("b"));
    Alphabet {
        replies: always([both, reads_too, draft("high")]),
        answers: vec![PersonAnswer::Approved, PersonAnswer::Denied { why: "no".into() }],
        deadlines: true,
        stops: true,
        reaches: &[Confident, MaxPasses, Timeout],
        ..base("people", small().people().limits(|limits| limits.passes = if wide { 3 } else { 2 }))
    }
}

fn poor(mode: CostMode) -> Setup {
    small().limits(|limits| {
        limits.cost_mode = mode;
        limits.model_calls = 8;
        limits.output_tokens = 1_000;
        limits.sub_call_bytes = 400;
        limits.sub_call_tokens = 300;
    })
}

fn sub_calls(key: CommandKey) -> Vec<Observation> {
    let used_by = |usage| {
        let mut observation = found(&key.to_string());
        observation.sub_call = Some(SubCallUse::new(true, usage).into());
        observation
    };
    vec![used_by(Some(used(150, 200))), used_by(None)]
}

/// Runs that are poor in money, in one of the three modes; sub-calls run side by side.
pub fn money(mode: CostMode, wide: bool) -> Alphabet {
    let (name, pico) = match mode {
        CostMode::Strict => ("money, strict", 1_600_000_000),
        CostMode::Estimated => ("money, estimated", 1_000_000_000),
        CostMode::After => ("money, after", 700_000_000),
    };
    let setup = poor(mode).limits(|limits| limits.cost = Some(PicoUsd(pico)));
    // Without a cheaper tier a refusal is one.
    let setup = setup.with(|spec| spec.models.selector = None);
    Alphabet { reaches: &[BudgetExceeded, Confident], ..spending(name, setup, mode, wide) }
}

/// Runs that are poor in money and may call the cheaper tier's model, with an escalated one, and few calls a reply.
pub fn cheaper(wide: bool) -> Alphabet {
    let setup = poor(CostMode::Estimated).escalating().limits(|limits| {
        limits.cost = Some(PicoUsd(1_000_000_000));
        limits.requested_calls = 1;
    });
    let setup = setup.with(|spec| {
        spec.gate.cheaper_tier = true;
        spec.gate.escalate_after = 1;
    });
    Alphabet {
        reaches: &[BudgetExceeded, Confident],
        ..spending("money, with a cheaper tier", setup, CostMode::Estimated, wide)
    }
}

/// Runs that are poor in tokens.
pub fn tokens(mode: CostMode, wide: bool) -> Alphabet {
    let (name, tokens) = match mode {
        CostMode::Strict => ("tokens, strict", 9_000),
        CostMode::Estimated => ("tokens, estimated", 4_000),
        CostMode::After => ("tokens, after", 3_000),
    };
    let setup = poor(mode).limits(|limits| (limits.tokens, limits.cost) = (Some(tokens), None));
    Alphabet { reaches: &[TokenLimit, Confident], ..spending(name, setup, mode, wide) }
}

fn spending(name: &'static str, setup: Setup, mode: CostMode, wide: bool) -> Alphabet {
    let docs = |draft: DraftReply, names: &[&str]| {
        names.iter().fold(draft, |draft, name| draft.asks("fetch_docs", target(name)))
    };
    let beyond = if mode == CostMode::Strict { Used::Unreported } else { Used::Hundredths(250) };
    let mut usages = vec![Used::Hundredths(60), beyond];
    // Other targets in each pass, so that sub-calls run side by side in the second one too.
    let of_pass = |[a, b]: [&str; 2]| {
        replies([docs(draft("low"), &[a, b]), draft("high"), docs(draft("medium"), &["c"])])
    };
    if wide {
        usages.push(Used::Fixed(20, 10));
    }
    Alphabet {
        replies: [["a", "b"], ["d", "e"]].map(of_pass).to_vec(),
        failures: if wide { vec![failure(true)] } else { Vec::new() },
        usages,
        prompts: vec![(1_000, 0), (3_000, 1_000)],
        observations: sub_calls,
        honest: mode == CostMode::Strict,
        ..base(name, setup)
    }
}

/// Prompts that do not fit, so that old evidence gives way to its summary.
pub fn context(wide: bool) -> Alphabet {
    let setup = small().with(|spec| {
        // A call that is lost is made again until the limits bind.
        spec.limits.model_calls = if wide { 12 } else { 4 };
        spec.models.base = ModelSpec { context_tokens: 4_000, ..model(spec.models.base.price.clone()) };
    });
    Alphabet {
        replies: always([
            asks(draft("low"), &["a", "b"]),
            asks(draft("high"), &[if wide { "c" } else { "a" }]),
        ]),
        prompts: vec![(2_000, 0), (100_000, 0)],
        resumes: vec![0],
        reaches: &[TokenLimit, MaxPasses],
        ..base("context", setup)
    }
}

/// Selecting: a selector that selects, that selects nothing, that fails; tools before the first pass; saving that fails.
pub fn selection(wide: bool) -> Alphabet {
    let setup = small().selector(&[("fetch_docs", target("d"))]).saving().limits(|limits| {
        limits.passes = 2;
        limits.selected = 1;
    });
    let two = json!([
        {"tool": "fetch_device", "params": target("a")},
        {"tool": "fetch_docs", "params": target("b")},
    ]);
    Alphabet {
        selections: replies([
            text("[]"),
            text(&two.to_string()),
            text("no idea"),
            text(r#"[{"tool": "wipe"}]"#),
        ]),
        replies: always([asks(draft("low"), &["a"]), draft("high")]),
        failures: if wide { vec![failure(true), failure(false)] } else { vec![failure(false)] },
        observations: |_| vec![found("it"), observed(Status::PermanentError)],
        saves: vec![
            saved_at("x"),
            SaveResult::Failed { message: "busy".into(), retry_at: Some(Millis(10)) },
            SaveResult::Failed { message: "broken".into(), retry_at: None },
        ],
        resumes: if wide { vec![0] } else { Vec::new() },
        reaches: &[Confident, MaxPasses],
        ..base("selection", setup)
    }
}

/// Five passes in which nothing varies but confidence, evidence and the document.
pub fn five_passes(wide: bool) -> Alphabet {
    let setup = run().escalating().limits(|limits| limits.passes = 5);
    let cites = vec![
        SectionSpec::new("situation", "Situation").required(),
        SectionSpec::new("findings", "Findings").cited(),
    ];
    let of_pass = |pass: u32| {
        let mut all = Vec::new();
        for confidence in ["low", "medium", "high"] {
            let same = bare_draft(confidence).section("Situation", "The same.");
            let changed = bare_draft(confidence).section("Situation", &format!("As pass {pass} sees it."));
            all.push(same.asks("fetch_device", target(&pass.to_string())));
            if wide || confidence == "low" {
                all.push(changed.asks("fetch_device", target(&pass.to_string())));
            }
        }
        if pass == 5 {
            all.clear();
        }
        all.push(draft("low"));
        all.push(bare_draft("high").section("Situation", "The same.").section("Findings", "Of no source."));
        all.push(bare_draft("high").section("Situation", "The same.").section("Findings", "By [E1]."));
        replies(all)
    };
    Alphabet {
        replies: (1..=5).map(of_pass).collect(),
        observations: |key| match key.pass {
            1 => vec![found(&key.to_string())],
            _ => vec![found(&key.to_string()), observed(Status::PermanentError)],
        },
        reaches: &[Confident, StaleConfidence, NoProgress, EvidenceMissing, NoNewActions, MaxPasses],
        ..base("five passes", setup.sections(cites))
    }
}

/// Everything at once, by shape.
pub fn everything(max_passes: u32) -> Alphabet {
    let setup = small().selector(&[("fetch_docs", target("d"))]).people().saving().escalating();
    let setup = setup.limits(|limits| {
        limits.passes = max_passes;
        limits.model_calls = max_passes + 4;
        limits.tool_calls = 5;
        limits.selected = 1;
    });
    let setup = setup.with(|spec| {
        spec.tools.push(ToolSpec { attempts: 1, ..tool("probe", Effect::Read) });
        spec.gate.required_tools = vec!["fetch_device".into()];
        spec.selection.defaults =
            vec![DefaultCall { tool: "fetch_docs".into(), parameters: r#"{"target":"d"}"#.into() }];
    });
    Alphabet {
        selections: replies([
            text(r#"[{"tool": "fetch_device", "params": {"target": "p"}}]"#),
            text("no idea"),
        ]),
        replies: always([
            draft("high"),
            draft("medium").asks("fetch_device", target("a")).asks("fetch_docs", target("a")),
            asks(draft("low"), &["b"]),
            bare_draft("low").asks("restart", target("a")).asks("probe", target("a")),
            draft("low").asks("wipe", target("a")),
            text("## Situation\nWithout a contract."),
            text(""),
            draft("low").member("refuse", json!("no")),
        ]),
        repairs: replies([bare_draft("high"), asks(bare_draft("medium"), &["r"]), text("what?")]),
        failures: failures(),
        usages: vec![Used::Fixed(100, 50), Used::Unreported],
        observations: |key| match key.slot {
            Slot::Action(0) => vec![found(&key.to_string()), observed(Status::RetryableError)],
            _ => vec![sub_calls(key).remove(1), observed(Status::Timeout)],
        },
        answers: vec![PersonAnswer::Approved, PersonAnswer::Denied { why: "no".into() }],
        saves: vec![
            saved_at("x"),
            SaveResult::Failed { message: "busy".into(), retry_at: Some(Millis(1_000_000)) },
        ],
        stops: true,
        resumes: vec![0],
        by_shape: true,
        reaches: &[Confident, Refused, ModelFailed, ManualStop],
        ..base("everything, by shape", setup)
    }
}
