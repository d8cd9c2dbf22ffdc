//! A cache of runners: those of the served domains, and those with settings of callers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Runners by the origin from which they are made. A run in progress has its own copy.
#[derive(Debug)]
pub(super) struct RunnerCache<R> {
    state: Mutex<CachedRunners<R>>,
}

#[derive(Debug)]
struct CachedRunners<R> {
    /// The runners of the served domains. They stay, with the settings of the server's start.
    served: BTreeMap<String, R>,
    /// Other runners, with the number of their last use.
    others: BTreeMap<String, (u64, R)>,
    uses: u64,
}

/// The most other runners.
const MAX_OTHERS: usize = 64;

impl<R> Default for RunnerCache<R> {
    fn default() -> Self {
        let state = CachedRunners { served: BTreeMap::new(), others: BTreeMap::new(), uses: 0 };
        Self { state: Mutex::new(state) }
    }
}

impl<R: Clone> RunnerCache<R> {
    /// Adds the runner of a served domain.
    pub(super) fn serve(&self, origin: String, runner: R) {
        self.with(|state| state.served.insert(origin, runner));
    }

    /// The runner of this origin. `None`: it is not in the cache.
    pub(super) fn find(&self, origin: &str) -> Option<R> {
        self.with(|state| {
            if let Some(runner) = state.served.get(origin) {
                return Some(runner.clone());
            }
            state.uses += 1;
            let (used, runner) = state.others.get_mut(origin)?;
            *used = state.uses;
            Some(runner.clone())
        })
    }

    /// Adds a runner, in place of the least recently used one.
    pub(super) fn keep(&self, origin: String, runner: R) {
        self.with(|state| {
            if !state.others.contains_key(&origin) && state.others.len() >= MAX_OTHERS {
                let oldest = state.others.iter().min_by_key(|(_, (used, _))| *used);
                if let Some(origin) = oldest.map(|(origin, _)| origin.clone()) {
                    state.others.remove(&origin);
                }
            }
            state.uses += 1;
            state.others.insert(origin, (state.uses, runner));
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut CachedRunners<R>) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_served_runner_is_never_dropped_and_of_others_the_one_that_was_used_longest_ago() {
        let kept: RunnerCache<()> = RunnerCache::default();
        kept.serve("served".to_owned(), ());
        kept.keep("used".to_owned(), ());
        kept.keep("unused".to_owned(), ());
        for n in 0..10 * MAX_OTHERS {
            kept.keep(format!("other {n}"), ());
            assert!(kept.find("used").is_some() && kept.find("served").is_some(), "{n}");
        }
        assert!(kept.find("unused").is_none() && kept.find("other 0").is_none());
        assert_eq!(kept.with(|state| state.others.len()), MAX_OTHERS);
    }
}
