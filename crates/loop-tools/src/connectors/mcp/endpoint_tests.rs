//! Servers over HTTP, well-behaved and not, and places that may not be connected to.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Registry, ToolContext, ToolDeclaration};
use loop_core::types::{Effect, Observation, Scope, Status};
use serde_json::{Value, json};

use super::*;
use crate::connectors::http::HttpAuth;
use crate::connectors::http::test_server::{Reply, SeenRequest, TestServer, answer, json_answer, redirect};
use crate::connectors::mcp::{McpClient, McpSettings, McpTool, McpTransport};

/// A server of the protocol that answers calls with what `call` makes of their text.
async fn server(call: impl Fn(&SeenRequest, &str, &Value) -> Reply + Send + Sync + 'static) -> TestServer {
    older(|| answer(202, &[], ""), call).await
}

/// A server that answers the request that it does not know with `first`.
async fn older(
    first: impl Fn() -> Reply + Send + Sync + 'static,
    call: impl Fn(&SeenRequest, &str, &Value) -> Reply + Send + Sync + 'static,
) -> TestServer {
    TestServer::start(move |asked, _| {
        if asked.method != "POST" {
            return answer(405, &[], "");
        }
        let message = asked.json();
        let result = |value: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": value });
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" => first(),
            "initialize" => {
                let about = json!({ "name": "remote", "version": "1" });
                let answered = json!({
                    "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": about,
                });
                let headers = [("content-type", "application/json"), ("mcp-session-id", "session-1")];
                answer(200, &headers, &result(answered).to_string())
            }
            "tools/list" => {
                let tool = json!({ "name": "echo", "inputSchema": { "type": "object" } });
                json_answer(&result(json!({ "tools": [tool] })))
            }
            "tools/call" => {
                let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
                call(asked, text, &message["id"])
            }
            _ => answer(202, &[], ""),
        }
    })
    .await
}

fn said(id: &Value, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } })
}

fn settings(server: &TestServer) -> McpHttp {
    let mut http = McpHttp::new(server.url("/mcp"));
    http.private = vec![server.place()];
    http.plain_http = true;
    http
}

async fn registry(http: McpHttp, effect: Effect, credentials: &Credentials) -> Registry {
    let server = McpClient::new(McpSettings::new("remote", McpTransport::Http(http))).unwrap();
    let mut builder = Registry::builder();
    for tool in server.manifest(credentials).await.unwrap().tools {
        let declaration = ToolDeclaration::new("remote_echo").effect(effect);
        builder = builder.tool(McpTool::new(declaration, &server, tool).unwrap());
    }
    builder.build().unwrap()
}

async fn call(registry: &Registry, text: &str, credentials: &Credentials) -> Observation {
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    registry.dispatch("remote_echo", &json!({ "text": text }), context, credentials, 9_000, 4_000).await
}

