//! The short way to a loop: an agent that converses, or one that ends with a value of a type.

mod builder;
mod calling;
mod error;
mod output;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use loop_core::RunId;
use loop_llm::Message;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::parts::Loop;

pub use builder::{AgentBuilder, AgentModel, BuildError};
pub use calling::AgentStream;
pub use error::{AgentError, Meta};
pub use output::{OutputTool, Plain, Reflected};

/// What an agent that converses ends with: text.
#[derive(Clone, Copy, Debug)]
pub enum Text {}

/// A model with tools, within limits: it converses ([`Agent::new`]), or ends with a value of the type `Output`
/// ([`Agent::output`]). Clones share everything.
///
/// A whole program with one tool:
///
/// ```
/// use loop_runtime::{Agent, Message, Offline, ToolDeclaration};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Search { name: String }
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let search = ToolDeclaration::read("search_user", "Search users by name");
///     let agent = Agent::new(Offline::new()).tool(search, |search: Search, _| async move {
///         Ok::<_, String>(format!("15 users named {}", search.name))
///     });
///     let mut messages = vec![Message::user("Find user named Alice")];
///     let answer = agent.build()?.complete(&mut messages).await?;
/// #   assert_eq!((messages.len(), answer.meta.totals.passes), (4, 2));
///     Ok(println!("{}", answer.text))
/// }
/// ```
pub struct Agent<Output = Text> {
    looping: Loop,
    output: PhantomData<fn() -> Output>,
}

/// The final answer of a conversation.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its text.
    pub text: Arc<str>,
    /// How it came about, and the bill.
    pub meta: Meta,
}

/// A value that passed all validation.
#[derive(Clone, Debug)]
pub struct Extracted<Output> {
    /// The value.
    pub value: Output,
    /// How it came about, and the bill.
    pub meta: Meta,
}

impl<Output> Agent<Output> {
    fn over(looping: Loop) -> Self {
        Self { looping, output: PhantomData }
    }

    /// The loop behind it: handles, observers, the journal.
    pub fn looping(&self) -> &Loop {
        &self.looping
    }
}

impl Agent {
    /// An agent that converses: it calls tools until it has an answer.
    #[expect(clippy::new_ret_no_self, reason = "an agent is made with its tools, and those may be wrong")]
    pub fn new(model: impl Into<AgentModel>) -> AgentBuilder<Text> {
        AgentBuilder::conversation(model.into())
    }

    /// Answers the last of `messages`. Everything that is said and done is appended to them, whatever the end (S1-20,
    /// S1-21), and is valid for every provider.
    ///
    /// # Errors
    /// Why there is no answer, with the bill and what there is of one.
    pub async fn complete(&self, messages: &mut Vec<Message>) -> Result<Answer, AgentError> {
        self.complete_until(messages, &CancellationToken::new()).await
    }

    /// The same, until `cancel` is cancelled: then what is in flight is cut off, and it returns within two seconds.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`] then; otherwise why there is no answer.
    pub async fn complete_until(
        &self,
        messages: &mut Vec<Message>,
        cancel: &CancellationToken,
    ) -> Result<Answer, AgentError> {
        let ended = calling::drive(&self.looping, messages, cancel).await?;
        answer(calling::append(ended, messages))
    }

    /// The same by recursion: each pass is made by the one before (S1-14). Gives also the depth, which is the number of
    /// passes; it takes no more stack for ten thousand than for one (S1-d4).
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn recurse(&self, messages: &mut Vec<Message>) -> Result<(Answer, u32), AgentError> {
        let opening = calling::open(&self.looping, messages).await?;
        let (ended, depth) = self.looping.descend(opening).await;
        Ok((answer(calling::append(ended, messages))?, depth))
    }

