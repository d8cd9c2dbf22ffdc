//! An agent at work: as a stream of events, or behind a handle.

use std::borrow::BorrowMut;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use loop_core::run::{Phase, StopMode};
use loop_core::types::{CommandKey, RunId};
use loop_core::{Command, Note, Run};
use loop_journal::Entry;
use loop_llm::Message;
use loop_prompts::observation_text;

use crate::agent::calling::Appending;
use crate::agent::error::{AgentError, Meta};
use crate::agent::{AgentOutput, Text};
use crate::drive::approval::Beside;
use crate::drive::handle::{Handle, Remote};
use crate::drive::stream::RunStream;
use crate::watch::events::RunEvent;

/// What happens while an agent works.
#[derive(Clone, Debug)]
pub enum AgentEvent {
    /// A piece of the visible text of a reply that is still being received. The text begins anew where the key or the attempt
    /// is another: with the next reply, and with another try of one that broke off.
    Text {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The next piece.
        text: Arc<str>,
    },
    /// A tool is about to run, and later it has returned. A call that is refused is never run; the recorded entries have every
    /// verdict.
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
    /// The event as the run's own stream has it. `None`: it is shown by a recorded entry.
    pub fn into_run(self) -> Option<RunEvent> {
        match self {
            Self::Text { key, attempt, text } => Some(RunEvent::Text { key, attempt, text }),
            Self::Tool { .. } => None,
            Self::Run(event) => Some(event),
        }
    }

    /// What an entry, which `run` has just applied, tells of tools; `begun` are the calls that were shown before.
    fn of_tools(run: &Run, entry: &Entry, begun: &mut Vec<(CommandKey, u32)>) -> Vec<Self> {
        let settled = |note: &Note| {
            let Note::ActionSettled { evidence, .. } = note else { return None };
            let action = run.actions().iter().rfind(|action| action.evidence == Some(*evidence))?;
            let (tool, input) = (action.tool_name().into(), (&*action.parameters).into());
            let result = observation_text(run, action, run.observation(*evidence)?);
            Some(Self::Tool { tool, input, result: Some(result) })
        };
        let mut events: Vec<Self> = entry.notes.iter().filter_map(settled).collect();
        let Phase::Running { batch, .. } = run.phase() else { return events };
        for command in run.commands() {
            let Command::RunTool(call) = command else { continue };
            // One that is asked again whether it is ready was shown before.
            let work = batch.work.iter().find(|work| work.key == call.key && work.poll.is_none());
            let Some(work) = work.filter(|work| !begun.contains(&(work.key, work.action))) else { continue };
            begun.push((work.key, work.action));
            let (tool, input) = (Arc::clone(&call.tool), (&*call.parameters).into());
            events.push(Self::Tool { tool, input, result: None });
        }
        events
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

/// A running agent, as a stream of events. It continues only while it is polled.
///
/// The messages stay as they are until [`finish`](Self::finish) or [`answer`](Self::answer).
#[must_use = "a stream does nothing unless it is polled"]
pub struct AgentStream<M, Output = Text> {
    run: RunStream,
    beside: Beside,
    /// The calls of tools that were shown, with the positions of their actions.
    begun: Vec<(CommandKey, u32)>,
    /// What waits to be given out, in order.
    shown: VecDeque<AgentEvent>,
    appending: Appending,
    messages: M,
    output: PhantomData<fn() -> Output>,
}

impl<M, Output> AgentStream<M, Output>
where
    M: BorrowMut<Vec<Message>>,
    Output: AgentOutput,
{
    pub(super) fn new(run: RunStream, beside: Beside, appending: Appending, messages: M) -> Self {
        let (begun, shown) = Default::default();
        Self { run, beside, begun, shown, appending, messages, output: PhantomData }
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
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        if let Some(event) = self.shown.pop_front() {
            return Poll::Ready(Some(event));
        }
        let Some(event) = ready!(Pin::new(&mut self.run).poll_next(context)) else {
            return Poll::Ready(None);
        };
        let Self { beside, begun, shown, .. } = &mut *self;
        if let Some(entry) = beside.hear(&event) {
            shown.extend(AgentEvent::of_tools(&beside.run, entry, begun));
        }
        Poll::Ready(Some(event.into()))
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
