//! Runs in their order, and how many there are of each kind, counted up and down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loop_core::types::{Cost, PicoUsd};
use loop_inspect::listed::ListedRun;

use super::RunsFilter;
use crate::pages::text::day;

/// The place of a run in a list: by the time of its start, then by its id. A list begins with the greatest.
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

/// The runs of a journal, of which the page of runs is made.
#[derive(Clone, Debug, Default)]
pub(in crate::pages) struct KeptRuns {
    /// Those that have ended or cannot be read.
    pub(in crate::pages) ended: Arc<BTreeMap<RunOrder, Arc<ListedRun>>>,
    /// How many those are.
    pub(in crate::pages) tally: Arc<RunTally>,
    /// The others, newest first.
    pub(in crate::pages) open: Vec<ListedRun>,
    /// Whether there are older runs besides.
    pub(in crate::pages) is_cut: bool,
}

/// What runs are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TallyKey {
    /// The day of the start (UTC), as `2026-11-26`.
    pub(super) day: String,
    pub(super) domain: String,
    pub(super) outcome: String,
    /// The stop reason, or the state of a run that has none.
    pub(super) reason: String,
    state: &'static str,
}

/// Runs of one kind: how many, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tallied {
    pub(super) runs: u64,
    pub(super) cost: Cost,
}

/// How many runs there are of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::pages) struct RunTally {
    kinds: BTreeMap<TallyKey, Tallied>,
}

impl TallyKey {
    fn of(run: &ListedRun) -> Self {
        Self {
            day: day(run.started_unix_ms),
            domain: run.domain.clone(),
            outcome: run.outcome().to_owned(),
            reason: run.reason.clone().unwrap_or_else(|| run.state.name().to_owned()),
            state: run.state.name(),
        }
    }

    /// Whether runs of this kind fit a filter that asks for nothing else.
    pub(super) fn fits(&self, filter: &RunsFilter, since: Option<&str>) -> bool {
        let RunsFilter { domain, outcome, .. } = filter;
        (domain.is_empty() || *domain == self.domain)
            && (outcome.is_empty() || [&*self.outcome, &*self.reason, self.state].contains(&&**outcome))
            && since.is_none_or(|since| *self.day >= *since)
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
    }

    #[cfg(feature = "http")]
    /// Takes out a run that was added.
    pub(in crate::pages) fn remove(&mut self, run: &ListedRun) {
        let key = TallyKey::of(run);
        let Some(kind) = self.kinds.get_mut(&key) else { return };
        kind.runs = kind.runs.saturating_sub(1);
        kind.cost.known = PicoUsd(kind.cost.known.0.saturating_sub(run.cost.pico_usd));
        kind.cost.unknown_calls = kind.cost.unknown_calls.saturating_sub(run.cost.unpriced_calls);
        if kind.runs == 0 {
            self.kinds.remove(&key);
        }
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = (&TallyKey, &Tallied)> {
        self.kinds.iter()
    }

    /// The same with those of another one, if these are `kept`.
    pub(super) fn with(&mut self, other: &Self, kept: impl Fn(&TallyKey) -> bool) {
        for (key, more) in other.kinds().filter(|(key, _)| kept(key)) {
            let kind = self.kinds.entry(key.clone()).or_default();
            kind.runs += more.runs;
            kind.cost = Cost {
                known: kind.cost.known.plus(more.cost.known),
                unknown_calls: kind.cost.unknown_calls.saturating_add(more.cost.unknown_calls),
            };
        }
    }

    /// All values of one part of the kinds.
    pub(super) fn names<'a>(&'a self, of: impl Fn(&'a TallyKey) -> &'a str) -> Vec<String> {
        let names: BTreeSet<&str> = self.kinds.keys().map(of).collect();
        names.into_iter().map(str::to_owned).collect()
    }
}
