//! Tests of the tool as a whole: what each answer is worth, when a call is tried again, what is refused when it is made.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Instant;

use crate::{Failure, Registry};
use loop_core::types::Status;
use serde_json::json;

use super::*;
use crate::connectors::http::test_server::{
    Reply, TestServer, answer, call, context, declaration, json_answer, reader, seen,
};
use crate::connectors::http::{HttpAuth, HttpPages, HttpPaging};

const JSON: (&str, &str) = ("content-type", "application/json");

fn writer(server: &TestServer, effect: Effect) -> HttpTool {
    let definition = HttpDefinition { method: Some("POST".to_owned()), ..server.definition("/orders") };
    HttpTool::new(declaration(effect, &[]), &definition).unwrap()
}

/// The status that a run sees of a call that got this reply, with the tool's message and how often it was sent.
async fn status_of(effect: Effect, reply: Reply) -> (Status, String, usize) {
    let server = TestServer::always(reply).await;
    let tool = match effect {
        Effect::Read => reader(&server.definition("/orders"), &[]),
        effect => writer(&server, effect),
    };
    let observation = seen(tool, json!({}), 20_000).await;
    (observation.status, observation.summary.to_string(), server.connections())
}

#[tokio::test]
async fn each_answer_to_a_read_has_its_status() {
    let text = ("content-type", "text/plain");
    let outcomes = [
        (json_answer(&json!([{ "id": 1 }])), Status::Ok, "Found 1 items"),
        (answer(201, &[JSON], "{\"id\":1}"), Status::Ok, "Found 1 items"),
        (answer(200, &[text], "hello"), Status::Ok, "hello"),
        (json_answer(&json!([])), Status::Empty, "No data found"),
        (answer(204, &[], ""), Status::Empty, "No data found"),
        (answer(404, &[JSON], "{\"message\":\"x\"}"), Status::Empty, "No data found"),
        (answer(410, &[], ""), Status::Empty, "No data found"),
        (
            answer(400, &[JSON], "{\"message\":\"no such state\"}"),
            Status::PermanentError,
            "the server answered 400 Bad Request: no such state",
        ),
        (
            answer(422, &[text], "bad\u{7}\nvalue"),
            Status::PermanentError,
            "the server answered 422 Unprocessable Entity: bad value",
        ),
        (
            answer(401, &[JSON], "{\"message\":\"x\"}"),
            Status::PermanentError,
            "access was refused (401 Unauthorized)",
        ),
        (answer(403, &[], ""), Status::PermanentError, "access was refused (403 Forbidden)"),
        (answer(409, &[], ""), Status::PermanentError, "the server answered 409 Conflict"),
        (
            answer(200, &[("content-type", "image/png")], "x"),
            Status::PermanentError,
            "the answer is of type `image/png`; this tool reads JSON and text",
        ),
        (
            answer(200, &[JSON], "{"),
            Status::PermanentError,
            "the answer is not the JSON that it says it is: EOF while parsing an object at line 1 column 1",
        ),
    ];
    for (reply, status, says) in outcomes {
        let seen = status_of(Effect::Read, reply.clone()).await;
        assert_eq!(seen, (status, says.to_owned(), 1), "{reply:?}");
    }
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let (seen, says, sent) = status_of(Effect::Read, answer(status, &[], "")).await;
        assert_eq!((seen, sent), (Status::RetryableError, 2), "{status}");
        assert!(says.starts_with(&format!("the server answered {status}")), "{says}");
    }
}

