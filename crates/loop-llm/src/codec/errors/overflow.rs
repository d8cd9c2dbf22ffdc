//! Recognises error messages about a request that exceeds the model's context window.

use super::head;

/// Whether a message in lower case reports a request that is too long.
pub(super) fn is_overflow(text: &str) -> bool {
    let similar = |first: &str, second: &[&str], max: usize| {
        text.match_indices(first).any(|(start, _)| {
            let after = text.get(start + first.len()..).unwrap_or_default();
            second.iter().any(|word| {
                let window = head(after, after.ceil_char_boundary(max + word.len()));
                window.find(word).is_some_and(|at| !head(window, at).contains('.'))
            })
        })
    };
    if text.contains("tokens per min") {
        return false;
    }
    STATED.iter().any(|stated| text.contains(stated))
        || (text.contains("input token count") && text.contains("exceeds the maximum"))
        || WINDOWS.iter().any(|window| similar(window, &["exceed"], 40))
        || similar("exceed", &["context"], 40)
        || similar("supports only", &["context"], 40)
        || similar("only supports", &["context"], 40)
        || similar("token count", &["exceeds the limit", "exceeds the maximum"], 40)
        || similar("too many", &["tokens"], 40)
        || similar("reduce the length of", &["tokens", "messages"], 40)
}

/// The tokens of the request, and the limit, from a message in lower case.
pub(super) fn numbers(text: &str) -> (Option<u64>, Option<u64>) {
    let after = |words: &str| {
        let (_, rest) = text.split_once(words)?;
        let start = rest.find(|c: char| c.is_ascii_digit()).filter(|start| *start <= 24)?;
        let digits = rest.get(start..)?;
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(digits.len());
        digits.get(..end)?.replace(',', "").parse().ok()
    };
    let first = |words: &[&str]| words.iter().find_map(|words| after(words));
    let used = first(&[
        "prompt is too long:",
        "exceed context limit:",
        "resulted in",
        "input token count",
        "you requested",
        "request contains",
        "prompt contains",
    ]);
    // The sum of input and output is compared with the last number.
    let limit = text.split_once("exceed context limit:").and_then(|(_, sum)| {
        let (_, max) = sum.split_once('>')?;
        let digits: String = max.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    let max = limit.or_else(|| {
        first(&[
            "tokens >",
            "maximum context length is",
            "maximum context length of",
            "maximum prompt length is",
            "tokens allowed",
            "context length of only",
            "too large for model with",
        ])
    });
    (used, max)
}

/// Phrases that are sufficient by themselves.
const STATED: [&str; 10] = [
    "prompt exceeds max length",
    "range of input length should be",
    "input length exceeds",
    "prompt is too long",
    "input is too long",
    "context is too long",
    "maximum context length",
    "maximum prompt length",
    "context the overflows",
    "context length of only",
];
/// Phrases that need a word for exceeding as well.
const WINDOWS: [&str; 6] =
    ["context length", "context window", "context size", "context_length", "context_window", "context_size"];
