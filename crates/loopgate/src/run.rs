//! `loopgate run`: a work item in; a document, an answer or a value, a reason and a cost out.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loop_claims::Claim;
use loop_core::gate::Measure;
use loop_core::run::{PersonRequest, Started};
use loop_core::types::{Cost, Millis, PicoUsd, StopClass, Totals};
use loop_core::{EventKind, Outcome, StopReason};
use loop_inspect::Forecast;
use loop_runtime::{
    Runner,
    journal::{Entry, Journal, StoredJournal},
    observe::{Events, RunEvent},
    people::PeopleReport,
    report::{EvidenceDetail, Report, counted, explain, warnings},
    run::{Driven, EndedRun, Handle, Remote, RunId, StartError, StopMode, Waiting},
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::args::RunArgs;
use crate::attach::{self, Request};
use crate::chat::{self, typed};
use crate::failure::Failure;
use crate::live::Live;
use crate::resume::Origin;
use crate::{budgets, grounding, people, places, saving, selection, show, stop, stream, telemetry, wrote};

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let domain = places::load_recorded(&args.domain, args.record.as_deref())?;
    let item = places::item_or_text(&domain, args.items.first().map(PathBuf::as_path), args.text.as_deref())?;
    let item = args.request.on(item)?;
    domain.ready(args.written.saves())?;
    domain.start_servers();
    let journal = args.written.open(&domain)?;
    let prepared = saving::to_loop(&domain, args.written.saves());
    let tags = places::tags(&args.tags)?;
    let origin = Origin::of(&args.domain, args.written.saves(), /*asks*/ false)?.with_tags(tags).text()?;
    let prepared = budgets::on_journal(prepared, &domain, &journal, /*batch*/ None);
    let prepared = prepared.with_origin(origin).leave_when_waiting();
    let spec = Arc::clone(prepared.spec());
    let forecast = Forecast::new(&spec, &domain.prompts, &item);
    let mut signals = Signals::new()?;
    let key = args.request.key()?;
    let request = attach::request(&prepared, item, key, args.progress, &mut signals).await?;
    stream::note(format!("limits:  {forecast}"));
    let id = match &request {
        Request::Drive(handle) => handle.id().clone(),
        Request::Ended(ended) => ended.started.run.clone(),
    };
    let explained = args.explain_picks.then(|| (Arc::clone(&journal), id.clone()));
    let lines = args.events.then(|| Lines::new(Arc::clone(&journal) as Arc<dyn Journal>, id));
    let driving = Driving {
        runner: &prepared,
        journal,
        at: args.written.journal.journal.clone(),
        live: Live::new(&spec, args.progress),
        lines,
        json: args.json.detail(),
        prints: !args.events,
        signals,
    };
    let (code, mut signals) = match request {
        Request::Drive(handle) => driving.drive(handle).await?,
        Request::Ended(ended) => driving.has_ended(*ended).await?,
    };
    if let Some((journal, id)) = explained {
        signals.unless_received(selection::explain(&domain, &*journal, &id)).await;
    }
    let finish = async {
        match (domain.finish_recording(), &args.record) {
            (Ok(Some(exchanges)), Some(path)) => {
                stream::note(format!("recorded: {exchanges} exchanges in {}", path.display()));
            }
            (Ok(_), _) => {}
            (Err(error), _) => stream::note(format!("recorded: no: {error}")),
        }
    };
    signals.unless_received(finish).await;
    Ok(code)
}

/// A run under way, and how it is shown.
pub(crate) struct Driving<'a> {
    pub(crate) runner: &'a Runner,
    pub(crate) journal: Arc<StoredJournal>,
    /// The journal as it was named on the command line, where it was.
    pub(crate) at: Option<PathBuf>,
    pub(crate) live: Option<Live>,
    pub(crate) lines: Option<Lines>,
    /// How much of the evidence is printed with the outcome as JSON. `None`: the outcome is not printed as JSON.
    pub(crate) json: Option<EvidenceDetail>,
    /// Whether what it came to is printed.
    pub(crate) prints: bool,
    pub(crate) signals: Signals,
}