    /// The same as a stream of events that goes on only while it is polled.
    ///
    /// # Errors
    /// When it cannot begin.
    pub async fn stream<'a>(&self, messages: &'a mut Vec<Message>) -> Result<AgentStream<'a>, AgentError> {
        Ok(AgentStream::begin(&self.looping, messages).await?)
    }

    /// Takes up a run whose program ended before it did, from the journal that the agent writes to: what was in flight is
    /// settled as lost, nothing that was written down is asked for again, and it goes on to its end. `messages` become
    /// everything that was said, from the beginning.
    ///
    /// # Errors
    /// Why there is no answer; [`AgentError::Start`] where the journal has no such run, or another agent began it.
    pub async fn resume(&self, run: &RunId, messages: &mut Vec<Message>) -> Result<Answer, AgentError> {
        answer(calling::resume(&self.looping, run, messages).await?)
    }

    /// Works conversations off, at most `concurrency` at a time, each to its own end. Yields each one's place, its
    /// messages and its answer as they end.
    pub fn queue<S>(
        &self,
        conversations: S,
        concurrency: usize,
    ) -> impl Stream<Item = (usize, Vec<Message>, Result<Answer, AgentError>)> + use<S>
    where
        S: Stream<Item = Vec<Message>>,
    {
        let agent = self.clone();
        let one = move |(n, mut messages): (usize, Vec<Message>)| {
            let agent = agent.clone();
            async move {
                let answer = agent.complete(&mut messages).await;
                (n, messages, answer)
            }
        };
        conversations.enumerate().map(one).buffer_unordered(concurrency.max(1))
    }
}

impl<Output: DeserializeOwned> Agent<Output> {
    /// An agent that ends with the value that it gives to `tool`, once that is valid.
    pub fn output<Mode>(
        model: impl Into<AgentModel>,
        tool: OutputTool<Output, Mode>,
    ) -> AgentBuilder<Output> {
        AgentBuilder::ending_with(model.into(), tool.into_parts())
    }

    /// The value that `prompt` asks for.
    ///
    /// # Errors
    /// Why there is none, with the bill.
    pub async fn run(&self, prompt: impl Into<Arc<str>>) -> Result<Extracted<Output>, AgentError> {
        self.run_on(&mut vec![Message::user(prompt)]).await
    }

    /// The value that `messages` ask for. Everything that is said and done is appended to them.
    ///
    /// # Errors
    /// Why there is none, with the bill.
    pub async fn run_on(&self, messages: &mut Vec<Message>) -> Result<Extracted<Output>, AgentError> {
        self.run_until(messages, &CancellationToken::new()).await
    }

    /// The same, until `cancel` is cancelled: then what is in flight is cut off, and it returns within two seconds.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`] then; otherwise why there is no value.
    pub async fn run_until(
        &self,
        messages: &mut Vec<Message>,
        cancel: &CancellationToken,
    ) -> Result<Extracted<Output>, AgentError> {
        let ended = calling::drive(&self.looping, messages, cancel).await?;
        extracted(calling::append(ended, messages))
    }

    /// The same by recursion, with the depth: the number of passes.
    ///
    /// # Errors
    /// Why there is no value.
    pub async fn recurse_on(
        &self,
        messages: &mut Vec<Message>,
    ) -> Result<(Extracted<Output>, u32), AgentError> {
        let opening = calling::open(&self.looping, messages).await?;
        let (ended, depth) = self.looping.descend(opening).await;
        Ok((extracted(calling::append(ended, messages))?, depth))
    }

    /// Takes up a run whose program ended before it did, as [`Agent::resume`] does.
    ///
    /// # Errors
    /// Why there is no value; [`AgentError::Start`] where the journal has no such run, or another agent began it.
    pub async fn resume_on(
        &self,
        run: &RunId,
        messages: &mut Vec<Message>,
    ) -> Result<Extracted<Output>, AgentError> {
        extracted(calling::resume(&self.looping, run, messages).await?)
    }

    /// The same as a stream of events that goes on only while it is polled.
    ///
    /// # Errors
    /// When it cannot begin.
    pub async fn stream_on<'a>(&self, messages: &'a mut Vec<Message>) -> Result<AgentStream<'a>, AgentError> {
        Ok(AgentStream::begin(&self.looping, messages).await?)
    }
}

fn answer(meta: Meta) -> Result<Answer, AgentError> {
    match (meta.has_answered(), meta.outcome.answer.clone()) {
        (true, Some(text)) => Ok(Answer { text, meta }),
        _ => Err(AgentError::of(meta)),
    }
}

fn extracted<Output: DeserializeOwned>(meta: Meta) -> Result<Extracted<Output>, AgentError> {
    let valid = meta.outcome.output.as_ref().filter(|output| output.valid && meta.has_answered());
    match valid.map(|output| output::read(&output.value)) {
        Some(Ok(value)) => Ok(Extracted { value, meta }),
        // It was read before, to be validated.
        Some(Err(_)) | None => Err(AgentError::of(meta)),
    }
}

impl<Output> Clone for Agent<Output> {
    fn clone(&self) -> Self {
        Self::over(self.looping.clone())
    }
}

impl<Output> fmt::Debug for Agent<Output> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("looping", &self.looping).finish()
    }
}
