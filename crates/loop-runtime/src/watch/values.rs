//! Where the values of a call came from: what gave each, and where in the run it is found.

use std::fmt;

use loop_core::Run;
use loop_core::policy::{SoughtValue, Sources, ValueSource};
use loop_core::run::PersonRequest;
use loop_core::spec::ToolSpec;
use loop_core::types::Evidence;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// How many values of a call are traced.
const MAX_VALUES: usize = 256;
/// How many places of a value are named in words.
const MAX_PLACES: usize = 6;

/// A value of a call's parameters, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TracedValue {
    /// Its JSON pointer within the parameters.
    pub pointer: String,
    /// The value: a text, a number, or true or false.
    pub value: Value,
    /// Whether it names a recipient or a target: its tool lists it in `authority`.
    pub authority: bool,
    /// Where it came from.
    pub origin: ValueOrigin,
    /// Every place of the run that holds it, in the order of the run. Empty: there is none.
    pub found_in: Vec<ValuePlace>,
}

/// Where a value came from: the first of these that is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum ValueOrigin {
    /// The user's words: the work item, a message, an instruction, an answer to a question.
    User,
    /// The domain: `gate.authorities`, or the tool's own default.
    Domain,
    /// The slot of the run's plan that the call fits, which fixes the parameter.
    Plan,
    /// The result of a trusted tool.
    Tool(ValuePlace),
    /// A trusted field of an untrusted result. The model chose it among others.
    TrustedField(ValuePlace),
    /// No authorised source gave it, and untrusted text holds it, here the first such.
    UntrustedText(ValuePlace),
    /// The model wrote it.
    Model,
}

/// A place in a run that holds a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "in", rename_all = "snake_case")]
pub enum ValuePlace {
    /// What the work item concerns, which the domain took from it by rule.
    Scope,
    /// The work item.
    Item {
        /// Whether a third party may have written it.
        untrusted: bool,
    },
    /// An instruction of a person.
    Instruction {
        /// Its number, from 1.
        number: u64,
    },
    /// A result.
    Evidence {
        /// Its number, for example `E3`.
        evidence: String,
        /// The tool's own name.
        tool: String,
        /// Whether a third party may have written it.
        untrusted: bool,
    },
}

impl ValuePlace {
    fn of(run: &Run, evidence: &Evidence) -> Self {
        let (Evidence { id, tool, .. }, untrusted) = (evidence, evidence.taint(run.spec()).untrusted);
        Self::Evidence { evidence: id.to_string(), tool: tool.to_string(), untrusted }
    }

    /// Whether a third party may have written what is there.
    pub fn is_untrusted(&self) -> bool {
        match self {
            Self::Scope | Self::Instruction { .. } => false,
            Self::Item { untrusted } | Self::Evidence { untrusted, .. } => *untrusted,
        }
    }
}

impl TracedValue {
    /// The values of a call that waits, in their order, and how many further ones are not traced.
    pub(crate) fn all(run: &Run, requested: &PersonRequest) -> (Vec<Self>, u64) {
        let (Ok(parameters), Some(tool)) = (requested.parameters.value(), run.spec().tool(&requested.tool))
        else {
            return (Vec::new(), 0);
        };
        let mut leaves = Vec::new();
        collect(parameters, String::new(), &mut leaves);
        let left_out = leaves.len().saturating_sub(MAX_VALUES);
        leaves.truncate(MAX_VALUES);
        let sought: Vec<_> =
            leaves.iter().map(|(pointer, value)| SoughtValue::of(tool, pointer, value)).collect();
        let traced = leaves.iter().zip(run.sources().hold(&sought)).map(|((pointer, value), given)| {
            let found_in = places(run, value);
            Self {
                origin: origin(run, tool, requested.slot, pointer, value, given, &found_in),
                authority: tool.policy.authority.iter().any(|it| is_within(pointer, it)),
                pointer: pointer.clone(),
                value: (*value).clone(),
                found_in,
            }
        });
        (traced.collect(), left_out as u64)
    }

    /// Where it came from and where else it is found, in words.
    pub fn in_words(&self) -> String {
        let Self { origin, found_in, .. } = self;
        let is_said = |place: &ValuePlace| match origin {
            ValueOrigin::User => !matches!(place, ValuePlace::Evidence { .. }),
            ValueOrigin::Tool(own) | ValueOrigin::TrustedField(own) | ValueOrigin::UntrustedText(own) => {
                own == place
            }
            ValueOrigin::Domain | ValueOrigin::Plan | ValueOrigin::Model => false,
        };
        let others: Vec<String> =
            found_in.iter().filter(|place| !is_said(place)).map(ToString::to_string).collect();
        let shown = others.get(..MAX_PLACES).unwrap_or(&others).join(", ");
        match others.len() {
            0 => origin.to_string(),
            1..=MAX_PLACES => format!("{origin}; also in {shown}"),
            all => format!("{origin}; also in {shown} and {} more", all - MAX_PLACES),
        }
    }
}

