//! Fields of a form, and cookies.

use axum::http::{HeaderMap, header};

/// The value of a field in a query or in a form of the type `application/x-www-form-urlencoded`. `None`: there is none, or
/// more than one, or it is not UTF-8.
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

/// A text of which `%41` is `A` and `+` is a space.
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

/// The value of a cookie. `None`: there is none, or more than one: another site of this machine can have set the other.
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
