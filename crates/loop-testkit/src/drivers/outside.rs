//! Simulates everything outside of a run, in virtual time: models, tools, people and the clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::reply::Section;
use loop_core::run::{CallModel, Check, CheckResult, CheckWhat, Lack, PersonAnswer, RunTool};
use loop_core::types::{
    CommandKey, FailureKind, Millis, ModelFailure, Observation, Receipt, Status, SubCallUse, Usage,
};
use loop_core::{Command, Event, EventKind, Run};

use super::case::{DriverCase, ModelEnd, ModelPlay, ToolEnd, ToolPlay, prompt_digest};
use super::{MESSAGE, RULE, TOOLS};
use crate::{DraftReply, NONCE, PROMPT, announced, found, saved_at};

/// The simulated outside of a run. Its clock only moves in [`wait`](Self::wait), so that nothing takes real time.
#[derive(Debug)]
pub struct Outside<'a> {
    case: &'a DriverCase,
    now: Millis,
    in_flight: BTreeMap<(CommandKey, u32), PendingEnd>,
    /// How many tasks were begun.
    begun: u64,
    model_calls: usize,
    tool_calls: BTreeMap<String, usize>,
    validations: usize,
    answers: Vec<(&'static str, PersonAnswer)>,
    said: Option<(Millis, EventKind)>,
    may_die: bool,
    is_dead: bool,
}

/// How a task in flight ends. Tasks that end at the same instant end in the order in which they began.
#[derive(Debug)]
struct PendingEnd {
    at: Millis,
    nth: u64,
    kind: EventKind,
}

impl<'a> Outside<'a> {
    pub(super) fn new(case: &'a DriverCase) -> Self {
        Self {
            case,
            now: Millis(0),
            in_flight: BTreeMap::new(),
            begun: 0,
            model_calls: 0,
            tool_calls: BTreeMap::new(),
            validations: 0,
            answers: case.answers.clone(),
            said: None,
            may_die: case.dies.is_some(),
            is_dead: false,
        }
    }

    /// An event that needs no wait: the announcement of a call, an answer that a person has given already, a save into
    /// memory. `None`: there is none.
    pub fn at_once(&mut self, run: &Run) -> Option<Event> {
        let kind = run.commands().iter().find_map(|command| match command {
            Command::CallModel(call) if call.granted.is_none() => {
                Some(announced(run, call, PROMPT, prompt_digest()))
            }
            Command::RunTool(tool) if !tool.announced => {
                Some(EventKind::ToolStarted { key: tool.key, attempt: tool.attempt })
            }
            Command::Check(check) if !check.announced => {
                Some(EventKind::CheckStarted { key: check.key, attempt: check.attempt })
            }
            Command::AskPerson { key, .. } => self.answer(*key),
            Command::Save { attempt } => {
                Some(EventKind::SaveFinished { attempt: *attempt, result: saved_at("memory") })
            }
            _ => None,
        })?;
        Some(Event { at: self.now, kind })
    }

    fn answer(&mut self, key: CommandKey) -> Option<EventKind> {
        let at = self.answers.iter().position(|(of, _)| key.to_string() == *of)?;
        let (_, answer) = self.answers.remove(at);
        Some(EventKind::PersonAnswered { key, answer, binding: None })
    }

    /// Begins a commanded task. A task that has begun already, by key and attempt, is left alone.
    pub fn begin(&mut self, run: &Run, command: &Command) {
        let work = match command {
            Command::CallModel(call) => (call.key, call.attempt),
            Command::RunTool(tool) => (tool.key, tool.attempt),
            Command::Check(check) => (check.key, check.attempt),
            Command::AskPerson { .. } | Command::Abort { .. } | Command::Save { .. } => return,
        };
        if self.in_flight.contains_key(&work) {
            return;
        }
        let (at, kind) = match command {
            Command::CallModel(call) => self.model(run, call),
            Command::RunTool(tool) => self.tool(tool),
            Command::Check(check) => self.check(run, check),
            Command::AskPerson { .. } | Command::Abort { .. } | Command::Save { .. } => return,
        };
        self.begun += 1;
        self.in_flight.insert(work, PendingEnd { at, nth: self.begun, kind });
    }

