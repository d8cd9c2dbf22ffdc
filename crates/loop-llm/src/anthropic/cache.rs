//! Places the marks for prompt caching.

use super::turn::{ASSISTANT, USER};
use crate::codec::Turn;
use crate::options::Caching;
use crate::profile::CacheMarks;

/// The cache marks of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Whether the system prompt is marked, or the tools if there is none.
    pub(super) head: bool,
    /// Whether the request asks for automatic caching of the last block.
    pub(super) whole: bool,
    /// Turns whose last block is marked.
    turns: [Option<usize>; 2],
    long: bool,
}

impl Marks {
    /// The marks of a request with these turns. An instruction that later requests lack may follow, and must not be
    /// cached.
    pub(super) fn of(kind: CacheMarks, caching: &Caching, turns: &[Turn], has_instruction: bool) -> Self {
        if caching.off || kind == CacheMarks::None {
            return Self::default();
        }
        let (newest, mut before) = user_ends(turns);
        let whole = kind == CacheMarks::Automatic && !has_instruction;
        let last = turns.iter().rposition(|turn| turn.values > 0);
        // Where the model continues its own turn, the request before ended with the newest user's turn.
        let goes_on =
            whole && last.and_then(|last| turns.get(last)).is_some_and(|turn| turn.joint == ASSISTANT);
        if goes_on {
            before = newest;
        }
        let end = if goes_on { last } else { newest };
        let between = |from: usize| {
            let blocks = turns.iter().enumerate().filter(|(nth, _)| *nth > from && Some(*nth) <= end);
            blocks.map(|(_, turn)| turn.values).sum::<usize>()
        };
        let is_far = before.is_some_and(|from| between(from) > MAX_LOOKED_BACK);
        let newest = newest.filter(|_| !whole);
        let before = before.filter(|_| kind == CacheMarks::Blocks || is_far);
        Self { head: true, whole, turns: [newest, before], long: caching.long }
    }

    /// The mark as JSON.
    pub(super) fn json(&self) -> &'static str {
        self.member().strip_prefix(MEMBER).unwrap_or_default()
    }

    /// The turns whose last block is marked, in order.
    pub(super) fn turns(&self) -> impl Iterator<Item = usize> {
        let [newest, before] = self.turns;
        [before, newest].into_iter().flatten()
    }

    /// The mark as the last member of a block.
    pub(super) fn member(&self) -> &'static str {
        if self.long { MARK_LONG } else { MARK }
    }
}

/// The ends of the last two groups of consecutive user's turns, the newest first.
fn user_ends(turns: &[Turn]) -> (Option<usize>, Option<usize>) {
    let stated = || turns.iter().enumerate().rev().filter(|(_, turn)| turn.values > 0);
    let newest = stated().find(|(_, turn)| turn.joint == USER).map(|(nth, _)| nth);
    let between = newest.and_then(|newest| stated().find(|(nth, turn)| *nth < newest && turn.joint != USER));
    let before =
        between.and_then(|(between, _)| stated().find(|(nth, turn)| *nth < between && turn.joint == USER));
    (newest, before.map(|(nth, _)| nth))
}

const MEMBER: &str = ",\"cache_control\":";
const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";
const MARK_LONG: &str = ",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}";
/// How many blocks before a mark the server looks for a cached prefix, less a margin.
const MAX_LOOKED_BACK: usize = 18;
