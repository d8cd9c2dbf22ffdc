//! Aliases of parameters.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::NameRule;
use crate::codec::short_id;

/// The parameters of one tool that are sent under another name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    aliases: BTreeMap<Arc<str>, Arc<str>>,
    owns: BTreeMap<Arc<str>, Arc<str>>,
}

impl Names {
    pub(crate) fn is_empty(&self) -> bool {
        self.aliases.is_empty()
    }

    /// JSON as the model reads it: with aliases.
    pub(crate) fn sent<'a>(&self, json: &'a str) -> Cow<'a, str> {
        renamed(json, &self.aliases)
    }

    /// JSON as the tool reads it: with its own names.
    pub(crate) fn own<'a>(&self, json: &'a str) -> Cow<'a, str> {
        renamed(json, &self.owns)
    }

    /// The name under which a property is sent.
    pub(super) fn alias<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, |alias| alias)
    }

    /// Gives an alias to each of the names that the provider refuses.
    pub(super) fn of(all: &BTreeSet<&str>, rule: NameRule) -> Self {
        let mut names = Self::default();
        for name in all.iter().filter(|name| !is_legal(name, rule)) {
            let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
            let head: String = name.chars().take(ROOM).map(kept).collect();
            let head = head.trim_matches(['_', '.', '-']);
            let begins = head.starts_with(|c: char| c.is_ascii_alphabetic());
            let head = if begins { head.to_owned() } else { format!("p_{head}") };
            let is_free = |alias: &str| !all.contains(alias) && !names.owns.contains_key(alias);
            let is_short = name.chars().count() <= ROOM && head.len() > 2;
            let mut alias = head.clone();
            let mut salt = 0_u32;
            while !(is_free(&alias) && (is_short || salt > 0)) {
                alias = format!("{head}_{}", short_id(&format!("{name}{salt}"), 8));
                salt += 1;
            }
            let (name, alias): (Arc<str>, Arc<str>) = ((*name).into(), alias.into());
            names.owns.insert(Arc::clone(&alias), Arc::clone(&name));
            names.aliases.insert(name, alias);
        }
        names
    }

    /// Renames all texts of a value that has names by names.
    pub(super) fn in_names(&self, value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members =
                    members.iter().map(|(key, value)| (self.alias(key).to_owned(), self.in_names(value)));
                Value::Object(members.collect())
            }
            Value::Array(items) => items.iter().map(|item| self.in_names(item)).collect(),
            Value::String(name) => self.alias(name).into(),
            other => other.clone(),
        }
    }

    /// Renames the keys of a value that is data.
    pub(super) fn in_data(&self, data: &Value) -> Value {
        match data {
            Value::Object(members) => {
                let members =
                    members.iter().map(|(key, value)| (self.alias(key).to_owned(), self.in_data(value)));
                Value::Object(members.collect())
            }
            Value::Array(items) => items.iter().map(|item| self.in_data(item)).collect(),
            other => other.clone(),
        }
    }
}

/// Whether a provider takes the name of a property.
pub(super) fn is_legal(name: &str, rule: NameRule) -> bool {
    let begins = match rule {
        NameRule::Word => true,
        NameRule::Identifier => name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    begins && (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(fits)
}

/// The JSON with other keys, otherwise as it is written; also where it is cut off or broken.
fn renamed<'a>(json: &'a str, names: &BTreeMap<Arc<str>, Arc<str>>) -> Cow<'a, str> {
    let bytes = json.as_bytes();
    let (mut written, mut copied, mut at) = (String::new(), 0, 0);
    let piece = |from: usize, to: usize| json.get(from..to).unwrap_or_default();
    while let Some(start) = bytes.iter().skip(at).position(|byte| *byte == b'"').map(|more| at + more) {
        let mut end = start + 1;
        while bytes.get(end).is_some_and(|byte| *byte != b'"') {
            end += 1 + usize::from(bytes.get(end) == Some(&b'\\'));
        }
        at = (end + 1).min(bytes.len());
        let is_key = bytes.iter().skip(at).find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        if !is_key {
            continue;
        }
        let Ok(key) = serde_json::from_str::<Cow<'_, str>>(piece(start, at)) else { continue };
        if let Some(name) = names.get(&*key) {
            written.push_str(piece(copied, start));
            written.push_str(&Value::from(&**name).to_string());
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    written.push_str(piece(copied, json.len()));
    Cow::Owned(written)
}

/// Maximum bytes of a name.
const MAX_NAME: usize = 64;
/// Characters of a name that its alias keeps.
const ROOM: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_renamed_and_nothing_else_is() {
        let all = BTreeSet::from(["filter[status]", "$top", "größe", "status", "a b"]);
        let names = Names::of(&all, NameRule::Word);
        let own = r#"{"filter[status]": "filter[status]", "n": [{"a\u0020b" : 1.0, "größe":99999999999999999999}, "$top"], "$top":"#;
        let sent = names.sent(own);
        assert_eq!(
            &*sent,
            r#"{"filter_status": "filter[status]", "n": [{"a_b" : 1.0, "gr__e":99999999999999999999}, "$top"], "top":"#
                .replace("gr__e", names.alias("größe"))
        );
        assert_eq!(names.own(&sent), own.replace("\\u0020", " "));
        for broken in ["", "\"", "{\"a", "{\"a\\", "{\"$top\\\":1}", "null"] {
            assert_eq!(names.own(broken), broken);
        }
    }

    #[test]
    fn no_two_names_have_one_alias() {
        let long = "x".repeat(70);
        let longer = "x".repeat(71);
        let all = BTreeSet::from(["a b", "a_b", "a[b", "", "é", "è", "9", long.as_str(), longer.as_str()]);
        let names = Names::of(&all, NameRule::Identifier);
        let aliases: BTreeSet<&str> = all.iter().map(|name| names.alias(name)).collect();
        assert_eq!(aliases.len(), all.len());
        assert!(aliases.iter().all(|alias| is_legal(alias, NameRule::Identifier)), "{aliases:?}");
    }
}
