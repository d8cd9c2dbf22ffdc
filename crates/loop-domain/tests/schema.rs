//! The schema for editors is the one that the code makes. `UPDATE_SCHEMA=1` writes it anew.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;

#[test]
fn the_committed_schema_is_the_one_the_code_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/domain.schema.json");
    let mut made = serde_json::to_string_pretty(&loop_domain::schema()).unwrap();
    made.push('\n');
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{} is stale; run this test with UPDATE_SCHEMA=1", path.display());
}

#[test]
fn every_key_of_the_schema_is_described() {
    let schema = loop_domain::schema();
    let definitions = schema["definitions"].as_object().unwrap();
    assert!(definitions.len() > 10);
    for (name, definition) in definitions.iter().chain([(&"root".to_owned(), &schema)]) {
        let properties = definition["properties"].as_object();
        for (key, property) in properties.into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key}: {property}");
        }
    }
}
