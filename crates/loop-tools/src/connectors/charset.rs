//! Which charset bytes are in, and their text.
//!
//! What counts, in this order: a mark at the beginning, the charset that a header names, a declaration in the text itself
//! (`<meta charset>`, `<?xml encoding?>`), UTF-8. What is none of these is an error: a guess would garble without a word.

use std::borrow::Cow;

use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

/// Within how many bytes a text declares its charset.
pub(crate) const DECLARED_WITHIN: usize = 1024;
/// What is said where a text is shown all the same.
pub(crate) const REPLACED: &str = "bytes that are not UTF-8 were replaced";
/// The most characters of a name that a message repeats.
const NAME_CHARS: usize = 40;

/// How a text is encoded: with what, behind a mark of how many bytes, and how that is known.
type DetectedCharset = (&'static Encoding, usize, &'static str);

/// The text of `bytes`, without a mark. `named`: the charset that came with them.
///
/// # Errors
/// What they are not, for behind "it is ".
pub(crate) fn text<'a>(bytes: &'a [u8], named: Option<&str>) -> Result<Cow<'a, str>, String> {
    let (encoding, mark, why) = seen(bytes, named)?;
    decoded(encoding, bytes.get(mark..).unwrap_or_default(), why)
}

/// The text of `bytes` for one who has to read it: what cannot be read is replaced, and then it is said what
/// they are, for behind "it is ". `is_cut`: the end may be a part of a character.
pub(crate) fn shown(bytes: &[u8], is_cut: bool) -> (Cow<'_, str>, Option<String>) {
    let part = |less| text(bytes.get(..bytes.len().saturating_sub(less)).unwrap_or_default(), None);
    let why = match part(0) {
        Ok(text) => return (text, None),
        Err(why) => why,
    };
    match (1..4).filter(|_| is_cut).find_map(|less| part(less).ok()) {
        Some(text) => (text, None),
        None => (String::from_utf8_lossy(bytes), Some(why)),
    }
}

/// How a text that begins with `bytes` is encoded.
///
/// # Errors
/// What it is, for behind "it is ": in a charset that is not read.
pub(crate) fn seen(bytes: &[u8], named: Option<&str>) -> Result<DetectedCharset, String> {
    // The mark of UTF-32 begins with that of UTF-16.
    if bytes.starts_with(b"\xff\xfe\0\0") || bytes.starts_with(b"\0\0\xfe\xff") {
        return Err("in UTF-32, which is not read".to_owned());
    }
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return Ok((encoding, mark, "as its mark says"));
    }
    if let Some(name) = named {
        return Ok((of_name(name, bytes)?, 0, "as it says"));
    }
    Ok(match declared(bytes) {
        Some(name) => (of_name(&name, bytes)?, 0, "as it declares"),
        None => match wide(bytes) {
            Some(encoding) => (encoding, 0, "as it seems to be"),
            None => (UTF_8, 0, "and names no charset"),
        },
    })
}

fn of_name(name: &str, bytes: &[u8]) -> Result<&'static Encoding, String> {
    let shown: String = name.chars().filter(char::is_ascii_graphic).take(NAME_CHARS).collect();
    match Encoding::for_label(name.as_bytes()) {
        // Its order of bytes is in the mark, or is seen.
        Some(encoding) if encoding == UTF_16LE => Ok(wide(bytes).unwrap_or(encoding)),
        Some(encoding) if encoding == REPLACEMENT => {
            Err(format!("in the charset `{shown}`, which is not read"))
        }
        Some(encoding) => Ok(encoding),
        // An unknown name does not matter if the bytes are valid UTF-8. Charsets of seven bits would pass that test too.
        None if std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
            && !bytes.contains(&0)
            && !bytes.contains(&0x1b)
            && !shown.to_ascii_lowercase().starts_with("utf-7") =>
        {
            Ok(UTF_8)
        }
        None => Err(format!("in the charset `{shown}`, which is not known")),
    }
}

fn decoded<'a>(encoding: &'static Encoding, bytes: &'a [u8], why: &str) -> Result<Cow<'a, str>, String> {
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes);
    text.ok_or_else(|| format!("not {}, {why}", encoding.name()))
}

/// UTF-16 without a mark: the first two characters are ASCII.
fn wide(bytes: &[u8]) -> Option<&'static Encoding> {
    let (first, second) = match bytes {
        [a, b] => ((*a, *b), (*a, *b)),
        [a, b, c, d, ..] => ((*a, *b), (*c, *d)),
        _ => return None,
    };
    match (first, second) {
        ((1.., 0), (1.., 0)) => Some(UTF_16LE),
        ((0, 1..), (0, 1..)) => Some(UTF_16BE),
        _ => None,
    }
}

/// The charset that a page or a document declares in its own text.
fn declared(bytes: &[u8]) -> Option<String> {
    let head = bytes.get(..DECLARED_WITHIN).unwrap_or(bytes).to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let start = head.trim_start();
    let name = if let Some(xml) = start.strip_prefix("<?xml") {
        value(xml.split("?>").next()?, "encoding")
    } else if start.starts_with('<') {
        head.split("<meta").skip(1).find_map(|meta| value(meta.split('>').next()?, "charset"))
    } else {
        None
    };
    // What can be read as ASCII is in none of two bytes.
    name.map(|name| if name.starts_with("utf-16") { "utf-8".to_owned() } else { name })
}

