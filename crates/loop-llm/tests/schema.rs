//! The schemas in `docs/schema` are those of the neutral request and reply.

use std::fs;
use std::path::Path;

use serde_json::Value;

fn check(name: &str, schema: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
    let text = format!("{}\n", serde_json::to_string_pretty(schema).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{name} is not what the types say; run UPDATE_SCHEMA=1 cargo test -p loop-llm --test it schema"
    );
}

#[test]
fn the_schemas_are_those_of_the_types() {
    check("model-request.json", &loop_llm::report::request_schema());
    check("model-reply.json", &loop_llm::report::report_schema());
}
