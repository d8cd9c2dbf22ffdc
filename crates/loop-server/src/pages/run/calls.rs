//! The calls of a run with their times: when each was due, when it began, and when it ended.

use std::collections::BTreeMap;

use loop_core::run::{CheckResult, PersonAnswer, SaveResult};
use loop_core::types::{CommandKey, Millis, Slot};
use loop_core::{Command, EventKind, Note, Run, Verdict};

use super::AppliedEntry;

/// The kind of the callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    Model,
    Tool,
    Person,
    Check,
}

impl Callee {
    /// Its name in the chart and in CSS.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Person => "person",
            Self::Check => "check",
        }
    }
}

/// An attempt of a call.
#[derive(Debug)]
pub(super) struct CallLine {
    pub(super) key: CommandKey,
    pub(super) attempt: u32,
    pub(super) callee: Callee,
    /// The tool or the tier.
    pub(super) name: String,
    /// The event since which it was due. `None`: it began when it was due.
    pub(super) due: Option<EventPoint>,
    /// Why it waited until it began. Empty: it did not wait.
    pub(super) waited: &'static str,
    pub(super) began: EventPoint,
    pub(super) end: Option<End>,
}

/// An event and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventPoint {
    pub(super) at: u64,
    pub(super) ms: Millis,
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) point: EventPoint,
    pub(super) result: String,
    pub(super) is_good: bool,
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) lines: Vec<CallLine>,
    /// The lines of the calls that have not ended.
    open: BTreeMap<(CommandKey, u32), usize>,
    /// Since when an action is admitted, or the next attempt of a call is due, and why it waits.
    due: BTreeMap<CommandKey, (EventPoint, &'static str)>,
    /// The time of each event.
    pub(super) times: Vec<Millis>,
}

