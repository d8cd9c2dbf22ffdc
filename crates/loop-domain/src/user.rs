//! The user's settings: the model, journal and domain of commands that name none.

use std::path::Path;

use loop_core::types::Tier;
use loop_tools::files;
use serde::Deserialize;

use crate::error::DomainError;
use crate::file::{SourceFile, path_of};
use crate::remote;
use crate::similar::similar;
use crate::tree::Node;

/// A model that a user prefers. It replaces that of the domain file, and a model on the command line replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserModel {
    /// Where the user sets it, for messages, for example `LOOPGATE_MODEL`.
    pub place: String,
    /// The tier that it is for.
    pub tier: Tier,
    /// `PROVIDER/NAME`.
    pub model: String,
    /// The URL of its server. `None`: as the domain or the provider says.
    pub base_url: Option<String>,
    /// Whether it applies to every domain. A domain without its provider then keeps its own model.
    pub is_general: bool,
}

impl UserModel {
    /// A line that says that a domain keeps its own model, since it does not know the provider. `None`: it knows it, or
    /// cannot be read.
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

/// The contents of a user's `config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserSettings {
    /// `PROVIDER/NAME` of the base model. `None`: the domain's.
    pub model: Option<String>,
    /// The URL of that model's server. `None`: as the domain or the provider says.
    pub base_url: Option<String>,
    /// A file or the URL of a database. `None`: the default path.
    pub journal: Option<String>,
    /// A domain folder. `None`: each command names one.
    pub domain: Option<String>,
}

impl UserSettings {
    /// Reads a user's `config.toml`. A missing file has no settings.
    ///
    /// # Errors
    /// The first error, with its place.
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
