//! JSON Schemas of tools and outputs: a schema is compiled once, and values are checked against it.
//!
//! No other module names the validator crate, so that another validator changes this folder only.

mod violation;

use std::fmt;

use jsonschema::Validator;
use serde_json::Value;

/// How deep a schema or a value may nest. The JSON parser permits fewer levels, so only a value that was built in
/// code can exceed it. Validation is recursive, and without a limit such a value would overflow the stack.
const MAX_DEPTH: usize = 128;

/// How many references a schema may have. A chain of references is followed recursively at one place of a value.
const MAX_REFERENCES: usize = 1_000;

/// A compiled JSON Schema.
///
/// Without `$schema` the schema is of draft 2020-12. Up to draft 7 `format` is an assertion, and since draft 2019-09
/// it is an annotation. Compiling and checking read no file and no network.
pub struct SchemaCheck {
    validator: Validator,
}

/// Why a schema does not compile: what is wrong and where, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    message: String,
}

impl SchemaCheck {
    /// The compiled `schema`.
    ///
    /// # Errors
    /// The schema breaks the rules of its draft, has a pattern that does not compile, refers to something outside of
    /// itself or to nothing, nests deeper than 128 levels, or has more than 1,000 references.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let refused = |message: String| SchemaError { message };
        if is_deeper(schema, MAX_DEPTH) {
            return Err(refused(format!("it nests deeper than {MAX_DEPTH} levels")));
        }
        if references(schema) > MAX_REFERENCES {
            return Err(refused(format!("it has more than {MAX_REFERENCES} references")));
        }
        // Offline, because a schema may come from outside: a reference in it must not make us read a file or a
        // network.
        let compiled = jsonschema::options().offline().build(schema);
        let validator = compiled.map_err(|error| refused(violation::of_schema(&error)))?;
        Ok(Self { validator })
    }

    /// Whether `value` fits the schema.
    pub fn accepts(&self, value: &Value) -> bool {
        !is_deeper(value, MAX_DEPTH) && self.validator.is_valid(value)
    }

    /// What of `value` does not fit, in one line for the model that has to repair it: at most three violations, each
    /// with a JSON pointer and a short piece of the value. `None` where everything fits.
    pub fn violations(&self, value: &Value) -> Option<String> {
        if is_deeper(value, MAX_DEPTH) {
            return Some(format!("the value nests deeper than {MAX_DEPTH} levels"));
        }
        violation::of_value(&self.validator, value)
    }

    /// What of `value` does not fit, for a form: at most 20 violations, each the JSON pointer of a place and what is wrong
    /// there. Empty where everything fits.
    pub fn each_violation(&self, value: &Value) -> Vec<(String, String)> {
        if is_deeper(value, MAX_DEPTH) {
            return vec![(String::new(), format!("the value nests deeper than {MAX_DEPTH} levels"))];
        }
        violation::each(&self.validator, value, 20)
    }
}

impl fmt::Debug for SchemaCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemaCheck").finish_non_exhaustive()
    }
}

/// Whether `value` has more than `levels` lists and objects within each other.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let deeper = |inner: &Value| is_deeper(inner, levels.saturating_sub(1));
    match value {
        Value::Array(elements) => levels == 0 || elements.iter().any(deeper),
        Value::Object(members) => levels == 0 || members.values().any(deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// How many references `schema` has, of all kinds.
fn references(schema: &Value) -> usize {
    let is_reference = |name: &str| matches!(name, "$ref" | "$dynamicRef" | "$recursiveRef");
    match schema {
        Value::Array(elements) => elements.iter().map(references).sum(),
        Value::Object(members) => {
            let own = members.keys().filter(|name| is_reference(name)).count();
            own + members.values().map(references).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
