//! A small run for fuzz targets, driven by bytes.

use std::sync::Arc;

use loop_core::reply::Reply;
use loop_core::run::{CallModel, PromptSize, Provenance, RunTool};
use loop_core::spec::{ModelSpec, SectionSpec, ToolSpec};
use loop_core::types::{Digest, Effect, Observation, Price, RunId, Status, Usage};
use loop_core::{Command, Event, EventKind, Facts, Note, Run, RunSpec, WorkItem};
use serde_json::json;

use crate::spec::{takes, tool};

/// The nonce of the runs that bytes drive.
pub const NONCE: &str = "n0nce";

/// The sections of [`document`].
pub fn sections() -> [SectionSpec; 3] {
    [
        SectionSpec::new("situation", "🔍 Situation").required(),
        SectionSpec::new("findings", "Findings"),
        SectionSpec::new("next_steps", "➡️ Next steps"),
    ]
}

fn model() -> ModelSpec {
    ModelSpec::new("scripted", "m").with_price(Price::flat(100_000, 400_000))
}

/// A document of three sections, with a tool that reads and one that writes.
pub fn document() -> RunSpec {
    with_tools(RunSpec::document("fuzz", sections(), model()))
}

/// The same tools in a conversation.
pub fn conversation() -> RunSpec {
    with_tools(RunSpec::conversation("fuzz", model()))
}

fn with_tools(mut spec: RunSpec) -> RunSpec {
    let declared = |name: &str, effect| ToolSpec {
        description: "Does one thing.".into(),
        args: takes(json!({"target": {"type": "string"}})),
        ..tool(name, effect)
    };
    spec.tools = vec![declared("look", Effect::Read), declared("change", Effect::WriteKeyed)];
    spec.selection.enabled = false;
    spec
}

/// A run and its journal.
#[derive(Debug)]
pub struct FuzzRun {
    /// The run after the last event.
    pub run: Run,
    /// The accepted events with their decisions.
    pub journal: Vec<(Event, Vec<Note>)>,
}

impl FuzzRun {
    /// Starts a run of this spec about a ticket.
    pub fn start(spec: RunSpec) -> Self {
        let none = Digest::of("fuzz", b"");
        let facts = Facts {
            unix_ms: 0,
            nonce: NONCE.into(),
            prompts: none,
            tools: none,
            history: None,
            provenance: Provenance::default(),
        };
        let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
        let (run, first, notes) = Run::start(RunId::new("r1"), Arc::new(spec), item, facts);
        Self { run, journal: vec![(first, notes)] }
    }

    /// Applies an event a millisecond later. Returns whether it was accepted. A rejected one changes nothing.
    pub fn apply(&mut self, kind: EventKind) -> bool {
        let event = Event { at: self.run.now().plus(1), kind };
        let before = self.run.clone();
        match self.run.apply(&event) {
            Ok(notes) => {
                self.journal.push((event, notes));
                true
            }
            Err(_) => {
                assert_eq!(self.run, before, "a rejected event changes nothing");
                false
            }
        }
    }

    /// The announcement of a commanded model call.
    pub fn announced(&self, call: &CallModel) -> EventKind {
        let prompt = PromptSize { bytes: 2_000, shared_bytes: 0 };
        let prompt_hash = Digest::of("fuzz", b"prompt");
        EventKind::announced(call.key, call.attempt, prompt, prompt_hash, self.run.quote(&call.key, prompt))
    }

    /// Follows the commands until a reply with this text was read. Returns whether one was.
    pub fn replied(&mut self, text: &str) -> bool {
        for _ in 0..4 {
            let Some(command) = self.run.commands().into_iter().next() else { return false };
            let kind = match command {
                Command::CallModel(call) if call.granted.is_none() => self.announced(&call),
                Command::CallModel(CallModel { key, attempt, .. }) => {
                    let reply = Reply { usage: Some(usage()), ..Reply::text(text) };
                    return self.apply(EventKind::ModelReplied { key, attempt, reply: Box::new(reply) });
                }
                Command::RunTool(RunTool { key, attempt, .. }) => {
                    EventKind::ToolFinished { key, attempt, observation: found("It is so.").into() }
                }
                _ => return false,
            };
            self.apply(kind);
        }
        false
    }

    /// I-11: a replay of the journal gives the same run and the same notes.
    pub fn is_replayed(&self) {
        let (first, notes) = &self.journal[0];
        let (mut run, again) =
            Run::open(first, Arc::clone(self.run.spec())).expect("what was accepted is accepted again");
        assert_eq!(&again, notes);
        for (event, notes) in &self.journal[1..] {
            assert_eq!(&run.apply(event).expect("what was accepted is accepted again"), notes, "{event:?}");
        }
        assert_eq!(run, self.run);
    }
}

/// The usage of every reply and failure.
pub fn usage() -> Usage {
    Usage { input: 100, output: 50, ..Usage::default() }
}

/// An observation with this text.
pub fn found(markdown: &str) -> Observation {
    Observation::new(Status::Ok, "found", markdown, json!({"text": markdown}).to_string())
}
