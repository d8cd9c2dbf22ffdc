//! Parses forms, with and without files, and cookies.

use axum::http::{HeaderMap, header};

/// The value of a field in a query or in a form of type `application/x-www-form-urlencoded`. `None`: there is not
/// exactly one, or it is not UTF-8.
pub(crate) fn field(form: &str, name: &str) -> Option<String> {
    let mut values = form.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key).as_deref() == Some(name)).then_some(value)
    });
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    decoded(value)
}

/// A part of a form of the type `multipart/form-data`: a field, or a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FormPart<'a> {
    /// The name of the field.
    pub(crate) name: String,
    /// The name of the file, as the browser sends it. `None`: it is not a file.
    pub(crate) file: Option<String>,
    /// What it holds.
    pub(crate) bytes: &'a [u8],
}

/// The delimiter between the parts of a form of type `multipart/form-data`. `None`: the header has another type, or a
/// boundary that no browser makes.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let (kind, boundary) = kind.split_once(';')?;
    let boundary = boundary.trim().strip_prefix("boundary=")?.trim_matches('"');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_one = (1..=70).contains(&boundary.len()) && boundary.bytes().all(is_plain);
    (kind.trim().eq_ignore_ascii_case("multipart/form-data") && is_one).then(|| format!("\r\n--{boundary}"))
}

/// Splits off the first part of a form, from its start or from after a delimiter. `None`: it is incomplete, or not in
/// the form that browsers send.
pub(crate) fn part<'a>(form: &'a [u8], boundary: &str) -> Option<(FormPart<'a>, &'a [u8])> {
    let opening = boundary.strip_prefix("\r\n")?.as_bytes();
    let form = form.strip_prefix(opening).unwrap_or(form).strip_prefix(b"\r\n")?;
    let (head, rest) = split(form.get(..MAX_PART_HEAD).unwrap_or(form), b"\r\n\r\n")
        .and_then(|(head, _)| Some((head, form.get(head.len() + 4..)?)))?;
    let (bytes, rest) = split(rest, boundary.as_bytes())?;
    let head = std::str::from_utf8(head).ok()?;
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-disposition").then(|| value.trim())
    })?;
    // Browsers encode these three in a name, and nothing else.
    let given = |name: &str| {
        let (_, rest) = disposition.split_once(&format!("; {name}=\""))?;
        let (value, _) = rest.split_once('"')?;
        Some(value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"))
    };
    let name = given("name").filter(|_| disposition.starts_with("form-data;"))?;
    Some((FormPart { name, file: given("filename"), bytes }, rest))
}

/// All parts of a form. `None`: it is incomplete, not in the form that browsers send, or has more than [`MAX_PARTS`].
pub(crate) fn parts<'a>(mut form: &'a [u8], boundary: &str) -> Option<Vec<FormPart<'a>>> {
    let mut parts = Vec::new();
    while parts.len() < MAX_PARTS {
        let (part, rest) = part(form, boundary)?;
        parts.push(part);
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        form = rest;
    }
    None
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let found = bytes.windows(at.len()).position(|window| window == at)?;
    Some((bytes.get(..found)?, bytes.get(found + at.len()..)?))
}

/// The most bytes of a part's headers, and the most parts of a form.
const MAX_PART_HEAD: usize = 2 << 10;
const MAX_PARTS: usize = 500;

/// Decodes a text in which `%41` is `A` and `+` is a space.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                high << 4 | low
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The value of a cookie. `None`: there is not exactly one. A second one may be from another site on this host.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values = texts.flat_map(|text| text.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_field_is_decoded_and_is_there_once() {
        let form = "a=1&b=x%20y+z&c=%zz&d=%ff&a=2&e&%66=7&g=%4";
        let fields = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| field(form, name));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(fields, [None, some("x y z"), None, None, some(""), some("7"), None, None]);
    }

    #[test]
    fn a_form_with_a_file_is_read_as_browsers_send_it() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("multipart/form-data; boundary=--x1"));
        let boundary = boundary(&headers).unwrap_or_default();
        let head = "Content-Disposition: form-data; name=\"a%22\"\r\n\r\n";
        let file =
            "content-disposition: form-data; name=\"f\"; filename=\"T 1.md\"\r\nContent-Type: text/x\r\n\r\n";
        let form = format!("----x1\r\n{head}1\r\n2\r\n----x1\r\n{file}\r\n----x\r\n----x1--\r\n");
        let read = parts(form.as_bytes(), &boundary).unwrap_or_default();
        let read: Vec<_> = read.iter().map(|it| (&*it.name, it.file.as_deref(), it.bytes)).collect();
        assert_eq!(read, [("a\"", None, &b"1\r\n2"[..]), ("f", Some("T 1.md"), b"\r\n----x")]);
        // Cut anywhere, it is not a form.
        for end in 0..form.len() - 4 {
            assert_eq!(parts(form.as_bytes().get(..end).unwrap_or_default(), &boundary), None, "{end}");
        }
        for kind in [
            "multipart/form-data",
            "multipart/mixed; boundary=x",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=a b",
        ] {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            assert_eq!(super::boundary(&headers), None, "{kind}");
        }
    }

    #[test]
    fn a_cookie_that_is_there_twice_is_not_there() {
        let headers = |values: &[&'static str]| {
            values
                .iter()
                .map(|value| (header::COOKIE, HeaderValue::from_static(value)))
                .collect::<HeaderMap>()
        };
        assert_eq!(cookie(&headers(&["a=1; b=2"]), "b"), Some("2"));
        assert_eq!(cookie(&headers(&["a=1; b=2; b=3"]), "b"), None);
        assert_eq!(cookie(&headers(&["b=2", "b=2"]), "b"), None);
        assert_eq!(cookie(&headers(&["bb=2; c"]), "b"), None);
    }
}
