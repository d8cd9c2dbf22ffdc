//! Text that comes from outside, made safe and short enough for a prompt, a screen and a log.

use std::borrow::Cow;

use loop_core::types::{is_clean, is_clean_text, is_plain_line};

pub use crate::apart::apart;

/// The most characters of a one-line text: a summary, a name, a candidate.
pub(crate) const LINE_CHARS: usize = 500;

/// How far a terminal command that carries text is followed before it counts as broken.
const ESCAPE_BYTES: usize = 1_024;

/// `text` without control characters (`\n` and `\t` stay), terminal commands, bidirectional marks and invisible
/// characters, and how many characters were dropped.
///
/// A lone carriage return becomes a line break, so that the words around it stay apart.
pub fn clean(text: &str) -> (Cow<'_, str>, usize) {
    if is_clean_text(text) {
        return (Cow::Borrowed(text), 0);
    }
    let mut out = String::with_capacity(text.len());
    let mut dropped = 0;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.as_str().starts_with('\n') => {}
            '\r' => out.push('\n'),
            '\u{1b}' => {
                let command = escape_length(rest.as_str());
                dropped += 1;
                for _ in 0..command {
                    rest.next();
                    dropped += 1;
                }
            }
            // The same as an escape and `[`, in one character.
            '\u{9b}' => {
                let command = control_length(rest.as_str().as_bytes());
                dropped += 1 + command;
                for _ in 0..command {
                    rest.next();
                }
            }
            c if is_unsafe(c) => dropped += 1,
            c => out.push(c),
        }
    }
    (Cow::Owned(out), dropped)
}

/// Whether nothing can be read of `text` once it is cleaned.
pub(crate) fn is_blank(text: &str) -> bool {
    // The first character belongs to no terminal command, so a safe one stays.
    let first = text.trim_start().chars().next();
    first.is_none_or(|first| is_unsafe(first) && clean(text).0.trim().is_empty())
}

/// `text` cleaned, on one line, and cut to [`LINE_CHARS`].
pub(crate) fn one_line(text: &str) -> String {
    if is_one_line(text) { text.to_owned() } else { made_one_line(text) }
}

/// The same of a text that is at hand, without a copy where it is such a line.
pub(crate) fn in_one_line(text: String) -> String {
    if is_one_line(&text) { text } else { made_one_line(&text) }
}

/// Whether a text is such a line already, as most are.
fn is_one_line(text: &str) -> bool {
    text.len() <= LINE_CHARS && is_plain_line(text)
}

