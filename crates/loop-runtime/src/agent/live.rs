//! An agent at work: as a stream of events, or behind a handle.

use std::borrow::BorrowMut;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use loop_core::run::StopMode;
use loop_core::types::{CommandKey, RunId};
use loop_llm::Message;

use crate::agent::calling::MessageAppender;
use crate::agent::error::{AgentError, Meta};
use crate::agent::{AgentOutput, Text};
use crate::drive::handle::{Handle, Remote};
use crate::drive::stream::RunStream;
use crate::watch::events::RunEvent;
use crate::watch::observer::Observer;
use crate::watch::steps::{Step, steps};

/// What happens while an agent works.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    /// A piece of the visible text of a reply that is still being received. The text starts again when the key or the
    /// attempt changes: with the next reply, and with another try of one that broke off.
    Text {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The next piece.
        text: Arc<str>,
    },
    /// A tool is about to run, or has returned: there is one event for each. A refused call has none. The recorded
    /// entries have every verdict.
    Tool {
        /// The tool's name.
        tool: Arc<str>,
        /// Its input, as JSON.
        input: Arc<str>,
        /// The result as the model receives it. `None`: the tool is about to run.
        result: Option<Arc<str>>,
    },
    /// Everything else: each recorded entry with the decisions in it, reasoning, what a call waits for.
    Run(RunEvent),
}

impl AgentEvent {
    /// The event as the run's own stream has it. `None`: that stream has it as part of a recorded entry.
    pub fn into_run(self) -> Option<RunEvent> {
        match self {
            Self::Text { key, attempt, text } => Some(RunEvent::Text { key, attempt, text }),
            Self::Tool { .. } => None,
            Self::Run(event) => Some(event),
        }
    }
}

impl From<RunEvent> for AgentEvent {
    fn from(event: RunEvent) -> Self {
        match event {
            RunEvent::Text { key, attempt, text } => Self::Text { key, attempt, text },
            other => Self::Run(other),
        }
    }
}

/// What the tools of a run do, as its driver tells it, until the stream gives it out.
#[derive(Clone, Default)]
pub(super) struct ToolEvents(Arc<Mutex<VecDeque<AgentEvent>>>);

impl ToolEvents {
    /// The observer that receives them.
    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        let queue = Arc::clone(&self.0);
        steps(move |_, step| {
            let (tool, input, result) = match step {
                Step::ToolCall { tool, input } => (tool, input, None),
                Step::ToolResult { tool, input, result } => (tool, input, Some(result.into())),
                _ => return Ok(()),
            };
            let event = AgentEvent::Tool { tool: tool.into(), input: input.into(), result };
            queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
            Ok(())
        })
    }

    fn next(&self) -> Option<AgentEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A running agent, as a stream of events. It continues only while it is polled.
///
/// The messages stay as they are until [`finish`](Self::finish) or [`answer`](Self::answer).
#[must_use = "a stream does nothing unless it is polled"]
pub struct AgentStream<M, Output = Text> {
    run: RunStream,
    tools: ToolEvents,
    appending: MessageAppender,
    messages: M,
    output: PhantomData<fn() -> Output>,
}

impl<M, Output> AgentStream<M, Output>
where
    M: BorrowMut<Vec<Message>>,
    Output: AgentOutput,
{
    pub(super) fn new(run: RunStream, tools: ToolEvents, appending: MessageAppender, messages: M) -> Self {
        Self { run, tools, appending, messages, output: PhantomData }
    }

    /// The run's name.
    pub fn id(&self) -> &RunId {
        self.run.id()
    }

    /// A remote to stop the run and to answer its questions. It takes effect at the next poll.
    pub fn remote(&self) -> Remote {
        self.run.remote()
    }

    /// Drives the run to its end without yielding further events, appends the new turns to the messages, and returns
    /// how the run ended.
    pub async fn finish(mut self) -> Meta {
        self.appending.append(self.run.into_all().await, self.messages.borrow_mut())
    }

    /// The same as [`finish`](Self::finish), and returns the answer.
    ///
    /// # Errors
    /// Why there is none, with the cost.
    pub async fn answer(self) -> Result<Output::Answer, AgentError> {
        Output::answer(self.finish().await)
    }
}

impl<M: Unpin, Output> Stream for AgentStream<M, Output> {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        if let Some(event) = self.tools.next() {
            return Poll::Ready(Some(event));
        }
        match Pin::new(&mut self.run).poll_next(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(event.into())),
            Poll::Ready(None) => Poll::Ready(self.tools.next()),
            // The poll may have started a tool.
            Poll::Pending => self.tools.next().map_or(Poll::Pending, |event| Poll::Ready(Some(event))),
        }
    }
}

impl<M, Output> fmt::Debug for AgentStream<M, Output> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentStream").field("run", &self.run).finish_non_exhaustive()
    }
}

/// A running agent on a task of its own. It can be watched, stopped and awaited. Dropping the handle lets the run
/// continue, and the messages stay as they were.
pub struct AgentHandle<M, Output = Text> {
    handle: Handle,
    appending: MessageAppender,
    messages: M,
    output: PhantomData<fn() -> Output>,
}

impl<M, Output> AgentHandle<M, Output>
where
    M: BorrowMut<Vec<Message>>,
    Output: AgentOutput,
{
    pub(super) fn new(handle: Handle, appending: MessageAppender, messages: M) -> Self {
        Self { handle, appending, messages, output: PhantomData }
    }

    /// The run's name.
    pub fn id(&self) -> &RunId {
        self.handle.id()
    }

    /// A remote to stop the run and to answer its questions. It outlives this handle.
    pub fn remote(&self) -> Remote {
        self.handle.remote()
    }

    /// Requests a stop: at the next gate, or now.
    pub fn stop(&self, how: StopMode) {
        self.handle.stop(how);
    }

    /// Waits for the end, appends the new turns to the messages, and returns the answer.
    ///
    /// # Errors
    /// Why there is none, with the cost.
    ///
    /// # Panics
    /// When the driver itself panicked, or its runtime was shut down before the end.
    pub async fn wait(mut self) -> Result<Output::Answer, AgentError> {
        let ended = self.handle.wait_for_all().await;
        Output::answer(self.appending.append(ended, self.messages.borrow_mut()))
    }
}

impl<M, Output> fmt::Debug for AgentHandle<M, Output> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentHandle").field("handle", &self.handle).finish_non_exhaustive()
    }
}
