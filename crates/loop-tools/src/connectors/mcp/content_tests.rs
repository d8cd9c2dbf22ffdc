//! What a model reads of the answers of a server.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice)]

use loop_core::types::Effect;
use serde_json::json;

use super::*;

fn declaration(effect: Effect) -> ToolDeclaration {
    ToolDeclaration::new("github_search").title("Search").effect(effect)
}

fn result(answer: Value) -> ToolResult {
    let answer = CallContent::read(answer).unwrap();
    of_call(&declaration(Effect::Read), &Scope::default(), answer, &Secrets::of(["s3cret-1"]))
}

#[test]
fn rows_become_a_table_wherever_the_server_puts_them() {
    // S1-27
    let table = "## Search\n\n| id | state |\n| --- | --- |\n| 1 | open |\n| 2 | shut |";
    let rows = json!([{ "state": "open", "id": 1 }, { "state": "shut", "id": 2 }]);
    for answer in [
        json!({ "content": [], "structuredContent": rows }),
        json!({ "content": [], "structuredContent": { "result": rows } }),
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
        { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "text/plain; charset=utf-8", "blob": "QUI=" } },
        { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "text/plain; charset=latin1", "blob": "Wm/r" } },
        { "type": "resource", "resource": { "uri": "file:///b" } },
        { "type": "markdown", "text": "**new**", "annotations": { "audience": ["robot"], "priority": "high" } },
        { "type": "text", "text": { "seven": 7 } },
        { "type": "image", "mimeType": "image/png" },
        { "type": "resource_link", "uri": "file:///d" },
        null,
        { "type": "resource_link", "uri": "file:///c", "name": "c", "description": "the third" },
    ] });
    let says = "Hello\n\n[picture 1, image/png, 4 bytes, DIGEST]\n\n[sound, audio/wav, 3 bytes, not read]\n\ninside\n\n\
                [data, of no kind that is named, 2 bytes, not read]\n\nAB\n\nZoë\n\n[a resource without content: file:///b]\n\n**new**\n\n{\"seven\":7}\n\n\
                [content of the kind image, not read]\n\nfile:///d\n\n[content of the kind without a name, not read]\n\n\
                c: file:///c (the third)";
    let digest = Digest::of("picture", b"ABCD").to_string();
    let result = result(answer);
    assert_eq!(result.markdown, says.replace("DIGEST", &digest[..8]));
    // What a model may see: of the kinds and in the number that providers take.
    let picture = ResultPicture { media_type: "image/png".into(), base64: "QUJDRA==".into() };
    assert_eq!(result.pictures, std::slice::from_ref(&picture));
    let image = |kind: &str, data: &str| json!({ "type": "image", "data": data, "mimeType": kind });
    let blob = json!({ "type": "resource", "resource": { "blob": "QUJD\nRA==", "mimeType": "image/PNG" } });
    for (content, seen, unread) in [
        (json!([image("image/svg+xml", "QUJD")]), 0, 1),
        (json!([image("image/png", "!!")]), 0, 1),
        (json!([image("image/png", &"QUJD".repeat(2 << 20))]), 0, 1),
        (json!(vec![image("image/png", "QUJDRA=="); 6]), 4, 2),
        (json!([blob]), 1, 0),
    ] {
        let result = self::result(json!({ "content": content, "structuredContent": { "a": 1 } }));
        assert_eq!(result.pictures, vec![picture.clone(); seen]);
        assert_eq!(result.markdown.matches("not read]").count(), unread, "{}", result.markdown);
    }
}

