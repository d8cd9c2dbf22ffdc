//! The conformance suite of drivers: with the same models, tools and people, every driver gives the same events,
//! decisions, documents and costs.
//!
//! A test implements [`RunDriver`] for its driver, and calls [`conform`]. Each case of [`cases`] is driven by it and by
//! [`Recursion`], and their records are compared line by line.
//!
//! This module has three minimal drivers: [`Recursion`], [`StateStream`] and [`WorkQueue`]. They only use the core.
//! [`Outside`] simulates everything outside of a run, with a clock of its own, so a case takes no time.
//!
//! With the feature `live`, the module `live` has the same models and tools for drivers that call real ones.

mod case;
mod cases;
#[cfg(feature = "live")]
pub mod live;
mod outside;
mod queue;
mod record;
mod recursion;
mod stream;

use std::sync::Arc;

use loop_core::types::Effect;
use loop_core::{Event, EventKind, Run};

pub use case::{DriverCase, ModelEnd, ModelPlay, TimedEvent, ToolEnd, ToolPlay, YES, finds, replies};
pub use cases::cases;
pub use outside::Outside;
pub use queue::WorkQueue;
pub use record::{DriverClock, DriverRecord};
pub use recursion::Recursion;
pub use stream::StateStream;

/// A way to drive a run from its start to its end.
pub trait RunDriver {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Drives the run of a case to its end.
    fn drive(&self, case: &DriverCase) -> DriverRecord;
}

/// The tools of all cases, with their effects. Each takes a `target`, which says how it behaves.
pub const TOOLS: [(&str, Effect); 4] = [
    ("look", Effect::Read),
    ("change", Effect::WriteKeyed),
    ("wipe", Effect::WriteIrreversible),
    (QUESTION, Effect::Read),
];

/// The name of the tool that asks a person.
pub const QUESTION: &str = "ask";

/// The name of the validator of all cases.
pub const RULE: &str = "rule";

/// The message of a failure in a case.
pub const MESSAGE: &str = "it did not work";

/// Asserts that a driver drives every case as [`Recursion`] does.
///
/// # Panics
/// With the first difference of each case.
#[track_caller]
pub fn conform(driver: &dyn RunDriver, clock: DriverClock) {
    let differences: Vec<String> =
        cases().iter().filter_map(|case| difference_in(driver, clock, case).err()).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Checks that a driver drives this case as [`Recursion`] does, and that it ends for the case's reason.
///
/// # Errors
/// The first difference.
pub fn difference_in(driver: &dyn RunDriver, clock: DriverClock, case: &DriverCase) -> Result<(), String> {
    let (expected, found) = (Recursion.drive(case), driver.drive(case));
    let what = format!("case `{}`, driver `{}`", case.name, driver.name());
    expected.compare(&found, clock).map_err(|difference| format!("{what}: {difference}"))?;
    match found.outcome.as_ref().map(|outcome| outcome.stop.reason()) {
        Some(reason) if reason == case.ends => Ok(()),
        other => Err(format!("{what}: it ends for {other:?}, not for {:?}", case.ends)),
    }
}

/// The run of a case, and the record with its first event.
fn start(case: &DriverCase) -> (Run, DriverRecord) {
    let (spec, facts) = (Arc::new(case.setup.spec.clone()), case.setup.facts.clone());
    let run = loop_core::types::RunId::new("r1");
    let (run, event, notes) = Run::start(run, spec, case.setup.item.clone(), facts);
    (run, DriverRecord::new(event, notes))
}

/// The run of a record whose driver stopped, after the event with which another driver continues it.
fn again(case: &DriverCase, mut record: DriverRecord) -> (Run, DriverRecord) {
    let mut run = record.replay(Arc::new(case.setup.spec.clone()));
    let event = Event { at: run.now(), kind: EventKind::Resumed { away_ms: 0, by: None } };
    let notes = run.apply(&event).expect("a run that has not ended can be resumed");
    record.append(event, notes);
    (run, record)
}
