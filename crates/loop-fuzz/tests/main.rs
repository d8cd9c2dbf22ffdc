//! The targets on stable: the committed corpus, and seeded mutations of it.
//!
//! `FUZZ_RUNS=100000 cargo test -p loop-fuzz` tries more mutations of each target, `FUZZ_SEED=7` others.
#![expect(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use loop_fuzz::{Mutator, TARGETS, run};

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs the corpus of a target and mutations of it. Bytes for which something does not hold are printed.
#[track_caller]
fn check(name: &str) {
    let corpus = corpus(name);
    assert!(corpus.len() >= 3, "the corpus of {name} has {} inputs", corpus.len());
    let mut mutator = Mutator::new(number("FUZZ_SEED", 1));
    let mut inputs = corpus.clone();
    for at in 0..usize::try_from(number("FUZZ_RUNS", 400)).unwrap() {
        let base = &corpus[at % corpus.len()];
        let other = &corpus[(at / corpus.len()) % corpus.len()];
        inputs.push(mutator.mutate(base, other));
    }
    for input in inputs {
        let held = catch_unwind(|| run(name, &input)).is_ok();
        assert!(held, "{name} does not hold of {:?}", String::from_utf8_lossy(&input));
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

targets!(canonical contract framing gate_events history journal merge sanitiser sections similarity);

#[test]
fn every_target_is_tested_and_has_a_program_for_the_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(TESTED.contains(&name), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name} is missing in fuzz/Cargo.toml");
        let program = fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("loop_fuzz::run(\"{name}\", data)")), "{name}");
    }
    assert_eq!(TESTED.len(), TARGETS.len());
}

#[test]
fn mutations_follow_from_their_seed() {
    let of = |seed| Mutator::new(seed).mutate(b"## Findings\n\nIt is so.", b"other");
    assert_eq!(of(1), of(1));
    assert!((2..20).any(|seed| of(seed) != of(1)));
}
