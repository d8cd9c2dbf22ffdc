//! Sets of words that are looked up without comparing with each of them.

use std::collections::BTreeMap;

/// Words of lists, each with what the lists that it is in mean, as bits. Most words of a text are in none, which the first and
/// the last byte and the length say of nearly all.
#[derive(Debug)]
pub(super) struct Known {
    shapes: Shapes,
    words: BTreeMap<&'static str, u32>,
}

/// The first and the last bytes of words, with their lengths.
#[derive(Debug)]
pub(super) struct Shapes([u64; BLOCKS]);

/// In how many numbers the bits of the shapes are.
const BLOCKS: usize = 64;

impl Shapes {
    /// The shapes of these words.
    pub(super) fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut shapes = Self([0; BLOCKS]);
        for word in words {
            let (block, bit) = shape(word);
            if let Some(block) = shapes.0.get_mut(block) {
                *block |= bit;
            }
        }
        shapes
    }

    /// Whether the word may be one of them.
    #[inline]
    pub(super) fn may_have(&self, word: &str) -> bool {
        let (block, bit) = shape(word);
        self.0.get(block).is_some_and(|block| block & bit != 0)
    }
}

impl Known {
    /// The words of these lists, each list with its bits.
    pub(super) fn of(lists: &[(&[&'static str], u32)]) -> Self {
        let mut known = BTreeMap::new();
        for (words, bits) in lists {
            for word in *words {
                *known.entry(*word).or_default() |= bits;
            }
        }
        Self { shapes: Shapes::of(known.keys().copied()), words: known }
    }

    /// The words of one list: the bit of each is its place in it, of which there are 32.
    pub(super) fn ranked(words: &[&'static str]) -> Self {
        let ranked = (0..32).zip(words).map(|(rank, word)| (*word, 1 << rank));
        let words: BTreeMap<&'static str, u32> = ranked.collect();
        Self { shapes: Shapes::of(words.keys().copied()), words }
    }

    /// The bits of all lists that have the word. 0: none has.
    #[inline]
    pub(super) fn bits(&self, word: &str) -> u32 {
        if self.shapes.may_have(word) { self.words.get(word).copied().unwrap_or(0) } else { 0 }
    }

    /// Whether a list has the word.
    #[inline]
    pub(super) fn has(&self, word: &str) -> bool {
        self.bits(word) != 0
    }
}

/// The number and the bit for words with the first and the last byte and the length of this one.
#[inline]
fn shape(word: &str) -> (usize, u64) {
    let bytes = word.as_bytes();
    let (first, last) = (bytes.first().copied().unwrap_or(0), bytes.last().copied().unwrap_or(0));
    let mixed = usize::from(first) * 37 + usize::from(last) * 5 + bytes.len() * 331;
    (mixed / 64 % BLOCKS, 1 << (mixed % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_bits_of_each_list_that_it_is_in() {
        let known = Known::of(&[(&["all", "sum", "somme"], 1), (&["all", "of"], 2), (&["計"], 4)]);
        for (word, bits) in
            [("all", 3), ("sum", 1), ("of", 2), ("計", 4), ("", 0), ("al", 0), ("somm", 0), ("sam", 0)]
        {
            assert_eq!(known.bits(word), bits, "{word}");
            assert_eq!(known.has(word), bits != 0, "{word}");
        }
    }
}