    fn model(&mut self, run: &Run, call: &CallModel) -> (Millis, EventKind) {
        let (key, attempt) = (call.key, call.attempt);
        self.model_calls += 1;
        let Some(play) = self.case.models.get(self.model_calls - 1) else {
            panic!("{}: no reply is left for {key}", self.case.name)
        };
        let at = self.now.plus(play.after_ms);
        let latest = self.now.plus(call.timeout_ms);
        let failed = |at: Millis, kind, retry_ms: Option<u64>, usage| {
            let failure = ModelFailure {
                refused: None,
                kind,
                message: MESSAGE.into(),
                retryable: retry_ms.is_some(),
                retry_at: retry_ms.map(|ms| at.plus(ms)),
                partial: None,
                served_model: None,
                usage,
                received: Receipt::default(),
            };
            (at, failure)
        };
        let (at, failure) = match &play.end {
            ModelEnd::Hangs => failed(latest, FailureKind::Timeout, Some(500 << (attempt - 1)), None),
            _ if at > latest => failed(latest, FailureKind::Timeout, Some(500 << (attempt - 1)), None),
            ModelEnd::Fails { kind, retry_ms } => failed(at, *kind, *retry_ms, Some(Usage::default())),
            ModelEnd::BreaksOff(draft) => {
                let broken = FailureKind::StreamInterrupted;
                let (at, failure) = failed(at, broken, Some(500), draft.usage);
                (at, ModelFailure { partial: Some(written(draft, run).into()), ..failure })
            }
            ModelEnd::Replies(draft) => {
                let reply = loop_core::reply::Reply { text: written(draft, run).into(), ..draft.reply() };
                return (at, EventKind::ModelReplied { key, attempt, reply: reply.into() });
            }
        };
        (at, EventKind::ModelFailed { key, attempt, failure: failure.into() })
    }

    /// The result of a check: as the case says for a validator, and as the model replies for a second opinion.
    fn check(&mut self, run: &Run, check: &Check) -> (Millis, EventKind) {
        let (key, attempt) = (check.key, check.attempt);
        let (after_ms, result, used) = match &check.what {
            CheckWhat::Output(_) => {
                self.validations += 1;
                let says = self.case.validation(self.validations - 1);
                let failed = |message| CheckResult::Failed { lacks: vec![Lack::own(RULE, message)] };
                (1, says.map_or(CheckResult::Passed, failed), None)
            }
            CheckWhat::Document { .. } => {
                self.model_calls += 1;
                let play = self.case.models.get(self.model_calls - 1);
                let Some(ModelPlay { after_ms, end: ModelEnd::Replies(draft) }) = play else {
                    panic!("{}: no second opinion is left for {key}", self.case.name)
                };
                let result = match written(draft, run).ends_with("yes") {
                    true => CheckResult::Passed,
                    false => CheckResult::Failed {
                        lacks: run.document().sections.iter().map(unconfirmed).collect(),
                    },
                };
                (*after_ms, result, Some(SubCallUse::new(true, draft.usage).into()))
            }
        };
        (self.now.plus(after_ms), EventKind::Checked { key, attempt, result, used })
    }

    fn tool(&mut self, tool: &RunTool) -> (Millis, EventKind) {
        let target = target_of(tool);
        let nth = self.tool_calls.entry(target.clone()).or_default();
        let ToolPlay { after_ms, end } = self.case.tool_play(&target, *nth);
        *nth += 1;
        if let Some(said) = self.case.said.as_ref().filter(|said| said.during == target) {
            self.said = Some((self.now.plus(said.after_ms), said.kind.clone()));
        }
        if self.may_die && self.case.dies == Some(&*target) {
            (self.may_die, self.is_dead) = (false, true);
        }
        let failed = |status, message| Observation::failed(status, &tool.tool, message);
        let (after_ms, observation) = match end {
            ToolEnd::Hangs => (tool.timeout_ms, failed(Status::Timeout, MESSAGE)),
            _ if after_ms > tool.timeout_ms => (tool.timeout_ms, failed(Status::Timeout, MESSAGE)),
            ToolEnd::Finds(text) => (after_ms, found(text)),
            ToolEnd::FailsForNow => (after_ms, failed(Status::RetryableError, MESSAGE)),
            ToolEnd::Fails => (after_ms, failed(Status::PermanentError, MESSAGE)),
            ToolEnd::InDoubt => (after_ms, failed(Status::InDoubt, MESSAGE)),
            ToolEnd::Pending(again_ms) => {
                let pending = failed(Status::Pending, MESSAGE);
                (after_ms, Observation { retry_after_ms: Some(again_ms), ..pending })
            }
        };
        let (key, attempt) = (tool.key, tool.attempt);
        (self.now.plus(after_ms), EventKind::ToolFinished { key, attempt, observation: observation.into() })
    }

