//! The signature of a message, as <https://www.standardwebhooks.com> defines it.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use loop_journal::hmac::hmac;

/// The value of `webhook-signature`: `v1,` and the HMAC-SHA-256 over id, time and body, in Base64. A secret of the form
/// `whsec_BASE64` is its decoded bytes, any other is its own bytes.
pub fn signature(secret: &str, id: &str, unix_s: u64, body: &str) -> String {
    let decoded =
        secret.strip_prefix("whsec_").and_then(|key| BASE64.decode(key).ok()).filter(|key| !key.is_empty());
    let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
    let message = format!("{id}.{unix_s}.{body}");
    format!("v1,{}", BASE64.encode(hmac(&key, message.as_bytes())))
}

/// Base64, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

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
        let signed = |secret: &str| signature(secret, "m", 1, body);
        assert_eq!(signed("whsec_YQ=="), signed("a"));
        assert_eq!(signed("whsec_YQ"), signed("a"), "padding may be left out");
        assert_ne!(signed("whsec_"), signed(""), "what is no Base64 is its own bytes");
    }
}
