//! What the checks read from a run's phase.

use crate::run::{Batch, Call, Checking, Phase, Run, Stopping, Work};
use crate::types::{ChildUse, CommandKey, Slot};

/// The call that the phase commands or has in flight.
pub(super) fn call(run: &Run) -> Option<&Call> {
    match run.phase() {
        Phase::Calling { call, .. } => Some(call),
        Phase::Stopping(stopping) => stopping.call.as_ref(),
        _ => None,
    }
}

/// The check that the phase commands or has in flight.
pub(super) fn check(run: &Run) -> Option<&Checking> {
    match run.phase() {
        Phase::Validating(checking) => Some(checking),
        Phase::Stopping(stopping) => stopping.check.as_deref(),
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

/// The open work under a key. Work under the same key may have settled in the same batch: a call that a person denied.
pub(super) fn open_work<'a>(run: &'a Run, key: &CommandKey) -> Option<&'a Work> {
    work(run).iter().find(|work| work.key == *key && work.observation.is_none())
}

/// What the runs that were called as tools and have settled used of this.
pub(super) fn by_runs(run: &Run, amount: impl Fn(&ChildUse) -> u32) -> u32 {
    let open = work(run).iter().filter_map(|work| work.observation.as_deref());
    let settled = open.chain(run.evidence().iter().map(|evidence| &*evidence.observation));
    settled.filter_map(|it| it.child.as_deref()).map(amount).sum()
}

/// Whether a key is one whose model call is a sub-call: an action's or a check's.
pub(super) fn has_sub_call(key: CommandKey) -> bool {
    is_action(key) || key.slot == Slot::Check
}

/// Whether a key is an action's.
pub(super) fn is_action(key: CommandKey) -> bool {
    matches!(key.slot, Slot::Action(_))
}
