//! Simulation: many runs of the real core in virtual time, each drawn from one seed.
//!
//! A *hostile* simulation draws everything from the seed: the spec with its limits, what models, tools, people and clocks
//! do, and when the driver dies. After each event the invariants are checked ([`simulate`]). A seed that breaks one is
//! shrunk to a short list of events ([`shrink`]).
//!
//! A simulation of a *domain* ([`Study`]) takes the spec of a user, and draws replies and results by rates that are
//! printed. It says how runs of the domain end, before a model is called. A [`Fleet`] is many such runs that arrive over
//! hours and share workers and a provider.
//!
//! No simulation calls a model or runs a tool, and none reads the clock.

mod check;
mod choices;
mod events;
mod fleet;
mod hostile;
mod replies;
mod shrink;
mod study;
mod world;

pub use choices::Choices;
pub use fleet::{
    FLEET_VERSION, Fleet, FleetFigures, FleetPlan, FleetPolicy, FleetReport, FleetResource, FleetUse,
};
pub use hostile::{Fault, Mode, SimPlan, Simulated, Tally, simulate, simulate_choices};
pub use replies::drawn_reply;
pub use shrink::{Shrunk, shrink, shrink_choices};
pub use study::{
    Amounts, AssumptionError, Assumptions, ClassRuns, Distribution, ReachedLimit, ReasonRuns, SIM_VERSION,
    SimAssumption, Study,
};
pub use world::{NONCE, SimWorld};
