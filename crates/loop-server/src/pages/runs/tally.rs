//! Runs in order, with incremental counts by domain, day, outcome, model and confidence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loop_core::types::{Cost, PicoUsd};
use loop_inspect::listed::ListedRun;

use super::charts::DAY_MS;

/// The order of a run in a list: by start time, then by id. Lists begin with the greatest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::pages) struct RunOrder {
    pub(in crate::pages) unix_ms: u64,
    pub(in crate::pages) run: String,
}

impl RunOrder {
    pub(in crate::pages) fn of(run: &ListedRun) -> Self {
        Self { unix_ms: run.started_unix_ms, run: run.run.clone() }
    }
}

/// The cached runs of a journal, for the page of runs.
#[derive(Clone, Debug, Default)]
pub(in crate::pages) struct KeptRuns {
    /// Runs that have ended or cannot be read.
    pub(in crate::pages) ended: Arc<BTreeMap<RunOrder, Arc<ListedRun>>>,
    /// Their counts.
    pub(in crate::pages) tally: Arc<RunTally>,
    /// The others, newest first.
    pub(in crate::pages) open: Vec<ListedRun>,
    /// Whether there are older runs that are not cached.
    pub(in crate::pages) is_cut: bool,
}

/// The key that runs are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TallyKey {
    /// The day of the start (UTC), in days since 1970.
    pub(super) day: u64,
    pub(super) domain: String,
    pub(super) outcome: String,
    /// The stop reason, or the state of a run without one.
    pub(super) reason: String,
    pub(super) has_reason: bool,
    /// Empty: unknown.
    pub(super) model: String,
    /// Empty: the protocol states none.
    pub(super) confidence: String,
    pub(super) state: &'static str,
}

/// The runs of one key: their number, cost and duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunSums {
    pub(super) runs: u64,
    pub(super) cost: Cost,
    pub(super) durations: Durations,
}

/// A histogram of durations in milliseconds, rounded to two digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Durations(BTreeMap<u64, u64>);

impl Durations {
    fn count(&mut self, ms: u64) -> &mut u64 {
        let digits = ms.checked_ilog10().unwrap_or_default().saturating_sub(1);
        let unit = 10_u64.pow(digits);
        self.0.entry(ms / unit * unit).or_default()
    }

    pub(super) fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(ms, count)| *self.0.entry(*ms).or_default() += count);
    }

    /// The duration within which this percentage of runs ended. `None`: there are no runs.
    pub(super) fn percentile(&self, nth: u64) -> Option<u64> {
        let rank = (self.0.values().sum::<u64>() * nth).div_ceil(100).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|(ms, count)| {
            seen += count;
            (seen >= rank).then_some(*ms)
        })
    }
}

/// The counts of runs by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::pages) struct RunTally {
    kinds: BTreeMap<TallyKey, RunSums>,
}

/// The day of a time (UTC), in days since 1970.
pub(super) fn day_of(unix_ms: u64) -> u64 {
    unix_ms / DAY_MS
}

impl TallyKey {
    fn of(run: &ListedRun) -> Self {
        Self {
            day: day_of(run.started_unix_ms),
            domain: run.domain.clone(),
            outcome: run.outcome().to_owned(),
            reason: run.reason.clone().unwrap_or_else(|| run.state.name().to_owned()),
            has_reason: run.reason.is_some(),
            model: run.model.clone().unwrap_or_default(),
            confidence: run.confidence.clone().unwrap_or_default(),
            state: run.state.name(),
        }
    }
}

impl RunTally {
    pub(in crate::pages) fn add(&mut self, run: &ListedRun) {
        let kind = self.kinds.entry(TallyKey::of(run)).or_default();
        kind.runs += 1;
        let (known, unknown) = (PicoUsd(run.cost.pico_usd), run.cost.unpriced_calls);
        kind.cost = Cost {
            known: kind.cost.known.plus(known),
            unknown_calls: kind.cost.unknown_calls.saturating_add(unknown),
        };
        if let Some(ms) = run.duration_ms {
            *kind.durations.count(ms) += 1;
        }
    }

    #[cfg(feature = "http")]
    /// Subtracts a run that was added.
    pub(in crate::pages) fn remove(&mut self, run: &ListedRun) {
        let key = TallyKey::of(run);
        let Some(kind) = self.kinds.get_mut(&key) else { return };
        kind.runs = kind.runs.saturating_sub(1);
        kind.cost.known = PicoUsd(kind.cost.known.0.saturating_sub(run.cost.pico_usd));
        kind.cost.unknown_calls = kind.cost.unknown_calls.saturating_sub(run.cost.unpriced_calls);
        if let Some(ms) = run.duration_ms {
            let count = kind.durations.count(ms);
            *count = count.saturating_sub(1);
        }
        if kind.runs == 0 {
            self.kinds.remove(&key);
        }
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = (&TallyKey, &RunSums)> {
        self.kinds.iter()
    }

    /// Adds the counts of another tally whose keys are `kept`.
    pub(super) fn with(&mut self, other: &Self, kept: impl Fn(&TallyKey) -> bool) {
        for (key, more) in other.kinds().filter(|(key, _)| kept(key)) {
            let kind = self.kinds.entry(key.clone()).or_default();
            kind.runs += more.runs;
            kind.cost = Cost {
                known: kind.cost.known.plus(more.cost.known),
                unknown_calls: kind.cost.unknown_calls.saturating_add(more.cost.unknown_calls),
            };
            kind.durations.add(&more.durations);
        }
    }

    /// All values of one part of the keys.
    pub(super) fn names<'a>(&'a self, of: impl Fn(&'a TallyKey) -> &'a str) -> Vec<String> {
        let names: BTreeSet<&str> = self.kinds.keys().map(of).filter(|name| !name.is_empty()).collect();
        names.into_iter().map(str::to_owned).collect()
    }
}