async fn refused(http: McpHttp) -> String {
    match McpClient::new(McpSettings::new("remote", McpTransport::Http(http))) {
        Ok(server) => server.manifest(&Credentials::none()).await.unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_event_is_counted_to_its_blank_line() {
    let mut event = Event::default();
    assert_eq!(event.take(b"data: a\n\ndata: bcd\r\n\r"), 12);
    assert_eq!(event.take(b"\n: x\n"), 13);
    assert_eq!((event.bytes, event.take(b"y")), (4, 5));
}

#[tokio::test]
async fn a_call_goes_over_http_with_its_session_and_its_key() {
    // S1-27, S1-31, K13
    let server = server(|asked, text, id| {
        let key = asked.header("x-api-key").unwrap_or_default();
        json_answer(&said(id, &format!("{text} for {key}")))
    })
    .await;
    let mut http = settings(&server);
    http.headers = vec![("x-team".to_owned(), "red".to_owned())];
    http.auth = Some(HttpAuth::Header { key_env: "KEY".to_owned(), header: "x-api-key".to_owned() });
    let credentials: Credentials = [("KEY", "k3y-of-remote")].into_iter().collect();
    let registry = registry(http, Effect::Read, &credentials).await;
    let seen = call(&registry, "hello", &credentials).await;
    assert_eq!(&*seen.markdown, "hello for [masked]");
    let asked = server.asked();
    let posts: Vec<&SeenRequest> = asked.iter().filter(|asked| asked.method == "POST").collect();
    assert!(posts.iter().all(|it| it.header("x-api-key") == Some("k3y-of-remote")), "{posts:?}");
    assert!(posts.iter().all(|it| it.header("x-team") == Some("red")));
    assert!(posts.iter().skip(2).all(|it| it.header("mcp-session-id") == Some("session-1")), "{posts:?}");
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let offered = &posts[1].json()["params"]["capabilities"];
    assert_eq!(*offered, tasks, "no model, no person and no folder of ours is offered");
    assert!(posts[0].body.contains("server/discover"), "the newest revision is tried first");
}

#[tokio::test]
async fn the_newest_revision_is_spoken_first_whatever_an_older_server_makes_of_it() {
    let cases: [(u16, &str); 7] = [
        (200, r#"{"jsonrpc":"2.0","id":0,"result":{}}"#),
        (400, "Bad Request: no session"),
        (400, r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no session"}}"#),
        (404, "<html>"),
        (405, ""),
        (202, ""),
        (200, r#"{"jsonrpc":"2.0","id":0,"error":{"code":"-32601","message":null}}"#),
    ];
    for (status, body) in cases {
        let first = move || answer(status, &[("content-type", "application/json")], body);
        let older = older(first, |_, text, id| json_answer(&said(id, text))).await;
        let none = Credentials::none();
        let registry = registry(settings(&older), Effect::Read, &none).await;
        assert_eq!(&*call(&registry, "hello", &none).await.markdown, "hello", "{status} {body}");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_leaves_a_write_in_doubt() {
    // T12
    let answers: [(&str, Status, Status, &str); 8] = [
        ("close", Status::RetryableError, Status::InDoubt, "the server did not answer"),
        ("500", Status::RetryableError, Status::InDoubt, "the server answered 500"),
        ("429", Status::RetryableError, Status::RetryableError, "the server answered 429"),
        ("403", Status::PermanentError, Status::PermanentError, "access was refused"),
        ("404", Status::RetryableError, Status::RetryableError, "the server has forgotten the session"),
        ("html", Status::RetryableError, Status::InDoubt, "neither JSON nor a stream of events"),
        ("half", Status::RetryableError, Status::InDoubt, "broke in the middle"),
        ("moved", Status::PermanentError, Status::PermanentError, "redirects to another address"),
    ];
    let server = server(|_, text, id| match text {
        "close" => Reply::Close,
        "500" => answer(500, &[("content-type", "text/html")], "oops"),
        "429" => answer(429, &[], ""),
        "403" => answer(403, &[], ""),
        "404" => answer(404, &[], ""),
        "html" => answer(200, &[("content-type", "text/html")], "<p>hello</p>"),
        "half" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{";
            Reply::Raw(head.as_bytes().to_vec())
        }
        "moved" => redirect("https://elsewhere.example.com/mcp"),
        text => json_answer(&said(id, text)),
    })
    .await;
    let none = Credentials::none();
    for (text, of_read, of_write, says) in answers {
        let reads = registry(settings(&server), Effect::Read, &none).await;
        let writes = registry(settings(&server), Effect::WriteIrreversible, &none).await;
        let (read, write) = (call(&reads, text, &none).await, call(&writes, text, &none).await);
        assert_eq!((read.status, write.status), (of_read, of_write), "{text}: {}", write.summary);
        assert!(read.summary.contains(says), "{text}: {}", read.summary);
    }
}

// Issue 43, K3
#[tokio::test]
async fn an_answer_is_read_by_its_charset_and_one_in_none_is_named() {
    let sent = |kind: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\ncontent-type: {kind}\r\n\r\n",
            body.len(),
        );
        Reply::Raw([head.as_bytes(), body].concat())
    };
    let cases = [
        ("application/json; charset=iso-8859-1", Status::Ok, "Zoë"),
        ("application/json; charset=\"utf-16\"", Status::Ok, "Zoë"),
        ("application/json", Status::RetryableError, "its answer is not UTF-8, and names no charset"),
        ("application/json; charset=utf-8", Status::RetryableError, "its answer is not UTF-8, as it says"),
        (
            "application/json; charset=cp437",
            Status::RetryableError,
            "its answer is in the charset `cp437`, which",
        ),
        ("text/event-stream; charset=latin1", Status::Ok, "Zoë"),
        ("text/event-stream", Status::RetryableError, "its answer is not UTF-8, and names no charset"),
        (
            "text/event-stream; charset=iso-2022-kr",
            Status::RetryableError,
            "in the charset `iso-2022-kr`, which",
        ),
    ];
    let server = server(move |_, nth, id| {
        let kind = cases[nth.parse::<usize>().unwrap()].0;
        let mut text = said(id, "Zoë").to_string();
        if kind.starts_with("text/") {
            text = format!("data: {text}\n\n");
        }
        let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        sent(kind, if kind.contains("16") { &wide } else { &latin })
    })
    .await;
    let none = Credentials::none();
    for (nth, (kind, status, says)) in cases.into_iter().enumerate() {
        let registry = registry(settings(&server), Effect::Read, &none).await;
        let seen = call(&registry, &nth.to_string(), &none).await;
        assert_eq!(seen.status, status, "{kind}: {seen:?}");
        assert!(seen.text().contains(says), "{kind}: {}", seen.text());
    }
}

#[tokio::test]
async fn a_write_that_the_server_answered_is_done_whatever_the_answer_holds() {
    // T18
    let text = json!({ "type": "text", "text": "seven" });
    let answers = [
        (
            json!({ "content": [{ "type": "hologram", "data": "x" }, text] }),
            "[content of the kind hologram, not read]\n\nseven",
        ),
        (
            json!({ "content": [{ "type": "text", "text": "seven", "annotations": { "audience": ["robot"] } }] }),
            "seven",
        ),
        (json!({ "content": [{ "text": "seven" }], "isError": "false" }), "seven"),
        (json!({ "content": "seven", "resultType": "complete" }), "seven"),
        (json!({ "content": [{ "type": "text", "text": null }] }), "[content of the kind text, not read]"),
        (json!({ "content": null, "structuredContent": "seven" }), "seven"),
        (json!({ "content": null, "isError": null }), ""),
        (json!({}), ""),
        (json!({ "answer": 7 }), ""),
    ];
    let sent = answers.clone();
    let server = server(move |_, text, id| {
        let failed =
            json!({ "content": [{ "type": "hologram" }, { "type": "text", "text": "no" }], "isError": true });
        let result = text.parse::<usize>().map_or(&failed, |nth| &sent[nth].0);
        json_answer(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    })
    .await;
    let none = Credentials::none();
    let reads = registry(settings(&server), Effect::Read, &none).await;
    for effect in [Effect::WriteIrreversible, Effect::WriteIdempotent, Effect::Egress] {
        let writes = registry(settings(&server), effect, &none).await;
        for (nth, (answer, says)) in answers.iter().enumerate() {
            let write = call(&writes, &nth.to_string(), &none).await;
            assert_eq!(
                (write.status, write.markdown.contains(says)),
                (Status::Ok, true),
                "{answer}: {}",
                write.markdown
            );
            if !says.is_empty() {
                assert_eq!(&*call(&reads, &nth.to_string(), &none).await.markdown, *says, "{answer}");
            }
        }
        // What the server calls an error is one.
        let failed = call(&writes, "failed", &none).await;
        assert_eq!((failed.status, failed.summary.contains("no")), (Status::PermanentError, true));
    }
    assert_eq!(call(&reads, "8", &none).await.status, Status::RetryableError);
}

#[tokio::test]
async fn an_answer_may_be_a_stream_of_events() {
    // S1-27
    let server = server(|_, text, id| {
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } });
        let body = format!("data: {progress}\n\nevent: message\ndata: {}\n\n", said(id, text));
        let kind = [("content-type", "text/event-stream; charset=utf-8")];
        match text {
            "cut" => answer(200, &kind, &format!("data: {progress}\n\n")),
            "long" => answer(200, &kind, &format!("data: {}\n\n", "x".repeat(9 << 20))),
            _ => answer(200, &kind, &body),
        }
    })
    .await;
    let none = Credentials::none();
    let registry = registry(settings(&server), Effect::WriteIrreversible, &none).await;
    assert_eq!(&*call(&registry, "hello", &none).await.markdown, "hello");
    let cut = call(&registry, "cut", &none).await;
    assert_eq!(cut.status, Status::InDoubt, "{}", cut.summary);
    let long = call(&registry, "long", &none).await;
    assert_eq!(long.status, Status::InDoubt, "{}", long.summary);
}

#[tokio::test]
async fn a_token_that_is_refused_is_fetched_again_once() {
    // K13
    let tokens = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tokens);
    let authority = TestServer::start(move |_, _| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        json_answer(&json!({ "access_token": format!("token-number-{number}"), "expires_in": 600 }))
    })
    .await;
    let server = server(|asked, text, id| match (text, asked.header("authorization")) {
        ("expired", Some("Bearer token-number-0")) | ("never", _) => answer(401, &[], ""),
        _ => json_answer(&said(id, text)),
    })
    .await;
    let mut http = settings(&server);
    http.private.push(authority.place());
    http.auth = Some(HttpAuth::ClientCredentials {
        token_url: authority.url("/token"),
        client_id: "us".to_owned(),
        client_secret_env: "SECRET".to_owned(),
        scope: String::new(),
    });
    let credentials: Credentials = [("SECRET", "cl1ent-secret")].into_iter().collect();
    let registry = registry(http, Effect::WriteIrreversible, &credentials).await;
    assert_eq!(&*call(&registry, "expired", &credentials).await.markdown, "expired");
    assert_eq!(tokens.load(Ordering::SeqCst), 2);
    let seen = call(&registry, "never", &credentials).await;
    assert_eq!((seen.status, &*seen.summary), (Status::PermanentError, "access was refused"));
    assert_eq!(tokens.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_place_that_may_not_be_connected_to_never_is() {
    // K10
    let canary = TestServer::always(answer(200, &[], "")).await;
    let with = |change: fn(&mut McpHttp)| {
        let mut http = settings(&canary);
        change(&mut http);
        refused(http)
    };
    assert!(with(|it| it.private.clear()).await.contains("leads to this machine"));
    assert!(with(|it| it.plain_http = false).await.contains("must begin with https://"));
    assert!(
        with(|it| it.url = "https://user:word@example.com/".to_owned())
            .await
            .contains("a user or a password")
    );
    assert!(with(|it| it.url = "nonsense".to_owned()).await.contains("`url`: it is not a URL"));
    assert!(with(|it| it.url.push_str("#part")).await.contains("take it out"));
    assert!(
        with(|it| it.headers = vec![("Mcp-Session-Id".into(), "x".into())])
            .await
            .contains("`headers.Mcp-Session-Id`")
    );
    assert!(
        with(|it| it.headers = vec![("a b".into(), "x".into())]).await.contains("not the name of a header")
    );
    let exposed = with(|it| {
        it.url = "http://example.com/mcp".to_owned();
        it.auth = Some(HttpAuth::Bearer { token_env: "TOKEN".to_owned() });
    });
    assert!(exposed.await.contains("unencrypted"));
    assert_eq!(canary.connections(), 0);
    let unreachable = with(|it| {
        it.url = "http://127.0.0.1:1/mcp".to_owned();
        it.private = vec!["127.0.0.1:1".to_owned()];
    });
    assert!(unreachable.await.contains("no connection could be made"));
}

#[tokio::test]
async fn a_session_that_the_server_has_forgotten_is_replaced_once() {
    // T12
    let sessions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sessions);
    let server = TestServer::start(move |asked, _| {
        if asked.method != "POST" {
            return answer(405, &[], "");
        }
        let message = asked.json();
        let result =
            |value: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": value }).to_string();
        let json = ("content-type", "application/json");
        if message["method"] == "initialize" {
            let number = count.fetch_add(1, Ordering::SeqCst).to_string();
            let about = json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "remote", "version": "1" },
            });
            return answer(200, &[json, ("mcp-session-id", &number)], &result(about));
        }
        let session = asked.header("mcp-session-id").unwrap_or_default().to_owned();
        match message["method"].as_str().unwrap_or_default() {
            "tools/list" => {
                let tools = json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] });
                answer(200, &[json], &result(tools))
            }
            // As the reference implementation refuses a session that it does not know.
            "tools/call" if session == "0" || message["params"]["arguments"]["text"] == "never" => {
                let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
                answer(400, &[json], &json!({ "jsonrpc": "2.0", "error": error, "id": null }).to_string())
            }
            "tools/call" => answer(200, &[json], &said(&message["id"], &session).to_string()),
            _ => answer(202, &[], ""),
        }
    })
    .await;
    let none = Credentials::none();
    let registry = registry(settings(&server), Effect::WriteIrreversible, &none).await;
    assert_eq!(&*call(&registry, "hello", &none).await.markdown, "1", "in the second session");
    let seen = call(&registry, "never", &none).await;
    assert_eq!(
        (seen.status, &*seen.summary),
        (Status::RetryableError, "the server has forgotten the session")
    );
    assert_eq!(sessions.load(Ordering::SeqCst), 3);
}
