//! Recorded exchanges out of a file: one JSON object a line.

use serde_json::{Map, Value};

/// One exchange, as far as it was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    /// `file:line`.
    pub(crate) place: String,
    /// Its name; exchanges of one conversation have the same name up to the last `#`.
    pub(crate) id: String,
    pub(crate) provider: String,
    pub(crate) host: String,
    pub(crate) endpoint: String,
    pub(crate) path: String,
    pub(crate) model: String,
    pub(crate) is_streamed: bool,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) request: Option<Value>,
    pub(crate) features: Vec<String>,
    pub(crate) expect: Option<Expect>,
}

/// What a client should have understood. What is `None` was not written down, and is not compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expect {
    pub(crate) text: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) calls: Option<Vec<ExpectedCall>>,
    /// The provider's own word for the end.
    pub(crate) finish: Option<String>,
    /// Whether it was written down that there was no such word.
    pub(crate) has_no_finish: bool,
    /// What the provider said of the tokens.
    pub(crate) usage: Option<Value>,
    pub(crate) server_tools: Vec<String>,
    /// The provider's error object within a 2xx.
    pub(crate) error: Option<Value>,
}

/// A call as it should have been understood.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedCall {
    /// `None` where the provider gave none.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// JSON, or the text where it is none.
    pub(crate) arguments: Value,
}

/// All exchanges of a text; blank lines are skipped.
///
/// # Errors
/// `file:line` and what is wrong with it, of the first line that is no exchange.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Exchange>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut exchanges = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let place = format!("{file}:{}", index + 1);
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("{place}: is no JSON object: {error}"))?;
        let Value::Object(members) = value else {
            return Err(format!("{place}: is no JSON object"));
        };
        exchanges.push(exchange(place, members)?);
    }
    Ok(exchanges)
}

fn exchange(place: String, mut members: Map<String, Value>) -> Result<Exchange, String> {
    let text = |members: &Map<String, Value>, key: &str| {
        members.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let endpoint = text(&members, "endpoint");
    if endpoint.is_empty() {
        return Err(format!("{place}: has no `endpoint`"));
    }
    let body = match (members.get("response_body"), members.get("response_b64")) {
        (Some(Value::String(body)), _) => body.clone().into_bytes(),
        (_, Some(Value::String(base64))) => {
            from_base64(base64).ok_or_else(|| format!("{place}: response_b64 is no Base64"))?
        }
        (Some(other), _) if !other.is_null() => other.to_string().into_bytes(),
        _ => Vec::new(),
    };
    let id = text(&members, "id");
    let status = members.get("status").and_then(Value::as_u64).unwrap_or(200);
    let is_streamed = members.get("streaming").and_then(Value::as_bool).unwrap_or_else(|| {
        let start = body.trim_ascii_start();
        [&b"data:"[..], b"event:", b":"].iter().any(|word| start.starts_with(word))
    });
    let request = match members.remove("request_json") {
        Some(Value::Null) | None => members
            .get("request_text")
            .and_then(Value::as_str)
            .and_then(|text| serde_json::from_str(text).ok()),
        Some(json) => Some(json),
    };
    let features = match members.get("features") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let expect = match members.remove("expect") {
        Some(Value::Object(expect)) => Some(self::expect(&expect)),
        _ => None,
    };
    Ok(Exchange {
        id: if id.is_empty() { place.clone() } else { id },
        place,
        provider: text(&members, "provider"),
        host: text(&members, "host"),
        path: text(&members, "path"),
        model: text(&members, "model"),
        endpoint,
        is_streamed,
        status: u16::try_from(status).unwrap_or(599),
        headers: headers(members.get("response_headers")),
        body,
        request,
        features,
        expect,
    })
}

/// Headers as an object or as a list of pairs; of several values the first.
fn headers(value: Option<&Value>) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.first().and_then(Value::as_str).unwrap_or_default().to_owned(),
        other => other.to_string(),
    };
    match value {
        Some(Value::Object(map)) => map.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        Some(Value::Array(pairs)) => pairs
            .iter()
            .filter_map(|pair| match pair.as_array().map(Vec::as_slice) {
                Some([name, value]) => Some((name.as_str()?.to_owned(), text(value))),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn expect(members: &Map<String, Value>) -> Expect {
    let text = |key: &str| members.get(key).map(|value| value.as_str().unwrap_or_default().to_owned());
    let present = |key: &str| members.get(key).filter(|value| !value.is_null()).cloned();
    let calls = members
        .get("tool_calls")
        .map(|calls| calls.as_array().map_or(&[][..], Vec::as_slice).iter().map(call).collect());
    let server_tools = match members.get("server_tools") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    Expect {
        text: text("text"),
        reasoning: text("reasoning"),
        refusal: text("refusal"),
        calls,
        finish: members.get("finish").and_then(Value::as_str).map(str::to_owned),
        has_no_finish: members.get("finish").is_some_and(Value::is_null),
        usage: present("usage"),
        server_tools,
        error: present("error"),
    }
}

fn call(value: &Value) -> ExpectedCall {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let arguments = match value.get("arguments") {
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        Some(Value::Null) | None => Value::Object(Map::new()),
        Some(json) => json.clone(),
    };
    ExpectedCall {
        id: Some(text("id")).filter(|id| !id.is_empty()).map(str::to_owned),
        name: text("name").to_owned(),
        arguments,
    }
}

/// The bytes of a text in Base64, of either alphabet; blanks are skipped.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0u32, 0u32);
    for byte in text.trim_end_matches(['=', '\n', '\r', ' ']).bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\n' | b'\r' | b' ' => continue,
            _ => return None,
        };
        held = (held << 6) | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from((held >> bits) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn what_is_missing_is_borne_and_what_is_more_too() {
        let text = "\u{feff}{\"endpoint\":\"openai_chat\",\"new\":1}\r\n\r\n{\"endpoint\":\"x\",\"status\":404,\
                    \"response_b64\":\"aGk_\",\"expect\":{\"tool_calls\":[{\"name\":\"a\",\"arguments\":\"\"}]}}\r\n";
        let exchanges = read("f", text).unwrap();
        assert_eq!(exchanges.len(), 2);
        assert_eq!((exchanges[0].id.as_str(), exchanges[0].status), ("f:1", 200));
        assert!(exchanges[0].expect.is_none() && exchanges[0].body.is_empty());
        assert_eq!((exchanges[1].place.as_str(), exchanges[1].body.as_slice()), ("f:3", &b"hi?"[..]));
        let expect = exchanges[1].expect.as_ref().unwrap();
        assert_eq!(expect.text, None);
        let call = &expect.calls.as_ref().unwrap()[0];
        assert_eq!((call.id.as_ref(), call.arguments.to_string().as_str()), (None, "{}"));
    }

    #[test]
    fn a_line_that_is_no_exchange_is_named() {
        assert!(read("f", "{\"endpoint\":\"a\"}\n\n[1]").unwrap_err().starts_with("f:3: is no JSON object"));
        assert!(read("f", "{\"endpoint\":").unwrap_err().starts_with("f:1: is no JSON object: "));
        assert_eq!(read("f", "{}").unwrap_err(), "f:1: has no `endpoint`");
    }
}
