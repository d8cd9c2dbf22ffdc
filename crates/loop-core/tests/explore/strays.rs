//! Facts that cannot follow: late, foreign, early, doubled. Each must be rejected, and nothing may change by it.

use loop_core::reply::Reply;
use loop_core::run::{Call, CheckResult, Phase, PromptSize, Refusal, Reserve, SaveResult};
use loop_core::types::{CommandKey, Millis, Observation, Slot, Status, Tier};
use loop_core::{Command, Event, EventKind, Run};

use crate::approvals;
use crate::edge::{Ghost, call, check, in_flight, is_action, is_working, work};
use loop_testkit::{digest, draft, failure, found, used};

/// Facts for the strays, made once.
#[derive(Clone, Debug)]
pub struct Strays {
    reply: Reply,
    observation: Observation,
}

impl Strays {
    pub fn new() -> Self {
        let reply = draft("high").using(Some(used(1, 1))).reply();
        Self { reply, observation: found("a late result") }
    }

    /// Tells the run everything that it must not take; the first that it takes is the error.
    pub fn all_rejected(&self, run: &Run, ghost: &Ghost) -> Result<(), String> {
        let mut probe = run.clone();
        for event in self.of(run, ghost) {
            if probe.apply(&event).is_ok() {
                return Err(format!("took a stray event: {event:?}"));
            }
        }
        if probe == *run { Ok(()) } else { Err("a rejected event changed the run".to_owned()) }
    }

    fn of(&self, run: &Run, ghost: &Ghost) -> Vec<Event> {
        let open = in_flight(run);
        let mut tries: Vec<(CommandKey, u32)> = Vec::new();
        // Settled before, by an older try and by the same one; and what was never asked for.
        for (key, (attempt, _)) in &ghost.past.settled {
            tries.extend((1..=*attempt).map(|attempt| (*key, attempt)));
        }
        tries.extend(open.iter().flat_map(|(key, attempt)| [(*key, attempt + 1), (*key, attempt - 1)]));
        let pass = run.pass();
        for slot in [Slot::Select, Slot::Main, Slot::Repair, Slot::Final, Slot::Action(0), Slot::Action(9)] {
            tries.extend([pass, pass + 1].map(|pass| (CommandKey::new(pass, slot), 1)));
        }
        let mut facts = Vec::new();
        for (key, attempt) in tries {
            if open.contains(&(key, attempt)) {
                continue;
            }
            if is_action(key) {
                let observation = self.observation.clone();
                facts.push(EventKind::ToolFinished { key, attempt, observation: observation.into() });
            } else {
                facts.push(EventKind::ModelReplied { key, attempt, reply: self.reply.clone().into() });
                facts.push(EventKind::ModelFailed { key, attempt, failure: failure(true).into() });
            }
        }
        for (key, attempt) in open {
            // Announced twice; or settled as what it is not.
            facts.push(EventKind::ToolStarted { key, attempt });
            facts.push(started(key, attempt));
            if is_action(key) {
                facts.push(EventKind::ModelReplied { key, attempt, reply: self.reply.clone().into() });
            } else {
                let observation = Observation::failed(Status::Timeout, "model", "not a tool");
                facts.push(EventKind::ToolFinished { key, attempt, observation: observation.into() });
            }
        }
        // Work whose turn has not come.
        let commanded = run.commands();
        for work in work(run).iter().filter(|work| !work.announced) {
            let is_commanded =
                |command: &Command| matches!(command, Command::RunTool(tool) if tool.key == work.key);
            if !commanded.iter().any(is_commanded) {
                facts.push(EventKind::ToolStarted { key: work.key, attempt: work.attempt });
            }
        }
        // Checks that nothing commands, by the key or by the try; one that was not announced, or is announced twice.
        let checking = check(run);
        let open = checking.map(|it| (it.key, it.attempt));
        let passes = [pass, pass + 1].map(|pass| (CommandKey::new(pass, Slot::Check), 1));
        let others = open.iter().flat_map(|(key, attempt)| [(*key, attempt + 1), (*key, attempt - 1)]);
        for (key, attempt) in passes.into_iter().chain(others).chain(open) {
            let is_open = Some((key, attempt)) == open;
            if !is_open || checking.is_some_and(|it| !it.announced) {
                facts.push(EventKind::Checked { key, attempt, result: CheckResult::Passed, used: None });
            }
            if !is_open || checking.is_some_and(|it| it.announced) {
                facts.push(EventKind::CheckStarted { key, attempt });
            }
        }
        if let Some(call) = call(run) {
            facts.push(started(call.key, call.attempt));
            facts.extend(announced_as_another(run, call));
        }
        // Work whose turn has come, by another try.
        for command in &commanded {
            let Command::RunTool(tool) = command else { continue };
            let tries = [tool.attempt + 1, tool.attempt.saturating_sub(1)].into_iter();
            facts.extend(tries.map(|attempt| EventKind::ToolStarted { key: tool.key, attempt }));
        }
        // A read that nothing requests, or that is another one.
        facts.extend([("wipe", 0), ("fetch_device", 9)].map(|(name, nth)| EventKind::EagerStarted {
            call: CommandKey::new(pass, Slot::Main),
            call_attempt: 1,
            key: CommandKey::new(pass, Slot::Action(nth)),
            attempt: 1,
            name: name.into(),
            arguments: r#"{"target":"stray"}"#.into(),
        }));
        facts.push(EventKind::Started(Box::new(run.started().clone())));
        let attempt = match run.phase() {
            Phase::Saving { attempt, .. } => attempt + 1,
            _ => 1,
        };
        facts.push(EventKind::SaveFinished { attempt, result: SaveResult::Saved { location: "x".into() } });
        if !is_working(run) {
            facts.push(EventKind::StopRequested { how: loop_core::run::StopMode::Now });
            facts.push(EventKind::StopWithdrawn);
        }
        if run.is_done() {
            facts.push(EventKind::Resumed { away_ms: 0, by: None });
        }
        let now = run.now();
        if run.deadline().is_none_or(|deadline| deadline > now) {
            facts.push(EventKind::DeadlineReached);
        }
        let mut events: Vec<Event> = facts.into_iter().map(|kind| Event { at: now, kind }).collect();
        events.extend(approvals::that_do_not_count(run));
        if now > Millis(0) && !run.is_done() {
            events.push(Event { at: Millis(now.0 - 1), kind: EventKind::Resumed { away_ms: 0, by: None } });
        }
        events
    }
}

