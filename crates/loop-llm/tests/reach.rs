//! Servers that take no connection: what is said, and whether the call is tried again.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loop_core::types::FailureKind;
use loop_llm::codec::Api;
use loop_llm::http::reach;
use loop_llm::wrap::{BreakerHandle, BreakerPolicy, BreakerState, CircuitBreaker, RetryPolicy, Retrying};
use loop_llm::{ErrorPhase, LlmError, complete};
use tokio::net::TcpSocket;

use crate::sockets::{client_at, request, soon};

/// A URL at which nothing listens, as long as the socket is held: without it another test's server may get the port. It is
/// named as no other test names its server: what has answered once is waited for, and an earlier one may have had the port.
fn off() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://localhost:{}", socket.local_addr().unwrap().port());
    (socket, url)
}

/// The error of a call as a run makes it, and how long it took.
async fn called(api: Api, url: &str, breaker: &BreakerHandle) -> (LlmError, Duration) {
    let broken = CircuitBreaker::new(Arc::new(client_at(api, url)), breaker.clone());
    let model = Retrying::new(Arc::new(broken), RetryPolicy::default());
    let start = Instant::now();
    let error = soon(complete(&model, &request())).await.unwrap_err();
    (error, start.elapsed())
}

// 45-4
#[tokio::test]
async fn a_server_that_is_off_is_said_at_once_with_its_url_however_often_it_is_called() {
    for api in Api::ALL {
        let ((_port, url), breaker) = (off(), BreakerHandle::new(BreakerPolicy::default()));
        for _ in 0..7 {
            let (error, took) = called(api, &url, &breaker).await;
            assert_eq!((error.kind, error.phase), (FailureKind::Connection, ErrorPhase::Connect), "{error}");
            let said = format!("{url}/v1");
            assert!(error.message.starts_with(&said), "{}", error.message);
            assert!(error.message.ends_with(": connection refused (is it running?)"), "{}", error.message);
            assert!(!error.is_retryable() && took < Duration::from_secs(2), "{took:?} {error:?}");
        }
        assert_eq!(breaker.state(), BreakerState::Closed, "it is not asked too often: it was never there");
    }
}

// 45-4
#[tokio::test]
async fn a_host_without_an_address_is_no_such_host() {
    let breaker = BreakerHandle::new(BreakerPolicy::default());
    let (error, _) = called(Api::OpenaiChat, "https://models.invalid", &breaker).await;
    assert_eq!((error.kind, error.is_retryable()), (FailureKind::Connection, false));
    assert!(error.message.starts_with("https://models.invalid/v1: no such host ("), "{}", error.message);
}

// 45-4
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_answered_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 16_384]);
        stream.write_all(b"HTTP/1.1 500 Broken\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    soon(complete(&client_at(Api::OpenaiChat, &url), &request())).await.unwrap_err();
    server.join().unwrap();
    let error = soon(complete(&client_at(Api::OpenaiChat, &url), &request())).await.unwrap_err();
    assert_eq!((error.kind, error.phase), (FailureKind::Connection, ErrorPhase::Connect));
    assert!(error.is_retryable(), "an answer, whatever it says, shows that there is a server: {error:?}");
    assert!(error.message.contains("connection refused"), "{}", error.message);
}

// 45-5
#[tokio::test]
async fn a_server_is_reached_without_sending_anything() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://me:canary@{}/v1?key=canary", listener.local_addr().unwrap());
    let limit = Duration::from_secs(3);
    let shown = reach(&url, limit).await.unwrap();
    assert_eq!(shown, format!("http://{}/v1", listener.local_addr().unwrap()));
    drop(listener);
    let error = reach(&url, limit).await.unwrap_err();
    assert_eq!(error, format!("{shown}: connection refused (is it running?)"));
    let nowhere = reach("http://models.invalid", limit).await.unwrap_err();
    assert!(nowhere.starts_with("http://models.invalid: no such host ("), "{nowhere}");
}
