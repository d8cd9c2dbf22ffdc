//! What a simulated fleet came to.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sim::{Amounts, SimAssumption};

/// The version of this format.
pub const FLEET_VERSION: u32 = 1;

/// Fleets under one or more policies and with one or more numbers of workers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetReport {
    /// The version of this format: 1.
    pub version: u32,
    /// The domain's name.
    pub domain: String,
    /// The id of the work item. Absent: a made-up item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The seed. The same seed, settings and assumptions give the same figures.
    pub seed: u64,
    /// Runs that arrive in an hour, on average.
    pub arrivals_an_hour: u32,
    /// Hours in which runs arrive.
    pub hours: u32,
    /// Each policy; the first is the domain's own.
    pub policies: Vec<FleetPolicy>,
    /// What is assumed of the fleet, of models, tools and people.
    pub assumptions: Vec<SimAssumption>,
}

/// Fleets under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetPolicy {
    /// Its name: that of its file, or `the domain's own`.
    pub name: String,
    /// What it changes, as dotted keys with their values.
    pub settings: Vec<(String, String)>,
    /// The figures for each number of workers.
    pub fleets: Vec<FleetFigures>,
}

/// What a fleet came to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetFigures {
    /// Workers.
    pub workers: u32,
    /// Runs that all workers have under way at a time.
    pub places: u32,
    /// Runs that arrived. All of them ended.
    pub runs: u64,
    /// Runs that ended in the hours of arrivals.
    pub ended_in_time: u64,
    /// Runs that waited for a place when the last one had arrived.
    pub backlog: u64,
    /// Runs that ended with the class `answered`.
    pub answered: u64,
    /// From a run's arrival until it began, in milliseconds.
    pub waited_ms: Amounts,
    /// From a run's arrival until its end, in milliseconds. The time of people is in it.
    pub took_ms: Amounts,
    /// Cost of a run in pico-dollars (10⁻¹² USD). Null: the price of a model is not known.
    pub cost_pico_usd: Option<Amounts>,
    /// Cost of all runs in pico-dollars. Null: the price of a model is not known.
    pub total_cost_pico_usd: Option<u64>,
    /// Model calls.
    pub model_calls: u64,
    /// How long a model call waited for the provider's limits, in milliseconds.
    pub limited_ms: Amounts,
    /// Model calls that would have waited beyond their time limit, and failed as `rate_limited`.
    pub rate_limited: u64,
    /// Workers that died, each death counted.
    pub deaths: u64,
    /// Runs that continued after the death of their worker, each time counted.
    pub taken_over: u64,
    /// How much of each resource was used in the hours of arrivals, the most used first.
    pub used: Vec<FleetUse>,
}

/// How much of a resource was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FleetUse {
    /// The resource.
    pub resource: FleetResource,
    /// What was used of it in the hours of arrivals, in percent; above 100 where more was asked for than there was.
    pub percent: u32,
}

/// What the runs of a fleet share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetResource {
    /// Places on workers.
    Places,
    /// Requests that the provider takes in a minute.
    Requests,
    /// Tokens that the provider takes in a minute.
    Tokens,
}

/// A resource of which at least this share is used is saturated: what waits for it grows without an end, or nearly.
const SATURATED_PERCENT: u32 = 95;

impl FleetFigures {
    /// The most used resource, if it is saturated: at least 95 % of it was used.
    pub fn saturated(&self) -> Option<FleetResource> {
        let most = self.used.first().filter(|used| used.percent >= SATURATED_PERCENT)?;
        Some(most.resource)
    }

    /// Whether no more runs waited for a place at the end of the arrivals than there are places.
    pub fn keeps_up(&self) -> bool {
        self.backlog <= u64::from(self.places)
    }
}

impl FleetResource {
    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Places => "places on workers",
            Self::Requests => "requests a minute",
            Self::Tokens => "tokens a minute",
        }
    }
}
