//! The description of an output format, for protocols that accept it only in the schema.

use serde_json::{Map, Value};

use crate::warnings::Warnings;

/// The schema with `description`, unless it has one. Then `description` is left out, with a warning.
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