#[test]
fn a_text_beside_structured_content_is_read_unless_it_is_the_same() {
    // R01
    let text = |text: &str| json!({ "type": "text", "text": text });
    let table = "## Search\n\n| ok | took |\n| --- | --- |\n| true | 12 |";
    let value = json!({ "took": 12, "ok": true });
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    for (content, structured, says) in [
        (json!([text("The report.")]), value.clone(), format!("The report.\n\n{table}")),
        (json!([text("{\"ok\": true, \"took\": 12}\n")]), value.clone(), table.to_owned()),
        (json!([text(&pretty), text("And more.")]), value.clone(), format!("And more.\n\n{table}")),
        (
            json!([text("{\"ok\":true,\"took\":13}")]),
            value,
            format!("{}\n\n{table}", table.replace("12", "13")),
        ),
        (json!([text("42")]), json!({ "result": 42 }), "## Search\n\n| result |\n| --- |\n| 42 |".to_owned()),
        (
            json!([text("a"), text("b")]),
            json!({ "result": ["a", "b"] }),
            "## Search\n\n| value |\n| --- |\n| a |\n| b |".to_owned(),
        ),
        (
            json!([text("42.0")]),
            json!({ "result": 42 }),
            "## Search\n\n| result |\n| --- |\n| 42 |".to_owned(),
        ),
        // The same number in another spelling, at any depth.
        (json!([text("{\"ok\":true,\"took\":1.2e1}")]), json!({ "took": 12, "ok": true }), table.to_owned()),
        (
            json!([text("[{\"took\":[1000.0,1e0]}]")]),
            json!({ "rows": [{ "took": [1e3, 1] }] }),
            "## Search\n\n| took |\n| --- |\n| [1000.0,1] |".to_owned(),
        ),
        (json!([text("seven")]), json!("seven"), "seven".to_owned()),
        (json!([text("none")]), json!({ "rows": [] }), "none".to_owned()),
        (json!([text("none")]), Value::Null, "none".to_owned()),
    ] {
        let answer = json!({ "content": content, "structuredContent": structured });
        assert_eq!(result(answer.clone()).markdown, says, "{answer}");
    }
}

// Issue 43, M2
#[test]
fn a_result_that_is_not_an_object_is_read() {
    let table = "## Search\n\n| id | type |\n| --- | --- |\n| 1 | bug |";
    for (answer, says) in [
        (json!("seven"), "seven"),
        (json!(7), "7"),
        (json!(false), "false"),
        (json!(["a", "b"]), "a\n\nb"),
        (json!([{ "type": "text", "text": "a" }, "b"]), "a\n\nb"),
        (json!([{ "type": "bug", "id": 1 }]), table),
        (json!({ "content": 7 }), "7"),
        (json!([]), "> **Search:** No data found"),
        (json!(""), "> **Search:** No data found"),
    ] {
        assert_eq!(result(answer.clone()).markdown, says, "{answer}");
    }
    assert_eq!(CallContent::read(json!(null)), None);
    let read = |answer: Value| {
        let declaration = declaration(Effect::Read);
        of_resource(&declaration, &Scope::default(), answer, &Secrets::default()).map(|it| it.markdown)
    };
    for answer in [json!("a"), json!(["a"]), json!([{ "text": "a" }]), json!({ "contents": "a" })] {
        assert_eq!(read(answer.clone()).as_deref(), Some("a"), "{answer}");
    }
    assert_eq!((read(json!(null)), read(json!({}))), (None, None));
}

#[test]
fn the_reason_of_a_failure_is_said_wherever_it_is() {
    // R16
    let text = json!([{ "type": "text", "text": "it failed" }]);
    for (answer, says) in [
        (json!({ "content": [], "structuredContent": { "error": "used up" } }), "used up"),
        (json!({ "content": text, "structuredContent": { "code": 7 } }), "it failed\n{\"code\":7}"),
        (json!({ "content": text, "structuredContent": { "error": "it failed" } }), "it failed"),
        (
            json!({ "structuredContent": { "error": "it failed", "code": 7 } }),
            "{\"error\":\"it failed\",\"code\":7}",
        ),
        (json!({ "structuredContent": "no s3cret-1" }), "no [masked]"),
        (json!({ "content": { "text": "it failed" }, "structuredContent": {} }), "it failed"),
        (json!({ "content": [{ "type": "resource", "resource": { "text": "a log" } }] }), "a log"),
    ] {
        for is_error in [json!(true), json!("True"), json!(1)] {
            let mut answer = answer.clone();
            answer["isError"] = is_error;
            let result = result(answer.clone());
            assert_eq!((result.success, result.error.as_deref()), (false, Some(says)), "{answer}");
        }
    }
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
    let answer = CallContent::read(json!({ "content": [] })).unwrap();
    let written =
        of_call(&declaration(Effect::WriteIrreversible), &Scope::default(), answer, &Secrets::default());
    assert!(written.success && written.markdown.starts_with("Done"), "{}", written.markdown);
}
