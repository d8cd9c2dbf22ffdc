//! An alphabet: a small world, and everything that it may tell a run in a given state.

use std::sync::Arc;

use loop_core::policy::Taint;
use loop_core::reply::{FinishReason, Reply};
use loop_core::run::{CheckResult, History, PersonAnswer, Phase, PromptSize, Purpose, SaveResult, StopMode};
use loop_core::types::{CommandKey, Millis, ModelFailure, Observation, Slot, SubCallUse, Usage};
use loop_core::{Command, Event, EventKind, Facts, Run, StopReason};

use crate::approvals;
use crate::edge::{call, is_action, is_working};
use loop_testkit::{Setup, announced, digest, used};

/// What a call says of its tokens.
#[derive(Clone, Copy, Debug)]
pub enum Used {
    /// These, whatever was reserved.
    Fixed(u64, u64),
    /// As many hundredths of its reserve, input and output alike.
    Hundredths(u64),
    /// Nothing: the reserve is charged.
    Unreported,
}

/// A small world.
#[derive(Clone)]
pub struct Alphabet {
    pub name: &'static str,
    pub setup: Setup,
    /// Messages before the run, where there are any.
    pub history: Option<u32>,
    /// What was read in them.
    pub read_before: Taint,
    /// The parameters of tool calls in them, each a JSON text.
    pub requested_before: Vec<&'static str>,
    /// What a person may tell the run, once.
    pub instructions: Vec<&'static str>,
    /// What a main call or a final pass is answered with, by its pass; the last list goes for all that follow.
    pub replies: Vec<Vec<Reply>>,
    pub repairs: Vec<Reply>,
    pub selections: Vec<Reply>,
    pub failures: Vec<ModelFailure>,
    pub usages: Vec<Used>,
    /// Bytes of a prompt, and those of them that it has in common with the last one.
    pub prompts: Vec<(u64, u64)>,
    /// What tools end with, by the place of the action in its reply.
    pub observations: fn(CommandKey) -> Vec<Observation>,
    pub answers: Vec<PersonAnswer>,
    /// What comes of a check.
    pub checks: Vec<CheckResult>,
    /// What the model call of a check used, where one was granted; `None`: none was made.
    pub asked: Vec<Option<SubCallUse>>,
    pub saves: Vec<SaveResult>,
    pub stops: bool,
    /// Milliseconds away of a resumed run.
    pub resumes: Vec<u64>,
    /// Milliseconds that pass before an event; 0 is among them.
    pub steps: Vec<u64>,
    /// Whether a deadline may come while something else could still happen.
    pub deadlines: bool,
    /// Whether no call takes more than its reserve.
    pub honest: bool,
    /// The reasons that its runs must end with, among others.
    pub reaches: &'static [StopReason],
    /// Whether one state of each shape is enough.
    pub by_shape: bool,
}

/// An event that the world may send.
pub struct Edict {
    pub event: Event,
    /// Whether the run has to take it.
    pub must: bool,
}

impl Alphabet {
    pub fn start(&self) -> (Run, Event, Vec<loop_core::Note>) {
        let Setup { spec, item, facts } = self.setup.clone();
        let id = loop_core::types::RunId::new("r1");
        let history = self.history.map(loop_testkit::history).or(facts.history);
        let requested = self.requested_before.iter().map(|parameters| (*parameters).into()).collect();
        let history = history.map(|history| History { taint: self.read_before, requested, ..history });
        Run::start(id, Arc::new(spec), item, Facts { history, ..facts })
    }

    /// Everything that the world may send now.
    pub fn events(&self, run: &Run) -> Vec<Edict> {
        let mut commanded = Vec::new();
        for command in run.commands() {
            self.follow(run, command, &mut commanded);
        }
        let mut requested = Vec::new();
        if self.stops && is_working(run) {
            if run.is_stop_requested() {
                requested.push(EventKind::StopWithdrawn);
            } else {
                requested.push(EventKind::StopRequested { how: StopMode::AtGate });
            }
            requested.push(EventKind::StopRequested { how: StopMode::Now });
        }
        if is_working(run) && run.instructions().is_empty() {
            requested
                .extend(self.instructions.iter().map(|text| EventKind::Instruction { text: (*text).into() }));
        }
        let now = run.now();
        let mut events = Vec::new();
        for step in &self.steps {
            let at = now.plus(*step);
            for kind in commanded.iter().chain(&requested) {
                let event = Event { at, kind: kind.clone() };
                let must = approvals::counts(run, &event) && !is_late_to_tell(run, kind);
                events.push(Edict { event, must });
            }
        }
        for away_ms in self.resumes.iter().filter(|_| !run.is_done()) {
            let kind = EventKind::Resumed { away_ms: *away_ms, by: None };
            events.push(Edict { event: Event { at: now.plus(*away_ms), kind }, must: true });
        }
        if let Some(deadline) = run.deadline() {
            let late = self.steps.iter().max().copied().unwrap_or_default();
            let mut instants = vec![deadline.max(now)];
            if late > 0 {
                instants.push(deadline.max(now).plus(late));
            }
            let instructions =
                |at: Millis| Edict { event: Event { at, kind: EventKind::DeadlineReached }, must: true };
            if self.deadlines || commanded.is_empty() || !is_working(run) {
                events.extend(instants.into_iter().map(instructions));
            }
        }
        events
    }

