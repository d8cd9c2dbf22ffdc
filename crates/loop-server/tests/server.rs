//! Connections: a client that takes nothing, or does not finish its headers, is cut; the server ends with its answers.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures::stream;
use loop_server::server::{Server, ServerLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::bench::LONG;

/// Tells that the body which it is of is gone.
struct Gone(mpsc::UnboundedSender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

/// A body without an end.
fn endless(gone: mpsc::UnboundedSender<()>) -> Router {
    let body = move || async move {
        let piece = Bytes::from(vec![b'x'; 64 << 10]);
        let pieces = stream::unfold(Gone(gone.clone()), move |gone| {
            let piece = piece.clone();
            async move { Some((Ok::<_, Infallible>(piece), gone)) }
        });
        Body::from_stream(pieces)
    };
    Router::new().route("/endless", get(body)).route("/", get(|| async { "here" }))
}

fn limits() -> ServerLimits {
    let short = Duration::from_millis(50);
    ServerLimits { headers: short, write: short, max_connections: 2, ..ServerLimits::default() }
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_and_others_are_served() {
    // U8
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), limits()).await.unwrap();
    let (at, ending) = (server.address().unwrap(), server.ending());
    let serving = tokio::spawn(server.serve(endless(gone), LONG));
    // It holds one of two places until it is cut, and three of its kind come.
    let mut silent = Vec::new();
    for _ in 0..3 {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        silent.push(client);
    }
    for _ in 0..3 {
        tokio::time::timeout(LONG, is_gone.recv()).await.expect("it is not cut").unwrap();
    }
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("here"), "{answer}");
    ending.cancel();
    tokio::time::timeout(LONG, serving).await.expect("it does not end").unwrap();
    drop(silent);
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_headers_is_cut() {
    let (gone, _is_gone) = mpsc::unbounded_channel();
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), limits()).await.unwrap();
    let at = server.address().unwrap();
    tokio::spawn(server.serve(endless(gone), LONG));
    for head in ["", "GET / HTTP/1.1\r\nx: "] {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // It ends without an answer of the router.
        let read = tokio::time::timeout(LONG, client.read_to_end(&mut answer)).await.expect("it is not cut");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(read.is_err() || !answer.contains("here"), "{answer}");
    }
}
