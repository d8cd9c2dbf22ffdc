//! The work of a fleet: what happens next in any of its runs, on any of its workers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use loop_core::{Millis, Outcome, Phase, StopClass};
use loop_prompts::Prompts;

use super::FleetPlan;
use super::figures::{FleetFigures, FleetResource, FleetUse};
use super::provider::{MinuteLimit, Shared};
use crate::sim::study::{Next, One};
use crate::sim::{Amounts, Assumptions, Choices, Fault, SimWorld};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// What happens at an instant. Of those at one instant, the first that was planned happens first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A run arrives.
    Arrival,
    /// A run that has a place continues, unless it has lost its process since.
    Step { run: u64, process: u64 },
    /// What a run without a place waited for is there, or the lease of its dead worker is over.
    Ready { run: u64 },
    /// A worker dies.
    Death { worker: u32 },
    /// A worker is there again.
    Return { worker: u32 },
}

/// A run that has arrived and not ended.
struct UnderWay<'a> {
    arrived: u64,
    /// Its seed.
    seed: u64,
    /// The run and the instant at which its clock began. `None`: it has not begun.
    begun: Option<(Box<One<'a>>, u64)>,
    /// The worker that it has a place on.
    worker: Option<u32>,
    /// How many processes it has had.
    process: u64,
    /// Its last process has ended without it.
    is_lost: bool,
}

struct Worker {
    free: u32,
    is_there: bool,
}

/// A fleet at work.
pub(super) struct Work<'a> {
    world: &'a SimWorld,
    prompts: &'a Prompts,
    assumed: &'a Assumptions,
    plan: FleetPlan,
    seed: u64,
    arrivals: Choices,
    deaths: Choices,
    now: u64,
    /// When nothing arrives any more.
    closes: u64,
    happenings: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    planned: u64,
    runs: BTreeMap<u64, UnderWay<'a>>,
    /// Runs that have begun and wait for a place; they come before those that have not.
    returning: VecDeque<u64>,
    waiting: VecDeque<u64>,
    workers: Vec<Worker>,
    provider: Shared,
    seen: Seen,
}

