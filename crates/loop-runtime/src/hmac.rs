//! HMAC with SHA-256 (RFC 2104): the seals of a journal, and the signatures of hooks.

use sha2::{Digest as _, Sha256};

/// Bytes that SHA-256 takes at a time.
const BLOCK: usize = 64;

/// A key of any length, digested once for all messages.
#[derive(Clone)]
pub(crate) struct HmacKey {
    inner: Sha256,
    outer: Sha256,
}

impl HmacKey {
    pub(crate) fn new(key: &[u8]) -> Self {
        let digested: [u8; 32];
        let key = if key.len() > BLOCK {
            digested = Sha256::digest(key).into();
            &digested[..]
        } else {
            key
        };
        let padded = |pad: u8| {
            let mut block = [pad; BLOCK];
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            Sha256::new_with_prefix(block)
        };
        Self { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// The HMAC of a message.
    pub(crate) fn of(&self, message: &[u8]) -> [u8; 32] {
        self.end(&Beginning(self.inner.clone()), message)
    }

    /// The beginning of messages, digested once for all of them.
    pub(crate) fn begin(&self, message: &[u8]) -> Beginning {
        Beginning(self.inner.clone().chain_update(message))
    }

    /// The HMAC of the message that begins so and ends with `rest`.
    pub(crate) fn end(&self, beginning: &Beginning, rest: &[u8]) -> [u8; 32] {
        let inner = beginning.0.clone().chain_update(rest).finalize();
        self.outer.clone().chain_update(inner).finalize().into()
    }
}

/// The beginning of messages under one key.
#[derive(Clone)]
pub(crate) struct Beginning(Sha256);

/// The HMAC of one message under a key of any length.
pub(crate) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    HmacKey::new(key).of(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_be_longer_than_a_block() {
        // RFC 4231, test case 6.
        let mac = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(mac[..4], [0x60, 0xe4, 0x31, 0x59]);
    }

    #[test]
    fn a_key_makes_the_same_of_each_message_however_often_it_is_asked() {
        let key = HmacKey::new(b"Jefe");
        for message in
            [&b"what do ya want for nothing?"[..], b"", b"another", b"what do ya want for nothing?"]
        {
            assert_eq!(key.of(message), hmac(b"Jefe", message));
            let (first, rest) = message.split_at(message.len() / 2);
            let beginning = key.begin(first);
            assert_eq!(key.end(&beginning, rest), key.of(message));
            assert_eq!(key.end(&beginning, rest), key.of(message), "it is digested once for all");
        }
        // RFC 4231, test case 2.
        assert_eq!(key.of(b"what do ya want for nothing?")[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }
}
