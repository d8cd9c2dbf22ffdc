//! Fuzz targets: functions of bytes that panic if a property does not hold.
//!
//! A target is in `tests/fuzz` of the crate that it is about. A test of that crate runs it with [`check`] on the
//! committed inputs and on seeded mutations of them. A program in `fuzz/` runs it with `cargo fuzz`.
#![allow(clippy::indexing_slicing, reason = "a panic is how a target says that something does not hold")]

mod drive;
mod mutate;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

pub use drive::{FuzzRun, NONCE, conversation, document, found, sections, usage};
pub use mutate::Mutator;

/// Runs a target on its committed inputs and on mutations of them.
///
/// `FUZZ_RUNS=100000` sets the number of mutations (default 400), and `FUZZ_SEED=7` their seed.
///
/// # Panics
/// The property does not hold for some bytes, which are in the message, or there are fewer than three inputs.
#[track_caller]
pub fn check(name: &str, target: fn(&[u8])) {
    let seeds = seeds(name);
    assert!(seeds.len() >= 3, "fuzz/seeds/{name} has {} inputs", seeds.len());
    let mut mutator = Mutator::new(number("FUZZ_SEED", 1));
    let mut inputs = seeds.clone();
    for at in 0..usize::try_from(number("FUZZ_RUNS", 400)).expect("a count fits") {
        let (base, other) = (&seeds[at % seeds.len()], &seeds[(at / seeds.len()) % seeds.len()]);
        inputs.push(mutator.mutate(base, other));
    }
    for input in inputs {
        let held = catch_unwind(|| target(&input)).is_ok();
        assert!(held, "{name} does not hold of {:?}", String::from_utf8_lossy(&input));
    }
}

/// The folder of the committed inputs of a target.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name)
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder(name)).expect("a target has a folder of inputs");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is there").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).expect("an input can be read")).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Choices from bytes, in order. After the end every choice is 0.
#[derive(Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// The choices that these bytes make.
    pub fn of(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// Whether every byte was used.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte, or 0.
    pub fn take(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// One of these.
    pub fn one<'o, T>(&mut self, of: &'o [T]) -> &'o T {
        &of[usize::from(self.take()) % of.len()]
    }

    /// A text of up to 63 bytes, with what is not UTF-8 replaced.
    pub fn text(&mut self) -> String {
        let length = usize::from(self.take() % 64).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_tested_and_has_a_program_for_the_fuzzer() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| fs::read_to_string(root.join(path)).expect(path);
        let manifest = read("fuzz/Cargo.toml");
        let tests = ["core", "llm", "runtime"].map(|of| read(&format!("crates/loop-{of}/tests/fuzz/mod.rs")));
        let names = fs::read_dir(root.join("fuzz/seeds")).expect("the inputs are there");
        let names = names.map(|entry| entry.expect("it is there").file_name().to_string_lossy().into_owned());
        let names: Vec<String> = names.collect();
        assert_eq!(names.len(), 10, "{names:?}");
        for name in names {
            assert!(
                manifest.contains(&format!("name = \"{name}\"\n")),
                "{name} is missing in fuzz/Cargo.toml"
            );
            assert!(read(&format!("fuzz/fuzz_targets/{name}.rs")).contains(&format!("{name}::target(data)")));
            let call = format!("check(\"{name}\", {name}::target)");
            assert!(tests.iter().any(|text| text.contains(&call)), "no test runs {name}");
        }
    }

    #[test]
    fn mutations_follow_from_their_seed() {
        let of = |seed| Mutator::new(seed).mutate(b"## Findings\n\nIt is so.", b"other");
        assert_eq!(of(1), of(1));
        assert!((2..20).any(|seed| of(seed) != of(1)));
    }
}
