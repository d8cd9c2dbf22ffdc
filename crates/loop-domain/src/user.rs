//! The settings of a user, for commands that name no model, journal or domain.

use std::path::Path;

use loop_core::types::Tier;
use loop_tools::files;
use serde::Deserialize;

use crate::error::DomainError;
use crate::file::Place;
use crate::tree::Node;

/// A model that a user prefers: it replaces that of the domain file, and is replaced by one that a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserModel {
    /// Where the user says so, for messages: for example `LOOPGATE_MODEL`.
    pub place: String,
    /// The tier that it is for.
    pub tier: Tier,
    /// `PROVIDER/NAME`.
    pub model: String,
}

/// What a user's `config.toml` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserSettings {
    /// `PROVIDER/NAME` of the base model. `None`: the domain's.
    pub model: Option<String>,
    /// A file or the URL of a database. `None`: the usual place.
    pub journal: Option<String>,
    /// A domain folder. `None`: each command names one.
    pub domain: Option<String>,
}

impl UserSettings {
    /// Reads a user's `config.toml`. A file that is not there says nothing.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn read(path: &Path) -> Result<Self, DomainError> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = files::text(path, files::MAX_BYTES)
            .map_err(|error| DomainError::Unreadable { path: path.to_owned(), message: error.to_string() })?;
        let place = Place { path: path.to_owned(), text };
        Node::parse(&place.text).and_then(|tree| Self::deserialize(&tree)).map_err(|fault| place.error(fault))
    }
}
