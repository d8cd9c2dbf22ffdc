//! Tests of the client: what it sends, and that no server holds it up or fills its memory.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Instant;

use crate::{CancellationToken, Credentials, Tool};
use loop_core::types::{Effect, Status};
use serde_json::json;

use crate::connectors::http::test_server::{
    Reply, TestServer, answer, call, context, declaration, json_answer, reader, redirect, seen,
};
use crate::connectors::http::{HttpDefinition, HttpTool};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

#[tokio::test]
async fn a_server_that_never_answers_costs_the_time_of_the_call_and_no_more() {
    let server = TestServer::always(Reply::Never).await;
    let began = Instant::now();
    let observation = seen(reader(&server.definition("/"), &[]), json!({}), 1_000).await;
    assert_eq!((observation.status, &*observation.summary), (Status::Timeout, "timeout after 1000 ms"));
    assert!(began.elapsed().as_secs() < 10);
    server.closed(1).await;
}

#[tokio::test]
async fn a_server_that_dribbles_costs_the_time_of_the_call_and_no_more() {
    let head = format!("{HEAD}content-length: 1000\r\n\r\n[");
    for reply in [
        Reply::Endless(head, b"1,".to_vec(), 20),
        Reply::Endless("HTTP/1.1 200 OK\r\n".to_owned(), b"x-a: b\r\n".to_vec(), 20),
    ] {
        let server = TestServer::always(reply).await;
        let observation = seen(reader(&server.definition("/"), &[]), json!({}), 1_000).await;
        assert_eq!(observation.status, Status::Timeout);
        server.closed(1).await;
    }
}

#[tokio::test]
async fn a_server_that_sends_without_end_is_cut_off_at_the_limit() {
    // A length that is announced, chunks, and a body that ends with its connection.
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096)).into_bytes();
    for (headers, again) in [
        (format!("{HEAD}content-length: 1073741824\r\n\r\n"), vec![b'x'; 4096]),
        (format!("{HEAD}transfer-encoding: chunked\r\n\r\n"), chunk),
        (format!("{HEAD}\r\n"), vec![b'x'; 4096]),
    ] {
        let server = TestServer::always(Reply::Endless(headers, again, 0)).await;
        let result = call(&reader(&server.definition("/"), &[]), json!({})).await;
        assert_eq!(
            result.error.as_deref(),
            Some("the answer has more than 1048576 bytes; ask for less, or raise `max_bytes`")
        );
        server.closed(1).await;
        assert_eq!(server.connections(), 1, "what is too long is not asked for again");
    }
    let server =
        TestServer::always(Reply::Endless("HTTP/1.1 200 OK\r\n".to_owned(), b"x-a: b\r\n".repeat(64), 0))
            .await;
    let result = call(&reader(&server.definition("/"), &[]), json!({})).await;
    assert!(!result.success, "headers without end");
}

