//! The OpenAPI document: it is committed, and it is one that a validator of OpenAPI accepts as far as its shape goes.

use std::path::Path;

use loop_server::api;
use serde_json::Value;

#[test]
fn the_document_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/openapi.json");
    let document = serde_json::to_string_pretty(&api::document()).unwrap() + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == document, "{} is stale; run this test with UPDATE_OPENAPI=1", path.display());
}

#[test]
fn names_with_a_meaning_each_are_one_list_of_names() {
    let document = api::document();
    let state = &document["components"]["schemas"]["RunState"];
    let names = ["queued", "running", "waiting", "interrupted", "other_version", "ended", "damaged"];
    assert_eq!((&state["type"], &state["enum"]), (&"string".into(), &serde_json::json!(names)));
    assert!(state["description"].as_str().unwrap().contains("`waiting`: It waits for a person."), "{state}");
    let text = document.to_string();
    assert!(
        !text.contains("\"const\""),
        "a generator may take the first of several constants for all of them"
    );
}

#[test]
fn every_reference_of_the_document_leads_somewhere_and_every_operation_has_its_own_name() {
    let document = api::document();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let mut names: Vec<&str> =
        operations(&document).map(|operation| operation["operationId"].as_str().unwrap()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    document["paths"].as_object().unwrap().values().flat_map(|it| it.as_object().unwrap().values())
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match (key.as_str(), member) {
                    ("$ref", Value::String(reference)) => references.push(reference.clone()),
                    (_, member) => collect(member, references),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, references)),
        _ => {}
    }
}

// Issue 43, K8
#[test]
fn what_a_parameter_or_a_body_cannot_be_is_in_the_document() {
    let document = api::document();
    let mut numbers = Vec::new();
    for operation in operations(&document) {
        let of_callers = operation.get("security").is_none();
        // Whoever sends a token may have sent too many wrong ones.
        assert_eq!(operation["responses"].get("429").is_some(), of_callers, "{operation}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["schema"]["type"] == "integer" {
                let largest = parameter["schema"]["maximum"].as_u64();
                numbers.push((parameter["name"].as_str().unwrap(), largest.expect("a largest number")));
            }
        }
    }
    let all = u64::MAX;
    let expected = [
        ("since", all),
        ("until", all),
        ("limit", 200),
        ("Last-Event-ID", all),
        ("after", all),
        ("before", all),
        ("limit", 1_000),
    ];
    assert_eq!(numbers, expected);
    let schemas = &document["components"]["schemas"];
    for text in [
        &schemas["DenyRequest"]["properties"]["why"],
        &schemas["AnswerRequest"]["properties"]["text"],
        &schemas["InstructRequest"]["properties"]["text"],
        &schemas["SubmitRequest"]["properties"]["tags"]["items"],
        &schemas["SubmittedItem"]["anyOf"][0],
    ] {
        assert_eq!(text["pattern"], r"\S", "{text}");
    }
    let stream = "/paths/~1v1~1runs~1{run}~1events/get/responses/200/content/text~1event-stream/schema";
    let frame = document.pointer(stream).unwrap();
    assert_eq!(frame["required"], serde_json::json!(["event", "data"]), "each event, as readers have it");
}