    fn follow(&self, run: &Run, command: Command, facts: &mut Vec<EventKind>) {
        match command {
            Command::CallModel(call) if call.granted.is_none() => {
                let announce = |(bytes, shared_bytes): &(u64, u64)| {
                    let prompt = PromptSize { bytes: *bytes, shared_bytes: *shared_bytes };
                    announced(run, &call, prompt, digest())
                };
                facts.extend(self.prompts.iter().map(announce));
            }
            Command::CallModel(call) => self.settle(run, call.key, call.attempt, facts),
            Command::RunTool(tool) if !tool.announced => {
                facts.push(EventKind::ToolStarted { key: tool.key, attempt: tool.attempt });
            }
            Command::RunTool(tool) => self.finish(tool.key, tool.attempt, facts),
            Command::AskPerson { key, .. } => {
                // By name alone, or for exactly what was shown.
                for binding in [None, run.binding(&key)] {
                    let answered = |answer: &PersonAnswer| {
                        let answer = answer.clone();
                        EventKind::PersonAnswered { key, answer, binding }
                    };
                    facts.extend(self.answers.iter().map(answered));
                }
            }
            Command::Check(check) if !check.announced => {
                facts.push(EventKind::CheckStarted { key: check.key, attempt: check.attempt });
            }
            Command::Check(check) => self.check(check.key, check.attempt, check.sub_call.is_some(), facts),
            Command::Abort { key, attempt } if key.slot == Slot::Check => {
                self.check(key, attempt, /*asks*/ true, facts);
            }
            Command::Abort { key, attempt } if is_action(key) => self.finish(key, attempt, facts),
            Command::Abort { key, attempt } => self.settle(run, key, attempt, facts),
            Command::Save { attempt } => {
                let saved = |result: &SaveResult| EventKind::SaveFinished { attempt, result: result.clone() };
                facts.extend(self.saves.iter().map(saved));
            }
        }
    }

    fn settle(&self, run: &Run, key: CommandKey, attempt: u32, facts: &mut Vec<EventKind>) {
        let replies = match key.slot {
            Slot::Select => &self.selections,
            Slot::Repair => &self.repairs,
            _ => {
                let last = self.replies.len() - 1;
                &self.replies[last.min(key.pass.saturating_sub(1) as usize)]
            }
        };
        if key.slot == Slot::Main {
            facts.extend(replies.iter().filter_map(|reply| next_read(run, (key, attempt), reply)));
        }
        let reserve = call(run).and_then(|call| call.started).map_or_else(Default::default, |it| it.reserve);
        for usage in &self.usages {
            let usage = match usage {
                Used::Fixed(input, output) => Some(used(*input, *output)),
                Used::Hundredths(n) => {
                    Some(used(reserve.input_tokens * n / 100, reserve.output_tokens * n / 100))
                }
                Used::Unreported => None,
            };
            facts.extend(replies.iter().map(|reply| EventKind::ModelReplied {
                key,
                attempt,
                reply: Reply { usage: settled_usage(reply, usage), ..reply.clone() }.into(),
            }));
        }
        let failed = |failure: &ModelFailure| {
            let mut failure = failure.clone();
            // An instant in the past is no wait: it is moved from the run's own clock.
            failure.retry_at = failure.retry_at.map(|at| run.now().plus(at.0));
            EventKind::ModelFailed { key, attempt, failure: failure.into() }
        };
        facts.extend(self.failures.iter().map(failed));
    }

    fn check(&self, key: CommandKey, attempt: u32, asks: bool, facts: &mut Vec<EventKind>) {
        let none = [None];
        let asked = if asks { &self.asked[..] } else { &none[..] };
        for used in asked {
            facts.extend(self.checks.iter().map(|result| {
                let used = used.clone().map(Box::new);
                EventKind::Checked { key, attempt, result: result.clone(), used }
            }));
        }
    }

    fn finish(&self, key: CommandKey, attempt: u32, facts: &mut Vec<EventKind>) {
        let finished = |observation: Observation| {
            let observation = observation.into();
            EventKind::ToolFinished { key, attempt, observation }
        };
        facts.extend((self.observations)(key).into_iter().map(finished));
    }
}

/// The announcement of the next call of a reply that begins as the reply that is being received, if it may start.
fn next_read(run: &Run, call: (CommandKey, u32), reply: &Reply) -> Option<EventKind> {
    let reads = run.eager_reads();
    let begins_so = reads
        .iter()
        .zip(&reply.calls)
        .all(|(read, call)| read.name == call.name && read.arguments == call.arguments);
    let next = reply.calls.get(reads.len()).filter(|_| begins_so)?;
    run.eager_read(run.now(), call, &next.name, &next.arguments).ok()
}

/// Whether it is told something that only the last call could read, and that one was tried already.
fn is_late_to_tell(run: &Run, kind: &EventKind) -> bool {
    matches!(kind, EventKind::Instruction { .. })
        && matches!(run.phase(), Phase::Calling { purpose: Purpose::Final { .. }, .. })
}

fn settled_usage(reply: &Reply, usage: Option<Usage>) -> Option<Usage> {
    if matches!(reply.finish, FinishReason::Refusal | FinishReason::Filtered) {
        Some(used(1, 1))
    } else {
        usage
    }
}
