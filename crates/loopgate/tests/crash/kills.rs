//! Which cases are played, and what they come to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use crate::case::Case;
use crate::check::{Found, check};
use crate::journal::{Place, Plant};
use crate::scenarios::{ALL, by_name};

/// What all cases of a kind came to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub cases: u64,
    pub kills: u64,
    pub failures: u64,
    pub found: Found,
    pub problems: Vec<String>,
}

impl Totals {
    pub fn add(&mut self, case: &Case, kills: u64, failures: u64, found: &Found, problems: &[String]) {
        self.cases += 1;
        self.kills += kills;
        self.failures += failures;
        self.found.entries += found.entries;
        self.found.acknowledged += found.acknowledged;
        self.found.effects += found.effects;
        self.found.in_doubt += found.in_doubt;
        let places: Vec<String> = case.places.iter().map(ToString::to_string).collect();
        let named = |problem: &String| format!("{} at {}: {problem}", case.scenario, places.join(", "));
        self.problems.extend(problems.iter().map(named));
    }
}

/// The uninterrupted run of each scenario: how many places it has, and how it ends.
#[derive(Clone, Debug)]
pub struct Whole {
    pub appends: u64,
    pub requests: u64,
    pub found: Found,
}

pub fn whole(scenario: &'static str) -> Whole {
    let folder = tempfile::tempdir().unwrap();
    let case = Case { scenario, places: Vec::new(), plant: Plant::Nothing };
    let mut played = case.play(folder.path(), None);
    let found = check(&mut played, by_name(scenario).items);
    assert!(played.problems.is_empty(), "{scenario}: {:#?}", played.problems);
    Whole { appends: played.appends, requests: played.requests, found }
}

/// Plays a case, and adds what it came to.
pub fn play(case: &Case, whole: &Whole, totals: &Mutex<Totals>) {
    let folder = tempfile::tempdir().unwrap();
    let mut played = case.play(folder.path(), None);
    let found = check(&mut played, by_name(case.scenario).items);
    let mut problems = played.problems.clone();
    for (item, end) in &found.ends {
        if whole.found.ends.get(item) != Some(end) {
            problems.push(format!("item {item} ended otherwise: {end} in place of {:?}", whole.found.ends.get(item)));
        }
    }
    totals.lock().unwrap().add(case, played.kills, played.failures, &found, &problems);
}

pub fn suite(_args: &[String]) {
    let started = Instant::now();
    let wholes: BTreeMap<&str, Whole> = ALL.iter().map(|it| (it.name, whole(it.name))).collect();
    for (name, whole) in &wholes {
        println!("{name:14} {:3} entries {:3} requests {:?}", whole.appends, whole.requests, whole.found.ends);
    }
    let mut cases = Vec::new();
    for scenario in ALL {
        let whole = &wholes[scenario.name];
        let of = |places| Case { scenario: scenario.name, places, plant: Plant::Nothing };
        cases.extend((0..whole.appends).flat_map(|n| [Place::Before(n), Place::After(n), Place::Fail(n)]).map(|place| of(vec![place])));
        cases.extend((0..whole.requests).map(|n| of(vec![Place::Request(n)])));
    }
    let totals = Arc::new(Mutex::new(Totals::default()));
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    play(case, &wholes[case.scenario], &totals);
                }
            });
        }
    });
    let totals = totals.lock().unwrap();
    println!("{:#?} in {:.1} s", *totals, started.elapsed().as_secs_f64());
}
