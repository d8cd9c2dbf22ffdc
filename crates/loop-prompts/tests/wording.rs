//! What prompts must say, row by row of the requirements, held against the rendered text.

use crate::common;

use common::*;
use loop_core::spec::Selection;
use loop_core::types::{Observation, Status};
use loop_llm::Message;
use loop_prompts::{FilterQuestion, Layout, Prompt, Prompts};

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
    }
}

fn second_pass(instruction: impl Fn(&str) -> Observation) -> Prompt {
    let mut world = start(spec(), item(), prompts());
    world.replied(&contract(
        "low",
        &[("fetch_bike", "FR-0042"), ("fetch_part", "P-1"), ("fetch_wheel", "W-1")],
    ));
    world.tools_end(instruction);
    world.prompt()
}

#[test]
fn each_call_has_its_line_among_the_executed_tools() {
    // S0-112
    let instruction = |parameters: &str| match parameters.contains("P-1") {
        true => Observation::failed(Status::Timeout, "fetch_part", "timeout"),
        false => ok("found 1 item", "x"),
    };
    let expected = "## Tools Already Executed\n\n\
        - fetch_bike (target: FR-0042): Success — found 1 item [E1]\n\
        - fetch_part (target: P-1): Failed — timeout [E2]\n\
        - fetch_wheel (target: W-1): Failed — no tool has this name";
    says(second_pass(instruction).turns[2].text(), &[expected]);

    // The target is optional.
    let mut spec = spec();
    spec.tools[0].args = loop_core::spec::ArgSpec::from_schema(&serde_json::json!({"type": "object"}));
    let mut world = start(spec, item(), prompts());
    world.replied(&contract("low", &[("fetch_bike", "ignored")]));
    world.tools_end(|_| ok("found 1 item", "x"));
    says(world.prompt().turns[2].text(), &["\n- fetch_bike: Success — found 1 item [E1]"]);
}

#[test]
fn evidence_in_the_system_prompt_grows_and_the_item_becomes_compact() {
    // S0-133, S0-134, S0-136: the founding layout, which ADR 4 made a setting.
    let mut world = start(spec(), item(), in_layout(Layout::SystemEvidence));
    let one = world
        .replied(&format!("## Next steps\n\nLook.\n\n{}", contract("low", &[("fetch_bike", "FR-0042")])));
    world.tools_end(|_| ok("found 1 item", "first body"));
    let two = world.replied(&contract("low", &[("fetch_part", "P-1")]));
    world.tools_end(|_| ok("found 1 item", "second body"));
    let three = world.prompt();
    says(&two.system, &["first body"]);
    says(&three.system, &["first body", "second body"]);
    assert!(three.system.starts_with(&*two.system) && two.system.starts_with(&*one.system));
    let user = three.turns[0].text();
    says(
        user,
        &[
            "The chain of FR-0042 slips.",
            "## Next steps\n\nLook.",
            "## Tools Already Executed",
            "ONLY output sections",
        ],
    );
    assert!(!user.contains("third gear") && !user.contains("first body"), "{user}");
    says(one.turns[0].text(), &["third gear"]);
}

