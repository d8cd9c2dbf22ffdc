//! `loopgate run`: a work item in; a document, a reason and a bill out.

use std::process::ExitCode;
use std::sync::Arc;

use loop_core::Outcome;
use loop_runtime::{
    Entry, Events, Forecast, Handle, Journal, Remote, Report, RunEvent, RunId, StopMode, explain,
};

use crate::args::{Progress, RunArgs};
use crate::failure::Failure;
use crate::live::Live;
use crate::{places, stream};

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let domain = places::load(&args.domain)?;
    let item = places::item(&domain, &args.item)?;
    domain.ready(!args.no_save)?;
    let journal = places::journal(&args.journal)?;
    let prepared = if args.no_save { domain.unsaved_loop() } else { domain.to_loop() };
    let prepared = prepared.with_journal(Arc::clone(&journal) as Arc<dyn Journal>);
    let spec = Arc::clone(prepared.spec());
    let forecast = Forecast::new(&spec, &domain.prompts, &item);
    let mut handle = prepared.start(item).await?;
    stream::note(&format!("limits:  {forecast}"));
    let shows = match args.progress {
        Progress::Auto => stream::is_watched(),
        Progress::Always => true,
        Progress::Never => false,
    };
    let lines = args.events.then(|| Lines::new(journal, handle.id().clone()));
    let watcher = watch(&mut handle, shows.then(|| Live::new(&spec)), lines);
    let started = Arc::clone(handle.started());
    let guard = tokio::spawn(listen(handle.remote()));
    let outcome = handle.wait().await;
    guard.abort();
    if let Some(watcher) = watcher {
        // The queue ends with the run; what it still holds is shown first.
        let _ = watcher.await;
    }
    if args.json {
        let report = Report::new(&started, &outcome);
        stream::print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    } else if !args.events {
        stream::print(&outcome.document.to_markdown());
    }
    summary(&outcome);
    Ok(ExitCode::from(outcome.stop.class.exit_code()))
}

/// The reason, what was left undone, and the bill, on standard error.
pub(crate) fn summary(outcome: &Outcome) {
    let stop = &outcome.stop;
    stream::note(&format!("\nstopped: {} ({}). {}", stop.reason(), stop.class.name(), explain(stop)));
    if !outcome.missing.is_empty() {
        let missing: Vec<&str> = outcome.missing.iter().map(AsRef::as_ref).collect();
        stream::note(&format!("missing: {}", missing.join(", ")));
    }
    for action in outcome.undone() {
        stream::note(&format!(
            "undone:  {} {} ({})",
            action.tool_name(),
            action.parameters,
            action.verdict.reason()
        ));
    }
    let totals = &outcome.totals;
    let mark = if totals.usage.estimated { " (in part estimated)" } else { "" };
    stream::note(&format!(
        "totals:  {}, {}, {}, {} tokens{mark}, {}, {:.1} s",
        count(totals.passes, "pass", "passes"),
        count(totals.model_calls, "model call", "model calls"),
        count(totals.tool_calls, "tool call", "tool calls"),
        totals.usage.total(),
        totals.cost,
        totals.wall_ms as f64 / 1_000.0,
    ));
    match &outcome.saved {
        Some(loop_core::Saved::At { location }) => stream::note(&format!("saved:   {location}")),
        Some(loop_core::Saved::Not { message }) => {
            stream::note(&format!("saved:   no: {message}; the journal has it"))
        }
        None => {}
    }
    stream::note(&format!("run:     {}", outcome.run));
}

fn count(n: u32, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Shows events in a task of their own, so that a slow terminal holds nothing up.
fn watch(
    handle: &mut Handle,
    live: Option<Live>,
    lines: Option<Lines>,
) -> Option<tokio::task::JoinHandle<()>> {
    if live.is_none() && lines.is_none() {
        return None;
    }
    let heard = handle.events()?;
    Some(tokio::spawn(show(heard, live, lines)))
}

async fn show(mut heard: Events, mut live: Option<Live>, mut lines: Option<Lines>) {
    while let Some(event) = heard.recv().await {
        if let Some(lines) = &mut lines {
            lines.show(&event).await;
        }
        if let Some(live) = &mut live {
            live.show(&event);
        }
    }
}

/// The JSON lines of a run, each entry once and none left out: what was not heard is read from the journal.
struct Lines {
    journal: Arc<dyn Journal>,
    run: RunId,
    next: u64,
}

impl Lines {
    fn new(journal: Arc<dyn Journal>, run: RunId) -> Self {
        Self { journal, run, next: 0 }
    }

    async fn show(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Recorded(entry) => self.print(entry),
            RunEvent::Lost { entries: 1.., .. } => match self.journal.read(&self.run).await {
                Ok(recorded) => recorded.entries.iter().for_each(|entry| self.print(entry)),
                Err(error) => stream::note(&format!("loopgate: {error}; some entries are not shown")),
            },
            RunEvent::Lost { .. } | RunEvent::Text { .. } => {}
        }
    }

    fn print(&mut self, entry: &Entry) {
        if entry.seq >= self.next {
            self.next = entry.seq + 1;
            stream::print(&crate::show::lines_of(entry));
        }
    }
}

/// The first Ctrl-C stops at the next gate, the second at once; SIGTERM stops at once.
async fn listen(remote: Remote) {
    let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => {
            stream::note(&format!("loopgate: SIGTERM cannot be heard: {error}"));
            return;
        }
    };
    let mut pressed = 0;
    loop {
        let interrupted = tokio::select! {
            result = tokio::signal::ctrl_c() => result.is_ok(),
            _ = terminate.recv() => false,
        };
        pressed += 1;
        if interrupted && pressed == 1 {
            stream::note("\nstopping at the next gate; press Ctrl-C again to stop at once");
            remote.stop(StopMode::AtGate);
        } else {
            remote.stop(StopMode::Now);
        }
    }
}
