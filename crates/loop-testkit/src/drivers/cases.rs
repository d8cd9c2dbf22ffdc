//! The cases of the driver suite: every way in which a run ends, and what can happen before.

use loop_core::reply::FinishReason;
use loop_core::run::{PersonAnswer, StopMode};
use loop_core::spec::{OpinionWhen, OutputSpec, SecondOpinion, SectionSpec, ToolPolicy, ToolSpec};
use loop_core::types::{FailureKind, Tier};
use loop_core::{EventKind, StopReason};
use serde_json::{Value, json};

use super::case::{DriverCase, ModelEnd, ModelPlay, ToolEnd, ToolPlay, YES, finds, replies};
use super::{QUESTION, TOOLS};
use crate::{DraftReply, NONCE, Setup, bare_draft, calls, takes, target, text, tool, used};

/// Every case.
pub fn cases() -> Vec<DriverCase> {
    [documents(), limits(), effects(), people(), models(), native()].concat()
}

/// The tools of all cases.
pub(super) fn tools() -> Vec<ToolSpec> {
    let args = || takes(json!({"target": {"type": "string"}}));
    let question = ToolPolicy { asks_person: true, ..ToolPolicy::default() };
    let mut tools: Vec<ToolSpec> =
        TOOLS.iter().map(|(name, effect)| ToolSpec { args: args(), ..tool(name, *effect) }).collect();
    let ask = tools.iter_mut().filter(|tool| &*tool.name == QUESTION);
    ask.for_each(|tool| tool.policy = question.clone());
    tools
}

fn document() -> Setup {
    let setup = Setup::document("cases").goal("Help.").section(SectionSpec::new("situation", "Situation"));
    setup.with(|spec| spec.tools = tools()).approving(&["change"])
}

fn draft(confidence: &str) -> DraftReply {
    bare_draft(confidence).section("Situation", "The disk is full.")
}

fn sure(after_ms: u64) -> ModelPlay {
    replies(after_ms, draft("high"))
}

fn asks(after_ms: u64, tool: &str, targets: &[&str]) -> ModelPlay {
    let draft = targets.iter().fold(draft("low"), |draft, it| draft.asks(tool, target(it)));
    replies(after_ms, draft)
}

fn fails(after_ms: u64, kind: FailureKind, retry_ms: Option<u64>) -> ModelPlay {
    ModelPlay { after_ms, end: ModelEnd::Fails { kind, retry_ms } }
}

fn does(after_ms: u64, end: ToolEnd) -> ToolPlay {
    ToolPlay { after_ms, end }
}

fn selects(after_ms: u64, targets: &[&str]) -> ModelPlay {
    let selections =
        targets.iter().map(|it| json!({"tool": "look", "params": {"target": it}, "reason": "to know"}));
    replies(after_ms, text(&Value::Array(selections.collect()).to_string()))
}

fn documents() -> Vec<DriverCase> {
    use StopReason::{Confident, NoNewActions, NoProgress, Refused, StaleConfidence};
    let find = |setup| DriverCase::new("refined", setup, [asks(300, "look", &["A"]), sure(200)], Confident);
    vec![
        DriverCase::new("one pass", document(), [sure(100)], Confident),
        find(document()).tool("A", [finds(40, "disk 100 %")]),
        DriverCase { name: "saved", ..find(document().saving()).tool("A", [finds(40, "disk 100 %")]) },
        DriverCase::new(
            "selected",
            document().selector(&[]),
            [selects(100, &["A", "B"]), sure(200)],
            Confident,
        )
        .tool("A", [finds(50, "a")])
        .tool("B", [finds(20, "b")]),
        DriverCase::new(
            "selection fails",
            document().selector(&[("look", target("D"))]),
            [fails(100, FailureKind::Auth, None), sure(200)],
            Confident,
        )
        .tool("D", [finds(50, "d")]),
        DriverCase::new(
            "parallel batch",
            document(),
            [asks(100, "look", &["A", "B", "C"]), sure(100)],
            Confident,
        )
        .tool("A", [finds(300, "a")])
        .tool("B", [does(100, ToolEnd::Fails)])
        .tool("C", [finds(200, "c")]),
        DriverCase::new(
            "repeated call",
            document(),
            [asks(100, "look", &["A"]), asks(100, "look", &["A"])],
            NoNewActions,
        )
        .tool("A", [finds(30, "a")]),
        DriverCase::new(
            "unknown tool",
            document(),
            [asks(100, "nope", &["A"]), asks(100, "nope", &["A"])],
            NoNewActions,
        ),
        DriverCase::new(
            "repaired contract",
            document(),
            [replies(100, text("## Situation\n\nThe disk is full.")), replies(50, bare_draft("high"))],
            Confident,
        ),
        DriverCase::new(
            "stale",
            document(),
            [asks(100, "look", &["A"]), asks(100, "look", &["B"]), asks(100, "look", &["C"])],
            StaleConfidence,
        ),
        DriverCase::new(
            "no progress",
            document().gate(|gate| gate.stale = loop_core::spec::Stale::Off),
            [
                asks(100, "look", &["A"]),
                asks(100, "look", &["B"]),
                asks(100, "look", &["C"]),
                asks(100, "look", &["D"]),
            ],
            NoProgress,
        ),
        DriverCase::new(
            "refused",
            document(),
            [replies(100, text("I cannot help.").ending(FinishReason::Refusal))],
            Refused,
        ),
    ]
}

