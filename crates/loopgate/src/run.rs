//! `loopgate run`: a work item in; a document, an answer or a value, a reason and a bill out.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::{Outcome, PicoUsd, Spend, Totals};
use loop_runtime::{
    Entry, Events, Forecast, Handle, Journal, Remote, Report, RunEvent, RunId, StopMode, explain,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::args::{Progress, RunArgs};
use crate::failure::Failure;
use crate::live::Live;
use crate::{places, show, stream};

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let domain = places::load_recorded(&args.domain, args.record.as_deref())?;
    let item = places::item_or_text(&domain, args.item.as_deref(), args.text.as_deref())?;
    domain.ready(!args.no_save)?;
    let journal = places::journal(&args.journal)?;
    let prepared = if args.no_save { domain.unsaved_loop() } else { domain.to_loop() };
    let prepared = prepared.with_journal(Arc::clone(&journal) as Arc<dyn Journal>);
    let spec = Arc::clone(prepared.spec());
    let forecast = Forecast::new(&spec, &domain.prompts, &item);
    let mut signals = Signals::new()?;
    let mut handle = prepared.start(item).await?;
    stream::note(format!("limits:  {forecast}"));
    let shows = match args.progress {
        Progress::Auto => stream::is_watched(),
        Progress::Always => true,
        Progress::Never => false,
    };
    let lines =
        args.events.then(|| Lines::new(Arc::clone(&journal) as Arc<dyn Journal>, handle.id().clone()));
    let watcher = watch(&mut handle, shows.then(|| Live::new(&spec)), lines);
    let started = Arc::clone(handle.started());
    let remote = handle.remote();
    let outcome = tokio::select! {
        outcome = handle.wait() => outcome,
        never = signals.stop(&remote) => match never {},
    };
    let code = ExitCode::from(outcome.stop.class.exit_code());
    let report = if args.json {
        let tools = show::tools_of(&journal.read(&outcome.run).await?);
        Some(serde_json::to_string_pretty(&Report::new(&started, &outcome).with_tools(tools))?)
    } else {
        None
    };
    let shows_result = !args.events;
    let finish = async {
        if let Some(watcher) = watcher {
            // The queue ends with the run; what it still holds is shown first.
            let _ = watcher.await;
        }
        let printed = spawn_blocking(move || {
            match report {
                Some(report) => stream::print_json(&format!("{report}\n")),
                None if shows_result => show::print_result(&outcome),
                None => {}
            }
            summary(&outcome);
        });
        let _ = printed.await;
        match (domain.finish_recording(), &args.record) {
            (Ok(Some(exchanges)), Some(path)) => {
                stream::note(format!("recorded: {exchanges} exchanges in {}", path.display()));
            }
            (Ok(_), _) => {}
            (Err(error), _) => stream::note(format!("recorded: no: {error}")),
        }
    };
    tokio::select! {
        () = finish => Ok(code),
        // The run is over, and whoever should read of it does not.
        heard = signals.next() => std::process::exit(heard.exit_code()),
    }
}

/// The reason, what was left undone, and the bill, on standard error.
pub(crate) fn summary(outcome: &Outcome) {
    let stop = &outcome.stop;
    stream::note("");
    stream::note(format!("stopped: {} ({}). {}", stop.reason(), stop.class.name(), explain(stop)));
    if !outcome.missing.is_empty() {
        let missing: Vec<&str> = outcome.missing.iter().map(AsRef::as_ref).collect();
        stream::note(format!("missing: {}", missing.join(", ")));
    }
    if let Some(output) = outcome.output.as_ref().filter(|output| !output.valid) {
        let why = outcome.rejection.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        stream::note(format!("invalid: {}{why}", output.value));
    }
    for action in outcome.undone() {
        stream::note(format!(
            "undone:  {} {} ({})",
            action.tool_name(),
            action.parameters,
            action.verdict.reason()
        ));
    }
    stream::note(format!("totals:  {}", bill(&outcome.totals)));
    match &outcome.saved {
        Some(loop_core::Saved::At { location }) => stream::note(format!("saved:   {location}")),
        Some(loop_core::Saved::Not { message }) => {
            stream::note(format!("saved:   no: {message}; the journal has it"))
        }
        None => {}
    }
    stream::note(format!("run:     {}", outcome.run));
}

/// Totals in one line.
pub(crate) fn bill(totals: &Totals) -> String {
    let mark = if totals.usage.estimated { " (in part estimated)" } else { "" };
    format!(
        "{}, {}, {}, {} tokens{mark}, {}, {:.1} s",
        count(totals.passes, "pass", "passes"),
        count(totals.model_calls, "model call", "model calls"),
        count(totals.tool_calls, "tool call", "tool calls"),
        totals.usage.total(),
        cost(&totals.cost),
        totals.wall_ms as f64 / 1_000.0,
    )
}

/// An amount that can stand among others.
pub(crate) fn cost(spend: &Spend) -> String {
    if spend.total().is_none() && spend.known == PicoUsd::default() {
        "cost unknown".to_owned()
    } else {
        spend.to_string()
    }
}

pub(crate) fn count(n: u32, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Shows events in a thread of their own, so that a slow terminal holds nothing up.
fn watch(handle: &mut Handle, live: Option<Live>, lines: Option<Lines>) -> Option<JoinHandle<()>> {
    if live.is_none() && lines.is_none() {
        return None;
    }
    let heard = handle.events()?;
    let runtime = tokio::runtime::Handle::current();
    Some(spawn_blocking(move || runtime.block_on(show(heard, live, lines))))
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
                Err(error) => stream::note(format!("loopgate: {error}; some entries are not shown")),
            },
            RunEvent::Lost { .. } | RunEvent::Text { .. } => {}
        }
    }

    fn print(&mut self, entry: &Entry) {
        if entry.seq >= self.next {
            self.next = entry.seq + 1;
            stream::print_json(&crate::show::lines_of(entry));
        }
    }
}

/// The signals that ask for the end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Interrupt,
    Terminate,
}

impl Heard {
    /// What a shell shows for a program that it has ended.
    pub(crate) fn exit_code(self) -> i32 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) -> Heard {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Heard::Interrupt,
            Some(()) = self.terminate.recv() => Heard::Terminate,
            else => std::future::pending().await,
        }
    }

    /// The first Ctrl-C stops at the next gate, the second at once; SIGTERM stops at once.
    async fn stop(&mut self, remote: &Remote) -> Infallible {
        let mut is_first = true;
        loop {
            let heard = self.next().await;
            if is_first && heard == Heard::Interrupt {
                remote.stop(StopMode::AtGate);
                // Not waited for: a terminal that takes nothing must not keep the next signal out.
                spawn_blocking(|| {
                    stream::note("");
                    stream::note("stopping at the next gate; press Ctrl-C again to stop at once");
                });
            } else {
                remote.stop(StopMode::Now);
            }
            is_first = false;
        }
    }
}
