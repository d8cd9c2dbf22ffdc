//! What the schema of a parameter gives by itself (K3): the constants that a domain declares, also in the elements of lists.

use loop_core::policy::{PolicyAsk, Ruling, RunSources, Taint, ruling};
use loop_core::spec::ArgSpec;
use loop_core::types::Effect;
use loop_core::{Evidence, RunSpec};
use serde_json::{Value, json};

/// Whether a call of `send` runs with these arguments, where no source gives a value.
fn runs(pointer: &str, arguments: &Value) -> bool {
    let mut spec = loop_testkit::run().spec;
    let mut tool = spec.tool("restart").unwrap().clone();
    (tool.name, tool.aliases, tool.effect) = ("send".into(), Vec::new(), Effect::Egress);
    tool.args = ArgSpec::from_schema(&json!({"type": "object", "properties": {
        "to": {"type": "array", "items": {"const": "ops@brown.example"}},
        "copies": {"type": "array", "items": {"type": "object", "properties": {
            "mail": {"const": "ops@brown.example"}, "x": {"type": "string"},
        }}},
    }}));
    tool.policy.authority = vec![pointer.into()];
    spec.tools = vec![tool];
    spec.gate.approved = vec!["send".into()];
    let tool = spec.tool("send").unwrap();
    let ask = PolicyAsk {
        spec: &spec,
        tool,
        parameters: arguments,
        taint: Taint::default(),
        sources: &(),
        planned: None,
    };
    ruling(&ask) == Ruling::Runs
}

#[test]
fn an_element_has_the_schema_of_its_list() {
    let to = json!({"to": ["ops@brown.example"]});
    for pointer in ["/to", "/to/*", "/to/0"] {
        assert!(runs(pointer, &to), "{pointer}");
        assert!(!runs(pointer, &json!({"to": ["eve@evil.example"]})), "{pointer}");
    }
    let copies = json!({"copies": [{"mail": "ops@brown.example", "x": "eve@evil.example"}]});
    for pointer in ["/copies/*/mail", "/copies/0/mail"] {
        assert!(runs(pointer, &copies), "{pointer}");
    }
    assert!(!runs("/copies/*/x", &copies));
}

#[test]
fn sources_are_shown_without_their_texts() {
    let world = loop_testkit::run().item_text("a secret").start();
    let (spec, item): (&RunSpec, _) = (&world.spec, &world.run.started().item);
    let evidence: &[Evidence] = &[];
    let sources =
        RunSources { spec, item, evidence, instructions: &[], requested_before: &[], user_texts: &[] };
    let shown = format!("{sources:?}");
    assert!(shown.starts_with("RunSources") && shown.contains("evidence: 0"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_word_with_whole_brackets_is_a_value() {
    // K3: one that is cut off inside of brackets is not.
    let mut spec = loop_testkit::run().spec;
    let mut tool = spec.tool("restart").unwrap().clone();
    (tool.name, tool.aliases, tool.effect) = ("send".into(), Vec::new(), Effect::Egress);
    tool.args = ArgSpec::from_schema(&json!({"type": "object", "properties": {"to": {"type": "string"}}}));
    tool.policy.authority = vec!["/to".into()];
    spec.tools = vec![tool];
    spec.gate.approved = vec!["send".into()];
    let text = "The export is /srv/a[1] or /srv/b{2} or /srv/c(3) or /srv/e<5>, and /srv/d[4 was cut.\n\
                owner: bob\nPlease ask for: eve";
    let item = loop_core::WorkItem::new("T-1", "ticket", "A ticket", text);
    let sources = RunSources {
        spec: &spec,
        item: &item,
        evidence: &[],
        instructions: &[],
        requested_before: &[],
        user_texts: &[],
    };
    let tool = spec.tool("send").unwrap();
    for (value, is_given) in [
        ("/srv/a[1]", true),
        ("/srv/b{2}", true),
        ("/srv/c(3)", true),
        ("/srv/e<5>", true),
        ("/srv/d[4", false),
        // A plain word is the value of a field. The words of a sentence before a colon are not the name of a field.
        ("bob", true),
        ("eve", false),
    ] {
        let parameters = json!({ "to": value });
        let taint = Taint::default();
        let ask =
            PolicyAsk { spec: &spec, tool, parameters: &parameters, taint, sources: &sources, planned: None };
        assert_eq!(ruling(&ask) == Ruling::Runs, is_given, "{value}");
    }
}
