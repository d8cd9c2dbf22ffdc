//! One run of a study: what is commanded takes its time, and the earliest thing happens next.

use std::collections::BTreeMap;

use loop_core::invariants::{Checker, Transition, Violation};
use loop_core::{
    CallModel, Command, CommandKey, Event, EventKind, FailureKind, Millis, Observation, PersonAnswer,
    PromptSize, Run, RunTool, SaveResult, Slot, Status, SubCallUse, Usage, Validation,
};
use loop_prompts::{Dialogue, Prompts, Thread};

use super::assumptions::{Assumptions, Of};
use super::model::{Draw, failed, filler};
use crate::sim::{Choices, Fault, SimWorld};

/// What a run of a study came to.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Studied {
    pub(in crate::sim) run: Run,
    /// How often people were asked.
    pub(in crate::sim) asked: u64,
}

/// Something that will happen, unless the run does not wait for it any more.
type Due = BTreeMap<(CommandKey, u32), (u64, EventKind)>;

/// A provider, as far as runs share it.
pub(in crate::sim) trait Provider {
    /// What happens to a call of so many tokens that is ready to be sent at this instant of the run's clock, and that may
    /// wait for so many milliseconds.
    fn send(&mut self, at: Millis, tokens: u64, may_wait_ms: u64) -> Sent;
}

/// What a provider does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Sent {
    /// It is taken after this wait, and takes so many times as long as another.
    After { wait_ms: u64, times: u64 },
    /// It would have to wait for so long, and is given up.
    Refused { wait_ms: u64 },
}

/// A provider that takes every call at once.
pub(super) struct Unlimited;

impl Provider for Unlimited {
    fn send(&mut self, _: Millis, _: u64, _: u64) -> Sent {
        Sent::After { wait_ms: 0, times: 1 }
    }
}

/// What happens next in a run.
#[derive(Clone, Debug)]
pub(in crate::sim) enum Next {
    /// This, at once.
    Now(EventKind),
    /// What is [due](One::due) at this instant of the run's clock.
    At(Millis),
}

/// One run in its world.
pub(in crate::sim) struct One<'a> {
    run: Run,
    prompts: &'a Prompts,
    draw: Draw<'a>,
    dialogue: Dialogue,
    /// The prompt of the last main call and of the open one: its bytes, and those that the provider has seen.
    prompt: (u64, u64),
    now: u64,
    due: Due,
    asked: u64,
    checker: Checker,
    /// How many events it may still take.
    left: u64,
}

/// Runs a world to its end by the assumptions.
///
/// # Errors
/// The first invariant that does not hold: a bug of the core.
pub(super) fn one(
    world: &SimWorld,
    prompts: &Prompts,
    assumed: &Assumptions,
    seed: u64,
) -> Result<Studied, Fault> {
    let mut one = One::begin(world, prompts, assumed, seed)?;
    while !one.run.is_done() {
        let kind = match one.next(&mut Unlimited) {
            Next::Now(kind) => kind,
            Next::At(at) => {
                one.wait_until(at);
                one.due()
            }
        };
        one.apply(kind)?;
    }
    Ok(one.studied())
}

impl<'a> One<'a> {
    /// A run of this world, at the beginning of its clock.
    ///
    /// # Errors
    /// As for [`Self::apply`].
    pub(in crate::sim) fn begin(
        world: &SimWorld,
        prompts: &'a Prompts,
        assumed: &'a Assumptions,
        seed: u64,
    ) -> Result<Self, Fault> {
        let draw = Draw { choices: Choices::of_seed(seed), assumed };
        let (run, _, notes) = world.start();
        let (checker, found) = Checker::start(&run, &notes);
        sound(&found)?;
        let left = loop_core::invariants::bound(&world.spec);
        let (dialogue, due) = (Dialogue::default(), Due::new());
        Ok(Self { run, prompts, draw, dialogue, prompt: (0, 0), now: 0, due, asked: 0, checker, left })
    }

    pub(in crate::sim) fn run(&self) -> &Run {
        &self.run
    }

    pub(in crate::sim) fn studied(self) -> Studied {
        Studied { run: self.run, asked: self.asked }
    }

    /// The run's clock continues to this instant.
    pub(in crate::sim) fn wait_until(&mut self, at: Millis) {
        self.now = self.now.max(at.0);
    }

    /// Its process has ended: nothing comes of what was under way, except for what people say.
    pub(in crate::sim) fn lose_process(&mut self) {
        self.due.retain(|_, (_, kind)| matches!(kind, EventKind::PersonAnswered { .. }));
    }

    /// Another process continues the run, which had none for so long.
    ///
    /// # Errors
    /// As for [`Self::apply`].
    pub(in crate::sim) fn resume(&mut self, away_ms: u64) -> Result<(), Fault> {
        // How often a process ends is not bounded by the spec.
        self.left += 1;
        self.apply(EventKind::Resumed { away_ms, by: None })
    }

