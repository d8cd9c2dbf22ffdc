//! Generates the tools of a domain from an OpenAPI document.

use std::collections::BTreeSet;

/// The most bytes of a document that is imported: 64 MiB.
pub const OPENAPI_BYTES_MAX: usize = 64 << 20;

/// Which operations of a document become tools, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The operations that become tools: ids, tags, `METHOD /path`, or the beginnings of paths. Empty: all of them.
    pub only: Vec<String>,
    /// The URL of the server, in place of the one that the document names. Setting it confirms a server on this
    /// machine, in a private network or without encryption.
    pub base_url: Option<String>,
    /// Whether the result is a list of the operations instead, one a line: id, method and path, tags.
    pub list: bool,
}

/// The tools that were generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The entries of a domain file, or the list of operations.
    pub toml: String,
    /// How many tools there are.
    pub count: usize,
    /// How many of them have `enabled = false` until an operator has reviewed them.
    pub off: usize,
    /// How many operations and paths could not become a tool, each named in a comment. 0 with [`ImportOptions::only`].
    pub left_out: usize,
    /// The hosts that the tools connect to, with the port if it is not the default.
    pub places: BTreeSet<String>,
    /// The names of the secrets that they need.
    pub secrets: BTreeSet<String>,
}

/// Why a document cannot be imported. The message is one line: what, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImportError {
    message: String,
}

impl ImportError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// Generates tools of kind `http` from an OpenAPI document of version 3.0, 3.1 or 3.2, in JSON or YAML, as text for a
/// domain file.
///
/// The text always loads in a domain file that has no tools of the same names. A tool has `enabled = false` if it may
/// change something, needs a value from the operator, or uses a server that the operator has not confirmed.
///
/// # Errors
/// The document cannot be read or is of another version, an entry of [`ImportOptions::only`] names nothing, the server is not
/// known, or the program is built without tools of kind `http`.
///
/// ```
/// use loop_domain::import::{ImportOptions, import_openapi};
///
/// let document = r#"
/// openapi: 3.0.3
/// info: { title: Pets, version: "1" }
/// servers: [{ url: "https://pets.example.com/v1" }]
/// paths:
///   /pets/{petId}:
///     get: { operationId: getPet, summary: "A pet", parameters: [{ name: petId, in: path, required: true }] }
/// "#;
/// # if cfg!(feature = "http") {
/// let imported = import_openapi(document, &ImportOptions::default()).unwrap();
/// assert!(imported.toml.contains("[tools.fetch_pet]"));
/// assert!(imported.toml.contains("url = \"https://pets.example.com/v1/pets/{petId}\""));
/// # }
/// ```
pub fn import_openapi(text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    #[cfg(feature = "http")]
    return crate::openapi::import(text, options);
    #[cfg(not(feature = "http"))]
    {
        let _ = (text, options);
        Err(ImportError::new(
            "this program was built without tools of kind `http`; build it with `--features http`",
        ))
    }
}
