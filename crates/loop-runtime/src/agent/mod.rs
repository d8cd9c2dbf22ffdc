//! The short way to a loop: an agent that converses, or one that ends with a value of a type.

mod as_tool;
mod builder;
mod calling;
mod error;
mod function;
mod live;
#[cfg(all(feature = "mcp", unix))]
mod mcp;
mod model;
mod output;
mod request;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use loop_llm::Message;
use serde::de::DeserializeOwned;

use crate::drive::runner::Runner;

pub use builder::{AgentBuilder, BuildError, ToCostLimit};
pub use error::{AgentError, Meta};
pub use function::{
    Borrowing, ToolFunction, ToolReturn, exec, read, send, write, write_idempotent, write_keyed,
};
pub use live::{AgentEvent, AgentHandle, AgentStream};
#[cfg(all(feature = "mcp", unix))]
pub use mcp::McpServer;
pub use model::{AgentModel, NamedModel};
pub use output::{OutputTool, Plain, Reflected};
pub use request::AgentRequest;

/// The output of an agent that converses: text.
#[derive(Clone, Copy, Debug)]
pub enum Text {}

/// A model with tools, within limits: it converses ([`Agent::new`]), or ends with a value of the type `Output`
/// ([`Agent::output`]). Clones share everything.
///
/// A whole program with one tool:
///
/// ```
/// use loop_runtime::{Agent, models::Offline, read};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Search { name: String }
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let agent = Agent::new(Offline::new())
///         .tool(read("search_user", "Search users by name"), |search: Search| async move {
///             format!("15 users named {}", search.name)
///         })
///         .build()?;
///     let answer = agent.prompt("Search user Alice").await?;
/// #   assert_eq!(answer.meta.totals.passes, 2);
///     Ok(println!("{}", answer.text))
/// }
/// ```
pub struct Agent<Output = Text> {
    runner: Runner,
    output: PhantomData<fn() -> Output>,
}

/// The final answer of a conversation.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its text.
    pub text: Arc<str>,
    /// Cost, evidence and everything else that is known.
    pub meta: Meta,
}

/// A value that passed all validation.
#[derive(Clone, Debug)]
pub struct Extracted<Output> {
    /// The validated value.
    pub value: Output,
    /// Cost, evidence and everything else that is known.
    pub meta: Meta,
}

impl<Output> Agent<Output> {
    fn over(runner: Runner) -> Self {
        Self { runner, output: PhantomData }
    }

    /// The [`Runner`] of the agent, with its handles, observers and journal.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }
}

impl Agent {
    /// An agent that converses: it calls tools until it has an answer.
    ///
    /// The model is a name such as `"anthropic/claude-haiku-4-5"`, or a client of your own: see [`AgentModel`].
    ///
    /// ```no_run
    /// # use loop_runtime::{Agent, CostLimit, read};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Add { a: i64, b: i64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::new("anthropic/claude-haiku-4-5")
    ///     .instructions("You calculate with the tools.")
    ///     .limit(CostLimit::usd("0.10"))
    ///     .tool(read("add", "Adds two numbers"), |it: Add| async move { it.a + it.b })
    ///     .build()?;
    /// let answer = agent.prompt("2 + 5?").await?;
    /// # Ok(println!("{}", answer.text))
    /// # }
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "an agent is made with its tools, and those may be wrong")]
    pub fn new(model: impl Into<AgentModel>) -> AgentBuilder<Text> {
        AgentBuilder::conversation(model.into())
    }
}

impl<Output: DeserializeOwned> Agent<Output> {
    /// An agent that ends with a valid value of the type `Output`, which its model gives to `tool`.
    pub fn output<Mode>(
        model: impl Into<AgentModel>,
        tool: OutputTool<Output, Mode>,
    ) -> AgentBuilder<Output> {
        AgentBuilder::ending_with(model.into(), tool.into_parts())
    }
}

impl<Output: AgentOutput> Agent<Output> {
    /// A request that answers `text`; awaited, it gives the answer.
    ///
    /// ```
    /// # use loop_runtime::{Agent, models::Offline};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::new(Offline::new()).build()?;
    /// let answer = agent.prompt("Good morning").await?;
    /// println!("{}", answer.text);
    /// # assert_eq!(answer.meta.totals.passes, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prompt(&self, text: impl Into<Arc<str>>) -> AgentRequest<Vec<Message>, Output> {
        AgentRequest::new(self.runner.clone(), vec![Message::user(text)])
    }

    /// A request that answers the last message of `history`. The new turns are appended to it, however the run ends.
    /// Every provider accepts the result, so the next request can continue from there.
    ///
    /// ```
    /// # use loop_runtime::{Agent, Message, models::Offline};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::new(Offline::new()).build()?;
    /// let mut history = vec![Message::user("Good morning")];
    /// agent.chat(&mut history).await?;
    /// history.push(Message::user("Good night"));
    /// agent.chat(&mut history).await?;
    /// assert_eq!(history.len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn chat<'h>(&self, history: &'h mut Vec<Message>) -> AgentRequest<&'h mut Vec<Message>, Output> {
        AgentRequest::new(self.runner.clone(), history)
    }

    /// Answers a stream of conversations, at most `concurrency` at a time, each to its own end. Yields the position,
    /// the messages and the answer of each conversation as it ends.
    pub fn queue<S>(
        &self,
        conversations: S,
        concurrency: usize,
    ) -> impl Stream<Item = (usize, Vec<Message>, Result<Output::Answer, AgentError>)> + use<S, Output>
    where
        S: Stream<Item = Vec<Message>>,
    {
        let agent = self.clone();
        let one = move |(n, mut messages): (usize, Vec<Message>)| {
            let agent = agent.clone();
            async move {
                let answer = agent.chat(&mut messages).await;
                (n, messages, answer)
            }
        };
        conversations.enumerate().map(one).buffer_unordered(concurrency.max(1))
    }
}

/// What an agent ends with: text ([`Text`]), or a value of a type.
pub trait AgentOutput: Sized + 'static {
    /// The result of a request: an [`Answer`] or an [`Extracted`] value.
    type Answer;

    /// The answer of a run that has ended.
    ///
    /// # Errors
    /// Why there is none, with the cost.
    fn answer(meta: Meta) -> Result<Self::Answer, AgentError>;
}

impl AgentOutput for Text {
    type Answer = Answer;

    fn answer(meta: Meta) -> Result<Answer, AgentError> {
        match (meta.has_answered(), meta.outcome.answer.clone()) {
            (true, Some(text)) => Ok(Answer { text, meta }),
            _ => Err(AgentError::of(meta)),
        }
    }
}

impl<Output: DeserializeOwned + 'static> AgentOutput for Output {
    type Answer = Extracted<Output>;

    fn answer(meta: Meta) -> Result<Extracted<Output>, AgentError> {
        let valid = meta.outcome.output.as_ref().filter(|output| output.valid && meta.has_answered());
        match valid.map(|output| output::read(&output.value)) {
            Some(Ok(value)) => Ok(Extracted { value, meta }),
            // It was read before, to be validated.
            Some(Err(_)) | None => Err(AgentError::of(meta)),
        }
    }
}

impl<Output> Clone for Agent<Output> {
    fn clone(&self) -> Self {
        Self::over(self.runner.clone())
    }
}

impl<Output> fmt::Debug for Agent<Output> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("runner", &self.runner).finish()
    }
}