impl Calls {
    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        let now = EventPoint { at: seen.at, ms: seen.event.at };
        self.times.push(now.ms);
        match &seen.event.kind {
            EventKind::CallStarted { key, attempt, tier, .. } => {
                self.begin(
                    (*key, *attempt),
                    Callee::Model,
                    format!("{} ({})", slot(key.slot), tier.name()),
                    now,
                );
            }
            EventKind::CallRefused { key, attempt, refusal, .. } => {
                self.begin((*key, *attempt), Callee::Model, slot(key.slot).to_owned(), now);
                self.finish(
                    (*key, *attempt),
                    now,
                    format!("refused: {}", refusal.name().replace('_', " ")),
                    false,
                );
            }
            EventKind::ModelReplied { key, attempt, .. } => {
                self.finish((*key, *attempt), now, "replied".to_owned(), true);
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                self.finish((*key, *attempt), now, format!("failed: {}", failure.message), false);
            }
            EventKind::EagerStarted { key, attempt, name, .. } => {
                self.begin((*key, *attempt), Callee::Tool, format!("{name} (early)"), now);
            }
            EventKind::ToolStarted { key, attempt } => {
                let name = self.tool_name(seen.run, *key);
                self.begin((*key, *attempt), Callee::Tool, name, now);
            }
            EventKind::ToolFinished { key, attempt, observation } => {
                if !self.open.contains_key(&(*key, *attempt)) {
                    let name = self.tool_name(seen.run, *key);
                    self.begin((*key, *attempt), Callee::Tool, name, now);
                }
                let status = observation.status;
                let is_good = status.is_citable() || status == loop_core::types::Status::Pending;
                self.finish((*key, *attempt), now, status.name().replace('_', " "), is_good);
            }
            EventKind::PersonAnswered { key, answer, .. } => {
                let (result, is_good) = match answer {
                    PersonAnswer::Approved => ("approved", true),
                    PersonAnswer::Denied { .. } => ("denied", false),
                    PersonAnswer::Answered { .. } => ("answered", true),
                };
                self.finish((*key, 0), now, result.to_owned(), is_good);
            }
            EventKind::ApprovedBy { key, .. } => {
                if !seen.run.requested().iter().any(|requested| requested.key == *key) {
                    self.finish((*key, 0), now, "approved".to_owned(), true);
                }
            }
            EventKind::Checked { key, attempt, result, .. } => {
                let has_passed = *result == CheckResult::Passed;
                self.finish((*key, *attempt), now, result.name().to_owned(), has_passed);
            }
            EventKind::SaveFinished { attempt, result } => {
                let key = CommandKey::new(seen.run.pass(), Slot::Save);
                let key =
                    self.open.keys().find(|(key, _)| key.slot == Slot::Save).map_or(key, |(key, _)| *key);
                let is_good = matches!(result, SaveResult::Saved { .. });
                let word = if is_good { "saved" } else { "not saved" };
                self.finish((key, *attempt), now, word.to_owned(), is_good);
            }
            EventKind::RunWaits { key, attempt, .. } => {
                self.finish((*key, *attempt), now, "waits for a person".to_owned(), true);
            }
            EventKind::Started(_)
            | EventKind::CheckStarted { .. }
            | EventKind::Instruction { .. }
            | EventKind::StopRequested { .. }
            | EventKind::StopWithdrawn
            | EventKind::DeadlineReached
            | EventKind::Resumed { .. } => {}
        }
        for note in &seen.entry.notes {
            self.note(note, now);
        }
        if matches!(seen.event.kind, EventKind::DeadlineReached | EventKind::StopRequested { .. }) {
            self.unasked(seen.run, now);
        }
        self.commanded(seen.run, now);
    }

    /// Closes requests to people that ended without an answer.
    fn unasked(&mut self, run: &Run, now: EventPoint) {
        let asked: Vec<CommandKey> = run.requested().iter().map(|requested| requested.key).collect();
        let over: Vec<CommandKey> =
            self.open.keys().filter(|(_, attempt)| *attempt == 0).map(|(key, _)| *key).collect();
        for key in over.into_iter().filter(|key| !asked.contains(key)) {
            self.finish((key, 0), now, "no answer".to_owned(), false);
        }
    }

    fn note(&mut self, note: &Note, now: EventPoint) {
        match note {
            Note::ActionJudged(action) if action.verdict == Verdict::Run => {
                _ = self.due.insert(action.key, (now, "other calls came first"));
            }
            Note::CallRetried { key, not_before: Some(_), .. } => {
                _ = self.due.insert(*key, (now, "pause before the next try"));
            }
            Note::Polled { key, .. } => _ = self.due.insert(*key, (now, "not ready, asked again later")),
            Note::Lost { key, attempt } => {
                self.finish((*key, *attempt), now, "lost with its program".to_owned(), false);
            }
            _ => {}
        }
    }

    /// Adds reads and requests to people: they have no announcement, and begin when the run commands them.
    fn commanded(&mut self, run: &Run, now: EventPoint) {
        for command in run.commands() {
            match command {
                Command::RunTool(tool) if tool.announced => {
                    let name = tool.tool.to_string();
                    self.begin((tool.key, tool.attempt), Callee::Tool, name, now);
                }
                Command::AskPerson { key, action, .. } => {
                    self.begin((key, 0), Callee::Person, format!("asked about {}", action.tool), now);
                }
                Command::Check(check) if check.announced => {
                    self.begin((check.key, check.attempt), Callee::Check, "check".to_owned(), now);
                }
                Command::Save { attempt } => {
                    let key = CommandKey::new(run.pass(), Slot::Save);
                    self.begin((key, attempt), Callee::Check, "save".to_owned(), now);
                }
                Command::CallModel(_) | Command::RunTool(_) | Command::Check(_) | Command::Abort { .. } => {}
            }
        }
    }

    fn begin(&mut self, id: (CommandKey, u32), callee: Callee, name: String, now: EventPoint) {
        if self.open.contains_key(&id) {
            return;
        }
        let (key, attempt) = id;
        let due = if callee == Callee::Person { None } else { self.due.remove(&key) };
        let due = due.filter(|(due, _)| due.ms < now.ms);
        self.open.insert(id, self.lines.len());
        self.lines.push(CallLine {
            key,
            attempt,
            callee,
            name,
            due: due.map(|(due, _)| due),
            waited: due.map_or("", |(_, why)| why),
            began: now,
            end: None,
        });
    }

    fn finish(&mut self, id: (CommandKey, u32), point: EventPoint, result: String, is_good: bool) {
        let line = self.open.remove(&id).and_then(|at| self.lines.get_mut(at));
        if let Some(line) = line {
            line.end = Some(End { point, result, is_good });
        }
    }

    fn tool_name(&self, run: &Run, key: CommandKey) -> String {
        let action = run.actions().iter().rev().find(|action| action.key == key);
        action.map_or_else(|| key.to_string(), |action| action.tool_name().to_owned())
    }

    /// Marks the calls that are still open after the last event: a request to a person that expired, or a call that was
    /// given up.
    pub(super) fn end(&mut self, run: &Run) {
        let Some(ms) = self.times.last().copied() else { return };
        if !run.is_done() {
            return;
        }
        let point = EventPoint { at: self.times.len().saturating_sub(1) as u64, ms };
        for (_, at) in std::mem::take(&mut self.open) {
            if let Some(line) = self.lines.get_mut(at) {
                line.end = Some(End { point, result: "given up".to_owned(), is_good: false });
            }
        }
    }
}

/// The purpose of a model call.
fn slot(slot: Slot) -> &'static str {
    match slot {
        Slot::Select => "selection",
        Slot::Main => "main call",
        Slot::Repair => "repair",
        Slot::Final => "final pass",
        Slot::Action(_) => "sub-call",
        Slot::Check => "check",
        Slot::Save => "save",
        Slot::Inherited(_) => "taken over",
    }
}
