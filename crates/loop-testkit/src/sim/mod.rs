//! The hostile simulation: many runs of the real core in virtual time, each drawn from one seed.
//!
//! Everything is drawn from the seed: the spec with its limits, what models, tools, people and clocks do, and when the
//! driver dies. After each event the invariants of the core are checked, and what they cannot see: which events are
//! accepted, what is charged, and whether the run ends in time ([`simulate`]). A seed that breaks one is shrunk to a short
//! list of events ([`shrink`]).
//!
//! No simulation calls a model or runs a tool, and none reads the clock.

mod check;
mod choices;
mod events;
mod hostile;
mod replies;
mod shrink;
mod world;

use std::ops::Range;

pub use choices::Choices;
pub use hostile::{FaultMode, SimFault, Simulated, SimulationTally, simulate, simulate_choices};
pub use replies::drawn_reply;
pub use shrink::{ShrunkFault, shrink, shrink_choices};
pub use world::{HostileWorld, NONCE};

/// The seeds `A..B` that a variable of the environment names.
pub fn named_seeds(variable: &str) -> Option<Range<u64>> {
    let text = std::env::var(variable).ok()?;
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}
