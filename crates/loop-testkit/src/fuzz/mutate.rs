//! A seeded mutator of corpus inputs: what a fuzzer does without coverage feedback.

/// Changes bytes. The same seed makes the same changes.
#[derive(Clone, Debug)]
pub struct Mutator(u64);

impl Mutator {
    /// A mutator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).expect("it is below the end")
    }

    /// `data` with one to eight changes, of which some take a part of `other`. At most 4 KB.
    pub fn mutate(&mut self, data: &[u8], other: &[u8]) -> Vec<u8> {
        let mut data = data.to_vec();
        for _ in 0..=self.below(8) {
            self.change(&mut data, other);
        }
        data.truncate(MAX_BYTES);
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(data.len() + 1);
        let end = data.len().min(at + 1 + self.below(24));
        match self.below(9) {
            0 => data.insert(at, u8::try_from(self.below(256)).expect("it is below the end")),
            1 if at < data.len() => data[at] ^= 1 << self.below(8),
            2 => drop(data.drain(at..end)),
            3 => {
                let part = data[at..end].to_vec();
                data.splice(at..at, part);
            }
            4 => data.truncate(at),
            5 => {
                let from = self.below(other.len() + 1);
                let to = other.len().min(from + 1 + self.below(48));
                data.splice(at..at, other[from..to].iter().copied());
            }
            6 => {
                // What parsers decide on.
                const WORDS: [&str; 22] = [
                    "\n",
                    "\r\n",
                    "```",
                    "```json\n",
                    "## ",
                    "\"",
                    "\\",
                    "{",
                    "}",
                    "[",
                    "]",
                    ":",
                    ",",
                    "data: ",
                    "\n\n",
                    "[E1]",
                    "\u{202e}",
                    "\u{200b}",
                    "\u{1b}[31m",
                    "\u{e0041}",
                    "n0nce",
                    "<<<end ",
                ];
                let word = WORDS[self.below(WORDS.len())];
                data.splice(at..at, word.bytes());
            }
            7 => {
                let to = self.below(data.len() + 1);
                if at < data.len() && to < data.len() {
                    data.swap(at, to);
                }
            }
            _ if at < data.len() => data[at] = u8::try_from(self.below(256)).expect("it is below the end"),
            _ => {}
        }
    }
}

const MAX_BYTES: usize = 4_096;