    /// Waits for the next event: a task ends, a message arrives, or the run's deadline passes. Tasks that are no longer
    /// commanded are cancelled and end at once. `None`: the driver stops here, and the tasks in flight are lost.
    pub fn wait(&mut self, run: &Run) -> Option<Event> {
        if std::mem::take(&mut self.is_dead) {
            self.in_flight.clear();
            return None;
        }
        self.cancel_what_is_not_commanded(run);
        let ending = self.in_flight.iter().min_by_key(|(_, ending)| (ending.at, ending.nth));
        let ending = ending.map(|(work, ending)| (*work, ending.at));
        let deadline = run.deadline();
        let said = self.said.as_ref().map(|(at, _)| *at);
        let first = ending.map(|(_, at)| at).into_iter().chain(deadline).chain(said).min();
        let first = first.unwrap_or_else(|| panic!("{}: nothing happens any more", self.case.name));
        self.now = self.now.max(first);
        let kind = if said == Some(first) {
            self.said.take().map(|(_, kind)| kind)
        } else {
            let ended = ending.filter(|(_, at)| *at == first);
            ended.and_then(|(work, _)| self.in_flight.remove(&work)).map(|ending| ending.kind)
        };
        Some(Event { at: self.now, kind: kind.unwrap_or(EventKind::DeadlineReached) })
    }

    fn cancel_what_is_not_commanded(&mut self, run: &Run) {
        let commands = run.commands();
        let is_commanded = |work: &(CommandKey, u32)| {
            commands.iter().any(|command| match command {
                Command::CallModel(call) => (call.key, call.attempt) == *work,
                Command::RunTool(tool) => (tool.key, tool.attempt) == *work,
                Command::Check(check) => (check.key, check.attempt) == *work,
                Command::AskPerson { .. } | Command::Abort { .. } | Command::Save { .. } => false,
            })
        };
        let now = self.now;
        for (work, ending) in self.in_flight.iter_mut().filter(|(work, _)| !is_commanded(work)) {
            ending.at = now;
            let (key, attempt) = *work;
            ending.kind = match &ending.kind {
                EventKind::ToolFinished { .. } => {
                    let observation = Observation::failed(Status::Cancelled, TOOLS[0].0, MESSAGE);
                    EventKind::ToolFinished { key, attempt, observation: observation.into() }
                }
                EventKind::Checked { .. } => {
                    let (by, message) = (RULE.into(), MESSAGE.into());
                    let result = CheckResult::Broken { by, message };
                    EventKind::Checked { key, attempt, result, used: None }
                }
                _ => {
                    let failure = ModelFailure {
                        refused: None,
                        kind: FailureKind::Cancelled,
                        message: MESSAGE.into(),
                        retryable: false,
                        retry_at: None,
                        partial: None,
                        served_model: None,
                        usage: None,
                        received: Receipt::default(),
                    };
                    EventKind::ModelFailed { key, attempt, failure: failure.into() }
                }
            };
        }
    }
}

/// The text of a reply with the run's nonce.
fn written(draft: &DraftReply, run: &Run) -> String {
    draft.whole_text().replace(NONCE, &run.started().nonce)
}

/// The target of a tool call.
fn target_of(tool: &RunTool) -> String {
    let parameters: serde_json::Value = serde_json::from_str(tool.parameters.text()).unwrap_or_default();
    parameters.get("target").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// The result of a second opinion that does not confirm a section.
fn unconfirmed(section: &Section) -> Lack {
    let (section, sentence) = (Arc::clone(&section.id), section.body.trim().into());
    Lack { section, sentence, ..Lack::own("second_opinion", "it says no") }
}
