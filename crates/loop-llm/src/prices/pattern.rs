//! Rules on names of models.

use std::sync::Arc;

/// One or more patterns with blanks between them that must all hold for a name in small letters.
///
/// In a pattern `*` is any text, nothing included, and `#` is one digit; with a `!` before it, it must not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Arc<str>);

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.trim().to_lowercase().into())
    }

    pub(super) fn takes(&self, name: &str) -> bool {
        let mut parts = self.0.split_whitespace().peekable();
        parts.peek().is_some()
            && parts.all(|part| match part.strip_prefix('!') {
                Some(part) => !is_match(part.as_bytes(), name.as_bytes()),
                None => is_match(part.as_bytes(), name.as_bytes()),
            })
    }
}

/// Walks both texts once and, after a mismatch, goes back to the last `*` alone: no pattern takes more than
/// pattern × name steps.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(read) {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at, read));
                at += 1;
            }
            Some(b'#') if byte.is_ascii_digit() => (at, read) = (at + 1, read + 1),
            Some(wanted) if wanted == byte && *wanted != b'#' => (at, read) = (at + 1, read + 1),
            _ => match last_star {
                Some((star, taken)) => {
                    last_star = Some((star, taken + 1));
                    (at, read) = (star + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, taken: &[&str], left: &[&str]) {
        let pattern = Pattern::new(pattern);
        for name in taken {
            assert!(pattern.takes(name), "{pattern:?} {name}");
        }
        for name in left {
            assert!(!pattern.takes(name), "{pattern:?} {name}");
        }
    }

    #[test]
    fn patterns_take_what_they_say() {
        check("gpt-4o", &["gpt-4o"], &["gpt-4o-mini", "gpt-4", "xgpt-4o", ""]);
        check("gpt-4o*", &["gpt-4o", "gpt-4o-mini"], &["gpt-4", "my-gpt-4o"]);
        check("*-pro", &["a-pro", "-pro", "a-pro-pro"], &["a-pro-1", "pro"]);
        check("*claude*", &["claude", "x/claude-2"], &["clade"]);
        check("m-########", &["m-20261120"], &["m-2026112", "m-202611200", "m-2026112x", "m-########"]);
        check("a*b*c", &["abc", "axbxbc", "a-c-b-c"], &["acb", "ab", "abcd"]);
        check("GPT-4O*", &["gpt-4o"], &[]);
        check("", &[], &["", "x"]);
    }

    #[test]
    fn several_patterns_must_all_hold_and_a_mark_turns_one_round() {
        check(
            "gemini-2.5-pro* !*-tts !*-tts-*",
            &["gemini-2.5-pro", "gemini-2.5-pro-ttsx"],
            &["gemini-2.5-pro-tts", "gemini-2.5-pro-tts-preview", "gemini-2.5-flash"],
        );
    }
}
