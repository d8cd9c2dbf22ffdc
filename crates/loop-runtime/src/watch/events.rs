//! What a listener receives of a run while it continues, and the bounded queue in which it waits for the listener.
//!
//! A queue never holds a run up. When half of it is taken, pieces of replies are left out; when all of it is taken,
//! recorded entries too. How many were left out is reported at the place where they would have been, at the latest when
//! the run ends, and every entry can be read in the journal.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use futures::Stream;
use loop_core::EventKind;
use loop_core::run::{PersonAnswer, StopMode};
use loop_core::types::FailureKind;
use loop_core::types::{Approver, CommandKey, Digest, RunId};
use loop_journal::Entry;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Something that happened in a run. Exhaustive by intent: an observer decides about each kind.
#[derive(Clone, Debug)]
pub enum RunEvent {
    /// An event was applied, and it is durable.
    Recorded(Arc<Entry>),
    /// A piece of the visible text of a reply that is still being received.
    Text {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1. The text starts again with each try.
        attempt: u32,
        /// The next piece of the try's text. It follows without a gap, unless [`LostCounts`](Self::Lost) came between.
        text: Arc<str>,
    },
    /// A piece of a reply that is still coming and is not its visible text: reasoning, and calls of tools.
    ///
    /// It is for people who watch, and nothing is decided by it: a call that is shown here may still be cut off, and
    /// runs only once the whole reply is recorded and judged. Secrets are masked as in [`Text`](Self::Text), and where a
    /// listener is slow these pieces are left out before any other.
    Part {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1. The pieces start again with each try.
        attempt: u32,
        /// The piece.
        part: ReplyPart,
    },
    /// A model call has no reply yet, or its reply has paused. It is not journaled.
    Call {
        /// The call's key.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// What the call waits for.
        news: CallNews,
    },
    /// Events were left out here, because the observer was too slow.
    Lost {
        /// How many pieces of replies and news of calls were left out.
        texts: u64,
        /// How many recorded entries were left out. The journal has them; the sequence numbers show which.
        entries: u64,
    },
}

/// A piece of a reply other than its visible text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyPart {
    /// A piece of the reasoning, where the provider shows it.
    Reasoning {
        /// The next piece. It follows without a gap, unless [`LostCounts`](RunEvent::Lost) came between.
        text: Arc<str>,
    },
    /// The reply begins a native tool call.
    ToolCall {
        /// The position of the call in the reply, from 0.
        nth: u32,
        /// The tool's name as the model wrote it. It may not exist.
        name: Arc<str>,
    },
    /// A piece of a call's arguments. They are complete only at the end, and may then be invalid.
    Arguments {
        /// The position of the call in the reply, from 0.
        nth: u32,
        /// The next piece. It follows without a gap, unless [`LostCounts`](RunEvent::Lost) came between.
        text: Arc<str>,
    },
}

impl ReplyPart {
    /// Its text.
    pub fn text(&self) -> &Arc<str> {
        match self {
            Self::Reasoning { text } | Self::Arguments { text, .. } => text,
            Self::ToolCall { name, .. } => name,
        }
    }
}

/// What a model call under way waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallNews {
    /// A try failed before the reply began, and the client tries again by itself. The run's attempt stays the same.
    Retrying {
        /// The client's next try, from 2.
        next_try: u32,
        /// Milliseconds until that try.
        wait_ms: u64,
        /// The kind of failure of the last try, for example `rate_limited`.
        kind: FailureKind,
        /// The HTTP status of that failure, for example 429. `None`: it had none.
        status: Option<u16>,
        /// The provider's message.
        message: Arc<str>,
    },
    /// The call waits for a rate limit.
    Queued {
        /// The least time to wait, in milliseconds. `None`: not known.
        wait_ms: Option<u64>,
    },
    /// The wait has ended, and the request is sent.
    Sent,
    /// The provider has sent nothing for some time.
    Silent {
        /// Milliseconds since the request was sent, or since the last piece of the reply.
        for_ms: u64,
    },
}

/// What is asked of a run from outside.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Stop(StopMode),
    WithdrawStop,
    Answer(Box<Answer>),
    Approve(Box<Approval>),
    Tell(Arc<str>),
    /// What was asked in another process, under the id of the request.
    Remote(Box<(Arc<str>, EventKind)>),
}

/// What a person answers to a question of a run.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) key: CommandKey,
    pub(crate) answer: PersonAnswer,
    /// What the person saw. `None`: they did not say.
    pub(crate) binding: Option<Digest>,
}

/// An approval of a known person.
#[derive(Clone, Debug)]
pub(crate) struct Approval {
    pub(crate) key: CommandKey,
    pub(crate) by: Approver,
    /// What the person saw.
    pub(crate) binding: Digest,
}

/// What happens in one run, in order, from the first event on. As a stream or by [`recv`](Self::recv).
#[derive(Debug)]
pub struct Events {
    receiver: UnboundedReceiver<QueuedEvent>,
    load: Arc<Load>,
    /// What comes after the count that was given out.
    held: Option<RunEvent>,
}

