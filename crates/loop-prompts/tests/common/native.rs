//! A run with native calls in virtual time. Whatever is rendered for it is checked against the rules that every provider
//! has: each call is answered once, in order, right after it; and a thread that knows nothing but the run says the same.

use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use loop_core::reply::{FinishReason, Reply};
use loop_core::run::{History, PersonAnswer, PromptSize, StopMode};
use loop_core::spec::{OutputSpec, ToolSpec};
use loop_core::types::{Effect, ModelFailure, Observation, Status, ToolCall};
use loop_core::{EventKind, Facts, RunSpec, WorkItem};
use loop_llm::Message;
use loop_llm::request::AssistantTurn;
use loop_prompts::{AddedTurns, Prompts, Thread};
use loop_testkit::{Setup, facts, failure, key, used};

pub use loop_testkit::call;

use super::{prompts, tool};

fn write(name: &str) -> ToolSpec {
    ToolSpec { effect: Effect::WriteIdempotent, ..tool(name, "Change a record", "", "FR-0042") }
}

/// A conversation with two tools that look, one that changes something, and one that is forbidden.
pub fn conversation() -> RunSpec {
    Setup::conversation("workshop")
        .goal("Help the mechanic.\n\nBe brief.")
        .tool(tool("fetch_bike", "Fetch the record of a bicycle", "", "FR-0042"))
        .tool(tool("fetch_part", "Fetch the stock of a part", "", "P-12-A"))
        .tool(write("update_bike"))
        .tool(write("delete_bike"))
        .gate(|gate| gate.forbid = vec!["delete_bike".into()])
        .spec
}

/// A loop that ends with `save_job`.
pub fn output() -> RunSpec {
    ending_with(OutputSpec::new("save_job")).spec
}

/// The same with a reflection.
pub fn reflection() -> RunSpec {
    let submit =
        ToolSpec { args: loop_core::spec::ArgSpec::default(), ..tool("submit", "Submit it", "", "x") };
    let output = OutputSpec { submit: Some("submit".into()), ..OutputSpec::new("save_job") };
    ending_with(output).tool(submit).spec
}

fn ending_with(output: OutputSpec) -> Setup {
    Setup::output("workshop", output)
        .goal("Write the job down.")
        .tool(tool("fetch_bike", "Fetch the record of a bicycle", "", "FR-0042"))
        .tool(tool("save_job", "The job", "", "x"))
}

pub fn message(text: &str) -> WorkItem {
    WorkItem::message("M-1", "A question", text)
}

/// A call that names a target.
pub fn look(id: &str, name: &str, target: &str) -> ToolCall {
    call(id, name, &serde_json::json!({"target": target}).to_string())
}

/// A reply that calls these.
pub fn calls(text: &str, calls: impl Into<Vec<ToolCall>>) -> Reply {
    let (calls, finish) = (calls.into(), FinishReason::ToolUse);
    Reply {
        calls,
        finish,
        raw: Some("{\"raw\":1}".into()),
        reasoning: Some("hm".into()),
        ..Reply::text(text)
    }
}

pub fn failed(status: Status, message: &str) -> Observation {
    Observation::failed(status, "Bicycle", message)
}

/// A run, its thread, and all turns that the thread has given.
pub struct Native {
    pub inner: loop_testkit::World,
    pub prompts: Prompts,
    pub thread: Thread,
    pub turns: Vec<Message>,
}

impl Deref for Native {
    type Target = loop_testkit::World;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl DerefMut for Native {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}

pub fn begin(spec: RunSpec, item: WorkItem) -> Native {
    begin_after(spec, item, None)
}

pub fn begin_after(spec: RunSpec, item: WorkItem, history: Option<History>) -> Native {
    let prompts = prompts();
    let facts = Facts { prompts: prompts.hash(), history, ..facts() };
    let inner = loop_testkit::World::start("r1", Arc::new(spec), item, facts);
    Native { inner, prompts, thread: Thread::default(), turns: Vec::new() }
}

impl Native {
    /// What is new for the commanded call.
    #[track_caller]
    pub fn grow(&mut self) -> AddedTurns {
        let key = self.call().key;
        let grown = self.thread.grow(&self.prompts, &self.inner.run, key);
        if grown.anew {
            self.turns.clear();
        }
        self.turns.extend(grown.turns.iter().cloned());
        let mut fresh = Thread::default();
        let all = fresh.grow(&self.prompts, &self.inner.run, key);
        assert_eq!(all, AddedTurns { anew: true, turns: self.turns.clone() }, "a fresh thread says the same");
        assert_eq!(fresh.hash(), self.thread.hash());
        expect_valid(&self.turns);
        grown
    }

    /// The commanded call is grown for and announced with a prompt of so many bytes.
    #[track_caller]
    pub fn announce(&mut self, bytes: u64) -> AddedTurns {
        let grown = self.grow();
        self.inner.announce(PromptSize { bytes, shared_bytes: 0 }, self.thread.hash());
        grown
    }

