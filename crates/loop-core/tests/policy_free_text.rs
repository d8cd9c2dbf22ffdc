//! The words of a person's text that give a value: which characters around a word are part of it, and which value a
//! number is (K3).

use loop_core::policy::{PolicyAsk, Ruling, RunSources, Taint, ruling};
use loop_core::spec::ArgSpec;
use loop_core::types::{CommandKey, Effect, EvidenceId, Instruction, Observation, Slot, Status};
use loop_core::{Evidence, WorkItem};
use serde_json::{Value, json};

/// Whether a work item with this text lets a call reach the value.
fn gives(text: &str, value: &Value) -> bool {
    let mut spec = loop_testkit::run().spec;
    let mut send = loop_testkit::tool("send", Effect::Egress);
    send.args = ArgSpec::from_schema(&json!({"type": "object", "properties": {"to": {}}}));
    send.policy.authority = vec!["/to".into()];
    spec.tools = vec![send];
    spec.gate.approved = vec!["send".into()];
    let item = WorkItem::new("T-1", "ticket", "A ticket", text);
    let sources = RunSources {
        spec: &spec,
        item: &item,
        evidence: &[],
        instructions: &[],
        requested_before: &[],
        user_texts: &[],
    };
    let (tool, parameters) = (spec.tool("send").unwrap(), json!({ "to": value }));
    let ask = PolicyAsk {
        spec: &spec,
        tool,
        parameters: &parameters,
        taint: Taint::default(),
        sources: &sources,
        planned: None,
    };
    ruling(&ask) == Ruling::Runs
}

#[track_caller]
fn check(text: &str, value: &Value, expected: bool) {
    assert_eq!(gives(text, value), expected, "{value} in {text:?}");
}

#[test]
fn digits_in_groups_are_one_number() {
    // `12 500` is twelve thousand five hundred, so it gives neither 12 nor 500.
    for (text, value, expected) in [
        ("It was 12 500 in all", json!(12), false),
        ("It was 12 500 in all", json!(500), false),
        ("It was 1 250 000 in all", json!(250), false),
        // A group has three digits and begins with one of them.
        ("It was 12 50 in all", json!(12), true),
        ("It was 12 50 in all", json!(50), true),
        ("It was 12 (500) in all", json!(12), true),
        ("It was 12 (500) in all", json!(500), true),
        ("It was 12, 500 in all", json!(12), true),
        ("It was 12, 500 in all", json!(500), true),
        // A group follows at most three digits.
        ("It was 1234 500 in all", json!(1234), true),
        ("It was 1234 500 in all", json!(500), true),
        ("It was 123 500 in all", json!(123), false),
        ("It was 123 500 in all", json!(500), false),
        // A word without digits is not a part of a number.
        ("It was about 500 in all", json!(500), true),
    ] {
        check(text, &value, expected);
    }
}

#[test]
fn a_separator_marks_a_word_where_it_is_between_letters() {
    for (value, expected) in [
        ("ab.cd", true),
        ("ab_cd", true),
        ("ab@cd", true),
        ("/ab", false),
        (".ab", false),
        ("ab-", false),
        // Two capitals are a name, one begins a sentence.
        ("ABcd", true),
        ("Abcd", false),
        ("abcd2", true),
    ] {
        check(&format!("see {value} for more"), &json!(value), expected);
        // Alone in a field each is what was meant.
        check(&format!("about: {value}"), &json!(value), true);
    }
}

#[test]
fn quotes_right_around_a_word_mark_it_and_brackets_do_not() {
    for (text, expected) in [
        ("see \"abc\" for more", true),
        ("see 'abc' for more", true),
        ("see «abc», for more", true),
        ("see (\"abc\") for more", true),
        ("see (abc) for more", false),
        ("see *abc* for more", false),
        ("see \"(abc)\" for more", false),
        // One quote may belong to words before or after it.
        ("see \"abc for more\"", false),
        ("see \"more abc\"", false),
    ] {
        check(text, &json!("abc"), expected);
    }
}

#[test]
fn a_number_sign_marks_letters_digits_and_hyphens() {
    for (text, value, expected) in [
        ("see #abc for more", json!("abc"), true),
        ("see #ab-c for more", json!("ab-c"), true),
        ("see #1001 for more", json!("1001"), true),
        ("see #a/b for more", json!("a/b"), false),
        ("see #a_b for more", json!("a_b"), false),
        ("see ##abc for more", json!("abc"), false),
        // Without it a common word is not a value.
        ("see abc for more", json!("abc"), false),
        ("see ab-c for more", json!("ab-c"), true),
    ] {
        check(text, &value, expected);
    }
}

