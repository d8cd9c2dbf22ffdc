//! What does not fit a schema, in the words for the model that has to repair it.

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationError, ValidationErrorKind as Kind};
use serde_json::Value;

use crate::text::one_line;

/// How many schema violations a message to a model names at most.
const SCHEMA_VIOLATIONS: usize = 3;

/// The most characters of a text that a message quotes, be it from the value or from the schema.
const QUOTED_CHARS: usize = 60;

/// The most characters of a JSON pointer in a message.
const POINTER_CHARS: usize = 200;

/// How many permitted values a message lists.
const LISTED: usize = 20;

/// What of `value` does not fit, at most three schema violations; `None` where everything does.
pub(crate) fn of_value(validator: &Validator, value: &Value) -> Option<String> {
    let reported = each(validator, value, SCHEMA_VIOLATIONS);
    (!reported.is_empty()).then(|| joined(&reported))
}

/// What of `value` does not fit, at most `max` schema violations: the JSON pointer of each, and what is wrong there.
pub(crate) fn each(validator: &Validator, value: &Value, max: usize) -> Vec<(String, String)> {
    let mut reported = Vec::new();
    if validator.is_valid(value) {
        return reported;
    }
    for error in validator.iter_errors(value) {
        tell(&error, &mut reported);
        if reported.len() >= max {
            break;
        }
    }
    reported.truncate(max);
    reported
}

/// Why a schema does not compile. The pointer is one into the schema.
pub(crate) fn of_schema(error: &ValidationError<'_>) -> String {
    let mut reported = Vec::new();
    tell(error, &mut reported);
    reported.truncate(SCHEMA_VIOLATIONS);
    joined(&reported)
}

fn joined(reported: &[(String, String)]) -> String {
    reported.iter().map(|(pointer, text)| at(pointer, text)).collect::<Vec<_>>().join("; ")
}

/// Says one error; where it is that no alternative fits, what is wrong with the one that was meant.
fn tell(error: &ValidationError<'_>, reported: &mut Vec<(String, String)>) {
    let pointer = error.instance_path().as_str();
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            if let Some(tags) = tags(context) {
                reported.push(tags);
                return;
            }
            let meant = context.iter().min_by_key(|errors| distance(errors, pointer));
            match meant.filter(|errors| !errors.is_empty()) {
                Some(errors) => errors.iter().for_each(|error| tell(error, reported)),
                None => reported.push((pointer.to_owned(), words(error))),
            }
        }
        // The pointer names the member itself, as the core's own check does.
        Kind::Required { property: Value::String(name) } => {
            reported.push((member(pointer, name), "is required".to_owned()));
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let unexpected = unexpected.iter().take(SCHEMA_VIOLATIONS);
            reported.extend(unexpected.map(|name| (member(pointer, name), "is not allowed".to_owned())));
        }
        Kind::PropertyNames { error } => {
            let name = error.instance().as_str().unwrap_or_default();
            reported.push((member(pointer, name), format!("the name is not allowed: {}", words(error))));
        }
        _ => reported.push((pointer.to_owned(), words(error))),
    }
}

