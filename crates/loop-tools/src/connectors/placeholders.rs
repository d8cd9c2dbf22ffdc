//! Texts with placeholders, as definitions of tools write them: `{name}`, `{scope.account}`, `{call_key}`.

use loop_core::types::Scope;
use serde_json::Value;

/// The name of the key that all tries of one call share, and no two calls.
pub(crate) const KEY: &str = "call_key";
/// What has a name here beside the parameters: the parts of the scope, and the key.
pub(crate) const OWN: [&str; 6] =
    ["scope.account", "scope.account_name", "scope.asset", "scope.item", "scope.person", KEY];

/// What the placeholders are filled with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) parameters: &'a Value,
    pub(crate) scope: &'a Scope,
    pub(crate) key: &'a str,
}

/// A part of a text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextPart {
    Text(String),
    Placeholder(String),
}

/// The parts of a text. `{{` and `}}` are braces. `None`: a brace has no partner.
pub(crate) fn parts(text: &str) -> Option<Vec<TextPart>> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            plain.push_str(from.get(..1).unwrap_or_default());
            rest = after;
            continue;
        }
        let (name, after) =
            from.strip_prefix('{')?.split_once('}').filter(|(name, _)| !name.contains('{'))?;
        if !plain.is_empty() {
            parts.push(TextPart::Text(std::mem::take(&mut plain)));
        }
        parts.push(TextPart::Placeholder(name.to_owned()));
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(TextPart::Text(plain));
    }
    Some(parts)
}
