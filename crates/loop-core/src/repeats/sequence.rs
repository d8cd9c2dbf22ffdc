//! The similarity of two texts, by the rule of Python's `SequenceMatcher`: the longest common block, then the same on
//! both sides of it, without characters that are too frequent in a long text.

use std::collections::BTreeMap;

/// From this length of the second text on, in characters, frequent characters do not start a block.
const LONG: usize = 200;

/// The similarity of `a` and `b` in thousandths, rounded down: twice the number of characters in common blocks, divided
/// by the characters of both. It is 1,000 for two empty texts.
///
/// It depends on the order: `diet` against `tide` differs from `tide` against `diet`. The cost grows with the product
/// of both lengths, so limit the length of untrusted texts.
pub fn ratio_millis(a: &str, b: &str) -> u32 {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let both = (a.len() + b.len()) as u64;
    let common = Matcher::new(&a, &b).common() as u64;
    (2_000 * common).checked_div(both).map_or(1_000, |millis| millis as u32)
}

struct Matcher<'a> {
    a: &'a [char],
    b: &'a [char],
    /// The positions in `b` of each character, in order, without characters that are too frequent.
    places: BTreeMap<char, Vec<usize>>,
}

/// A part of both texts: from the first index, up to but not including the second.
#[derive(Clone, Copy)]
struct Window {
    a: (usize, usize),
    b: (usize, usize),
}

/// Equal characters in both texts.
#[derive(Clone, Copy)]
struct Block {
    a: usize,
    b: usize,
    size: usize,
}

impl<'a> Matcher<'a> {
    fn new(a: &'a [char], b: &'a [char]) -> Self {
        let mut places: BTreeMap<char, Vec<usize>> = BTreeMap::new();
        for (at, c) in b.iter().enumerate() {
            places.entry(*c).or_default().push(at);
        }
        if b.len() >= LONG {
            let max = b.len() / 100 + 1;
            places.retain(|_, at| at.len() <= max);
        }
        Self { a, b, places }
    }

    /// The number of characters in common blocks.
    fn common(&self) -> usize {
        let mut open = vec![Window { a: (0, self.a.len()), b: (0, self.b.len()) }];
        let mut common = 0;
        while let Some(window) = open.pop() {
            let Some(block) = self.longest(window) else { continue };
            common += block.size;
            open.push(Window { a: (window.a.0, block.a), b: (window.b.0, block.b) });
            open.push(Window {
                a: (block.a + block.size, window.a.1),
                b: (block.b + block.size, window.b.1),
            });
        }
        common
    }

    /// The longest common block of a window; of equally long ones the first in `a`, then in `b`. `None` if there is
    /// none.
    fn longest(&self, window: Window) -> Option<Block> {
        let mut best = Block { a: window.a.0, b: window.b.0, size: 0 };
        // Lengths of the common ends of `a[..at]` and `b[..place]`, by place.
        let mut before: Vec<(usize, usize)> = Vec::new();
        for at in window.a.0..window.a.1 {
            let places = self.a.get(at).and_then(|c| self.places.get(c)).map_or(&[][..], Vec::as_slice);
            let from = places.partition_point(|place| *place < window.b.0);
            let to = places.partition_point(|place| *place < window.b.1);
            let mut ends = Vec::with_capacity(to - from);
            let mut earlier = before.iter().peekable();
            for place in places.get(from..to).unwrap_or_default() {
                while earlier.next_if(|(end, _)| end + 1 < *place).is_some() {}
                let left = earlier.peek().filter(|(end, _)| end + 1 == *place).map_or(0, |(_, size)| *size);
                let size = left + 1;
                ends.push((*place, size));
                if size > best.size {
                    best = Block { a: at + 1 - size, b: place + 1 - size, size };
                }
            }
            before = ends;
        }
        // Frequent characters may extend the block at either end.
        while best.a > window.a.0 && best.b > window.b.0 && self.is_equal(best.a - 1, best.b - 1) {
            best = Block { a: best.a - 1, b: best.b - 1, size: best.size + 1 };
        }
        while best.a + best.size < window.a.1
            && best.b + best.size < window.b.1
            && self.is_equal(best.a + best.size, best.b + best.size)
        {
            best.size += 1;
        }
        (best.size > 0).then_some(best)
    }

    fn is_equal(&self, a: usize, b: usize) -> bool {
        self.a.get(a) == self.b.get(b)
    }
}
