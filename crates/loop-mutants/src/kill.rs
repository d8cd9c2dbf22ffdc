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

/// Seconds of tests against which every mutant is run first. What they do not notice waits until all have been run against
/// them, since it may need all other tests.
const CHEAP: f64 = 10.0;

/// How often a test failed for a mutant of a function.
type Kills = Mutex<BTreeMap<(String, usize), u32>>;

/// A mutant, with the tests that reach it and have not been run.
struct Waiting<'a> {
    index: usize,
    mutant: &'a Mutant,
    tests: Vec<usize>,
}

/// What a share of the tests of a mutant shows.
enum Share {
    Fate(Fate),
    /// The tests that are left.
    Open(Vec<usize>),
}

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
    let reached = |mutant: &Mutant| reaching.get(&mutant.id).cloned().unwrap_or_default();
    let all = mutants.iter().enumerate();
    let mut waiting: Vec<Waiting<'_>> =
        all.map(|(index, mutant)| Waiting { index, mutant, tests: reached(mutant) }).collect();
    for seconds in [CHEAP, f64::INFINITY] {
        let work = Work { tests, folder, kills: &kills, seconds };
        waiting = work.share(&waiting, jobs, &done)?;
    }
    Ok(())
}

/// A share of the tests, and what it takes to run it.
struct Work<'a> {
    tests: &'a [Test],
    folder: &'a Path,
    kills: &'a Kills,
    /// Seconds of tests after which a mutant waits for the next share.
    seconds: f64,
}

impl Work<'_> {
    /// Runs mutants against a share of their tests. Returns those that it does not decide.
    fn share<'m>(
        &self,
        mutants: &[Waiting<'m>],
        jobs: usize,
        done: &(impl Fn(usize, &Mutant, Fate) + Sync),
    ) -> Result<Vec<Waiting<'m>>, String> {
        let next = AtomicUsize::new(0);
        let (failure, open) = (Mutex::new(None), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| {
                    while let Some(Waiting { index, mutant, tests }) =
                        mutants.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        match self.fate(mutant, tests) {
                            Ok(Share::Fate(fate)) => done(*index, mutant, fate),
                            Ok(Share::Open(tests)) => {
                                if let Ok(mut open) = open.lock() {
                                    open.push(Waiting { index: *index, mutant, tests });
                                }
                            }
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
        match failure.into_inner().ok().flatten() {
            Some(error) => Err(error),
            None => open.into_inner().map_err(|error| error.to_string()),
        }
    }

    fn fate(&self, mutant: &Mutant, reached: &[usize]) -> Result<Share, String> {
        let mut order: Vec<(f64, usize)> = Vec::with_capacity(reached.len());
        if let Ok(kills) = self.kills.lock() {
            for index in reached {
                let Some(test) = self.tests.get(*index) else { continue };
                let killed = kills.get(&(mutant.function.clone(), *index)).copied().unwrap_or(0);
                order.push((test.seconds / (1.0 + 10.0 * f64::from(killed)), *index));
            }
        }
        if order.is_empty() {
            return Ok(Share::Fate(Fate::Unreached));
        }
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let order = order.iter().filter_map(|(_, index)| Some((*index, self.tests.get(*index)?)));
        let mut waiting = order.peekable();
        let (mut size, mut spent) = (FIRST_BATCH, 0.0);
        while waiting.peek().is_some() {
            if spent >= self.seconds {
                return Ok(Share::Open(waiting.map(|(index, _)| index).collect()));
            }
            let mut seconds = 0.0;
            let mut batch: BTreeMap<&PathBuf, Vec<(usize, &Test)>> = BTreeMap::new();
            while let Some((index, test)) = waiting.next_if(|_| seconds < size) {
                seconds += test.seconds;
                batch.entry(&test.program).or_default().push((index, test));
            }
            size *= 2.0;
            spent += seconds;
            for (program, batch) in batch {
                let names: Vec<&str> = batch.iter().map(|(_, test)| test.name.as_str()).collect();
                let limit = GRACE + Duration::from_secs_f64(seconds * 10.0);
                match tests_of::run(program, self.folder, &names, mutant.id, limit)? {
                    Verdict::Passed => {}
                    Verdict::TimedOut => return Ok(Share::Fate(Fate::TimedOut)),
                    Verdict::Failed(name) => {
                        if let Some((index, _)) = batch.iter().find(|(_, test)| test.name == name)
                            && let Ok(mut kills) = self.kills.lock()
                        {
                            *kills.entry((mutant.function.clone(), *index)).or_default() += 1;
                        }
                        return Ok(Share::Fate(Fate::Caught(name)));
                    }
                }
            }
        }
        Ok(Share::Fate(Fate::Missed))
    }
}
