//! Drives the core without a runtime: a fake model, two fake tools, a journal in memory, a crash and a replay.
//!
//! Run it with `cargo run -p loop-core --example driving`. `docs/how-to/drive-the-core.md` explains it step by step.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;

use loop_core::reply::Reply;
use loop_core::run::{CallModel, CheckResult, PersonAnswer, PromptSize, RunTool, SaveResult};
use loop_core::types::{Digest, Millis, Observation, RunId, Status, Usage};
use loop_core::{Command, Event, EventKind, Facts, Note, Outcome, Rejected, Run, RunSpec, WorkItem};

fn main() -> Result<(), Box<dyn Error>> {
    let spec = spec()?;
    let mut driver = Driver::start(Arc::clone(&spec), item()?)?;
    driver.go_on(Some(7))?;
    driver.say("# the program dies here; only the journal is left");
    let (journal, mut draft) = (driver.journal, driver.draft);

    let mut driver = Driver::reopen(spec, journal, /*away_ms*/ 60_000)?;
    driver.go_on(None)?;
    draft.append(&mut driver.draft);
    draft.iter().for_each(|line| println!("{line}"));
    if let Some(outcome) = driver.run.outcome() {
        println!("\n{}", outcome.document.to_markdown());
    }
    Ok(())
}

/// What the world needs to know about a run: the run, a clock, a journal.
#[derive(Debug)]
pub struct Driver {
    /// The core.
    pub run: Run,
    /// One line of JSON for each event, with the notes that were made of it.
    pub journal: Vec<String>,
    /// What is printed.
    pub draft: Vec<String>,
    clock: Millis,
}

impl Driver {
    /// A new run, its first event in the journal.
    pub fn start(spec: Arc<RunSpec>, item: WorkItem) -> Result<Self, Box<dyn Error>> {
        let none = Digest::of("none", b"");
        let facts = Facts {
            unix_ms: 1_700_000_000_000,
            nonce: "k3j9".into(),
            prompts: none,
            tools: none,
            history: None,
            provenance: loop_core::run::Provenance::default(),
        };
        let (run, first, notes) = Run::start(RunId::new("run-1"), spec, item, facts);
        let journal = vec![serde_json::to_string(&(first, notes))?];
        Ok(Self { run, journal, draft: Vec::new(), clock: Millis(0) })
    }

    /// A run whose driver is gone: its journal is replayed, and the run is told that it goes on.
    pub fn reopen(spec: Arc<RunSpec>, journal: Vec<String>, away_ms: u64) -> Result<Self, Box<dyn Error>> {
        let run = replay(spec, &journal)?;
        let clock = run.now().plus(away_ms);
        let mut driver = Self { run, journal, draft: Vec::new(), clock };
        if !driver.run.is_done() {
            driver.tell(EventKind::Resumed { away_ms, by: None })?;
        }
        Ok(driver)
    }

    /// Does what the run commands until it is done, or for so many events.
    pub fn go_on(&mut self, events: Option<usize>) -> Result<(), Box<dyn Error>> {
        let until = events.map_or(usize::MAX, |events| self.journal.len() + events);
        while !self.run.is_done() && self.journal.len() < until {
            let kind = match self.run.commands().into_iter().next() {
                Some(command) => self.follow(command),
                None => self.wait_for_the_deadline(),
            };
            self.tell(kind)?;
        }
        Ok(())
    }

    /// Decided, durable, told: in this order, and nothing is started in between.
    fn tell(&mut self, kind: EventKind) -> Result<(), Box<dyn Error>> {
        let event = Event { at: self.clock, kind };
        let notes = self.run.apply(&event)?;
        self.journal.push(serde_json::to_string(&(&event, &notes))?);
        self.say(&format!("> {:>6} ms  {}", event.at.0, event.kind.name()));
        for note in &notes {
            self.say(&format!("    {}", summary(note)));
        }
        self.clock = self.clock.plus(5);
        Ok(())
    }

