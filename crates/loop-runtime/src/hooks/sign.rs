//! The signature of a message, as <https://www.standardwebhooks.com> defines it.

use crate::hmac::hmac;

/// The value of `webhook-signature`: `v1,` and the HMAC-SHA-256 over id, time and body, in Base64. A secret of the form
/// `whsec_BASE64` is its decoded bytes, any other is its own bytes.
pub fn signature(secret: &str, id: &str, unix_s: u64, body: &str) -> String {
    let decoded = secret.strip_prefix("whsec_").and_then(decoded);
    let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
    let message = format!("{id}.{unix_s}.{body}");
    format!("v1,{}", encoded(&hmac(&key, message.as_bytes())))
}

fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for nth in 0..4 {
            let letter = usize::try_from(bits >> (18 - 6 * nth) & 63).ok().and_then(|at| ALPHABET.get(at));
            text.push(if nth <= chunk.len() {
                letter.map_or('=', |letter| char::from(*letter))
            } else {
                '='
            });
        }
    }
    text
}

/// The bytes of a Base64 text. `None`: it is not one.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0_u32, Vec::new());
    for letter in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).ok()?);
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The example of the specification's reference libraries.
        let body = "{\"test\": 2432232314}";
        let made = signature(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            body,
        );
        assert_eq!(made, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        for text in ["", "a", "ab", "abc", "abcd"] {
            let back = decoded(&encoded(text.as_bytes()));
            assert_eq!(back.unwrap_or_default(), text.as_bytes(), "{text}");
        }
        assert_eq!(decoded("a b"), None);
    }
}
