//! What the checks read from a run's phase.

use crate::run::{Batch, Call, Phase, Run, Stopping, Work};
use crate::types::{CommandKey, Slot};

/// The call that the phase commands or has in flight.
pub(super) fn call(run: &Run) -> Option<&Call> {
    match run.phase() {
        Phase::Calling { call, .. } => Some(call),
        Phase::Stopping(stopping) => stopping.call.as_ref(),
        _ => None,
    }
}

/// The work that the phase has open or settled.
pub(super) fn work(run: &Run) -> &[Work] {
    match run.phase() {
        Phase::Running { batch: Batch { work, .. }, .. }
        | Phase::Stopping(Stopping { batch: Some(Batch { work, .. }), .. }) => work,
        _ => &[],
    }
}

/// Whether a key is an action's.
pub(super) fn is_action(key: CommandKey) -> bool {
    matches!(key.slot, Slot::Action(_))
}
