//! HMAC with SHA-256: the seals of a journal, and the signatures of hooks.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A key of any length and the beginning of messages, digested once for all that begin so.
#[derive(Clone)]
pub(crate) struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// The HMAC of the message that ends with `rest`.
    pub(crate) fn of(&self, rest: &[u8]) -> [u8; 32] {
        self.begin(rest).0.finalize().into_bytes().into()
    }

    /// The same key, for messages that begin with `message`.
    pub(crate) fn begin(&self, message: &[u8]) -> Self {
        Self(self.0.clone().chain_update(message))
    }
}

/// The HMAC of one message under a key of any length.
pub fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
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
            assert_eq!(beginning.of(rest), key.of(message));
            assert_eq!(beginning.of(rest), key.of(message), "it is digested once for all");
        }
        // RFC 4231, test case 2.
        assert_eq!(key.of(b"what do ya want for nothing?")[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }
}
