//! Splits Rust source into code, comments, strings and tests.
//!
//! It is not a parser, but enough of a lexer that braces in strings and attributes in comments do not confuse it.

use std::ops::Range;

/// The text with blanks in place of comments and of the content of strings. Byte positions stay the same.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let end = match at(i) {
            b'/' if at(i + 1) == b'/' => line_end(bytes, i),
            b'/' if at(i + 1) == b'*' => block_comment_end(bytes, i),
            b'"' => string_end(bytes, i),
            b'r' if !is_word(out.last().copied()) || is_prefix(&out) => raw_string_end(bytes, i).unwrap_or(i),
            b'\'' => char_end(bytes, i).unwrap_or(i),
            _ => i,
        };
        if end == i {
            out.push(at(i));
            i += 1;
        } else {
            out.extend((i..end).map(|k| if at(k) == b'\n' { b'\n' } else { b' ' }));
            i = end;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The parts of a file that are tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TestParts {
    /// The bytes that only a test build sees.
    pub(crate) ranges: Vec<Range<usize>>,
    /// The test modules that are in files of their own.
    pub(crate) modules: Vec<String>,
}

/// The parts of a file under `#[cfg(test)]`, from its [`code_only`] text.
pub(crate) fn test_parts(code: &str) -> TestParts {
    let mut parts = TestParts::default();
    if let Some(start) = code.find("#![cfg(")
        && is_test(attribute(code, start))
    {
        parts.ranges.push(0..code.len());
        return parts;
    }
    let mut from = 0;
    while let Some(found) = code.get(from..).and_then(|rest| rest.find("#[cfg(")) {
        let start = from + found;
        let attribute = attribute(code, start);
        let attribute_end = start + attribute.len();
        from = attribute_end;
        if !is_test(attribute) {
            continue;
        }
        let end = item_end(code, attribute_end);
        let item = code.get(attribute_end..end).unwrap_or_default();
        parts.modules.extend(module_in_a_file(item));
        parts.ranges.push(start..end);
        from = end;
    }
    parts
}

/// The number of the line, from 1, that contains a byte.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|it| *it == b'\n').count() + 1
}

fn line_end(bytes: &[u8], start: usize) -> usize {
    bytes.iter().skip(start).position(|it| *it == b'\n').map_or(bytes.len(), |n| start + n)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut i) = (0_usize, start);
    while i < bytes.len() {
        match (bytes.get(i), bytes.get(i + 1)) {
            (Some(b'/'), Some(b'*')) => (depth, i) = (depth + 1, i + 2),
            (Some(b'*'), Some(b'/')) if depth == 1 => return i + 2,
            (Some(b'*'), Some(b'/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut i = start + 1;
    while let Some(byte) = bytes.get(i) {
        match byte {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// The end of `r"…"` or `r#"…"#`, or `None` if none starts here.
fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes.iter().skip(start + 1).take_while(|it| **it == b'#').count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut i = open + 1;
    while i < bytes.len() {
        let closes = bytes.get(i) == Some(&b'"')
            && bytes.iter().skip(i + 1).take(hashes).filter(|it| **it == b'#').count() == hashes;
        if closes {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(bytes.len())
}

/// The end of a character literal, or `None` for a lifetime.
fn char_end(bytes: &[u8], start: usize) -> Option<usize> {
    let length = match bytes.get(start + 1)? {
        b'\\' => {
            // The escaped byte may itself be a quote.
            let rest = bytes.iter().skip(start + 3).position(|it| *it == b'\'')?;
            return Some(start + 3 + rest + 1);
        }
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (bytes.get(start + 1 + length) == Some(&b'\'')).then_some(start + length + 2)
}

fn is_word(byte: Option<u8>) -> bool {
    byte.is_some_and(|it| it.is_ascii_alphanumeric() || it == b'_')
}

/// Whether the code so far ends with the `b` or `c` of `br"…"` or `cr"…"`.
fn is_prefix(out: &[u8]) -> bool {
    matches!(out, [.., before, b'b' | b'c'] if !is_word(Some(*before))) || matches!(out, [b'b' | b'c'])
}

fn attribute(code: &str, start: usize) -> &str {
    let end = matching(code, start).unwrap_or(code.len());
    code.get(start..end).unwrap_or_default()
}

/// The end of the first bracketed part from `start` on.
fn matching(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (i, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 1 => return Some(i + 1),
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The end of the item after an attribute: its `;`, its closing brace, or that of the enclosing item.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_i32;
    for (i, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'{' if depth == 0 => return matching(code, i).unwrap_or(code.len()),
            b';' if depth == 0 => return i + 1,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return i,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn is_test(condition: &str) -> bool {
    let words: Vec<&str> = condition.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.contains(&"test") && !condition.contains("not(test")
}

/// The name in `mod name;`, after attributes and visibility.
fn module_in_a_file(item: &str) -> Option<String> {
    let words: Vec<&str> = item.trim_end_matches(';').split_whitespace().collect();
    match words.as_slice() {
        [.., "mod", name] if item.ends_with(';') => Some((*name).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str) {
        assert_eq!(code_only(text), code);
    }

    #[test]
    fn comments_and_strings_become_blanks() {
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"f("x\"}", 1)"#, "f(      , 1)");
        check("r#\"}\"#;", "      ;");
        check("br\"}\";for \"x\"", "b    ;for    ");
        check(r"('}', '\'', '\u{7d}', 'é')", "(   ,     ,         ,     )");
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
    }

    #[track_caller]
    fn check_parts(text: &str, ranges: &[&str], modules: &[&str]) {
        let parts = test_parts(&code_only(text));
        let found: Vec<&str> = parts.ranges.iter().map(|range| &text[range.clone()]).collect();
        assert_eq!(found, ranges);
        assert_eq!(parts.modules, modules);
    }

    #[test]
    fn test_parts_end_with_their_item() {
        check_parts(
            "fn a() {}\n#[cfg(test)]\nmod tests { \"}\" }\nfn b() {}",
            &["#[cfg(test)]\nmod tests { \"}\" }"],
            &[],
        );
        check_parts("#[cfg(test)]\nuse a::{b, c};\nfn d() {}", &["#[cfg(test)]\nuse a::{b, c}"], &[]);
        check_parts(
            "#[cfg(test)]\nfn a(x: [u8; 2]) { x } fn b() {}",
            &["#[cfg(test)]\nfn a(x: [u8; 2]) { x }"],
            &[],
        );
        check_parts(
            "#[cfg(all(test, unix))] const A: u8 = 1;",
            &["#[cfg(all(test, unix))] const A: u8 = 1;"],
            &[],
        );
    }

    #[test]
    fn a_test_module_in_its_own_file_is_named() {
        check_parts(
            "#[cfg(test)]\n#[allow(dead_code)]\npub(crate) mod walk;\nmod other;",
            &["#[cfg(test)]\n#[allow(dead_code)]\npub(crate) mod walk;"],
            &["walk"],
        );
    }

    #[test]
    fn what_only_looks_like_a_test_part_is_none() {
        check_parts("// #[cfg(test)]\nfn a() {}", &[], &[]);
        check_parts("const A: &str = \"#[cfg(test)] mod a;\";", &[], &[]);
        check_parts("#[cfg(not(test))]\nfn a() {}", &[], &[]);
        check_parts("#[cfg(feature = \"test\")]\nfn a() {}", &[], &[]);
    }

    #[test]
    fn an_inner_attribute_makes_the_whole_file_a_test() {
        check_parts("#![cfg(test)]\nfn a() {}", &["#![cfg(test)]\nfn a() {}"], &[]);
    }
}
