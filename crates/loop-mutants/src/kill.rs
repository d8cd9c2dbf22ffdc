//! Runs mutants against the tests that reach them, the cheapest and the most successful tests first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::mutant::Mutant;
use crate::tests_of::{self, Test, Verdict};

/// Seconds of tests in the first batch. Each further one has twice as many.
const FIRST_BATCH: f64 = 0.2;
/// Seconds of the processor that a batch may take besides ten times what it takes without a mutant.
const GRACE: Duration = Duration::from_secs(8);

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The test that failed.
    Caught(String),
    TimedOut,
    /// Tests reach it and pass.
    Missed,
    /// No test reaches it.
    Unreached,
}

/// How often a test failed for a mutant of a function.
type Kills = Mutex<BTreeMap<(String, usize), u32>>;

/// Runs mutants, `jobs` at a time, and gives each fate to `done` in the order in which they end.
pub(crate) fn run(
    mutants: &[&Mutant],
    tests: &[Test],
    folder: &Path,
    jobs: usize,
    done: impl Fn(usize, &Mutant, Fate) + Sync,
) -> Result<(), String> {
    let reaching = tests_of::reaching(tests);
    let kills = Kills::default();
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((index, mutant)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    mutants.get(index).map(|mutant| (index, *mutant))
                } {
                    let reached = reaching.get(&mutant.id).map_or(&[][..], Vec::as_slice);
                    match fate(mutant, tests, reached, folder, &kills) {
                        Ok(fate) => done(index, mutant, fate),
                        Err(error) => {
                            if let Ok(mut failure) = failure.lock() {
                                *failure = Some(error);
                            }
                            return;
                        }
                    }
                }
            });
        }
    });
    failure.into_inner().ok().flatten().map_or(Ok(()), Err)
}

fn fate(
    mutant: &Mutant,
    tests: &[Test],
    reached: &[usize],
    folder: &Path,
    kills: &Kills,
) -> Result<Fate, String> {
    let mut order: Vec<(f64, usize)> = Vec::with_capacity(reached.len());
    if let Ok(kills) = kills.lock() {
        for index in reached {
            let Some(test) = tests.get(*index) else { continue };
            let killed = kills.get(&(mutant.function.clone(), *index)).copied().unwrap_or(0);
            order.push((test.seconds / (1.0 + 10.0 * f64::from(killed)), *index));
        }
    }
    if order.is_empty() {
        return Ok(Fate::Unreached);
    }
    order.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut waiting = order.iter().filter_map(|(_, index)| Some((*index, tests.get(*index)?))).peekable();
    let mut size = FIRST_BATCH;
    while waiting.peek().is_some() {
        let mut seconds = 0.0;
        let mut batch: BTreeMap<&PathBuf, Vec<(usize, &Test)>> = BTreeMap::new();
        while let Some((index, test)) = waiting.next_if(|_| seconds < size) {
            seconds += test.seconds;
            batch.entry(&test.program).or_default().push((index, test));
        }
        size *= 2.0;
        for (program, batch) in batch {
            let names: Vec<&str> = batch.iter().map(|(_, test)| test.name.as_str()).collect();
            let limit = GRACE + Duration::from_secs_f64(seconds * 10.0);
            match tests_of::run(program, folder, &names, mutant.id, limit)? {
                Verdict::Passed => {}
                Verdict::TimedOut => return Ok(Fate::TimedOut),
                Verdict::Failed(name) => {
                    if let Some((index, _)) = batch.iter().find(|(_, test)| test.name == name)
                        && let Ok(mut kills) = kills.lock()
                    {
                        *kills.entry((mutant.function.clone(), *index)).or_default() += 1;
                    }
                    return Ok(Fate::Caught(name));
                }
            }
        }
    }
    Ok(Fate::Missed)
}
