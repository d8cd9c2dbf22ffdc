//! The scheduler: which queued run begins or continues next, with limits for each domain and in total.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::types::RunId;

/// A job that waits for a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) run: RunId,
    pub(super) domain: Arc<str>,
    pub(super) order: JobOrder,
}

/// The order in which jobs get permits, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobOrder {
    /// Runs that have begun come first, since they hold reserved money and people wait for them.
    begins: bool,
    priority: Reverse<i32>,
    nth: i64,
}

impl JobOrder {
    pub(super) fn begin(priority: i32, nth: i64) -> Self {
        Self { begins: true, priority: Reverse(priority), nth }
    }

    pub(super) fn resume(priority: i32, nth: i64) -> Self {
        Self { begins: false, priority: Reverse(priority), nth }
    }
}

/// The waiting jobs, by domain.
#[derive(Debug, Default)]
pub(super) struct WaitingJobs {
    of_domain: BTreeMap<Arc<str>, BTreeMap<(JobOrder, RunId), Job>>,
}

impl WaitingJobs {
    pub(super) fn push(&mut self, job: Job) {
        let jobs = self.of_domain.entry(Arc::clone(&job.domain)).or_default();
        jobs.insert((job.order, job.run.clone()), job);
    }

    /// How many jobs wait.
    pub(super) fn all(&self) -> usize {
        self.of_domain.values().map(BTreeMap::len).sum()
    }

    /// How many jobs of a domain wait.
    pub(super) fn of(&self, domain: &str) -> usize {
        self.of_domain.get(domain).map_or(0, BTreeMap::len)
    }

    pub(super) fn remove(&mut self, domain: &str, order: JobOrder, run: &RunId) -> Option<Job> {
        self.of_domain.get_mut(domain)?.remove(&(order, run.clone()))
    }

    /// Takes the first job whose domain has a free permit.
    pub(super) fn next(&mut self, has_place: impl Fn(&str) -> bool) -> Option<Job> {
        let heads = self.of_domain.iter().filter(|(domain, _)| has_place(domain));
        let heads =
            heads.filter_map(|(domain, jobs)| Some((jobs.first_key_value()?.0.clone(), Arc::clone(domain))));
        let (key, domain) = heads.min()?;
        self.of_domain.get_mut(&domain)?.remove(&key)
    }
}

/// The runs in progress.
#[derive(Debug, Default)]
pub(super) struct RunPlaces {
    all: usize,
    of_domain: BTreeMap<Arc<str>, usize>,
}

impl RunPlaces {
    pub(super) fn all(&self) -> usize {
        self.all
    }

    pub(super) fn of(&self, domain: &str) -> usize {
        self.of_domain.get(domain).copied().unwrap_or_default()
    }

    pub(super) fn take(&mut self, domain: &Arc<str>) {
        self.all += 1;
        *self.of_domain.entry(Arc::clone(domain)).or_default() += 1;
    }

    pub(super) fn give_back(&mut self, domain: &str) {
        self.all = self.all.saturating_sub(1);
        if let Some(taken) = self.of_domain.get_mut(domain) {
            *taken = taken.saturating_sub(1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn job(domain: &str, run: &str, order: JobOrder) -> Job {
        Job { run: RunId::new(run), domain: domain.into(), order }
    }

    #[test]
    fn what_has_begun_continues_first_then_priority_then_arrival() {
        let mut line = WaitingJobs::default();
        line.push(job("a", "third", JobOrder::begin(0, 1)));
        line.push(job("a", "fourth", JobOrder::begin(0, 2)));
        line.push(job("b", "second", JobOrder::begin(5, 3)));
        line.push(job("b", "first", JobOrder::resume(0, 9)));
        line.push(job("b", "last", JobOrder::begin(-1, 0)));
        let mut runs = Vec::new();
        while let Some(job) = line.next(|_| true) {
            runs.push(job.run.to_string());
        }
        assert_eq!(runs, ["first", "second", "third", "fourth", "last"]);
    }

    #[test]
    fn a_domain_without_a_place_holds_up_no_other() {
        let mut line = WaitingJobs::default();
        line.push(job("full", "f", JobOrder::begin(9, 1)));
        line.push(job("free", "g", JobOrder::begin(0, 2)));
        assert_eq!(line.next(|domain| domain == "free").unwrap().run.as_str(), "g");
        assert_eq!(line.next(|domain| domain == "free"), None);
        assert_eq!(line.remove("full", JobOrder::begin(9, 1), &RunId::new("f")).unwrap().run.as_str(), "f");
        assert_eq!(line.next(|_| true), None);
    }
}
