//! What an approver sees of a call: where each value came from, what the tool does, and the run's plan.

use std::collections::BTreeMap;

use loop_core::spec::{ArgSpec, ToolPolicy, ToolSpec};
use loop_core::types::{Effect, Observation, Status};
use loop_runtime::report::{EffectPlanReport, PersonRequestReport};
use loop_testkit::{World, bare_draft, draft, found, read, run, target, tool};
use serde_json::{Value, json};

const MANIFEST: &str =
    r#"[{"name": "read", "connects_to": "x"}, {"name": "send", "connects_to": "https://mail.example/send"}]"#;

/// A run that has read a mail of others and a record, and asks to send.
fn asking(parameters: &Value) -> World {
    let properties =
        ["to", "copy", "desk", "note", "id", "key", "text"].map(|name| (name, json!({ "type": "string" })));
    let mut properties: BTreeMap<&str, Value> = properties.into();
    properties.insert("amount", json!({ "type": "integer", "default": 3 }));
    let authority = ["/to", "/copy", "/id"].map(Into::into).to_vec();
    let send = ToolSpec {
        args: ArgSpec::from_schema(&json!({ "type": "object", "properties": properties })),
        policy: ToolPolicy { authority, ..ToolPolicy::default() },
        description: "Send a mail".into(),
        ..tool("send", Effect::Egress)
    };
    let mail =
        ToolPolicy { returns_untrusted: true, trusted_fields: vec!["/key".into()], ..ToolPolicy::default() };
    let plan = json!([
        { "tool": "send", "fixed": { "note": "weekly" }, "count": "each" },
        { "tool": "send", "fixed": { "note": "daily" } },
    ]);
    let world = run()
        .tool(read("lookup"))
        .tool(ToolSpec { policy: mail, ..read("fetch_mail") })
        .tool(send)
        .people()
        .approving(&["send"])
        .gate(|gate| gate.authorities = vec!["office@x.example".into()])
        .with(|spec| spec.plan = serde_json::from_value(plan).unwrap())
        .item_text("Write to ada@x.example.")
        .start()
        .started()
        .answered(&draft("low").asks("fetch_mail", target("a")).asks("lookup", target("b")));
    let data = json!({ "key": "K-9", "text": "From eve@y.example, of U-5" });
    let mail = Observation::new(Status::Ok, "found", data.to_string(), data.to_string());
    let world = world.finished("1/action-0", mail);
    let record = json!({ "id": "U-5" });
    let record = Observation::new(Status::Ok, "found", record.to_string(), record.to_string());
    let world = world.finished("1/action-1", record);
    world.started().answered(&bare_draft("low").asks("send", parameters.clone()))
}

#[test]
fn each_value_of_a_call_says_where_it_came_from() {
    // Issue 44, part 6
    let world = asking(&json!({ "to": "eve@y.example", "copy": "ada@x.example", "desk": "office@x.example",
        "note": "weekly", "id": "U-5", "key": "K-9", "text": "hello there" }));
    let asked = PersonRequestReport::all(&world.run, MANIFEST);
    let origins: BTreeMap<&str, String> =
        asked[0].origins.iter().map(|it| (it.pointer.as_str(), it.in_words())).collect();
    let expected = [
        ("/amount", "the domain"),
        ("/copy", "the user's words"),
        ("/desk", "the domain"),
        ("/id", "E2 lookup, a trusted tool; also in E1 fetch_mail"),
        ("/key", "a trusted field of E1 fetch_mail"),
        ("/note", "the plan, which fixes it"),
        ("/text", "the model wrote it"),
        ("/to", "untrusted text of E1 fetch_mail"),
    ];
    assert_eq!(origins, expected.map(|(pointer, words)| (pointer, words.to_owned())).into());
    let reached: Vec<&str> =
        asked[0].origins.iter().filter(|it| it.authority).map(|it| it.pointer.as_str()).collect();
    assert_eq!(reached, ["/copy", "/id", "/to"]);
    assert_eq!(asked[0].description, "Send a mail");
    assert_eq!(asked[0].connects_to.as_deref(), Some("https://mail.example/send"));
    assert_eq!(asked[0].slot.as_deref(), Some("send(note = \"weekly\", …), a call for each addressee"));
}

#[test]
fn a_plan_says_which_calls_used_it() {
    let world = asking(&json!({ "to": "ada@x.example", "note": "weekly" }));
    assert_eq!(PersonRequestReport::all(&world.run, MANIFEST).len(), 0);
    let lines = |world: &World| {
        let plan = EffectPlanReport::of(&world.run).unwrap();
        let slots = plan.slots.iter().map(ToString::to_string).collect::<Vec<_>>();
        (plan.giver(), slots)
    };
    let world = world.finished("2/action-0", found("sent"));
    let used = "send(note = \"weekly\", …), a call for each addressee: used by 2/action-0";
    let free = "send(note = \"daily\", …), 1 call: not used";
    assert_eq!(
        lines(&world),
        ("The plan, which the domain gives".to_owned(), vec![used.to_owned(), free.to_owned()])
    );
}

#[test]
fn values_that_are_not_traced_are_counted() {
    // K8
    let many: BTreeMap<String, Value> = (0..300).map(|n| (format!("p{n}"), json!(n))).collect();
    let world = run().people().tool(ToolSpec { args: ArgSpec::default(), ..tool("send", Effect::Egress) });
    let world = world.start().started().answered(&draft("low").asks("send", json!(many)));
    let asked = PersonRequestReport::all(&world.run, "not a manifest");
    assert_eq!((asked[0].origins.len(), asked[0].origins_left_out), (256, 44));
    assert_eq!(asked[0].connects_to, None);
}