fn limits() -> Vec<DriverCase> {
    use StopReason::{BudgetExceeded, MaxModelCalls, MaxPasses, MaxToolCalls, Timeout, TokenLimit};
    let two = || [asks(100, "look", &["A"]), replies(100, draft("medium"))];
    let dear = |tokens| replies(100, draft("low").asks("look", target("A")).using(Some(used(tokens, 100))));
    let limited = |name, setup, models: Vec<ModelPlay>, ends| {
        DriverCase::new(name, setup, models, ends).tool("A", [finds(30, "a")])
    };
    vec![
        limited("passes", document().limits(|it| it.passes = 2), two().into(), MaxPasses),
        limited("model calls", document().limits(|it| it.model_calls = 2), two().into(), MaxModelCalls),
        limited(
            "tool calls",
            document().limits(|it| it.tool_calls = 1),
            vec![asks(100, "look", &["A"]), asks(100, "look", &["B"]), replies(100, draft("medium"))],
            MaxToolCalls,
        ),
        // 0.5 million tokens cost half of the limit.
        limited("cost", document(), vec![dear(1_000_000)], BudgetExceeded),
        limited("tokens", document().limits(|it| it.tokens = Some(50_000)), vec![dear(49_000)], TokenLimit),
        // The tool ends within the time that is left for the final pass.
        DriverCase::new(
            "time",
            document().limits(|it| it.wall_ms = 60_000),
            [asks(36_000, "look", &["A"]), replies(500, draft("medium"))],
            Timeout,
        )
        .tool("A", [finds(11_000, "a")]),
        limited("no pass", document().limits(|it| it.passes = 0), Vec::new(), MaxPasses),
    ]
}

fn effects() -> Vec<DriverCase> {
    use StopReason::{Confident, PolicyBlocked};
    let act = |name, tool: &str, setup: Setup| {
        DriverCase::new(name, setup, [asks(100, tool, &["A"]), sure(100)], Confident)
    };
    vec![
        act("keyed write", "change", document()).tool("A", [finds(40, "changed")]),
        act("write fails for now", "change", document())
            .tool("A", [does(40, ToolEnd::FailsForNow), finds(30, "changed")]),
        act("read fails for now", "look", document())
            .tool("A", [does(40, ToolEnd::FailsForNow), finds(30, "a")]),
        act("tool takes too long", "look", document()).tool("A", [does(0, ToolEnd::Hangs)]),
        act("tool is polled", "look", document())
            .tool("A", [does(40, ToolEnd::Pending(2_000)), finds(30, "a")]),
        act("forbidden", "wipe", document().gate(|gate| gate.forbid = vec!["wipe".into()]))
            .ending(PolicyBlocked),
        act("in doubt", "wipe", document().approving(&["wipe"])).tool("A", [does(40, ToolEnd::InDoubt)]),
        // Both begin late, so that the clock of the run is ahead of any other one.
        DriverCase {
            dies: Some("A"),
            models: vec![asks(50_000, "change", &["A"]), sure(100)],
            ..act("driver dies in a keyed write", "change", document())
                .tool("A", [does(0, ToolEnd::Hangs), finds(40, "changed")])
        },
        DriverCase {
            dies: Some("A"),
            models: vec![asks(50_000, "wipe", &["A"]), sure(100)],
            ..act("driver dies in a write for good", "wipe", document().approving(&["wipe"]))
                .tool("A", [does(0, ToolEnd::Hangs)])
        },
        DriverCase {
            dies: Some("A"),
            models: vec![asks(50_000, "look", &["A"]), sure(100)],
            ..act("driver dies in a read", "look", document())
                .tool("A", [does(0, ToolEnd::Hangs), finds(40, "a")])
        },
    ]
}

