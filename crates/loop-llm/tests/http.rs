//! Chat Completions over HTTP: statuses, headers, time, and what must never be shown.

use std::time::Duration;

use loop_core::reply::FinishReason;
use loop_core::types::FailureKind;
use loop_llm::error::RetryAdvice;
use loop_llm::http::Timers;
use loop_llm::{ErrorPhase, HttpModel, LlmError, Message, ModelRequest, Profile, complete};
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

const KEY: &str = "sk-canary-0123456789";
const REPLY: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn compatible(base: &str) -> Result<HttpModel, LlmError> {
    HttpModel::new(Profile::named("compatible").unwrap(), Some(base))
}

fn model(base: &str) -> HttpModel {
    let model = compatible(base).unwrap();
    model.with_key(SecretString::from(KEY)).unwrap()
}

fn request() -> ModelRequest {
    ModelRequest::new("m", "s", "u")
}

async fn answer(response: ResponseTemplate) -> Result<loop_llm::ModelReply, LlmError> {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(response).mount(&server).await;
    let end = complete(&model(&format!("{}/v1", server.uri())), &request()).await;
    if let Err(error) = &end {
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
    end
}

#[tokio::test]
async fn a_call_names_its_span() {
    // S4-12
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let server = MockServer::start().await;
    let fine = ResponseTemplate::new(200).set_body_raw(REPLY, "text/event-stream");
    Mock::given(method("POST")).respond_with(fine).mount(&server).await;
    let model = model(&format!("{}/v1", server.uri()));
    let mut traced = request();
    traced.meta.traceparent = Some(text.parse().unwrap());
    complete(&model, &traced).await.unwrap();
    complete(&model, &request()).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    let named: Vec<Option<&str>> = requests
        .iter()
        .map(|request| request.headers.get("traceparent").map(|value| value.to_str().unwrap()))
        .collect();
    assert_eq!(named, [Some(text), None]);
}

#[tokio::test]
async fn a_call_is_one_post_with_a_key() {
    let server = MockServer::start().await;
    let body = serde_json::json!({
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_tokens": 4096,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .and(header("authorization", format!("Bearer {KEY}")))
        .and(header("content-type", "application/json"))
        .and(header("accept-encoding", "identity"))
        .and(header("user-agent", concat!("loopgate/", env!("CARGO_PKG_VERSION"))))
        .and(header("x-team", "a"))
        .and(body_json(body))
        .respond_with(ResponseTemplate::new(200).set_body_raw(REPLY, "text/event-stream"))
        .expect(3)
        .mount(&server)
        .await;
    for base in ["/v1", "/v1/"] {
        let model = model(&format!("{}{base}", server.uri())).with_header("x-team", "a").unwrap();
        let reply = complete(&model, &request()).await.unwrap();
        assert_eq!((&*reply.text, reply.finish), ("Hello", FinishReason::EndTurn));
    }
    // What a query holds stays where it was.
    let model = model(&format!("{}/v1?api-version=1", server.uri())).with_header("x-team", "a").unwrap();
    complete(&model, &request()).await.unwrap();
    let last = server.received_requests().await.unwrap().pop().unwrap();
    assert_eq!(last.url.query(), Some("api-version=1"));
}

#[tokio::test]
async fn a_whole_reply_is_taken_as_well() {
    let body = serde_json::json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]});
    assert_eq!(&*answer(ResponseTemplate::new(200).set_body_json(body)).await.unwrap().text, "Hello");
    let page = ResponseTemplate::new(200).set_body_raw("<html></html>", "text/html");
    assert_eq!(answer(page).await.unwrap_err().kind, FailureKind::BadResponse);
}