#[tokio::test]
async fn a_write_is_sent_once_and_its_end_is_as_sure_as_its_answer() {
    // K1: what may not happen twice, and may have happened, is in doubt.
    let repeatable = [Effect::WriteIdempotent, Effect::WriteKeyed];
    let single = [Effect::WriteIrreversible, Effect::Egress, Effect::Exec];
    let half = Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec());
    let outcomes = [
        (answer(200, &[JSON], "{\"id\":1}"), Status::Ok, Status::Ok),
        (answer(204, &[], ""), Status::Ok, Status::Ok),
        (answer(202, &[JSON], "null"), Status::Ok, Status::Ok),
        (answer(200, &[("content-type", "image/png")], "x"), Status::Ok, Status::Ok),
        (half, Status::Ok, Status::Ok),
        (answer(404, &[], ""), Status::PermanentError, Status::PermanentError),
        (answer(409, &[], ""), Status::PermanentError, Status::PermanentError),
        (answer(403, &[], ""), Status::PermanentError, Status::PermanentError),
        (answer(429, &[], ""), Status::RetryableError, Status::RetryableError),
        (answer(500, &[], ""), Status::RetryableError, Status::InDoubt),
        (answer(503, &[], ""), Status::RetryableError, Status::InDoubt),
        (answer(302, &[("location", "/x")], ""), Status::PermanentError, Status::InDoubt),
        (Reply::Close, Status::RetryableError, Status::InDoubt),
    ];
    for (reply, with_repeat, without) in outcomes {
        for effect in repeatable.into_iter().chain(single) {
            let (status, says, sent) = status_of(effect, reply.clone()).await;
            let expected = if repeatable.contains(&effect) { with_repeat } else { without };
            assert_eq!((status, sent), (expected, 1), "{effect:?} {reply:?}: {says}");
        }
    }
}

#[tokio::test]
async fn a_write_whose_connection_could_not_be_made_did_not_happen() {
    // K1
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    drop(listener);
    let definition = HttpDefinition {
        url: format!("http://{place}/"),
        method: Some("POST".to_owned()),
        private: vec![place],
        plain_http: true,
        ..HttpDefinition::default()
    };
    let tool = HttpTool::new(declaration(Effect::WriteIrreversible, &[]), &definition).unwrap();
    let result = call(&tool, json!({})).await;
    assert_eq!(result.kind, Some(Failure::Retryable));
    assert!(result.error.unwrap().starts_with("no connection could be made: "));
}

#[tokio::test]
async fn a_write_that_is_cancelled_after_it_left_is_in_doubt() {
    // K1
    for (effect, kind) in
        [(Effect::WriteIrreversible, Failure::InDoubt), (Effect::WriteKeyed, Failure::Retryable)]
    {
        let server = TestServer::always(Reply::Never).await;
        let tool = writer(&server, effect);
        let context = context();
        let credentials = Credentials::none();
        let cancel = async {
            server.is_asked().await;
            context.cancel.cancel();
        };
        let (result, ()) = tokio::join!(tool.call(json!({}), &context, &credentials), cancel);
        assert_eq!(result.kind, Some(kind), "{effect:?}");
        server.closed(1).await;
    }
    let server = TestServer::always(Reply::Never).await;
    let context = context();
    context.cancel.cancel();
    let result =
        writer(&server, Effect::WriteIrreversible).call(json!({}), &context, &Credentials::none()).await;
    assert_eq!((result.kind, server.connections()), (Some(Failure::Retryable), 0), "it never left");
}

#[tokio::test]
async fn a_keyed_write_names_its_call_and_every_try_names_the_same() {
    let server = TestServer::always(answer(503, &[], "")).await;
    let tool = writer(&server, Effect::WriteKeyed);
    call(&tool, json!({})).await;
    call(&tool, json!({})).await;
    let keys: Vec<String> =
        server.asked().iter().map(|asked| asked.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys, ["run-1/1/action-0", "run-1/1/action-0"]);
}

