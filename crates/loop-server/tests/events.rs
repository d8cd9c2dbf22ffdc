//! The events of a run: history first, then live, each once, also for a reader that comes again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::StreamExt;
use loop_server::engine::{Engine, NewRun};
use loop_server::{api, caller};
use tower::ServiceExt;

use crate::bench::{ASKS, Bench, Gate, LONG, asks};

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
    let response = api::router(engine.clone()).oneshot(request).await.unwrap();
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
    let router = api::router(engine.clone());
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(router.clone().oneshot(request("0")).await.unwrap());
    }
    gate.calls.add_permits(100);
    engine.wait(&run, LONG).await;
    // They hold no run up, and what they do not read is not made.
    assert_eq!(engine.view(&run).await.unwrap().state, "ended");
    assert!(engine.drain(Duration::from_secs(20)).await);
    drop(silent);
}

#[tokio::test]
async fn the_number_of_readers_is_bounded() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let run = engine.submit(NewRun { caller: Arc::from("ada"), ..asks(ASKS) }).await.unwrap().run;
    let router = api::router(engine.clone());
    let mut open = Vec::new();
    let refused = loop {
        let mut request = Request::get(format!("/v1/runs/{run}/events")).body(Body::empty()).unwrap();
        request.extensions_mut().insert(reader());
        let response = router.clone().oneshot(request).await.unwrap();
        if response.status() != StatusCode::OK {
            break response;
        }
        open.push(response);
    };
    assert_eq!((open.len(), refused.status()), (512, StatusCode::TOO_MANY_REQUESTS));
    assert!(refused.headers().contains_key("retry-after"));
    drop(open);
    let mut request = Request::get(format!("/v1/runs/{run}/events")).body(Body::empty()).unwrap();
    request.extensions_mut().insert(reader());
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::OK);
}
