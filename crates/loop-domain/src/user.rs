//! The settings of a user, for commands that name no model, journal or domain.

use std::path::Path;

use loop_core::types::Tier;
use loop_tools::files;
use serde::Deserialize;

use crate::error::DomainError;
use crate::file::{SourceFile, path_of};
use crate::remote;
use crate::similar::similar;
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
    /// Where its server is. `None`: where the domain or the provider says.
    pub base_url: Option<String>,
    /// Whether it is for every domain, so that one without its provider keeps its own model.
    pub is_general: bool,
}

impl UserModel {
    /// That a domain keeps its own model, since it does not know the provider, as one line. `None`: it knows it, or cannot be read.
    pub fn not_in(&self, domain: &Path, profile: Option<&str>) -> Option<String> {
        let path = path_of(domain);
        let mut tree = Node::parse(&files::text(&path, files::MAX_BYTES).ok()?).ok()?;
        let profiles = tree.take("profiles");
        let chosen = profiles.as_ref().zip(profile).and_then(|(all, chosen)| all.node.get(chosen));
        if let Some(chosen) = chosen {
            tree.merge(chosen.node.clone());
        }
        let own = tree.get("providers").map_or::<&[_], _>(&[], |entry| entry.node.entries());
        let names = remote::names(own.iter().map(|entry| entry.key.as_str()));
        let (provider, _) = self.model.split_once('/')?;
        if !self.is_general || names.contains(&provider) {
            return None;
        }
        let similar =
            similar(provider, names).map_or_else(String::new, |it| format!(", did you mean `{it}`?"));
        Some(format!(
            "{}: {} has no provider `{provider}`{similar}; it keeps its own model",
            self.place,
            path.display()
        ))
    }
}

/// What a user's `config.toml` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserSettings {
    /// `PROVIDER/NAME` of the base model. `None`: the domain's.
    pub model: Option<String>,
    /// The URL of that model's server. `None`: where the domain or the provider says.
    pub base_url: Option<String>,
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
        let place = SourceFile { path: path.to_owned(), text };
        Node::parse(&place.text).and_then(|tree| Self::deserialize(&tree)).map_err(|fault| place.error(fault))
    }
}
