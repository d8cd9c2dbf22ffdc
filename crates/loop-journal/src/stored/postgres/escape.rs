//! Texts in a database that takes no NUL: it is written as two characters, of which the first is in no text by accident.

use std::borrow::Cow;

/// Begins what is written in place of one character. Unicode has no character here and never will.
const ESCAPE: char = '\u{10ffff}';

/// The text as the database has it.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    // Both bytes are rare: the second begins the last characters of Unicode.
    if !text.bytes().any(|byte| matches!(byte, 0 | 0xf4)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// The text that the database has.
pub(super) fn unescaped(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = rest.next() {
        let meant = match (c, rest.peek()) {
            (ESCAPE, Some('0')) => Some('\0'),
            (ESCAPE, Some('1')) => Some(ESCAPE),
            _ => None,
        };
        if meant.is_some() {
            rest.next();
        }
        plain.push(meant.unwrap_or(c));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_read_as_it_was_written() {
        // H11: what is hashed and sealed is the text, so it must come back as it was.
        for text in
            ["", "plain", "a\0b", "\0", "\u{10ffff}", "\u{10ffff}0", "\0\u{10ffff}1\0\0", "é\u{10ffff}\0"]
        {
            let stored = escaped(text).into_owned();
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(unescaped(stored), text);
        }
        // What an earlier program wrote, which escaped nothing.
        assert_eq!(unescaped("a\u{10ffff}b".to_owned()), "a\u{10ffff}b");
    }
}