fn made_one_line(text: &str) -> String {
    let (cleaned, _) = clean(text);
    let mut line = String::with_capacity(cleaned.len());
    for word in cleaned.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.len() <= LINE_CHARS {
        return line;
    }
    match line.char_indices().nth(LINE_CHARS) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// `text` cut to `cap` characters with a mark that says so, or `None` where it fits.
pub(crate) fn cut(text: &str, cap: usize) -> Option<String> {
    if text.len() <= cap {
        return None;
    }
    let (end, _) = text.char_indices().nth(cap)?;
    let all = text.chars().count();
    Some(format!("{}… [cut: {cap} of {all} characters]", text.get(..end).unwrap_or_default()))
}

/// Whether a character can steer a terminal or a reader without being seen.
fn is_unsafe(c: char) -> bool {
    !is_clean(c)
}

/// How many bytes, which are characters, belong to the command that `ESC [` begins: its parameters and its last letter. 0:
/// it has no end, and is not a command.
fn control_length(bytes: &[u8]) -> usize {
    let parameters = bytes.iter().take_while(|byte| (0x20..=0x3f).contains(*byte)).count();
    match bytes.get(parameters) {
        Some(0x40..=0x7e) => parameters + 1,
        _ => 0,
    }
}

/// How many characters after an escape character belong to its command.
fn escape_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    match bytes.first() {
        Some(b'[') => match control_length(bytes.get(1..).unwrap_or_default()) {
            0 => 0,
            length => length + 1,
        },
        // A command that carries text (a title, a link) up to its terminator. Without one it is no command, and
        // dropping what follows would let a tool hide text behind it.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let window = rest.char_indices().take_while(|(at, _)| *at < ESCAPE_BYTES);
            for (n, (at, c)) in window.enumerate() {
                match c {
                    '\u{7}' | '\u{9c}' => return n + 1,
                    '\u{1b}' if rest.get(at + 1..).is_some_and(|tail| tail.starts_with('\\')) => {
                        return n + 2;
                    }
                    // Another command begins, so no text is looked at twice.
                    '\n' | '\u{1b}' => return 1,
                    _ => {}
                }
            }
            1
        }
        // Two characters, with intermediates between them.
        Some(0x20..=0x2f) => {
            let intermediates = bytes.iter().take_while(|byte| (0x20..=0x2f).contains(*byte)).count();
            match bytes.get(intermediates) {
                Some(0x30..=0x7e) => intermediates + 1,
                _ => 0,
            }
        }
        Some(0x30..=0x7e) => 1,
        _ => 0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(raw: &str, expected: &str) {
        assert_eq!(clean(raw).0, expected, "{raw:?}");
    }

    #[test]
    fn what_steers_a_terminal_or_hides_from_a_reader_is_dropped() {
        // I-24, T6
        check("plain, ünïcode, 日本語, 👍\n\tx", "plain, ünïcode, 日本語, 👍\n\tx");
        check("a\0b\u{8}c\u{7f}d\u{85}e", "abcde");
        check("\u{1b}[31mred\u{1b}[0m \u{1b}[2Jx \u{1b}[?25lh", "red x h");
        check("\u{9b}2Jgone \u{9b}", "gone ");
        check("\u{1b}]0;title\u{7}text", "text");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        // A command within a command ends it, so that a text of nothing else is read once.
        check("\u{1b}]0;seen\u{1b}[31m too\u{7}", "0;seen too");
        check("\u{1b}(Btext\u{1b}Mx \u{1b}7saved \u{1b}", "textx saved ");
        check("\u{202e}evil\u{202c} \u{2066}iso\u{2069}", "evil iso");
        check("zero\u{200b}width\u{feff}\u{2060}", "zerowidth");
        check("tags\u{e0041}\u{e007f}\u{e0101}", "tags");
        check("one\r\ntwo\rthree", "one\ntwo\nthree");
    }

    #[test]
    fn a_broken_terminal_command_hides_no_text() {
        check("\u{1b}]0;never ended\nnext line", "0;never ended\nnext line");
        check("\u{1b}[31", "[31");
        check("\u{1b}", "");
        check("\u{1b}é", "é");
        check("\u{1b}[3é", "[3é");
    }

    #[test]
    fn dropped_characters_are_counted() {
        // T6: the number of dropped characters is shown to a person.
        assert_eq!(clean("ab").1, 0);
        assert_eq!(clean("a\u{200b}b\u{202e}").1, 2);
        assert_eq!(clean("\u{1b}[31mx").1, 5);
        assert_eq!(clean("a\r\nb").1, 0);
    }

    #[test]
    fn a_text_is_cut_by_characters_and_says_so() {
        // S0-123, S0-d13: never inside a character of several bytes.
        assert_eq!(cut("äöü", 3), None);
        assert_eq!(cut("äöü€", 3).unwrap(), "äöü… [cut: 3 of 4 characters]");
        assert_eq!(cut("👍👍", 1).unwrap(), "👍… [cut: 1 of 2 characters]");
        assert_eq!(cut("ab", 0).unwrap(), "… [cut: 0 of 2 characters]");
        assert_eq!(cut("", 0), None);
    }

    #[test]
    fn a_line_is_one_line_and_bounded() {
        assert_eq!(one_line(" a\n b\t\u{200b}c "), "a b c");
        for spaced in ["a b", " a b", "a b ", "a  b", "a\tb", "a\u{7f} b", "\u{a0}a b"] {
            assert_eq!(one_line(spaced), "a b", "{spaced:?}");
        }
        assert_eq!(one_line(""), "");
        let long = one_line(&"é".repeat(LINE_CHARS + 1));
        assert_eq!(long.chars().count(), LINE_CHARS + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_text_is_blank_if_nothing_of_it_can_be_read() {
        for blank in ["", " \r\n\t", "\u{200b} \u{202e}", "\u{1b}[31m\u{1b}[0m", " \u{1b}]0;title\u{7}\n"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for reported in ["x", " \n é", "\u{200b}x", "\u{1b}[31mx"] {
            assert!(!is_blank(reported), "{reported:?}");
        }
    }

    proptest! {
        #[test]
        fn a_blank_text_is_blank_when_cleaned(text in "([a-z ]{0,70}|[\\x00-\\x7f]|\\PC|\u{200b}|\u{85}){0,8}") {
            prop_assert_eq!(is_blank(&text), clean(&text).0.trim().is_empty());
        }

        #[test]
        fn cleaning_leaves_nothing_unsafe_and_is_done_once(text in "[a\u{1b}\\[\\]0-9;m\u{7}\\\\\r\n\t\u{202e}\u{200b}é\u{9b}\u{e0041}👍]{0,60}") {
            let (once, _) = clean(&text);
            prop_assert!(!once.chars().any(is_unsafe));
            prop_assert_eq!(clean(&once), (Cow::Borrowed(&*once), 0));
        }

        #[test]
        fn a_cut_keeps_exactly_the_cap(text in "\\PC{0,40}", cap in 0_usize..50) {
            let count = text.chars().count();
            match cut(&text, cap) {
                None => prop_assert!(count <= cap),
                Some(short) => {
                    let kept: String = text.chars().take(cap).collect();
                    prop_assert!(count > cap);
                    prop_assert_eq!(short, format!("{kept}… [cut: {cap} of {count} characters]"));
                }
            }
        }
    }
}
