//! A queue of events without a bound of its own: many senders, one receiver.
//!
//! Its values are in buffers of a dozen that are given back once all of them were taken. A channel would allocate for each
//! value, or hold room for 32 of them in every run, and one large buffer costs the allocator more than several small ones.
//! The receiver takes all that waits at once, and passes it on one by one.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::Thread;

use tokio::task::coop::poll_proceed;

/// A queue, and its two sides.
pub(crate) fn event_queue<T>() -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { values: VecDeque::new(), more: VecDeque::new(), receiver: None });
    let shared = Arc::new(Shared { state, senders: AtomicUsize::new(1), is_closed: AtomicBool::new(false) });
    (Sender(Arc::clone(&shared)), Receiver { shared, taken: VecDeque::new(), more: VecDeque::new() })
}

/// Puts values into the queue.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Takes values out of the queue.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// What was taken out together and not passed on yet. It comes before what is in the queue.
    taken: VecDeque<T>,
    /// What comes after that, and was taken out with it.
    more: VecDeque<VecDeque<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    senders: AtomicUsize,
    /// Whether the receiver is gone, or takes nothing more.
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    values: VecDeque<T>,
    /// What comes after those, a dozen in each.
    more: VecDeque<VecDeque<T>>,
    /// Wakes the receiver.
    receiver: Option<Waker>,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Queues a value. Where the receiver is gone, the value is dropped.
    pub(crate) fn send(&self, value: T) {
        self.try_send(value);
    }

    /// The same. False: the receiver is gone or takes nothing more, and the value is dropped.
    pub(crate) fn try_send(&self, value: T) -> bool {
        let mut state = self.0.lock();
        // Asked under the lock: what is queued after the receiver went would stay as long as a sender does.
        if self.is_closed() {
            return false;
        }
        state.push(value);
        let receiver = state.receiver.take();
        drop(state);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        true
    }

    /// Whether the receiver is gone, or takes nothing more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Acquire)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            let receiver = self.0.lock().receiver.take();
            if let Some(receiver) = receiver {
                receiver.wake();
            }
        }
    }
}