#[tokio::test]
async fn the_limit_of_bytes_is_exact() {
    // A body that ends with its connection announces no length.
    let unannounced = Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n12345".to_vec());
    let announced = answer(200, &[("content-type", "text/plain")], "12345");
    for (reply, limit, is_fine) in
        [(&announced, 5, true), (&announced, 4, false), (&unannounced, 5, true), (&unannounced, 4, false)]
    {
        let server = TestServer::always(reply.clone()).await;
        let mut definition = server.definition("/");
        definition.max_bytes = Some(limit);
        assert_eq!(call(&reader(&definition, &[]), json!({})).await.success, is_fine, "{limit}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_once_more() {
    let half = format!("{HEAD}content-length: 100\r\n\r\n[1,");
    let server = TestServer::start(move |_, at| match at {
        0 => Reply::Raw(half.clone().into_bytes()),
        _ => json_answer(&json!([{ "id": 1 }])),
    })
    .await;
    assert!(call(&reader(&server.definition("/"), &[]), json!({})).await.success);
    assert_eq!(server.connections(), 2);
    let half = format!("{HEAD}content-length: 100\r\n\r\n[1,");
    let server = TestServer::always(Reply::Raw(half.into_bytes())).await;
    let result = call(&reader(&server.definition("/"), &[]), json!({})).await;
    assert_eq!(result.kind, Some(crate::Failure::Retryable));
    assert_eq!(result.error.as_deref(), Some("the connection broke in the middle of the answer"));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_server_that_says_nothing_sensible_is_a_failure_that_may_pass() {
    for reply in
        [Reply::Close, Reply::Raw(b"\x16\x03\x01\x00".to_vec()), Reply::Raw(b"SSH-2.0-x\r\n".to_vec())]
    {
        let server = TestServer::always(reply).await;
        let result = call(&reader(&server.definition("/"), &[]), json!({})).await;
        assert_eq!(result.kind, Some(crate::Failure::Retryable), "{result:?}");
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn a_compressed_answer_that_nobody_asked_for_is_unpacked_or_refused() {
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let server = TestServer::always(answer(200, &headers, "\u{1f}\u{8b}")).await;
    let result = call(&reader(&server.definition("/"), &[]), json!({})).await;
    let message = "the answer says that it is compressed by `gzip`, and cannot be unpacked";
    assert_eq!(result.error.as_deref(), Some(message));
    let head = format!("{HEAD}content-encoding: br\r\ncontent-length: 12\r\n\r\n");
    let packed = [head.as_bytes(), b"\x8b\x03\x80\x7b\x22\x61\x22\x3a\x20\x31\x7d\x03"].concat();
    let packing = TestServer::always(Reply::Raw(packed)).await;
    let result = call(&reader(&packing.definition("/"), &[]), json!({})).await;
    assert_eq!(result.data, json!({ "a": 1 }));
    assert_eq!(server.asked()[0].header("accept-encoding"), None);
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let server = TestServer::start(|asked, _| redirect(if asked.target == "/a" { "/b" } else { "/a" })).await;
    let mut definition = server.definition("/a");
    definition.redirects = Some(5);
    let result = call(&reader(&definition, &[]), json!({})).await;
    assert_eq!(result.error.as_deref(), Some("`127.0.0.1` redirects further than 5 times"));
    assert_eq!(server.connections(), 6);
}

#[tokio::test]
async fn a_status_that_leads_nowhere_is_not_called_a_redirect() {
    // T11: 304 is "not modified".
    for status in [300, 304, 305, 306] {
        let server = TestServer::always(answer(status, &[], "")).await;
        let result = call(&reader(&server.definition("/"), &[]), json!({})).await;
        let error = result.error.unwrap();
        assert!(error.contains(&status.to_string()) && !error.contains("redirect"), "{error}");
    }
}

#[tokio::test]
async fn only_a_get_is_redirected() {
    for status in [301, 302, 303, 307, 308] {
        let canary = TestServer::always(json_answer(&json!([1]))).await;
        let to = canary.url("/");
        let server = TestServer::start(move |_, _| answer(status, &[("location", &*to)], "")).await;
        let mut definition = server.definition("/");
        definition.method = Some("POST".to_owned());
        definition.allow = Some(vec!["127.0.0.1".to_owned(), canary.place()]);
        definition.private.push(canary.place());
        definition.redirects = Some(5);
        let result = call(&reader(&definition, &[]), json!({})).await;
        assert!(result.error.unwrap().ends_with("it redirects, and only a GET is redirected"));
        assert_eq!(canary.connections(), 0);
    }
}

#[tokio::test]
async fn a_cancelled_call_drops_its_connection() {
    // S0-94
    let server = TestServer::always(Reply::Never).await;
    let tool = reader(&server.definition("/"), &[]);
    let cancel = CancellationToken::new();
    let context = context().with_cancel(cancel.clone());
    let credentials = Credentials::none();
    let calling = tool.call(json!({}), &context, &credentials);
    let stopping = async {
        server.is_asked().await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(calling, stopping);
    assert_eq!(result.error.as_deref(), Some("the call was cancelled"));
    server.closed(1).await;
}

#[tokio::test]
async fn a_dropped_call_drops_its_connection() {
    // S0-94
    let server = TestServer::always(Reply::Never).await;
    let tool = reader(&server.definition("/"), &[]);
    tokio::select! {
        result = call(&tool, json!({})) => panic!("{result:?}"),
        () = server.is_asked() => {}
    }
    server.closed(1).await;
}

#[tokio::test]
async fn the_proxies_of_the_environment_are_not_used() {
    // K10: the environment of a process is not changed while it runs, so this test runs itself in another one.
    const CHILD: &str = "LOOPGATE_TEST_PORT";
    if let Ok(port) = std::env::var(CHILD) {
        let definition = HttpDefinition {
            url: format!("http://127.0.0.1:{port}/"),
            private: vec![format!("127.0.0.1:{port}")],
            plain_http: true,
            ..HttpDefinition::default()
        };
        assert!(call(&reader(&definition, &[]), json!({})).await.success);
        return;
    }
    let server = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    let proxy = TestServer::always(json_answer(&json!([{ "id": 2 }]))).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "connectors::http::client::tests::the_proxies_of_the_environment_are_not_used"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, format!("http://127.0.0.1:{}", proxy.port));
    }
    child.env_remove("NO_PROXY").env_remove("no_proxy").env(CHILD, server.port.to_string());
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((server.connections(), proxy.connections()), (1, 0));
}

/// The one test that is run in a process of its own, with the proxy of a company whose name leads to a private address.
const PUBLIC: &str = "LOOPGATE_TEST_PUBLIC";

// Issue 43, P8
#[tokio::test]
async fn what_is_public_goes_by_the_proxies_of_the_environment() {
    if std::env::var_os(PUBLIC).is_some() {
        for (url, goes) in [
            ("http://shop.example/x", true),
            ("http://direct.example/x", false),
            // The proxy would take it for a machine of its own, or for this one.
            ("http://localhost:9/x", false),
            ("http://db.localhost/x", false),
        ] {
            let definition =
                HttpDefinition { url: url.to_owned(), plain_http: true, ..HttpDefinition::default() };
            let result = call(&reader(&definition, &[]), json!({})).await;
            assert_eq!(result.success, goes, "{url}: {result:?}");
        }
        return;
    }
    let proxy = TestServer::always(json_answer(&json!([{ "id": 2 }]))).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "connectors::http::client::tests::what_is_public_goes_by_the_proxies_of_the_environment",
    ]);
    for name in ["http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env_remove(name);
    }
    child.env("HTTP_PROXY", format!("localhost:{}", proxy.port)).env("NO_PROXY", "direct.example");
    child.env_remove("no_proxy").env(PUBLIC, "1");
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let asked: Vec<String> = proxy.asked().iter().map(|asked| asked.target.clone()).collect();
    assert_eq!(asked, ["http://shop.example/x"]);
}

/// The proxy of the tests below, each of which runs itself in another process.
const BEHIND: &str = "LOOPGATE_TEST_BEHIND";

// Issue 43, P8
#[tokio::test]
async fn a_proxy_that_is_none_or_does_not_let_through_is_named() {
    if let Some(expected) = std::env::var_os(BEHIND) {
        let expected = expected.into_string().unwrap();
        for url in ["http://shop.example/x", "https://shop.example/x"] {
            let definition =
                HttpDefinition { url: url.to_owned(), plain_http: true, ..HttpDefinition::default() };
            let result = call(&reader(&definition, &[]), json!({})).await;
            let error = result.error.unwrap();
            assert!(error.contains(&expected), "{url}: {error} has no {expected:?}");
            assert!(error.contains("`ALL_PROXY`") && !error.contains("hunter2"), "{url}: {error}");
        }
        return;
    }
    let refusing = TestServer::always(answer(407, &[], "")).await;
    for (value, expected) in [
        ("not a url".to_owned(), "http://HOST:PORT"),
        ("socks5://ada:hunter2@127.0.0.1:9".to_owned(), "socks5://127.0.0.1:9"),
        ("http://ada:hunter2@127.0.0.1:9".to_owned(), "http://127.0.0.1:9"),
        (format!("ada:hunter2@127.0.0.1:{}", refusing.port), "user and password"),
    ] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "a_proxy_that_is_none_or_does_not_let_through_is_named";
        child.args(["--exact".to_owned(), format!("connectors::http::client::tests::{name}")]);
        let others = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"];
        others.iter().for_each(|name| _ = child.env_remove(name));
        child.env("ALL_PROXY", value).env(BEHIND, expected);
        let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[tokio::test]
async fn more_requests_than_the_limit_of_a_host_wait_or_fail() {
    let server = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    let mut definition = server.definition("/");
    definition.per_minute = Some(2);
    let tools = [reader(&definition, &[]), reader(&definition, &[])];
    for tool in &tools {
        assert!(call(tool, json!({})).await.success);
    }
    let result = call(&tools[0], json!({})).await;
    let error = result.error.unwrap();
    assert!(error.starts_with("the limit of 2 requests a minute is reached; try again after "), "{error}");
    assert!(result.retry_after_ms.is_some_and(|ms| ms > 50_000));
    assert_eq!((result.kind, server.connections()), (Some(crate::Failure::Retryable), 2));
}

#[tokio::test]
async fn nothing_is_sent_that_nobody_wrote_down() {
    let server = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    call(&reader(&server.definition("/x"), &[]), json!({})).await;
    let asked = &server.asked()[0];
    let names: Vec<&str> = asked.headers.keys().map(String::as_str).collect();
    assert_eq!(names, ["accept", "host", "user-agent"]);
    assert!(asked.header("user-agent").unwrap().starts_with("loopgate/"));
    let mut definition = server.definition("/x");
    definition.body = Some(json!({ "a": 1 }));
    let tool = HttpTool::new(declaration(Effect::WriteIdempotent, &[]), &definition).unwrap();
    call(&tool, json!({})).await;
    let asked = &server.asked()[1];
    assert_eq!((&*asked.method, &*asked.target, asked.json()), ("POST", "/x", json!({ "a": 1 })));
    assert_eq!(asked.header("content-type"), Some("application/json"));
}
