//! A request to an agent: the messages that it answers, its cancellation, and how it is driven.

use std::borrow::BorrowMut;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;

use futures::FutureExt;
use futures::future::BoxFuture;
use loop_core::types::RunId;
use loop_llm::Message;
use tokio_util::sync::CancellationToken;

use crate::agent::calling::{MessageAppender, begin_with};
use crate::agent::error::AgentError;
use crate::agent::live::{AgentHandle, AgentStream, ToolEvents};
use crate::agent::{AgentOutput, Text};
use crate::drive::approval;
use crate::drive::driver::{Opening, Pace};
use crate::drive::handle::{Handle, ReadyRun};
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;
use crate::drive::stream::RunStream;

impl Runner {
    /// A request that answers the last message of `history` with this runner. The new turns are appended to it, however
    /// the run ends, and the next request continues from there.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, Message, RunSpec, agent::AgentEvent, models::{ModelSpec, Models, Offline}, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::conversation("help", ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// use futures::StreamExt;
    ///
    /// let mut messages = vec![Message::user("Good morning")];
    /// let mut turn = runner.chat(&mut messages).events().await?;
    /// while let Some(event) = turn.next().await {
    ///     if let AgentEvent::Text { text, .. } = event {
    ///         print!("{text}");
    ///     }
    /// }
    /// let meta = turn.finish().await;
    /// # assert_eq!((meta.totals.passes, messages.len()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn chat<'h>(&self, history: &'h mut Vec<Message>) -> AgentRequest<&'h mut Vec<Message>> {
        AgentRequest::new(self.clone(), history)
    }
}

/// A request to an agent, as [`Agent::prompt`](crate::Agent::prompt) and [`Agent::chat`](crate::Agent::chat) make it.
///
/// Nothing happens until it is driven, in one of three ways, which leave the same journal and the same messages:
///
/// - **awaited**, it gives the answer; dropping its future ends the run;
/// - [`start`](Self::start) gives a handle to a run that continues by itself;
/// - [`events`](Self::events) gives the events of a run that continues only while it is polled.
///
/// `M` holds the messages: a `Vec<Message>` of its own, or the caller's `&mut Vec<Message>`.
#[must_use = "a request does nothing until it is awaited, started or streamed"]
pub struct AgentRequest<M, Output = Text> {
    runner: Runner,
    messages: M,
    resumed: Option<RunId>,
    cancel: Option<CancellationToken>,
    output: PhantomData<fn() -> Output>,
}

impl<M, Output> AgentRequest<M, Output> {
    pub(super) fn new(runner: Runner, messages: M) -> Self {
        Self { runner, messages, resumed: None, cancel: None, output: PhantomData }
    }

    /// The same request with a token. When `cancel` is cancelled, calls in flight are cut off, and the request ends
    /// within two seconds with [`AgentError::Cancelled`].
    ///
    /// ```
    /// # use loop_runtime::{Agent, agent::AgentError, models::Offline, run::CancellationToken};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::new(Offline::new()).build()?;
    /// let cancel = CancellationToken::new();
    /// cancel.cancel();
    /// let error = agent.prompt("Search user Alice").until(&cancel).await.unwrap_err();
    /// assert!(matches!(error, AgentError::Cancelled { phase: "start", .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn until(self, cancel: &CancellationToken) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }
}

impl<Output> AgentRequest<&mut Vec<Message>, Output> {
    /// Resumes `run`, whose program ended before it did, from the journal of the agent. Calls that were in flight are
    /// settled as lost, nothing that was journaled is requested again, and the run continues to its end.
    ///
    /// The messages of the request are not used. They are replaced by the whole conversation of the run. If the journal
    /// has no such run, or another agent began it, the request ends with [`AgentError::Start`] and the messages stay as
    /// they are.
    pub fn resume(self, run: &RunId) -> Self {
        Self { resumed: Some(run.clone()), ..self }
    }
}

