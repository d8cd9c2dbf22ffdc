//! A study of a domain: how its runs end under its policy, drawn by assumptions that are printed.
//!
//! Limits, policy, prompts and tool declarations are the domain's own, and the gate is the real one. Models, tools and
//! people are drawn. A study calls no model and runs no tool. It needs no key.

mod arguments;
mod assumptions;
mod distribution;
mod model;
mod one;

use std::sync::Arc;

use loop_core::{RunSpec, WorkItem};
use loop_prompts::Prompts;

use crate::sim::{Fault, SimWorld};

pub use assumptions::{AssumptionError, Assumptions, SimAssumption};
pub(in crate::sim) use one::{Next, One, Provider, Sent};

pub use distribution::{Amounts, ClassRuns, Distribution, ReachedLimit, ReasonRuns, SIM_VERSION};

/// A text for a work item where none is named, of so many bytes.
const ANY_ITEM_BYTES: u64 = 1_500;

/// A study: a domain's spec and prompts, a work item, and what is assumed.
#[derive(Clone, Debug)]
pub struct Study {
    world: SimWorld,
    prompts: Arc<Prompts>,
    item: Option<WorkItem>,
    assumed: Assumptions,
}

impl Study {
    /// A study of runs of this item; `None`: of a made-up item of 1,500 bytes.
    pub fn new(
        spec: &Arc<RunSpec>,
        prompts: &Arc<Prompts>,
        item: Option<WorkItem>,
        assumed: Assumptions,
    ) -> Self {
        let world = SimWorld::new(Arc::clone(spec), item.clone().unwrap_or_else(any_item));
        Self { world, prompts: Arc::clone(prompts), item, assumed }
    }

    /// Simulates `runs` runs from this seed on.
    ///
    /// # Errors
    /// The seed of the first run that broke an invariant, which is a bug of the core.
    pub fn simulate(&self, seed: u64, runs: u32) -> Result<Distribution, (u64, Fault)> {
        let mut studied = Vec::with_capacity(runs as usize);
        for n in 0..u64::from(runs) {
            // Seeds next to each other give runs that have nothing in common.
            let own = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n);
            let run =
                one::one(&self.world, &self.prompts, &self.assumed, own).map_err(|fault| (own, fault))?;
            studied.push(run);
        }
        Ok(Distribution::of(&self.world.spec, self.item.as_ref(), &self.assumed, seed, &studied))
    }
}

/// A made-up work item.
pub(in crate::sim) fn any_item() -> WorkItem {
    WorkItem::new("any", "item", "Any work item", &model::filler(ANY_ITEM_BYTES))
}
