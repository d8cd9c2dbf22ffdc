//! Generates tools from an OpenAPI document.
//!
//! ```text
//! text ─▶ document ─▶ select ─▶ for each operation: server, parameters, body, auth ─▶ entry ─▶ loaded once ─▶ TOML
//! ```
//!
//! The document is untrusted, and the generated text decides where requests go and becomes part of prompts. So no text
//! of the document can become a placeholder, a key or a comment of more than one line. No reference is fetched. A tool
//! that may change something or connects to a private network is switched off.

mod auth;
mod document;
mod name;
mod schema;
mod select;
mod server;
mod text;
mod tool;
mod write;
mod yaml;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::LoadOptions;
use crate::error::DomainError;
use crate::file::File;
use crate::import::{ImportError, ImportOptions, Imported};
use crate::openapi::document::Document;
use crate::openapi::server::Server;
use crate::openapi::text::line;
use crate::openapi::write::Entry;

/// A minimal domain file around a tool, which is loaded to see whether the tool is valid.
const AROUND: &str = "version = 1\nname = \"import\"\n[[section]]\nid = \"a\"\nheading = \"A\"\n\n";

pub(crate) fn import(text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    let document = Document::read(text).map_err(ImportError::new)?;
    let left_out = if options.only.is_empty() { document.left_out() } else { Vec::new() };
    let named: String = left_out.iter().map(|line| format!("# left out: {line}\n")).collect();
    if options.list {
        let toml = select::list(&document) + &named;
        return Ok(Imported { toml, ..Imported::default() });
    }
    let given = options.base_url.as_deref().map(Server::given).transpose().map_err(ImportError::new)?;
    let operations = select::chosen(&document, &options.only).map_err(ImportError::new)?;
    let mut names = BTreeSet::new();
    let mut imported = Imported { left_out: left_out.len(), ..Imported::default() };
    let title = document.title();
    imported.toml = format!(
        "# Tools from an OpenAPI document{}{title}\n# Review each of them: which effect it has, what its texts say, where it connects to.\n",
        if title.is_empty() { "" } else { ": " }
    );
    imported.toml.push_str(&named);
    for operation in &operations {
        let server = match &given {
            Some(server) => server.clone(),
            None => Server::of_document(&document, operation).map_err(|message| {
                ImportError::new(format!("{}: {message}", line(&operation.place(), 100)))
            })?,
        };
        let mut entry = tool::entry(&document, operation, &server, &mut names);
        check(&mut entry);
        imported.toml.push('\n');
        imported.toml.push_str(&entry.toml(false));
        imported.places.insert(server.place);
        imported.secrets.extend(entry.secret.clone());
        imported.count += 1;
        imported.off += usize::from(!entry.is_on());
    }
    Ok(imported)
}

/// Switches a tool off that does not load, with the error as the reason.
fn check(entry: &mut Entry) {
    // What it needs from the operator is known, and an empty user or another host cannot be judged before.
    let text = format!("{AROUND}{}", entry.toml(true));
    let options = LoadOptions::default();
    let loaded = File::of_text(PathBuf::from("loopgate.toml"), text, &options);
    if let Err(error) = loaded.and_then(|file| crate::tools::tools(&file, &options).map(|_| ())) {
        let message = match error {
            DomainError::Invalid { message, .. } => message,
            other => other.to_string(),
        };
        entry.off.push(format!("it cannot be loaded as it is: {message}"));
    }
}
