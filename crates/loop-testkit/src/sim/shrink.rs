//! Shrinks a list of choices that violates an invariant to a short one that violates the same.

use std::fmt;

use crate::sim::Choices;
use crate::sim::hostile::{FaultMode, SimFault, Simulated, drawn_world, simulate_choices};

/// The most simulations of a shrinking.
const TRIES: u32 = 4_000;

/// A fault with the shortest list of events that was found for it.
#[derive(Clone, Debug)]
pub struct ShrunkFault {
    /// The seed.
    pub seed: u64,
    /// The broken invariant.
    pub fault: SimFault,
    /// The simulation that violates it.
    pub simulated: Simulated,
    /// How many events the original seed needed until the fault.
    pub from_events: usize,
}

/// Shrinks the simulation of a seed. `None`: it violates no invariant.
pub fn shrink(seed: u64) -> Option<ShrunkFault> {
    let world = drawn_world(seed);
    let mode = FaultMode::of(seed);
    let first = simulate_choices(&world, mode, Choices::of_seed(seed));
    let fault = first.fault.clone()?;
    let from_events = first.journal.len();
    let shape = |simulated: &Simulated| (simulated.journal.len(), simulated.choices.clone());
    let simulated = shrink_choices(first, TRIES, shape, |list| {
        let other = simulate_choices(&world, mode, Choices::of_list(list));
        other.fault.as_ref().is_some_and(|other| other.check == fault.check).then_some(other)
    });
    Some(ShrunkFault { seed, fault: simulated.fault.clone()?, simulated, from_events })
}

/// The simplest simulation that is found from `first` in at most `max_tries` simulations, by removing choices and
/// setting them to zero.
///
/// `shape` returns a simulation's events and choices. `again` simulates a list of choices, and returns the simulation
/// if it violates the same check.
pub fn shrink_choices<S>(
    first: S,
    max_tries: u32,
    shape: impl Fn(&S) -> (usize, Vec<u32>),
    mut again: impl FnMut(Vec<u32>) -> Option<S>,
) -> S {
    let (mut best, mut tries) = (first, 0);
    let (mut events, mut choices) = shape(&best);
    let mut width = choices.len() / 2;
    let mut at = 0;
    while width > 0 && tries < max_tries {
        let end = (at + width).min(choices.len());
        let mut simpler = None;
        for list in [without(&choices, at, end), zeroed(&choices, at, end)] {
            tries += 1;
            let Some(other) = again(list) else { continue };
            let (other_events, other_choices) = shape(&other);
            if weight(other_events, &other_choices) < weight(events, &choices) {
                simpler = Some((other, other_events, other_choices));
                break;
            }
        }
        at = match simpler {
            Some(found) => {
                (best, events, choices) = found;
                0
            }
            None => end,
        };
        if at >= choices.len() {
            (at, width) = (0, width / 2);
        }
    }
    best
}

fn without(choices: &[u32], from: usize, to: usize) -> Vec<u32> {
    let kept = choices.iter().enumerate().filter(|(at, _)| !(from..to).contains(at));
    kept.map(|(_, choice)| *choice).collect()
}

fn zeroed(choices: &[u32], from: usize, to: usize) -> Vec<u32> {
    let choice = |(at, choice): (usize, &u32)| if (from..to).contains(&at) { 0 } else { *choice };
    choices.iter().enumerate().map(choice).collect()
}

/// The order of simplicity: fewer events, then fewer choices other than zero, then fewer choices.
fn weight(events: usize, choices: &[u32]) -> (usize, usize, usize) {
    (events, choices.iter().filter(|choice| **choice != 0).count(), choices.len())
}

impl fmt::Display for ShrunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SimFault { check, what } = &self.fault;
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