    /// What the world makes of a command.
    fn follow(&mut self, command: Command) -> EventKind {
        self.say(&format!("  commanded: {}", name(&command)));
        match command {
            Command::CallModel(call) if call.granted.is_none() => self.announce(&call),
            Command::CallModel(call) => model_replies(&call),
            Command::RunTool(tool) if !tool.announced => {
                EventKind::ToolStarted { key: tool.key, attempt: tool.attempt }
            }
            Command::RunTool(tool) => tool_finishes(&tool),
            Command::AskPerson { key, .. } => {
                EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, binding: None }
            }
            // A driver of an `output` protocol checks the value here, against its schema first; of a document, what its spec
            // demands.
            Command::Check(check) => {
                let (key, attempt) = (check.key, check.attempt);
                EventKind::Checked { key, attempt, result: CheckResult::Passed, used: None }
            }
            // Nothing of this world runs beside the driver, so there is nothing that could be cut off.
            Command::Abort { .. } => self.wait_for_the_deadline(),
            Command::Save { attempt } => {
                let result = SaveResult::Saved { location: "memory".into() };
                EventKind::SaveFinished { attempt, result }
            }
        }
    }

    /// A call is quoted and announced before it is sent.
    fn announce(&self, call: &CallModel) -> EventKind {
        let prompt = render(&self.run);
        let size = PromptSize { bytes: prompt.len() as u64, shared_bytes: 0 };
        let prompt_hash = Digest::of("prompt", prompt.as_bytes());
        EventKind::announced(call.key, call.attempt, size, prompt_hash, self.run.quote(&call.key, size))
    }

    /// Nothing can be done now: the clock moves to the next instant at which the run wants to know.
    fn wait_for_the_deadline(&mut self) -> EventKind {
        self.clock = self.run.deadline().map_or(self.clock, |deadline| deadline.max(self.clock));
        EventKind::DeadlineReached
    }

    fn say(&mut self, line: &str) {
        self.draft.push(line.to_owned());
    }
}

/// The run that a journal tells of. What was decided then must be decided again.
pub fn replay(spec: Arc<RunSpec>, journal: &[String]) -> Result<Run, Box<dyn Error>> {
    let mut records = journal.iter().map(|line| serde_json::from_str::<(Event, Vec<Note>)>(line));
    let (first, decided) = records.next().ok_or("the journal is empty")??;
    let (mut run, notes) = Run::open(&first, spec)?;
    same(&decided, &notes)?;
    for record in records {
        let (event, decided) = record?;
        let notes =
            run.apply(&event).map_err(|rejected: Rejected| format!("a broken journal: {rejected}"))?;
        same(&decided, &notes)?;
    }
    Ok(run)
}

fn same(decided: &[Note], notes: &[Note]) -> Result<(), Box<dyn Error>> {
    if decided == notes { Ok(()) } else { Err(format!("decided {decided:?}, replayed {notes:?}").into()) }
}

/// A prompt of sorts. A real one shows rules, tools, sections and evidence.
fn render(run: &Run) -> String {
    let mut prompt = format!("Work item: {}\nNonce: {}\n", run.started().item.full, run.started().nonce);
    for evidence in run.evidence() {
        prompt.push_str(&format!("[{}] {}\n", evidence.id, evidence.observation.text()));
    }
    prompt
}

/// The model selects a tool, then asks for another, then is sure.
fn model_replies(call: &CallModel) -> EventKind {
    let text = match call.key.pass {
        0 => r#"[{"tool": "fetch_device", "params": {"target": "web-1"}, "reason": "it is named"}]"#,
        1 => FIRST_REPLY,
        _ => LAST_REPLY,
    };
    let usage = Some(Usage { input: 400, output: 120, ..Usage::default() });
    let reply = Reply { usage, ..Reply::text(text) };
    EventKind::ModelReplied { key: call.key, attempt: call.attempt, reply: reply.into() }
}

const FIRST_REPLY: &str = r###"## Situation

The disk of web-1 is full [E1].

```json
{"nonce": "k3j9", "analysis_confidence": "medium", "confidence_reason": "what fills it is not known",
 "ai_actions": [{"action_id": "largest", "action_type": "fetch_files", "reason": "names what to delete",
                 "parameters": {"target": "web-1"}, "priority": "required"}]}
```
"###;

const LAST_REPLY: &str = r###"## Next steps

Delete the old logs [E2].

```json
{"nonce": "k3j9", "analysis_confidence": "high", "confidence_reason": "measured", "ai_actions": []}
```
"###;

