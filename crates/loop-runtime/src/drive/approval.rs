//! A function of the program that answers what a run asks, and the run as it is seen beside its driver.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use loop_core::Run;
use loop_core::run::PersonAnswer;
use tokio_util::sync::CancellationToken;

use crate::drive::driver::{Opening, Pace};
use crate::drive::handle::ReadyRun;
use crate::drive::parts::Approver;
use crate::drive::runner::Runner;
use crate::watch::events::{Events, RunEvent};
use crate::watch::steps::panic_text;

/// A run as its events tell of it, beside its driver.
struct EventReplica {
    run: Run,
    /// The first entry that is not in it.
    next: u64,
}

impl EventReplica {
    fn of(opening: &Opening) -> Self {
        let begun = opening.first.len() as u64 + u64::from(opening.opened.is_some());
        Self { run: opening.run.clone(), next: opening.seq + begun }
    }

    fn apply(&mut self, event: &RunEvent) {
        if let RunEvent::Recorded(entry) = event
            && entry.seq >= self.next
        {
            // The driver's own run took it.
            let _ = self.run.apply(&entry.event);
        }
    }
}

/// A run that is ready to be driven, whose driver asks the loop's approver whatever the run asks, if there is one.
pub(crate) fn begin(
    runner: &Runner,
    opening: Opening,
    pace: Pace,
    cancel: Option<&CancellationToken>,
) -> ReadyRun {
    let Some(approver) = runner.parts().approver.clone() else { return runner.begin(opening, pace, cancel) };
    let beside = EventReplica::of(&opening);
    approved_by(approver, runner.begin(opening, pace, cancel), beside, pace)
}

/// The same run, whose driver asks `approver`.
fn approved_by(approver: Approver, begun: ReadyRun, mut beside: EventReplica, pace: Pace) -> ReadyRun {
    let ReadyRun { id, started, remote, events: mut own, mut driving } = begun;
    let (feed, events) = match pace {
        Pace::Own => Events::queue(),
        Pace::InStep => Events::in_step(),
    };
    let (answering, mut asked, mut answers) = (remote.clone(), Vec::new(), FuturesUnordered::new());
    let driving = std::future::poll_fn(move |context| {
        // Once for each poll: a driver in step rests after it.
        let polled = driving.as_mut().poll(context);
        while let Some(event) = own.waiting() {
            beside.apply(&event);
            feed.tell(event);
            // Its rest is for a listener. Without one it goes on.
            if feed.is_gone() {
                context.waker().wake_by_ref();
            }
        }
        let open = beside.run.requested().into_iter();
        for request in open.filter(|request| !asked.contains(&request.binding)).collect::<Vec<_>>() {
            let (key, binding) = (request.key, request.binding);
            asked.push(binding);
            let approver = Arc::clone(&approver);
            let answer = AssertUnwindSafe(async move { approver(request).await }).catch_unwind();
            answers.push(answer.map(move |answer| {
                let denied = |panic: Box<_>| PersonAnswer::Denied {
                    why: format!("the approver panicked: {}", panic_text(&*panic)).into(),
                };
                (key, answer.unwrap_or_else(denied), binding)
            }));
        }
        while let Poll::Ready(Some((key, answer, binding))) = answers.poll_next_unpin(context) {
            answering.answer_as_shown(key, answer, binding);
        }
        polled
    });
    ReadyRun { id, started, remote, events, driving: driving.boxed() }
}
