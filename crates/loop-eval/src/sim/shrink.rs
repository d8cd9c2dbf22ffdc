//! Shrinking: from a list of choices that breaks an invariant to a short one that breaks the same.

use std::fmt;

use crate::sim::hostile::{Fault, SimPlan, Simulated, drawn_world, simulate_choices};
use crate::sim::{Choices, SimWorld};

/// How many simulations a shrinking may take.
const TRIES: u32 = 4_000;

/// A fault with the shortest events that were found for it.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The seed.
    pub seed: u64,
    /// The broken invariant.
    pub fault: Fault,
    /// The simulation that breaks it.
    pub simulated: Simulated,
    /// How many events the seed took until the fault.
    pub from_events: usize,
}

/// Shrinks the simulation of a seed that breaks an invariant. `None`: it breaks none.
pub fn shrink(seed: u64) -> Option<Shrunk> {
    let world = drawn_world(seed);
    let plan = SimPlan::of(seed);
    let first = simulate_choices(&world, plan, Choices::of_seed(seed));
    let fault = first.fault.clone()?;
    let from_events = first.journal.len();
    let mut best = first;
    let mut tries = 0;
    let mut width = best.choices.len() / 2;
    while width > 0 && tries < TRIES {
        let shorter = pass(&world, plan, &best, &fault, width, &mut tries);
        match shorter {
            Some(shorter) => best = shorter,
            None => width /= 2,
        }
    }
    Some(Shrunk { seed, fault: best.fault.clone()?, simulated: best, from_events })
}

/// The first simulation that is simpler by `width` choices: these are left out, or are zero.
fn pass(
    world: &SimWorld,
    plan: SimPlan,
    best: &Simulated,
    fault: &Fault,
    width: usize,
    tries: &mut u32,
) -> Option<Simulated> {
    for at in (0..best.choices.len()).step_by(width) {
        let end = (at + width).min(best.choices.len());
        let mut without = best.choices.clone();
        without.drain(at..end);
        let mut zeroed = best.choices.clone();
        zeroed.get_mut(at..end)?.fill(0);
        for list in [without, zeroed] {
            *tries += 1;
            if *tries > TRIES {
                return None;
            }
            let other = simulate_choices(world, plan, Choices::of_list(list));
            let is_same = other.fault.as_ref().is_some_and(|other| other.check == fault.check);
            if is_same && weight(&other) < weight(best) {
                return Some(other);
            }
        }
    }
    None
}

/// Fewer events are simpler, then fewer choices that are not zero, then fewer choices.
fn weight(simulated: &Simulated) -> (usize, usize, usize) {
    let drawn = simulated.choices.iter().filter(|choice| **choice != 0).count();
    (simulated.journal.len(), drawn, simulated.choices.len())
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { check, what } = &self.fault;
        writeln!(f, "seed {}: {check}: {what}", self.seed)?;
        let events = self.simulated.journal.len();
        writeln!(f, "{events} of {} events are left:", self.from_events)?;
        for (event, _) in &self.simulated.journal {
            let json = serde_json::to_string(&event.kind).unwrap_or_default();
            let short: String = json.chars().take(300).collect();
            writeln!(f, "  {:>7} ms  {short}", event.at.0)?;
        }
        Ok(())
    }
}
