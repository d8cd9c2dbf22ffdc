//! What does not fit a schema, in the words for the model that has to repair it.

use jsonschema::Validator;
use jsonschema::error::{ValidationError, ValidationErrorKind};
use serde_json::Value;

use crate::text::one_line;

/// How many schema violations a model is told at once.
const SCHEMA_VIOLATIONS: usize = 3;

/// What of `value` does not fit, at most three schema violations; `None` where everything does.
pub(crate) fn schema_violations(validator: &Validator, value: &Value) -> Option<String> {
    if validator.is_valid(value) {
        return None;
    }
    let mut reported = Vec::new();
    for error in validator.iter_errors(value) {
        tell(&error, &mut reported);
        if reported.len() >= SCHEMA_VIOLATIONS {
            break;
        }
    }
    reported.truncate(SCHEMA_VIOLATIONS);
    (!reported.is_empty()).then(|| reported.join("; "))
}

/// Says one error; where it is that no alternative fits, what is wrong with the one that was meant.
fn tell(error: &ValidationError<'_>, reported: &mut Vec<String>) {
    let pointer = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            if let Some(tags) = tags(context) {
                reported.push(tags);
                return;
            }
            let meant = context.iter().min_by_key(|errors| distance(errors, pointer));
            match meant.filter(|errors| !errors.is_empty()) {
                Some(errors) => errors.iter().for_each(|error| tell(error, reported)),
                None => reported.push(at(pointer, &error.to_string())),
            }
        }
        // The pointer names the member itself, as the core's own check does.
        ValidationErrorKind::Required { property: Value::String(name) } => {
            reported.push(format!("{pointer}/{}: is required", name.replace('~', "~0").replace('/', "~1")));
        }
        _ => reported.push(at(pointer, &error.to_string())),
    }
}

fn at(pointer: &str, text: &str) -> String {
    match pointer.is_empty() {
        true => one_line(text),
        false => format!("{pointer}: {}", one_line(text)),
    }
}

/// How far a value at `pointer` is from an alternative: another type is the furthest, a tag of another alternative comes
/// next, then what is wrong with the value itself, and last what is wrong within it.
fn distance(errors: &[ValidationError<'_>], pointer: &str) -> usize {
    let one = |error: &ValidationError<'_>| {
        let is_own = error.instance_path().as_str() == pointer;
        match error.kind() {
            ValidationErrorKind::Type { .. } if is_own => 1_000_000,
            ValidationErrorKind::Constant { .. } => 10_000,
            _ if is_own => 100,
            _ => 1,
        }
    };
    errors.iter().map(one).fold(0, usize::saturating_add)
}

/// Where each alternative has a tag of its own and the value has none of them: what the tag may be.
fn tags(context: &[Vec<ValidationError<'static>>]) -> Option<String> {
    let mut known = Vec::new();
    let mut place = None;
    for errors in context {
        let (error, tag) = errors.iter().find_map(|error| match error.kind() {
            ValidationErrorKind::Constant { expected_value } => Some((error, expected_value)),
            _ => None,
        })?;
        let pointer = error.instance_path().as_str();
        if *place.get_or_insert(pointer) != pointer {
            return None;
        }
        known.push(tag.to_string());
    }
    let pointer = place.filter(|_| known.len() > 1)?;
    Some(at(pointer, &format!("is none of {}", known.join(", "))))
}

#[cfg(test)]
#[path = "schema_violation_tests.rs"]
mod tests;
