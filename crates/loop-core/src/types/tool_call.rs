//! A tool call as a model wrote it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::types::Arguments;

/// A tool call in a model's reply.
///
/// The decoder of a provider's protocol makes it. It is passed unchanged to the core, to the journal, and back to the
/// provider as part of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The id of the call within its reply. The tool result refers to it.
    pub id: Arc<str>,
    /// The tool's name as the model wrote it.
    pub name: Arc<str>,
    /// The arguments, as the model wrote them: the text of a JSON object. The object itself is accepted too.
    #[cfg_attr(feature = "schema", schemars(schema_with = "text_or_object"))]
    pub arguments: Arguments,
}

#[cfg(feature = "schema")]
fn text_or_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["string", "object"]})
}
