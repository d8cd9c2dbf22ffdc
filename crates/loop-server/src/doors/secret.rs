//! Secrets of 256 random bits, stored as hashes and compared in constant time.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A secret that is shown once: a token, a code or a session id. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new secret: this prefix and 256 random bits in hexadecimal.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn random(prefix: &str) -> Result<Self, NoRandomBytes> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| NoRandomBytes(error.to_string()))?;
        Ok(Self(format!("{prefix}{}", hex(&bytes))))
    }

    /// The secret as text, for the one place that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its hash, which is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The system has no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes: {0}; nothing was made, so try again")]
pub struct NoRandomBytes(String);

/// The SHA-256 of a secret. A slow hash would add nothing, since a secret has 256 random bits.
#[derive(Clone, Copy, Eq)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// The hash of a secret from a caller.
    pub fn of(given: &str) -> Self {
        Self(Sha256::digest(given.as_bytes()).into())
    }

    /// Parses `sha256:` and 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let mut bytes = [0; 32];
        let is_whole = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_whole {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", hex(&self.0))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

impl std::hash::Hash for SecretHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for SecretHash {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        same(&self.0, &other.0)
    }
}

/// Whether two texts are equal, in constant time.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differs) == 0
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

const PREFIX: &str = "sha256:";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_256_bits_and_is_kept_as_its_hash() {
        // K13
        let (one, other) = (Secret::random("lgt_").unwrap(), Secret::random("lgt_").unwrap());
        assert_eq!(one.reveal().len(), 4 + 64);
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(SecretHash::parse(&one.hash().to_string()), Some(SecretHash::of(one.reveal())));
        assert_ne!(one.hash(), other.hash());
        assert_eq!(format!("{one:?} {:?}", one.hash()), "Secret(…) SecretHash(…)");
        // FIPS 180-2, B.1.
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(SecretHash::of("abc").to_string(), abc);
        for broken in ["", "sha256:", "sha256:ba78", &abc[7..], &abc.replace('b', "x"), &format!("{abc}0")] {
            assert_eq!(SecretHash::parse(broken), None, "{broken}");
        }
    }
}
