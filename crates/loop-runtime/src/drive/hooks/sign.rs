//! The signature of a message, as <https://www.standardwebhooks.com> defines it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loop_journal::hmac::hmac;

/// The key that messages are signed with.
#[derive(Clone)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// The key in a secret of the form `whsec_BASE64`. `None`: it is another text, of which the libraries of receivers make
    /// another key or none.
    pub fn new(secret: &str) -> Option<Self> {
        let key = secret.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok())?;
        Some(Self(key)).filter(|key| !key.0.is_empty())
    }

    /// The value of `webhook-signature`: `v1,` and the HMAC-SHA-256 over id, time and body, in Base64.
    pub fn signature(&self, id: &str, unix_s: u64, body: &str) -> String {
        let message = format!("{id}.{unix_s}.{body}");
        format!("v1,{}", STANDARD.encode(hmac(&self.0, message.as_bytes())))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The example of the specification's reference libraries.
        let key = SigningKey::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let made = key.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(made, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    // Issue 43, K7
    #[test]
    fn the_official_library_verifies_what_is_signed_and_its_key_is_the_only_kind() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        for secret in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_YQ==", "whsec_+/+/"] {
            let made = SigningKey::new(secret).unwrap().signature("msg_1", now, "{\"a\":\"ü\"}");
            let headers = [("webhook-id", "msg_1".to_owned()), ("webhook-timestamp", now.to_string())];
            let headers = headers.into_iter().chain([("webhook-signature", made)]);
            let headers =
                headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            let receiver = standardwebhooks::Webhook::new(secret).unwrap();
            receiver.verify("{\"a\":\"ü\"}".as_bytes(), &headers).unwrap();
            assert!(receiver.verify(b"{}", &headers).is_err());
        }
        // Libraries take some of these for Base64, and of the others they take none.
        for secret in [
            "",
            "whsec_",
            "whsec_YQ",
            "whsec_a b=",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "correct horse",
            "WHSEC_YQ==",
        ] {
            assert!(SigningKey::new(secret).is_none(), "{secret}");
        }
    }
}
