//! The schema for editors is the one that the code makes. `UPDATE_SCHEMA=1` writes it anew.

use std::path::Path;

#[test]
fn the_committed_schemas_are_those_the_code_makes() {
    check("calibration", &loop_domain::calibration::calibration_schema());
    check("domain", &loop_domain::schema());
    check("prices", &loop_domain::prices::price_schema());
    check("tools-lock", &loop_domain::lock_schema());
}

#[track_caller]
fn check(name: &str, schema: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{name}.schema.json"));
    let mut made = serde_json::to_string_pretty(schema).unwrap();
    made.push('\n');
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{} is stale; run this test with UPDATE_SCHEMA=1", path.display());
}

#[test]
fn every_key_of_the_schemas_is_described() {
    is_described(&loop_domain::calibration::calibration_schema(), 1);
    is_described(&loop_domain::schema(), 10);
    is_described(&loop_domain::prices::price_schema(), 2);
    is_described(&loop_domain::lock_schema(), 1);
}

#[track_caller]
fn is_described(schema: &serde_json::Value, definitions_at_least: usize) {
    let definitions = schema["definitions"].as_object().unwrap();
    assert!(definitions.len() > definitions_at_least);
    for (name, definition) in definitions.iter().chain([(&"root".to_owned(), schema)]) {
        let properties = definition["properties"].as_object();
        for (key, property) in properties.into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key}: {property}");
        }
    }
}