    /// The commanded call is announced and answered; gives what was new for it.
    #[track_caller]
    pub fn replied(&mut self, reply: Reply) -> AddedTurns {
        let grown = self.announce(1_000);
        self.answer(Reply { usage: Some(used(250, 100)), ..reply });
        grown
    }

    /// The commanded call is announced and fails; `partial` is what came before.
    #[track_caller]
    pub fn fails(&mut self, retryable: bool, partial: Option<&str>) -> AddedTurns {
        let grown = self.announce(1_000);
        self.fail(ModelFailure { partial: partial.map(Arc::from), ..failure(retryable) });
        grown
    }

    /// One commanded tool ends like this.
    #[track_caller]
    pub fn tool_ends(&mut self, instruction: impl Fn(&str) -> Observation) {
        let tool = self.tools().into_iter().next().expect("a tool is commanded");
        self.finish(&tool.key.to_string(), instruction(&tool.parameters));
    }

    /// All commanded tools end like this, one after another.
    #[track_caller]
    pub fn tools_end(&mut self, instruction: impl Fn(&str) -> Observation) {
        while !self.tools().is_empty() {
            self.tool_ends(&instruction);
        }
    }

    #[track_caller]
    pub fn answered(&mut self, answer: PersonAnswer) {
        let asked = key(self.asks().first().expect("a person is asked"));
        self.apply(EventKind::PersonAnswered { key: asked, answer, binding: None });
    }

    /// The run is stopped, and what is in flight is cut off.
    #[track_caller]
    pub fn stop_now(&mut self) {
        let commanded = self.tools();
        self.apply(EventKind::StopRequested { how: StopMode::Now });
        for tool in commanded {
            let (key, attempt) = (tool.key, tool.attempt);
            let observation = failed(Status::Cancelled, "cancelled");
            self.apply(EventKind::ToolFinished { key, attempt, observation: observation.into() });
        }
    }

    /// All turns of the run at its end.
    #[track_caller]
    pub fn whole(&self) -> Vec<Message> {
        let turns = Thread::whole(&self.prompts, &self.run);
        expect_valid(&turns);
        assert!(!turns.iter().any(|turn| matches!(turn, Message::Operator { .. })));
        turns
    }

    /// The texts of the results of the last turn but those after it, with a mark for errors.
    pub fn results(&self) -> Vec<String> {
        let last = self.turns.iter().rev().find_map(|turn| match turn {
            Message::Tool { results } => Some(results),
            _ => None,
        });
        let results = last.expect("there are results");
        results
            .iter()
            .map(|result| format!("{}{}", if result.is_error { "! " } else { "" }, result.text))
            .collect()
    }
}

/// What every provider demands (S1-25, S2-42), and that sizes are those of the messages.
#[track_caller]
pub fn expect_valid(turns: &[Message]) {
    let mut owed: Vec<Arc<str>> = Vec::new();
    for turn in turns {
        let answers: Vec<Arc<str>> = match turn {
            Message::Tool { results } => results.iter().map(|result| Arc::clone(&result.call)).collect(),
            Message::User { .. } | Message::Assistant(_) | Message::Operator { .. } => Vec::new(),
        };
        assert_eq!(answers, owed, "each call is answered once, in order, right after it");
        owed = match turn {
            Message::Assistant(AssistantTurn { calls, text, .. }) => {
                assert!(!calls.is_empty() || !text.trim().is_empty(), "an empty turn");
                calls.iter().map(|call| Arc::clone(&call.id)).collect()
            }
            Message::User { .. } | Message::Tool { .. } | Message::Operator { .. } => Vec::new(),
        };
    }
    assert!(owed.is_empty(), "calls without results: {owed:?}");
}

/// Turns as numbered lines.
pub fn shown_turns(turns: &[Message]) -> String {
    let mut out = String::new();
    for (n, turn) in (1..).zip(turns) {
        let role = match turn {
            Message::User { .. } => "user",
            Message::Assistant(_) => "assistant",
            Message::Tool { .. } => "results",
            Message::Operator { .. } => "operator",
        };
        let _ = writeln!(out, "{n:02}:{role}");
        for line in turn.text().lines() {
            let _ = writeln!(out, "    {line}");
        }
        match turn {
            Message::Assistant(AssistantTurn { raw, calls, reasoning, .. }) => {
                let raw = raw.as_ref().map_or("", |raw| raw.text());
                for (name, text) in [("raw", raw), ("reasoning", reasoning)] {
                    if !text.is_empty() {
                        let _ = writeln!(out, "  {name}: {text}");
                    }
                }
                for call in calls.iter() {
                    let _ = writeln!(out, "  → {} {} {}", call.id, call.name, call.arguments);
                }
            }
            Message::Tool { results } => {
                for result in results.iter() {
                    let kind = if result.is_error { " error" } else { "" };
                    let _ = writeln!(out, "  ← {}{kind}", result.call);
                    for line in result.text.lines() {
                        let _ = writeln!(out, "    {line}");
                    }
                }
            }
            Message::User { .. } | Message::Operator { .. } => {}
        }
    }
    out
}

/// Holds a text against its snapshot.
#[track_caller]
pub fn check_text(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
