//! The key of a journal, and the seals that it makes: who changes the journal and has not the key cannot make them.
//!
//! The key lies beside the journal in a file of its own, so that a copy of the journal alone seals nothing.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use loop_tools::files as plain;
use uuid::Uuid;

use crate::files;
use crate::hmac::HmacKey;

/// A journal's key.
#[derive(Clone)]
pub(super) struct Key {
    hmac: HmacKey,
    /// Names the key without telling it.
    name: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.name)
    }
}

impl Key {
    /// Names the key without telling it.
    #[cfg(feature = "postgres")]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where the key of the journal at `path` lies.
    pub(super) fn path(path: &Path) -> PathBuf {
        let mut key = path.as_os_str().to_owned();
        key.push(".key");
        key.into()
    }

    /// The key of the journal at `path`, if it is there.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let broken = || io::Error::other(format!("{} is not a key; put it back", Self::path(path).display()));
        let text = match plain::text(&Self::path(path), 4 * BYTES as u64) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) => return Err(broken()),
        };
        let text = text.trim();
        let digits = text
            .as_bytes()
            .chunks_exact(2)
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
        let bytes: Option<Vec<u8>> = digits.collect();
        let bytes = bytes.filter(|_| text.len() == 2 * BYTES).and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| Some(Self::of(bytes))).ok_or_else(broken)
    }

    fn of(bytes: [u8; BYTES]) -> Self {
        let hmac = HmacKey::new(&bytes);
        let [first, second, third, fourth, ..] = hmac.of(b"name");
        Self { name: hex(&[first, second, third, fourth]), hmac }
    }

    /// Makes a key where there is none. The caller is alone.
    pub(super) fn make(path: &Path) -> io::Result<Self> {
        if let Some(key) = Self::read(path)? {
            return Ok(key);
        }
        let mut bytes = [0; BYTES];
        for part in bytes.chunks_mut(16) {
            // The bits of a version 4 UUID that say its version are the same in each: what is left is 244 random bits.
            part.iter_mut().zip(Uuid::new_v4().as_bytes()).for_each(|(byte, random)| *byte = *random);
        }
        let (place, mut text) = (Self::path(path), hex(&bytes));
        text.push('\n');
        let mut beside = place.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let mut options = OpenOptions::new();
        let mut file = files::private(options.write(true).create(true).truncate(true)).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &place)?;
        Ok(Self::of(bytes))
    }

    /// The seal of these fields under a tag: the key's name and an HMAC-SHA-256. With their lengths before them, no
    /// byte of one field can pass for one of the next.
    pub(super) fn seal(&self, tag: &str, fields: &[&str]) -> String {
        self.named(self.hmac.of(&message(std::iter::once(&tag).chain(fields))))
    }

    /// The first fields of seals under a tag, digested once for all of them.
    pub(super) fn begin(&self, tag: &str, fields: &[&str]) -> SealPrefix {
        SealPrefix(self.hmac.begin(&message(std::iter::once(&tag).chain(fields))))
    }

    /// The seal of the fields that begin so and of the `rest`: the same as [`seal`](Self::seal) of all of them.
    pub(super) fn seal_begun(&self, begun: &SealPrefix, rest: &[&str]) -> String {
        self.named(begun.0.of(&message(rest.iter())))
    }

    fn named(&self, hmac: [u8; BYTES]) -> String {
        let mut seal = String::with_capacity(self.name.len() + 1 + 2 * BYTES);
        seal.push_str(&self.name);
        seal.push('-');
        push_hex(&hmac, &mut seal);
        seal
    }

    /// Why a seal does not hold; `None` where it does.
    pub(super) fn check(&self, seal: &str, tag: &str, fields: &[&str]) -> Option<SealFault> {
        if same(self.seal(tag, fields).as_bytes(), seal.as_bytes()) {
            return None;
        }
        let is_own = seal.split_once('-').is_some_and(|(name, _)| name == self.name);
        Some(if is_own { SealFault::Changed } else { SealFault::OtherKey })
    }
}

/// The first fields of seals.
#[derive(Clone)]
pub(super) struct SealPrefix(HmacKey);

impl std::fmt::Debug for SealPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealPrefix")
    }
}

/// Fields, each with its length before it.
fn message<'a>(fields: impl Iterator<Item = &'a &'a str> + Clone) -> Vec<u8> {
    let mut message = Vec::with_capacity(fields.clone().map(|field| 8 + field.len()).sum());
    for field in fields {
        message.extend((field.len() as u64).to_be_bytes());
        message.extend(field.as_bytes());
    }
    message
}

/// Why a seal does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealFault {
    /// What it is over was changed.
    Changed,
    /// It was made with another key.
    OtherKey,
    /// The key sealed it as a run that was imported: it vouches for what the run is since then, and not for what made it.
    Imported,
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut text);
    text
}

fn push_hex(bytes: &[u8], text: &mut String) {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 0xf));
    }
}

/// Bytes of a key and of what SHA-256 gives.
const BYTES: usize = 32;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_an_hmac() {
        // RFC 4231, test case 2: a key is padded with zeros.
        let mut key = [0; BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let reported = hex(&HmacKey::new(&key).of(b"what do ya want for nothing?"));
        assert_eq!(reported, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        assert!(Key::read(&path).unwrap().is_none());
        let key = Key::make(&path).unwrap();
        let again = Key::make(&path).unwrap();
        let seal = key.seal("row", &["a", "b"]);
        assert_eq!(key.seal_begun(&key.begin("row", &["a"]), &["b"]), seal);
        assert_eq!(again.check(&seal, "row", &["a", "b"]), None);
        for (tag, fields) in [("row", ["ab", ""]), ("head", ["a", "b"]), ("row", ["a", "c"])] {
            assert_eq!(key.check(&seal, tag, &fields), Some(SealFault::Changed));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(Key::path(&path)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::remove_file(Key::path(&path)).unwrap();
        let other = Key::make(&path).unwrap();
        assert_eq!(other.check(&seal, "row", &["a", "b"]), Some(SealFault::OtherKey));
        fs::write(Key::path(&path), "short").unwrap();
        assert!(Key::read(&path).is_err());
    }
}
