//! A shape's description where the protocol has no place for it beside the schema.

use serde_json::{Map, Value};

use crate::warnings::Warnings;

/// The schema with `description` as its own, where it has none; two are too many, and that is a warning.
pub(crate) fn described(schema: &Value, description: &str, warnings: &mut Warnings) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    match members.get("description") {
        _ if description.is_empty() => schema.clone(),
        Some(own) if own == description => schema.clone(),
        Some(_) => {
            warnings.warn("param_dropped(response_format.description)");
            schema.clone()
        }
        None => {
            let mut described = Map::from_iter([("description".to_owned(), description.into())]);
            described.extend(members.clone());
            Value::Object(described)
        }
    }
}
