//! Faults that are put into the child on purpose: a harness that finds none of them proves nothing.

use crate::case::Case;
use crate::check::check;
use crate::journal::{CrashPoint, Plant};
use crate::scenarios::by_name;
use crate::suite::{Extent, Totals, Wholes};

/// Each fault, where it is played, and what the check must say.
const FAULTS: [(Plant, &str, CrashPoint, &str); 4] = [
    (Plant::EarlyAck, "keyed", CrashPoint::Before(4), "I-13: entry 4"),
    (Plant::EarlyAck, "two", CrashPoint::Before(0), "is lost"),
    (Plant::Twice, "irreversible", CrashPoint::After(2), "I-7: pay(p2) happened 2 times"),
    (Plant::Orphan, "document", CrashPoint::After(3), "I-14: left behind"),
];

pub fn all(_: Extent, _: &Wholes) -> Totals {
    let mut totals = Totals::default();
    for (plant, scenario, place, expected) in FAULTS {
        let folder = tempfile::tempdir().unwrap();
        let case = Case { plant, ..Case::at(scenario, &[place]) };
        let mut played = case.play(folder.path(), None);
        let found = check(&mut played, by_name(scenario).items);
        let is_found = played.problems.iter().any(|problem| problem.contains(expected));
        let missed = format!("not found; the check says {:?}", played.problems);
        let missed: Vec<String> = (!is_found).then_some(missed).into_iter().collect();
        totals.add(&format!("the fault {plant:?}"), &played, &found, &missed);
    }
    totals
}
