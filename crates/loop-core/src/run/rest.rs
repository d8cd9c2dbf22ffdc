//! What an event may change besides the phase.

use crate::run::budget::Budget;
use crate::run::calls::Calls;
use crate::run::clock::Clock;
use crate::run::draft::Draft;
use crate::run::eager_read::EagerRead;
use crate::run::event::Started;
use crate::run::inbox::Inbox;
use crate::run::knowledge::Knowledge;
use crate::run::note::Note;
use crate::run::phase::{Call, Purpose};
use crate::run::route::Route;
use crate::spec::RunSpec;

/// The parts of a run except its phase, while an event is applied.
#[derive(Debug)]
pub(super) struct RunParts<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) started: &'a Started,
    /// The clock, set to the instant of the event.
    pub(super) clock: &'a mut Clock,
    pub(super) inbox: &'a mut Inbox,
    pub(super) route: &'a mut Route,
    pub(super) knowledge: &'a mut Knowledge,
    pub(super) calls: &'a mut Calls,
    pub(super) draft: &'a mut Draft,
    pub(super) budget: &'a mut Budget,
    /// The decisions of this step.
    pub(super) notes: Vec<Note>,
    /// Milliseconds between the event before and this one.
    pub(super) since_last_ms: u64,
    /// The reads that started before the reply of this step was complete, until the gate uses or drops them. If the
    /// step announces a read, the announced one.
    pub(super) eager: Vec<EagerRead>,
}

/// The phase and pass in which a run stops, for the outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopPoint {
    /// The name of the phase.
    pub(super) phase: &'static str,
    /// The pass, from 1. 0: before the first.
    pub(super) pass: u32,
}

impl StopPoint {
    /// The place of a run that makes a call for this purpose.
    pub(super) fn of(call: &Call, purpose: &Purpose) -> Self {
        Self { phase: purpose.phase_name(), pass: call.key.pass }
    }
}
