//! One timer for all that a run waits for.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is left as it is when what it was set for is over: it is set anew when it rings too early. Setting one
/// costs a call of the system, and most of what a run sets a limit to ends long before that.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Waits until `at`; for ever without one.
    pub(crate) async fn until(&mut self, at: Option<Instant>) {
        let Some(at) = at else { return pending().await };
        poll_fn(|context| self.poll(at, context)).await
    }

    /// Ready after `at`.
    pub(crate) fn poll(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if at < sleep.deadline() {
            sleep.as_mut().reset(at);
        }
        loop {
            ready!(sleep.as_mut().poll(context));
            if sleep.deadline() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn it_rings_when_asked_to_whatever_it_was_set_for_before() {
        let start = Instant::now();
        let after = |seconds| Some(start + Duration::from_secs(seconds));
        let mut alarm = Alarm::default();
        for (requested, given_up_after) in [(60, 1), (90, 2), (30, 3), (80, 4)] {
            let given_up = tokio::time::sleep_until(start + Duration::from_secs(given_up_after));
            tokio::select! {
                () = alarm.until(after(requested)) => panic!("it rang at {:?}", start.elapsed()),
                () = given_up => {}
            }
        }
        // The last one has gone by already.
        for (requested, rings) in [(10, 10), (70, 70), (70, 70), (5, 70)] {
            alarm.until(after(requested)).await;
            assert_eq!(start.elapsed().as_secs(), rings);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_instant_it_never_rings() {
        let waited = tokio::time::timeout(Duration::from_secs(86_400), Alarm::default().until(None)).await;
        assert!(waited.is_err());
    }
}
