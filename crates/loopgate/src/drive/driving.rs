//! Drives a run to its end, or until it waits for people who are not at this terminal.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use loop_core::run::Started;
use loop_core::types::{Millis, StopClass};
use loop_core::{EventKind, Note, Outcome, StopReason};
use loop_runtime::Runner;
use loop_runtime::journal::{Journal as _, StoredJournal, replay};
use loop_runtime::people::PeopleReport;
use loop_runtime::report::{EvidenceDetail, Report};
use loop_runtime::run::{DriveResult, EndedRun, Handle, RunId, StartError, Waiting, note_alone};
use tokio::task::spawn_blocking;

use super::ask::may_answer_here;
use super::asking::{AskingRun, ask_all, asking};
use super::watch::{EventViews, driven};
use crate::args::{AgainArgs, GoOnArgs};
use crate::context::{FoundRun, Signals, explained, telemetry};
use crate::output::{Failure, stream, typed};
use crate::shown::{
    Live, bill, budget_lines, doubts, people, print_result, summary, tools_of, warned, wrote,
};

/// A run in progress, and how it is shown.
pub(crate) struct DrivenRun<'a> {
    pub(crate) runner: &'a Runner,
    pub(crate) journal: Arc<StoredJournal>,
    /// The journal as named on the command line.
    pub(crate) at: Option<PathBuf>,
    pub(crate) shows: EventViews,
    /// How much evidence the JSON outcome contains. `None`: the outcome is not printed as JSON.
    pub(crate) json: Option<EvidenceDetail>,
    /// Whether the result is printed.
    pub(crate) prints: bool,
    pub(crate) signals: Signals,
}

