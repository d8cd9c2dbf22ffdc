//! JSON that keeps the order of its members, and its rendering as text for people and models.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value whose members are in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    /// A number or a boolean, as it is shown.
    Plain(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value at a JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Json> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |value, step| {
            let step = step.replace("~1", "/").replace("~0", "~");
            match value {
                Self::Object(members) => members.iter().find(|(key, _)| *key == step).map(|(_, value)| value),
                Self::List(elements) => elements.get(step.parse::<usize>().ok()?),
                _ => None,
            }
        })
    }

    /// A text, number or boolean as text. `None` for anything else, and for an empty text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Plain(text) | Self::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// The members as `key: value`, nested ones as bullets, texts of several lines as paragraphs.
    pub(crate) fn render(&self) -> String {
        match self {
            Self::Object(members) => render(members.iter().map(|(key, value)| (key.as_str(), value))),
            other => render([("item", other)]),
        }
    }

    fn is_nothing(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Plain(_) => false,
            Self::Text(text) => text.trim().is_empty(),
            Self::List(elements) => elements.is_empty(),
            Self::Object(members) => members.is_empty(),
        }
    }
}

/// The named values as Markdown, without those that are empty.
pub(crate) fn render<'a>(members: impl IntoIterator<Item = (&'a str, &'a Json)>) -> String {
    let mut out = String::new();
    for (key, value) in members {
        match value {
            value if value.is_nothing() => {}
            Json::Text(text) if text.trim().contains('\n') => {
                // Blank lines around it, so that it stays paragraphs.
                _ = write!(out, "\n{key}:\n\n{}\n\n", text.trim());
            }
            Json::List(_) | Json::Object(_) => {
                _ = writeln!(out, "{key}:");
                bullets(value, 0, &mut out);
            }
            Json::Null | Json::Plain(_) | Json::Text(_) => {
                _ = writeln!(out, "{key}: {}", value.as_text().unwrap_or_default());
            }
        }
    }
    tidy(&out)
}

fn bullets(value: &Json, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Json::Object(members) => {
            for (key, value) in members.iter().filter(|(_, value)| !value.is_nothing()) {
                bullet(&format!("{indent}- {key}:"), value, depth, out);
            }
        }
        Json::List(elements) => {
            for element in elements.iter().filter(|element| !element.is_nothing()) {
                match element {
                    // The members of an element share one bullet.
                    Json::Object(members) => {
                        let mut lead = format!("{indent}- ");
                        for (key, value) in members.iter().filter(|(_, value)| !value.is_nothing()) {
                            bullet(&format!("{lead}{key}:"), value, depth + 1, out);
                            lead = format!("{indent}  ");
                        }
                    }
                    other => bullet(&format!("{indent}-"), other, depth, out),
                }
            }
        }
        _ => {}
    }
}

fn bullet(lead: &str, value: &Json, depth: usize, out: &mut String) {
    match value.as_text() {
        Some(text) => {
            let indent = "  ".repeat(depth + 1);
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            _ = writeln!(out, "{lead} {}", lines.join(&format!("\n{indent}")));
        }
        None => {
            _ = writeln!(out, "{lead}");
            bullets(value, depth + 1, out);
        }
    }
}

/// The text without repeated blank lines, and without blanks at its ends and at the ends of lines.
fn tidy(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.trim().lines().map(str::trim_end) {
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Json, E> {
        Ok(Json::Plain(flag.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Plain(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Plain(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Plain(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        // By key, since an item may hold as many members as it has bytes.
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some((key, value)) = members.next_entry::<String, Json>()? {
            match places.get(&key).and_then(|at| object.get_mut(*at)) {
                // The last one counts, as everywhere else where JSON is read.
                Some(known) => known.1 = value,
                None => {
                    places.insert(key.clone(), object.len());
                    object.push((key, value));
                }
            }
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_item_is_rendered_in_the_order_of_its_file() {
        // S0-6, S0-140
        let item = json(
            r#"{"id": "T-1", "urgent": true, "text": "First line.\n\nSecond.", "none": null, "empty": [],
                "contact": {"name": "Ada", "at": {"city": "Bath"}}, "tags": ["a", "b"],
                "notes": [{"by": "Desk", "text": "one\ntwo"}, {"by": "Ada", "n": 2.5}]}"#,
        );
        let expected = "id: T-1\nurgent: true\n\ntext:\n\nFirst line.\n\nSecond.\n\ncontact:\n- name: Ada\n- at:\n  - city: Bath\n\
                        tags:\n- a\n- b\nnotes:\n- by: Desk\n  text: one\n    two\n- by: Ada\n  n: 2.5";
        assert_eq!(item.render(), expected);
    }

    #[test]
    fn pointers_find_members_and_elements() {
        let item = json(r#"{"a": {"b/c": [1, {"d": " x "}]}, "e": "", "f": 7}"#);
        assert_eq!(item.at("/a/b~1c/1/d").and_then(Json::as_text), Some("x"));
        assert_eq!(item.at("/f").and_then(Json::as_text), Some("7"));
        assert_eq!(item.at("/e").and_then(Json::as_text), None);
        assert_eq!(item.at("").map(|whole| whole == &item), Some(true));
        for missing in ["/x", "/a/b", "/f/0", "/a/b~1c/9", "a"] {
            assert_eq!(item.at(missing), None, "{missing}");
        }
    }
}
