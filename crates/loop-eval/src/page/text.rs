//! Escapes untrusted text for HTML.

use std::fmt::Write as _;

use loop_core::types::is_clean;

/// The text without markup, with every invisible character spelled out, for example `[U+202E]`.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    escape_into(&mut safe, text);
    safe
}

/// Appends the [`escaped`] form of a text.
pub fn escape_into(safe: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if is_clean(c) => safe.push(c),
            c => {
                let _ = write!(safe, "[U+{:04X}]", u32::from(c));
            }
        }
    }
}

/// The text, cut after `max` characters.
pub fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_invisible_characters_are_spelt() {
        assert_eq!(escaped("<script>'\"&\u{202e}"), "&lt;script&gt;&#39;&quot;&amp;[U+202E]");
        assert_eq!(escaped("a\u{0}\u{7}\u{200b}\u{e0041}b"), "a[U+0000][U+0007][U+200B][U+E0041]b");
        assert_eq!(escaped("Grüße, 日本\n\t"), "Grüße, 日本\n\t");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