#[tokio::test]
async fn a_request_names_the_span_of_its_call_unless_the_definition_does() {
    // S4-12
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let server = TestServer::always(answer(201, &[], "")).await;
    let own = ("traceparent".to_owned(), "mine".to_owned());
    let definition = HttpDefinition { headers: [own].into(), ..server.definition("/orders") };
    let traced = context().with_traceparent(Some(text.parse().unwrap()));
    let credentials = Credentials::none();
    writer(&server, Effect::WriteKeyed).call(json!({}), &traced, &credentials).await;
    reader(&definition, &[]).call(json!({}), &traced, &credentials).await;
    writer(&server, Effect::WriteKeyed).call(json!({}), &context(), &credentials).await;
    let named: Vec<Option<String>> =
        server.asked().iter().map(|asked| asked.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(named, [Some(text.to_owned()), Some("mine".to_owned()), None]);
}

#[tokio::test]
async fn a_read_waits_as_long_as_the_server_asks_within_its_time() {
    let wait_then_fine = |seconds: &'static str| {
        TestServer::start(move |_, at| match at {
            0 => answer(429, &[("retry-after", seconds)], ""),
            _ => json_answer(&json!([{ "id": 1 }])),
        })
    };
    let server = wait_then_fine("1").await;
    let began = Instant::now();
    let observation = seen(reader(&server.definition("/"), &[]), json!({}), 10_000).await;
    assert_eq!((observation.status, server.connections()), (Status::Ok, 2));
    assert!(began.elapsed() >= Duration::from_millis(950));
    // Longer than the call has, longer than any call waits, and a date.
    for (seconds, timeout_ms) in [("2", 1_000), ("3600", 10_000), ("Fri, 31 Dec 2100 23:59:59 GMT", 10_000)] {
        let server = wait_then_fine(seconds).await;
        let observation = seen(reader(&server.definition("/"), &[]), json!({}), timeout_ms).await;
        assert_eq!((observation.status, server.connections()), (Status::RetryableError, 1));
        assert!(
            observation.summary.contains("429 Too Many Requests; try again after "),
            "{}",
            observation.summary
        );
    }
    let server = wait_then_fine("3600").await;
    let result = call(&reader(&server.definition("/"), &[]), json!({})).await;
    assert_eq!(result.retry_after_ms, Some(3_600_000));
    for seconds in ["Mon, 01 Jan 2001 00:00:00 GMT", "0", "soon", "-1", ""] {
        let server = wait_then_fine(seconds).await;
        assert!(call(&reader(&server.definition("/"), &[]), json!({})).await.success, "{seconds}");
    }
}

#[tokio::test]
async fn graphql_errors_are_failures() {
    let run = async |effect: Effect, body: Value| {
        let server = TestServer::always(json_answer(&body)).await;
        let document = if effect.is_read() { "{ a }" } else { "mutation { a }" };
        let definition =
            HttpDefinition { graphql: Some(document.to_owned()), ..server.definition("/graphql") };
        let tool = HttpTool::new(declaration(effect, &[]), &definition).unwrap();
        let result = call(&tool, json!({})).await;
        (result.kind, result.summary, result.data)
    };
    let failed = json!({ "errors": [{ "message": "no such field" }], "data": null });
    let partial = json!({ "errors": [{ "message": "no such field" }], "data": { "a": 1 } });
    let says = "the GraphQL server reports an error: no such field".to_owned();
    for body in [&failed, &partial] {
        assert_eq!(
            run(Effect::Read, body.clone()).await,
            (Some(Failure::Permanent), says.clone(), Value::Null)
        );
    }
    assert_eq!(run(Effect::WriteIrreversible, failed).await.0, Some(Failure::Permanent));
    let (kind, summary, _) = run(Effect::WriteIrreversible, partial).await;
    assert_eq!((kind, summary), (Some(Failure::InDoubt), format!("it may have happened in part: {says}")));
    let (kind, summary, data) = run(Effect::Read, json!({ "errors": [], "data": { "a": 1 } })).await;
    assert_eq!((kind, &*summary, data), (None, "Found 1 items", json!({ "a": 1 })));
    let (kind, summary, _) = run(Effect::Read, json!({ "errors": "odd" })).await;
    assert_eq!(
        (kind, &*summary),
        (Some(Failure::Permanent), "the GraphQL server reports an error: without a message")
    );
}

