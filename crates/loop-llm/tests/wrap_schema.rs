//! The schema of recordings says what recordings are.

use loop_tools::schema::SchemaCheck;
use serde_json::{Value, json};

fn lines() -> Vec<Value> {
    let sample = include_str!("samples/recording_1.jsonl");
    sample.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_sample_is_what_the_schema_says_and_nothing_else_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/recording.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = SchemaCheck::new(&schema).unwrap();
    let lines = lines();
    assert_eq!(lines.len(), 8);
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(schema.violations(line), None, "line {}", at + 1);
    }
    let spoilt = |change: &dyn Fn(&mut Value)| {
        let mut line = lines[1].clone();
        change(&mut line);
        assert!(!schema.accepts(&line), "{line}");
    };
    spoilt(&|line| line["recording"] = json!(1));
    spoilt(&|line| line["seq"] = json!(0));
    spoilt(&|line| line["content"] = json!("abc"));
    spoilt(&|line| line["nonce"] = json!("0123456789abcdef"));
    spoilt(&|line| line["request"]["meta"] = json!({}));
    spoilt(&|line| line["events"][0]["event"] = json!("ended"));
    spoilt(&|line| line["events"][3]["text"] = json!(1));
    spoilt(&|line| line["end"]["type"] = json!("refused"));
    spoilt(&|line| line["end"]["reply"]["usage"]["input"] = json!(-1));
    let mut first = lines[0].clone();
    first["recording"] = json!(2);
    assert!(!schema.accepts(&first));
}
