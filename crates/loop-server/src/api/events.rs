//! The events of a run as server-sent events: first the journaled ones, then new ones as they happen.
//!
//! A reader pulls from the journal, so a slow reader costs at most one page of entries in memory. The
//! [server](crate::server) closes connections that take nothing for some time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use loop_core::types::RunId;
use loop_runtime::journal::list::JournalChanges;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::access::{Access, ApiCaller};
use super::readers::{MAX_READERS, MAX_READERS_OF_ONE, ReaderPlace, Readers};
use super::refuse::problem;
use super::{Api, body};
use crate::doors::Admission;
use crate::engine::{LiveRun, ReplyPiece, RunPhase, RunState, run_changed};
use crate::problem::HttpProblem;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventQuery {
    after: Option<u64>,
}

/// `GET /v1/runs/{run}/events`.
pub(super) async fn events(
    State(api): State<Api>,
    known: ApiCaller,
    admission: Option<Extension<Admission>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpProblem> {
    let run = known.run(&api, &id, Access::Read).await?;
    let query: EventQuery = body::query(query.as_deref())?;
    let last = match body::single(&headers, "last-event-id")? {
        None => query.after,
        Some(last) => Some(last.to_str().ok().and_then(|last| last.trim().parse().ok()).ok_or_else(|| {
            let detail = "Last-Event-ID: it is not the id of an event, which is a number; leave it out to begin anew";
            HttpProblem::new(StatusCode::BAD_REQUEST, "event-id", "Not an event", detail)
        })?),
    };
    let place = Readers::take(&api.readers, &known.0.name).ok_or_else(|| {
        let detail = format!(
            "too many requests read events: at most {MAX_READERS_OF_ONE} of one caller and {MAX_READERS} in all; close some, \
             or try again later"
        );
        HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, "readers", "Too many readers", detail).retry_after(5)
    })?;
    let next = last.map_or(0, |last| last.saturating_add(1));
    if let Some(last) = last {
        let view = api.engine.view(&run).await.map_err(problem)?;
        // A client that has everything need not come again: 204 tells it so.
        if view.state == RunState::Ended && last.saturating_add(1) >= view.entries {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let live = api.engine.live(&run);
    let changes = api.engine.journal().changes();
    let frames = VecDeque::from([Bytes::from_static(b"retry: 2000\n\n")]);
    let admission = admission.map(|Extension(admission)| admission);
    let beat = Instant::now() + HEARTBEAT;
    let reader =
        Reader { api, run, next, live, changes, admission, frames, beat, is_over: false, _place: place };
    // The connection ends with the stream: a client whose token was removed is not left with one that is open.
    let head = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
    ];
    Ok((head, Body::from_stream(stream::unfold(reader, Reader::step))).into_response())
}

/// One client that reads events.
struct Reader {
    api: Api,
    run: RunId,
    /// The number of the next entry.
    next: u64,
    live: Option<LiveRun>,
    /// Changes that other processes commit. `None`: the journal has no notifications.
    changes: Option<JournalChanges>,
    /// `None`: no door is in front of the router.
    admission: Option<Admission>,
    frames: VecDeque<Bytes>,
    /// When the next heartbeat is due.
    beat: Instant,
    is_over: bool,
    _place: ReaderPlace,
}

impl Reader {
    async fn step(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            // Before each frame, so that nothing is sent for a token that was removed or has expired.
            if self.admission.as_ref().is_some_and(|admission| !admission.is_valid()) {
                return None;
            }
            if let Some(frame) = self.frames.pop_front() {
                return Some((Ok(frame), self));
            }
            if self.is_over {
                return None;
            }
            // Before the entries are read, so that what it ended with is among them.
            let is_ended = match &self.live {
                Some(live) => live.phase() == RunPhase::Ended,
                None => self.is_ended().await,
            };
            let is_behind = self.live.as_ref().is_none_or(|live| {
                live.phase() != RunPhase::Running || live.entries() == 0 || live.entries() > self.next
            });
            if is_behind && self.read_page().await {
                continue;
            }
            if is_ended {
                self.end().await;
                continue;
            }
            self.wait().await;
        }
    }

    /// Reads the next entries. Returns whether there are any.
    async fn read_page(&mut self) -> bool {
        let Ok(entries) = self.api.engine.journal().entries_from(&self.run, self.next, PAGE).await else {
            self.is_over = true;
            return false;
        };
        for entry in &entries {
            let Ok(data) = serde_json::to_string(entry) else { continue };
            let name = entry.event.kind.name();
            self.frames.push_back(format!("id: {}\nevent: {name}\ndata: {data}\n\n", entry.seq).into());
            self.next = entry.seq + 1;
        }
        !entries.is_empty()
    }

    async fn is_ended(&self) -> bool {
        match self.api.engine.journal().line(&self.run).await {
            Ok(Some(line)) => line.trouble.is_some() || line.stop.is_some() && !line.is_written,
            // It may wait for a process that has a place.
            Ok(None) => !self.api.engine.is_queued(&self.run).await,
            Err(_) => true,
        }
    }

    async fn end(&mut self) {
        if let Ok(view) = self.api.engine.view(&self.run).await {
            let data = serde_json::to_string(&view).unwrap_or_default();
            self.frames.push_back(format!("event: end\ndata: {data}\n\n").into());
        }
        self.is_over = true;
    }

    /// Waits until there may be something to send.
    async fn wait(&mut self) {
        let engine = self.api.engine.clone();
        let is_driven = self.live.as_ref().is_some_and(|live| live.phase() == RunPhase::Running);
        // The admission is checked again at each of them, and the journal is read for a run that is not driven here.
        let pause = if is_driven && self.admission.is_none() { HEARTBEAT } else { POLL };
        let next = async {
            match &mut self.live {
                Some(live) => live.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            next = next => match next {
                Ok(Some(ReplyPiece { call, attempt, text })) => {
                    let data = json!({ "call": call, "attempt": attempt, "text": text });
                    self.frames.push_back(format!("event: text\ndata: {data}\n\n").into());
                }
                Ok(None) => {}
                // It has ended.
                Err(0) => self.live = None,
                Err(lost) => {
                    let data = json!({ "texts": lost });
                    self.frames.push_back(format!("event: lost\ndata: {data}\n\n").into());
                }
            },
            () = run_changed(self.changes.as_mut(), &self.run), if !is_driven => {}
            () = engine.left() => self.is_over = true,
            () = tokio::time::sleep(pause) => {
                // Another process may have continued it, or this one has begun to drive it.
                if self.live.is_none() {
                    self.live = engine.live(&self.run);
                }
                if !is_driven || self.beat <= Instant::now() {
                    self.beat = Instant::now() + HEARTBEAT;
                    self.frames.push_back(Bytes::from_static(b": heartbeat\n\n"));
                }
            }
        }
    }
}

/// Entries that are read at a time.
const PAGE: usize = 32;
/// How often a heartbeat is sent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often the admission is checked, and the journal is read for a run that is not driven here.
const POLL: Duration = Duration::from_secs(1);
