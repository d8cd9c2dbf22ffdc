//! Choices: the one source of what a simulation draws. Every number comes from one seed.

/// The choices of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Choices(u64);

impl Choices {
    /// The choices of a seed.
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `count`; 0 if `count` is 0.
    pub(crate) fn below(&mut self, count: u32) -> u32 {
        if count <= 1 {
            return 0;
        }
        ((next(&mut self.0) >> 32).wrapping_mul(u64::from(count)) >> 32) as u32
    }

    /// Whether something happens that happens once in `count` times.
    pub(crate) fn one_in(&mut self, count: u32) -> bool {
        count > 0 && self.below(count.max(2)) == 1
    }

    /// Whether something happens, in so many of a thousand times.
    pub(crate) fn per_mille(&mut self, rate: u32) -> bool {
        rate >= 1_000 || self.below(1_000) >= 1_000 - rate.min(1_000)
    }

    /// One of these.
    pub(crate) fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u32) as usize)
    }
}

/// SplitMix64: 64 bits of state, and every seed is a good one.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
