//! The suite: what is played, by how much, and what it came to, in the words of `cargo test`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::case::{Around, Case};
use crate::check::{Found, check};
use crate::journal::CrashPoint;
use crate::scenarios::{ALL, RETRY, by_name};
use crate::{disk, kills, planted, real};

/// How much is played.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Everything, or a seeded share.
    pub full: bool,
    pub seed: u64,
}

/// What all cases of a part came to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub cases: u64,
    pub kills: u64,
    pub failures: u64,
    pub found: Found,
    pub problems: Vec<String>,
    /// What could not be played on this machine, and why.
    pub left_out: Vec<String>,
}

impl Totals {
    /// Adds what a case came to.
    pub fn add(&mut self, name: &str, played: &crate::case::Played, found: &Found, problems: &[String]) {
        self.cases += 1;
        self.kills += played.kills;
        self.failures += played.failures;
        self.found.entries += found.entries;
        self.found.acknowledged += found.acknowledged;
        self.found.effects += found.effects;
        self.found.in_doubt += found.in_doubt;
        self.problems.extend(problems.iter().map(|problem| format!("{name}: {problem}")));
    }

    fn line(&self) -> String {
        format!(
            "{} cases, {} kills, {} journals that failed, {} entries, {} acknowledged, {} effects, {} in doubt",
            self.cases,
            self.kills,
            self.failures,
            self.found.entries,
            self.found.acknowledged,
            self.found.effects,
            self.found.in_doubt
        )
    }
}

/// The uninterrupted runs of a scenario: how many places they have, how long they take, and how they end.
#[derive(Clone, Debug)]
pub struct Whole {
    pub appends: u64,
    pub requests: u64,
    pub micros: u64,
    pub found: Found,
}

/// The scenarios by their names.
pub type Wholes = BTreeMap<&'static str, Whole>;

fn whole(scenario: &'static str) -> Whole {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut played = Case::at(scenario, &[]).play(folder.path(), None);
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap();
    let found = check(&mut played, by_name(scenario).items);
    assert!(played.problems.is_empty(), "{scenario}: {:#?}", played.problems);
    Whole { appends: played.appends, requests: played.requests, micros, found }
}

/// Plays a case in a folder, and adds what it came to. Gives whether its first process was killed, or its journal failed.
pub fn play(
    case: &Case,
    folder: &std::path::Path,
    around: Option<Around<'_>>,
    wholes: &Wholes,
    totals: &Mutex<Totals>,
) -> bool {
    let mut played = case.play(folder, around);
    let found = check(&mut played, by_name(case.scenario).items);
    let mut problems = std::mem::take(&mut played.problems);
    let whole = &wholes[case.scenario].found.ends;
    // ADR 42: a tool that was running at three kills is given up, and the run ends with what it has.
    let may_differ = case.scenario == RETRY || played.kills >= 3;
    for (item, end) in found.ends.iter().filter(|_| !may_differ) {
        if whole.get(item) != Some(end) {
            problems.push(format!("item {item} ended otherwise: {end} in place of {:?}", whole.get(item)));
        }
    }
    let places: Vec<String> = case.places.iter().map(ToString::to_string).collect();
    let name = format!("{} at {}", case.scenario, places.join(", "));
    totals.lock().unwrap().add(&name, &played, &found, &problems);
    played.kills + played.failures > 0
}

/// Plays cases next to each other.
pub fn play_all(cases: &[Case], wholes: &Wholes) -> Totals {
    let totals = Mutex::new(Totals::default());
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let folder = tempfile::tempdir().unwrap();
                    play(case, folder.path(), None, wholes, &totals);
                }
            });
        }
    });
    totals.into_inner().unwrap()
}

/// How many cases are played next to each other.
const WORKERS: usize = 3;

/// A part of the suite: its name, and what it plays.
type Part = (&'static str, fn(Extent, &Wholes) -> Totals);

const PARTS: [Part; 8] = [
    ("planted_faults_are_found", planted::all),
    ("kills_at_every_entry_and_request", kills::at_each_place),
    ("kills_of_resumed_processes", kills::of_resumed),
    ("kills_by_a_timer", kills::by_timer),
    ("a_journal_that_fails_at_every_entry", kills::failing_journals),
    ("a_disk_that_is_full_or_read_only", disk::full_or_read_only),
    ("system_calls_on_the_journal_that_fail_or_kill", disk::system_calls),
    ("kills_of_the_command", real::killed),
];

/// Plays what the arguments ask for: `--full`, `--seed=N`, and a part of a name as `cargo test` takes it.
pub fn run(args: &[String]) -> ExitCode {
    let started = Instant::now();
    let seed = args.iter().find_map(|arg| arg.strip_prefix("--seed=")?.parse().ok()).unwrap_or(1);
    let extent = Extent { full: args.iter().any(|arg| arg == "--full"), seed };
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let is_asked = |name: &str| {
        filters.is_empty() || filters.iter().any(|filter| format!("crash::{name}").contains(filter.as_str()))
    };
    let parts: Vec<Part> = PARTS.into_iter().filter(|(name, _)| is_asked(name)).collect();
    let (mut failed, mut sum) = (0, Totals::default());
    if !parts.is_empty() {
        println!("seed {seed}{}", if extent.full { ", full" } else { "" });
        let wholes: Wholes = ALL.iter().map(|it| (it.name, whole(it.name))).collect();
        for (name, play) in &parts {
            let since = Instant::now();
            let mut totals = play(extent, &wholes);
            let is_ok = totals.problems.is_empty();
            failed += usize::from(!is_ok);
            let verdict = if is_ok { "ok" } else { "FAILED" };
            println!("test {name} ... {verdict} ({}, {:.1} s)", totals.line(), since.elapsed().as_secs_f64());
            for line in &totals.left_out {
                println!("     left out: {line}");
            }
            for problem in totals.problems.iter().take(MAX_SHOWN) {
                println!("     {problem}");
            }
            sum.cases += totals.cases;
            sum.kills += totals.kills;
            sum.failures += totals.failures;
            sum.found.entries += totals.found.entries;
            sum.found.acknowledged += totals.found.acknowledged;
            sum.found.effects += totals.found.effects;
            sum.found.in_doubt += totals.found.in_doubt;
            sum.problems.append(&mut totals.problems);
        }
        println!("\nall: {}, {} problems", sum.line(), sum.problems.len());
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s",
        parts.len() - failed,
        PARTS.len() - parts.len(),
        started.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const MAX_SHOWN: usize = 20;

/// Numbers from a seed.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(extent: Extent, of: &str) -> Self {
        let tag = of.bytes().fold(extent.seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Self(tag)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// So many of these, each at most once, in their order.
    pub fn some<T: Clone>(&mut self, of: &[T], count: usize) -> Vec<T> {
        let mut wanted = u64::try_from(count.min(of.len())).unwrap();
        let mut some = Vec::new();
        for (at, one) in of.iter().enumerate() {
            if self.below(u64::try_from(of.len() - at).unwrap()) < wanted {
                wanted -= 1;
                some.push(one.clone());
            }
        }
        some
    }
}

/// All places at which a process of this scenario can be killed.
pub fn places(whole: &Whole) -> Vec<CrashPoint> {
    let entries = (0..whole.appends).flat_map(|n| [CrashPoint::Before(n), CrashPoint::After(n)]);
    entries.chain((0..whole.requests).map(CrashPoint::Request)).collect()
}