/// Where a value came from; `given` is what the rule of authority finds.
fn origin(
    run: &Run,
    tool: &ToolSpec,
    slot: Option<u32>,
    pointer: &str,
    value: &Value,
    given: Option<ValueSource>,
    found_in: &[ValuePlace],
) -> ValueOrigin {
    let parameter = pointer.split('/').nth(1).unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let own = tool.args.properties.get(parameter.as_str());
    let is_own = own.is_some_and(|own| [&own.default, &own.only].into_iter().flatten().any(|it| it == value));
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let planned = slot.and_then(|slot| run.plan()?.slots.get(slot as usize));
    let result = |id| Evidence::find(run.evidence(), id).map(|it| ValuePlace::of(run, it));
    let untrusted = found_in.iter().find(|place| place.is_untrusted());
    let found = match given {
        Some(ValueSource::User) => Some(ValueOrigin::User),
        _ if is_own || run.spec().gate.authorities.iter().any(|it| **it == text) => Some(ValueOrigin::Domain),
        _ if planned.is_some_and(|it| it.slot.fixed.contains_key(parameter.as_str())) => {
            Some(ValueOrigin::Plan)
        }
        Some(ValueSource::Tool(id)) => result(id).map(ValueOrigin::Tool),
        Some(ValueSource::TrustedField(id)) => result(id).map(ValueOrigin::TrustedField),
        None => untrusted.cloned().map(ValueOrigin::UntrustedText),
    };
    found.unwrap_or(ValueOrigin::Model)
}

impl fmt::Display for ValueOrigin {
    /// For example `untrusted text of E5 read_mails`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("the user's words"),
            Self::Domain => f.write_str("the domain"),
            Self::Plan => f.write_str("the plan, which fixes it"),
            Self::Tool(place) => write!(f, "{place}, a trusted tool"),
            Self::TrustedField(place) => write!(f, "a trusted field of {place}"),
            Self::UntrustedText(place) => write!(f, "untrusted text of {place}"),
            Self::Model => f.write_str("the model wrote it"),
        }
    }
}

impl fmt::Display for ValuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scope => f.write_str("what the item concerns"),
            Self::Item { .. } => f.write_str("the work item"),
            Self::Instruction { number } => write!(f, "instruction {number}"),
            Self::Evidence { evidence, tool, .. } => write!(f, "{evidence} {tool}"),
        }
    }
}

/// Whether a value at `pointer` is that of an `authority`, or is within it.
fn is_within(pointer: &str, authority: &str) -> bool {
    let (mut own, mut of) = (pointer.split('/'), authority.split('/'));
    of.all(|step| own.next().is_some_and(|own| step == "*" || step == own))
}

fn collect<'v>(value: &'v Value, pointer: String, leaves: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => leaves.push((pointer, value)),
        Value::Array(elements) => {
            for (n, element) in elements.iter().enumerate() {
                collect(element, format!("{pointer}/{n}"), leaves);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(member, format!("{pointer}/{name}"), leaves);
            }
        }
    }
}

/// The places that hold a text or a number.
fn places(run: &Run, value: &Value) -> Vec<ValuePlace> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return Vec::new(),
    };
    if text.is_empty() {
        return Vec::new();
    }
    let value = text.as_str();
    let item = &run.started().item;
    let scope = &item.scope;
    let parts = [&scope.account, &scope.account_name, &scope.asset, &scope.item, &scope.person];
    let mut found = Vec::new();
    if parts.into_iter().flatten().any(|part| **part == *value) {
        found.push(ValuePlace::Scope);
    }
    if [&item.id, &item.title, &item.full].into_iter().any(|text| holds(text, value)) {
        found.push(ValuePlace::Item { untrusted: run.spec().gate.item_untrusted });
    }
    let instructions = (1..).zip(run.instructions()).filter(|(_, it)| holds(&it.text, value));
    found.extend(instructions.map(|(number, _)| ValuePlace::Instruction { number }));
    let results = run
        .evidence()
        .iter()
        .filter(|it| holds(&it.observation.data, value) || holds(&it.observation.markdown, value));
    found.extend(results.map(|it| ValuePlace::of(run, it)));
    found
}

/// Whether a text holds a value as a word of its own.
fn holds(text: &str, value: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(value).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + value.len()..).and_then(|text| text.chars().next());
        let (first, last) = (value.chars().next(), value.chars().next_back());
        !(is_word(before) && is_word(first) || is_word(after) && is_word(last))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_as_a_word_of_its_own() {
        assert!(holds("id 42, done", "42") && holds("42", "42") && holds("to: a@b.example.", "a@b.example"));
        assert!(!holds("id 142", "42") && !holds("4200", "42") && !holds("xa@b.example", "a@b.example"));
        assert!(holds("1420 and 42", "42"));
    }
}
