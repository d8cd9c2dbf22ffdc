//! Simulation: many runs of the real core in virtual time, each drawn from one seed.
//!
//! A *hostile* simulation draws everything from the seed: the spec with its limits, what models, tools, people and clocks
//! do, and when the driver dies. After each event the invariants are checked ([`simulate`]). A seed that breaks one is
//! shrunk to a short list of events ([`shrink`]).
//!
//! No simulation calls a model or runs a tool, and none reads the clock.

mod check;
mod choices;
mod events;
mod hostile;
mod replies;
mod shrink;
mod world;

pub use choices::Choices;
pub use hostile::{Fault, Mode, SimPlan, Simulated, Tally, simulate, simulate_choices};
pub use replies::drawn_reply;
pub use shrink::{Shrunk, shrink, shrink_choices};
pub use world::{NONCE, SimWorld};
