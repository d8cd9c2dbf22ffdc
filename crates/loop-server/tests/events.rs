//! The events of a run: history first, then live, each once, also for a reader that comes again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt;
use loop_server::caller;
use loop_server::doors::tokens::{NewToken, TokenFile};
use loop_server::doors::{Audit, DoorLimits, Doors, DoorsConfig, Hosts, WatchedTokens};
use loop_server::engine::{Engine, NewRun, RunState};
use tower::ServiceExt;

use crate::bench::{ASKS, Bench, Gate, LONG, asks, router};

fn reader() -> caller::Caller {
    caller::Caller { name: "ada".into(), roles: BTreeSet::from([caller::Role::Read]), domains: None }
}

/// One frame: id, event and data.
#[derive(Clone, Debug, Default, PartialEq)]
struct Frame {
    id: Option<u64>,
    event: String,
}

/// Reads the events after this one, at most so many frames.
async fn read(engine: &Engine, run: &str, last: Option<u64>, max: usize) -> (StatusCode, Vec<Frame>) {
    let mut request = Request::get(format!("/v1/runs/{run}/events"));
    if let Some(last) = last {
        request = request.header("last-event-id", last.to_string());
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(reader());
    let response = router(engine).oneshot(request).await.unwrap();
    let status = response.status();
    let mut body = response.into_body().into_data_stream();
    let (mut text, mut frames) = (String::new(), Vec::new());
    while frames.len() < max
        && let Some(piece) = tokio::time::timeout(LONG, body.next()).await.unwrap()
    {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        while let Some((frame, rest)) = text.split_once("\n\n") {
            let mut read = Frame::default();
            for line in frame.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => read.id = Some(id.parse().unwrap()),
                    Some(("event", event)) => event.clone_into(&mut read.event),
                    _ => {}
                }
            }
            text = rest.to_owned();
            if !read.event.is_empty() {
                frames.push(read);
            }
        }
    }
    (status, frames)
}

#[tokio::test]
async fn each_event_is_sent_once_also_to_a_reader_that_comes_again() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let run = engine.submit(asks(ASKS)).await.unwrap().run;
    let whole = {
        let (engine, run) = (engine.clone(), run.to_string());
        tokio::spawn(async move { read(&engine, &run, None, usize::MAX).await })
    };
    // It reads while the run has not begun, and the run ends.
    gate.calls.add_permits(100);
    let (status, frames) = whole.await.unwrap();
    assert_eq!(status, StatusCode::OK);
    let ids: Vec<u64> = frames.iter().filter_map(|frame| frame.id).collect();
    let entries = engine.journal().entries_from(&run, 0, 1_000).await.unwrap().len() as u64;
    assert_eq!(ids, (0..entries).collect::<Vec<_>>());
    assert_eq!(frames.last().unwrap().event, "end");
    assert_eq!(frames.first().unwrap().event, "started");
    // A connection that is cut after any event continues behind it.
    for cut in 0..entries {
        let (_, rest) = read(&engine, run.as_str(), Some(cut), usize::MAX).await;
        let ids: Vec<u64> = rest.iter().filter_map(|frame| frame.id).collect();
        assert_eq!(ids, (cut + 1..entries).collect::<Vec<_>>(), "{cut}");
    }
    let (status, _) = read(&engine, run.as_str(), Some(entries - 1), usize::MAX).await;
    assert_eq!(status, StatusCode::NO_CONTENT, "there is nothing to come again for");
}

#[tokio::test]
async fn a_reader_that_never_reads_holds_one_page() {
    // U8
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let run = engine.submit(asks(ASKS)).await.unwrap().run;
    let request = |last: &str| {
        let mut request =
            Request::get(format!("/v1/runs/{run}/events?after={last}")).body(Body::empty()).unwrap();
        request.extensions_mut().insert(reader());
        request
    };
    let router = router(&engine);
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(router.clone().oneshot(request("0")).await.unwrap());
    }
    gate.calls.add_permits(100);
    engine.wait(&run, LONG).await;
    // They hold no run up, and what they do not read is not made.
    assert_eq!(engine.view(&run).await.unwrap().state, RunState::Ended);
    assert!(engine.drain(Duration::from_secs(20)).await);
    drop(silent);
}

