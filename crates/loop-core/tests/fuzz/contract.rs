//! The contract block: only a block with the nonce decides where the nonce is required. K5, L13, I-11.

use loop_core::spec::{NonceMode, ProtocolSpec};
use loop_core::types::Confidence;
use loop_testkit::fuzz::{FuzzRun, NONCE, document};

/// The bytes are a reply.
pub(crate) fn target(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for mode in [NonceMode::Prefer, NonceMode::Require] {
        let mut spec = document();
        if let ProtocolSpec::Document(document) = &mut spec.protocol {
            document.nonce = mode;
        }
        let mut driven = FuzzRun::start(spec);
        if !driven.replied(&text) {
            continue;
        }
        driven.is_replayed();
        let confidence = driven.run.passes().last().map_or(Confidence::Unknown, |pass| pass.confidence);
        let decides = confidence != Confidence::Unknown || !driven.run.actions().is_empty();
        if decides {
            assert!(text.contains("analysis_confidence"), "a contract without its mark: {confidence:?}");
            // JSON may write a letter as an escape.
            let has_nonce = text.contains(NONCE) || text.contains("\\u");
            assert!(mode != NonceMode::Require || has_nonce, "a contract without the nonce: {confidence:?}");
        }
        for action in driven.run.actions() {
            assert!(serde_json::from_str::<serde_json::Value>(&action.parameters).is_ok(), "{action:?}");
        }
    }
}
