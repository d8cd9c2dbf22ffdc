//! The walk itself: breadth first, so that the way to the first fault is the shortest there is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loop_core::invariants::{self, Past};
use loop_core::{Event, Run, StopReason};

use crate::alphabet::Alphabet;
use crate::checks::{OF_A_STATE, OF_A_STEP, survives_a_checkpoint};
use crate::edge::{Edge, Ghost};
use crate::strays::Strays;
use crate::{money, shape};

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// States at most.
    pub states: usize,
    /// Whether the walk must see everything there is.
    pub whole: bool,
    /// How many ways are followed at a time: from there on one step of each state is, drawn by chance that is the same
    /// each time. Every step from a state that is seen is checked all the same.
    pub ways: usize,
    /// Of how many states one is stored and read back, which takes nine tenths of the time of a walk that is not
    /// optimised, and a third of another's.
    pub stored: usize,
}

/// What a walk saw.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    pub states: usize,
    pub edges: usize,
    /// Events of the longest of the shortest ways.
    pub depth: usize,
    /// The most events that a run can take, by the rank.
    pub bound: u64,
    /// Ends by reason.
    pub ends: BTreeMap<StopReason, usize>,
    /// Whether nothing was left out.
    pub whole: bool,
    pub seconds: f64,
}

/// A state, how it was come to, and how far it is.
struct SearchNode {
    parent: usize,
    event: Event,
    depth: usize,
}

/// Walks the alphabet; every invariant is checked on every edge.
///
/// # Panics
/// At the first fault, with the invariant, what is wrong, and the shortest way there.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "how long a walk took is only printed"
)]
pub fn walk(alphabet: &Alphabet, scope: Scope) -> Walked {
    let began = std::time::Instant::now();
    let strays = Strays::new();
    let (run, event, notes) = alphabet.start();
    let bound = invariants::bound(run.spec());
    let mut walked = Walked { bound, whole: true, ..Walked::default() };
    let ghost = Ghost { past: Past::start(&run, &notes), ..Ghost::default() };
    assert!(invariants::rank(&run) < bound, "the first state's rank is beyond the bound of the spec");
    let place = |run: &Run, ghost: &Ghost| {
        if alphabet.by_shape { shape::shape(run, ghost) } else { shape::whole(run, ghost) }
    };
    let mut seen = BTreeSet::from([place(&run, &ghost)]);
    let mut places = vec![SearchNode { parent: 0, event, depth: 0 }];
    let mut waiting = VecDeque::from([(0_usize, run, ghost)]);
    while let Some((here, run, ghost)) = waiting.pop_front() {
        walked.states += 1;
        walked.depth = walked.depth.max(places[here].depth);
        let fault = |name: &str, what: &str, last: Option<&Event>| -> ! {
            panic!("{}: {name}: {what}\n{}", alphabet.name, way(&places, here, last))
        };
        for it in invariants::OF_A_STATE {
            (it.check)(&run, &ghost.past).unwrap_or_else(|what| fault(&named(it.id, it.name), &what, None));
        }
        for (name, check) in OF_A_STATE {
            check(&run, &ghost).unwrap_or_else(|what| fault(name, &what, None));
        }
        if here.is_multiple_of(scope.stored) {
            survives_a_checkpoint(&run).unwrap_or_else(|what| fault("I-11 a checkpoint", &what, None));
        }
        strays.all_rejected(&run, &ghost).unwrap_or_else(|what| fault("strays", &what, None));
        if let Some(outcome) = run.outcome().filter(|_| run.is_done()) {
            *walked.ends.entry(outcome.stop.reason()).or_default() += 1;
        }
        let mut found = Vec::new();
        for edict in alphabet.events(&run) {
            let mut next = run.clone();
            let notes = match next.apply(&edict.event) {
                Ok(notes) => notes,
                Err(rejected) => {
                    if edict.must {
                        fault("what is commanded is taken", &rejected.to_string(), Some(&edict.event));
                    }
                    if next != run {
                        fault("a rejection changes nothing", &rejected.to_string(), Some(&edict.event));
                    }
                    continue;
                }
            };
            walked.edges += 1;
            let edge = Edge { before: &run, after: &next, was: &ghost, event: &edict.event, notes: &notes };
            for it in invariants::OF_A_STEP {
                let checked = (it.check)(&edge.transition(), &ghost.past);
                checked.unwrap_or_else(|what| fault(&named(it.id, it.name), &what, Some(&edict.event)));
            }
            for (name, check) in OF_A_STEP {
                check(&edge).unwrap_or_else(|what| fault(name, &what, Some(&edict.event)));
            }
            money::holds(&edge, alphabet.honest)
                .unwrap_or_else(|what| fault("I-1, I-2, I-3 money", &what, Some(&edict.event)));
            let after = ghost.after(&edge);
            if seen.len() >= scope.states {
                walked.whole = false;
            } else {
                let place = place(&next, &after);
                if !seen.contains(&place) {
                    found.push((place, edict.event, next, after));
                }
            }
        }
        let depth = places[here].depth + 1;
        if waiting.len() >= scope.ways && found.len() > 1 {
            walked.whole = false;
            found = vec![found.swap_remove(drawn(here) % found.len())];
        }
        for (place, event, next, after) in found {
            // Two events may lead to one state, and the states end somewhere.
            if seen.len() >= scope.states {
                walked.whole = false;
                break;
            }
            if !seen.insert(place) {
                continue;
            }
            waiting.push_back((places.len(), next, after));
            places.push(SearchNode { parent: here, event, depth });
        }
    }
    assert!(walked.whole || !scope.whole, "{}: more than {} states", alphabet.name, scope.states);
    walked.seconds = began.elapsed().as_secs_f64();
    // A share of the ways may miss an end.
    let reaches = if scope.ways == usize::MAX { alphabet.reaches } else { &[] };
    for reason in reaches {
        assert!(walked.ends.contains_key(reason), "{}: {reason} was never reached", alphabet.name);
    }
    walked
}

/// A number that looks like chance, and is the same for the same number.
fn drawn(number: usize) -> usize {
    let mixed = (number as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) as usize
}

fn named(id: &str, name: &str) -> String {
    format!("{id} {name}")
}

/// The events from the start to a place, one a line.
fn way(places: &[SearchNode], to: usize, last: Option<&Event>) -> String {
    let mut events = Vec::new();
    let mut at = to;
    while at != 0 {
        events.push(&places[at].event);
        at = places[at].parent;
    }
    events.reverse();
    events.extend(last);
    let line = |event: &&Event| serde_json::to_string(event).unwrap();
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}
