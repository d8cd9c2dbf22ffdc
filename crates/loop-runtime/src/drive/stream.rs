//! A run as a stream: the caller that polls it drives it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use loop_core::Outcome;
use loop_core::run::Started;
use loop_core::types::RunId;

use crate::drive::driver::DriverEnd;
use crate::drive::handle::ReadyRun;
use crate::drive::handle::Remote;
use crate::watch::events::{Events, RunEvent};

/// A run that continues only while it is polled, and yields its events.
///
/// After each commit the run rests until the next poll: a caller that stops polling holds it there, and nothing further
/// is recorded or started. Entries of the same moment share a commit: results that arrived together, and the call that
/// follows. Such a rest does not count towards the run's time. A pause between two pieces of a reply does, and also
/// towards the call's own time, because a provider does not wait forever either. Tools that have begun continue during
/// a pause, and their results are read after it.
///
/// The stream ends after the last entry, and [`outcome`](Self::outcome) then has the outcome. Dropping it earlier ends
/// everything in flight. Recorded entries stay, and the run can be resumed.
#[must_use = "a stream does nothing unless it is polled"]
pub struct RunStream {
    id: RunId,
    started: Arc<Started>,
    remote: Remote,
    events: Events,
    state: StreamState,
}

enum StreamState {
    Driving(BoxFuture<'static, DriverEnd>),
    Over(Box<DriverEnd>),
}

impl RunStream {
    pub(crate) fn new(begun: ReadyRun) -> Self {
        let ReadyRun { id, started, remote, events, driving } = begun;
        Self { id, started, remote, events, state: StreamState::Driving(driving) }
    }

    /// The run's name.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The first event's data: work item, nonce, hashes.
    pub fn started(&self) -> &Arc<Started> {
        &self.started
    }

    /// A remote to stop the run and to answer its questions. It takes effect at the next poll.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The outcome, once the run is over.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            StreamState::Driving(_) => None,
            StreamState::Over(ended) => Some(&ended.outcome),
        }
    }

    /// Drives the run to its end without yielding further events, and returns the outcome.
    pub async fn into_outcome(self) -> Outcome {
        self.into_all().await.outcome
    }

    /// The same, and gives all there is.
    pub(crate) async fn into_all(self) -> DriverEnd {
        let Self { events, state, .. } = self;
        // The caller does not read them any more.
        drop(events);
        match state {
            StreamState::Driving(driving) => driving.await,
            StreamState::Over(ended) => *ended,
        }
    }
}

impl Stream for RunStream {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        loop {
            if let Some(event) = self.events.waiting() {
                return Poll::Ready(Some(event));
            }
            let StreamState::Driving(driving) = &mut self.state else { return Poll::Ready(None) };
            match driving.as_mut().poll(context) {
                Poll::Ready(ended) => self.state = StreamState::Over(Box::new(ended)),
                Poll::Pending => {
                    return self.events.waiting().map_or(Poll::Pending, |event| Poll::Ready(Some(event)));
                }
            }
        }
    }
}

impl fmt::Debug for RunStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream")
            .field("id", &self.id)
            .field("outcome", &self.outcome())
            .finish_non_exhaustive()
    }
}