impl Driving<'_> {
    /// Drives until the run is over, or waits for people who are not here; prints what it came to.
    pub(crate) async fn drive(mut self, mut handle: Handle) -> Result<(ExitCode, Signals), Failure> {
        stream::outlive_reader();
        let mut typed = None;
        loop {
            let watcher = watch(&mut handle, self.live.take(), self.lines.take());
            let (started, remote) = (Arc::clone(handle.started()), handle.remote());
            let _listening = stop::Listening::to(&self.journal, &started.run, remote.clone());
            let driven = tokio::select! {
                driven = handle.driven() => driven,
                never = self.signals.stop(&remote) => match never {},
            };
            if let Some(watcher) = watcher {
                // The queue ends with the run; what it still holds is shown first.
                (self.live, self.lines) = self.signals.unless_received(watcher).await.unwrap_or_default();
            }
            let (outcome, requested) = match driven {
                Driven::Ended(outcome) => (outcome, Vec::new()),
                Driven::Waiting(Waiting { outcome, requested }) => (outcome, requested),
            };
            if !requested.is_empty() && is_answered_here() && requested.iter().all(people::may_answer_here) {
                let typed = typed.get_or_insert_with(|| typed::Lines::begin(MAX_ANSWER_BYTES));
                if let Some(stated) = self.ask(typed, &requested).await {
                    let run = &outcome.run;
                    handle = match self.runner.resume_with(run, stated).start().await {
                        // It took too long: silence was a no.
                        Err(StartError::Refused { rejected, .. }) => {
                            stream::note(rejected.to_string());
                            self.runner.resume(run).start().await?
                        }
                        resumed => resumed?,
                    };
                    continue;
                }
            }
            return self.print(&started, outcome, requested).await;
        }
    }

    /// Prints what a run came to that has ended before.
    async fn has_ended(mut self, ended: EndedRun) -> Result<(ExitCode, Signals), Failure> {
        stream::outlive_reader();
        if let Some(mut lines) = self.lines.take() {
            lines.show_all().await;
        }
        self.print(&ended.started, ended.outcome, Vec::new()).await
    }

    /// What the person at this terminal says to each of these; nothing where they leave it to later.
    async fn ask(&mut self, typed: &mut typed::Lines, requested: &[PersonRequest]) -> Option<Vec<EventKind>> {
        let mut stated = Vec::new();
        for requested in requested {
            let answer = tokio::select! {
                biased;
                _ = self.signals.next() => {
                    stream::note("");
                    return None;
                }
                answer = chat::ask(typed, requested) => answer?,
            };
            stated.push(people::answered(requested.key, answer, Some(requested.binding)));
        }
        Some(stated)
    }

    async fn print(
        self,
        started: &Started,
        outcome: Outcome,
        requested: Vec<PersonRequest>,
    ) -> Result<(ExitCode, Signals), Failure> {
        let Self { runner, journal, at, json, prints, mut signals, .. } = self;
        let code = signals.exit_code(&outcome);
        // What still waits as a run ends has time left: the run would have ended its wait otherwise.
        let words =
            (!requested.is_empty()).then(|| people::in_words(started, &requested, Millis(0), at.as_deref()));
        let report = if let Some(detail) = json {
            let report = Report::new(started, &outcome).with_evidence(&outcome, detail);
            let mut report = report.with_waiting(started, &requested);
            report = report.with_spec(runner.spec(), started, &outcome);
            match journal.read(&outcome.run).await {
                Ok(recorded) => {
                    let people = PeopleReport::of(&recorded);
                    report = report.with_tools(show::tools_of(&recorded)).with_people(people);
                }
                // The outcome was paid for, and is there all the same.
                Err(error) => stream::note(format!("loopgate: {error}; `tools` and `people` are left out")),
            }
            Some(serde_json::to_string_pretty(&report)?)
        } else {
            None
        };
        let wrote = wrote::lines(started, &runner.spec().domain, &outcome.calls);
        let exceeded = outcome.stop.primary.reason == StopReason::SharedBudgetExceeded;
        let taken = if exceeded { budgets::lines(runner).await } else { Vec::new() };
        let claims = loop_claims::of_outcome(&outcome, runner.spec(), started);
        let trace = trace_line(started);
        let printed = spawn_blocking(move || {
            match (report, &words) {
                (Some(report), _) => stream::print_json(&format!("{report}\n")),
                (None, Some(words)) if prints => stream::print(words),
                (None, Some(words)) => words.lines().for_each(stream::note),
                (None, None) if prints => show::print_result(&outcome, &claims),
                (None, None) => {}
            }
            match words {
                Some(_) => waits(&outcome, &wrote),
                None => summary(&outcome, &claims, &wrote),
            }
            trace.into_iter().for_each(stream::note);
            taken.into_iter().for_each(stream::note);
        });
        // The run is over, and its report may not be read.
        let _ = signals.unless_received(printed).await;
        Ok((code, signals))
    }
}

/// The trace in which the run's spans are, where they are sent or the caller has one.
fn trace_line(started: &Started) -> Option<String> {
    let is_known = telemetry::traces() || started.item.traceparent.is_some();
    is_known.then(|| format!("trace:   {}", started.trace().trace))
}

