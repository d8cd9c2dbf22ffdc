//! The server on loopback keeps to the protocol, and misbehaves exactly as it is told.

use crate::raw;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use loop_llm::scripted::RequestPurpose;
use loop_llm::{ChatModel, EventStream, LlmError, Message, ModelEvent, ModelRequest, Scripted};
use loop_mock::offline::Offline;
use loop_mock::{Behaviour, Chunks, ConnectionEnd, LoopbackServer, Service};
use raw::{Reply, exchange, get, send, soon};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_stream_has_role_text_finish_usage_and_done() {
    // WC01, from the server's side.
    let model = Scripted::replies(["Hel\nlo"]);
    let server = LoopbackServer::start(Service::of(Arc::new(model))).unwrap();
    let reply = post(&server, &streamed("hi there")).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    let chunk = |rest: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",{rest}}}\n\n"
        )
    };
    let choice = |delta: &str, finish: &str| {
        chunk(&format!(
            "\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}],\"usage\":null"
        ))
    };
    let (usage, head) = reply.events().iter().rev().nth(1).map(|usage| (usage.clone(), chunk(""))).unwrap();
    assert!(usage.starts_with(&head[..60]), "{usage}");
    let usage: Value = serde_json::from_str(usage.trim().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!((&usage["usage"]["prompt_tokens"], &usage["usage"]["total_tokens"]), (&json!(5), &json!(7)));
    let before: String = reply.events()[..4].concat();
    let expected = [
        choice(r#"{"role":"assistant","content":""}"#, "null"),
        choice(r#"{"content":"Hel\n"}"#, "null"),
        choice(r#"{"content":"lo"}"#, "null"),
        choice("{}", "\"stop\""),
    ];
    assert_eq!(before, expected.concat());
    assert_eq!((reply.events().len(), reply.events()[5].as_str()), (6, "data: [DONE]\n\n"));
    assert!(reply.is_complete);
}

#[tokio::test]
async fn usage_is_told_only_where_it_is_asked_for_and_known() {
    let silent = r#"{"version": 1, "replies": [{"text": "a"}, {"text": "a", "no_usage": true}]}"#;
    let server = LoopbackServer::start(Service::of(Arc::new(Scripted::from_json(silent).unwrap()))).unwrap();
    let mut unrequested = streamed("hi");
    unrequested["stream_options"] = Value::Null;
    assert!(!post(&server, &unrequested).await.text().contains("usage"));
    let unknown = post(&server, &streamed("hi")).await.text();
    assert!(unknown.contains("\"usage\":null") && !unknown.contains("prompt_tokens"), "{unknown}");
}

#[tokio::test]
async fn texts_arrive_unchanged_and_the_offline_model_says_the_same_over_http() {
    let mut request =
        ModelRequest::new("m", "# Rules\r\n \u{1f600}\t\"q\" \\n\n", "  # Printer, 3 µm\n\nslow\u{2028}\n");
    request.messages.push(Message::assistant("## A\n\nno\n"));
    request.messages.push(Message::user(""));
    request.max_output_tokens = Some(77);
    let body = json!({"model": "m", "stream": true, "max_completion_tokens": 77, "messages": [
        {"role": "developer", "content": &*request.system},
        {"role": "user", "content": [
            {"type": "text", "text": "  # Printer, 3 µm\n\n"}, {"type": "text", "text": "slow\u{2028}\n"},
        ]},
        {"role": "assistant", "content": "## A\n\nno\n"},
        {"role": "user", "content": ""},
    ]});
    for chunks in [Chunks::Whole, Chunks::Bytes(1), Chunks::Bytes(1_000), Chunks::Random { seed: 3 }] {
        let usually = Behaviour::model().in_chunks(chunks);
        let server = LoopbackServer::start(Service::of(Arc::new(Offline::new())).usually(usually)).unwrap();
        let reply = post(&server, &body).await;
        assert_eq!(reply.content(), &*Offline::new().reply(&request).text);
        let mut sent = request.clone();
        sent.meta.purpose = Some(RequestPurpose::Main);
        assert_eq!(soon(server.ended(1)).await[0].request(), Some(sent));
    }
}

#[tokio::test]
async fn a_body_is_cut_into_the_pieces_that_were_asked_for() {
    let body = "data: {\"a\":1}\n\ndata: [DONE]\n\n".repeat(9);
    let pieces = |chunks| {
        let server =
            LoopbackServer::start(Service::replies([Behaviour::body(body.clone()).in_chunks(chunks)]))
                .unwrap();
        let expected = body.clone();
        async move {
            let reply = post(&server, &streamed("hi")).await;
            assert_eq!(reply.text(), expected);
            reply.pieces
        }
    };
    assert_eq!(pieces(Chunks::Whole).await, [body.len()]);
    let sevens = pieces(Chunks::Bytes(7)).await;
    assert_eq!((sevens.len(), sevens.last()), (body.len().div_ceil(7), Some(&(body.len() % 7))));
    let random = pieces(Chunks::Random { seed: 1 }).await;
    assert_eq!(random, pieces(Chunks::Random { seed: 1 }).await);
    assert_ne!(random, pieces(Chunks::Random { seed: 2 }).await);
}

#[tokio::test]
async fn a_stream_can_be_cut_or_ended_after_every_byte() {
    let whole = {
        let server = LoopbackServer::start(Service::of(Arc::new(Scripted::replies(["ab"])))).unwrap();
        post(&server, &streamed("hi")).await.body
    };
    for after in 0..=whole.len() {
        let breaks = [
            Behaviour::model().cuts_after(after as u64),
            Behaviour::model().ends_after(after as u64).in_chunks(Chunks::Bytes(5)),
        ];
        for (n, behaviour) in breaks.into_iter().enumerate() {
            let model = Arc::new(Scripted::replies(["ab"]));
            let server = LoopbackServer::start(Service::of(model).first([behaviour])).unwrap();
            let reply = post(&server, &streamed("hi")).await;
            assert_eq!(reply.body, whole[..after]);
            assert_eq!(reply.is_complete, n == 1, "only one of the two ends as HTTP wants it");
            let received = &soon(server.ended(1)).await[0];
            assert_eq!((received.ending, received.bytes_out), (Some(ConnectionEnd::Cut), after as u64));
        }
    }
}

#[tokio::test]
async fn a_stalled_reply_waits_for_the_client_to_hang_up() {
    // L9, the server's side.
    let server =
        LoopbackServer::start(Service::replies([Behaviour::body("data: 12345\n\n").stalls_after(8)]))
            .unwrap();
    let mut stream = send(&server, &request_bytes(&streamed("hi"))).await;
    let mut seen = Vec::new();
    while !seen.ends_with(b"data: 12\r\n") {
        assert_ne!(soon(stream.read_buf(&mut seen)).await.unwrap(), 0);
    }
    assert_eq!(server.requests()[0].ending, None);
    drop(stream);
    let received = &soon(server.ended(1)).await[0];
    assert_eq!((received.ending, received.bytes_out), (Some(ConnectionEnd::HungUp), 8));
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_the_call_to_the_model() {
    let dropped = Arc::new(AtomicBool::new(false));
    let server = LoopbackServer::start(Service::of(Arc::new(Endless(Arc::clone(&dropped))))).unwrap();
    let mut stream = send(&server, &request_bytes(&streamed("hi"))).await;
    assert_ne!(stream.read_u8().await.unwrap(), 0);
    assert!(!dropped.load(Ordering::SeqCst));
    drop(stream);
    assert_eq!(soon(server.ended(1)).await[0].ending, Some(ConnectionEnd::HungUp));
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn pauses_stand_between_pieces_and_comments_come_first() {
    let slow = Behaviour::body("abc").slow(Duration::from_secs(10)).with_keep_alives(2);
    let server = LoopbackServer::start(Service::replies([slow])).unwrap();
    let began = tokio::time::Instant::now();
    // Without a guard: on a virtual clock it would be a timer among those that are counted.
    let mut answer = Vec::new();
    send(&server, &request_bytes(&streamed("hi"))).await.read_to_end(&mut answer).await.unwrap();
    let reply = Reply::read(&answer);
    assert_eq!(reply.text(), ": keep-alive\n\n: keep-alive\n\nabc");
    // The clock is virtual: 30 pauses between 31 bytes.
    assert_eq!((reply.pieces.len(), began.elapsed().as_secs()), (31, 300));
}

#[tokio::test]
async fn behaviours_come_in_order_and_the_model_answers_after_them() {
    // L1, L2, the server's side.
    let busy = Behaviour::status(429, "{}").with_header("Retry-After", "7");
    let service = Service::of(Arc::new(Scripted::replies(["fine"])));
    let server =
        LoopbackServer::start(service.first([busy, Behaviour::refuse(), Behaviour::status(503, "")]))
            .unwrap();
    let reply = post(&server, &streamed("hi")).await;
    assert_eq!((reply.status, reply.header("retry-after"), reply.text().as_str()), (429, Some("7"), "{}"));
    let mut refused = TcpStream::connect(server.address()).await.unwrap();
    assert!(matches!(refused.read(&mut [0]).await, Ok(0) | Err(_)));
    assert_eq!(post(&server, &streamed("hi")).await.status, 503);
    assert_eq!(get(&server, "/v1/models").await.status, 200, "and it uses no behaviour up");
    assert_eq!(post(&server, &streamed("hi")).await.content(), "fine");
    let statuses: Vec<Option<u16>> =
        soon(server.ended(4)).await.iter().map(|received| received.status).collect();
    assert_eq!(statuses, [Some(429), Some(503), Some(200), Some(200)]);

    let last =
        LoopbackServer::start(Service::replies([Behaviour::status(500, ""), Behaviour::status(502, "")]))
            .unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(post(&last, &streamed("hi")).await.status);
    }
    assert_eq!(seen, [500, 502, 502], "the last one repeats");
}

#[tokio::test]
async fn heads_and_bodies_can_lie() {
    // E26 and Q41, the server's side.
    let lies = [
        Behaviour::garbage_head(),
        Behaviour::body("data: {}\n\n").with_content_length(99),
        Behaviour::body("<html>").with_content_type("text/html; charset=utf-8"),
        Behaviour::half_json(),
    ];
    let server = LoopbackServer::start(Service::replies(lies)).unwrap();
    let garbage = exchange(&server, &request_bytes(&streamed("hi"))).await;
    assert!(garbage.starts_with(b"HTTP/1.1 200 OK\r\nthis is not a header"));
    let short = post(&server, &streamed("hi")).await;
    assert_eq!((short.header("content-length"), short.body.len()), (Some("99"), 10));
    assert_eq!(post(&server, &streamed("hi")).await.header("content-type"), Some("text/html; charset=utf-8"));
    let half = post(&server, &streamed("hi")).await;
    assert_eq!(half.header("content-length").unwrap(), half.body.len().to_string());
    assert!(serde_json::from_slice::<Value>(&half.body).unwrap_err().is_eof());
}

#[tokio::test]
async fn a_flood_is_as_large_as_was_said_and_is_never_held_as_a_whole() {
    // L11 and L23, the server's side.
    let server = LoopbackServer::start(Service::replies([
        Behaviour::flood(100_000),
        Behaviour::endless_line(100_000),
        Behaviour::flood(u64::MAX),
        Behaviour::endless_line(u64::MAX),
    ]))
    .unwrap();
    let flood = post(&server, &streamed("hi")).await;
    assert_eq!(flood.content().len(), 100_000);
    assert!(flood.text().ends_with("data: [DONE]\n\n"));
    let line = post(&server, &streamed("hi")).await.text();
    assert_eq!((line.len(), line.find('\n')), (100_002, Some(100_000)));
    for _ in 0..2 {
        let mut stream = send(&server, &request_bytes(&streamed("hi"))).await;
        stream.read_exact(&mut vec![0; 1 << 20]).await.unwrap();
    }
    assert!(
        soon(server.ended(4)).await[2..]
            .iter()
            .all(|received| received.ending == Some(ConnectionEnd::HungUp))
    );
}

#[tokio::test]
async fn what_is_no_question_gets_an_error_object() {
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new())).with_names(["a", "b"])).unwrap();
    let models = get(&server, "/v1/models?x=1").await.json();
    assert_eq!((&models["data"][0]["id"], &models["data"][1]["id"]), (&"a".into(), &"b".into()));
    for path in ["/models", "/v1beta/models", "/openai/v1/models"] {
        assert_eq!(get(&server, path).await.json(), models, "{path}");
    }
    let answers = [
        ("GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405),
        ("POST /v1/models HTTP/1.1\r\ncontent-length: 0\r\n\r\n", 405),
        ("GET /v2 HTTP/1.1\r\n\r\n", 404),
        ("no request at all\r\n\r\n", 400),
        ("GET /v1/models HTTP/1.0\r\n\r\n", 505),
        ("POST /v1/models HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        ("POST /v1/models HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        ("POST /v1/models HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        ("POST /v1/models HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", 501),
        ("POST /v1/models HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxy\r\n", 400),
        ("POST /v1/models HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        ("POST /v1/models HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n7ffffff0\r\n", 413),
        ("POST /v1/models HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n", 413),
        ("POST /v1/models HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n", 413),
    ];
    for (request, status) in answers {
        let request = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        let reply = Reply::read(&exchange(&server, request.as_bytes()).await);
        assert_eq!(reply.status, status, "{request}");
        assert!(reply.json()["error"]["message"].is_string(), "{request}");
    }
    let large = format!("GET /v1/models HTTP/1.1\r\nconnection: close\r\nx: {}\r\n\r\n", "y".repeat(70_000));
    assert_eq!(Reply::read(&exchange(&server, large.as_bytes()).await).status, 431);
    let many = format!("GET /v1/models HTTP/1.1\r\nconnection: close\r\n{}\r\n", "x: y\r\n".repeat(200));
    assert_eq!(Reply::read(&exchange(&server, many.as_bytes()).await).status, 431);
}

#[tokio::test]
async fn a_question_that_no_model_here_can_answer_is_refused_with_its_parameter() {
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new()))).unwrap();
    let with = |name: &str, value: Value| {
        let mut body = streamed("hi");
        body[name] = value;
        body
    };
    let unfit = [
        (json!("text"), "body"),
        (with("model", Value::Null), "model"),
        (with("messages", json!([])), "messages"),
        (with("messages", json!([{"role": "tool", "content": "x", "tool_call_id": "1"}])), "messages"),
        (with("messages", json!([{"role": "user", "content": [{"type": "image_url"}]}])), "messages"),
        (
            with("messages", json!([{"role": "user", "content": "x"}, {"role": "nobody", "content": "y"}])),
            "messages",
        ),
        (with("future_option", json!(1)), "future_option"),
        (with("stream", json!(false)), "stream_options"),
        (with("parallel_tool_calls", json!(true)), "parallel_tool_calls"),
        (with("tools", json!([{"type": "function"}])), "tools"),
        (with("n", json!(2)), "n"),
        (with("max_completion_tokens", json!(0)), "max_completion_tokens"),
    ];
    for (body, param) in unfit {
        let reply = post(&server, &body).await;
        assert_eq!((reply.status, &reply.json()["error"]["param"]), (400, &param.into()), "{body}");
        assert!(server.requests().last().unwrap().request().is_none());
    }
    let no_model = LoopbackServer::start(Service::replies([])).unwrap();
    assert_eq!(post(&no_model, &streamed("hi")).await.status, 500);
}

#[tokio::test]
async fn one_connection_serves_many_requests_with_lengths_and_chunks() {
    let server =
        LoopbackServer::start(Service::of(Arc::new(Scripted::replies(["one", "two", "three"])))).unwrap();
    let body = streamed("hi").to_string();
    let path = "POST /v1/chat/completions HTTP/1.1\r\n";
    let (begin, end) = body.split_at(20);
    let chunks = format!("14;ext=1\r\n{begin}\r\n{:X}\r\n{end}\r\n0\r\ntrailer: x\r\n\r\n", end.len());
    let requests = [
        format!("{path}content-length: {}\r\n\r\n{body}", body.len()),
        format!("{path}Transfer-Encoding: chunked\r\n\r\n{chunks}"),
        format!(
            "{path}expect: 100-continue\r\nX-Last: yes\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    ];
    // All at once: what follows a request is the next one.
    let answer = exchange(&server, requests.concat().as_bytes()).await;
    let text = String::from_utf8(answer).unwrap();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing: {text}"));
    assert!(at("one") < at("two") && at("two") < at("100 Continue") && at("100 Continue") < at("three"));
    let received = soon(server.ended(3)).await;
    assert!(received.iter().all(|received| received.body == streamed("hi")));
    assert_eq!((received[2].header("x-last"), received[0].bytes_in), (Some("yes"), body.len() as u64));
}

#[tokio::test]
async fn observers_see_each_request_when_it_has_ended_and_only_the_latest_are_kept() {
    let (seen, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let service = Service::replies([Behaviour::status(500, "abc")])
        .keeping(1)
        .observed(move |received| seen.send((received.status, received.bytes_out, received.ending)).unwrap());
    let server = LoopbackServer::start(service).unwrap();
    for _ in 0..2 {
        post(&server, &streamed("hi")).await;
        assert_eq!(reported.recv().await, Some((Some(500), 3, Some(ConnectionEnd::Whole))));
    }
    assert_eq!(soon(server.ended(2)).await.len(), 1);
}

#[tokio::test]
async fn a_server_that_is_shut_down_or_dropped_closes_everything() {
    for is_dropped in [false, true] {
        let server =
            LoopbackServer::start(Service::replies([Behaviour::body("abc").stalls_after(1)])).unwrap();
        let address = server.address();
        let mut stream = send(&server, &request_bytes(&streamed("hi"))).await;
        stream.read_u8().await.unwrap();
        if is_dropped {
            drop(server);
        } else {
            server.shutdown().await;
            assert!(TcpStream::connect(address).await.is_err());
        }
        let mut rest = Vec::new();
        // It ends; as a reset where something was left unread.
        let _ = soon(stream.read_to_end(&mut rest)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_in_time_closes_the_connection() {
    let server = LoopbackServer::start(Service::replies([Behaviour::status(500, "")])).unwrap();
    let began = tokio::time::Instant::now();
    let mut silent = send(&server, b"POST /v1/chat/comp").await;
    assert!(matches!(silent.read(&mut [0]).await, Ok(0) | Err(_)));
    assert_eq!(began.elapsed().as_secs(), 30);
    assert!(server.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_connection_after_the_last_one_waits_until_one_is_closed() {
    let server = LoopbackServer::start(Service::replies([Behaviour::status(500, "")])).unwrap();
    let mut open = Vec::new();
    for _ in 0..256 {
        open.push(TcpStream::connect(server.address()).await.unwrap());
    }
    let mut late = send(&server, &request_bytes(&streamed("hi"))).await;
    // The clock is virtual: it goes on only when nothing else can happen, and heads have half a minute.
    let mut answer = Vec::new();
    let waited = tokio::time::timeout(Duration::from_secs(9), late.read_buf(&mut answer)).await;
    assert!(waited.is_err() && server.requests().is_empty());
    open.pop();
    late.read_to_end(&mut answer).await.unwrap();
    assert_eq!(Reply::read(&answer).status, 500);
}

#[tokio::test]
async fn credentials_are_received_and_not_printed() {
    let server = LoopbackServer::start(Service::replies([Behaviour::status(500, "")])).unwrap();
    let secret = "GET /v1/models HTTP/1.1\r\nAuthorization: Bearer canary\r\napi-key: canary\r\nx-team: a\r\nconnection: close\r\n\r\n";
    exchange(&server, secret.as_bytes()).await;
    let received = &soon(server.ended(1)).await[0];
    assert_eq!(received.header("authorization"), Some("Bearer canary"));
    let printed = format!("{server:?} {received:#?}");
    assert!(!printed.contains("canary") && printed.contains("x-team"), "{printed}");
}

/// A model that begins and never goes on.
#[derive(Debug)]
struct Endless(Arc<AtomicBool>);

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl ChatModel for Endless {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        let guard = Dropped(Arc::clone(&self.0));
        let begun = futures::stream::iter([Ok(ModelEvent::Started { reply: None, model: None })]);
        let never = futures::stream::pending().map(move |event| {
            let _ = &guard;
            event
        });
        Ok(begun.chain(never).boxed())
    }
}

fn streamed(user: &str) -> Value {
    json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": user}],
    })
}

async fn post(server: &LoopbackServer, body: &Value) -> Reply {
    Reply::read(&exchange(server, &request_bytes(body)).await)
}

fn request_bytes(body: &Value) -> Vec<u8> {
    raw::request("/v1/chat/completions", &[], body)
}
