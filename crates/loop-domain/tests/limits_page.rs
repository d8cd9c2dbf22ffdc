//! The defaults of the limits in `docs/reference/domain-file.md` are those of the code.

use loop_core::spec::Limits;
use serde_json::{Value, json};

#[test]
fn the_page_of_the_domain_file_has_the_defaults_of_the_limits() {
    let page = include_str!("../../../docs/reference/domain-file.md");
    let (_, rest) = page.split_once("\n## Limits\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let document = Limits { requested_calls: 0, ..Limits::default() };
    let document = serde_json::to_value(document).unwrap();
    let mut seen = Vec::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (key, rest) = row.split_once("` | ").unwrap();
        let Some((told, _)) = rest.split_once(" | ") else { continue };
        let of_code = match key {
            "cost_usd" => json!(Limits::default().cost.unwrap().0 as f64 / 1e12),
            "cost_mode" => json!("estimated"),
            "person_ms" => json!(Limits::default().person_ms),
            "requested_calls" => json!(Limits::default().requested_calls),
            "messages" => json!(Limits::agent().messages),
            key if document.get(key).is_some() => document[key].clone(),
            _ => continue,
        };
        let of_page: Value = match told.trim_matches('`') {
            "none" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        };
        assert_eq!(of_page, of_code, "limits.{key}");
        seen.push(key);
    }
    for key in document.as_object().unwrap().keys().filter(|key| *key != "cost") {
        assert!(seen.contains(&key.as_str()), "limits.{key} is not in the table");
    }
}
