//! HMAC with SHA-256 (RFC 2104): the seals of a journal, and the signatures of hooks.

use sha2::{Digest as _, Sha256};

/// Bytes that SHA-256 takes at a time.
const BLOCK: usize = 64;

/// The HMAC of a message under a key of any length.
pub(crate) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
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
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
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
}
