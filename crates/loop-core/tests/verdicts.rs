//! Verdicts: every action gets one, with its reason, and it is kept.

use loop_testkit::*;

use std::sync::Arc;

use loop_core::run::PersonAnswer;
use loop_core::spec::OnInvalid;
use loop_core::{Note, StopReason, Verdict};
use serde_json::{Value, json};

fn verdict(tool: &str, parameters: Value) -> Verdict {
    run().start().replied(&draft("low").asks(tool, parameters)).run.actions()[0].verdict.clone()
}

#[test]
fn a_tool_is_named_exactly_or_by_alias_and_never_by_a_part_of_its_name() {
    // L16, S0-84, S0-87, S0-88, S0-d1, S0-d2: similar names are told, not run.
    assert_eq!(verdict("fetch_device", target("a")), Verdict::Run);
    assert_eq!(verdict("fetch_devices", target("a")), Verdict::Run);
    for wrong in ["fetch", "Fetch_Device", " fetch_device", "", "device", "fetch_device_info"] {
        let found = verdict(wrong, target("a"));
        assert!(matches!(found, Verdict::UnknownTool { .. }), "{wrong}: {found:?}");
    }
    let similar = Verdict::UnknownTool { similar: vec!["fetch_device".into(), "fetch_docs".into()] };
    assert_eq!(verdict("fetch_devise", target("a")), similar);
    assert_eq!(verdict("zzz", target("a")), Verdict::UnknownTool { similar: vec![] });
    assert_eq!(similar.reason(), "no tool has this name; similar names: fetch_device, fetch_docs");
}

#[test]
fn bad_arguments_name_their_place() {
    // S4-10
    // S4-80, L17: nothing is run for them, whatever stands beside them.
    let world = run().start().replied(&draft("low").asks("fetch_device", json!({})));
    assert_eq!((world.tools(), world.run.totals().tool_calls), (Vec::new(), 0));
    let invalid = |pointer: &str, message: &str| Verdict::InvalidArguments {
        pointer: pointer.into(),
        message: message.into(),
    };
    assert_eq!(verdict("fetch_device", json!({})), invalid("/target", "is required"));
    assert_eq!(
        verdict("fetch_device", json!({"target": 1})),
        invalid("/target", "expected a string, found a number")
    );
    assert_eq!(verdict("fetch_device", json!("a")), invalid("", "expected an object, found a string"));
    assert_eq!(invalid("/target", "is required").reason(), "/target: is required");
}

#[test]
fn a_required_text_that_is_blank_is_no_argument_where_the_schema_wants_a_character() {
    // G6, S4-80; issue 40, H9
    let invalid =
        |pointer: &str| Verdict::InvalidArguments { pointer: pointer.into(), message: "is blank".into() };
    let judged = |schema: &Value, arguments: Value| {
        let setup = run().with(|spec| spec.tools[0].args = loop_core::spec::ArgSpec::from_schema(schema));
        let world = setup.start().replied(&draft("low").asks("fetch_device", arguments));
        world.run.actions()[0].verdict.clone()
    };
    for blank in [" ", "\t\n", "\u{a0}"] {
        let wants = json!({"type": "object", "required": ["target"], "properties": {"target": {"type": "string", "minLength": 1}}});
        assert_eq!(judged(&wants, json!({ "target": blank })), invalid("/target"), "{blank:?}");
        let empty = Verdict::InvalidArguments {
            pointer: "/target".into(),
            message: "expected at least 1 characters".into(),
        };
        assert_eq!(judged(&wants, json!({"target": ""})), empty);
        // A schema that does not want one permits a blank text.
        for text in ["", blank] {
            assert_eq!(verdict("fetch_device", json!({ "target": text })), Verdict::Run, "{text:?}");
        }
    }
    let deep = json!({
        "type": "object", "required": ["who", "text", "kind"],
        "properties": {
            "who": {"type": "array", "items": {"type": "object", "required": ["a/b"], "properties": {"a/b": {"type": "string", "minLength": 1}}}},
            "text": {"type": "string", "minLength": 0},
            "note": {"type": "string", "minLength": 1},
            "kind": {"enum": ["", "x"]},
        },
    });
    let blank = json!({"who": [{"a/b": "x"}, {"a/b": " "}], "text": "t", "kind": "x"});
    assert_eq!(judged(&deep, blank), invalid("/who/1/a~1b"));
    // What need not be there may be blank, and so may what the schema says so of.
    let fits = json!({"who": [{"a/b": "x"}], "text": "", "note": " ", "kind": ""});
    assert_eq!(judged(&deep, fits), Verdict::Run);
}

