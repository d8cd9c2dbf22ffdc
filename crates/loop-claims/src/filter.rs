//! A filter in front of maps: it says of most keys that a map does not have them.

/// A filter of Bloom with one hash. A key that was not added passes by chance, so behind it a map decides, whose order no text
/// can spoil as it could a table of hashes.
#[derive(Debug)]
pub(super) struct Filter(Vec<u64>);

/// In how many numbers the bits are. A long document adds a few thousand keys, of which each sets one bit.
const BLOCKS: usize = 1_024;

impl Default for Filter {
    fn default() -> Self {
        Self(vec![0; BLOCKS])
    }
}

impl Filter {
    /// Adds a key by its hash.
    pub(super) fn add(&mut self, hash: u64) {
        let (block, bit) = place(hash);
        if let Some(block) = self.0.get_mut(block) {
            *block |= bit;
        }
    }

    /// Whether a key with this hash may have been added.
    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let (block, bit) = place(hash);
        self.0.get(block).is_some_and(|block| block & bit != 0)
    }
}

#[inline]
fn place(hash: u64) -> (usize, u64) {
    let bits = usize::try_from((hash >> 40) & 0xffff).unwrap_or(0);
    (bits / 64, 1 << (bits % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_passes_what_was_added_and_little_else() {
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut filter = Filter::default();
        (0..100).for_each(|n| filter.add(hash(n)));
        assert!((0..100).all(|n| filter.may_have(hash(n))));
        assert!((100..1_100).filter(|n| filter.may_have(hash(*n))).count() < 50);
    }
}
