//! The driver in virtual time: the real runner over a simulated disk, models, tools, people, ledgers and crashes.

pub(crate) mod bugs;
mod check;
mod disk;
mod ledger;
mod lives;
mod people;
mod spec;
mod world;

use std::fmt;

use loop_testkit::sim::{Choices, SimFault, shrink_choices};

use bugs::Bug;
use disk::Happened;

/// The payload of a panic that a simulated tool raises.
pub(crate) const BREAKS_DOWN: &str = "the tool breaks down";

/// Keeps the numbers of the driver and of the core apart.
const DRIVERS: u64 = 0xd71e_0000_0000_0000;
/// One seed in so many is resumed from a prefix of its journal.
const PREFIXES: u64 = 4;
/// How much of an event is shown.
const SHOWN_CHARS: usize = 300;

/// What simulations of the driver came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    pub(crate) entries: u64,
    pub(crate) deaths: u64,
    pub(crate) dispatches: u64,
    pub(crate) prefixes: u64,
    /// Runs that shared a budget.
    pub(crate) shared: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.entries += other.entries;
        self.deaths += other.deaths;
        self.dispatches += other.dispatches;
        self.prefixes += other.prefixes;
        self.shared += other.shared;
    }
}

/// What a simulation of the driver came to.
#[derive(Clone, Debug)]
pub(crate) struct Driven {
    /// The first invariant that did not hold.
    pub(crate) fault: Option<SimFault>,
    pub(crate) tally: Tally,
    /// The choices that led to it.
    pub(crate) choices: Vec<u32>,
    /// Entries and deaths, in order.
    pub(crate) happened: Vec<Happened>,
}

/// Simulates one seed.
pub(crate) fn one(seed: u64, bug: Option<Bug>) -> Driven {
    simulate(Choices::of_seed(seed ^ DRIVERS), bug, prefix_of(seed))
}

fn prefix_of(seed: u64) -> Option<u64> {
    seed.is_multiple_of(PREFIXES).then_some(seed / PREFIXES)
}

fn simulate(choices: Choices, bug: Option<Bug>, prefix: Option<u64>) -> Driven {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(lives::simulated(choices, bug, prefix))
}

/// A fault of the driver with the shortest events that were found for it.
#[derive(Clone, Debug)]
pub(crate) struct ShrunkDriver {
    seed: u64,
    pub(crate) fault: SimFault,
    pub(crate) driven: Driven,
    pub(crate) from_events: usize,
}

/// Shrinks the simulation of a seed that breaks an invariant, in at most so many simulations. `None`: it breaks none.
pub(crate) fn shrink(seed: u64, bug: Option<Bug>, max_tries: u32) -> Option<ShrunkDriver> {
    let first = one(seed, bug);
    let fault = first.fault.clone()?;
    let from_events = first.happened.len();
    let shape = |driven: &Driven| (driven.happened.len(), driven.choices.clone());
    let driven = shrink_choices(first, max_tries, shape, |choices| {
        let driven = simulate(Choices::of_list(choices), bug, prefix_of(seed));
        driven.fault.as_ref().is_some_and(|other| other.check == fault.check).then_some(driven)
    });
    Some(ShrunkDriver { seed, fault: driven.fault.clone()?, driven, from_events })
}

impl fmt::Display for ShrunkDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SimFault { check, what } = &self.fault;
        writeln!(f, "driver seed {}: {check}: {what}", self.seed)?;
        let left = self.driven.happened.len();
        writeln!(f, "{left} of {} entries and deaths are left:", self.from_events)?;
        for happened in &self.driven.happened {
            writeln!(f, "  {happened}")?;
        }
        let drawn = self.driven.choices.iter().filter(|choice| **choice != 0).count();
        writeln!(f, "{drawn} of {} choices are not the plain one", self.driven.choices.len())
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(entry) => {
                let json = serde_json::to_string(&entry.event.kind).unwrap_or_default();
                let short: String = json.chars().take(SHOWN_CHARS).collect();
                write!(f, "{:>7} ms  {:>3} {short}", entry.event.at.0, entry.seq)
            }
            Self::NotWritten(seq) => write!(f, "            {seq:>3} cannot be written"),
            Self::Died => f.write_str("            the process dies"),
            Self::Prefix(count) => {
                write!(f, "            the first {count} entries are resumed by themselves")
            }
        }
    }
}