impl<T> Receiver<T> {
    /// The next value, if it is there.
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        self.next_taken().or_else(|| {
            self.shared.lock().give(&mut self.taken, &mut self.more);
            self.next_taken()
        })
    }

    /// Takes nothing more than what is in the queue. After that it is over.
    pub(crate) fn close(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
    }

    fn next_taken(&mut self) -> Option<T> {
        let next = self.taken.pop_front()?;
        if self.taken.is_empty() {
            match self.more.pop_front() {
                Some(more) => self.taken = more,
                None if self.taken.capacity() > FEW => self.taken = VecDeque::new(),
                None => {}
            }
        }
        Some(next)
    }

    /// The next value; `None` when nothing more can come and everything was taken.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The same, polled.
    pub(crate) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        // A queue that is never empty must not keep the task from giving way.
        let turn = ready!(poll_proceed(context));
        if let Some(next) = self.next_taken() {
            turn.made_progress();
            return Poll::Ready(Some(next));
        }
        let mut state = self.shared.lock();
        // Asked before the values: a sender that goes queues nothing after that.
        let is_over =
            self.shared.senders.load(Ordering::Acquire) == 0 || self.shared.is_closed.load(Ordering::Acquire);
        if state.values.is_empty() && !is_over {
            match &mut state.receiver {
                Some(waker) => waker.clone_from(context.waker()),
                receiver => *receiver = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        state.give(&mut self.taken, &mut self.more);
        drop(state);
        turn.made_progress();
        Poll::Ready(self.next_taken())
    }

    /// The same, on a thread that waits.
    pub(crate) fn blocking_recv(&mut self) -> Option<T> {
        let waker = Waker::from(Arc::new(Parked(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match self.poll_recv(&mut context) {
                Poll::Ready(next) => return next,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        let (mut left, mut more) = Default::default();
        self.shared.lock().give(&mut left, &mut more);
        drop((left, more));
    }
}

impl<T> State<T> {
    fn push(&mut self, value: T) {
        let last = self.more.back_mut().unwrap_or(&mut self.values);
        if last.len() < FEW || last.len() < last.capacity() {
            return last.push_back(value);
        }
        // More than a few come together, such as all events of a reply.
        let mut next = VecDeque::with_capacity(DOZEN);
        next.push_back(value);
        self.more.push_back(next);
    }

    /// Gives all values away, for two empty lists.
    fn give(&mut self, values: &mut VecDeque<T>, more: &mut VecDeque<VecDeque<T>>) {
        std::mem::swap(&mut self.values, values);
        std::mem::swap(&mut self.more, more);
    }
}

/// Wakes a thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// So many values leave their room behind in an empty queue.
const FEW: usize = 4;
/// So many are in each further buffer, which then has less than a kilobyte.
const DOZEN: usize = 12;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn values_come_in_order_and_the_end_after_them() {
        let (sender, mut receiver) = event_queue();
        let other = sender.clone();
        (0..100).for_each(|n| if n % 2 == 0 { sender.send(n) } else { other.send(n) });
        drop(sender);
        for n in 0..100 {
            assert_eq!(poll_fn(|context| receiver.poll_recv(context)).await, Some(n));
        }
        let mut context = Context::from_waker(Waker::noop());
        assert!(receiver.poll_recv(&mut context).is_pending());
        drop(other);
        assert_eq!(receiver.poll_recv(&mut context), Poll::Ready(None));
    }

    #[tokio::test]
    async fn a_task_that_waits_is_woken_by_a_value_and_by_the_end() {
        let (sender, mut receiver) = event_queue();
        let received = tokio::spawn(async move {
            let mut received = Vec::new();
            while let Some(value) = poll_fn(|context| receiver.poll_recv(context)).await {
                received.push(value);
            }
            received
        });
        for value in 0..3 {
            tokio::task::yield_now().await;
            sender.send(value);
        }
        tokio::task::yield_now().await;
        drop(sender);
        assert_eq!(received.await.unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_thread_that_waits_hears_all_and_the_end() {
        let (sender, mut receiver) = event_queue();
        let thread = std::thread::spawn(move || std::iter::from_fn(|| receiver.blocking_recv()).sum::<u32>());
        (1..=1_000).for_each(|n| sender.send(n));
        drop(sender);
        assert_eq!(thread.join().unwrap(), 500_500);
    }

    #[test]
    fn without_a_receiver_nothing_is_kept() {
        let (sender, receiver) = event_queue();
        let value = Arc::new(());
        assert!(sender.try_send(Arc::clone(&value)));
        assert!(!sender.is_closed());
        drop(receiver);
        assert!(sender.is_closed());
        assert!(!sender.try_send(Arc::clone(&value)), "the sender learns it");
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[tokio::test]
    async fn a_queue_that_is_closed_gives_what_it_has_and_takes_nothing_more() {
        let (sender, mut receiver) = event_queue();
        assert!(sender.try_send(1));
        receiver.close();
        assert!(!sender.try_send(2));
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
    }

    #[test]
    fn what_is_sent_while_others_are_passed_on_comes_after_them() {
        let (sender, mut receiver) = event_queue();
        (0..3).for_each(|n| sender.send(n));
        let mut received = vec![receiver.try_recv().unwrap()];
        (3..6).for_each(|n| sender.send(n));
        received.extend(std::iter::from_fn(|| receiver.try_recv()));
        assert_eq!(received, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn an_empty_queue_gives_its_room_back() {
        let (sender, mut receiver) = event_queue();
        (0..64).for_each(|n| sender.send(n));
        while receiver.try_recv().is_some() {}
        assert!(receiver.shared.lock().values.capacity() <= FEW && receiver.taken.capacity() <= FEW);
    }
}