/// Puts the events of one run into a queue. Clones share the place in it.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    place: Arc<Subscriber>,
}

/// One run's place in a queue.
#[derive(Debug)]
struct Subscriber {
    /// The run, where the queue is of several.
    run: Option<RunId>,
    /// Without a bound of its own, since the end of a run must be reported however full it is; [`Load`] holds it down.
    sender: UnboundedSender<QueuedEvent>,
    load: Arc<Load>,
    lost: LostCounts,
}

/// An event under way.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    /// The run, where the queue is of several.
    pub(crate) run: Option<RunId>,
    /// What was left out before it. Seldom there, and each event has the space.
    pub(crate) lost: Option<Box<RunEvent>>,
    pub(crate) event: RunEvent,
}

/// What a queue holds and held.
#[derive(Debug)]
pub(crate) struct Load {
    /// How many the listener has taken; it alone counts them.
    taken: AtomicU64,
    text_bytes: AtomicU64,
    most_text_bytes: u64,
    pub(crate) reported: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// What was left out of one run's events and not reported yet.
#[derive(Debug, Default)]
struct LostCounts {
    texts: AtomicU64,
    entries: AtomicU64,
}

impl Events {
    /// A queue for one listener to one run, that never waits for the listener.
    pub(crate) fn queue() -> (Feed, Self) {
        Self::with_load(Load::new(MAX_TEXT_BYTES))
    }

    /// A queue whose listener drives the run: it is emptied before more can come.
    pub(crate) fn in_step() -> (Feed, Self) {
        Self::with_load(Load::new(u64::MAX))
    }

    fn with_load(load: Load) -> (Feed, Self) {
        let (sender, receiver) = unbounded_channel();
        let load = Arc::new(load);
        (Feed::new(None, sender, Arc::clone(&load)), Self { receiver, load, held: None })
    }

    /// The next event. `None` when the run is over and every event was received.
    pub async fn recv(&mut self) -> Option<RunEvent> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The next event if it is there.
    pub(crate) fn waiting(&mut self) -> Option<RunEvent> {
        // Asked at every poll of a run, and most of the time there is none.
        if self.held.is_none() && self.load.waiting() == 0 {
            return None;
        }
        self.held.take().or_else(|| self.receiver.try_recv().ok().map(|queued| self.unpacked(queued)))
    }

    fn unpacked(&mut self, queued: QueuedEvent) -> RunEvent {
        self.load.taken(&queued.event);
        match queued.lost {
            Some(lost) => {
                self.held = Some(queued.event);
                *lost
            }
            None => queued.event,
        }
    }
}

impl Stream for Events {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        if let Some(event) = self.held.take() {
            return Poll::Ready(Some(event));
        }
        let queued = ready!(self.receiver.poll_recv(context));
        Poll::Ready(queued.map(|queued| self.unpacked(queued)))
    }
}

impl Feed {
    /// The place of a run in a queue. `run` is named where the queue is of several.
    pub(crate) fn new(run: Option<RunId>, sender: UnboundedSender<QueuedEvent>, load: Arc<Load>) -> Self {
        Self { place: Arc::new(Subscriber { run, sender, load, lost: LostCounts::default() }) }
    }

    /// Queues an event, or leaves it out and counts it. Never waits.
    pub(crate) fn tell(&self, event: RunEvent) {
        if self.is_gone() {
            return;
        }
        if self.place.load.admits(&event) {
            let lost = self.place.lost.take();
            self.place.queue(lost, event);
        } else {
            self.place.leave_out(&event);
        }
    }

    /// Whether the listener is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.place.sender.is_closed()
    }
}

impl Subscriber {
    fn queue(&self, lost: Option<RunEvent>, event: RunEvent) {
        self.load.added(&event);
        // A listener that goes away in this moment receives nothing.
        self.sender.send(QueuedEvent { run: self.run.clone(), lost: lost.map(Box::new), event }).ok();
    }

    fn leave_out(&self, event: &RunEvent) {
        let of = match event {
            RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Call { .. } => &self.lost.texts,
            RunEvent::Recorded(_) | RunEvent::Lost { .. } => &self.lost.entries,
        };
        of.fetch_add(1, Ordering::Relaxed);
        self.load.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Subscriber {
    /// What was left out at the very end has nothing behind it that could tell of it.
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            self.queue(None, lost);
        }
    }
}

impl Load {
    pub(crate) fn new(most_text_bytes: u64) -> Self {
        let (taken, text_bytes, reported, lost) = Default::default();
        Self { taken, text_bytes, most_text_bytes, reported, lost }
    }

    /// How many events wait.
    fn waiting(&self) -> usize {
        // In this order, so that none is taken that was not reported.
        let taken = self.taken.load(Ordering::Acquire);
        let waiting = self.reported.load(Ordering::Acquire).saturating_sub(taken);
        usize::try_from(waiting).unwrap_or(usize::MAX)
    }

