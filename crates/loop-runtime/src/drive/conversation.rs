//! A run's messages: each is made once, borrowed to every request, and taken back after it.

use std::sync::{Arc, Mutex, PoisonError};

use loop_core::policy::{forbids, is_forbidden, offered_ends, offers_plan};
use loop_core::run::PromptSize;
use loop_core::spec::PLAN;
use loop_core::types::{CommandKey, Digest, ItemForm, cleaned};
use loop_core::{Run, RunSpec};
use loop_llm::request::{AssistantTurn, Author};
use loop_llm::{Message, ToolDefinition, ToolOutput};
use loop_prompts::submit::{end_call_tool, plan_tool};
use loop_prompts::{Prompts, Thread};
use loop_tools::Registry;
use serde::Deserialize;
use serde_json::Value;

/// What a native run says to its model.
#[derive(Debug)]
pub(crate) struct Conversation {
    system: Arc<str>,
    tools: Arc<[ToolDefinition]>,
    /// Bytes of the system prompt and of what tools say about themselves.
    fixed_bytes: u64,
    /// Names the system prompt, the tools and the messages before the run.
    fixed: Digest,
    /// The messages before the run.
    history: Arc<[Message]>,
    thread: Thread,
    messages: Vec<Message>,
    /// Bytes of the messages.
    bytes: u64,
    /// Bytes that the main call before had.
    before: u64,
    /// Whether a request has the messages.
    is_borrowed: bool,
}

impl Conversation {
    pub(crate) fn new(
        rules: &SystemPrompts,
        prompts: &Prompts,
        run: &Run,
        tools: &OfferedTools,
        history: Arc<[Message]>,
    ) -> Self {
        let Rule { system, name, .. } = rules.of(prompts, run);
        let before = run.started().history.as_ref().map_or("", |history| &*history.json);
        let fixed = Digest::of("conversation", &[&name.0, &tools.name.0, before.as_bytes()].concat());
        Self {
            fixed_bytes: system.len() as u64 + tools.bytes,
            tools: Arc::clone(&tools.specs),
            system,
            fixed,
            history,
            thread: Thread::default(),
            messages: Vec::new(),
            bytes: 0,
            before: 0,
            is_borrowed: false,
        }
    }

    /// Updates the messages to what `run` has come to, for the call `key`; returns their size, and what names them.
    pub(crate) fn grow(&mut self, prompts: &Prompts, run: &Run, key: CommandKey) -> (PromptSize, Digest) {
        if std::mem::take(&mut self.is_borrowed) {
            // The call that borrowed them did not give them back.
            self.thread = Thread::default();
        }
        let grown = self.thread.grow(prompts, run, key);
        if grown.anew {
            self.messages.clear();
            self.messages.extend(self.history.iter().map(|message| match run.is_history_compacted() {
                true => shortened(message),
                false => message.clone(),
            }));
            self.bytes = self.messages.iter().map(|message| message.bytes() as u64).sum();
            self.before = 0;
        }
        self.bytes += grown.turns.iter().map(|message| message.bytes() as u64).sum::<u64>();
        self.messages.extend(grown.turns);
        let bytes = self.fixed_bytes + self.bytes;
        // Without any message in common there are still the rules.
        let shared_bytes = self.before.min(bytes).max(if self.before == 0 { 0 } else { self.fixed_bytes });
        self.before = bytes;
        let name = Digest::of("prompt", &[self.fixed.0, self.thread.hash().0].concat());
        (PromptSize { bytes, shared_bytes }, name)
    }

    /// Sees to it that the messages for the call `key` are at hand.
    pub(crate) fn be_ready(&mut self, prompts: &Prompts, run: &Run, key: CommandKey) {
        if self.is_borrowed || self.messages.is_empty() {
            self.grow(prompts, run, key);
        }
    }

    /// The messages so far, for those who only look at them.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(crate) fn system(&self) -> &Arc<str> {
        &self.system
    }

    pub(crate) fn tools(&self) -> &Arc<[ToolDefinition]> {
        &self.tools
    }

    /// The messages, for one request.
    pub(crate) fn borrow(&mut self) -> Vec<Message> {
        self.is_borrowed = true;
        std::mem::take(&mut self.messages)
    }

    /// Takes back what was borrowed.
    pub(crate) fn take_back(&mut self, messages: Vec<Message>) {
        self.is_borrowed = false;
        self.messages = messages;
    }
}

/// The system prompt of a loop's runs: rendered once for all that are about one kind of work item.
#[derive(Debug, Default)]
pub(crate) struct SystemPrompts {
    last: Mutex<Option<Rule>>,
}

#[derive(Clone, Debug)]
struct Rule {
    kind: Arc<str>,
    system: Arc<str>,
    name: Digest,
}

impl SystemPrompts {
    /// The one that `run` has. The runs that use these rules have one spec.
    fn of(&self, prompts: &Prompts, run: &Run) -> Rule {
        let kind = &run.started().item.kind;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref().filter(|rule| rule.kind == *kind) {
            Some(rule) => rule.clone(),
            None => {
                let system = Thread::system(prompts, run);
                let name = Digest::of("system", system.as_bytes());
                last.insert(Rule { kind: Arc::clone(kind), system, name }).clone()
            }
        }
    }
}