    /// Tells the run what happened, now.
    ///
    /// # Errors
    /// The first invariant that does not hold: a bug of the core.
    pub(in crate::sim) fn apply(&mut self, kind: EventKind) -> Result<(), Fault> {
        self.left = self.left.checked_sub(1).ok_or_else(|| Fault {
            check: "a run ends within its bound of events",
            what: "it takes more events".to_owned(),
        })?;
        let event = Event { at: Millis(self.now), kind };
        let before = self.run.clone();
        let notes = self.run.apply(&event).map_err(|why| Fault {
            check: "what is commanded is accepted",
            what: format!("{}: {why}", event.kind.name()),
        })?;
        let transition = Transition { before: &before, event: &event, notes: &notes, after: &self.run };
        sound(&self.checker.step(&transition))
    }

    /// What happens next: an announcement at once, else what is due first, else the run's deadline. What is commanded is
    /// begun.
    pub(in crate::sim) fn next(&mut self, provider: &mut dyn Provider) -> Next {
        let commands = self.run.commands();
        self.due.retain(|key, _| commands.iter().any(|command| of(command) == Some(*key)));
        for command in &commands {
            let key = of(command);
            if let Some(kind) = self.announcement(command) {
                return Next::Now(kind);
            }
            if let Some(key) = key.filter(|key| !self.due.contains_key(key)) {
                let due = self.outcome(command, provider);
                self.due.insert(key, due);
            }
        }
        let first = self.due.values().map(|(at, _)| *at).min();
        let deadline = self.run.deadline().map(|deadline| deadline.0);
        Next::At(Millis(first.into_iter().chain(deadline).min().unwrap_or_default().max(self.now)))
    }

    /// What is due now: what ends first, unless the run's deadline is before it.
    pub(in crate::sim) fn due(&mut self) -> EventKind {
        let is_over = self.run.deadline().is_some_and(|deadline| deadline.0 <= self.now);
        let first = self.due.iter().filter(|(_, (at, _))| *at <= self.now).min_by_key(|(_, (at, _))| *at);
        match first.map(|(key, _)| *key).filter(|_| !is_over) {
            Some(key) => self.due.remove(&key).map_or(EventKind::DeadlineReached, |(_, kind)| kind),
            None => EventKind::DeadlineReached,
        }
    }

    /// The announcement of a call or of a write, which takes no time.
    fn announcement(&mut self, command: &Command) -> Option<EventKind> {
        match command {
            Command::CallModel(CallModel { key, attempt, granted: None, .. }) => {
                let prompt = self.size(*key);
                self.prompt = (prompt.bytes, prompt.shared_bytes);
                let (prompt_hash, quoted) = (self.run.started().prompts, self.run.quote(key, prompt));
                Some(EventKind::announced(*key, *attempt, prompt, prompt_hash, quoted))
            }
            Command::RunTool(RunTool { key, attempt, announced: false, .. }) => {
                Some(EventKind::ToolStarted { key: *key, attempt: *attempt })
            }
            _ => None,
        }
    }

    /// The size of the prompt that the domain's templates render.
    fn size(&mut self, key: CommandKey) -> PromptSize {
        let run = &self.run;
        if !run.spec().protocol.properties().native_calls {
            let prompt = self.dialogue.prompt(self.prompts, run, key);
            return prompt.map_or_else(PromptSize::default, |prompt| prompt.size);
        }
        let turns: u64 = Thread::whole(self.prompts, run).iter().map(loop_prompts::Turn::bytes).sum();
        let tools = run.spec().tools.iter().map(|tool| {
            let schema = serde_json::to_string(&tool.args).unwrap_or_default();
            (tool.name.len() + tool.description.len() + schema.len()) as u64
        });
        let system = Thread::system(self.prompts, run).len() as u64;
        let bytes = system + tools.sum::<u64>() + turns;
        PromptSize { bytes, shared_bytes: if key.slot == Slot::Main { self.prompt.0.min(bytes) } else { 0 } }
    }

