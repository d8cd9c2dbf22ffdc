//! Tests of answers: what is read of them, what is selected, and how it is shown.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use loop_core::types::is_clean;
use reqwest::header::HeaderMap;
use serde_json::json;
use url::Url;

use super::*;

fn answered(status: u16, kind: Option<&str>, body: &[u8]) -> Answer {
    let mut headers = HeaderMap::new();
    if let Some(kind) = kind {
        headers.insert(CONTENT_TYPE, kind.parse().unwrap());
    }
    let url = Url::parse("https://h.example/").unwrap();
    Answer { status: StatusCode::from_u16(status).unwrap(), headers, url, body: body.to_vec() }
}

fn shape(select: Option<&str>, line: Option<&str>) -> ResultFormat {
    let line = line.map(|line| Template::read(line, &mut |_| Ok(())).unwrap());
    ResultFormat { select: select.map(str::to_owned), line }
}

fn shown(shape: &ResultFormat, effect: Effect, value: Value, note: Option<&str>) -> ToolResult {
    shape.result("x", "Things", &Scope::default(), Some(effect), value, note)
}

#[test]
fn an_answer_is_read_by_what_it_says_it_is() {
    let read = |kind: Option<&str>, body: &[u8]| content(&answered(200, kind, body));
    for kind in
        ["application/json", "Application/JSON; charset=utf-8", "application/problem+json", "text/json"]
    {
        assert_eq!(
            read(Some(kind), b"\xef\xbb\xbf{\"a\": 1}"),
            Ok(Content::Json(json!({ "a": 1 }))),
            "{kind}"
        );
    }
    for kind in ["text/plain", "text/markdown; charset=utf-8", "TEXT/CSV", "text/html"] {
        assert!(read(Some(kind), b"a \xff").unwrap_err().starts_with("the answer is not UTF-8, "), "{kind}");
    }
    // Issue 43, K3
    for kind in [
        "text/plain; Charset=ISO-8859-1",
        "text/plain;format=flowed; charset=\"latin1\"",
        "text/csv;charset='l1'",
    ] {
        assert_eq!(read(Some(kind), b"Zo\xeb"), Ok(Content::Text("Zoë".to_owned())), "{kind}");
    }
    let xml = b"<?xml version='1.0' encoding='ISO-8859-1'?><a>Zo\xeb</a>";
    for kind in
        ["application/xml", "text/xml", "application/atom+xml", "image/svg+xml", "application/xml-dtd"]
    {
        let text = "<?xml version='1.0' encoding='ISO-8859-1'?><a>Zoë</a>".to_owned();
        assert_eq!(read(Some(kind), xml), Ok(Content::Text(text)), "{kind}");
    }
    let json_of = |kind| read(Some(kind), b"[\"Zo\xeb\"]");
    assert_eq!(json_of("application/json; charset=iso-8859-1"), Ok(Content::Json(json!(["Zoë"]))));
    assert_eq!(json_of("application/json"), Err("the answer is not UTF-8, and names no charset".to_owned()));
    assert_eq!(read(None, b"[1]"), Ok(Content::Json(json!([1]))));
    assert_eq!(read(None, b"hello"), Err("the answer does not say what it is, and is not JSON".to_owned()));
    assert_eq!(read(Some("image/png"), b" \n"), Ok(Content::Nothing));
    assert_eq!(content(&answered(204, Some("image/png"), b"x")), Ok(Content::Nothing));
    for kind in
        ["image/png", "application/octet-stream", "application/xmlish", "multipart/form-data", "", "x"]
    {
        let error = read(Some(kind), b"x").unwrap_err();
        assert_eq!(error, format!("the answer is of type `{kind}`; this tool reads JSON and text"));
    }
    let error = read(Some("application/json"), b"{\"a\": ").unwrap_err();
    assert!(error.starts_with("the answer is not the JSON that it says it is: "), "{error}");
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(read(Some("application/json"), deep.as_bytes()).is_err(), "nested without end");
}

#[test]
fn a_pointer_selects_and_what_is_not_there_is_nothing() {
    let body = || Content::Json(json!({ "items": [{ "a~b/c": 1 }], "n": 7 }));
    let select = |pointer: &str| shape(Some(pointer), None).select(body()).unwrap();
    assert_eq!(select("/items/0/a~0b~1c"), json!(1));
    assert_eq!(select("/n"), json!(7));
    assert_eq!(select(""), json!({ "items": [{ "a~b/c": 1 }], "n": 7 }));
    for nothing in ["/x", "/items/1", "/n/x"] {
        assert_eq!(select(nothing), Value::Null);
    }
    let text = Content::Text("a".to_owned());
    assert_eq!(shape(None, None).select(text.clone()), Ok(json!("a")));
    assert!(shape(Some("/x"), None).select(text).is_err());
}