/// Whether a person sits here who can be asked.
fn is_answered_here() -> bool {
    std::io::stdin().is_terminal() && stream::is_watched()
}

/// That a run waits, and its bill so far, on standard error.
fn waits(outcome: &Outcome, wrote: &[String]) {
    stream::note("");
    stream::note(
        "waiting: a person has to answer; everything is in the journal, and no process waits for it",
    );
    doubts(outcome);
    warned(outcome);
    stream::note(format!("totals:  {}", bill(&outcome.totals)));
    wrote.iter().for_each(stream::note);
    stream::note(format!("run:     {}", outcome.run));
}

/// The reason, what was left undone, the cost, and who wrote it, on standard error.
pub(crate) fn summary(outcome: &Outcome, claims: &[Claim], wrote: &[String]) {
    let stop = &outcome.stop;
    stream::note("");
    stream::note(format!("stopped: {} ({}). {}", stop.name(), stop.class.name(), explain(stop)));
    if !outcome.missing.is_empty() {
        let missing: Vec<&str> = outcome.missing.iter().map(AsRef::as_ref).collect();
        stream::note(format!("missing: {}", missing.join(", ")));
    }
    if let Some(line) = grounding::line(claims) {
        stream::note(format!("values:  {line}"));
    }
    if let Some(output) = outcome.output.as_ref().filter(|output| !output.valid) {
        let why = outcome.rejection.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        stream::note(format!("invalid: {}{why}", output.value));
    }
    doubts(outcome);
    warned(outcome);
    if stop.class == StopClass::NeedsHuman {
        stream::note("over:    nothing waits in this run any more; what is left is for a person to do");
    }
    for action in outcome.undone().take(MAX_UNDONE) {
        stream::note(format!(
            "undone:  {} {} ({})",
            action.tool_name(),
            action.parameters,
            action.reason(&outcome.evidence)
        ));
    }
    let more = outcome.undone().count().saturating_sub(MAX_UNDONE);
    if more > 0 {
        stream::note(format!("undone:  {more} more; `loopgate show {}` lists them", outcome.run));
    }
    if outcome.totals.unread_calls > 0 {
        let unread = outcome.totals.unread_calls;
        stream::note(format!("undone:  {unread} calls beyond limits.requested_calls of one reply; not read"));
    }
    stream::note(format!("totals:  {}", bill(&outcome.totals)));
    wrote.iter().for_each(stream::note);
    match &outcome.saved {
        Some(loop_core::run::Saved::At { location }) => stream::note(format!("saved:   {location}")),
        Some(loop_core::run::Saved::Not { message }) => {
            stream::note(format!("saved:   no: {message}; the journal has it"))
        }
        None => {}
    }
    stream::note(format!("run:     {}", outcome.run));
}

/// What was irregular, on standard error.
pub(crate) fn warned(outcome: &Outcome) {
    for warning in warnings(&outcome.calls, &outcome.warnings) {
        stream::note(format!("warning: {warning}"));
    }
}

/// The effects that were owed and did not happen, and those whose outcome is unknown, on standard error.
pub(crate) fn doubts(outcome: &Outcome) {
    for condition in &outcome.stop.also {
        if let Measure::NotDone(effects) = &condition.value {
            effects.iter().for_each(|effect| stream::note(format!("not done: {effect}")));
        }
    }
    for condition in outcome.stop.also.iter().filter(|condition| condition.reason == StopReason::InDoubt) {
        let effects = match &condition.value {
            Measure::Names(effects) => effects.join(", "),
            other => other.to_string(),
        };
        stream::note(format!(
            "in doubt: {effects}: it may or may not have happened; look before anything is done again"
        ));
    }
}

/// How many bytes a person's answer may have.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// How many undone actions are listed; the rest is counted.
const MAX_UNDONE: usize = 20;

/// Totals in one line.
pub(crate) fn bill(totals: &Totals) -> String {
    let mark = if totals.usage.estimated { " (in part estimated)" } else { "" };
    format!(
        "{}, {}, {}, {}{mark}, {}, {:.1} s",
        counted(totals.passes, "pass"),
        counted(totals.model_calls, "model call"),
        counted(totals.tool_calls, "tool call"),
        counted(totals.usage.total(), "token"),
        cost(&totals.cost),
        totals.wall_ms as f64 / 1_000.0,
    )
}

/// An amount among others.
pub(crate) fn cost(spend: &Cost) -> String {
    if spend.total().is_none() && spend.known == PicoUsd::default() {
        "cost unknown".to_owned()
    } else {
        spend.to_string()
    }
}

