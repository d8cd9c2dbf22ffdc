//! Shows the events of a run as they happen.

use std::sync::Arc;

use loop_runtime::journal::{Entry, Journal, StoredJournal};
use loop_runtime::observe::{Events, RunEvent};
use loop_runtime::run::{DriveResult, Handle, RunId};
use tokio::task::{JoinHandle, spawn_blocking};

use super::listen::Listening;
use crate::context::Signals;
use crate::output::stream;
use crate::shown::{Live, lines_of};

/// The displays of a run's events. Both continue where they were when the run is driven again.
pub(crate) type EventViews = (Option<Live>, Option<Lines>);

/// Drives a run until it has ended or waits for people, and shows its events. Signals stop it.
pub(crate) async fn driven(
    journal: &Arc<StoredJournal>,
    mut handle: Handle,
    shows: &mut EventViews,
    signals: &mut Signals,
) -> DriveResult {
    let (live, lines) = std::mem::take(shows);
    let watcher = watch(&mut handle, live, lines);
    let remote = handle.remote();
    let _listening = Listening::to(journal, handle.id(), remote.clone());
    let driven = tokio::select! {
        driven = handle.driven() => driven,
        never = signals.stop(&remote) => match never {},
    };
    if let Some(watcher) = watcher {
        // The queue ends with the run; what it still holds is shown first.
        *shows = signals.unless_received(watcher).await.unwrap_or_default();
    }
    driven
}

/// Shows events on a separate thread, so that a slow terminal delays nothing.
fn watch(handle: &mut Handle, live: Option<Live>, lines: Option<Lines>) -> Option<JoinHandle<EventViews>> {
    if live.is_none() && lines.is_none() {
        return None;
    }
    let received = handle.events()?;
    let runtime = tokio::runtime::Handle::current();
    Some(spawn_blocking(move || runtime.block_on(show(received, live, lines))))
}

async fn show(mut received: Events, mut live: Option<Live>, mut lines: Option<Lines>) -> EventViews {
    loop {
        let status = async {
            match &live {
                Some(live) => tokio::time::sleep_until(live.due()).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            event = received.recv() => event,
            () = status => {
                live.as_mut().into_iter().for_each(Live::status);
                continue;
            }
        };
        let Some(event) = event else { break };
        if let Some(lines) = &mut lines {
            lines.show(&event).await;
        }
        if let Some(live) = &mut live {
            live.show(&event);
        }
    }
    live.as_mut().into_iter().for_each(Live::rest);
    (live, lines)
}

/// Prints the entries of a run as JSON lines, each once. Events that were missed are read from the journal.
pub(crate) struct Lines {
    journal: Arc<dyn Journal>,
    run: RunId,
    next: u64,
}

impl Lines {
    pub(crate) fn new(journal: Arc<dyn Journal>, run: RunId) -> Self {
        Self { journal, run, next: 0 }
    }

    async fn show(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Recorded(entry) => self.print(entry),
            RunEvent::Lost { entries: 1.., .. } => self.show_all().await,
            RunEvent::Lost { .. } | RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Call { .. } => {
            }
        }
    }

    /// Prints the entries in the journal that were not printed yet.
    pub(super) async fn show_all(&mut self) {
        match self.journal.read(&self.run).await {
            Ok(recorded) => recorded.entries.iter().for_each(|entry| self.print(entry)),
            Err(error) => stream::note(format!("loopgate: {error}; some entries are not shown")),
        }
    }

    fn print(&mut self, entry: &Entry) {
        if entry.seq >= self.next {
            self.next = entry.seq + 1;
            stream::print_json(&lines_of(entry));
        }
    }
}
