//! `cargo xtask mutants`: mutants of `loop-core`, all from one build.
//!
//! cargo-mutants lists them. This program writes all of them into a copy of the source, each behind a switch, builds the
//! tests of the core once, and runs them with one mutant on at a time: those tests alone that reach it, the cheap ones first.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this binary is for")]

mod build;
mod flags;
mod kept;
mod kill;
mod mutant;
mod sample;
mod switch;
mod tests_of;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use self::kept::Kept;
use self::kill::Fate;
use self::mutant::Mutant;

fn main() -> ExitCode {
    let flags = match flags::Mutants::from_env() {
        Ok(flags) => flags,
        Err(error) => error.exit(),
    };
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: mutants: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &flags::Mutants) -> Result<(), String> {
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()));
    let (root, out) = (absolute(&flags.root)?, absolute(&flags.out)?);
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let json =
        fs::read_to_string(&flags.list).map_err(|error| format!("{}: {error}", flags.list.display()))?;
    let all = mutant::parse(&json)?;
    let folder = out.join("copy/crates/loop-core");
    let key = kept::key(&root, &json)?;
    let mut built = match kept::read(&out, &key) {
        Some(kept) => {
            println!("mutants: the last build is of the same source and is used again");
            kept
        }
        None => built(&root, &out, &all, key)?,
    };
    // The build is kept before, so that it is not lost where the measuring is interrupted.
    if built.tests.is_empty() {
        (built.tests, built.failing) = tests_of::measure(&built.programs, &folder, &out)?;
        kept::write(&out, &built)?;
    }
    let (tests, failing) = (&built.tests, &built.failing);
    for name in failing {
        println!("mutants: the test {name} fails without a mutant, so it is left out; mend it first");
    }
    let seconds: f64 = tests.iter().map(|test| test.seconds).sum();
    println!("mutants: {} tests, {seconds:.1} s one after the other", tests.len());

    let mut chosen: Vec<&Mutant> = all.iter().collect();
    if let Some(seed) = flags.seed {
        chosen = sample::shuffled(chosen, seed);
    }
    if let Some(shard) = &flags.shard {
        let (number, of) =
            parsed_shard(shard).ok_or_else(|| format!("--shard {shard}: write K/N, as in 1/4"))?;
        chosen = sample::shard(chosen, number, of);
    }
    let results = Results::create(&out.join("results.txt"))?;
    let mut runnable = Vec::with_capacity(chosen.len());
    for mutant in chosen {
        if built.unbuilt.contains(&mutant.id) {
            results.add(0, mutant, "unbuilt", "");
        } else if built.unplaced.contains(&mutant.id) {
            results.add(0, mutant, "unplaced", "");
        } else {
            runnable.push(mutant);
        }
    }
    write_unreached(&runnable, tests, &out.join("unreached.txt"))?;
    write_tests(tests, &out.join("tests.txt"))?;
    let runs = runnable.len();
    runnable.truncate(flags.sample.unwrap_or(usize::MAX));
    println!("mutants: {runs} can be run, {} are", runnable.len());
    let results = results.of(runnable.len());
    let known = match &flags.known {
        Some(path) => fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?,
        None => String::new(),
    };
    let known: BTreeSet<&str> = known.lines().collect();
    runnable.retain(|mutant| {
        let is_known = known.contains(mutant.name.as_str());
        if is_known {
            results.add(0, mutant, "missed", "");
        }
        !is_known
    });
    kill::run(&runnable, tests, &folder, flags.jobs.unwrap_or(1), |index, mutant, fate| match fate {
        Fate::Caught(test) => results.add(index, mutant, "caught", &test),
        Fate::TimedOut => results.add(index, mutant, "timeout", ""),
        Fate::Missed => results.add(index, mutant, "missed", ""),
        Fate::Unreached => results.add(index, mutant, "unreached", ""),
    })?;
    results.print();
    if failing.is_empty() { Ok(()) } else { Err(format!("{} tests fail without a mutant", failing.len())) }
}

/// Builds a copy with all mutants. Its tests are not measured yet.
fn built(root: &Path, out: &Path, all: &[Mutant], key: String) -> Result<Kept, String> {
    kept::forget(out);
    let copy = out.join("copy");
    build::copy(root, &copy)?;
    // Of its own: cargo gives the programs of the copy the names of those of the workspace.
    let build::Built { programs, unplaced, unbuilt } = build::build(&copy, &out.join("target"), all)?;
    let kept = Kept { key, programs, unplaced, unbuilt, tests: Vec::new(), failing: Vec::new() };
    kept::write(out, &kept)?;
    Ok(kept)
}