/// Whether a call of a tool may be made, where the work item has this text and a person gave these instructions.
fn may_call(
    tool: &str,
    schema: &Value,
    parameters: &Value,
    item: &str,
    said: &[&str],
    evidence: &[Evidence],
) -> bool {
    let mut spec = loop_testkit::run().spec;
    let mut own = loop_testkit::tool(tool, Effect::WriteIrreversible);
    own.args = ArgSpec::from_schema(schema);
    own.policy.authority = own.args.properties.keys().map(|name| format!("/{name}").into()).collect();
    let look = loop_testkit::tool("look", Effect::Read);
    let mut ask = loop_testkit::tool("ask", Effect::Read);
    ask.policy.asks_person = true;
    spec.tools = vec![own, look, ask];
    spec.gate.approved = vec![tool.into()];
    let item = WorkItem::new("T-1", "ticket", "A ticket", item);
    let said = said.iter().map(|text| Instruction { from_pass: 1, text: (*text).into() });
    let instructions: Vec<Instruction> = said.collect();
    let sources = RunSources {
        spec: &spec,
        item: &item,
        evidence,
        instructions: &instructions,
        requested_before: &[],
        user_texts: &[],
    };
    let tool = spec.tool(tool).unwrap();
    ruling(&PolicyAsk {
        spec: &spec,
        tool,
        parameters,
        taint: Taint::default(),
        sources: &sources,
        planned: None,
    }) == Ruling::Runs
}

/// A schema with one parameter.
fn one(name: &str, schema: Value) -> Value {
    json!({"type": "object", "properties": {name: schema}})
}

#[track_caller]
fn check_named(tool: &str, name: &str, texts: &[&str], value: &Value, expected: bool) {
    let kind = if value.is_number() { "integer" } else { "string" };
    let schema = one(name, json!({ "type": kind }));
    let call = json!({ name: value });
    let wrong = |text: &&&str| may_call(tool, &schema, &call, text, &[], &[]) != expected;
    assert_eq!(texts.iter().filter(wrong).collect::<Vec<_>>(), Vec::<&&str>::new(), "{tool} {call}");
}

/// Sentences in which 13 is something else than a file or an order.
const NO_ID: [&str; 38] = [
    "Clean up my drive before June 13, please",
    "Clean up my drive before 13 June, please",
    "It is due on the 13th",
    "Due: June 13.",
    "The 13. of June",
    "Between June 12 and 13",
    "from 9 to 13",
    "at 13:00, or at 13",
    "on 2026-06-13 or 13/06/2026 or 13.06.2026",
    "That was EUR 13, or 13 EUR",
    "It was $13, or 13€, or USD 13.00",
    "about 13% of it, or 13 %",
    "release v13, version 13",
    "pages 13-15, or 11-13",
    "1. milk\n13. eggs",
    "see https://drive.example/13 and 13@mail.example",
    "call 555 13 or 555-13 or +13",
    "delete 13 files",
    "I have 13 of them",
    "Delete 13",
    "No, 13 are too many",
    "It has no 13",
    "Number 13 lives in room number 13",
    "the file, 13 days old",
    "that file; 13",
    "The file. 13 of them are left",
    "Delete this file\n13 days from now",
    "# 13 reasons",
    "the file of June 13",
    "profile 13",
    "filet 13",
    "六月 13",
    "am 13. Juni",
    "le 13 juin",
    "my key \"13\", `13`, (13)",
    "it is \u{ff11}\u{ff13}",
    "{\"text\": \"by June 13\", \"note\": [\"13 of them\"]}",
    "meet me 13",
];

#[test]
fn a_number_in_a_sentence_names_no_id() {
    // Issue 40, H2: "June 13" deletes no file 13.
    for name in ["file_id", "fileId", "id", "file", "to"] {
        check_named("delete_file", name, &NO_ID, &json!("13"), false);
    }
    for name in ["file_id", "id", "ids"] {
        check_named("delete_file", name, &NO_ID, &json!(13), false);
    }
    for value in ["13.", "13,", "-13", "13.00", "\u{ff11}\u{ff13}"] {
        check_named("delete_file", "file_id", &NO_ID, &json!(value), false);
    }
    // A word with more in it than a number is what it was.
    let marked = ["call +15551234567 on 2026-06-13, release 1.2.3 at 10.0.0.13, order O-13 or A13"];
    for value in ["+15551234567", "2026-06-13", "1.2.3", "10.0.0.13", "O-13", "A13"] {
        check_named("delete_file", "file_id", &marked, &json!(value), true);
    }
}