/// The value of `key=` in a tag: `charset="x"`, also within `content="text/html; charset=x"`.
fn value(tag: &str, key: &str) -> Option<String> {
    let after = tag.split(key).skip(1).find_map(|rest| rest.trim_start().strip_prefix('='))?;
    let after = after.trim_start().trim_start_matches(['"', '\'']);
    let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '/' | '?'));
    Some(after.get(..end.unwrap_or(after.len()))?.to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    // Issue 43, K3
    #[test]
    fn what_cannot_be_read_is_replaced_and_said_and_a_cut_is_no_fault() {
        let latin = "not UTF-8, and names no charset";
        for (bytes, is_cut, expected, notice) in [
            (&b"Zo\xeb in"[..], false, "Zo\u{fffd} in", Some(latin)),
            (b"Zo\xeb in", true, "Zo\u{fffd} in", Some(latin)),
            (b"\xc3\xa9\xc3", true, "é", None),
            (b"\xc3\xa9\xc3", false, "é\u{fffd}", Some(latin)),
            (b"\xff\xfeZ\0\xeb", true, "Z", None),
            (b"\xff\xfeZ\0\x3d\xd8\x00", true, "Z", None),
            (b"\xff\xfeZ\0\xeb\0", false, "Zë", None),
            (b"", true, "", None),
        ] {
            let (text, said) = shown(bytes, is_cut);
            assert_eq!((&*text, said.as_deref()), (expected, notice), "{bytes:?}");
        }
    }

    #[track_caller]
    fn check(bytes: &[u8], named: Option<&str>, expected: &str) {
        assert_eq!(text(bytes, named).unwrap_or_else(Cow::Owned), expected, "{named:?}");
    }

    fn wide_of(text: &str, big: bool) -> Vec<u8> {
        let of = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        text.encode_utf16().flat_map(of).collect()
    }

    // Issue 43, K3
    #[test]
    fn a_text_is_read_by_its_mark_its_header_or_its_declaration_and_else_refused() {
        let latin = b"Zo\xeb in \xc5rhus";
        let (word, marked) = ("Zoë in Århus", "\u{feff}Zoë in Århus");
        check(word.as_bytes(), None, word);
        check(word.as_bytes(), Some("UTF8"), word);
        check(marked.as_bytes(), None, word);
        for label in ["iso-8859-1", "ISO-8859-15", "windows-1252", "latin1", "l1"] {
            check(latin, Some(label), word);
        }
        for (name, big) in [("utf-16", false), ("utf-16", true), ("utf-16le", false), ("UTF-16BE", true)] {
            check(&wide_of(word, big), Some(name), word);
            check(&wide_of(marked, big), Some(name), word);
        }
        for big in [false, true] {
            check(&wide_of(word, big), None, word);
            check(&wide_of(marked, big), None, word);
            check(&wide_of("{}", big), None, "{}");
            // The mark counts before the header.
            check(&wide_of(marked, big), Some("iso-8859-1"), word);
        }
        check(b"\xc4\xe3\xba\xc3", Some("gbk"), "你好");
        check(b"\x93\xfa\x96{", Some("shift_jis"), "日本");
        check(b"\x80 5", Some("windows-1252"), "€ 5");
        let meta = |tag: &str| [b"<!doctype html><html><head>", tag.as_bytes(), b"</head>Zo\xeb"].concat();
        for tag in [
            "<meta charset=iso-8859-1>",
            "<META CHARSET = \"windows-1252\" />",
            "<meta http-equiv='Content-Type' content='text/html; charset=latin1'>",
        ] {
            let page = meta(tag);
            assert!(text(&page, None).unwrap().ends_with("Zoë"), "{tag}");
            // The header counts before the page.
            assert!(text(&page, Some("iso-8859-7")).unwrap().ends_with("Zoλ"), "{tag}");
        }
        assert!(text(b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xeb</a>", None).unwrap().contains('ë'));
        check("<meta charset=utf-16>ë".as_bytes(), None, "<meta charset=utf-16>ë");
        check(latin, None, "not UTF-8, and names no charset");
        check(latin, Some("utf-8"), "not UTF-8, as it says");
        check(&meta("<meta charset=utf-8>"), None, "not UTF-8, as it declares");
        check(b"\xff\xfe\0\0a\0\0\0", None, "in UTF-32, which is not read");
        check(b"abc", Some("utf-7"), "in the charset `utf-7`, which is not known");
        check(b"abc", Some("iso-2022-kr"), "in the charset `iso-2022-kr`, which is not read");
        check(latin, Some("cp437\n"), "in the charset `cp437`, which is not known");
        check(b"abc", Some("cp437"), "abc");
        check(b"\x81", Some("shift_jis"), "not Shift_JIS, as it says");
        check(b"\xff\xfea", None, "not UTF-16LE, as its mark says");
        check(b"", Some("utf-16"), "");
    }
}
