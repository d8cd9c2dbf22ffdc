//! Makes untrusted text fit for an error message: one line of limited length, without secrets.

use loop_core::types::{is_invisible, is_joiner};

use loop_core::secrets::Secrets;

/// One line of at most [`MAX`] characters, in which `secrets` and everything that looks like a key are masked. Invisible
/// characters and those that change the text direction are dropped.
///
/// Only the first [`MAX_READ`] bytes are scanned, in linear time.
pub(crate) fn line(text: &str, secrets: &Secrets) -> String {
    let head = text.get(..text.floor_char_boundary(MAX_READ)).unwrap_or_default();
    let is_cut = head.len() < text.len();
    let visible: String = head.chars().filter(|c| !is_hidden(*c)).collect();
    // Secrets are masked first: after cutting or splitting they would not be recognised.
    let text = secrets.mask_message_by(&visible, MASK, is_cut);
    let mut line = String::new();
    let mut after_bearer = false;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        if after_bearer && word.chars().filter(|c| is_key_char(*c)).count() >= 8 {
            line.push_str(MASK);
        } else {
            push_masked(word, &mut line);
        }
        after_bearer = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
    }
    match line.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Invisible characters, including joiners, which may split a secret.
fn is_hidden(c: char) -> bool {
    is_invisible(c) || is_joiner(c)
}

fn push_masked(word: &str, line: &mut String) {
    // User name and password before a host.
    let word = match word.split_once("://") {
        Some((scheme, rest)) => {
            let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            match rest.get(..host_end).and_then(|host| host.rfind('@')) {
                Some(at) => format!("{scheme}://{MASK}{}", rest.get(at..).unwrap_or_default()),
                None => word.to_owned(),
            }
        }
        None => word.to_owned(),
    };
    let mut run = String::new();
    for c in word.chars() {
        if is_key_char(c) {
            run.push(c);
        } else {
            flush(&mut run, line);
            line.push(c);
        }
    }
    flush(&mut run, line);
}

fn flush(run: &mut String, line: &mut String) {
    line.push_str(if looks_like_a_key(run) { MASK } else { run });
    run.clear();
}

/// Whether a text has the prefix of a known provider's keys.
pub(crate) fn begins_like_a_key(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| text.len() >= prefix.len() + 6 && text.starts_with(prefix))
}

fn looks_like_a_key(run: &str) -> bool {
    let is_marked = begins_like_a_key(run);
    let is_random = run.len() >= 40
        && run.bytes().any(|byte| byte.is_ascii_digit())
        && run.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !run.contains('.');
    is_marked || is_random
}

fn is_key_char(c: char) -> bool {
    // Asterisks, as providers mask the middle of a key and leave its ends.
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '+')
}

const MASK: &str = "***";
/// Prefixes of known providers' keys.
const PREFIXES: [&str; 13] =
    ["sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "AIza", "AKIA", "hf_", "ghp_", "eyJ", "csk-", "key-"];
/// Maximum characters of a line.
const MAX: usize = 500;
/// Maximum bytes of a text that are scanned.
const MAX_READ: usize = 16 << 10;

#[cfg(test)]
mod tests {

    use super::{MAX_READ, line};
    use loop_core::secrets::Secrets;

    fn secrets() -> Secrets {
        Secrets::of(["hunter2!", "pass/word wide"])
    }

    // WE25
    #[test]
    fn keys_are_masked_and_lines_are_short() {
        let check = |text: &str, wanted: &str| assert_eq!(line(text, &secrets()), wanted);
        check("your key hunter2! is wrong", "your key *** is wrong");
        check("Incorrect API key: sk-proj-abc123456. See\n docs", "Incorrect API key: *** See docs");
        check("Incorrect API key: sk-ab***************xyz", "Incorrect API key: ***");
        check("use Bearer abcdefgh12345 please", "use Bearer *** please");
        check("at http://me:pw@host/v1?x", "at http://***@host/v1?x");
        check("pass/word wide, pass\\/word wide, pass%2Fword%20wide", "***, ***, ***");
        check(
            "model gpt-4.1-mini has a limit of 128000 tokens",
            "model gpt-4.1-mini has a limit of 128000 tokens",
        );
        let long = line(&format!("{} hunter2!", "a ".repeat(249)), &secrets());
        assert!(!long.contains("hunt"), "{long}");
        assert_eq!(line(&"b ".repeat(5_000), &Secrets::default()).chars().count(), 501);
    }

    #[test]
    fn what_cannot_be_seen_is_left_out_and_hides_no_secret() {
        let hidden = "a\u{200b}b\u{202e}c\u{2066}d\u{feff}e\u{e0041}f\u{ad}g: hun\u{200d}t\u{fe0f}er2!";
        assert_eq!(line(hidden, &secrets()), "abcdefg: ***");
    }

    #[test]
    fn a_secret_that_is_cut_where_reading_ends_is_left_out() {
        for inside in 1..14 {
            let text = format!("x{}pass/word wide", "\u{200b}".repeat((MAX_READ - inside - 1) / 3));
            let line = line(&text, &secrets());
            assert!(line == "x" || line == "x***", "{inside}: {line}");
        }
    }
}