/// Those that no test reaches need no run: their names are written also where a sample alone is run.
fn write_unreached(runnable: &[&Mutant], tests: &[tests_of::Test], path: &Path) -> Result<(), String> {
    let reaching = tests_of::reaching(tests);
    let unreached: Vec<&str> = runnable
        .iter()
        .filter(|mutant| !reaching.contains_key(&mutant.id))
        .map(|mutant| mutant.name.as_str())
        .collect();
    println!("mutants: {} are reached by no test: {}", unreached.len(), path.display());
    let lines: String = unreached.iter().map(|name| format!("{name}\n")).collect();
    fs::write(path, lines).map_err(|error| format!("{}: {error}", path.display()))
}

/// The tests with their seconds, the dearest first: what a mutant that is missed costs.
fn write_tests(tests: &[tests_of::Test], path: &Path) -> Result<(), String> {
    let mut tests: Vec<&tests_of::Test> = tests.iter().collect();
    tests.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let lines: String = tests.iter().map(|test| format!("{:.3}\t{}\n", test.seconds, test.name)).collect();
    fs::write(path, lines).map_err(|error| format!("{}: {error}", path.display()))
}

fn parsed_shard(text: &str) -> Option<(usize, usize)> {
    let (number, of) = text.split_once('/')?;
    let (number, of): (usize, usize) = (number.parse().ok()?, of.parse().ok()?);
    (1..=of).contains(&number).then_some((number, of))
}

/// The file of results, one line a mutant, and their counts.
struct Results {
    file: Mutex<fs::File>,
    /// By the part of the core and by what became of the mutant.
    counts: Mutex<Counts>,
    /// How many are run.
    runs: usize,
}

/// How often the number of mutants that have run is printed.
const PROGRESS: u32 = 100;

impl Results {
    fn create(path: &Path) -> Result<Self, String> {
        let file = fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { file: Mutex::new(file), counts: Mutex::default(), runs: 0 })
    }

    /// The same results, of which so many are still to come.
    fn of(self, runs: usize) -> Self {
        Self { runs, ..self }
    }

    fn add(&self, index: usize, mutant: &Mutant, fate: &'static str, test: &str) {
        if let Ok(mut counts) = self.counts.lock() {
            *counts.entry((mutant.part().to_owned(), fate)).or_default() += 1;
            let done = RUN.iter().map(|fate| count(&counts, None, fate)).sum::<u32>();
            if RUN.contains(&fate) && done.is_multiple_of(PROGRESS) {
                println!("mutants: {done} of {} have run", self.runs);
            }
        }
        if let Ok(mut file) = self.file.lock()
            && let Err(error) = writeln!(file, "{index}\t{fate}\t{}\t{test}", mutant.name)
        {
            eprintln!("results.txt: {error}");
        }
        if matches!(fate, "missed" | "unreached") {
            println!("{fate}: {}", mutant.name);
        }
    }

    fn print(&self) {
        let counts = self.counts.lock().map(|counts| counts.clone()).unwrap_or_default();
        let parts: BTreeSet<&String> = counts.keys().map(|(part, _)| part).collect();
        for part in &parts {
            let noticed = Noticed::of(&counts, Some(part));
            if noticed.all > 0 {
                println!("mutants: {part}: {noticed}");
            }
        }
        let of = |fate| count(&counts, None, fate);
        println!(
            "mutants: {} ({} timed out, {} were missed, {} were not reached); {} do not compile, {} cannot be switched",
            Noticed::of(&counts, None),
            of("timeout"),
            of("missed"),
            of("unreached"),
            of("unbuilt"),
            of("unplaced")
        );
    }
}

/// What became of a mutant that was run.
const RUN: [&str; 4] = ["caught", "timeout", "missed", "unreached"];

type Counts = BTreeMap<(String, &'static str), u32>;

/// How many mutants of a part, or of all, came to this.
fn count(counts: &Counts, part: Option<&str>, fate: &str) -> u32 {
    let is_it = |of: &str, came_to: &str| came_to == fate && part.is_none_or(|part| part == of);
    counts.iter().filter(|((of, came_to), _)| is_it(of, came_to)).map(|(_, count)| count).sum()
}

/// How many of the mutants that were run were noticed.
struct Noticed {
    noticed: u32,
    all: u32,
}

impl Noticed {
    fn of(counts: &Counts, part: Option<&str>) -> Self {
        let noticed = count(counts, part, "caught") + count(counts, part, "timeout");
        Self { noticed, all: RUN.iter().map(|fate| count(counts, part, fate)).sum() }
    }
}

impl fmt::Display for Noticed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { noticed, all } = *self;
        let share = 100.0 * f64::from(noticed) / f64::from(all.max(1));
        let bound = 100.0 * sample::lower_bound(noticed, all);
        write!(f, "{noticed} of {all} were noticed: {share:.1} %, with 95 % at least {bound:.1} % of all")
    }
}
