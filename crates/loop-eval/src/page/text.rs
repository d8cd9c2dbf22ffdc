//! Escapes untrusted text for HTML.

use std::fmt::Write as _;

/// The text without markup, with every invisible character spelled out, for example `[U+202E]`.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    escape_into(&mut safe, text);
    safe
}

/// Appends the [`escaped`] form of a text.
pub fn escape_into(safe: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(is_escaped) {
        let (plain, after) = rest.split_at(at);
        safe.push_str(plain);
        let mut chars = after.chars();
        match chars.next() {
            Some('&') => safe.push_str("&amp;"),
            Some('<') => safe.push_str("&lt;"),
            Some('>') => safe.push_str("&gt;"),
            Some('"') => safe.push_str("&quot;"),
            Some('\'') => safe.push_str("&#39;"),
            Some(c) => {
                let _ = write!(safe, "[U+{:04X}]", u32::from(c));
            }
            None => {}
        }
        rest = chars.as_str();
    }
    safe.push_str(rest);
}

fn is_escaped(c: char) -> bool {
    match c {
        '&' | '<' | '>' | '"' | '\'' => true,
        ' '..='~' | '\n' | '\t' => false,
        c => !loop_core::types::is_clean(c),
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
