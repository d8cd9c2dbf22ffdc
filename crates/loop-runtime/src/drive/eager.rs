//! Eager reads: the calls of a reply are collected while it streams, and the driver asks the core about each.
//!
//! Nothing is decided here. The core decides whether a call may start, and the driver journals the announcement first.

use std::collections::VecDeque;
use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::spec::MAX_REQUESTED_CALLS;
use loop_core::types::{Arguments, CommandKey};
use loop_llm::ModelEvent;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A call that is complete in a reply that is still being received.
#[derive(Debug)]
pub(crate) struct EarlyCall {
    /// The key and the try of the model call.
    pub(crate) call: (CommandKey, u32),
    /// Its number in the reply, from 0.
    nth: u32,
    /// The tool's name as the model wrote it.
    pub(crate) name: Arc<str>,
    /// The arguments as the model wrote them.
    pub(crate) arguments: Arguments,
}

/// Collects the calls of one reply from its events.
#[derive(Debug)]
pub(crate) struct Collector {
    call: (CommandKey, u32),
    sender: UnboundedSender<EarlyCall>,
    open: Vec<(Arc<str>, String)>,
}

impl Collector {
    /// Takes the next event of the reply.
    pub(crate) fn hear(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::ToolCallStarted { nth, name }
                if *nth < MAX_REQUESTED_CALLS && *nth as usize == self.open.len() =>
            {
                self.open.push((Arc::clone(name), String::new()));
            }
            ModelEvent::ToolArgumentsDelta { nth, text } => {
                if let Some((_, arguments)) = self.open.get_mut(*nth as usize) {
                    arguments.push_str(text);
                }
            }
            ModelEvent::ToolCallCompleted { nth } => {
                // Arguments may follow under another index, so a call without any is not early.
                if let Some((name, arguments)) = self.open.get_mut(*nth as usize)
                    && !arguments.trim().is_empty()
                {
                    let (name, arguments) = (Arc::clone(name), std::mem::take(arguments));
                    let early = EarlyCall { call: self.call, nth: *nth, name, arguments: arguments.into() };
                    // A driver that is gone starts nothing.
                    _ = self.sender.send(early);
                }
            }
            _ => {}
        }
    }
}

/// The complete calls that the core has not been asked about, in their order.
#[derive(Debug)]
pub(crate) struct EarlyCalls {
    /// `None`: nothing of this run starts early.
    queue: Option<(UnboundedSender<EarlyCall>, UnboundedReceiver<EarlyCall>)>,
    waiting: VecDeque<EarlyCall>,
    /// The model call whose calls were started last, and how many of them. `None` in place of the number: no more of
    /// them are started.
    begun: Option<((CommandKey, u32), Option<u32>)>,
}

impl EarlyCalls {
    /// Whether anything may start early follows from the spec.
    pub(crate) fn new(spec: &RunSpec) -> Self {
        let is_on = spec.starts_reads_early() && spec.tools.iter().any(|tool| tool.policy.cheap);
        Self { queue: is_on.then(unbounded_channel), waiting: VecDeque::new(), begun: None }
    }

    /// Whether calls of this run may start early.
    pub(crate) fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// What collects the calls of this model call. `None`: none of them may start early.
    pub(crate) fn collector(&self, call: (CommandKey, u32)) -> Option<Collector> {
        let (sender, _) = self.queue.as_ref()?;
        Some(Collector { call, sender: sender.clone(), open: Vec::new() })
    }

    /// Waits until a call is complete. Returns at once where nothing may start early.
    pub(crate) async fn arrives(&mut self) {
        let Some((_, receiver)) = &mut self.queue else { return };
        // The queue has a sender of its own, so it never ends.
        if let Some(early) = receiver.recv().await {
            self.waiting.push_back(early);
        }
    }

    /// The next call to ask the core about.
    pub(crate) fn next(&mut self) -> Option<&EarlyCall> {
        while let Some(early) = self.waiting.front() {
            let begun = match self.begun {
                Some((call, begun)) if call == early.call => begun,
                _ => Some(0),
            };
            if begun == Some(early.nth) {
                break;
            }
            // A call before it was not started, so it is not either.
            self.refuse();
        }
        self.waiting.front()
    }

    /// The next call was started.
    pub(crate) fn start(&mut self) {
        if let Some(early) = self.waiting.pop_front() {
            self.begun = Some((early.call, Some(early.nth.saturating_add(1))));
        }
    }

    /// The next call and those after it in its reply are not started.
    pub(crate) fn refuse(&mut self) {
        if let Some(early) = self.waiting.pop_front() {
            self.begun = Some((early.call, None));
        }
    }
}
