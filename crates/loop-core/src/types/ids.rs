//! Identifiers: runs, evidence, instants, digests.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of a run, unique within its journal. The caller or the driver sets it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub Arc<str>);

impl RunId {
    /// A run id from any text; the runtime uses time-ordered UUIDs.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Milliseconds since the run's start, monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(pub u64);

impl Millis {
    /// This instant `ms` milliseconds later.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this instant; 0 when it lies in the future.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant in seconds for people, without trailing zeros: `120`, `0.5`, `0.001`.
    pub fn in_seconds(self) -> String {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// The number of a settled observation, printed `E3`. `E0` is the work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EvidenceId(pub u32);

impl EvidenceId {
    /// The work item itself.
    pub const ITEM: Self = Self(0);
}

impl fmt::Display for EvidenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{}", self.0)
    }
}

/// A BLAKE3 digest, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// Up to so many bytes are copied into one piece to be digested. Of more, all but the first chunk are hashed side by side
/// without a copy.
const MAX_COPIED: usize = 64 << 10;
/// Up to so many bytes are copied into memory that the thread keeps, such as those of most results.
const MAX_KEPT: usize = 4 << 10;

thread_local! {
    /// Where bytes are joined that are digested together.
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Digest {
    /// The digest of `bytes` under a domain `tag`, so that equal bytes of different kinds differ.
    pub fn of(tag: &str, bytes: &[u8]) -> Self {
        Self::of_parts(tag, &[bytes])
    }

    /// As [`of`](Self::of), for bytes that are the concatenation of `parts`.
    pub fn of_parts(tag: &str, parts: &[&[u8]]) -> Self {
        let before: [&[u8]; 3] = [b"loopgate/", tag.as_bytes(), &[0]];
        let all = || before.iter().chain(parts);
        let bytes = all().map(|part| part.len()).sum();
        // Chunks of one update are hashed side by side, those of several are not, and each update takes as long as a
        // few bytes do.
        if bytes <= MAX_COPIED {
            let hashed = |joined: &mut Vec<u8>| {
                joined.clear();
                joined.reserve(bytes);
                all().for_each(|part| joined.extend_from_slice(part));
                Self(blake3::hash(joined).into())
            };
            if bytes > MAX_KEPT {
                return hashed(&mut Vec::new());
            }
            // A thread that ends has no such memory any more.
            let kept = JOINED.try_with(|kept| kept.try_borrow_mut().ok().map(|mut kept| hashed(&mut kept)));
            return kept.ok().flatten().unwrap_or_else(|| hashed(&mut Vec::new()));
        }
        let mut hasher = blake3::Hasher::new();
        all().for_each(|part| _ = hasher.update(part));
        Self(hasher.finalize().into())
    }

    /// The first twelve hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Journals print several of them with each entry, and `{:02x}` is slow.
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        f.write_str(std::str::from_utf8(&text).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(InvalidDigest);
        }
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            b'A'..=b'F' => Ok(digit - b'A' + 10),
            _ => Err(InvalidDigest),
        };
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let [high, low] = *pair;
            *byte = nibble(high)? << 4 | nibble(low)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits")]
pub struct InvalidDigest;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_no_more_digits_than_they_take() {
        let reported = [0, 1, 500, 1_000, 1_250, 120_000].map(|ms| Millis(ms).in_seconds());
        assert_eq!(reported, ["0", "0.001", "0.5", "1", "1.25", "120"]);
    }

    #[test]
    fn digests_differ_by_tag_and_are_written_and_read_back() {
        let digest = Digest::of("a", b"x");
        assert_ne!(digest, Digest::of("b", b"x"));
        assert_eq!(digest.to_string().parse::<Digest>(), Ok(digest));
        assert_eq!(digest.to_string().to_uppercase().parse::<Digest>(), Ok(digest));
        for wrong in ["00", &"+f".repeat(32), &"g0".repeat(32), &"é".repeat(32), &"0".repeat(65)] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    // I-11: a digest depends on the bytes alone, however many they are and whatever parts they come in.
    #[test]
    fn a_digest_is_the_same_in_whatever_parts_and_whether_or_not_they_are_copied() {
        let bytes: Vec<u8> = (0..MAX_COPIED + 5_000).map(|at| (at % 251) as u8).collect();
        for length in
            [0, 1, 1_000, 1_014, 1_015, 1_016, 2_047, 2_048, 4_085, 4_086, 9_000, MAX_COPIED, bytes.len()]
        {
            let (whole, tail) = bytes.split_at(length);
            let mut hasher = blake3::Hasher::new();
            hasher.update(b"loopgate/t\0").update(whole);
            let streamed = Digest(hasher.finalize().into());
            let (head, rest) = whole.split_at(length / 3);
            assert_eq!(Digest::of("t", whole), streamed, "{length}");
            assert_eq!(Digest::of_parts("t", &[head, rest]), streamed, "{length}");
            assert!(tail.is_empty() || Digest::of("t", &bytes) != streamed);
        }
    }
}
