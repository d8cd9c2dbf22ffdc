//! Untrusted text, made safe for a prompt: cleaned of invisible characters and fenced with the nonce.

use loop_core::types::{cleaned, is_plain_line};

use crate::anchors::{FENCE, FENCE_CLOSES, FENCE_END};

/// Replaces the nonce in untrusted text.
const HIDDEN_NONCE: &str = "[nonce]";

/// One line of `text`: line breaks become spaces.
pub(crate) fn line(text: &str) -> String {
    match is_plain_line(text) {
        true => text.to_owned(),
        false => cleaned(text).split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// One line of `text` without the run's nonce, for places without a fence.
pub(crate) fn line_without(nonce: &str, text: &str) -> String {
    line(text).replace(nonce, HIDDEN_NONCE)
}

/// The first `max` characters of `text`, with an ellipsis if it was cut.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// `text` fenced with delimiters that carry the run's nonce, so that untrusted text cannot end the fence.
pub(crate) fn fence(label: &str, nonce: &str, text: &str) -> String {
    let inner = cleaned(text).replace(nonce, HIDDEN_NONCE);
    format!(
        "{FENCE}{label} {nonce}{FENCE_CLOSES}\n{}\n{FENCE_END}{label} {nonce}{FENCE_CLOSES}",
        inner.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_characters_are_dropped() {
        assert_eq!(cleaned("a\u{202e}b\u{1b}[31mc\u{e0041}\u{200b}d\r\n\te"), "ab[31mcd\n\te");
        assert_eq!(cleaned("👩\u{200d}🔧 ✉\u{fe0f} ok"), "👩\u{200d}🔧 ✉\u{fe0f} ok");
        assert_eq!(cleaned("a\u{61c}b\u{2028}c\u{fe03}d\u{e0100}e\u{e000}f\u{85}g"), "abcdefg");
        assert_eq!(line(" a\n  b\tc "), "a b c");
    }

    #[test]
    fn a_cut_says_so() {
        assert_eq!(cut("straße", 6), "straße");
        assert_eq!(cut("straßen", 6), "straß…");
        assert_eq!(cut("", 0), "");
    }

    proptest! {
        #[test]
        fn cleaning_leaves_no_control_bidi_or_tag_character(text in any::<String>()) {
            // I-24
            let hidden = |c: &char| c.is_control() && !['\n', '\t'].contains(c)
                || ('\u{202a}'..='\u{202e}').contains(c)
                || ('\u{2066}'..='\u{2069}').contains(c)
                || ('\u{e0000}'..='\u{e007f}').contains(c);
            prop_assert_eq!(cleaned(&text).chars().find(hidden), None);
        }

        #[test]
        fn no_text_closes_its_own_fence(text in "(<<<|>>>|end |E1|n0nce|n0|nce|\u{200b}|[a-z\\n ]){0,12}") {
            // K6: also not when a hidden character inside a mark is dropped.
            let fenced = fence("E1", "n0nce", &text);
            prop_assert_eq!(fenced.matches("<<<end E1 n0nce>>>").count(), 1);
            prop_assert!(fenced.ends_with("<<<end E1 n0nce>>>"));
        }
    }
}