fn tool_finishes(tool: &RunTool) -> EventKind {
    let (markdown, data) = match &*tool.tool {
        "fetch_device" => ("web-1: disk 100 %", r#"{"disk": 100}"#),
        _ => ("/var/log: 80 GB", r#"{"/var/log": 80}"#),
    };
    let observation = Observation::new(Status::Ok, "found 1 item", markdown, data);
    EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation: observation.into() }
}

fn name(command: &Command) -> String {
    match command {
        Command::CallModel(call) if call.granted.is_none() => format!("call a model for {}", call.key),
        Command::CallModel(call) => format!("send the call {}", call.key),
        Command::RunTool(tool) => format!("run {} for {}", tool.tool, tool.key),
        Command::AskPerson { key, .. } => format!("ask a person about {key}"),
        Command::Check(check) => format!("check for {}", check.key),
        Command::Abort { key, .. } => format!("abort {key}"),
        Command::Save { .. } => "save".to_owned(),
    }
}

fn summary(note: &Note) -> String {
    match note {
        Note::Selected { runs, .. } => format!("selected: {runs} run"),
        Note::Planned { slots } => format!("planned: {} effects", slots.len()),
        Note::ActionJudged(judged) => {
            format!("{} {}: {}", judged.key, judged.tool_name(), judged.verdict.name())
        }
        Note::CallCharged { key, usage, .. } => format!("{key} charged: {} tokens", usage.total()),
        Note::ActionSettled { evidence, status, .. } => format!("{evidence}: {}", status.name()),
        Note::GateDecided { pass, confidence, .. } => {
            format!("gate after pass {pass}: {}", confidence.name())
        }
        Note::Stopped { certificate } => format!("stopped: {}", certificate.reason()),
        Note::StopSettled { certificate } => format!("settled as {}", certificate.class.name()),
        Note::TierChanged { from, to, why } => {
            format!("from {} to {}: {}", from.name(), to.name(), why.words())
        }
        Note::CallsNotRead { limit, count, .. } => format!("{count} calls beyond {limit} were not read"),
        Note::ReadUsed { action, .. } => format!("{action} ran before its reply was complete"),
        Note::ReadDropped(read) => format!("{} {} was dropped: {}", read.key, read.tool, read.why.text()),
        Note::Polled { key, attempt, .. } => {
            format!("{key} is not ready: it is asked again, attempt {attempt}")
        }
        Note::Lost { key, attempt } => format!("{key} attempt {attempt} was lost"),
        Note::Merged { merge, .. } => format!("merged: {} changed", merge.changed.len()),
        Note::ReplyRead { confidence, .. } => format!("read: {}", confidence.name()),
        Note::CallRefused { key, refusal } => format!("{key} refused: {}", refusal.name()),
        Note::CallRetried { key, .. } => format!("{key} is tried again"),
        Note::ResultNoted { evidence, note, .. } => format!("{evidence}: {}", note.summary()),
        Note::EvidenceShortened { evidence } => format!("{evidence} shows only its summary"),
        Note::Compacted { through, .. } => format!("passes up to {through} are shown in short"),
        Note::AttemptBegan { attempt, pass } => format!("attempt {attempt} begins with pass {pass}"),
        Note::Leased { key, .. } => format!("{key} is a run of its own, with a lease"),
        Note::LeaseCharged { key, used } => format!("{key} used {}", used.cost),
        Note::OutputRejected { attempt, by, .. } => format!("attempt {attempt} was rejected by {by}"),
    }
}

/// A help desk with two tools, read from JSON as a domain would be.
pub fn spec() -> Result<Arc<RunSpec>, serde_json::Error> {
    let target =
        r#"{"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}"#;
    let tool = |name: &str| {
        format!(
            r#"{{"name": "{name}", "description": "looks", "args": {target}, "effect": "read",
                "timeout_ms": 12000, "attempts": 2}}"#
        )
    };
    let spec = format!(
        r#"{{
            "version": 2, "domain": "helpdesk", "goal": "Say what is wrong and what to do.", "save": true,
            "protocol": {{"type": "document", "sections": [
                {{"id": "situation", "heading": "Situation", "required": true, "cite": true}},
                {{"id": "next_steps", "heading": "Next steps", "required": true}}
            ]}},
            "tools": [{}, {}],
            "models": {{"base": {{"provider": "fake", "model": "fake", "price": {{"input": 250000, "output": 1000000}},
                "context_tokens": 100000, "max_output_tokens": 4096, "timeout_ms": 60000}}}}
        }}"#,
        tool("fetch_device"),
        tool("fetch_files"),
    );
    serde_json::from_str(&spec).map(Arc::new)
}

/// A ticket.
pub fn item() -> Result<WorkItem, serde_json::Error> {
    serde_json::from_str(
        r#"{"id": "T-1042", "kind": "ticket", "title": "Disk full", "full": "web-1 says: no space left on device.",
            "compact": "web-1: disk full", "scope": {"asset": "web-1"}}"#,
    )
}

/// The outcome of a run that is done.
pub fn outcome(run: &Run) -> Option<&Outcome> {
    run.outcome().filter(|_| run.is_done())
}
