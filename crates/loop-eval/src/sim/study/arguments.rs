//! Arguments that fit a tool's schema, drawn from choices.

use loop_core::{ArgSpec, ArgType};
use serde_json::{Map, Value, json};

use crate::sim::Choices;

/// How deep nested arguments are drawn.
const DEEPEST: u32 = 4;

/// Arguments that the schema accepts: its examples where it has some, else made-up values.
pub(super) fn arguments(choices: &mut Choices, spec: &ArgSpec) -> Value {
    match value(choices, spec, 0) {
        object @ Value::Object(_) => object,
        _ => json!({}),
    }
}

fn value(choices: &mut Choices, spec: &ArgSpec, depth: u32) -> Value {
    if let Some(only) = &spec.only {
        return only.clone();
    }
    if let Some(all) = &spec.one_of {
        return choices.of(all).cloned().unwrap_or_default();
    }
    if !spec.examples.is_empty() && depth > 0 && choices.one_in(2) {
        return choices.of(&spec.examples).cloned().unwrap_or_default();
    }
    match spec.kind {
        Some(ArgType::Object) => object(choices, spec, depth),
        None if depth == 0 || !spec.properties.is_empty() => object(choices, spec, depth),
        Some(ArgType::Array) => match &spec.items {
            Some(items) if depth < DEEPEST => Value::Array(vec![value(choices, items, depth + 1)]),
            _ => json!([]),
        },
        Some(ArgType::Integer | ArgType::Number) => {
            let least = spec.minimum.unwrap_or(1);
            let most = spec.maximum.unwrap_or(least.saturating_add(20)).max(least);
            let span = u32::try_from(most.saturating_sub(least)).unwrap_or(1_000).min(1_000);
            json!(least.saturating_add(i64::from(choices.below(span.saturating_add(1)))))
        }
        Some(ArgType::Boolean) => json!(choices.one_in(2)),
        Some(ArgType::Null) => Value::Null,
        Some(ArgType::String) | None => {
            let mut text = format!("value-{}", choices.below(40));
            let least = spec.min_length.unwrap_or_default() as usize;
            while text.len() < least {
                text.push('x');
            }
            text.truncate(spec.max_length.map_or(usize::MAX, |max| max as usize));
            json!(text)
        }
    }
}

fn object(choices: &mut Choices, spec: &ArgSpec, depth: u32) -> Value {
    let mut members = Map::new();
    for (name, member) in &spec.properties {
        let is_required = spec.required.contains(name);
        if depth < DEEPEST && (is_required || choices.one_in(4)) {
            members.insert(name.to_string(), value(choices, member, depth + 1));
        }
    }
    Value::Object(members)
}
