//! The hostile simulator: many runs of the real core in virtual time, each drawn from one seed.
//!
//! The seed determines the spec with its limits, the behaviour of models, tools, people and clocks, and when the driver
//! crashes. After each event the core's invariants are checked, and more that they cannot see: which events are
//! accepted, what is charged, and whether the run ends in time ([`simulate`]). A seed that violates one is shrunk to a
//! short list of events ([`shrink`]).
//!
//! A simulation calls no model, runs no tool and reads no clock.

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

/// The seeds `A..B` in an environment variable.
pub fn named_seeds(variable: &str) -> Option<Range<u64>> {
    let text = std::env::var(variable).ok()?;
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}