/// What was seen so far.
#[derive(Default)]
struct Seen {
    arrived: u64,
    ended_in_time: u64,
    answered: u64,
    backlog: u64,
    waited_ms: Vec<u64>,
    took_ms: Vec<u64>,
    costs: Vec<u64>,
    is_unpriced: bool,
    deaths: u64,
    taken_over: u64,
    /// Milliseconds of places that were taken until the arrivals ended.
    taken_ms: u64,
    /// What the provider had been asked for when the arrivals ended.
    requests: u64,
    tokens: u64,
    is_closed: bool,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        world: &'a SimWorld,
        prompts: &'a Prompts,
        assumed: &'a Assumptions,
        plan: FleetPlan,
        seed: u64,
    ) -> Self {
        // Each kind of chance has a source of its own, so that another number of workers meets the same arrivals.
        let choices = |what: u64| Choices::of_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ what);
        let limit = |a_minute: Option<u32>| a_minute.map(|a_minute| MinuteLimit::new(a_minute.into()));
        let provider = Shared {
            requests: limit(plan.requests_a_minute),
            tokens: limit(plan.tokens_a_minute),
            slow: (plan.slow_percent, plan.slow_times.max(1)),
            choices: choices(3),
            calls: 0,
            waits_ms: Vec::new(),
            refused: 0,
        };
        let workers = (0..plan.workers).map(|_| Worker { free: plan.places, is_there: true }).collect();
        Self {
            world,
            prompts,
            assumed,
            plan,
            seed,
            arrivals: choices(1),
            deaths: choices(2),
            now: 0,
            closes: u64::from(plan.hours) * HOUR_MS,
            happenings: BinaryHeap::new(),
            planned: 0,
            runs: BTreeMap::new(),
            returning: VecDeque::new(),
            waiting: VecDeque::new(),
            workers,
            provider,
            seen: Seen::default(),
        }
    }

    /// Works until each run that arrived has ended.
    pub(super) fn done(mut self) -> Result<FleetFigures, (u64, Fault)> {
        self.plan_arrival();
        for worker in 0..self.plan.workers {
            self.plan_death(worker);
        }
        while let Some(Reverse((at, _, happening))) = self.happenings.pop() {
            self.pass_to(at);
            match happening {
                Happening::Arrival => self.arrive(),
                Happening::Step { run, process } => self.step(run, process)?,
                Happening::Ready { run } => self.returning.push_back(run),
                Happening::Death { worker } => self.die(worker),
                Happening::Return { worker } => self.come_back(worker),
            }
            self.fill()?;
            if self.now >= self.closes && self.runs.is_empty() {
                break;
            }
        }
        self.pass_to(self.closes);
        Ok(self.figures())
    }

    fn plan(&mut self, at: u64, happening: Happening) {
        self.planned += 1;
        self.happenings.push(Reverse((at, self.planned, happening)));
    }

    /// Time goes on: places are taken for as long.
    fn pass_to(&mut self, at: u64) {
        let until = at.min(self.closes);
        if until > self.now {
            let taken: u64 =
                self.workers.iter().map(|worker| u64::from(self.plan.places - worker.free)).sum();
            self.seen.taken_ms += taken * (until - self.now);
        }
        if at >= self.closes && !self.seen.is_closed {
            self.seen.is_closed = true;
            self.seen.backlog = (self.returning.len() + self.waiting.len()) as u64;
            let taken = |limit: &Option<MinuteLimit>| limit.map_or(0, |limit| limit.taken);
            self.seen.requests = taken(&self.provider.requests);
            self.seen.tokens = taken(&self.provider.tokens);
        }
        self.now = self.now.max(at);
    }

    fn plan_arrival(&mut self) {
        let mean = HOUR_MS as f64 / f64::from(self.plan.arrivals_an_hour.max(1));
        let at = self.now.saturating_add(exponential(&mut self.arrivals, mean));
        if at < self.closes {
            self.plan(at, Happening::Arrival);
        }
    }

    fn plan_death(&mut self, worker: u32) {
        if self.plan.deaths_a_day > 0 {
            let mean = DAY_MS as f64 / f64::from(self.plan.deaths_a_day);
            let at = self.now.saturating_add(exponential(&mut self.deaths, mean));
            self.plan(at, Happening::Death { worker });
        }
    }

    fn arrive(&mut self) {
        let run = self.seen.arrived;
        self.seen.arrived += 1;
        // Seeds next to each other give runs that have nothing in common.
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(run);
        let arrived = self.now;
        let under_way = UnderWay { arrived, seed, begun: None, worker: None, process: 0, is_lost: false };
        self.runs.insert(run, under_way);
        self.waiting.push_back(run);
        self.plan_arrival();
    }

    /// Gives free places to runs that wait for one, each on the worker with the most free places.
    fn fill(&mut self) -> Result<(), (u64, Fault)> {
        loop {
            let there = (0..).zip(&mut self.workers).filter(|(_, worker)| worker.is_there && worker.free > 0);
            let Some((worker, free)) = there
                .max_by_key(|(at, worker)| (worker.free, Reverse(*at)))
                .map(|(at, it)| (at, &mut it.free))
            else {
                return Ok(());
            };
            let Some(run) = self.returning.pop_front().or_else(|| self.waiting.pop_front()) else {
                return Ok(());
            };
            *free -= 1;
            self.begin(run, worker)?;
        }
    }

    /// A run has a place: it begins, or continues.
    fn begin(&mut self, run: u64, worker: u32) -> Result<(), (u64, Fault)> {
        let (now, world, prompts, assumed) = (self.now, self.world, self.prompts, self.assumed);
        let Some(under_way) = self.runs.get_mut(&run) else { return Ok(()) };
        under_way.worker = Some(worker);
        under_way.process += 1;
        let (process, seed) = (under_way.process, under_way.seed);
        let faulty = |fault| (seed, fault);
        match &mut under_way.begun {
            None => {
                self.seen.waited_ms.push(now - under_way.arrived);
                let one = One::begin(world, prompts, assumed, seed).map_err(faulty)?;
                under_way.begun = Some((Box::new(one), now));
            }
            Some((one, began)) => {
                let away_ms = now.saturating_sub(*began + one.run().now().0);
                one.wait_until(Millis(now - *began));
                if std::mem::take(&mut under_way.is_lost) {
                    self.seen.taken_over += 1;
                    one.resume(away_ms).map_err(faulty)?;
                }
            }
        }
        self.step(run, process)
    }

    /// A run does all that it does now, and waits for what comes next: with its place, or without it if that is a person.
    fn step(&mut self, run: u64, process: u64) -> Result<(), (u64, Fault)> {
        let now = self.now;
        let Some(under_way) = self.runs.get_mut(&run).filter(|it| it.process == process) else {
            return Ok(());
        };
        let seed = under_way.seed;
        let Some((one, began)) = &mut under_way.begun else { return Ok(()) };
        let began = *began;
        one.wait_until(Millis(now - began));
        let next = loop {
            if one.run().is_done() {
                break None;
            }
            let kind = match one.next(&mut self.provider.of_run(began)) {
                Next::Now(kind) => kind,
                Next::At(at) if began + at.0 <= now => one.due(),
                Next::At(at) => break Some(began + at.0),
            };
            one.apply(kind).map_err(|fault| (seed, fault))?;
        };
        let waits = matches!(one.run().phase(), Phase::WaitingForPerson { .. });
        match next {
            None => self.end(run),
            Some(at) if waits => {
                self.leave(run);
                self.plan(at, Happening::Ready { run });
            }
            Some(at) => self.plan(at, Happening::Step { run, process }),
        }
        Ok(())
    }

    /// A run gives its place back.
    fn leave(&mut self, run: u64) {
        let worker = self.runs.get_mut(&run).and_then(|it| it.worker.take());
        if let Some(worker) = worker.and_then(|at| self.workers.get_mut(at as usize)) {
            worker.free += 1;
        }
    }

    fn end(&mut self, run: u64) {
        self.leave(run);
        let Some(UnderWay { arrived, begun: Some((one, _)), .. }) = self.runs.remove(&run) else { return };
        let seen = &mut self.seen;
        seen.took_ms.push(self.now - arrived);
        seen.ended_in_time += u64::from(self.now <= self.closes);
        let studied = one.studied();
        let Some(Outcome { totals, stop, .. }) = studied.run.outcome() else { return };
        seen.answered += u64::from(stop.class == StopClass::Answered);
        seen.costs.push(totals.cost.known.0);
        seen.is_unpriced |= totals.cost.unknown_calls > 0;
    }

    /// A worker dies, with all that its runs had under way.
    fn die(&mut self, worker: u32) {
        // Deaths are of interest only while there is work.
        if self.now >= self.closes && self.runs.is_empty() {
            return;
        }
        self.seen.deaths += 1;
        let back = self.now + u64::from(self.plan.lease_ms);
        let mut lost = Vec::new();
        for (run, under_way) in self.runs.iter_mut().filter(|(_, it)| it.worker == Some(worker)) {
            under_way.worker = None;
            under_way.process += 1;
            under_way.is_lost = true;
            if let Some((one, _)) = &mut under_way.begun {
                one.lose_process();
            }
            lost.push(*run);
        }
        for run in lost {
            self.plan(back, Happening::Ready { run });
        }
        if let Some(worker) = self.workers.get_mut(worker as usize) {
            (worker.is_there, worker.free) = (false, self.plan.places);
        }
        self.plan(back, Happening::Return { worker });
    }

    fn come_back(&mut self, worker: u32) {
        if let Some(worker) = self.workers.get_mut(worker as usize) {
            worker.is_there = true;
        }
        self.plan_death(worker);
    }

    fn figures(self) -> FleetFigures {
        let Self { plan, seen, provider, closes, .. } = self;
        let percent = |used: u64, of: u128| {
            let percent = u128::from(used) * 100 / of.max(1);
            u32::try_from(percent).unwrap_or(u32::MAX)
        };
        let minutes = u128::from(plan.hours) * 60;
        let places = plan.workers.saturating_mul(plan.places);
        let limited = |resource, used, a_minute: Option<u32>| {
            a_minute
                .map(|a_minute| FleetUse { resource, percent: percent(used, u128::from(a_minute) * minutes) })
        };
        let of_places = FleetUse {
            resource: FleetResource::Places,
            percent: percent(seen.taken_ms, u128::from(places) * u128::from(closes)),
        };
        let mut used: Vec<FleetUse> = std::iter::once(of_places)
            .chain(limited(FleetResource::Requests, seen.requests, plan.requests_a_minute))
            .chain(limited(FleetResource::Tokens, seen.tokens, plan.tokens_a_minute))
            .collect();
        used.sort_by_key(|used| (Reverse(used.percent), used.resource));
        let amounts = |all| Amounts::of(all, None);
        FleetFigures {
            workers: plan.workers,
            places,
            runs: seen.arrived,
            ended_in_time: seen.ended_in_time,
            backlog: seen.backlog,
            answered: seen.answered,
            waited_ms: amounts(seen.waited_ms),
            took_ms: amounts(seen.took_ms),
            total_cost_pico_usd: (!seen.is_unpriced).then(|| seen.costs.iter().sum()),
            cost_pico_usd: (!seen.is_unpriced).then(|| amounts(seen.costs)),
            model_calls: provider.calls,
            limited_ms: amounts(provider.waits_ms),
            rate_limited: provider.refused,
            deaths: seen.deaths,
            taken_over: seen.taken_over,
            used,
        }
    }
}

/// Milliseconds until the next of events that come at random, so many milliseconds apart on average.
fn exponential(choices: &mut Choices, mean_ms: f64) -> u64 {
    const PARTS: u32 = 1 << 30;
    let share = (f64::from(choices.below(PARTS)) + 1.0) / f64::from(PARTS);
    (-share.ln() * mean_ms).round() as u64
}
