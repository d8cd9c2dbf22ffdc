//! What a model reads of the answers of a server.

#![allow(clippy::unwrap_used)]

use loop_core::types::Effect;
use serde_json::json;

use super::*;

fn declaration(effect: Effect) -> ToolDeclaration {
    ToolDeclaration::new("github_search").title("Search").effect(effect)
}

fn result(answer: Value) -> ToolResult {
    let answer: CallToolResult = serde_json::from_value(answer).unwrap();
    of_call(&declaration(Effect::Read), &Scope::default(), answer, &Secrets::of(["s3cret-1"]))
}

#[test]
fn rows_become_a_table_wherever_the_server_puts_them() {
    // S1-27
    let table = "## Search\n\n| id | state |\n| --- | --- |\n| 1 | open |\n| 2 | shut |";
    let rows = json!([{ "state": "open", "id": 1 }, { "state": "shut", "id": 2 }]);
    for answer in [
        json!({ "content": [], "structuredContent": rows }),
        json!({ "content": [{ "type": "text", "text": "two" }], "structuredContent": { "result": rows } }),
        json!({ "content": [{ "type": "text", "text": rows.to_string() }] }),
        json!({ "content": [{ "type": "text", "text": json!({ "issues": rows }).to_string() }] }),
    ] {
        let result = result(answer);
        assert_eq!((result.success, &*result.markdown, &result.data), (true, table, &rows));
    }
}

#[test]
fn content_of_every_kind_is_read_or_named() {
    // S1-27
    let answer = json!({ "content": [
        { "type": "text", "text": "Hello" },
        { "type": "image", "data": "QUJDRA==", "mimeType": "image/png" },
        { "type": "audio", "data": "QUJD", "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
        { "type": "resource", "resource": { "uri": "file:///b", "blob": "QUI=" } },
        { "type": "resource_link", "uri": "file:///c", "name": "c", "description": "the third" },
    ] });
    let says = "Hello\n\n[image, image/png, 4 bytes, not read]\n\n[sound, audio/wav, 3 bytes, not read]\n\ninside\n\n\
                [data, of no kind that is named, 2 bytes, not read]\n\nc: file:///c (the third)";
    assert_eq!(result(answer).markdown, says);
}

#[test]
fn a_failure_is_said_and_nothing_is_nothing() {
    let failed =
        result(json!({ "content": [{ "type": "text", "text": "no s3cret-1 there" }], "isError": true }));
    assert_eq!((failed.success, failed.error.as_deref()), (false, Some("no [masked] there")));
    let mute = result(json!({ "content": [], "isError": true }));
    assert_eq!(mute.error.as_deref(), Some("the server says that it failed, and not why"));
    for nothing in [
        json!({ "content": [] }),
        json!({ "content": [{ "type": "text", "text": " " }] }),
        json!({ "content": [], "structuredContent": { "result": [] } }),
    ] {
        assert_eq!(result(nothing).error.as_deref(), Some("No data found"));
    }
    let answer: CallToolResult = serde_json::from_value(json!({ "content": [] })).unwrap();
    let written =
        of_call(&declaration(Effect::WriteIrreversible), &Scope::default(), answer, &Secrets::default());
    assert!(written.success && written.markdown.starts_with("Done"), "{}", written.markdown);
}
