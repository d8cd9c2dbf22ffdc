//! Requests to the run that a person made in another process.

use std::sync::Arc;

use loop_core::EventKind;

use super::{Driver, Failure};
use crate::watch::events::Control;

impl Driver {
    /// What a request from another process comes to. Nothing where it is answered already, and where the run does not accept
    /// it, which is its answer then.
    pub(super) async fn remote_kind(
        &mut self,
        (id, kind): &(Arc<str>, EventKind),
    ) -> Result<Option<EventKind>, Failure> {
        if !self.writer.carry_out(id).await? {
            return Ok(None);
        }
        let now = self.clock.now();
        let is_accepted = match kind {
            EventKind::StopRequested { how } => {
                let stop = self.kind_of(Control::Stop(*how));
                if stop.is_some() {
                    return Ok(stop);
                }
                false
            }
            EventKind::Instruction { text } => self.run.takes_instruction(text).is_ok(),
            EventKind::ApprovedBy { key, by, binding } => {
                self.run.may_approve(now, key, by, binding.as_ref()).is_ok()
            }
            EventKind::PersonAnswered { key, answer, binding } => {
                self.run.may_answer(now, key, answer, binding.as_ref()).is_ok()
            }
            // No person asks for anything else.
            _ => false,
        };
        if is_accepted {
            return Ok(Some(kind.clone()));
        }
        self.writer.refuse(id).await?;
        Ok(None)
    }
}