impl DrivenRun<'_> {
    /// Drives the run until it has ended or waits for people who are not here, and prints the result.
    pub(crate) async fn drive(mut self, mut handle: Handle) -> Result<(ExitCode, Signals), Failure> {
        stream::outlive_reader();
        let mut typed = None;
        loop {
            let started = Arc::clone(handle.started());
            let driven = driven(&self.journal, handle, &mut self.shows, &mut self.signals).await;
            let (outcome, requested) = match driven {
                DriveResult::Ended(outcome) => (outcome, Vec::new()),
                DriveResult::Waiting(Waiting { outcome, requested }) => (outcome, requested),
            };
            let waiting = match requested.is_empty() {
                true => Vec::new(),
                false => asking(&self.journal, &outcome.run).await?,
            };
            if !waiting.is_empty() && is_answered_here() && requested.iter().all(may_answer_here) {
                let typed = typed.get_or_insert_with(|| typed::Lines::begin(MAX_ANSWER_BYTES));
                if let Some(mut said) = ask_all(typed, &mut self.signals, &waiting).await {
                    let run = &outcome.run;
                    let stated = said.remove(run).unwrap_or_default();
                    let runner = self.runner.clone().having_said(said);
                    handle = match runner.resume_with(run, stated).start().await {
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
            return self.print(&started, outcome, waiting).await;
        }
    }

    /// Prints the result of a run that ended before.
    pub(crate) async fn has_ended(mut self, ended: EndedRun) -> Result<(ExitCode, Signals), Failure> {
        stream::outlive_reader();
        if let Some(mut lines) = self.shows.1.take() {
            lines.show_all().await;
        }
        self.print(&ended.started, ended.outcome, Vec::new()).await
    }

    async fn print(
        self,
        started: &Started,
        outcome: Outcome,
        waiting: Vec<AskingRun>,
    ) -> Result<(ExitCode, Signals), Failure> {
        let Self { runner, journal, at, json, prints, mut signals, .. } = self;
        let code = signals.exit_code(&outcome);
        // What still waits as a run ends has time left: the run would have ended its wait otherwise.
        let words = waiting
            .iter()
            .map(|AskingRun { state, manifest }| people::in_words(state, manifest, Millis(0), at.as_deref()));
        let words = (!waiting.is_empty()).then(|| words.collect::<Vec<_>>().join("\n"));
        let own = waiting.into_iter().map(|it| it.state).find(|state| *state.id() == outcome.run);
        let report = if let Some(detail) = json {
            let report = Report::new(started, &outcome).with_evidence(&outcome, detail);
            let mut report = report.with_spec(runner.spec(), started, &outcome);
            match journal.read(&outcome.run).await {
                Ok(recorded) => {
                    let people = PeopleReport::of(&recorded);
                    report = report.with_tools(tools_of(&recorded)).with_people(people);
                    // A run that has ended is replayed for its plan alone.
                    let is_plan = |note: &Note| matches!(note, Note::Planned { .. });
                    let has_plan = !recorded.spec.plan.is_empty()
                        || recorded.entries.iter().any(|entry| entry.notes.iter().any(is_plan));
                    let replayed = || has_plan.then(|| replay(&outcome.run, &recorded).ok()).flatten();
                    if let Some(state) = own.or_else(replayed) {
                        report = report.with_run(&state, &recorded.manifest);
                    }
                }
                // The outcome was paid for, and is there all the same.
                Err(error) => stream::note(format!(
                    "loopgate: {error}; `tools`, `people`, `plan` and `waiting` are left out"
                )),
            }
            Some(serde_json::to_string_pretty(&report)?)
        } else {
            None
        };
        let wrote = wrote::lines(started, &runner.spec().domain, &outcome.calls);
        let exceeded = outcome.stop.primary.reason == StopReason::SharedBudgetExceeded;
        let taken = if exceeded { budget_lines(runner).await } else { Vec::new() };
        let claims = loop_claims::of_outcome(&outcome, runner.spec(), started);
        let trace = trace_line(started);
        let printed = spawn_blocking(move || {
            match (report, &words) {
                (Some(report), _) => stream::print_json(&format!("{report}\n")),
                (None, Some(words)) if prints => stream::print(words),
                (None, Some(words)) => words.lines().for_each(stream::note),
                (None, None) if prints => print_result(&outcome, &claims),
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

/// The line with the trace of the run's spans, if they are sent or the caller has a trace.
fn trace_line(started: &Started) -> Option<String> {
    let is_known = telemetry::traces() || started.item.traceparent.is_some();
    is_known.then(|| format!("trace:   {}", started.trace().trace))
}

/// Whether a person at this terminal can be asked.
fn is_answered_here() -> bool {
    std::io::stdin().is_terminal() && stream::is_watched()
}

/// Prints on standard error that a run waits, and its cost so far.
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

/// The most bytes of a person's answer.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

impl FoundRun {
    /// Applies these events to the run and continues it, or leaves it after that.
    pub(crate) async fn go_on(self, stated: Vec<EventKind>, go_on: &GoOnArgs) -> Result<ExitCode, Failure> {
        self.check_driver()?;
        match self.root().await? {
            None => self.go_on_with(stated, BTreeMap::new(), go_on).await,
            // Its caller continues it, within its lease.
            Some(root) => {
                // It is journaled before anything else is needed, unless the run would end by it.
                let is_noted = !stated.is_empty()
                    && note_alone(self.journal.as_ref(), self.id(), stated.clone()).await?.is_some();
                if is_noted && go_on.no_wait {
                    let (root, at) = (root.id(), go_on.again.at());
                    stream::note(format!("recorded; `loopgate resume {root}{at}` continues the run"));
                    return Ok(ExitCode::SUCCESS);
                }
                let said =
                    if is_noted { BTreeMap::new() } else { BTreeMap::from([(self.id().clone(), stated)]) };
                root.go_on_with(Vec::new(), said, go_on).await
            }
        }
    }

    /// [`go_on`](Self::go_on) with events for runs that it called.
    async fn go_on_with(
        self,
        stated: Vec<EventKind>,
        below: BTreeMap<RunId, Vec<EventKind>>,
        go_on: &GoOnArgs,
    ) -> Result<ExitCode, Failure> {
        let (id, at) = (self.id().clone(), go_on.again.at());
        if go_on.no_wait {
            self.note(stated, &go_on.again).await?;
            stream::note(format!("recorded; `loopgate resume {id}{at}` continues the run"));
            return Ok(ExitCode::SUCCESS);
        }
        let (domain, runner) = match self.runner(&go_on.again).await {
            Ok(both) => both,
            Err(failure) if stated.is_empty() => return Err(failure),
            // Who answers need not have what a driver needs.
            Err(failure) => {
                self.note(stated, &go_on.again).await?;
                stream::note(format!(
                    "recorded, and not continued here: {}; `loopgate resume {id}{at}` continues the run",
                    failure.line()
                ));
                return Ok(ExitCode::from(StopClass::NeedsHuman.exit_code()));
            }
        };
        let explained = |error: StartError| explained(error, domain.folder());
        let signals = Signals::new()?;
        let runner = runner.having_said(below);
        let handle = runner.resume_with(&id, stated).start().await.map_err(explained)?;
        let driving = DrivenRun {
            runner: &runner,
            journal: Arc::clone(&self.journal),
            at: go_on.again.journal.journal.clone(),
            shows: (Live::of(self.run), None),
            json: go_on.json.detail(),
            prints: true,
            signals,
        };
        let (code, mut signals) = driving.drive(handle).await?;
        signals.unless_received(async {}).await;
        Ok(code)
    }

    /// Journals these events without a driver, so that neither secrets nor the domain are needed.
    async fn note(&self, stated: Vec<EventKind>, again: &AgainArgs) -> Result<(), Failure> {
        let id = self.id();
        let loaded = match self.load(again.folder.domain.as_deref(), &again.settings()) {
            Ok(loaded) => loaded,
            Err(failure) => {
                return match note_alone(self.journal.as_ref(), id, stated).await? {
                    Some(_) => Ok(()),
                    // The hooks of its domain report the end.
                    None => Err(failure),
                };
            }
        };
        let runner = self.put_together(&loaded);
        runner.note_down(id, stated).await.map_err(|error| explained(error, loaded.domain.folder()))?;
        Ok(())
    }
}
