//! Escapes untrusted text of an OpenAPI document for a domain file.

use std::fmt::Write as _;

use loop_core::types::is_clean;
use serde_json::Value;

/// The text on one line, without invisible and control characters, and with at most `max` characters.
pub(crate) fn line(text: &str, max: usize) -> String {
    // Only so much is looked at: a description may have megabytes.
    let start = text.chars().take(max.saturating_mul(4).max(64));
    let visible: String = start.map(|c| if is_clean(c) { c } else { ' ' }).collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max) {
        None => line,
        Some(_) => line.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// A text as TOML writes it, on one line. Every character that TOML or an editor could take for something else is escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for c in text.chars() {
        match c {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\t' => written.push_str("\\t"),
            c if is_clean(c) => written.push(c),
            c => _ = write!(written, "\\U{:08X}", u32::from(c)),
        }
    }
    written.push('"');
    written
}

/// A key as TOML writes it.
pub(crate) fn key(name: &str) -> String {
    let is_bare = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// A plain value as TOML writes it. `None`: TOML has no such value.
pub(crate) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(quoted(text)),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => match (number.as_i64(), number.is_u64()) {
            (Some(whole), _) => Some(whole.to_string()),
            (None, true) => None,
            (None, false) => number.as_f64().filter(|it| it.is_finite()).map(|it| format!("{it:?}")),
        },
        Value::Array(items) => {
            let items = items.iter().map(plain).collect::<Option<Vec<_>>>()?;
            Some(format!("[{}]", items.join(", ")))
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// The text with its braces escaped, so that it contains no placeholder.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_breaks_out_of_its_quotes_or_its_line() {
        // K10
        let hostile = "a\"\"\"\n[tools.x]\u{0}\u{7f}\u{85}\u{2028}\u{202e}\\U0000\t'''#\u{e0041}";
        let text = format!("k = {}\n", quoted(hostile));
        let read: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(read.get("k").and_then(toml::Value::as_str), Some(hostile), "it is read as it was");
        assert!(text.chars().all(is_clean), "{text:?}");
        let table: toml::Table = toml::from_str(&format!("{} = 1", key(hostile))).unwrap();
        assert!(table.contains_key(hostile));
        assert_eq!(line(hostile, 100), "a\"\"\" [tools.x] \\U0000 '''#");
        assert_eq!(line(&"x".repeat(1_000), 5), "xxxx…");
        assert_eq!((key("a-b_1"), key(""), key("a.b")), ("a-b_1".into(), "\"\"".into(), "\"a.b\"".into()));
    }

    #[test]
    fn values_are_written_so_that_toml_reads_them() {
        for value in
            [json!(1), json!(-7), json!(1.5), json!(1e300), json!(1e-7), json!(true), json!(["a", 1])]
        {
            let text = format!("k = {}", plain(&value).unwrap());
            let read: toml::Table = toml::from_str(&text).unwrap();
            assert_eq!(serde_json::to_value(&read["k"]).unwrap(), value, "{text}");
        }
        for value in [json!(null), json!(u64::MAX), json!({}), json!([null])] {
            assert_eq!(plain(&value), None);
        }
    }
}
