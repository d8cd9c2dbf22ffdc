//! Policies that contradict themselves: one clear line each (K7).

use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::policy::{forbids_nothing, problems};
use loop_core::spec::{ArgSpec, DefaultCall, ToolSpec};
use loop_core::types::Effect;
use serde_json::json;

fn tool(name: &str, effect: Effect) -> ToolSpec {
    let mut tool = loop_testkit::run().spec.tool("fetch_device").unwrap().clone();
    (tool.name, tool.aliases, tool.effect) = (name.into(), Vec::new(), effect);
    tool
}

fn spec() -> RunSpec {
    let mut spec = loop_testkit::run().spec;
    let mut read = tool("read_order", Effect::Read);
    read.aliases = vec!["get_order".into()];
    let mut send = tool("send_mail", Effect::Egress);
    send.args = ArgSpec::from_schema(&json!({"type": "object", "properties": {
        "to": {"type": "array", "items": {"type": "object", "properties": {"mail": {"type": "string"}}}},
        "any": {}, "map": {"type": "object", "additionalProperties": true},
    }}));
    spec.tools = vec![read, send, tool("issue_refund", Effect::WriteKeyed)];
    spec
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

#[track_caller]
fn check(change: impl FnOnce(&mut RunSpec), expected: &[&str]) {
    let mut spec = spec();
    change(&mut spec);
    assert_eq!(problems(&spec), expected);
}

#[test]
fn a_policy_that_means_something_has_no_problem() {
    check(|_| {}, &[]);
    check(
        |spec| {
            let gate = &mut spec.gate;
            gate.allow = names(&["*"]);
            gate.forbid = names(&["issue_*", "delete_order"]);
            gate.approved = names(&["send_*"]);
            gate.authorities = names(&["desk@shop.example"]);
            gate.required_tools = names(&["read_order"]);
            spec.tools[1].policy.authority =
                names(&["/to", "/to/*/mail", "/to/0/mail", "/any", "/any/deep", "/map/x", "/to/*"]);
        },
        &[],
    );
    for domain in [loop_testkit::run().spec, loop_testkit::conversation().spec, loop_testkit::output().spec] {
        assert_eq!(problems(&domain), Vec::<String>::new());
    }
}

#[test]
fn lists_that_contradict_each_other() {
    check(
        |spec| {
            spec.gate.allow = names(&["read_order", "issue_refund"]);
            spec.gate.forbid = names(&["issue_*"]);
            spec.gate.approved = names(&["issue_refund", "send_mail", "*"]);
        },
        &[
            "gate.allow: `issue_refund` has no effect, for the tool is forbidden by gate.forbid; take it out of one list",
            "gate.approved: `issue_refund` has no effect, for the tool is forbidden by gate.forbid; take it out of one list",
            "gate.approved: `send_mail` has no effect, for the tool is not among what gate.allow names; take it out of one list",
        ],
    );
    check(
        |spec| {
            (spec.gate.forbid, spec.gate.approved) = (names(&["*"]), names(&["*_*"]));
        },
        &[
            "gate.approved: `*_*` has no effect, for every tool that it means is forbidden by gate.forbid; take it out of one list",
            "gate.allow and gate.forbid leave no tool that may run; name one in gate.allow",
        ],
    );
}

#[test]
fn entries_that_mean_no_tool() {
    check(
        |spec| {
            spec.gate.allow = names(&["read_order", "nope", "get_order", "zap_*"]);
            spec.gate.forbid = names(&["issue_refunds", "delete_order", "drop_*"]);
        },
        &[
            "gate.allow: no tool is called `nope`; correct it or take it out",
            "gate.allow: `get_order` is an alias of `read_order`; policy goes by own names, write that",
            "gate.allow: no tool's name fits `zap_*`; correct it or take it out",
            "gate.forbid: no tool is called `issue_refunds`; correct it or take it out",
        ],
    );
    let mut spec = loop_testkit::run().spec;
    spec.gate.forbid = names(&["fetch_device", "fetch_devise", "delete_order", "drop_*", "fetch_*"]);
    let instructions = forbids_nothing(&spec);
    assert_eq!(instructions.len(), 2, "{instructions:?}");
    assert!(
        instructions[0].starts_with("gate.forbid: no tool is called `delete_order`; it holds for"),
        "{instructions:?}"
    );
    assert!(
        instructions[1].starts_with("gate.forbid: no tool's name fits `drop_*`; it holds for"),
        "{instructions:?}"
    );
}

#[test]
fn what_is_demanded_and_may_never_run() {
    check(
        |spec| {
            spec.gate.forbid = names(&["read_order"]);
            spec.gate.required_tools = names(&["read_order"]);
            spec.selection.defaults =
                vec![DefaultCall { tool: "read_order".into(), parameters: "{}".into() }];
        },
        &[
            "gate.required_tools: `read_order` is forbidden by gate.forbid, so that no answer could ever do; take it out of one list",
            "selection.defaults: `read_order` is forbidden by gate.forbid; take it out",
        ],
    );
    let mut spec = loop_testkit::output().spec;
    let output = spec.protocol.output().unwrap().tool.clone();
    spec.gate.forbid = vec![Arc::clone(&output)];
    let expected = format!("gate.forbid: `{output}` means `{output}`, with which the run ends; take it out");
    assert_eq!(problems(&spec), [expected]);
}

#[test]
fn what_is_said_of_a_tool_and_cannot_be_meant() {
    check(
        |spec| {
            spec.tools[0].policy.authority = names(&["/target"]);
            spec.tools[0].aliases = names(&["send_mail"]);
            spec.tools[1].policy.authority = names(&["to", "", "/recipient", "/to/*/name"]);
            spec.tools[1].policy.repeats.key = names(&["/query"]);
        },
        &[
            "tools.read_order.authority has no effect, for the tool only reads; take it out, or declare its effect",
            "tools.read_order: the alias `send_mail` is the name of the tool `send_mail`; take it out",
            "tools.send_mail.authority: `to` is not a pointer to a parameter; write `/` before its name",
            "tools.send_mail.authority: `` is not a pointer to a parameter; write `/` before its name",
            "tools.send_mail.authority: `/recipient` means no parameter that the tool declares; correct it",
            "tools.send_mail.authority: `/to/*/name` means no parameter that the tool declares; correct it",
            "tools.send_mail.repeats.key: `/query` means no parameter that the tool declares; correct it",
        ],
    );
}

#[test]
fn a_pointer_means_a_parameter_where_a_value_of_the_schema_can_have_it() {
    // K7: without a type and members everything is possible; with either, what is declared alone.
    let means = |schema: serde_json::Value, pointer: &str| {
        let mut spec = spec();
        let schema = json!({"type": "object", "properties": {"at": schema}});
        (spec.tools[1].args, spec.tools[1].policy.authority) =
            (ArgSpec::from_schema(&schema), names(&[pointer]));
        problems(&spec).is_empty()
    };
    for (schema, known, unknown) in [
        (json!({}), true, true),
        (json!({"type": "object"}), false, false),
        (json!({"type": "object", "properties": {"a": {}}}), true, false),
        (json!({"properties": {"a": {}}}), true, false),
        (json!({"properties": {"a": {}}, "additionalProperties": true}), true, true),
        (json!({"type": "string"}), false, false),
        (json!({"type": "array"}), true, true),
    ] {
        assert_eq!(
            (means(schema.clone(), "/at/a"), means(schema.clone(), "/at/b")),
            (known, unknown),
            "{schema}"
        );
    }
    // An element of a list is named by its number or by `*`, and what is below it is declared too.
    let list = json!({"type": "array", "items": {"type": "object", "properties": {"a": {}}}});
    for (pointer, expected) in
        [("/at/0/a", true), ("/at/*/a", true), ("/at/x/a", false), ("/at/0/b", false), ("/at/0", true)]
    {
        assert_eq!(means(list.clone(), pointer), expected, "{pointer}");
    }
}

#[test]
fn a_name_that_nearly_is_one_of_a_tool_is_taken_for_a_typo() {
    // K7: up to two letters apart, of names of at most 128 bytes. Another name may be one that a model makes up.
    let is_typo = |own: usize, forbidden: &str| {
        let mut spec = spec();
        spec.tools[0].name = "x".repeat(own).into();
        spec.gate.forbid = names(&[forbidden]);
        problems(&spec).len() == 1
    };
    let named = |length: usize, end: &str| format!("{}{end}", "x".repeat(length - end.len()));
    assert!(is_typo(20, &named(20, "y")) && is_typo(20, &named(20, "yy")) && is_typo(20, &named(22, "")));
    assert!(!is_typo(20, &named(20, "yyy")) && !is_typo(20, &named(23, "")));
    assert!(
        is_typo(128, &named(128, "y")) && is_typo(127, &named(128, "y")) && is_typo(128, &named(127, "y"))
    );
    assert!(
        !is_typo(129, &named(128, "y")) && !is_typo(128, &named(129, "y")) && !is_typo(129, &named(129, "y"))
    );
}

#[test]
fn settings_that_can_never_count() {
    check(
        |spec| spec.gate.authorities = names(&["a@x.example"]),
        &[
            "gate.authorities has no effect, for no tool that changes something declares `authority`; take it out",
        ],
    );
    check(
        |spec| {
            spec.tools[1].policy.authority = names(&["/any"]);
            spec.gate.authorities = names(&["*@x.example", "", "a\u{200b}@x.example"]);
            spec.gate.approved = names(&["send_mail"]);
            spec.gate.item_untrusted = true;
        },
        &[
            "gate.authorities: `*@x.example` is taken letter for letter, `*` included; write each value",
            "gate.authorities: \"\" can never be met: it is empty, too long, or holds what does not show; correct it",
            "gate.authorities: \"a\\u200b@x.example\" can never be met: it is empty, too long, or holds what does not show; correct it",
            "gate.approved: `send_mail` can never run, for gate.item_untrusted makes it need a person and gate.people says that there is none; set gate.people, or gate.taint to off",
        ],
    );
}

#[test]
fn a_trusted_field_that_an_outsider_fills_is_said() {
    // Issue 44
    let set = |fields: &'static [&'static str]| {
        move |spec: &mut RunSpec| {
            spec.tools[0].policy.returns_untrusted = true;
            spec.tools[0].policy.trusted_fields = names(fields);
        }
    };
    check(set(&["/*/id", "/*/sender/address"]), &[]);
    check(
        set(&["/*/Subject"]),
        &[
            "tools.read_order.returns_untrusted: who writes the text fills the field `/*/Subject` as well, so that an \
           attacker chooses whom an effect reaches; take it out of `except`",
        ],
    );
}
