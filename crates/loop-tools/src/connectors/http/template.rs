//! Texts and JSON values with placeholders for arguments: `{name}`, `{scope.account}`, `{call_key}`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::connectors::placeholders::{KEY, OWN, TextPart, Values, parts};
use crate::connectors::scope::stated_part_of;
use crate::connectors::trouble::Trouble;

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<TextPart>,
}

/// A JSON value in whose texts there may be placeholders.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonTemplate {
    Plain(Value),
    Text(Template),
    List(Vec<JsonTemplate>),
    Table(Vec<(String, JsonTemplate)>),
}

/// The names that templates may use, and those that they did use.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    parameters: &'a BTreeSet<String>,
    used: BTreeSet<String>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(parameters: &'a BTreeSet<String>) -> Self {
        Self { parameters, used: BTreeSet::new() }
    }

    /// Whether a template names the key of the call.
    pub(crate) fn use_key(&self) -> bool {
        self.used.contains(KEY)
    }

    /// Notes a parameter that is sent without a template.
    pub(crate) fn note(&mut self, parameter: &str) {
        self.used.insert(parameter.to_owned());
    }

    /// A declared parameter that no template uses.
    pub(crate) fn unused(&self) -> Option<&'a str> {
        // A parameter with the name of the key would never be seen.
        let is_unused = |name: &&String| !self.used.contains(*name) || **name == KEY;
        self.parameters.iter().find(is_unused).map(String::as_str)
    }

    fn check(&mut self, name: &str) -> Result<(), String> {
        if !OWN.contains(&name) && !self.parameters.contains(name) {
            let known = self.parameters.iter().map(String::as_str).chain(OWN);
            let known = known.map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
            return Err(format!("it names `{{{name}}}`, which is unknown here; use one of {known}"));
        }
        self.used.insert(name.to_owned());
        Ok(())
    }
}

impl Values<'_> {
    /// The value of a name. `None`: it is not given.
    fn value(&self, name: &str) -> Result<Option<Cow<'_, Value>>, Trouble> {
        if name == KEY {
            return Ok(Some(Cow::Owned(self.key.into())));
        }
        if let Some(part) = name.strip_prefix("scope.") {
            // What the work item does not say must not widen what is asked for.
            return match stated_part_of(self.scope, part) {
                Some(text) => Ok(Some(Cow::Owned(text.to_string().into()))),
                None => {
                    let what = part.replace('_', " ");
                    Err(Trouble::Permanent(format!(
                        "the work item names no {what}, and this tool is only for one that does"
                    )))
                }
            };
        }
        Ok(self.parameters.get(name).filter(|value| !value.is_null()).map(Cow::Borrowed))
    }
}

impl Template {
    /// The template in a text. `{{` and `}}` are braces.
    ///
    /// # Errors
    /// A brace has no partner, or a name is not known.
    pub(crate) fn parse(text: &str, names: &mut Names<'_>) -> Result<Self, String> {
        Self::read(text, &mut |name| names.check(name))
    }

    /// The template in a text whose names are checked by `check`.
    pub(crate) fn read(
        text: &str,
        check: &mut dyn FnMut(&str) -> Result<(), String>,
    ) -> Result<Self, String> {
        let parts = parts(text)
            .ok_or_else(|| "a brace in it has no partner; write `{{` or `}}` for a brace".to_owned())?;
        for part in &parts {
            if let TextPart::Placeholder(name) = part {
                check(name)?;
            }
        }
        Ok(Self { parts })
    }

    /// Whether there is a placeholder in it.
    pub(crate) fn has_placeholders(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, TextPart::Placeholder(_)))
    }

    /// The value of its one placeholder where it is nothing else; `None` where it is more.
    pub(crate) fn sole<'g>(&self, given: &'g Values<'_>) -> Option<Result<Option<Cow<'g, Value>>, Trouble>> {
        match self.parts.as_slice() {
            [TextPart::Placeholder(name)] => Some(given.value(name)),
            _ => None,
        }
    }

    /// The text with each value put through `value`, and each text of its own through `own`. What is not given is empty.
    pub(crate) fn render(
        &self,
        given: &Values<'_>,
        own: impl Fn(&str) -> String,
        value: impl Fn(&str, &str) -> Result<String, Trouble>,
    ) -> Result<String, Trouble> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TextPart::Text(plain) => text.push_str(&own(plain)),
                TextPart::Placeholder(name) => {
                    let found = given.value(name)?;
                    text.push_str(&value(name, &found.as_deref().map_or_else(String::new, text_of))?);
                }
            }
        }
        Ok(text)
    }

    /// The text with each placeholder filled from `fill`.
    pub(crate) fn fill(&self, fill: impl Fn(&str) -> String) -> String {
        let parts = self.parts.iter().map(|part| match part {
            TextPart::Text(plain) => plain.clone(),
            TextPart::Placeholder(name) => fill(name),
        });
        parts.collect()
    }
}

impl JsonTemplate {
    /// The template in a JSON value. The names of members are no templates.
    ///
    /// # Errors
    /// One of its texts is no template.
    pub(crate) fn parse(value: &Value, names: &mut Names<'_>) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::Text(Template::parse(text, names)?),
            Value::Array(items) => {
                Self::List(items.iter().map(|item| Self::parse(item, names)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let parsed = members
                    .iter()
                    .map(|(name, value)| Self::parse(value, names).map(|value| (name.clone(), value)));
                Self::Table(parsed.collect::<Result<_, _>>()?)
            }
            plain => Self::Plain(plain.clone()),
        })
    }

    /// The value. A text that is nothing but a placeholder is the argument as it is, and is left out where that is not given.
    pub(crate) fn render(&self, given: &Values<'_>) -> Result<Option<Value>, Trouble> {
        Ok(Some(match self {
            Self::Plain(value) => value.clone(),
            Self::Text(template) => match template.sole(given) {
                Some(value) => return Ok(value?.map(Cow::into_owned)),
                None => Value::String(template.render(given, str::to_owned, |_, text| Ok(text.to_owned()))?),
            },
            Self::List(items) => {
                let items = items.iter().filter_map(|item| item.render(given).transpose());
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Table(members) => {
                let mut table = Map::new();
                for (name, member) in members {
                    if let Some(value) = member.render(given)? {
                        table.insert(name.clone(), value);
                    }
                }
                Value::Object(table)
            }
        }))
    }
}

/// A value as text: a text as it is, and what has parts as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => loop_core::types::canonical(other),
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