    /// Whether there is room for an event.
    fn admits(&self, event: &RunEvent) -> bool {
        let waiting = self.waiting();
        match event {
            RunEvent::Text { text, .. } => {
                let bytes = self.text_bytes.load(Ordering::Relaxed).saturating_add(text.len() as u64);
                waiting < MAX_EVENTS / 2 && bytes <= self.most_text_bytes
            }
            // What is shown besides the text never takes the room of the text.
            RunEvent::Part { part, .. } => {
                let bytes = self.text_bytes.load(Ordering::Relaxed).saturating_add(part.text().len() as u64);
                waiting < MAX_EVENTS / 4 && bytes <= self.most_text_bytes / 2
            }
            RunEvent::Call { .. } => waiting < MAX_EVENTS / 2,
            RunEvent::Recorded(_) | RunEvent::Lost { .. } => waiting < MAX_EVENTS,
        }
    }

    /// Whether bytes are counted: where the listener drives the run, they have no bound.
    fn has_text_bound(&self) -> bool {
        self.most_text_bytes < u64::MAX
    }

    fn added(&self, event: &RunEvent) {
        self.reported.fetch_add(1, Ordering::Release);
        if self.has_text_bound() {
            self.text_bytes.fetch_add(text_bytes(event), Ordering::Relaxed);
        }
    }

    /// Makes the room of an event free again. Only the listener calls it.
    pub(crate) fn taken(&self, event: &RunEvent) {
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Release);
        if self.has_text_bound() {
            self.text_bytes.fetch_sub(text_bytes(event), Ordering::Relaxed);
        }
    }
}

impl LostCounts {
    fn take(&self) -> Option<RunEvent> {
        // Asked for each event, and read alone is cheaper than a swap.
        if self.texts.load(Ordering::Relaxed) + self.entries.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let texts = self.texts.swap(0, Ordering::Relaxed);
        let entries = self.entries.swap(0, Ordering::Relaxed);
        (texts + entries > 0).then_some(RunEvent::Lost { texts, entries })
    }
}

fn text_bytes(event: &RunEvent) -> u64 {
    match event {
        RunEvent::Text { text, .. } => text.len() as u64,
        RunEvent::Part { part, .. } => part.text().len() as u64,
        RunEvent::Recorded(_) | RunEvent::Lost { .. } | RunEvent::Call { .. } => 0,
    }
}

/// How many events may wait in one queue, counts of what was left out at a run's end apart; pieces of replies only up to
/// the half of it.
pub(crate) const MAX_EVENTS: usize = 4_096;
/// How many bytes of replies may wait in one queue.
pub(crate) const MAX_TEXT_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use loop_core::types::{Millis, Slot};
    use loop_core::{Event, EventKind};

    #[tokio::test]
    async fn entries_are_left_out_last_and_the_end_tells_of_them() {
        // U8
        let (feed, mut events) = Events::queue();
        let key = CommandKey::new(1, Slot::Main);
        for seq in 0..MAX_EVENTS as u64 + 7 {
            let event = Event { at: Millis(seq), kind: EventKind::DeadlineReached };
            feed.tell(RunEvent::Recorded(Arc::new(Entry { seq, event, notes: Vec::new() })));
            feed.tell(RunEvent::Text { key, attempt: 1, text: "x".into() });
        }
        drop(feed);
        let (mut entries, mut texts, mut lost) = (0, 0, (0, 0));
        while let Some(event) = events.recv().await {
            match event {
                RunEvent::Recorded(_) => entries += 1,
                RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Call { .. } => texts += 1,
                RunEvent::Lost { texts, entries } => lost = (lost.0 + texts, lost.1 + entries),
            }
        }
        assert_eq!((entries, texts), (MAX_EVENTS as u64 - 1_024, 1_024));
        assert_eq!(lost, (MAX_EVENTS as u64 + 7 - 1_024, 1_031));
    }

    #[tokio::test]
    async fn parts_are_left_out_before_text() {
        // U8
        let (feed, mut events) = Events::queue();
        let key = CommandKey::new(1, Slot::Main);
        for _ in 0..MAX_EVENTS {
            let part = ReplyPart::Reasoning { text: "x".into() };
            feed.tell(RunEvent::Part { key, attempt: 1, part });
        }
        for _ in 0..100 {
            feed.tell(RunEvent::Text { key, attempt: 1, text: "x".into() });
        }
        drop(feed);
        let (mut parts, mut texts, mut lost) = (0, 0, 0);
        while let Some(event) = events.recv().await {
            match event {
                RunEvent::Part { .. } => parts += 1,
                RunEvent::Text { .. } => texts += 1,
                RunEvent::Lost { texts, .. } => lost += texts,
                RunEvent::Recorded(_) | RunEvent::Call { .. } => {}
            }
        }
        assert_eq!((parts, texts, lost), (MAX_EVENTS / 4, 100, MAX_EVENTS as u64 * 3 / 4));
    }
}
