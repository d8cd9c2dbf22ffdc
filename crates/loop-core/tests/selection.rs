//! Before the first pass: the selector's call, the tools that it selects, and the domain's defaults.

use loop_testkit::*;

use loop_core::gate::Limit;
use loop_core::reply::FinishReason;
use loop_core::run::SelectedBy;
use loop_core::types::Tier;
use loop_core::{Command, Note, StopReason, Verdict};
use serde_json::json;

fn selected_by(world: &World) -> (SelectedBy, u32) {
    let found = world.all_notes().find_map(|note| match note {
        Note::Selected { by, runs } => Some((by.clone(), *runs)),
        _ => None,
    });
    found.unwrap()
}

#[track_caller]
fn check_defaults(world: World, why: &str) {
    let (by, runs) = selected_by(&world);
    assert_eq!(runs, 1);
    assert!(matches!(&by, SelectedBy::Defaults { why: found } if found.contains(why)), "{by:?}");
    world.expect_phase("gathering").expect_tools(&["0/action-0#1 fetch_device"]);
}

fn with_defaults() -> World {
    run().selector(&[("fetch_device", target("default"))]).start()
}

#[test]
fn a_cheap_model_selects_tools_which_run_side_by_side_before_the_first_pass() {
    // S0-7, S0-15, S0-16, S0-93, S0-122, S0-132
    let world = run().selector(&[]).start().expect_call("0/select", 1);
    assert_eq!((world.call().tier, world.call().timeout_ms), (Tier::Selector, 8_000));
    let world = world
        .selected(&[("fetch_device", target("a")), ("fetch_docs", target("b"))])
        .expect_tools(&["0/action-0#1 fetch_device", "0/action-1#1 fetch_docs"])
        .finished("0/action-1", found("docs"))
        .expect_tools(&["0/action-0#1 fetch_device"])
        .finished("0/action-0", observed(loop_core::types::Status::Timeout))
        .expect_call("1/main", 1);
    // S0-93: one failure does not cancel the other. I-20: request order, not the order of completion.
    let order: Vec<&str> = world.run.evidence().iter().map(|evidence| &*evidence.tool).collect();
    assert_eq!(order, ["fetch_device", "fetch_docs"]);
    world.replied(&draft("high")).ends(StopReason::Confident);
}

#[test]
fn the_array_of_selects_is_found_in_a_fence_and_among_prose() {
    // S0-92
    for reply in [
        r#"[{"tool": "fetch_device", "params": {"target": "a"}, "reason": "r"}]"#,
        "Here [you] go:\n```json\n[{\"tool\": \"fetch_device\", \"params\": {\"target\": \"a\"}}]\n```\nDone.",
    ] {
        let world = run().selector(&[]).start().replied(&text(reply));
        assert_eq!(selected_by(&world), (SelectedBy::Selector, 1), "{reply}");
        world.expect_tools(&["0/action-0#1 fetch_device"]);
    }
}

#[test]
fn a_selector_that_fails_leaves_the_default_tools() {
    // S0-127: failed, refused, cut off, garbled, blank.
    check_defaults(with_defaults().started().failed(failure(false)), "overloaded: try later");
    check_defaults(with_defaults().started().failed(failure(true)), "overloaded");
    check_defaults(with_defaults().replied(&text("I would rather not.")), "no JSON array");
    check_defaults(
        with_defaults().replied(&text("[{\"tool\": \"fetch_dev").ending(FinishReason::MaxTokens)),
        "cut at its output limit",
    );
    // P6: the true reason.
    check_defaults(with_defaults().replied(&text("")), "its reply was empty");
    check_defaults(with_defaults().replied(&text("").ending(FinishReason::MaxTokens)), "used all its output");
    let native = loop_testkit::calls(&[("fetch_device", target("a"))]);
    check_defaults(with_defaults().replied(&native), "calls a tool natively");
    check_defaults(with_defaults().replied(&text("[1, 2]")), "no JSON array");
    check_defaults(with_defaults().replied(&text("No.").ending(FinishReason::Refusal)), "it refused");
    let huge = loop_core::run::PromptSize { bytes: 1_000_000, shared_bytes: 0 };
    check_defaults(with_defaults().started_with(huge), "refused: context");
    let poor =
        run().selector(&[("fetch_device", target("d"))]).limits(|limits| limits.model_calls = 1).start();
    check_defaults(poor.started(), "refused: model_calls");
}

