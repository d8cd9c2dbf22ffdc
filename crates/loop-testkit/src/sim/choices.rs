//! Choices: the only source of randomness in a simulation.
//!
//! All numbers are from one seed, and are recorded, so that a list of numbers describes a simulation too. Zero is
//! always the simplest choice: a shorter list with more zeros is a simpler run. Shrinking depends on that.

/// A source of choices: a seed, or a list.
#[derive(Clone, Debug)]
pub struct Choices {
    source: Source,
    taken: Vec<u32>,
    is_calm: bool,
}

#[derive(Clone, Debug)]
enum Source {
    Seed(u64),
    List { list: Vec<u32>, at: usize },
}

impl Choices {
    /// The choices of a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self { source: Source::Seed(seed), taken: Vec::new(), is_calm: false }
    }

    /// These choices, followed by zeros.
    pub fn of_list(list: Vec<u32>) -> Self {
        Self { source: Source::List { list, at: 0 }, taken: Vec::new(), is_calm: false }
    }

    /// A number below `count`; 0 if `count` is 0.
    pub fn below(&mut self, count: u32) -> u32 {
        if self.is_calm || count <= 1 {
            return 0;
        }
        let drawn = match &mut self.source {
            Source::Seed(state) => {
                let drawn = next(state);
                ((drawn >> 32).wrapping_mul(u64::from(count)) >> 32) as u32
            }
            Source::List { list, at } => {
                let drawn = list.get(*at).copied().unwrap_or_default();
                *at += 1;
                drawn % count
            }
        };
        self.taken.push(drawn);
        drawn
    }

    /// Whether an event of probability 1/`count` happens. Zero: it does not.
    pub fn one_in(&mut self, count: u32) -> bool {
        count > 0 && self.below(count.max(2)) == 1
    }

    /// Whether an event of this probability, in thousandths, happens.
    pub fn per_mille(&mut self, rate: u32) -> bool {
        // Zero is "it does not happen", unless it always does.
        rate >= 1_000 || self.below(1_000) >= 1_000 - rate.min(1_000)
    }

    /// One of these. Zero chooses the first.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u32) as usize)
    }

    /// From now on every choice is zero: faults have ended.
    pub fn calm(&mut self) {
        self.is_calm = true;
    }

    /// Whether faults have ended.
    pub fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// The choices that were made.
    pub fn taken(&self) -> &[u32] {
        &self.taken
    }
}

/// SplitMix64: 64 bits of state, for which every seed is suitable.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_its_list_choose_the_same() {
        let mut seed = Choices::of_seed(7);
        let drawn: Vec<u32> = (2..60).map(|count| seed.below(count)).collect();
        let mut list = Choices::of_list(seed.taken().to_vec());
        assert_eq!((2..60).map(|count| list.below(count)).collect::<Vec<u32>>(), drawn);
        assert_eq!(list.below(9), 0, "after its end a list is zeros");
        assert!((2..60).zip(&drawn).all(|(count, drawn)| *drawn < count));
    }

    #[test]
    fn zero_is_the_plain_choice() {
        let mut zeros = Choices::of_list(Vec::new());
        assert!(!zeros.one_in(1) && !zeros.one_in(2) && !zeros.per_mille(999) && zeros.per_mille(1_000));
        assert_eq!(zeros.of(&["plain", "other"]), Some(&"plain"));
    }
}
