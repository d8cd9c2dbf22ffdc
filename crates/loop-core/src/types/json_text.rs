//! JSON strings: how they are escaped, many bytes at a time.

use std::borrow::Cow;

/// How many bytes at the beginning need no escape in a JSON string: all before the first quote, backslash or control character.
#[inline]
pub fn unescaped_run(bytes: &[u8]) -> usize {
    let mut before = 0;
    for pair in bytes.as_chunks::<16>().0 {
        if let [one, two] = pair.as_chunks().0 {
            let (one, two) = (special(*one), special(*two));
            if one | two != 0 {
                return before + if one == 0 { 8 + first(two) } else { first(one) };
            }
        }
        before += pair.len();
    }
    let rest = bytes.get(before..).unwrap_or_default();
    let head = rest.first_chunk().map_or(0, |word| special(*word));
    if head != 0 {
        return before + first(head);
    }
    // The last eight bytes may overlap those that were checked.
    match bytes.last_chunk().map(|word| special(*word)) {
        Some(0) => bytes.len(),
        Some(found) => bytes.len() - 8 + first(found),
        None => {
            let is_special = |byte: &u8| matches!(byte, ..0x20 | b'"' | b'\\');
            before + rest.iter().position(is_special).unwrap_or(rest.len())
        }
    }
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
        let short = match byte {
            b'"' | b'\\' => *byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            _ => {
                let low = if byte & 15 < 10 { b'0' + (byte & 15) } else { b'a' + (byte & 15) - 10 };
                json.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), low]);
                continue;
            }
        };
        json.extend_from_slice(&[b'\\', short]);
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

/// Sets the high bit of the first special byte. Higher bits are not reliable.
fn special(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    // XOR maps a quote to 0x20 and a space to 0x22, so that less than 0x21 is a quote or a control character.
    let low = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let slash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
    (low | slash) & !word & (ONES * 0x80)
}

/// The index of that byte.
fn first(found: u64) -> usize {
    found.trailing_zeros() as usize / 8
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