/// What shows the events of a run: both continue where they were when the run is driven again.
pub(crate) type Shows = (Option<Live>, Option<Lines>);

/// Shows events in a thread of their own, so that a slow terminal holds nothing up.
pub(crate) fn watch(
    handle: &mut Handle,
    live: Option<Live>,
    lines: Option<Lines>,
) -> Option<JoinHandle<Shows>> {
    if live.is_none() && lines.is_none() {
        return None;
    }
    let received = handle.events()?;
    let runtime = tokio::runtime::Handle::current();
    Some(spawn_blocking(move || runtime.block_on(show(received, live, lines))))
}

async fn show(mut received: Events, mut live: Option<Live>, mut lines: Option<Lines>) -> Shows {
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

/// The JSON lines of a run, each entry once and none left out: what was not heard is read from the journal.
pub(crate) struct Lines {
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
            RunEvent::Lost { entries: 1.., .. } => self.show_all().await,
            RunEvent::Lost { .. } | RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Call { .. } => {
            }
        }
    }

    /// Shows what is in the journal and was not shown yet.
    async fn show_all(&mut self) {
        match self.journal.read(&self.run).await {
            Ok(recorded) => recorded.entries.iter().for_each(|entry| self.print(entry)),
            Err(error) => stream::note(format!("loopgate: {error}; some entries are not shown")),
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
    /// The terminal is gone. None where the program was started so that it outlives one, as `nohup` does.
    hangup: Option<Signal>,
    /// The last one by which a run was asked to stop.
    received: Option<ReceivedSignal>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedSignal {
    Interrupt,
    Terminate,
    HangUp,
}

impl ReceivedSignal {
    /// What a shell shows for a program that it has ended.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => SIGTERM_EXIT,
            Self::HangUp => 129,
        }
    }
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        let hangup = if is_ignored(SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hangup, received: None })
    }

    pub(crate) async fn next(&mut self) -> ReceivedSignal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => ReceivedSignal::Interrupt,
            Some(()) = self.terminate.recv() => ReceivedSignal::Terminate,
            Some(()) = of(&mut self.hangup) => ReceivedSignal::HangUp,
            else => std::future::pending().await,
        }
    }

    /// Waits for this; a signal before it ends the program. One that has stopped the run already and comes from no terminal is
    /// not sent twice: what is left has a few seconds then.
    pub(crate) async fn unless_received<T>(&mut self, work: impl Future<Output = T>) -> T {
        let stopped = self.received.filter(|received| *received != ReceivedSignal::Interrupt);
        let late = async {
            match stopped {
                Some(received) => {
                    tokio::time::sleep(LEFT_AFTER_SIGNAL).await;
                    received
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            done = work => done,
            received = self.next() => stream::exit(received.exit_code().into()),
            received = late => stream::exit(received.exit_code().into()),
        }
    }

    /// The signal by which a run was asked to stop, if one was heard.
    pub(crate) fn received(&self) -> Option<ReceivedSignal> {
        self.received
    }

    /// The exit code for what a run came to: that of its class, or what a shell shows for SIGTERM where that stopped it.
    fn exit_code(&self, outcome: &Outcome) -> ExitCode {
        match (outcome.stop.class, self.received) {
            (StopClass::Cancelled, Some(ReceivedSignal::Terminate)) => ExitCode::from(SIGTERM_EXIT),
            (class, _) => ExitCode::from(class.exit_code()),
        }
    }

    /// The first Ctrl-C stops at the next gate, the second at once; SIGTERM and SIGHUP stop at once.
    pub(crate) async fn stop(&mut self, remote: &Remote) -> Infallible {
        let mut is_first = true;
        loop {
            let received = self.next().await;
            self.received = Some(received);
            if is_first && received == ReceivedSignal::Interrupt {
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

/// The next of a signal that is listened for; otherwise none comes.
async fn of(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Makes a write beyond the largest permitted size of a file an error that is reported, instead of the program's end.
pub(crate) fn survive_file_limits() {
    // Once it is listened for, the signal ends nothing. Where that fails it is as it was.
    _ = signal(SignalKind::from_raw(SIGXFSZ));
}

/// Whether this program was started with a signal ignored. Where the system does not tell, it was not.
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal - 1)) != 0
}

/// How long what is left of a program may take that SIGTERM or SIGHUP has stopped, such as output that is not read.
const LEFT_AFTER_SIGNAL: Duration = Duration::from_secs(5);
/// What a shell shows for a program that SIGTERM has ended.
const SIGTERM_EXIT: u8 = 143;
const SIGHUP: u32 = 1;
/// The same number on Linux and macOS.
const SIGXFSZ: i32 = 25;