fn people() -> Vec<DriverCase> {
    use StopReason::{Confident, ManualStop};
    let act = |name, tool: &str| {
        DriverCase::new(name, document().people(), [asks(100, tool, &["A"]), sure(100)], Confident)
            .tool("A", [finds(40, "wiped")])
    };
    let denied = PersonAnswer::Denied { why: "not today".into() };
    let answered = PersonAnswer::Answered { text: "the small one".into() };
    let batch = |name, how| {
        let models = [asks(100, "look", &["A", "B"]), replies(100, draft("medium"))];
        DriverCase::new(name, document(), models, ManualStop)
            .tool("A", [finds(50, "a")])
            .tool("B", [finds(500, "b")])
            .say("B", 200, EventKind::StopRequested { how })
    };
    vec![
        act("approved", "wipe").answer("1/action-0", YES),
        act("denied", "wipe").answer("1/action-0", denied),
        act("not answered", "wipe"),
        act("question", "ask").answer("1/action-0", answered),
        batch("stop at the gate", StopMode::AtGate),
        batch("stop now", StopMode::Now),
        DriverCase::new("instruction", document(), [asks(100, "look", &["A"]), sure(100)], Confident)
            .tool("A", [finds(500, "a")])
            .say("A", 100, EventKind::Instruction { text: "Look at the logs too.".into() }),
    ]
}

fn models() -> Vec<DriverCase> {
    use StopReason::{Confident, EvidenceMissing, ModelFailure};
    let busy = FailureKind::Overloaded;
    let verified = |name, answer: &str, ends| {
        let section = SectionSpec { verify: true, ..SectionSpec::new("situation", "Situation") };
        let opinion = SecondOpinion { tier: Tier::Base, when: OpinionWhen::Always };
        let setup = document().sections(vec![section]).unrevised();
        let setup = setup.gate(|gate| gate.second_opinion = Some(opinion));
        DriverCase::new(name, setup, [sure(100), replies(100, text(&format!("{NONCE}: {answer}")))], ends)
    };
    let half = || text("## Situation\n\nThe disk is full.\n\n## Fin");
    vec![
        DriverCase::new(
            "provider is busy once",
            document(),
            [fails(30, busy, Some(700)), sure(100)],
            Confident,
        ),
        DriverCase::new(
            "provider is busy",
            document(),
            [fails(30, busy, Some(700)), fails(30, busy, Some(900)), fails(30, busy, Some(900))],
            ModelFailure,
        ),
        DriverCase::new(
            "credential is wrong",
            document(),
            [fails(30, FailureKind::Auth, None)],
            ModelFailure,
        ),
        DriverCase::new(
            "another route",
            document().with_fallback(),
            [fails(30, FailureKind::Auth, None), sure(100)],
            Confident,
        ),
        DriverCase::new(
            "reply breaks off",
            document(),
            [ModelPlay { after_ms: 60, end: ModelEnd::BreaksOff(half().into()) }, sure(100)],
            Confident,
        ),
        verified("second opinion: yes", "yes", Confident),
        verified("second opinion: no", "no", EvidenceMissing),
    ]
}

fn native() -> Vec<DriverCase> {
    use StopReason::{Completed, MaxAttempts};
    let conversation = || {
        let setup = Setup::conversation("cases").with(|spec| spec.tools = tools());
        setup.approving(&["change"])
    };
    let output = |attempts| {
        let setup = Setup::output("cases", OutputSpec { attempts, ..OutputSpec::new("look") });
        setup.with(|spec| spec.tools = tools())
    };
    let gives = |name: &str| replies(100, calls(&[("look", target(name))]));
    let tried = |name, attempts, validations: Vec<Option<&'static str>>, ends| DriverCase {
        validations,
        ..DriverCase::new(name, output(attempts), [gives("x"), gives("y")], ends)
    };
    vec![
        DriverCase::new(
            "conversation",
            conversation(),
            [
                replies(100, calls(&[("look", target("A")), ("change", target("B")), ("nope", target("C"))])),
                replies(100, text("Done.")),
            ],
            Completed,
        )
        .tool("A", [finds(40, "a")])
        .tool("B", [finds(30, "b")]),
        DriverCase::new(
            "conversation, side by side",
            conversation().parallel(),
            [
                replies(100, calls(&[("look", target("A")), ("look", target("B"))])),
                replies(100, text("Done.")),
            ],
            Completed,
        )
        .tool("A", [finds(400, "a")])
        .tool("B", [finds(30, "b")]),
        tried("output", 1, vec![None], Completed).with_models([gives("x")]),
        tried("output is repaired", 2, vec![Some("too small"), None], Completed),
        tried("output stays invalid", 2, vec![Some("too small"), Some("too large")], MaxAttempts),
    ]
}

impl DriverCase {
    fn ending(self, ends: StopReason) -> Self {
        Self { ends, ..self }
    }

    fn with_models(self, models: impl IntoIterator<Item = ModelPlay>) -> Self {
        Self { models: models.into_iter().collect(), ..self }
    }
}