#[test]
fn a_base_that_is_no_url_is_an_error_of_one_line() {
    for base in ["", "ftp://host/v1", "file:///v1", "http://"] {
        let error = compatible(base).unwrap_err();
        assert_eq!((error.kind, error.phase), (FailureKind::InvalidRequest, ErrorPhase::Encode), "{base}");
        assert!(error.message.contains("http or https URL") && !error.message.contains('\n'));
    }
    for (base, write) in [
        ("127.0.0.1:8080/v1", "write http://127.0.0.1:8080/v1 or https://127.0.0.1:8080/v1"),
        (" localhost:1/v1", "write http://localhost:1/v1 or"),
        ("gateway.corp/v1/", "write http://gateway.corp/v1 or"),
        ("me:canary@host/v1?key=canary", "write http://host/v1 or"),
    ] {
        let error = compatible(base).unwrap_err();
        assert_eq!((error.kind, error.phase), (FailureKind::InvalidRequest, ErrorPhase::Encode), "{base}");
        assert!(error.message.contains(write) && !error.message.contains("canary"), "{}", error.message);
    }
    assert_eq!(model("http://h/v1").with_header("a b", "c").unwrap_err().kind, FailureKind::InvalidRequest);
    let model = compatible("http://h/v1").unwrap();
    let error = model.with_key(SecretString::from("sk-canary\n")).unwrap_err();
    assert!(error.kind == FailureKind::Auth && !error.message.contains("canary"));
}

// WE19
#[tokio::test]
async fn secrets_are_neither_printed_nor_told() {
    // Nobody listens there.
    let model = model("http://me:canary@127.0.0.1:1/v1?key=canary").with_header("x-key", "canary").unwrap();
    assert!(!format!("{model:?} {model:#?}").contains("canary"), "{model:?}");
    let error = complete(&model, &request()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.phase, error.retry),
        (FailureKind::Connection, ErrorPhase::Connect, RetryAdvice::Never)
    );
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
}

// WE19
#[tokio::test]
async fn values_of_a_query_are_sent_and_masked() {
    for api in ["compatible", "gemini"] {
        let server = MockServer::start().await;
        let echo = "/v1?code=hunter2-canary-77&token=a%2Fcanary&v=a/canary 2024-10-21 eu-north-1";
        let body = serde_json::json!({"error": {"message": echo}});
        let sent = Mock::given(method("POST")).and(query_param("code", "hunter2-canary-77"));
        let sent = if api == "gemini" { sent.and(query_param("alt", "sse")) } else { sent };
        sent.respond_with(ResponseTemplate::new(400).set_body_json(body)).expect(1).mount(&server).await;
        let url = format!(
            "{}/v1?code=hunter2-canary-77&token=a%2Fcanary&api-version=2024-10-21&region=eu-north-1",
            server.uri()
        );
        let model = HttpModel::new(Profile::named(api).unwrap(), Some(&url)).unwrap();
        let error = complete(&model, &request()).await.unwrap_err();
        assert_eq!(&*error.message, "/v1?code=***&token=***&v=*** 2024-10-21 eu-north-1", "{api}");
    }
}

#[test]
fn a_credential_is_exposed_where_it_leaves_the_machine_unencrypted() {
    let keyed = |url: &str| model(url).with_header("x-key", "secret").unwrap();
    for url in ["https://h.example/v1", "http://127.0.0.1:9/v1", "http://[::1]:9/v1", "http://localhost/v1"] {
        assert!(!keyed(url).exposes_secrets(), "{url}");
    }
    for url in ["http://h.example/v1", "http://10.0.0.7/v1", "http://127.0.0.1.example/v1"] {
        assert!(keyed(url).exposes_secrets(), "{url}");
        assert!(!compatible(url).unwrap().exposes_secrets(), "without a key there is nothing to read: {url}");
    }
    for url in ["http://me:word@h.example/v1", "http://h.example/v1?code=hunter2"] {
        assert!(compatible(url).unwrap().exposes_secrets(), "{url}");
    }
}