/// What is wrong with one value, without the place where it is.
fn words(error: &ValidationError<'_>) -> String {
    let value = error.instance();
    let shown = shown(value);
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(kind) } => format!("{shown} is not of type \"{kind}\""),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            let kinds: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
            format!("{shown} is not of types {}", kinds.join(", "))
        }
        Kind::Constant { expected_value } => format!("{shown} is not {}", listed(expected_value)),
        Kind::Enum { options } => format!("{shown} is none of {}", list(options)),
        Kind::Minimum { limit } => format!("{shown} is less than the minimum of {limit}"),
        Kind::Maximum { limit } => format!("{shown} is greater than the maximum of {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("{shown} is not greater than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("{shown} is not less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("{shown} is not a multiple of {multiple_of}"),
        Kind::MinLength { limit } | Kind::MinItems { limit } | Kind::MinProperties { limit } => {
            format!("has {}, the minimum is {limit}", size(value))
        }
        Kind::MaxLength { limit } | Kind::MaxItems { limit } | Kind::MaxProperties { limit } => {
            format!("has {}, the maximum is {limit}", size(value))
        }
        Kind::AdditionalItems { limit } => format!("has {}, the maximum is {limit}", size(value)),
        Kind::UnevaluatedItems { unexpected } => {
            format!("has {}, and {} of them are not allowed", size(value), unexpected.len())
        }
        Kind::UniqueItems => "has equal items, and all must differ".to_owned(),
        Kind::Contains => "does not have the number of matching items that `contains` requires".to_owned(),
        Kind::Pattern { pattern } => format!("{shown} does not match \"{}\"", short(pattern)),
        // The format of `pattern` itself.
        Kind::Format { format } if format == "regex" => {
            format!("{shown} is not a regular expression, or is too large")
        }
        Kind::Format { format } => format!("{shown} is not a \"{}\"", short(format)),
        Kind::FalseSchema if forbids_members(error) => "no members are allowed".to_owned(),
        Kind::FalseSchema => "is not allowed".to_owned(),
        Kind::Not { .. } => format!("{shown} fits the schema that `not` forbids"),
        Kind::AnyOf { .. } => format!("{shown} fits no alternative of `anyOf`"),
        Kind::OneOfNotValid { .. } => format!("{shown} fits no alternative of `oneOf`"),
        Kind::OneOfMultipleValid { .. } => {
            format!("{shown} fits several alternatives of `oneOf`, and only one is allowed")
        }
        Kind::ContentEncoding { content_encoding } => {
            format!("{shown} is not encoded in \"{}\"", short(content_encoding))
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("{shown} is not of the media type \"{}\"", short(content_media_type))
        }
        Kind::FromUtf8 { .. } => format!("{shown} is not text once it is decoded"),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            format!("{shown} takes too long to compare with the pattern")
        }
        Kind::Required { .. }
        | Kind::AdditionalProperties { .. }
        | Kind::UnevaluatedProperties { .. }
        | Kind::PropertyNames { .. } => "has a member too many or too few".to_owned(),
        // Of a schema that refers to what does not exist; the text names the reference.
        Kind::Referencing(error) => error.to_string(),
        Kind::Custom { message, .. } => message.clone(),
    }
}

/// Whether the error is about all members of an object. It names none of them.
fn forbids_members(error: &ValidationError<'_>) -> bool {
    let keyword = error.schema_path().as_str();
    keyword.ends_with("/additionalProperties") || keyword.ends_with("/propertyNames")
}

/// A value for a message: a number, a word or the beginning of a text, and only the size of what is larger.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(short(text)).to_string(),
        Value::Array(elements) if !elements.is_empty() => format!("a list of {}", size(value)),
        Value::Object(members) if !members.is_empty() => format!("an object of {}", size(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// A value of the schema for a message, as JSON.
fn listed(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(short(text)).to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            short(&value.to_string())
        }
    }
}

fn list(options: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let first: Vec<String> = options.iter().take(LISTED).map(listed).collect();
    match options.len().saturating_sub(LISTED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn size(value: &Value) -> String {
    let (count, unit) = match value {
        Value::String(text) => (text.chars().count(), "character"),
        Value::Array(elements) => (elements.len(), "item"),
        Value::Object(members) => (members.len(), "member"),
        Value::Null | Value::Bool(_) | Value::Number(_) => (1, "value"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// The beginning of a text, at most [`QUOTED_CHARS`] characters.
fn short(text: &str) -> String {
    cut_to(text, QUOTED_CHARS)
}

fn cut_to(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// The JSON pointer of a member of the object at `pointer`.
fn member(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn at(pointer: &str, text: &str) -> String {
    match pointer.is_empty() {
        true => one_line(text),
        false => format!("{}: {}", one_line(&cut_to(pointer, POINTER_CHARS)), one_line(text)),
    }
}

/// How far a value at `pointer` is from an alternative: another type is the furthest, a tag of another alternative comes
/// next, then what is wrong with the value itself, and last what is wrong within it.
fn distance(errors: &[ValidationError<'_>], pointer: &str) -> usize {
    let one = |error: &ValidationError<'_>| {
        let is_own = error.instance_path().as_str() == pointer;
        match error.kind() {
            Kind::Type { .. } if is_own => 1_000_000,
            Kind::Constant { .. } => 10_000,
            _ if is_own => 100,
            _ => 1,
        }
    };
    errors.iter().map(one).fold(0, usize::saturating_add)
}

/// Where each alternative has a tag of its own and the value has none of them: what the tag may be.
fn tags(context: &[Vec<ValidationError<'static>>]) -> Option<(String, String)> {
    let mut known = Vec::new();
    let mut place = None;
    for errors in context {
        let (error, tag) = errors.iter().find_map(|error| match error.kind() {
            Kind::Constant { expected_value } => Some((error, expected_value)),
            _ => None,
        })?;
        let pointer = error.instance_path().as_str();
        if *place.get_or_insert(pointer) != pointer {
            return None;
        }
        known.push(Value::clone(tag));
    }
    let pointer = place.filter(|_| known.len() > 1)?;
    Some((pointer.to_owned(), format!("is none of {}", list(&Value::Array(known)))))
}

#[cfg(test)]
#[path = "violation_tests.rs"]
mod tests;