#[test]
fn a_selector_that_is_lost_again_and_again_leaves_the_default_tools_and_a_call_for_the_document() {
    // S0-127, B14: no kill is its fault, and the limits bind.
    let mut world = with_defaults();
    for attempt in 1..=11 {
        world = world.expect_call("0/select", attempt).started().resumed(5);
    }
    check_defaults(world.expect_call("0/select", 12).started(), "refused: model_calls");
}

#[test]
fn a_selector_that_selects_nothing_is_followed_by_the_first_pass() {
    let world = with_defaults().selected(&[]).expect_call("1/main", 1);
    assert_eq!(selected_by(&world), (SelectedBy::Selector, 0));
}

#[test]
fn no_more_than_five_tools_are_selected() {
    // S0-124
    let selections: Vec<_> =
        ["a", "b", "c", "d", "e", "f", "g"].map(|name| ("fetch_device", target(name))).into();
    let world = run().selector(&[]).start().selected(&selections);
    assert_eq!(world.tools().len(), 5);
    assert_eq!(world.verdicts()[4..], ["run", "over_limit", "over_limit"]);
    let setting = world.run.actions().last().map(|action| action.verdict.clone());
    assert_eq!(setting, Some(Verdict::OverLimit { limit: Limit::Selected }));
}

#[test]
fn selected_tools_count_as_tool_calls_and_are_held_to_their_limit() {
    // S0-124
    let selections =
        [("fetch_device", target("a")), ("fetch_device", target("b")), ("fetch_device", target("c"))];
    let world = run().selector(&[]).limits(|limits| limits.tool_calls = 2).start().selected(&selections);
    assert_eq!((world.tools().len(), world.run.totals().tool_calls), (2, 2));
    let world = world.all_finished().replied(&draft("low").asks("fetch_device", target("d")));
    assert_eq!(world.outcome().stop.reason(), StopReason::MaxToolCalls);
}

#[test]
fn bad_selects_are_judged_like_actions() {
    // S0-d2, S4-80
    let selections = [
        ("fetch_device", target("a")),
        ("fetch_devices", target("a")),
        ("fetch", target("a")),
        ("fetch_device", json!({})),
    ];
    let world = run().selector(&[]).start().selected(&selections);
    assert_eq!(world.verdicts(), ["run", "duplicate", "unknown_tool", "invalid_arguments"]);
}

#[test]
fn a_selection_runs_only_what_reads_and_asks_nobody() {
    // G2: nothing has been read yet, and there is no document.
    let question = |spec: &mut loop_core::RunSpec| {
        let mut ask = tool("ask", loop_core::types::Effect::Read);
        ask.policy.asks_person = true;
        spec.tools.push(ask);
    };
    let selections = [
        ("wipe", target("a")),
        ("restart", target("a")),
        ("ask", target("a")),
        ("fetch_device", target("a")),
    ];
    for setup in [run().selector(&[]), run().selector(&[]).people()] {
        let world = setup.with(question).start().selected(&selections);
        assert_eq!(world.asks(), [""; 0]);
        let world = world.expect_tools(&["0/action-3#1 fetch_device"]);
        assert_eq!(world.verdicts(), ["denied", "denied", "denied", "run"]);
        let why = world.run.actions()[0].verdict.reason();
        assert_eq!(why, "before the first pass only tools that read are run");
        // What was denied here may be asked for once something was read.
        let world = world.all_finished().replied(&draft("low").asks("wipe", target("a")));
        assert_eq!(world.verdicts()[4..], ["needs_person"]);
    }
    // A consent given beforehand does not change that, and neither does a domain's default.
    let approved = run().selector(&[]).with(|spec| spec.gate.approved = vec!["restart".into()]);
    let world = approved.start().selected(&[("restart", target("a"))]).expect_call("1/main", 1);
    assert_eq!(world.verdicts(), ["denied"]);
    let world =
        run().selector(&[("restart", target("a"))]).start().replied(&text("no")).expect_call("1/main", 1);
    assert_eq!(world.verdicts(), ["denied"]);
    // Where no tool could be chosen nobody is asked to choose.
    let writes = run().selector(&[]).with(|spec| spec.tools.retain(|tool| !tool.effect.is_read()));
    writes.start().expect_call("1/main", 1);
}