#[test]
fn a_number_is_an_id_behind_a_word_that_names_it() {
    // Issue 40, H2
    let file = [
        "Delete file 13 by June 14",
        "delete FILE 13.",
        "(file 13)",
        "the file: 13",
        "file #13",
        "file № 13, file №13",
        "file no. 13",
        "file No 13",
        "Datei Nr. 13",
        "fichier n° 13",
        "no. 13",
        "file number 13",
        "file id 13",
        "file_id: 13",
        "files 13 and 14",
        "**file** 13",
        "\"file\" 13",
        "see #13 for more",
        "13",
        "- 13",
        "id: 13",
        "id:  13\nmore",
        "{\"id\": 13, \"text\": \"June 14\"}",
        "{\"id\": \"13\"}",
        "[{\"text\": \"file 13\"}]",
    ];
    for name in ["file_id", "fileID", "id", "file_ids"] {
        check_named("delete_file", name, &file, &json!("13"), true);
        check_named("delete_file", name, &file, &json!(13), true);
    }
    let order = ["cancel order 13", "order number 13", "Order #13", "the order (13)"];
    check_named("cancel", "order_id", &order, &json!("13"), true);
    check_named("cancel", "order_id", &["cancel 13", "file 13"], &json!("13"), false);
    // Another number of the same text is not named by it.
    check_named(
        "delete_file",
        "file_id",
        &["file 13 by June 14", "file 13, 14 of them"],
        &json!("14"),
        false,
    );
}

#[test]
fn a_number_in_a_sentence_gives_a_parameter_of_type_number() {
    // Issue 40, H2
    for (schema, value) in [
        (json!({"type": "integer"}), json!(13)),
        (json!({"type": "number"}), json!(13.0)),
        (json!({}), json!(13)),
    ] {
        for text in ["Pay 13 by Friday", "pay $13", "Pay EUR 13."] {
            let (schema, call) = (one("amount", schema.clone()), json!({ "amount": value }));
            assert!(may_call("pay", &schema, &call, text, &[], &[]), "{text} {call}");
        }
    }
}

#[test]
fn each_element_and_each_source_of_a_number_is_judged_alike() {
    // Issue 40, H2
    let list = one("file_ids", json!({"type": "array", "items": {"type": "string"}}));
    let deep = one("target", json!({"type": "object", "properties": {"file": {"type": "string"}}}));
    for (schema, call) in [
        (&list, json!({"file_ids": ["13"]})),
        (&list, json!({"file_ids": [["13"]]})),
        (&deep, json!({"target": {"file": "13"}})),
        (&deep, json!({"target": {"13": "file 13"}})),
    ] {
        assert!(!may_call("delete", schema, &call, "by June 13", &["by June 13"], &[]), "{call}");
    }
    assert!(may_call("delete", &list, &json!({"file_ids": ["13", "#14"]}), "file 13 and #14", &[], &[]));
    assert!(!may_call("delete", &list, &json!({"file_ids": ["13", "14"]}), "file 13 by June 14", &[], &[]));
    assert!(may_call("delete", &deep, &json!({"target": {"file": "13"}}), "hello", &["file 13"], &[]));
    // An answer of a person, and the text of a trusted tool. A single value in its data is no prose.
    let found = |tool: &str, data: Value| Evidence {
        id: EvidenceId(1),
        key: CommandKey::new(1, Slot::Action(0)),
        pass: 1,
        tool: tool.into(),
        parameters: "{}".to_owned().into(),
        observation: Observation::new(Status::Ok, "found", "found", data).into(),
        shortened: false,
    };
    let call = json!({"file_id": "13"});
    for (tool, data, expected) in [
        ("ask", json!("by June 13"), false),
        ("ask", json!("13"), true),
        ("ask", json!({"answer": "file 13, please"}), true),
        ("look", json!("kept until June 13"), false),
        ("look", json!("It is file 13."), true),
        ("look", json!({"id": 13}), true),
        ("look", json!([{"id": "13"}]), true),
    ] {
        let schema = one("file_id", json!({"type": "string"}));
        let may = may_call("delete", &schema, &call, "hello", &[], &[found(tool, data.clone())]);
        assert_eq!(may, expected, "{tool} {data}");
    }
}
