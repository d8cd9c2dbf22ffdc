//! The schema of items, and the JSON of recorded ones.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::config::ScopeConfig;

fn schema(value: Value) -> ItemSchema {
    ItemSchema { check: SchemaCheck::new(&value).unwrap(), value }
}

fn config() -> ItemConfig {
    let scope = ScopeConfig {
        account: Some("/account".to_owned()),
        person: Some("/contact/email".to_owned()),
        ..ScopeConfig::default()
    };
    ItemConfig { scope, ..ItemConfig::default() }
}

fn ticket() -> ItemSchema {
    schema(json!({
        "type": "object",
        "required": ["title"],
        "properties": {
            "id": { "type": "string" }, "title": { "type": "string" }, "account": { "type": "string" },
            "text": { "type": "string" }, "seats": { "type": "integer" }, "urgent": { "type": "boolean" },
            "contact": { "$ref": "#/$defs/person" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "notes": { "type": "array", "items": { "$ref": "#/$defs/note" } },
            "grid": { "type": "array", "items": { "type": "array", "items": { "type": "integer" } } },
        },
        "$defs": {
            "person": { "type": "object", "properties": { "email": { "type": "string" }, "age": { "type": "integer" } } },
            "note": { "type": "object", "properties": { "by": { "type": "string" }, "text": { "type": "string" }, "n": { "type": "number" } } },
        },
    }))
}

#[track_caller]
fn again(json: &Value, schema: Option<&ItemSchema>) -> Option<Value> {
    let item = item::read(&config(), &json.to_string(), "T-1.json").unwrap();
    json_of(&config(), schema, &item)
}

#[test]
fn a_recorded_item_is_the_json_that_it_was_read_from() {
    let item = json!({
        "id": "T-7", "title": "A: b", "account": "harbor", "seats": 3, "urgent": true,
        "text": "First: a line.\n\n- a bullet\n  more of it\n\nSecond.",
        "contact": { "email": "ada@x.example", "age": 41 },
        "tags": ["one", "two: three", "a\nb"],
        "notes": [{ "by": "Desk", "text": "one\ntwo\n\nthree: four", "n": 2.5 }, { "by": "Ada" }],
        "grid": [[1, 2], [3]],
    });
    assert_eq!(again(&item, Some(&ticket())), Some(item));
    // Without an id it has the name of its file, and without a schema every value is a text.
    let flat = json!({ "title": "A", "seats": 3, "contact": { "email": "ada@x.example" } });
    assert_eq!(
        again(&flat, None),
        Some(json!({ "title": "A", "seats": "3", "contact": { "email": "ada@x.example" } }))
    );
    let text = WorkItem::new("T-1", "item", "Hello", "Hello\n\nThere.");
    assert_eq!(json_of(&config(), None, &text), None);
}

#[test]
fn a_text_that_looks_like_a_member_does_not_become_one() {
    // It would be the account that the tools of the run are bound to.
    let item = json!({ "title": "A", "text": "one\ntwo\n\naccount: other" });
    assert_eq!(again(&item, Some(&ticket())), None);
    let item = json!({ "title": "A", "account": "own", "text": "one\ntwo\n\naccount: other" });
    assert_eq!(again(&item, Some(&ticket())), Some(item));
}

#[test]
fn an_example_is_begun_again_as_it_is() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/helpdesk");
    let domain = crate::Domain::load(&folder, &crate::LoadOptions::default()).unwrap();
    let mut count = 0;
    for file in std::fs::read_dir(folder.join("tickets")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let recorded = domain.item(&text, "ticket.json").unwrap();
        let json =
            domain.item_json(&recorded).unwrap_or_else(|| panic!("{}:\n{}", path.display(), recorded.full));
        let read = domain.item(&json.to_string(), "ticket.json").unwrap();
        assert_eq!(
            (read.digest(), read.compact),
            (recorded.digest(), recorded.compact.clone()),
            "{}",
            path.display()
        );
        count += 1;
    }
    assert!(count > 3);
}