/// A request for the events of a run, by the caller of this name.
async fn open(router: &axum::Router, run: &str, name: &str) -> axum::response::Response {
    let mut request = Request::get(format!("/v1/runs/{run}/events")).body(Body::empty()).unwrap();
    request.extensions_mut().insert(caller::Caller { name: name.into(), ..reader() });
    router.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn the_readers_of_one_caller_and_of_all_are_bounded() {
    // H10
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let run = engine.submit(NewRun { caller: Arc::from("ada"), ..asks(ASKS) }).await.unwrap().run;
    let router = router(&engine);
    let mut all = Vec::new();
    for name in ["ada", "bob", "cy", "dan", "eve"] {
        let before = all.len();
        let refused = loop {
            let response = open(&router, run.as_str(), name).await;
            if response.status() != StatusCode::OK {
                break response;
            }
            all.push(response);
        };
        let own = if name == "eve" { 0 } else { 64 };
        assert_eq!((all.len() - before, refused.status()), (own, StatusCode::TOO_MANY_REQUESTS), "{name}");
        assert!(refused.headers().contains_key("retry-after"));
    }
    all.truncate(192);
    assert_eq!(open(&router, run.as_str(), "ada").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(open(&router, run.as_str(), "eve").await.status(), StatusCode::OK);
}

/// A door with one token, `ci`, in front of the API.
fn door(folder: &std::path::Path, engine: &Engine) -> (axum::Router, TokenFile, String) {
    let file = TokenFile::at(folder.join("tokens.toml"));
    let token = NewToken { name: "ci".into(), roles: [caller::Role::Read].into(), ..NewToken::default() };
    let secret = file.add(token).unwrap().reveal().to_owned();
    let listen = "127.0.0.1:8787".parse().unwrap();
    let doors = Doors::new(DoorsConfig {
        listen,
        hosts: Hosts::new(listen, &[]).unwrap(),
        tokens: Some(WatchedTokens::open(file.clone(), Arc::new(|_| {})).unwrap()),
        proxies: Vec::new(),
        limits: DoorLimits::default(),
        audit: Audit::none(),
    });
    (doors.unwrap().guard(router(engine)), file, secret)
}

#[tokio::test]
async fn a_stream_ends_with_its_token_and_with_the_session_of_it() {
    // A removed token stops within a second: also what it has open.
    let (bench, gate, folder) = (Bench::new(), Gate::closed(), tempfile::tempdir().unwrap());
    let engine = bench.engine(&gate).await;
    let run = engine.submit(NewRun { caller: Arc::from("ada"), ..asks(ASKS) }).await.unwrap().run;
    let (router, file, secret) = door(folder.path(), &engine);
    let host = |request: axum::http::request::Builder| request.header("host", "127.0.0.1:8787");
    let form = host(Request::post("/login")).header("sec-fetch-site", "same-origin");
    let login =
        router.clone().oneshot(form.body(Body::from(format!("token={secret}"))).unwrap()).await.unwrap();
    let cookie = login.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let mut streams = Vec::new();
    for (name, value) in [("authorization", format!("Bearer {secret}")), ("cookie", cookie)] {
        let request = host(Request::get(format!("/v1/runs/{run}/events"))).header(name, value);
        let request = request.header("sec-fetch-site", "same-origin").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        // Issue 40, H7: the connection ends with the stream, and does not wait for another request.
        assert_eq!(response.headers()["connection"], "close", "{name}");
        let mut body = response.into_body().into_data_stream();
        assert!(body.next().await.unwrap().is_ok(), "{name}: it is open");
        streams.push((name, body));
    }
    let waits = host(Request::get(format!("/v1/runs/{run}"))).header("prefer", "wait=60");
    let waits = waits.header("authorization", format!("Bearer {secret}")).body(Body::empty()).unwrap();
    let waits = tokio::spawn(router.clone().oneshot(waits));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(file.remove("ci").unwrap());
    let since = std::time::Instant::now();
    for (name, mut body) in streams {
        let over = async { while body.next().await.is_some() {} };
        assert!(tokio::time::timeout(LONG, over).await.is_ok(), "{name}");
    }
    // So does an answer that waits for the run.
    let waited = tokio::time::timeout(LONG, waits).await.unwrap().unwrap().unwrap();
    assert_eq!(waited.status(), StatusCode::UNAUTHORIZED);
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_ne!(engine.view(&run).await.unwrap().state, RunState::Ended, "the run continues");
}
