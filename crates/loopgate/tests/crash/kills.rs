//! Kills and failures at exact places of the scenarios.

use crate::case::Case;
use crate::journal::CrashPoint;
use crate::scenarios::ALL;
use crate::suite::{Dice, Extent, Totals, Wholes, places, play_all};

/// H1, I-12, I-13: a process is killed before and after each entry, and while each request is at its server.
pub fn at_each_place(extent: Extent, wholes: &Wholes) -> Totals {
    let mut dice = Dice::new(extent, "each");
    let mut cases = Vec::new();
    for scenario in ALL {
        let all = places(&wholes[scenario.name]);
        let chosen = if extent.full { all } else { dice.some(&all, 3) };
        cases.extend(chosen.iter().map(|place| Case::at(scenario.name, &[*place])));
    }
    play_all(&cases, wholes)
}

/// The processes that resume are killed as well, at random places: up to three kills of a run.
pub fn of_resumed(extent: Extent, wholes: &Wholes) -> Totals {
    let mut dice = Dice::new(extent, "resumed");
    let mut cases = Vec::new();
    for scenario in ALL {
        let all = places(&wholes[scenario.name]);
        let firsts = if extent.full { [&all[..], &all[..]].concat() } else { dice.some(&all, 1) };
        for first in firsts {
            let mut later = || all[usize::try_from(dice.below(all.len() as u64)).unwrap()];
            let second = later();
            let third = later();
            cases.push(Case::at(scenario.name, &[first, second, third]));
        }
    }
    play_all(&cases, wholes)
}

/// A process is killed at a random instant, wherever it is then.
pub fn by_timer(extent: Extent, wholes: &Wholes) -> Totals {
    let mut dice = Dice::new(extent, "timer");
    let count = if extent.full { 48 } else { 1 };
    let mut cases = Vec::new();
    for scenario in ALL {
        let micros = wholes[scenario.name].micros;
        let place = |dice: &mut Dice| CrashPoint::Timer(dice.below(micros));
        cases.extend((0..count).map(|_| Case::at(scenario.name, &[place(&mut dice), place(&mut dice)])));
    }
    play_all(&cases, wholes)
}

/// H4, H5: the journal fails at each entry, for good or once. No effect follows, and the next process continues.
pub fn failing_journals(extent: Extent, wholes: &Wholes) -> Totals {
    let mut dice = Dice::new(extent, "failing");
    let mut cases = Vec::new();
    for scenario in ALL {
        let appends = wholes[scenario.name].appends;
        let all: Vec<CrashPoint> =
            (0..appends).flat_map(|n| [CrashPoint::Fail(n), CrashPoint::FailOnce(n)]).collect();
        let chosen = if extent.full { all } else { dice.some(&all, 1) };
        cases.extend(chosen.iter().map(|place| Case::at(scenario.name, &[*place])));
    }
    play_all(&cases, wholes)
}