#[tokio::test]
async fn control_characters_of_a_server_do_not_reach_the_model() {
    // I-24
    let body = json!([{ "note": "a\u{1b}]0;x\u{7}b\u{202e}c\u{0}" }]);
    let server = TestServer::always(json_answer(&body)).await;
    let observation = seen(reader(&server.definition("/"), &[]), json!({}), 5_000).await;
    assert_eq!(observation.status, Status::Ok);
    assert!(
        observation.markdown.chars().all(|c| loop_core::types::is_clean(c) || c == '\n'),
        "{:?}",
        observation.markdown
    );
}

#[tokio::test]
async fn arguments_that_cannot_be_sent_are_invalid_input() {
    let server = TestServer::always(json_answer(&json!([1]))).await;
    let tool = reader(&server.definition("/orders/{order}"), &["order"]);
    let observation = seen(tool, json!({ "order": ".." }), 5_000).await;
    assert_eq!((observation.status, server.connections()), (Status::InvalidInput, 0));
    let tool = reader(&server.definition("/orders/{order}/{scope.asset}"), &["order"]);
    let observation = seen(tool, json!({ "order": "1" }), 5_000).await;
    assert_eq!((observation.status, server.connections()), (Status::PermanentError, 0));
}

#[test]
fn a_definition_is_bound_to_its_digest_and_holds_no_secret() {
    let digest = |change: &dyn Fn(&mut HttpDefinition)| {
        let mut definition =
            HttpDefinition { url: "https://h.example/".to_owned(), ..HttpDefinition::default() };
        change(&mut definition);
        let tool = HttpTool::new(declaration(Effect::WriteKeyed, &[]), &definition).unwrap();
        tool.declaration.definition.unwrap()
    };
    let bearer = |name: &str| Some(HttpAuth::Bearer { token_env: name.to_owned() });
    type Change = Box<dyn Fn(&mut HttpDefinition)>;
    let changes: Vec<Change> = vec![
        Box::new(|_| {}),
        Box::new(|it| it.url.push('x')),
        Box::new(|it| it.method = Some("PUT".to_owned())),
        Box::new(|it| it.query = vec![("a".to_owned(), json!(1))]),
        Box::new(|it| it.headers = vec![("a".to_owned(), "b".to_owned())]),
        Box::new(|it| it.body = Some(json!({}))),
        Box::new(|it| it.graphql = Some("mutation { a }".to_owned())),
        Box::new(|it| (it.graphql, it.variables) = (Some("mutation { a }".to_owned()), Some(json!({})))),
        Box::new(|it| it.select = Some("/a".to_owned())),
        Box::new(|it| it.markdown = Some("{/a}".to_owned())),
        Box::new(move |it| it.auth = bearer("A")),
        Box::new(move |it| it.auth = bearer("B")),
        Box::new(|it| it.allow = Some(vec!["h.example".to_owned()])),
        Box::new(|it| it.private = vec!["h.example:443".to_owned()]),
        Box::new(|it| it.plain_http = true),
        Box::new(|it| it.max_bytes = Some(7)),
        Box::new(|it| it.redirects = Some(1)),
        Box::new(|it| it.per_minute = Some(1)),
    ];
    let digests: BTreeSet<String> = changes.iter().map(|change| digest(change).to_string()).collect();
    assert_eq!(digests.len(), changes.len());
}