impl<M, Output> AgentRequest<M, Output>
where
    M: BorrowMut<Vec<Message>> + Send,
    Output: AgentOutput,
{
    /// Starts a run that continues by itself, and returns a handle to it. [`AgentHandle::wait`] appends the new turns
    /// to the messages.
    ///
    /// ```
    /// # use loop_runtime::{Agent, Message, models::Offline};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::new(Offline::new()).build()?;
    /// let mut history = vec![Message::user("Good morning")];
    /// let handle = agent.chat(&mut history).start().await?;
    /// println!("{} is on its way", handle.id());
    /// let answer = handle.wait().await?;
    /// assert_eq!((answer.meta.totals.passes, history.len()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When it cannot begin.
    pub async fn start(mut self) -> Result<AgentHandle<M, Output>, StartError> {
        let (opening, appending) = Box::pin(self.open()).await?;
        let begun = self.begin(opening, Pace::Own);
        Ok(AgentHandle::new(Handle::spawn(begun), appending, self.messages))
    }

    /// Starts a run that continues only while it is polled, as a stream of events. [`AgentStream::finish`] appends the
    /// new turns to the messages.
    ///
    /// ```
    /// # use loop_runtime::{Agent, agent::AgentEvent, models::Offline};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::new(Offline::new()).build()?;
    /// use futures::StreamExt;
    ///
    /// let mut run = agent.prompt("Good morning").events().await?;
    /// while let Some(event) = run.next().await {
    ///     match event {
    ///         AgentEvent::Text { text, .. } => print!("{text}"),
    ///         AgentEvent::Tool { tool, result: None, .. } => println!("[{tool} …]"),
    ///         AgentEvent::Tool { tool, result: Some(result), .. } => println!("[{tool}: {result}]"),
    ///         AgentEvent::Run(_) => {}
    ///     }
    /// }
    /// let answer = run.answer().await?;
    /// # assert_eq!(answer.meta.totals.passes, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When it cannot begin.
    pub async fn events(mut self) -> Result<AgentStream<M, Output>, StartError> {
        let tools = ToolEvents::default();
        self.runner = self.runner.clone().with_observer(tools.observer());
        let (opening, appending) = Box::pin(self.open()).await?;
        let begun = self.begin(opening, Pace::InStep);
        Ok(AgentStream::new(RunStream::new(begun), tools, appending, self.messages))
    }

    async fn answered(mut self) -> Result<Output::Answer, AgentError> {
        let (opening, appending) = Box::pin(self.open()).await?;
        let ReadyRun { events, remote, driving, .. } = self.begin(opening, Pace::Own);
        // Nothing reads them, and nothing else can stop it.
        drop((events, remote));
        let ended = driving.await;
        Output::answer(appending.append(ended, self.messages.borrow_mut()))
    }

    fn begin(&self, opening: Opening, pace: Pace) -> ReadyRun {
        approval::begin(&self.runner, opening, pace, self.cancel.as_ref())
    }

    /// The run that it comes to, and how its messages are appended. Those of a resumed run are what was said before it.
    ///
    /// Callers box it: what is needed until a run begins would stay part of their future for as long as the run takes.
    async fn open(&mut self) -> Result<(Opening, MessageAppender), StartError> {
        let messages: &mut Vec<Message> = self.messages.borrow_mut();
        match &self.resumed {
            None => {
                let appending = MessageAppender::to(messages);
                let (item, history) = begin_with(messages)?;
                Ok((self.runner.open(item, history).await?, appending))
            }
            Some(run) => {
                let opening = self.runner.reopen(run).await?;
                *messages = opening.history.to_vec();
                Ok((opening, MessageAppender::default()))
            }
        }
    }
}

impl<Output: AgentOutput> IntoFuture for AgentRequest<Vec<Message>, Output> {
    type Output = Result<Output::Answer, AgentError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.answered().boxed()
    }
}

impl<'h, Output: AgentOutput> IntoFuture for AgentRequest<&'h mut Vec<Message>, Output> {
    type Output = Result<Output::Answer, AgentError>;
    type IntoFuture = BoxFuture<'h, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.answered().boxed()
    }
}

impl<M, Output> fmt::Debug for AgentRequest<M, Output> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRequest")
            .field("runner", &self.runner)
            .field("resumed", &self.resumed)
            .finish_non_exhaustive()
    }
}
