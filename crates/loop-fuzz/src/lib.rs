//! Targets for a fuzzer: each is a function of bytes that panics where something does not hold that must hold of any bytes.
//!
//! The same functions are run on stable by `cargo test -p loop-fuzz` (the committed corpus and seeded mutations of it), and by
//! `cargo fuzz run NAME` in `crates/loop-fuzz/fuzz`, which is a workspace of its own.
//! A crate like this is a dev tool: nothing depends on it, and it is not published.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a target says that something does not hold"
)]

mod canonical;
mod contract;
mod drive;
mod framing;
mod gate_events;
mod history;
mod journal;
mod merge;
mod mutate;
mod sanitiser;
mod sections;
mod similarity;
mod validators;

pub use mutate::Mutator;

/// A target: a function of bytes.
pub type FuzzTarget = fn(&[u8]);

/// All targets by their names, which are also those of the folders of their corpora.
pub const TARGETS: [(&str, FuzzTarget); 10] = [
    ("canonical", canonical::target),
    ("contract", contract::target),
    ("framing", framing::target),
    ("gate_events", gate_events::target),
    ("history", history::target),
    ("journal", journal::target),
    ("merge", merge::target),
    ("sanitiser", sanitiser::target),
    ("sections", sections::target),
    ("similarity", similarity::target),
];

/// Runs the target of this name.
///
/// # Panics
/// Something does not hold of these bytes, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(of, _)| *of == name);
    (target.unwrap().1)(data);
}

/// Bytes as choices, in their order. Beyond their end every choice is 0.
#[derive(Debug)]
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn of(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// One of these.
    pub(crate) fn one<'o, T>(&mut self, of: &'o [T]) -> &'o T {
        &of[usize::from(self.next()) % of.len()]
    }

    /// A text of up to 63 bytes, with what is not UTF-8 replaced.
    pub(crate) fn text(&mut self) -> String {
        let length = usize::from(self.next() % 64).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

/// The texts that these bytes hold, between lines of `---`.
pub(crate) fn parts(data: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(data);
    text.split("\n---\n").map(str::to_owned).collect()
}
