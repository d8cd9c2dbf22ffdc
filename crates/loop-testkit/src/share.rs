//! How much of what a suite can try a test run tries: a share by default, everything with `LOOPGATE_TESTS=full`.

use std::ops::Range;
use std::sync::OnceLock;

use loop_core::{Event, Note};

/// Whether everything is to be tried: `LOOPGATE_TESTS=full`, which `cargo xtask ci` sets.
pub fn is_full() -> bool {
    static FULL: OnceLock<bool> = OnceLock::new();
    *FULL.get_or_init(|| std::env::var_os("LOOPGATE_TESTS").is_some_and(|scope| scope == "full"))
}

/// How many of so many cases are tried: all of them, or one in sixteen and no fewer than sixteen.
pub fn share(cases: u32) -> u32 {
    if is_full() { cases } else { (cases / 16).max(16).min(cases) }
}

/// The places of a journal at which something is tried: all of them, or one in four. Where it begins depends on where
/// the journal ends, so that several journals show each kind of place.
pub fn places(all: Range<usize>) -> impl Iterator<Item = usize> {
    let end = all.end;
    all.filter(move |place| is_full() || (end - place).is_multiple_of(4))
}

/// Whether what the n-th event came to is stored and read back, which takes most of the time of a check: everywhere, or
/// at one event in eight, drawn from what happened, so that a test checks the same each time.
pub(crate) fn is_stored(n: usize, event: &Event, notes: &[Note]) -> bool {
    let what = event.kind.name().bytes().map(u64::from).sum::<u64>();
    is_full() || (what + event.at.0 + (n * 5 + notes.len() * 3) as u64).is_multiple_of(8)
}
