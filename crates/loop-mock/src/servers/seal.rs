//! Seals: opaque parts of a turn, by which the server recognises whether the client returns a turn unchanged.
//!
//! A seal contains a digest of the text that it belongs to, and a digest of itself. So the server can check without any
//! memory whether it made the seal, and whether the text is unchanged. A seal keeps nothing secret.

/// The result of checking a returned seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    /// The server made it for this text.
    Whole,
    /// The server made it for another text.
    Moved,
    /// The server did not make it, or it was changed.
    Broken,
}

/// A seal for `text`, for one purpose.
pub(super) fn seal(purpose: &str, text: &str) -> String {
    let digest = digest(purpose, text);
    close(purpose, &digest)
}

/// Checks a seal against this text.
pub(super) fn check(purpose: &str, sealed: &str, text: &str) -> Seal {
    if sealed == seal(purpose, text) {
        return Seal::Whole;
    }
    let inner = sealed.strip_prefix(BEGIN).and_then(|rest| rest.get(..16)).unwrap_or_default();
    if sealed == close(purpose, inner) { Seal::Moved } else { Seal::Broken }
}

fn close(purpose: &str, inner: &str) -> String {
    format!("{BEGIN}{inner}{}Ab8=", digest(purpose, inner))
}

/// FNV-1a of 64 bits over both, in 16 hexadecimal digits.
fn digest(purpose: &str, text: &str) -> String {
    let bytes = purpose.bytes().chain([0]).chain(text.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

const BEGIN: &str = "LoopSeal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_shows_what_became_of_it() {
        let sealed = seal("thinking", "a");
        assert_eq!(check("thinking", &sealed, "a"), Seal::Whole);
        assert_eq!(check("thinking", &sealed, "b"), Seal::Moved);
        assert_eq!(check("other", &sealed, "a"), Seal::Broken);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
            let changed = String::from_utf8_lossy(&changed);
            assert_eq!(check("thinking", &changed, "a"), Seal::Broken, "{changed}");
        }
        assert_eq!(check("thinking", "", "a"), Seal::Broken);
        assert_eq!(check("thinking", &sealed[..20], "a"), Seal::Broken);
    }
}