#[test]
fn a_garbled_selection_leaves_the_default_tools_whatever_brackets_are_in_it() {
    // G5
    for garbled in [
        "I would look at logs[] first.",
        "[{\"tool\": \"fetch_device\", \"params\": {\"target\": } }]\n[]",
        "{\"tools\": []}",
        "[]{\"tool\": \"fetch_device\"}",
        "[\"fetch_device\"] []",
        "[{\"tool\": \"fetch_device\"",
        "[{\"tool\": \"fetch_device\"}, 7]",
        "[{\"name\": \"fetch_device\"}]",
        "[[]]",
        "steps = []",
        "[{\"tool\": 7}]",
        "[]\n[x]",
        "[x]\n[]",
        "[]\nor {}",
        "{}\n[]",
        "none: []",
        "[] is none",
    ] {
        check_defaults(with_defaults().replied(&text(garbled)), "no JSON array");
    }
    for empty in ["[]", " [ ]\n", "```json\n[]\n```", "No tool is needed.\n\n[]\n", "```\n[\n]\n```\nDone."] {
        let world = with_defaults().replied(&text(empty)).expect_call("1/main", 1);
        assert_eq!(selected_by(&world), (SelectedBy::Selector, 0), "{empty}");
    }
}

#[test]
fn a_member_of_a_selection_that_is_given_twice_is_told() {
    // G5
    let twice = r#"[{"tool": "fetch_device", "params": {"target": "a", "target": "b"}, "reason": "r"}]"#;
    let world =
        run().selector(&[]).start().replied(&text(twice)).expect_tools(&["0/action-0#1 fetch_device"]);
    let reported = world.all_notes().find_map(|note| match note {
        Note::ReplyRead { pass: 0, parse_warnings, .. } => Some(parse_warnings.clone()),
        _ => None,
    });
    let pointer = "/0/params/target".into();
    assert_eq!(reported, Some(vec![loop_core::reply::ParseWarning::RepeatedMember { pointer }]));
}

#[test]
fn nothing_is_selected_where_nothing_may_run() {
    for setup in [
        run().selector(&[]).limits(|limits| limits.selected = 0),
        run().selector(&[]).with(|spec| spec.tools.clear()),
        run(),
    ] {
        setup.start().expect_call("1/main", 1).replied(&draft("high")).ends(StopReason::Confident);
    }
}

#[test]
fn a_smart_tool_is_granted_a_call_with_its_limits() {
    // S0-39, S0-65, S0-74, S0-131: 512 tokens, 10 seconds; a plain tool is granted none.
    let world =
        run().selector(&[]).start().selected(&[("fetch_docs", target("a")), ("fetch_device", target("a"))]);
    let budgets: Vec<_> = world.tools().into_iter().map(|tool| tool.sub_call).collect();
    let budget = budgets[0].unwrap();
    assert_eq!((budget.output_tokens, budget.timeout_ms), (512, 10_000));
    assert_eq!(budgets[1], None);
    assert!(
        world
            .run
            .commands()
            .iter()
            .all(|command| matches!(command, Command::RunTool(tool) if tool.timeout_ms == 12_000))
    );
}

#[test]
fn only_a_read_that_asks_no_person_may_be_selected() {
    // Such a tool is not offered for selection either.
    let setup = run();
    let selectable = |name: &str| loop_core::policy::is_selectable(setup.spec.tool(name).unwrap());
    assert!(selectable("fetch_device"));
    assert!(!selectable("wipe"));
    let mut asks = setup.spec.tool("fetch_device").unwrap().clone();
    asks.policy.asks_person = true;
    assert!(!loop_core::policy::is_selectable(&asks));
}

#[test]
fn without_tools_to_select_the_first_pass_begins_at_once() {
    // S0-124
    let world = run().selector(&[]).limits(|limits| limits.selected = 0).start().expect_call("1/main", 1);
    assert_eq!(world.run.totals().tool_calls, 0);
}
