//! Texts of others, made fit for a message: one line, of some length, without secrets.

/// One line of at most [`MOST`] characters, in which `secret` and whatever looks like a key is masked.
pub(crate) fn line(text: &str, secret: Option<&str>) -> String {
    // The key goes first: what is cut or split could no longer be recognised.
    let text = match secret {
        Some(secret) if !secret.is_empty() => text.replace(secret, MASK),
        _ => text.to_owned(),
    };
    let mut line = String::new();
    let mut after_bearer = false;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        if line.len() > 8 * MOST {
            break;
        }
        if after_bearer && word.chars().filter(|c| is_key_char(*c)).count() >= 8 {
            line.push_str(MASK);
        } else {
            push_masked(word, &mut line);
        }
        after_bearer = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
    }
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

fn push_masked(word: &str, line: &mut String) {
    // A name and password before a host.
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

fn looks_like_a_key(run: &str) -> bool {
    let is_marked = PREFIXES.iter().any(|prefix| run.len() >= prefix.len() + 6 && run.starts_with(prefix));
    let is_random = run.len() >= 40
        && run.bytes().any(|byte| byte.is_ascii_digit())
        && run.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !run.contains('.');
    is_marked || is_random
}

fn is_key_char(c: char) -> bool {
    // Asterisks: providers themselves mask the middle of a key and leave its ends.
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '+')
}

const MASK: &str = "***";
/// How keys of known providers begin.
const PREFIXES: [&str; 13] =
    ["sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "AIza", "AKIA", "hf_", "ghp_", "eyJ", "csk-", "key-"];
/// The most characters of a line.
const MOST: usize = 500;

#[cfg(test)]
mod tests {
    use super::line;

    // WE25
    #[test]
    fn keys_are_masked_and_lines_are_short() {
        let check = |text: &str, wanted: &str| assert_eq!(line(text, Some("hunter2!")), wanted);
        check("your key hunter2! is wrong", "your key *** is wrong");
        check("Incorrect API key: sk-proj-abc123456. See\n docs", "Incorrect API key: *** See docs");
        check("Incorrect API key: sk-ab***************xyz", "Incorrect API key: ***");
        check("use Bearer abcdefgh12345 please", "use Bearer *** please");
        check("at http://me:pw@host/v1?x", "at http://***@host/v1?x");
        check(
            "model gpt-4.1-mini has a limit of 128000 tokens",
            "model gpt-4.1-mini has a limit of 128000 tokens",
        );
        let long = line(&format!("{} hunter2!", "a ".repeat(249)), Some("hunter2!"));
        assert!(!long.contains("hunt"), "{long}");
        assert_eq!(line(&"b ".repeat(5_000), None).chars().count(), 501);
    }
}