// WE19
#[tokio::test]
async fn headers_and_what_stands_before_the_host_are_masked_like_the_key() {
    let secrets = ["header/canary", "user%40canary", "user@canary", "pass-canary", "token-canary"];
    let server = MockServer::start().await;
    let model = || {
        let base = server.uri().replace("http://", "http://user%40canary:pass-canary@");
        let model = compatible(&format!("{base}/v1")).unwrap();
        let model = model.with_header("api-key", "header/canary").unwrap();
        model.with_header("x-auth", "Token token-canary").unwrap()
    };
    let mut echo = secrets.join(" ");
    echo.push_str(" header\\/canary header%2Fcanary user\u{200b}@canary");
    let body = serde_json::json!({"error": {"message": echo}});
    let refused = Mock::given(method("POST")).respond_with(ResponseTemplate::new(400).set_body_json(body));
    let refused = refused.up_to_n_times(1).mount_as_scoped(&server).await;
    let error = complete(&model(), &request()).await.unwrap_err();
    drop(refused);
    assert_eq!(&*error.message, "*** *** *** *** *** *** *** ***");
    let reply = serde_json::json!({"choices": [{"message": {"content": secrets.join(" ")}, "finish_reason": "stop"}]});
    let stated = ResponseTemplate::new(200).set_body_json(reply);
    Mock::given(method("POST")).respond_with(stated).mount(&server).await;
    let reply = complete(&model(), &request()).await.unwrap();
    assert_eq!(&*reply.text, ["[masked]"; 5].join(" "));
    assert!(!format!("{:?}", model()).contains("canary"));
}

/// A server that answers one connection with these bytes, and keeps it until its client hangs up.
async fn raw(
    head: &'static str,
    pieces: Vec<Vec<u8>>,
    closes: bool,
) -> (String, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        let mut sent = 0;
        socket.write_all(head.as_bytes()).await.unwrap();
        for piece in pieces {
            if socket.write_all(&piece).await.is_err() {
                return sent;
            }
            sent += piece.len();
        }
        if !closes {
            // Ends when the other side closes.
            let _ = socket.read(&mut [0; 64]).await;
        }
        sent
    });
    (base, served)
}

async fn read_request(socket: &mut TcpStream) {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !seen.ends_with(b"}}") {
        let read = socket.read(&mut piece).await.unwrap();
        assert!(read > 0);
        seen.extend_from_slice(&piece[..read]);
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

fn delta(text: &str) -> Vec<u8> {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n").into_bytes()
}

fn short() -> Timers {
    let max = Duration::from_secs(30);
    Timers { first_byte: max, idle: max, progress: max, after_end: max, total: max }
}

// WE20
#[tokio::test]
async fn time_runs_out_by_byte_by_event_and_by_call() {
    let tenth = Duration::from_millis(100);
    let run = async |head, pieces, timers| {
        let (base, served) = raw(head, pieces, false).await;
        let error = complete(&model(&base).with_timers(timers), &request()).await.unwrap_err();
        served.await.unwrap();
        assert_eq!(error.kind, FailureKind::Timeout);
        error
    };
    let error = run("", vec![], Timers { first_byte: tenth, ..short() }).await;
    assert_eq!((error.phase, error.partial), (ErrorPhase::Headers, None));
    let error = run(HEAD, vec![], Timers { first_byte: tenth, ..short() }).await;
    assert_eq!(error.phase, ErrorPhase::Headers);
    let error = run(HEAD, vec![delta("Hi")], Timers { idle: 10 * tenth, ..short() }).await;
    assert_eq!((error.phase, &*error.partial.unwrap().text), (ErrorPhase::Stream, "Hi"));
    let error = run(HEAD, vec![delta("Hi")], Timers { total: 20 * tenth, ..short() }).await;
    assert!(error.message.contains("than a call may"), "{error}");
}

#[tokio::test]
async fn what_may_not_be_sent_is_not_sent() {
    let server = MockServer::start().await;
    let request = ModelRequest { messages: vec![Message::Tool { results: vec![] }], ..request() };
    let error = complete(&model(&server.uri()), &request).await.unwrap_err();
    assert_eq!(error.phase, ErrorPhase::Encode);
    assert!(server.received_requests().await.unwrap().is_empty());
}
