//! Simulation: many runs of the real core in virtual time, each drawn from one seed.
//!
//! A [`Study`] takes the spec of a user, and draws replies and results by rates that are printed. It says how runs of the
//! domain end, before a model is called. A [`Fleet`] is many such runs that arrive over hours and share workers and a
//! provider.
//!
//! No simulation calls a model or runs a tool, and none reads the clock.

mod choices;
mod fleet;
mod study;
mod world;

pub(crate) use choices::Choices;
pub use fleet::{
    FLEET_VERSION, Fleet, FleetFigures, FleetPlan, FleetPolicy, FleetReport, FleetResource, FleetUse,
};
pub use study::{
    Amounts, AssumptionError, Assumptions, ClassRuns, Distribution, ReachedLimit, ReasonRuns, SIM_VERSION,
    SimAssumption, Study,
};
pub use world::{Fault, SimWorld};
