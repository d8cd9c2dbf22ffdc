//! The schema for editors is the one that the code makes. `UPDATE_SCHEMA=1` writes it anew.

use std::path::Path;

use loop_eval::case::{Case, schema};

#[test]
fn the_committed_schema_is_the_one_the_code_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/case.schema.json");
    let mut made = serde_json::to_string_pretty(&schema()).unwrap();
    made.push('\n');
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{} is stale; run this test with UPDATE_SCHEMA=1", path.display());
}

#[test]
fn every_key_is_described() {
    let schema = schema();
    let definitions = schema["definitions"].as_object().unwrap();
    assert!(definitions.len() > 5);
    for (name, definition) in definitions.iter().chain([(&"root".to_owned(), &schema)]) {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key}: {property}");
        }
    }
}

#[test]
fn a_case_that_is_written_is_read_again() {
    let text = r#"{
        "case_id": "x", "goal": "Do it.", "spec": { "preset": "step" },
        "mocked_tools": { "b.two": [{ "status": "error", "reason": "no" }], "a": [{ "data": [1], "repeats": true }] },
        "replies": [{ "for": "main", "text": "yes" }],
        "people": [{ "say": "deny", "text": "no" }],
        "stop": { "during_pass": 2, "how": "now" },
        "expected": { "stop_reason": ["completed", "failed"], "document": { "z": { "present": false }, "a": {} } }
    }"#;
    let case = Case::parse(text, "x.json").unwrap();
    let written = serde_json::to_string(&case).unwrap();
    assert_eq!(Case::parse(&written, "x.json").unwrap(), case);
    // The order of tools is the order in which a model without replies calls them.
    assert_eq!(case.mocked_tools.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["b.two", "a"]);
}
