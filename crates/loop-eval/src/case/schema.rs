//! The JSON Schema of cases, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::case::Case;

/// The JSON Schema of a case.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Case>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), json!("a case of `loopgate eval`"));
    }
    schema
}
