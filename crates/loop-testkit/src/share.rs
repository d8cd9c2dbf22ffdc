//! How many of its cases a suite tries: a share by default, all with `LOOPGATE_TESTS=full`.

use std::ops::Range;
use std::sync::OnceLock;

use loop_core::{Event, Note};

/// Whether all cases are tried: `LOOPGATE_TESTS=full`, which `cargo xtask ci` sets.
pub fn is_full() -> bool {
    static FULL: OnceLock<bool> = OnceLock::new();
    *FULL.get_or_init(|| std::env::var_os("LOOPGATE_TESTS").is_some_and(|scope| scope == "full"))
}

/// How many of this many cases are tried: all, or one in sixteen and at least sixteen.
pub fn share(cases: u32) -> u32 {
    if is_full() { cases } else { (cases / 16).max(16).min(cases) }
}

/// The positions in a journal that are tried: all, or one in four. The first one depends on the journal's length, so
/// that several journals cover every kind of position.
pub fn places(all: Range<usize>) -> impl Iterator<Item = usize> {
    let end = all.end;
    all.filter(move |place| is_full() || (end - place).is_multiple_of(4))
}

/// Whether the run after the n-th event is serialised and compared, which takes most of the time of a check: always, or
/// for one event in eight. It depends on the event, so that a test always checks the same ones.
pub(crate) fn is_stored(n: usize, event: &Event, notes: &[Note]) -> bool {
    let what = event.kind.name().bytes().map(u64::from).sum::<u64>();
    is_full() || (what + event.at.0 + (n * 5 + notes.len() * 3) as u64).is_multiple_of(8)
}
