//! A provider's own form of a turn.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A turn in its provider's own form, with its origin. It is sent back unchanged to the same API, profile and model,
/// and to no other.
///
/// It is one text: a line with the origin, `api/profile/model`, and below it the JSON as a request has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Raw(Arc<str>);

impl Raw {
    /// The JSON of a turn that `origin` wrote.
    pub(crate) fn new(origin: &str, json: &str) -> Self {
        Self(format!("{origin}\n{json}").into())
    }

    /// The serialized form.
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }

    /// Parses the form of [`Raw::text`].
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The provider that wrote it: `api/profile/model`.
    pub fn origin(&self) -> &str {
        self.0.split_once('\n').map_or("", |(origin, _)| origin)
    }

    /// The turn as the provider's JSON.
    pub fn json(&self) -> &str {
        self.0.split_once('\n').map_or("", |(_, json)| json)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("origin", &self.origin()).field("json", &self.json()).finish()
    }
}