    /// How something in flight ends, and when.
    fn outcome(&mut self, command: &Command, provider: &mut dyn Provider) -> (u64, EventKind) {
        let run = &self.run;
        match command {
            Command::CallModel(call) => self.call(call, provider),
            Command::RunTool(tool) => {
                let took = self.draw.about(Of::ToolMs);
                let at = self.now + took.min(tool.timeout_ms);
                let observation = self.observation(tool, took > tool.timeout_ms).into();
                (at, EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation })
            }
            Command::AskPerson { key, action, .. } => {
                self.asked += 1;
                let is_question = run.spec().tool(&action.tool).is_some_and(|tool| tool.policy.asks_person);
                let answer = match self.draw.happens(Of::Approves) {
                    true if is_question => PersonAnswer::Answered { text: "It is as you say.".into() },
                    true => PersonAnswer::Approved,
                    false => PersonAnswer::Denied { why: "not now".into() },
                };
                let at = match self.draw.happens(Of::Silent) {
                    true => u64::MAX,
                    false => self.now + self.draw.about(Of::PersonMs),
                };
                (at, EventKind::PersonAnswered { key: *key, answer, binding: None })
            }
            Command::Validate(validate) => {
                let result = match self.draw.happens(Of::OutputValid) {
                    true => Validation::Valid,
                    false => Validation::Invalid { by: "simulated".into(), message: "not valid".into() },
                };
                (self.now + 1, EventKind::Validated { key: validate.key, attempt: validate.attempt, result })
            }
            Command::Save { attempt } => {
                let result = SaveResult::Saved { location: "simulated".into() };
                (self.now + 1, EventKind::SaveFinished { attempt: *attempt, result })
            }
            // What is aborted does not settle within its grace.
            Command::Abort { .. } => (u64::MAX, EventKind::DeadlineReached),
        }
    }

    /// How a call to a model ends, and when.
    fn call(&mut self, call: &CallModel, provider: &mut dyn Provider) -> (u64, EventKind) {
        let (key, attempt) = (call.key, call.attempt);
        let took = self.draw.about(Of::ModelMs);
        let a_token = u64::from(self.draw.assumed.get(Of::BytesAToken).max(1));
        let tokens = self.prompt.0 / a_token + u64::from(self.draw.assumed.get(Of::OutputTokens));
        let failed_at = |at, kind, retry_at| {
            (at, EventKind::ModelFailed { key, attempt, failure: failed(kind, retry_at).into() })
        };
        let took = match provider.send(Millis(self.now), tokens, call.timeout_ms) {
            Sent::After { wait_ms, times } => wait_ms.saturating_add(took.saturating_mul(times)),
            Sent::Refused { wait_ms } => {
                let retry_at = Millis(self.now.saturating_add(wait_ms));
                return failed_at(self.now + 1, FailureKind::RateLimited, Some(retry_at));
            }
        };
        if took > call.timeout_ms {
            return failed_at(self.now + call.timeout_ms, FailureKind::Timeout, None);
        }
        let at = self.now + took;
        let kind = match self.draw.settle(&self.run, call, self.prompt, at) {
            Ok(reply) => EventKind::ModelReplied { key, attempt, reply: reply.into() },
            Err(failure) => EventKind::ModelFailed { key, attempt, failure },
        };
        (at, kind)
    }

    fn observation(&mut self, tool: &RunTool, is_late: bool) -> Observation {
        let mut observation = if is_late {
            Observation::failed(Status::Timeout, &tool.tool, "it did not end in time")
        } else if self.draw.happens(Of::ToolFails) {
            Observation::failed(Status::RetryableError, &tool.tool, "it did not answer")
        } else if self.draw.happens(Of::ToolEmpty) {
            Observation::failed(Status::Empty, &tool.tool, "No data found")
        } else {
            let most = u64::from(self.run.spec().limits.markdown_chars);
            let text = format!(
                "{} {} {}",
                tool.key,
                tool.attempt,
                filler(self.draw.about(Of::ResultBytes).min(most))
            );
            Observation::new(Status::Ok, "found", &*text, serde_json::json!({ "text": text }))
        };
        if let Some(granted) = tool.sub_call {
            let a_token = u64::from(self.draw.assumed.get(Of::BytesAToken).max(1));
            let input = granted.bytes.min(self.draw.about(Of::ResultBytes)) / a_token;
            let output = u64::from(self.draw.assumed.get(Of::SubCallTokens)).min(granted.output_tokens);
            observation.sub_call =
                Some(SubCallUse::new(true, Some(Usage { input, output, ..Usage::default() })).into());
        }
        observation
    }
}

/// The first violation as a fault.
fn sound(found: &[Violation]) -> Result<(), Fault> {
    match found.first() {
        Some(violation) => Err(Fault { check: violation.name, what: violation.to_string() }),
        None => Ok(()),
    }
}

/// What a command waits for: its key and try.
fn of(command: &Command) -> Option<(CommandKey, u32)> {
    match command {
        Command::CallModel(CallModel { granted: None, .. })
        | Command::RunTool(RunTool { announced: false, .. }) => None,
        Command::CallModel(call) => Some((call.key, call.attempt)),
        Command::RunTool(tool) => Some((tool.key, tool.attempt)),
        Command::AskPerson { key, .. } => Some((*key, 0)),
        Command::Validate(validate) => Some((validate.key, validate.attempt)),
        Command::Abort { key, attempt } => Some((*key, *attempt)),
        Command::Save { attempt } => Some((CommandKey::new(0, Slot::Save), *attempt)),
    }
}
