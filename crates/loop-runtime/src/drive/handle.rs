//! A run that continues by itself: watched, stopped, waited for.

use std::sync::Arc;

use futures::future::BoxFuture;
use loop_core::run::{PersonAnswer, PersonRequest, Started, StopMode};
use loop_core::types::{Approver, CommandKey, Digest, RunId};
use loop_core::{EventKind, Outcome};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinHandle};

use crate::drive::driver::DriverEnd;
use crate::watch::events::{Answer, Approval, Control, Events};

/// A run that is ready to be driven.
pub(crate) struct ReadyRun {
    pub(crate) id: RunId,
    pub(crate) started: Arc<Started>,
    pub(crate) remote: Remote,
    pub(crate) events: Events,
    pub(crate) driving: BoxFuture<'static, DriverEnd>,
}

/// How driving a run ended.
#[derive(Clone, Debug)]
pub enum DriveResult {
    /// The run has ended.
    Ended(Outcome),
    /// The run waits for people, and its driver has left it: see [`Runner::leave_when_waiting`](crate::Runner::leave_when_waiting).
    Waiting(Waiting),
}

/// A run that waits for people and has no driver. The journal holds all of it, and
/// [`Runner::resume_with`](crate::Runner::resume_with) continues it.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The actions that wait, in request order. Instants count from the run's start.
    pub requested: Vec<PersonRequest>,
    /// The outcome so far, with the reason `needs_human`. It is neither final nor saved.
    pub outcome: Outcome,
}

/// A run on a task of its own. It can be watched, stopped and awaited. Dropping the handle lets the run continue.
#[derive(Debug)]
pub struct Handle {
    id: RunId,
    started: Arc<Started>,
    remote: Remote,
    events: Option<Events>,
    task: JoinHandle<DriverEnd>,
}

impl Handle {
    pub(crate) fn spawn(begun: ReadyRun) -> Self {
        let ReadyRun { id, started, remote, events, driving } = begun;
        Self { id, started, remote, events: Some(events), task: tokio::spawn(driving) }
    }

    /// The run's name.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The first event's data: work item, nonce, hashes.
    pub fn started(&self) -> &Arc<Started> {
        &self.started
    }

    /// The events of the run, in order, from the first one on. They can be taken once. The run does not wait for the
    /// listener. A listener that falls far behind misses pieces of replies first, and receives the number of what it
    /// missed. The queue has the same bound before it is taken. The events end with the run. [`wait`](Self::wait) drops
    /// them if they were not taken before.
    pub fn events(&mut self) -> Option<Events> {
        self.events.take()
    }

    /// A remote to stop the run and to answer its questions. It outlives this handle.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Requests a stop: at the next gate, or now. [`wait`](Self::wait) returns the outcome.
    pub fn stop(&self, how: StopMode) {
        self.remote.stop(how);
    }

    /// Waits for the end, and returns the outcome. If the run was left because it waits for people, this is the outcome
    /// so far, with the reason `needs_human`.
    ///
    /// # Panics
    /// When the driver itself panicked, or its runtime was shut down before the end.
    pub async fn wait(self) -> Outcome {
        self.wait_for_all().await.outcome
    }

    /// Waits until the run is over, or waits for people and was left.
    ///
    /// # Panics
    /// When the driver itself panicked, or its runtime was shut down before the end.
    pub async fn driven(self) -> DriveResult {
        let DriverEnd { outcome, requested, .. } = self.wait_for_all().await;
        match requested {
            Some(requested) => DriveResult::Waiting(Waiting { requested, outcome }),
            None => DriveResult::Ended(outcome),
        }
    }

    /// Waits for the end, and gives all there is.
    pub(crate) async fn wait_for_all(mut self) -> DriverEnd {
        // The caller does not read them any more.
        self.events = None;
        match self.task.await {
            Ok(outcome) => outcome,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => panic!("the run's task was taken away before its end: {error}"),
            },
        }
    }

    /// Waits for the end; the run ends with this future if it is dropped before.
    pub(crate) async fn wait_with(self) -> Outcome {
        let _ended_with_this_future = AbortOnDrop(self.task.abort_handle());
        self.wait().await
    }
}

/// Sends requests to a run from elsewhere. A request that comes too late changes nothing.
#[derive(Clone, Debug)]
pub struct Remote {
    control: UnboundedSender<Control>,
}

impl Remote {
    pub(crate) fn new(control: UnboundedSender<Control>) -> Self {
        Self { control }
    }

    /// Requests a stop: at the next gate, or now.
    pub fn stop(&self, how: StopMode) {
        // A run that is over receives nothing.
        self.control.send(Control::Stop(how)).ok();
    }

    /// Withdraws a stop at the next gate, if it has not taken effect.
    pub fn withdraw_stop(&self) {
        self.control.send(Control::WithdrawStop).ok();
    }

    /// Turns the automatic mode on or off while the run continues: off requests a stop at the next gate, on withdraws
    /// it if it has not taken effect.
    pub fn set_auto(&self, on: bool) {
        if on { self.withdraw_stop() } else { self.stop(StopMode::AtGate) }
    }

    /// Answers an approval request or a question. An answer that does not apply changes nothing. An answer that arrives
    /// while other calls of the pass still run is stored until the person is asked.
    pub fn answer(&self, key: CommandKey, answer: PersonAnswer) {
        self.send_answer(Answer { key, answer, binding: None });
    }

    /// The same, for exactly the call that `binding` identifies: the one that the person was shown. False: the driver
    /// is leaving the run and does not read the answer.
    pub fn answer_as_shown(&self, key: CommandKey, answer: PersonAnswer, binding: Digest) -> bool {
        self.send_answer(Answer { key, answer, binding: Some(binding) })
    }

    /// Approves an action as a known person, for exactly the call that `binding` identifies. An early approval is
    /// stored as an [`answer`](Self::answer) is, and one that does not apply changes nothing. False: the driver is
    /// leaving the run and does not read it.
    pub fn approve_as(&self, key: CommandKey, by: Approver, binding: Digest) -> bool {
        self.control.send(Control::Approve(Box::new(Approval { key, by, binding }))).is_ok()
    }

    /// Passes on a request that was made in another process, with its id there. It is carried out once, and answered in
    /// the journal. False: the driver is leaving the run and does not read it.
    pub fn carry_out(&self, request: Arc<str>, kind: EventKind) -> bool {
        self.control.send(Control::Remote(Box::new((request, kind)))).is_ok()
    }

    fn send_answer(&self, answer: Answer) -> bool {
        self.control.send(Control::Answer(Box::new(answer))).is_ok()
    }

    /// Gives the run an instruction. The prompt of the next pass whose call has not been made yet has it. False: the
    /// driver is leaving the run and does not read it.
    pub fn tell(&self, text: impl Into<Arc<str>>) -> bool {
        self.control.send(Control::Tell(text.into())).is_ok()
    }
}

/// Takes a task away when its owner goes; one that has ended is left as it is.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
