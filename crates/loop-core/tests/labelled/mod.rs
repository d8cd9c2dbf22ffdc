//! A labelled set of short runs, made here: unproductive loops, and productive runs that repeat themselves for a reason.
//!
//! `progress` refuses the loops from their third round on, and nothing in a productive run.

mod draft;
mod loops;
mod productive;
/// The example is what scores the set.
#[allow(dead_code, reason = "its main prints what is compared here")]
#[path = "../../examples/score.rs"]
mod score;

use draft::{Draft, Rng};
use score::{Recording, Score};

/// How many runs each kind has.
const OF_A_KIND: usize = 12;

/// The runs of each kind, with the step from which a loop should be refused.
fn made() -> Vec<(Recording, Option<usize>)> {
    let mut runs = Vec::new();
    for (kind, make) in productive::KINDS.iter().chain(loops::KINDS) {
        for n in 0..OF_A_KIND {
            let id = format!("{kind}-{n:02}");
            let mut draft = Draft::default();
            make(&mut Rng::of(&id), &mut draft);
            let effects = draft.effects.into_iter().map(|(tool, effect)| (tool, effect.to_owned()));
            runs.push((Recording { id, effects: effects.collect(), steps: draft.steps }, draft.loop_from));
        }
    }
    runs
}

#[test]
fn every_loop_is_refused_in_time_and_nothing_in_a_productive_run_is() {
    // Issue 19, part 7.
    let runs = made();
    let loops = runs.iter().filter(|(_, from)| from.is_some()).count();
    assert!(loops >= 240 && runs.len() - loops >= 240, "{loops} loops of {}", runs.len());
    for (run, from) in &runs {
        let score = Score::of(run);
        let refused: Vec<usize> = score.refused.iter().map(|refused| refused.step).collect();
        match from {
            None => assert_eq!(refused, [] as [usize; 0], "{run:#?}"),
            Some(from) => {
                let is_in_time = refused.first().is_some_and(|first| first >= from);
                assert!(is_in_time, "should be refused from {from}: {refused:?} {run:#?}");
            }
        }
        let is_new = score.refused.iter().any(|refused| refused.is_new);
        assert!(!is_new, "{:?} {run:#?}", score.refused);
    }
}