#[test]
fn what_was_selected_stands_in_the_first_system_prompt_of_the_founding_layout() {
    // The founding layout, which ADR 4 made a setting.
    let mut spec = spec();
    spec.selection = Selection::default();
    let mut world = start(spec, item(), in_layout(Layout::SystemEvidence));
    world.replied(r#"[{"tool": "fetch_bike", "params": {"target": "FR-0042"}, "reason": "named"}]"#);
    world.tools_end(|_| ok("found 1 item", "selected body"));
    let first = world.prompt();
    says(&first.system, &["selected body"]);
    assert!(!first.turns[0].text().contains("selected body"));
}

#[test]
fn a_filter_prompt_stays_within_the_granted_bytes() {
    let results: Vec<String> = (0..200).map(|n| format!("Result {n} {}", "é".repeat(100))).collect();
    let ask = |bytes| {
        prompts().filter(FilterQuestion {
            title: "Chain",
            target: None,
            instruction: None,
            results: &results,
            bytes,
        })
    };
    let shown = |prompt: &Prompt| prompt.turns[0].text().matches("Result ").count();
    let bare = ask(0);
    assert_eq!(shown(&bare), 0);
    let mut before = 0;
    for bytes in (bare.size.bytes..50_000).step_by(997) {
        let prompt = ask(bytes);
        assert!(prompt.size.bytes <= bytes, "{} > {bytes}", prompt.size.bytes);
        assert_eq!(prompt.size.bytes, common::bytes(&prompt).len() as u64);
        assert!(shown(&prompt) >= before, "more bytes show no fewer results");
        before = shown(&prompt);
        // What is left out would not have fitted: the most results are shown.
        let next = format!("\n{before}: {}", results.get(before).cloned().unwrap_or_default());
        assert!(before == 200 || before == 0 || prompt.size.bytes + next.len() as u64 >= bytes);
    }
    assert_eq!(before, 200);
}

#[test]
fn a_filter_template_that_shows_results_twice_stays_within_the_granted_bytes() {
    let file =
        include_str!("../templates/filter.md").replace("{{ results }}", "{{ results }}\n{{ results }}");
    let prompts = Prompts::with_overrides([("filter.md".to_owned(), file)], Layout::Append).unwrap();
    let results: Vec<String> = (0..40).map(|n| format!("Result {n}")).collect();
    let prompt = prompts.filter(FilterQuestion {
        title: "Chain",
        target: None,
        instruction: None,
        results: &results,
        bytes: 900,
    });
    assert!(prompt.size.bytes <= 900 && prompt.turns[0].text().contains("0: Result 0"), "{}", shown(&prompt));
}

#[test]
fn nothing_from_outside_is_a_control_a_template_or_a_mark() {
    // I-24, K6
    let mut spec = spec();
    spec.limits.passes = 2;
    let item = loop_core::WorkItem {
        title: hostile().into(),
        full: hostile().into(),
        compact: hostile().into(),
        ..item()
    };
    for layout in [Layout::Append, Layout::SystemEvidence] {
        let mut world = start(spec.clone(), item.clone(), in_layout(layout));
        world.replied(&contract("low", &[("fetch_bike", &hostile())]));
        world.tools_end(|_| Observation::new(Status::Ok, hostile(), hostile(), "{}"));
        let prompt = world.prompt();
        // The model's own replies go back as they came.
        let ours = |turn: &&Message| matches!(turn, Message::User { .. });
        let text = std::iter::once(&*prompt.system)
            .chain(prompt.turns.iter().filter(ours).map(Message::text))
            .collect::<Vec<_>>()
            .join("\n");
        let hidden = |c: &char| {
            c.is_control() && *c != '\n' && *c != '\t'
                || "\u{202e}\u{202c}\u{200b}\u{feff}\u{e0069}\u{e0067}".contains(*c)
        };
        assert_eq!(text.chars().find(hidden), None);
        says(&text, &["{{ 7*7 }}", "[31mred[0m gnp.exe hidden [nonce]"]);
        // The nonce stands where this crate puts it: in what names it, and in marks.
        for line in text.lines().filter(|line| line.contains(NONCE)) {
            let ours = line.starts_with("The nonce of this run is `n-7f3a`")
                || line.starts_with("- End with the contract block and the nonce `n-7f3a`")
                || ["<<<E0 n-7f3a>>>", "<<<end E0 n-7f3a>>>", "<<<E1 n-7f3a>>>", "<<<end E1 n-7f3a>>>"]
                    .contains(&line);
            assert!(ours, "{line}");
        }
        assert_eq!(text.matches("<<<end E1 n-7f3a>>>").count(), 1);
    }
}

// S0-73
#[test]
fn a_filter_says_what_makes_a_result_relevant_where_its_tool_does() {
    let results = ["a".to_owned()];
    let prompt = |instruction| {
        let question = FilterQuestion {
            title: "Pump",
            target: Some("pump"),
            instruction,
            results: &results,
            bytes: 9_000,
        };
        prompts().filter(question).turns[0].text().to_owned()
    };
    assert!(
        prompt(Some("orders\nthat are late"))
            .contains("Looking for: pump\nRelevant is: orders that are late\n")
    );
    assert!(!prompt(None).contains("Relevant is"));
}
