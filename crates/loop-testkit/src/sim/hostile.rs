//! A hostile simulation: events are drawn and applied until the run is done, and each step is checked.

use std::collections::BTreeMap;

use loop_core::invariants::{Checker, Transition, Violation, bound};
use loop_core::run::Refusal;
use loop_core::{Event, EventKind, Note, Run, StopReason};

use crate::sim::check::{self, GhostState};
use crate::sim::events;
use crate::sim::{Choices, HostileWorld};

/// How many seeds share a world, which costs more to make than a run in it.
const RUNS_OF_A_WORLD: u64 = 64;

/// Whether and when the faults of a simulation end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMode {
    /// Faults continue until the run has received many events.
    Safety,
    /// Faults end soon, after which the run must end within its bound.
    Liveness,
}

impl FaultMode {
    /// The mode of a seed: one in five is for liveness.
    pub fn of(seed: u64) -> Self {
        if seed.is_multiple_of(5) { Self::Liveness } else { Self::Safety }
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimFault {
    /// The name of the check.
    pub check: &'static str,
    /// What was found.
    pub what: String,
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The events that were accepted, the first one included, each with the core's notes.
    pub journal: Vec<(Event, Vec<Note>)>,
    /// The run after the last event.
    pub run: Run,
    /// How many events were rejected.
    pub rejected: u32,
    /// The first violated invariant.
    pub fault: Option<SimFault>,
    /// The choices that led to it.
    pub choices: Vec<u32>,
}

/// The results of many simulations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationTally {
    /// Runs that were driven to their end.
    pub runs: u64,
    /// Events that were accepted.
    pub events: u64,
    /// Events that were rejected.
    pub rejected: u64,
    /// Runs that were replayed from their journal and compared.
    pub replayed: u64,
    /// How many runs ended for each reason.
    pub reasons: BTreeMap<StopReason, u64>,
}

impl SimulationTally {
    /// Adds the runs of another tally.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.events += other.events;
        self.rejected += other.rejected;
        self.replayed += other.replayed;
        for (reason, runs) in &other.reasons {
            *self.reasons.entry(*reason).or_default() += runs;
        }
    }

    /// Adds one run.
    pub fn count(&mut self, simulated: &Simulated) {
        self.runs += 1;
        self.events += simulated.journal.len() as u64;
        self.rejected += u64::from(simulated.rejected);
        if let Some(outcome) = simulated.run.outcome() {
            *self.reasons.entry(outcome.stop.reason()).or_default() += 1;
        }
    }
}

/// The seed of the world of a run.
pub(crate) fn world_of(seed: u64) -> u64 {
    seed / RUNS_OF_A_WORLD
}

/// Simulates the seeds `from..to`, until one breaks an invariant.
///
/// # Errors
/// The first seed that violates an invariant, and its result.
pub fn simulate(from: u64, to: u64) -> Result<SimulationTally, (u64, Box<Simulated>)> {
    let mut tally = SimulationTally::default();
    let mut world = None;
    for seed in from..to {
        let of = world_of(seed);
        if world.as_ref().is_none_or(|(known, _)| *known != of) {
            world = Some((of, HostileWorld::drawn(&mut Choices::of_seed(of ^ WORLDS))));
        }
        let Some((_, world)) = &world else { continue };
        let simulated = simulate_choices(world, FaultMode::of(seed), Choices::of_seed(seed));
        if simulated.fault.is_some() {
            return Err((seed, Box::new(simulated)));
        }
        tally.count(&simulated);
        if seed.is_multiple_of(check::REPLAYED) {
            tally.replayed += 1;
            if let Err(fault) = check::replay(world, &simulated, seed) {
                return Err((seed, Box::new(Simulated { fault: Some(fault), ..simulated })));
            }
        }
    }
    Ok(tally)
}

/// The world of a seed.
pub(crate) fn drawn_world(seed: u64) -> HostileWorld {
    HostileWorld::drawn(&mut Choices::of_seed(world_of(seed) ^ WORLDS))
}

/// Separates the random numbers of worlds from those of runs.
const WORLDS: u64 = 0x5157_0000_0000_0000;

/// The first violation of the core's invariants, as a fault.
fn first_of(violations: &[Violation]) -> Option<SimFault> {
    violations.first().map(|it| SimFault { check: it.name, what: it.to_string() })
}

/// Simulates one run with these choices, until it is done or an invariant is violated.
pub fn simulate_choices(world: &HostileWorld, mode: FaultMode, mut choices: Choices) -> Simulated {
    let calm_after = match mode {
        FaultMode::Liveness => choices.below(14),
        FaultMode::Safety => 60,
    };
    let (run, first, notes) = world.start();
    let mut ghost = GhostState::start(&run);
    let bound = bound(run.spec());
    let (mut checker, violations) = Checker::start(&run, &notes);
    let mut fault = first_of(&violations);
    let mut journal = vec![(first, notes)];
    let mut log: Vec<Event> = Vec::new();
    let (mut run, mut now, mut rejected, mut steps, mut uncounted) = (run, 0_u64, 0_u32, 0_u32, 0_u64);
    let mut calm_since = None;
    while fault.is_none() && !run.is_done() {
        if steps >= calm_after && !choices.is_calm() {
            choices.calm();
            calm_since = Some(now);
        }
        steps += 1;
        let event = events::next(&mut choices, &run, &log, &mut now);
        let before = run.clone();
        match run.apply(&event) {
            Ok(notes) => {
                now = now.max(event.at.0);
                let free = matches!(
                    event.kind,
                    EventKind::StopRequested { .. }
                        | EventKind::StopWithdrawn
                        | EventKind::Instruction { .. }
                        | EventKind::Resumed { .. }
                        | EventKind::CallRefused { refusal: Refusal::SharedBudget { .. }, .. }
                );
                uncounted += u64::from(free);
                let step = Transition { before: &before, event: &event, notes: &notes, after: &run };
                fault = check::step(&step, checker.past(), &mut ghost).err();
                fault = fault.or(first_of(&checker.step(&step)));
                fault = fault.or_else(|| check::tries(&run, checker.past(), &ghost).err());
                log.push(event.clone());
                journal.push((event, notes));
                if journal.len() as u64 > bound + uncounted {
                    fault = fault.or(Some(check::endless(bound, &run)));
                }
            }
            Err(why) => {
                rejected += 1;
                fault = check::rejected(&before, &run, &event, &why).err();
                // While faults continue, a rejection is one of them. Afterwards the driver does only what is commanded.
                if choices.is_calm() && fault.is_none() {
                    fault = Some(check::refused_a_driver(&event, &why));
                }
            }
        }
    }
    if fault.is_none() {
        fault = check::at_the_end(&run, &ghost, calm_since, now).err();
    }
    if fault.is_none() {
        fault = check::is_within_plan(&run, &world.spec).err();
    }
    Simulated { journal, run, rejected, fault, choices: choices.taken().to_vec() }
}
