//! JSON strings: how they are escaped, many bytes at a time.

use std::borrow::Cow;

use serde_json::Value;

/// How many bytes at the beginning need no escape in a JSON string: all before the first quote, backslash or control character.
#[inline]
pub fn unescaped_run(bytes: &[u8]) -> usize {
    let plain = bytes.as_chunks().0.iter().take_while(|word| !has_special(**word)).count() * 8;
    let rest = bytes.get(plain..).unwrap_or_default();
    plain + rest.iter().position(|byte| matches!(byte, ..0x20 | b'"' | b'\\')).unwrap_or(rest.len())
}

/// Appends a text as a JSON string, without its quotes: the bytes that `serde_json` writes.
pub fn push_json_text(json: &mut Vec<u8>, text: &str) {
    json.reserve(text.len());
    let mut rest = text.as_bytes();
    loop {
        let (run, tail) = rest.split_at(unescaped_run(rest));
        json.extend_from_slice(run);
        let Some((byte, tail)) = tail.split_first() else { return };
        rest = tail;
        let quoted = Value::from(char::from(*byte).to_string()).to_string();
        json.extend_from_slice(quoted.as_bytes().get(1..quoted.len() - 1).unwrap_or_default());
    }
}

/// A member name as a step of a JSON pointer.
pub(crate) fn pointer_step(name: &str) -> Cow<'_, str> {
    match name.contains(['~', '/']) {
        true => name.replace('~', "~0").replace('/', "~1").into(),
        false => name.into(),
    }
}

/// The member name that a step of a JSON pointer means.
pub(crate) fn member_name(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Whether one of these bytes is a quote, a backslash or a control character.
fn has_special(word: [u8; 8]) -> bool {
    let word = u64::from_le_bytes(word);
    // XOR maps a quote to 0x20 and a space to 0x22, so that less than 0x21 is a quote or a control character.
    let low = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let slash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
    (low | slash) & !word & (ONES * 0x80) != 0
}

/// Eight bytes of the value 1.
pub(super) const ONES: u64 = u64::from_le_bytes([1; 8]);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts with many characters to escape.
    fn texts() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            "[a-zé ]{0,20}",
            "[\"\\\\/\\x00-\\x24\\x5b-\\x5d\\x7f]{1,3}",
            "[\\x7e-\\u{a0}\\u{d7ff}\\u{e000}\\u{1f600}]{1,3}",
        ];
        proptest::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
    }

    fn written(text: &str) -> String {
        let mut json = Vec::new();
        push_json_text(&mut json, text);
        format!("\"{}\"", String::from_utf8(json).unwrap())
    }

    #[test]
    fn every_byte_is_written_and_found_at_every_place() {
        for special in (0..=0x7f_u8).map(char::from).chain(['é', '\u{10ffff}']) {
            for place in 0..70 {
                let text = format!("{}{special}{special}x", "é".repeat(place % 2) + &" ".repeat(place));
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
                let run = text.bytes().position(|byte| matches!(byte, ..0x20 | b'"' | b'\\'));
                assert_eq!(unescaped_run(text.as_bytes()), run.unwrap_or(text.len()), "{text:?}");
            }
        }
    }

    proptest! {
        // Compared with `serde_json`.
        #[test]
        fn texts_are_written_as_serde_json_writes_them(text in texts()) {
            prop_assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
        }
    }
}
