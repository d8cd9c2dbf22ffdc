//! Renders the prompts of a recorded run again, and makes its reads again, with the code that drives runs.

use std::fmt;
use std::sync::Arc;

use loop_core::run::{PromptSize, RunTool};
use loop_core::types::{CommandKey, Digest, Observation};
use loop_core::{EventKind, Run};
use loop_journal::Recorded;
use loop_llm::{Message, ToolDefinition};
use loop_prompts::{Dialogue, Prompt, Prompts};
use loop_tools::CancellationToken;
use serde_json::Value;

use crate::drive::conversation::{Conversation, OfferedTools, SystemPrompts};
use crate::drive::parts::read_history;
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;
use crate::drive::tool::{Dispatch, ToolWork};
use crate::watch::sink;

/// Renders the prompts of a run, in the order of its calls.
#[derive(Debug)]
pub struct Renderer<'a> {
    prompts: &'a Prompts,
    offered: OfferedTools,
    history: Arc<[Message]>,
    rules: SystemPrompts,
    dialogue: Dialogue,
    /// `None` in a run with a document contract.
    conversation: Option<Conversation>,
}

/// A prompt that was rendered.
#[derive(Debug)]
pub enum Rendered<'r> {
    /// The prompt of a run with a document contract.
    Prompt(Prompt),
    /// The request of any other run.
    Request {
        /// Its size, and how many of its bytes it shares with the main call before it.
        size: PromptSize,
        /// The digest that is journaled when it is sent.
        digest: Digest,
        /// The system prompt.
        system: &'r Arc<str>,
        /// The tools that the model sees.
        tools: &'r [ToolDefinition],
        /// The messages.
        messages: &'r [Message],
    },
}

impl Rendered<'_> {
    /// Its size, and how many of its bytes it shares with the main call before it.
    pub fn size(&self) -> PromptSize {
        match self {
            Self::Prompt(prompt) => prompt.size,
            Self::Request { size, .. } => *size,
        }
    }

    /// The digest that is journaled when it is sent.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Prompt(prompt) => prompt.hash(),
            Self::Request { digest, .. } => *digest,
        }
    }
}

impl<'a> Renderer<'a> {
    /// A renderer with the present templates and tools of a runner.
    ///
    /// # Errors
    /// If the messages before the run cannot be read.
    pub fn of_runner(runner: &'a Runner, run: &Run) -> Result<Self, StartError> {
        Self::new(&runner.parts().prompts, runner.parts().offered.clone(), run)
    }

    /// A renderer with these templates and the tools of the recorded manifest.
    ///
    /// # Errors
    /// If the messages before the run cannot be read.
    pub fn of_recorded(recorded: &Recorded, prompts: &'a Prompts, run: &Run) -> Result<Self, StartError> {
        let offered = OfferedTools::recorded(&recorded.manifest, run.started().tools, &recorded.spec);
        Self::new(prompts, offered, run)
    }

    fn new(prompts: &'a Prompts, offered: OfferedTools, run: &Run) -> Result<Self, StartError> {
        let mut renderer = Self {
            prompts,
            offered,
            history: read_history(run.started())?,
            // Of the run's own spec, which may not be the one of the loop.
            rules: SystemPrompts::default(),
            dialogue: Dialogue::default(),
            conversation: None,
        };
        renderer.begin(run);
        Ok(renderer)
    }

    /// Starts again from this state, as a driver does that resumes the run.
    pub fn begin(&mut self, run: &Run) {
        self.dialogue = Dialogue::default();
        let Self { prompts, history, rules, offered, .. } = self;
        let has_messages = run.spec().protocol.properties().answers_every_call;
        self.conversation =
            has_messages.then(|| Conversation::new(rules, prompts, run, offered, Arc::clone(history)));
    }

    /// The prompt of a call that `run` commands. `None`: it commands no such call.
    pub fn render(&mut self, run: &Run, key: CommandKey) -> Option<Rendered<'_>> {
        let Some(conversation) = &mut self.conversation else {
            return self.dialogue.prompt(self.prompts, run, key).map(Rendered::Prompt);
        };
        let (size, digest) = conversation.grow(self.prompts, run, key);
        let (system, tools) = (conversation.system(), conversation.tools());
        Some(Rendered::Request { size, digest, system, tools, messages: conversation.messages() })
    }
}

/// A read of a recorded run that is ready to be made again.
pub struct ReadAgain(Dispatch);

impl fmt::Debug for ReadAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadAgain").field(&self.0.work.tool).finish()
    }
}

impl ReadAgain {
    /// The tool's name.
    pub fn tool(&self) -> &Arc<str> {
        &self.0.work.tool
    }

    /// The parameters. Null if they are not JSON.
    pub fn parameters(&self) -> Value {
        self.0.work.parameters.value().cloned().unwrap_or_default()
    }
}

impl Runner {
    /// Prepares a read of a recorded run, with what the run knew when it commanded it. The caller must ensure that the
    /// tool only reads.
    pub fn read_again(&self, run: &Run, tool: RunTool) -> ReadAgain {
        let parts = self.parts();
        let model = parts.models.of(run.auxiliary_tier());
        let work = ToolWork::of(run, RunTool { sub_call: None, ..tool }, &parts.registry, None);
        ReadAgain(Dispatch::new(work, model, &parts.prompts, CancellationToken::new(), || Arc::new(|_| {})))
    }

    /// Makes a read again, with the tools of this runner.
    pub async fn read(&self, read: ReadAgain) -> Option<Arc<Observation>> {
        let parts = self.parts();
        let settled = read.0.run(&parts.registry, &parts.credentials).await;
        match sink::kind(&parts.secrets, settled.kind) {
            EventKind::ToolFinished { observation, .. } => Some(observation),
            _ => None,
        }
    }
}