/// The tools of a loop as its models see them.
#[derive(Clone, Debug)]
pub(crate) struct OfferedTools {
    specs: Arc<[ToolDefinition]>,
    bytes: u64,
    name: Digest,
}

/// A tool in a manifest, as far as a model sees it.
#[derive(Deserialize)]
struct RecordedTool {
    name: Arc<str>,
    description: Arc<str>,
    schema: Value,
}

impl OfferedTools {
    /// All tools of the registry that may be run at all, and the protocol's own.
    pub(crate) fn of(registry: &Registry, spec: &RunSpec) -> Self {
        let declared = registry.declarations().filter(|tool| is_offered(spec, &tool.name));
        let specs: Arc<[ToolDefinition]> = declared
            .map(|tool| ToolDefinition {
                name: Arc::clone(&tool.name),
                description: Arc::clone(&tool.description),
                parameters: tool.schema.clone(),
                strict: Default::default(),
            })
            .chain(own_calls(spec))
            .collect();
        Self::named(specs, registry.manifest_hash())
    }

    /// All tools of a recorded manifest that may be run at all, and the protocol's own. `name` is the manifest's digest.
    pub(crate) fn recorded(manifest: &str, name: Digest, spec: &RunSpec) -> Self {
        let tools: Vec<ToolDefinition> = serde_json::from_str::<Vec<RecordedTool>>(manifest)
            .unwrap_or_default()
            .into_iter()
            .filter(|tool| is_offered(spec, &tool.name))
            .map(|RecordedTool { name, description, schema }| ToolDefinition {
                name,
                description,
                parameters: schema,
                strict: Default::default(),
            })
            .chain(own_calls(spec))
            .collect();
        Self::named(tools.into(), name)
    }

    fn named(specs: Arc<[ToolDefinition]>, name: Digest) -> Self {
        let size = |tool: &ToolDefinition| {
            tool.name.len() + tool.description.len() + tool.parameters.to_string().len()
        };
        let bytes = specs.iter().map(size).sum::<usize>() as u64;
        Self { specs, bytes, name }
    }
}

/// All turns of a run as they are stored. A message in the user's place that is neither the message that the run
/// answers nor a person's instruction was worded by the runner, and its author says so.
pub(crate) fn stored(prompts: &Prompts, run: &Run) -> Vec<Message> {
    let item = Some(&run.started().item).filter(|item| item.form == ItemForm::Message);
    let said = |text: &str| {
        item.is_some_and(|item| *item.full == *text)
            || run.instructions().iter().any(|instruction| cleaned(&instruction.text) == text)
    };
    Thread::whole(prompts, run)
        .into_iter()
        .map(|message| match message {
            Message::User { text, images, .. } if !said(&text) => {
                Message::User { text, images, author: Author::Runner }
            }
            message => message,
        })
        .collect()
}

/// Whether a tool is offered to a model: what never runs is not.
pub(crate) fn is_offered(spec: &RunSpec, tool: &str) -> bool {
    let known = spec.tools.iter().find(|known| *known.name == *tool);
    let is_forbidden = known.map_or_else(|| forbids(spec, tool), |tool| is_forbidden(spec, tool));
    spec.protocol.is_output(tool) || spec.limits.tool_calls > 0 && !is_forbidden
}

/// The calls with which a model proposes an end or plans, as tools.
fn own_calls(spec: &RunSpec) -> impl Iterator<Item = ToolDefinition> {
    let ends = offered_ends(spec).map(|end| (end.name(), end_call_tool(end)));
    let plan = offers_plan(spec).then(|| (PLAN, plan_tool()));
    ends.chain(plan).map(|(name, (description, parameters))| ToolDefinition {
        name: name.into(),
        description: description.into(),
        parameters,
        strict: Default::default(),
    })
}

/// A message of before the run in short: what its provider alone can read is left out, and of results their beginning
/// stays.
fn shortened(message: &Message) -> Message {
    match message {
        Message::Assistant(turn) => {
            Message::Assistant(AssistantTurn { raw: None, reasoning: Arc::default(), ..turn.clone() })
        }
        Message::Tool { results } => Message::Tool {
            results: results
                .iter()
                .map(|result| ToolOutput {
                    text: beginning(&result.text),
                    images: Vec::new(),
                    ..result.clone()
                })
                .collect(),
        },
        Message::User { .. } | Message::Operator { .. } => message.clone(),
    }
}

fn beginning(text: &Arc<str>) -> Arc<str> {
    let cut = text.floor_char_boundary(SHORT_BYTES);
    match text.get(..cut).filter(|_| cut < text.len()) {
        Some(first) => format!("{first} … (shortened)").into(),
        None => Arc::clone(text),
    }
}

/// Bytes that stay of a result of before the run, once it is shortened.
const SHORT_BYTES: usize = 200;
