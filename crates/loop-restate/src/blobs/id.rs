//! Blob ids: the digest of a blob's content.

use std::fmt;
use std::str::FromStr;

use loop_core::types::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The BLAKE3 digest of a blob's content, written `blake3:<64 hexadecimal digits>`.
///
/// The digest has no domain tag, so `b3sum` prints it for a file of the same content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(Digest);

impl BlobId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Digest(blake3::hash(bytes).into()))
    }

    /// The digest alone.
    pub fn digest(&self) -> Digest {
        self.0
    }

    /// The folder and the name below the store's root: `3f/3f0a…`.
    pub(crate) fn place(&self) -> (String, String) {
        let name = self.0.to_string();
        (name.chars().take(FOLDER_DIGITS).collect(), name)
    }

    /// The id of the blob at `folder/name`. `None`: that is not the name of a blob.
    pub(crate) fn at(folder: &str, name: &str) -> Option<Self> {
        let id = Self(name.parse().ok()?);
        (id.place() == (folder.to_owned(), name.to_owned())).then_some(id)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({})", self.0.short())
    }
}

impl FromStr for BlobId {
    type Err = InvalidBlobId;

    fn from_str(text: &str) -> Result<Self, InvalidBlobId> {
        let digits = text.strip_prefix(PREFIX).ok_or(InvalidBlobId)?;
        digits.parse().map(Self).map_err(|_| InvalidBlobId)
    }
}

impl Serialize for BlobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not a [`BlobId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a blob's id is `blake3:` and 64 hexadecimal digits")]
pub struct InvalidBlobId;

/// Names the digest, so that ids of another one can be distinguished.
const PREFIX: &str = "blake3:";
/// Blobs are spread over 256 folders: a folder of a million files is slow on many file systems.
const FOLDER_DIGITS: usize = 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_id_is_the_digest_that_b3sum_prints_and_reads_back() {
        let id = BlobId::of(b"");
        let text = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(serde_json::from_str::<BlobId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        for wrong in ["", "blake3:", &text[1..], &text[..70], &text.replace("blake3", "sha256")] {
            assert_eq!(wrong.parse::<BlobId>(), Err(InvalidBlobId), "{wrong}");
        }
    }

    #[test]
    fn only_the_place_of_an_id_is_read_as_one() {
        let (folder, name) = BlobId::of(b"x").place();
        assert_eq!(BlobId::at(&folder, &name), Some(BlobId::of(b"x")));
        for (folder, name) in [("00", &*name), (&*folder, "x"), (&*folder, &name.to_uppercase())] {
            assert_eq!(BlobId::at(folder, name), None, "{folder}/{name}");
        }
    }
}