/// The announcement or the refusal of the commanded call, by another key or as another try: all else is as the state says.
fn announced_as_another(run: &Run, call: &Call) -> Vec<EventKind> {
    let prompt = PromptSize { bytes: 2_000, shared_bytes: 0 };
    let quote = match run.quote(&call.key, prompt) {
        Err(Refusal::NotCommanded) => return Vec::new(),
        quote => quote,
    };
    let reported =
        |key: CommandKey, attempt: u32| EventKind::announced(key, attempt, prompt, digest(), quote);
    let slots = [Slot::Select, Slot::Main, Slot::Repair, Slot::Final, Slot::Action(0), Slot::Check];
    let passes = [call.key.pass.saturating_sub(1), call.key.pass, call.key.pass + 1];
    let keys = passes.into_iter().flat_map(|pass| slots.map(|slot| CommandKey::new(pass, slot)));
    let others = keys.filter(|key| *key != call.key).map(|key| reported(key, call.attempt));
    let tries = [call.attempt + 1, call.attempt - 1].map(|attempt| reported(call.key, attempt));
    others.chain(tries).collect()
}

/// An announcement that no state quotes.
fn started(key: CommandKey, attempt: u32) -> EventKind {
    EventKind::CallStarted {
        key,
        attempt,
        tier: Tier::Base,
        prompt_bytes: 100,
        shared_bytes: 0,
        prompt_hash: digest(),
        max_output_tokens: 1_000_000,
        reserve: Reserve::default(),
    }
}
