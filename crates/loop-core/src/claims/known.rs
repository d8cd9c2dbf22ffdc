//! Sets of words that are looked up without comparing with each of them.

use std::collections::BTreeMap;

/// Words of lists, each with what the lists that it is in mean, as bits. Most words of a text are in none, which the first and
/// the last byte and the length say of nearly all.
#[derive(Debug)]
pub(super) struct Known {
    shapes: [u64; BLOCKS],
    words: BTreeMap<&'static str, u32>,
}

/// In how many numbers the bits of the shapes are.
const BLOCKS: usize = 64;

impl Known {
    /// The words of these lists, each list with its bits.
    pub(super) fn of(lists: &[(&[&'static str], u32)]) -> Self {
        let mut known = Self { shapes: [0; BLOCKS], words: BTreeMap::new() };
        for (words, bits) in lists {
            for word in *words {
                let (block, bit) = shape(word);
                if let Some(block) = known.shapes.get_mut(block) {
                    *block |= bit;
                }
                *known.words.entry(word).or_default() |= bits;
            }
        }
        known
    }

    /// The bits of all lists that have the word. 0: none has.
    #[inline]
    pub(super) fn bits(&self, word: &str) -> u32 {
        let (block, bit) = shape(word);
        match self.shapes.get(block).is_some_and(|block| block & bit != 0) {
            true => self.words.get(word).copied().unwrap_or(0),
            false => 0,
        }
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