#[test]
fn lists_and_objects_become_tables_and_their_data_stays_whole() {
    // S0-69, S0-70
    let rows = json!([{ "id": 1, "state": "open" }, { "id": 2, "tags": ["a"] }]);
    let result = shown(&shape(None, None), Effect::Read, rows.clone(), None);
    let table = "| id | state | tags |\n| --- | --- | --- |\n| 1 | open |  |\n| 2 |  | [\"a\"] |";
    assert_eq!(
        (result.markdown, &result.data, &*result.summary),
        (format!("## Things\n\n{table}"), &rows, "Found 2 items")
    );
    let one = json!({ "id": 1, "state": "open | shut" });
    let result = shown(&shape(None, None), Effect::Read, one.clone(), None);
    assert_eq!(result.markdown, "## Things\n\n| id | state |\n| --- | --- |\n| 1 | open \\| shut |");
    assert_eq!((result.data, &*result.summary), (one, "Found 1 items"));
    let result = shown(&shape(None, None), Effect::Read, json!("hello\nworld"), None);
    assert_eq!((&*result.markdown, &*result.summary), ("hello\nworld", "hello"));
    assert_eq!(shown(&shape(None, None), Effect::Read, json!(7), None).markdown, "7");
}

#[test]
fn a_line_of_ones_own_takes_the_place_of_the_table() {
    let line = "- **{/id}** {/customer/name}: {/note} {/none}{{}}";
    let rows = json!([
        { "id": 1, "customer": { "name": "Ada" }, "note": "late\n\n## Forged heading\r\n- forged" },
        { "id": 2, "note": [1, { "a": null }] },
    ]);
    let result = shown(&shape(None, Some(line)), Effect::Read, rows.clone(), Some("Only 1 page was read: x"));
    assert_eq!(
        result.markdown,
        "## Things\n\n_Only 1 page was read: x_\n\n- **1** Ada: late ## Forged heading - forged {}\n\
         - **2** : [1,{\"a\":null}] {}"
    );
    assert_eq!(result.data, rows);
}

#[test]
fn nothing_is_no_data_for_a_read_and_done_for_a_write() {
    // S0-68
    for nothing in [json!(null), json!([]), json!({}), json!(""), json!(" \n")] {
        let result = shown(&shape(None, None), Effect::Read, nothing.clone(), None);
        assert_eq!(result.summary, "No data found", "{nothing}");
        let result = shown(&shape(None, None), Effect::WriteKeyed, nothing, None);
        assert_eq!((result.success, &*result.summary), (true, "Done"));
    }
    for something in [json!(0), json!(false), json!([null]), json!([[]])] {
        assert!(shown(&shape(None, None), Effect::Read, something, None).success);
    }
    let result = shown(&shape(None, None), Effect::WriteKeyed, json!({ "id": 1 }), None);
    assert_eq!((&*result.summary, &result.data), ("Done", &json!({ "id": 1 })));
}

#[test]
fn a_servers_message_is_one_short_clean_line() {
    let says = |value: Value| message(&Content::Json(value));
    for value in [
        json!({ "message": "no such state" }),
        json!({ "error": { "message": "no such state", "code": 7 } }),
        json!({ "error": "no such state" }),
        json!({ "errors": [{ "message": "no such state" }, { "message": "other" }] }),
        json!({ "errors": ["no such state"] }),
        json!({ "type": "about:blank", "title": "Bad", "detail": "no such state" }),
        json!("no\u{1b}[31m such\r\n state\u{0}"),
    ] {
        let text = says(value.clone());
        assert!(text == "no such state" || text.replace("[31m ", "") == "no such state", "{value}: {text:?}");
        assert!(text.chars().all(is_clean));
    }
    for silent in [json!({}), json!([]), json!({ "message": 7 }), json!(null)] {
        assert_eq!(says(silent), "");
    }
    assert_eq!(message(&Content::Text("é".repeat(300))), format!("{}…", "é".repeat(200)));
    assert_eq!(message(&Content::Nothing), "");
}
