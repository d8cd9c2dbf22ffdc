//! Tests of reading work items.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::config::ScopeConfig;

const TICKET: &str = r#"{
  "subject": "Laptop\n is slow",
  "number": 17,
  "account": "a", "contact": {"email": "ada@x.example"},
  "description": "Since Monday.\nPlease help.",
  "log": ["x"]
}"#;

fn config() -> ItemConfig {
    ItemConfig {
        kind: "ticket".to_owned(),
        id: "/number".to_owned(),
        title: "/subject".to_owned(),
        compact: vec!["/number".to_owned(), "/description".to_owned(), "/nowhere".to_owned()],
        scope: ScopeConfig {
            account: Some("/account".to_owned()),
            asset: Some("/device".to_owned()),
            person: Some("/contact/email".to_owned()),
            account_name: None,
        },
        ..ItemConfig::default()
    }
}

#[test]
fn the_domain_says_where_an_items_parts_stand() {
    // S0-3, S0-6, S0-63, S0-64, S0-77, S0-140
    let item = read(&config(), TICKET, "t.json").unwrap();
    assert_eq!((&*item.id, &*item.kind, &*item.title), ("17", "ticket", "Laptop is slow"));
    let scope = Scope {
        account: Some("a".into()),
        item: Some("17".into()),
        person: Some("ada@x.example".into()),
        ..Scope::default()
    };
    assert_eq!(item.scope, scope);
    assert!(item.full.ends_with("log:\n- x"), "{}", item.full);
}

#[test]
fn later_passes_see_a_compact_item() {
    // S0-136
    let item = read(&config(), TICKET, "t.json").unwrap();
    assert_eq!(&*item.compact, "number: 17\n\ndescription:\n\nSince Monday.\nPlease help.");
    let item = read(&ItemConfig { compact: Vec::new(), ..config() }, TICKET, "t.json").unwrap();
    assert_eq!(item.compact, item.full);
}

#[test]
fn an_item_without_a_title_is_refused_and_one_without_an_id_is_named_by_its_file() {
    let error = read(&config(), r#"{"number": 1, "subject": {}}"#, "dir/t.json").unwrap_err();
    assert_eq!(
        error.to_string(),
        "dir/t.json: the work item has no text at `/subject` for its title; add it, or correct `item.title` in loopgate.toml"
    );
    let item = read(&config(), r#"{"subject": "x"}"#, "dir/t-9.json").unwrap();
    assert_eq!((&*item.id, item.scope.account), ("t-9", None));
    assert_eq!(&*read(&config(), r#"{"subject": "x"}"#, "-").unwrap().id, "item");
}

#[test]
fn what_begins_like_json_and_is_none_names_its_place() {
    let error = read(&config(), "\n {\n  \"subject\": oops}", "t.json").unwrap_err();
    assert_eq!(error.to_string(), "t.json:3:14: the work item is not JSON: expected value; correct it there");
    let error = read(&config(), "{\"subject\": \"für\", oops}", "t.json").unwrap_err();
    assert!(error.to_string().starts_with("t.json:1:20: "), "{error}");
    let error = read(&config(), "{\"subject\": \"x\"} more", "t.json").unwrap_err();
    assert!(error.to_string().contains("trailing characters"), "{error}");
    let error = read(&config(), " \n\t", "t.json").unwrap_err();
    assert_eq!(error.to_string(), "t.json: the work item is empty; give a JSON object or a text");
}

#[test]
fn a_text_is_an_item_whose_title_is_its_heading() {
    let item =
        read(&config(), "\u{feff}Hello\n\n# Why is it slow?\n\nSince Monday.\n", "q/question.md").unwrap();
    assert_eq!((&*item.id, &*item.title), ("question", "Why is it slow?"));
    assert_eq!(&*item.full, "Hello\n\n# Why is it slow?\n\nSince Monday.");
    assert_eq!(&*read(&config(), "## Only\nthis", "-").unwrap().title, "Only");
    assert_eq!(&*read(&config(), "[1, 2]", "-").unwrap().title, "[1, 2]");
}

#[test]
fn an_item_beyond_the_limit_is_refused_in_one_line() {
    // B10
    let config = ItemConfig { max_bytes: 8, ..ItemConfig::default() };
    assert!(read(&config, "# Title\n", "a.md").is_ok());
    let error = read(&config, "# Title\nx", "a.md").unwrap_err().to_string();
    assert_eq!(
        error,
        "a.md: the work item has more than 8 bytes, which is the domain's limit; shorten it, or raise `item.max_bytes` in \
         loopgate.toml"
    );
}

#[test]
fn an_item_of_many_members_is_read_and_the_last_of_two_with_one_key_counts() {
    // B9
    let members: Vec<String> = (0..40_000).map(|n| format!("\"k{n}\": {n}")).collect();
    let text = format!(r#"{{"title": "first", {}, "title": "last"}}"#, members.join(", "));
    let item = read(&ItemConfig::default(), &text, "a.json").unwrap();
    assert_eq!(&*item.title, "last");
    assert!(item.full.starts_with("title: last\nk0: 0\n") && item.full.ends_with("k39999: 39999"));
}
