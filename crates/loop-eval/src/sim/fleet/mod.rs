//! A fleet: many runs of a domain that arrive over hours, on workers that share one provider, in virtual time.
//!
//! Each run is a run of a [`Study`](crate::sim::Study): the gate, limits, policy and prompts are the domain's own, and the
//! rest is drawn. What the runs share is simulated here: places on workers, the provider's limits of a minute, slow calls,
//! and workers that die.

mod figures;
mod provider;
mod work;

use std::sync::Arc;

use loop_core::{RunSpec, WorkItem};
use loop_prompts::Prompts;

use crate::sim::study::any_item;
use crate::sim::{Assumptions, Fault, SimWorld};

pub use figures::{FLEET_VERSION, FleetFigures, FleetPolicy, FleetReport, FleetResource, FleetUse};

/// What a fleet is made of, and what comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetPlan {
    /// Runs that arrive in an hour, on average; at random instants.
    pub arrivals_an_hour: u32,
    /// Hours in which runs arrive. The simulation then goes on until each has ended.
    pub hours: u32,
    /// Workers.
    pub workers: u32,
    /// Runs that a worker has under way at a time: `--jobs` of `loopgate serve`.
    pub places: u32,
    /// Requests that the provider takes in a minute. `None`: as many as come.
    pub requests_a_minute: Option<u32>,
    /// Tokens of prompts and replies that the provider takes in a minute. `None`: as many as come.
    pub tokens_a_minute: Option<u32>,
    /// Percent of the model calls that are slow.
    pub slow_percent: u32,
    /// A slow call takes so many times as long.
    pub slow_times: u32,
    /// How often a worker dies in a day, on average.
    pub deaths_a_day: u32,
    /// Milliseconds from the death of a worker until it is there again, and until its runs may continue elsewhere.
    pub lease_ms: u32,
}

/// The runs of a domain that come to a fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    prompts: Arc<Prompts>,
    item: Option<WorkItem>,
    assumed: Assumptions,
}

impl Fleet {
    /// Runs of this item; `None`: of a made-up item of 1,500 bytes.
    pub fn new(prompts: &Arc<Prompts>, item: Option<WorkItem>, assumed: Assumptions) -> Self {
        Self { prompts: Arc::clone(prompts), item, assumed }
    }

    /// Simulates the fleet under this spec. The same seed gives the same figures, and two specs or plans with one seed
    /// get the same arrivals.
    ///
    /// # Errors
    /// The seed of the first run that broke an invariant, which is a bug of the core.
    pub fn simulate(
        &self,
        spec: &Arc<RunSpec>,
        plan: &FleetPlan,
        seed: u64,
    ) -> Result<FleetFigures, (u64, Fault)> {
        let world = SimWorld::new(Arc::clone(spec), self.item.clone().unwrap_or_else(any_item));
        work::Work::new(&world, &self.prompts, &self.assumed, *plan, seed).done()
    }

    /// The id of its item. `None`: a made-up item.
    pub fn item(&self) -> Option<&str> {
        self.item.as_ref().map(|item| &*item.id)
    }

    /// What is assumed of models, tools and people.
    pub fn assumed(&self) -> &Assumptions {
        &self.assumed
    }
}
