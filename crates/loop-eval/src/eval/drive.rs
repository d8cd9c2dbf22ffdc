//! Drives the run of a case: gives the answers of people, stops it, and resumes it where the case says so.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use loop_core::run::{Decision, PersonAnswer};
use loop_core::types::{CommandKey, Slot};
use loop_core::{Command, Event, EventKind, Note, Outcome, Run, RunSpec};
use loop_runtime::{
    journal::{Entry, Journal, JournalError, Recorded, replay},
    observe::RunEvent,
    run::{Remote, StartError},
};

use crate::case::{AnswerKind, Case, PersonLine};
use crate::eval::build::PreparedCase;

/// The outcome of a driven run.
pub(crate) struct DrivenRun {
    pub(crate) recorded: Recorded,
    pub(crate) outcome: Outcome,
    /// Requests that no answer of the case matches, and steps of the case that never happened.
    pub(crate) undone: Vec<String>,
}

/// Why a run could not be driven to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriveError {
    #[error("the run could not begin: {0}")]
    Start(#[from] StartError),
    #[error("its journal could not be read: {0}")]
    Journal(#[from] JournalError),
    #[error("the run ended without an outcome")]
    NoOutcome,
}

/// Runs a case to its end.
pub(crate) async fn drive(case: &Case, prepared: PreparedCase) -> Result<DrivenRun, DriveError> {
    let PreparedCase { runner, item, journal, .. } = &prepared;
    let mut follower = CaseFollower::new(case, runner.spec());
    let mut stream = runner.run(item.clone()).stream().await?;
    let (run, remote) = (stream.id().clone(), stream.remote());
    follower.follow(&mut stream, &remote).await;
    if follower.is_lost() {
        // What is dropped is gone with everything in flight; the journal has the rest.
        drop(stream);
        let mut handle = runner.resume(&run).start().await?;
        let recorded = journal.read(&run).await?;
        follower.take_up(replay(&run, &recorded).map_err(StartError::from)?);
        let remote = handle.remote();
        if let Some(mut events) = handle.events() {
            follower.follow(&mut events, &remote).await;
        }
        let outcome = handle.wait().await;
        let recorded = journal.read(&run).await?;
        return Ok(DrivenRun { recorded, outcome, undone: follower.undone() });
    }
    let outcome = stream.outcome().cloned().ok_or(DriveError::NoOutcome)?;
    let recorded = journal.read(&run).await?;
    Ok(DrivenRun { recorded, outcome, undone: follower.undone() })
}

/// Follows the events of a run, and gives the answers of the case.
struct CaseFollower<'a> {
    case: &'a Case,
    spec: Arc<RunSpec>,
    state: Option<Run>,
    /// Which answers of people were used.
    stated: Vec<bool>,
    /// Questions that were answered.
    requested: Vec<CommandKey>,
    unanswered: Vec<String>,
    is_stopped: bool,
    /// Whether the driver stops here, so that the run is resumed. At most once in a run.
    lost: ProcessLoss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessLoss {
    NotYet,
    Now,
    Before,
}

impl<'a> CaseFollower<'a> {
    fn new(case: &'a Case, spec: &Arc<RunSpec>) -> Self {
        Self {
            case,
            spec: Arc::clone(spec),
            state: None,
            stated: vec![false; case.people.len()],
            requested: Vec::new(),
            unanswered: Vec::new(),
            is_stopped: false,
            lost: ProcessLoss::NotYet,
        }
    }

    fn is_lost(&self) -> bool {
        self.lost == ProcessLoss::Now
    }

    /// The unanswered requests, and the steps that did not happen.
    fn undone(mut self) -> Vec<String> {
        if let Some(stop) = self.case.stop.filter(|_| !self.is_stopped) {
            self.unanswered.push(format!("it was never stopped: pass {} was not begun", stop.during_pass));
        }
        if let Some(pass) = self.case.restart_after_pass.filter(|_| self.lost == ProcessLoss::NotYet) {
            self.unanswered.push(format!("its driver was never lost: it did not go on after pass {pass}"));
        }
        self.unanswered
    }

    fn take_up(&mut self, state: Run) {
        self.state = Some(state);
        self.lost = ProcessLoss::Before;
    }

    async fn follow(&mut self, events: &mut (impl Stream<Item = RunEvent> + Unpin), remote: &Remote) {
        while let Some(event) = events.next().await {
            if let RunEvent::Recorded(entry) = event {
                self.hear(&entry, remote);
                if self.is_lost() {
                    return;
                }
            }
        }
    }

    fn hear(&mut self, entry: &Entry, remote: &Remote) {
        self.apply(&entry.event);
        if let (Some(stop), EventKind::CallStarted { key, .. }) = (self.case.stop, &entry.event.kind)
            && !self.is_stopped
            && key.pass == stop.during_pass
            && matches!(key.slot, Slot::Main | Slot::Final)
        {
            self.is_stopped = true;
            remote.stop(stop.how);
        }
        self.answer(remote);
        let goes_on = |note: &Note| match note {
            Note::GateDecided { pass, decision, .. } => {
                Some(*pass) == self.case.restart_after_pass && !matches!(decision, Decision::Stop(_))
            }
            _ => false,
        };
        if self.lost == ProcessLoss::NotYet && entry.notes.iter().any(goes_on) {
            self.lost = ProcessLoss::Now;
        }
    }

    fn apply(&mut self, event: &Event) {
        match &mut self.state {
            None => self.state = Run::open(event, Arc::clone(&self.spec)).ok().map(|(run, _)| run),
            Some(run) => {
                // What does not follow is found when the journal is verified.
                let _ = run.apply(event);
            }
        }
    }

    /// Answers what the run asks people.
    fn answer(&mut self, remote: &Remote) {
        let Some(run) = &self.state else { return };
        let tool_of = |key: &CommandKey| {
            let judged = run.actions().iter().find(|judged| judged.key == *key);
            judged.map(|judged| judged.tool_name().to_owned()).unwrap_or_default()
        };
        let asks = run.commands().into_iter().filter_map(|command| match command {
            Command::AskPerson { key, .. } => Some((key, tool_of(&key))),
            _ => None,
        });
        let asks: Vec<(CommandKey, String)> = asks.filter(|(key, _)| !self.requested.contains(key)).collect();
        for (key, tool) in asks {
            self.requested.push(key);
            let fits = |(at, line): &(usize, &PersonLine)| {
                !self.stated.get(*at).copied().unwrap_or_default()
                    && line.tool.as_ref().is_none_or(|wanted| *wanted == tool)
            };
            let line = self.case.people.iter().enumerate().find(fits);
            let Some((at, line)) = line else {
                self.unanswered.push(format!(
                    "a person was asked about `{tool}` ({key}), and no line of `people` answers"
                ));
                remote.answer(key, PersonAnswer::Denied { why: "nobody answered".into() });
                continue;
            };
            if let Some(stated) = self.stated.get_mut(at) {
                *stated = true;
            }
            let text: Arc<str> = line.text.as_str().into();
            match line.say {
                AnswerKind::Approve => remote.answer(key, PersonAnswer::Approved),
                AnswerKind::Deny => remote.answer(key, PersonAnswer::Denied { why: text }),
                AnswerKind::Answer => remote.answer(key, PersonAnswer::Answered { text }),
                AnswerKind::Nothing => {}
            }
        }
    }
}
