//! One run of a study: what is commanded takes its time, and the earliest thing happens next.

use std::collections::BTreeMap;

use loop_core::invariants::{Checker, Transition};
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
pub(super) struct Studied {
    pub(super) run: Run,
    /// How often people were asked.
    pub(super) asked: u64,
}

/// Something that will happen, unless the run does not wait for it any more.
type Due = BTreeMap<(CommandKey, u32), (u64, EventKind)>;

/// The world of one run.
struct One<'a> {
    prompts: &'a Prompts,
    draw: Draw<'a>,
    dialogue: Dialogue,
    /// The prompt of the last main call and of the open one: its bytes, and those that the provider has seen.
    prompt: (u64, u64),
    now: u64,
    due: Due,
    asked: u64,
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
    let mut choices = Choices::of_seed(seed);
    let draw = Draw { choices: &mut choices, assumed };
    let dialogue = Dialogue::default();
    let mut one = One { prompts, draw, dialogue, prompt: (0, 0), now: 0, due: Due::new(), asked: 0 };
    let (mut run, _, notes) = world.start();
    let (mut checker, mut found) = Checker::start(&run, &notes);
    let most = loop_core::invariants::bound(&world.spec);
    for _ in 0..=most {
        if let Some(violation) = found.first() {
            return Err(Fault { check: violation.name, what: violation.to_string() });
        }
        if run.is_done() {
            return Ok(Studied { run, asked: one.asked });
        }
        let event = one.next(&run);
        let before = run.clone();
        let notes = run.apply(&event).map_err(|why| Fault {
            check: "what is commanded is accepted",
            what: format!("{}: {why}", event.kind.name()),
        })?;
        found = checker.step(&Transition { before: &before, event: &event, notes: &notes, after: &run });
    }
    Err(Fault { check: "a run ends within its bound of events", what: format!("more than {most} events") })
}

impl One<'_> {
    /// What happens next: an announcement at once, else what is due first, else the run's deadline.
    fn next(&mut self, run: &Run) -> Event {
        let commands = run.commands();
        self.due.retain(|key, _| commands.iter().any(|command| of(command) == Some(*key)));
        for command in &commands {
            let key = of(command);
            if let Some(kind) = self.announcement(run, command) {
                return Event { at: Millis(self.now), kind };
            }
            if let Some(key) = key.filter(|key| !self.due.contains_key(key)) {
                let due = self.outcome(run, command);
                self.due.insert(key, due);
            }
        }
        let first = self.due.iter().min_by_key(|(_, (at, _))| *at).map(|(key, (at, _))| (*key, *at));
        let deadline = run.deadline().map(|deadline| deadline.0.max(self.now));
        let kind = match (first, deadline) {
            (Some((key, at)), deadline) if deadline.is_none_or(|deadline| at < deadline) => {
                self.now = at.max(self.now);
                self.due.remove(&key).map_or(EventKind::DeadlineReached, |(_, kind)| kind)
            }
            (_, Some(deadline)) => {
                self.now = deadline;
                EventKind::DeadlineReached
            }
            (_, None) => EventKind::DeadlineReached,
        };
        Event { at: Millis(self.now), kind }
    }

    /// The announcement of a call or of a write, which takes no time.
    fn announcement(&mut self, run: &Run, command: &Command) -> Option<EventKind> {
        match command {
            Command::CallModel(CallModel { key, attempt, granted: None, .. }) => {
                let prompt = self.size(run, *key);
                self.prompt = (prompt.bytes, prompt.shared_bytes);
                let (key, attempt, prompt_bytes, shared_bytes) =
                    (*key, *attempt, prompt.bytes, prompt.shared_bytes);
                Some(match run.quote(&key, prompt) {
                    Ok(quote) => EventKind::CallStarted {
                        key,
                        attempt,
                        tier: quote.tier,
                        prompt_bytes,
                        shared_bytes,
                        prompt_hash: run.started().prompts,
                        max_output_tokens: quote.max_output_tokens,
                        reserve: quote.reserve,
                    },
                    Err(refusal) => {
                        EventKind::CallRefused { key, attempt, prompt_bytes, shared_bytes, refusal }
                    }
                })
            }
            Command::RunTool(RunTool { key, attempt, announced: false, .. }) => {
                Some(EventKind::ToolStarted { key: *key, attempt: *attempt })
            }
            _ => None,
        }
    }

    /// The size of the prompt that the domain's templates render.
    fn size(&mut self, run: &Run, key: CommandKey) -> PromptSize {
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
    fn outcome(&mut self, run: &Run, command: &Command) -> (u64, EventKind) {
        match command {
            Command::CallModel(call) => {
                let (key, attempt) = (call.key, call.attempt);
                let took = self.draw.about(Of::ModelMs);
                if took > call.timeout_ms {
                    let at = self.now + call.timeout_ms;
                    let failure = failed(FailureKind::Timeout, None).into();
                    return (at, EventKind::ModelFailed { key, attempt, failure });
                }
                let at = self.now + took;
                let kind = match self.draw.settle(run, call, self.prompt, at) {
                    Ok(reply) => EventKind::ModelReplied { key, attempt, reply: reply.into() },
                    Err(failure) => EventKind::ModelFailed { key, attempt, failure },
                };
                (at, kind)
            }
            Command::RunTool(tool) => {
                let took = self.draw.about(Of::ToolMs);
                let at = self.now + took.min(tool.timeout_ms);
                let observation = self.observation(run, tool, took > tool.timeout_ms).into();
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

    fn observation(&mut self, run: &Run, tool: &RunTool, is_late: bool) -> Observation {
        let mut observation = if is_late {
            Observation::failed(Status::Timeout, &tool.tool, "it did not end in time")
        } else if self.draw.happens(Of::ToolFails) {
            Observation::failed(Status::RetryableError, &tool.tool, "it did not answer")
        } else if self.draw.happens(Of::ToolEmpty) {
            Observation::failed(Status::Empty, &tool.tool, "No data found")
        } else {
            let most = u64::from(run.spec().limits.markdown_chars);
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
                Some(SubCallUse::new(true, Some(Usage { input, output, ..Usage::default() })));
        }
        observation
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