#[test]
fn a_wrong_definition_names_its_key_in_one_line() {
    let good = HttpDefinition { url: "https://h.example/".to_owned(), ..HttpDefinition::default() };
    let error = |effect: Effect, change: &dyn Fn(&mut HttpDefinition)| {
        let mut definition = good.clone();
        change(&mut definition);
        HttpTool::new(declaration(effect, &[]), &definition).unwrap_err().to_string()
    };
    let check = |change: &dyn Fn(&mut HttpDefinition), expected: &str| {
        assert_eq!(error(Effect::Read, change), format!("tool `find_order`: {expected}"));
    };
    let pages = |by: HttpPaging, max: u32| Some(HttpPages { by, max });
    let number = |parameter: &str| HttpPaging::Number { parameter: parameter.to_owned(), first: 1 };
    check(
        &|it| it.url = "http://h.example/".to_owned(),
        "`http.url`: `h.example` is asked without encryption: the URL must begin with https://; correct it",
    );
    check(&|it| it.redirects = Some(6), "`http.redirects`: it is from 0 to 5; correct it");
    for max in [0, (64 << 20) + 1] {
        check(&|it| it.max_bytes = Some(max), "`http.max_bytes`: it is from 1 to 67108864; correct it");
    }
    check(
        &|it| it.per_minute = Some(0),
        "`http.per_minute`: with 0 no request would ever be sent; write 1 or more",
    );
    check(
        &|it| it.select = Some("a.b".to_owned()),
        "`http.select`: it is not a JSON pointer; write it as `/a/b`",
    );
    check(
        &|it| it.markdown = Some("{id}".to_owned()),
        "`http.markdown`: `{id}` is not a JSON pointer in braces; write it as `{/id}`",
    );
    check(
        &|it| it.graphql = Some("mutation { a }".to_owned()),
        "`http.graphql`: the document changes something, and the effect is `read`; correct one of them",
    );
    for max in [0, 101] {
        check(
            &|it| it.pages = pages(HttpPaging::Link, max),
            "`http.pages.max`: it is from 1 to 100; correct it",
        );
    }
    check(&|it| it.pages = pages(number(" "), 1), "`http.pages.parameter`: the name is empty; correct it");
    let cursor = |pointer: &str, more: Option<&str>| HttpPaging::Cursor {
        pointer: pointer.to_owned(),
        parameter: "a".to_owned(),
        more: more.map(str::to_owned),
    };
    check(
        &|it| it.pages = pages(cursor("next", None), 1),
        "`http.pages.cursor`: it is not a JSON pointer; write it as `/next`",
    );
    check(
        &|it| it.pages = pages(cursor("/a", Some("b")), 1),
        "`http.pages.more`: it is not a JSON pointer; write it as `/has_more`",
    );
    let pages_of_write = error(Effect::WriteKeyed, &|it| it.pages = pages(HttpPaging::Link, 1));
    assert_eq!(
        pages_of_write,
        "tool `find_order`: `http.pages`: pages are for tools that read; take them out"
    );
    let unused = HttpTool::new(declaration(Effect::Read, &["order"]), &good).unwrap_err().to_string();
    assert_eq!(
        unused,
        "tool `find_order`: `http`: the parameter `order` is declared, and nothing sends it; write `{order}` where it \
         belongs, or take it out"
    );
}

#[tokio::test]
async fn what_an_operator_should_know_is_a_warning() {
    let server = TestServer::always(json_answer(&json!([1]))).await;
    let tool = reader(&server.definition("/"), &[]);
    let place = server.place();
    assert_eq!(
        tool.warnings(),
        [
            format!("may connect to {place} on this machine or in a private network"),
            "may connect without encryption (`plain_http`)".to_owned()
        ]
    );
    let quiet = HttpDefinition { url: "https://h.example/".to_owned(), ..HttpDefinition::default() };
    assert!(reader(&quiet, &[]).warnings().is_empty());
}

#[tokio::test]
async fn a_tool_works_in_a_registry_on_several_threads() {
    let server = TestServer::start(|asked, _| json_answer(&json!([{ "id": asked.target }]))).await;
    let registry =
        Registry::builder().tool(reader(&server.definition("/{order}"), &["order"])).build().unwrap();
    let calls = (0..20).map(|order| {
        let parameters = json!({ "order": order });
        registry.dispatch("find_order", &parameters, context(), &Credentials::none(), 10_000, 4_000)
    });
    let seen = futures::future::join_all(calls).await;
    for (order, observation) in seen.iter().enumerate() {
        let data: Value = serde_json::from_str(&observation.data).unwrap();
        assert_eq!(data, json!([{ "id": format!("/{order}") }]));
    }
}