#[test]
fn a_member_that_is_given_twice_is_no_argument_of_an_effect() {
    // G5: nobody guesses which of the two is meant.
    let twice = r#"{"target": "a", "limit": 1, "target": "b"}"#;
    let document = |tool: &str| {
        let text = format!(
            "## Situation\n\nIt is full.\n\n```json\n{{\"analysis_confidence\": \"low\", \"ai_actions\": [\
             {{\"action_id\": \"a\", \"action_type\": \"{tool}\", \"parameters\": {twice}}}]}}\n```\n"
        );
        run()
            .with(|spec| spec.gate.approved = vec!["restart".into()])
            .start()
            .replied(&loop_testkit::text(&text))
    };
    let native = |tool: &str| {
        let setup = conversation().with(|spec| spec.gate.approved = vec!["restart".into()]);
        setup.start().replied(&calls(&[]).calling(tool, twice))
    };
    let invalid =
        Verdict::InvalidArguments { pointer: "/target".into(), message: "is given more than once".into() };
    for world in [document("restart"), native("restart")] {
        assert_eq!(world.run.actions()[0].verdict, invalid);
        assert_eq!(world.tools(), []);
    }
    // Of what only reads the last one counts, and a warning says so.
    let in_contract = (document("fetch_device"), "/ai_actions/0/parameters/target");
    for (world, pointer) in [in_contract, (native("fetch_device"), "/0/target")] {
        assert_eq!(&*world.run.actions()[0].parameters, r#"{"limit":1,"target":"b"}"#);
        let reported = world.all_notes().find_map(|note| match note {
            Note::ReplyRead { parse_warnings, .. } => Some(parse_warnings.clone()),
            _ => None,
        });
        assert_eq!(
            reported,
            Some(vec![loop_core::reply::ParseWarning::RepeatedMember { pointer: pointer.into() }])
        );
    }
    // An output is no effect; it is told the same.
    let twice = r#"{"answer": "a", "answer": "b"}"#;
    let world = output().start().replied(&calls(&[]).calling("save", twice));
    let pointer = "/0/answer".into();
    let warned = |note: &Note| matches!(note, Note::ReplyRead { parse_warnings, .. } if *parse_warnings == [loop_core::reply::ParseWarning::RepeatedMember { pointer: Arc::clone(&pointer) }]);
    assert!(world.all_notes().any(warned));
}

#[test]
fn arguments_are_rebuilt_before_they_reach_a_tool() {
    // S4-81
    let requested = draft("low").asks("fetch_device", json!({"target": "a", "token": "x"}));
    let world = run().start().replied(&requested);
    assert_eq!(&*world.tools()[0].parameters, r#"{"limit":3,"target":"a"}"#);
    assert_eq!(&*world.run.actions()[0].action.parameters, r#"{"target":"a","token":"x"}"#);
}

#[test]
fn the_next_pass_hears_of_actions_that_name_no_tool_or_have_bad_arguments() {
    // T1, S0-88: at high confidence too, and once for the same name and arguments.
    let reply = draft("high").asks("fetch_devise", target("a")).asks("fetch_device", json!({}));
    let world = run().start().replied(&reply);
    assert_eq!(world.verdicts(), ["unknown_tool", "invalid_arguments"]);
    assert!(world.run.outcome().is_none(), "the model has not been told");
    let dropped = world.clone().replied(&draft("high")).ends(StopReason::Confident);
    assert_eq!((dropped.outcome().undone().count(), dropped.outcome().totals.tool_calls), (2, 0));
    let corrected = world
        .clone()
        .replied(&draft("low").asks("fetch_device", target("a")))
        .all_finished()
        .replied(&draft("high"));
    assert_eq!(corrected.ends(StopReason::Confident).outcome().totals.tool_calls, 1);
    let again = world.replied(&reply).ends(StopReason::Confident);
    assert_eq!(again.outcome().totals.passes, 2);
    // At low confidence the same, until nothing new comes of it.
    let low = |name: &str| draft("low").asks(name, target("a"));
    let world = run().start().replied(&low("nope")).replied(&low("nope")).ends(StopReason::NoNewActions);
    assert_eq!(world.outcome().totals.passes, 2);
    let setup = run().gate(|gate| gate.stale = loop_core::spec::Stale::Off);
    let world = setup.start().replied(&low("no1")).replied(&low("no2")).replied(&low("no3"));
    world.ends(StopReason::NoProgress);
    let many = (0..5).fold(draft("low"), |draft, n| draft.asks(&format!("nope{n}"), target("a")));
    run().start().replied(&many).ends(StopReason::NeedsHuman);
    // What is only nice to have, and a setting that ends the run, are as before.
    let nice = draft("high").asks_as("nice_to_have", "nope", target("a"));
    run().start().replied(&nice).ends(StopReason::Confident);
    let stops = run().with(|spec| spec.gate.on_invalid = OnInvalid::Stop);
    stops.start().replied(&reply).ends(StopReason::Refused);
}

#[test]
fn over_the_limit_required_actions_are_admitted_first() {
    // I-4
    let reply = draft("low")
        .asks_as("recommended", "fetch_device", target("a"))
        .asks_as("required", "fetch_device", target("b"))
        .asks_as("required", "fetch_device", target("c"));
    let world = run().limits(|limits| limits.tool_calls = 2).start().replied(&reply);
    assert_eq!(world.verdicts(), ["over_limit", "run", "run"]);
    let world = world.all_finished().replied(&draft("low").asks("fetch_device", target("d")));
    let world = world.ends(StopReason::MaxToolCalls);
    let change = world.outcome().stop.primary.change.clone().unwrap();
    assert_eq!((change.setting.path(), change.to.to_string()), ("limits.tool_calls", "3".to_owned()));
}

#[test]
fn an_approval_does_not_pass_the_limit_of_tool_calls() {
    // I-4, I-26: room is kept for what a person may allow.
    let reply = draft("low")
        .asks_as("recommended", "fetch_device", target("a"))
        .asks_as("required", "wipe", target("b"))
        .asks_as("recommended", "restart", target("c"));
    let world = run().people().limits(|limits| limits.tool_calls = 1).start().replied(&reply);
    assert_eq!(world.verdicts(), ["over_limit", "needs_person", "over_limit"]);
    let world = world.answered_by_person("1/action-1", PersonAnswer::Approved).all_finished();
    assert_eq!(world.run.totals().tool_calls, 1);
    // Where nobody can be asked no room is kept.
    let world = run().limits(|limits| limits.tool_calls = 1).start().replied(&reply);
    assert_eq!(world.verdicts(), ["run", "needs_person", "needs_person"]);
}

#[test]
fn every_action_is_kept_with_its_verdict_in_request_order() {
    // I-32
    let reply = draft("low")
        .asks_as("nice_to_have", "wipe", target("a"))
        .asks("fetch_device", target("a"))
        .asks("fetch_device", target("a"))
        .asks("nope", target("a"));
    let world = run().start().replied(&reply);
    let keys: Vec<String> = world.run.actions().iter().map(|action| action.key.to_string()).collect();
    assert_eq!(keys, ["1/action-0", "1/action-1", "1/action-2", "1/action-3"]);
    assert_eq!(world.verdicts(), ["skipped", "run", "duplicate", "unknown_tool"]);
    let reported: Vec<String> = world.run.actions().iter().map(|action| action.verdict.reason()).collect();
    assert_eq!(reported[0], "nice_to_have actions are not run");
    assert_eq!(reported[2], "already asked for as 1/action-1");
}

#[test]
fn ids_and_priorities_are_repaired_and_the_revision_is_told() {
    // S0-102
    let mut reply =
        draft("low").asks("fetch_device", target("a")).asks_as("urgent", "fetch_device", target("b"));
    reply.contract.as_mut().unwrap()["ai_actions"][0] =
        json!({"action_type": "fetch_device", "parameters": {"target": "a"}});
    let world = run().start().replied(&reply);
    assert_eq!(&*world.run.actions()[0].action.id, "action-0");
    assert_eq!(world.verdicts(), ["run", "run"]);
    let reported = format!("{:?}", world.notes());
    assert!(reported.contains("priority `urgent` was taken as recommended"), "{reported}");
}
