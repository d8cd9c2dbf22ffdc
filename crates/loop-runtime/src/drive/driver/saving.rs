//! Saves the outcome once the run is over, within the time that saving may take.

use std::sync::Arc;
use std::time::Duration;

use loop_core::run::{SaveResult, StopMode};
use loop_core::{EventKind, Outcome};
use loop_journal::RunWriter;
use tokio::time::Instant;

use super::{Driver, Failure};
use crate::drive::controls::STOPPED;
use crate::drive::save::{SaveError, seconds, try_to_save};
use crate::watch::events::Control;

impl Driver {
    pub(super) async fn save(&mut self, attempt: u32) -> Result<(), Failure> {
        let Some(outcome) = self.run.outcome().cloned() else { return Ok(()) };
        if attempt == 1 {
            self.forget_requests();
        }
        let result = match self.save_unless_stopped(&outcome).await {
            Ok(location) => SaveResult::Saved { location },
            Err(SaveError { message, retry: Some(delay) }) if self.save_time_left() <= delay => {
                let limit = seconds(self.parts.save_limit);
                let message = format!("{message}; not tried again, since saving may take {limit} in all");
                SaveResult::Failed { message: message.into(), retry_at: None }
            }
            Err(SaveError { message, retry }) => {
                SaveResult::Failed { message, retry_at: retry.map(|delay| self.after(delay)) }
            }
        };
        self.tell_own(EventKind::SaveFinished { attempt, result }).await
    }

    /// How much of the time that saving may take is left; it begins with the first try.
    fn save_time_left(&mut self) -> Duration {
        let ends = *self.save_ends.get_or_insert_with(|| Instant::now() + self.parts.save_limit);
        ends.saturating_duration_since(Instant::now())
    }

    /// What was asked for until now was meant for the run, and that is over.
    pub(super) fn forget_requests(&mut self) {
        while self.controls.try_recv().is_ok() {}
    }

    /// One try to save. A stop now or a second stop cuts it off; after a first stop at the gate it is the last one.
    pub(super) async fn save_unless_stopped(&mut self, outcome: &Outcome) -> Result<Arc<str>, SaveError> {
        let (left, limit) = (self.save_time_left(), self.parts.save_limit);
        let saving = try_to_save(self.parts.saver.as_deref(), self.run.started(), outcome, left, limit);
        tokio::pin!(saving);
        let mut is_last = false;
        loop {
            tokio::select! {
                biased;
                saved = &mut saving => return saved.map_err(|error| match error {
                    SaveError { message, retry: Some(_) } if is_last => {
                        SaveError { message: format!("{message}; {STOPPED}").into(), retry: None }
                    }
                    error => error,
                }),
                control = self.controls.recv(), if !self.deaf => match own(control, &mut *self.writer).await {
                    Some(Control::Stop(StopMode::AtGate)) if !is_last => is_last = true,
                    Some(Control::Stop(_)) => return Err(SaveError { message: STOPPED.into(), retry: None }),
                    Some(Control::WithdrawStop) => is_last = false,
                    Some(Control::Answer(..) | Control::Approve(_) | Control::Tell(_) | Control::Remote(_)) => {}
                    None => self.deaf = true,
                },
            }
        }
    }
}

/// A stop that was asked for in another process is one as of this process: the entry that ends the saving answers it. Anything
/// else comes too late.
async fn own(control: Option<Control>, writer: &mut dyn RunWriter) -> Option<Control> {
    let Some(Control::Remote(asked)) = control else { return control };
    let (id, kind) = &*asked;
    if let EventKind::StopRequested { how } = kind
        && writer.carry_out(id).await.is_ok_and(|is_open| is_open)
    {
        return Some(Control::Stop(*how));
    }
    // One that is not answered now is when the run has ended.
    _ = writer.refuse(id).await;
    Some(Control::Remote(asked))
}
