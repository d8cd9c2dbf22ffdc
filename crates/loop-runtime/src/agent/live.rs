//! An agent at work: as a stream of events, or behind a handle.

use std::borrow::BorrowMut;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use loop_core::run::StopMode;
use loop_core::types::RunId;
use loop_llm::Message;

use crate::agent::calling::Appending;
use crate::agent::error::{AgentError, Meta};
use crate::agent::{AgentOutput, Text};
use crate::drive::handle::{Handle, Remote};
use crate::drive::stream::RunStream;
use crate::watch::events::{Events, RunEvent};

/// A running agent, as a stream of events. It continues only while it is polled.
///
/// The messages stay as they are until [`finish`](Self::finish) or [`answer`](Self::answer).
#[must_use = "a stream does nothing unless it is polled"]
pub struct AgentStream<M, Output = Text> {
    run: RunStream,
    appending: Appending,
    messages: M,
    output: PhantomData<fn() -> Output>,
}

impl<M, Output> AgentStream<M, Output>
where
    M: BorrowMut<Vec<Message>>,
    Output: AgentOutput,
{
    pub(super) fn new(run: RunStream, appending: Appending, messages: M) -> Self {
        Self { run, appending, messages, output: PhantomData }
    }

    /// The run's name.
    pub fn id(&self) -> &RunId {
        self.run.id()
    }

    /// A way to stop it and to answer its questions; heard at the next poll.
    pub fn remote(&self) -> Remote {
        self.run.remote()
    }

    /// Drives the run to its end, whatever is still to be read; appends what was said and done to the messages, and tells
    /// how it ended.
    pub async fn finish(mut self) -> Meta {
        self.appending.append(self.run.into_all().await, self.messages.borrow_mut())
    }

    /// The same, and gives the answer.
    ///
    /// # Errors
    /// Why there is none, with the cost.
    pub async fn answer(self) -> Result<Output::Answer, AgentError> {
        Output::answer(self.finish().await)
    }
}

impl<M: Unpin, Output> Stream for AgentStream<M, Output> {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        Pin::new(&mut self.run).poll_next(context)
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
    appending: Appending,
    messages: M,
    output: PhantomData<fn() -> Output>,
}

impl<M, Output> AgentHandle<M, Output>
where
    M: BorrowMut<Vec<Message>>,
    Output: AgentOutput,
{
    pub(super) fn new(handle: Handle, appending: Appending, messages: M) -> Self {
        Self { handle, appending, messages, output: PhantomData }
    }

    /// The run's name.
    pub fn id(&self) -> &RunId {
        self.handle.id()
    }

    /// What happens, in order, from the first event on; see [`Handle::events`].
    pub fn events(&mut self) -> Option<Events> {
        self.handle.events()
    }

    /// A way to stop the run and to answer its questions that outlives this handle.
    pub fn remote(&self) -> Remote {
        self.handle.remote()
    }

    /// Asks for the end: at the next gate, or now.
    pub fn stop(&self, how: StopMode) {
        self.handle.stop(how);
    }

    /// Waits for the end, appends what was said and done to the messages, and gives the answer.
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
