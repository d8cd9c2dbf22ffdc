//! A new domain folder that loads and runs at once: `loopgate init`.

#[cfg(test)]
mod tests;
mod text;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use loop_tools::connectors::Database;

use crate::error::DomainError;
use text::Parts;

/// What a new domain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// A document about a ticket, from a database and from documents.
    Support,
    /// An answer to a question, from documents.
    Documents,
    /// A conversation with tools.
    Agent,
    /// A value that fits a schema, from a message.
    Extract,
}

impl Template {
    /// All, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Support, Self::Documents, Self::Agent, Self::Extract];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Support => "support",
            Self::Documents => "documents",
            Self::Agent => "agent",
            Self::Extract => "extract",
        }
    }

    /// What it is for, in one line.
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Support => "a document about a ticket, from a database and from documents",
            Self::Documents => "an answer to a question, from documents",
            Self::Agent => "a conversation with tools",
            Self::Extract => "a value that fits a schema, from a message",
        }
    }

    /// The word for a work item where none is given.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Support => "ticket",
            Self::Documents => "question",
            Self::Agent => "request",
            Self::Extract => "message",
        }
    }

    /// The sample work item: its file, and what is in it.
    fn item(self) -> (&'static str, &'static str) {
        match self {
            Self::Support => ("items/T-1.json", include_str!("samples/ticket.json")),
            Self::Documents => ("items/question.md", include_str!("samples/question.md")),
            Self::Agent => ("items/request.md", include_str!("samples/request.md")),
            Self::Extract => ("items/message.md", include_str!("samples/message.md")),
        }
    }
}

/// A domain that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaffold {
    /// What it is for.
    pub template: Template,
    /// Its name. `None`: the folder's.
    pub name: Option<String>,
    /// The word for a work item, for example `ticket`. `None`: the template's.
    pub kind: Option<String>,
    /// What the runs are for. The model reads it. `None`: a sentence of the template.
    pub goal: Option<String>,
    /// A folder of documents that is there. `None`: samples are written, where the template has documents.
    pub documents: Option<PathBuf>,
    /// A SQLite file that is there: each of its tables gets a tool. `None`: a sample is written, where the template has a
    /// database.
    pub database: Option<PathBuf>,
}

/// A domain that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaffolded {
    /// The files that were written, in their order.
    pub files: Vec<PathBuf>,
    /// The sample work item among them.
    pub item: PathBuf,
}

impl Scaffold {
    /// Writes the domain into `folder`, which must not be there yet, or be empty. Nothing is ever overwritten.
    ///
    /// # Errors
    /// If the folder holds something, a given place cannot be read, or a file cannot be written. Files that were written
    /// before that stay.
    pub fn write(&self, folder: &Path) -> Result<Scaffolded, DomainError> {
        let unreadable = |path: &Path, error: &dyn std::fmt::Display| DomainError::Unreadable {
            path: path.to_owned(),
            message: error.to_string(),
        };
        if let Some(documents) = self.documents.as_deref().filter(|path| !path.is_dir()) {
            return Err(unreadable(documents, &"it is not a folder"));
        }
        let tables = match &self.database {
            Some(path) => {
                let database = Database::open(path).and_then(|database| database.tables());
                database.map_err(|error| unreadable(path, &error))?
            }
            None => Vec::new(),
        };
        self.take(folder)?;
        let parts = Parts {
            scaffold: self,
            name: self.name.clone().unwrap_or_else(|| text::name_of(folder)),
            documents: self.documents.as_deref().map(|path| seen_from(folder, path)),
            database: self.database.as_deref().map(|path| seen_from(folder, path)),
            tables,
        };
        let mut files = Vec::new();
        let mut write = |name: &str, text: &str| {
            let path = folder.join(name);
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = written.and_then(|()| {
                let file = fs::OpenOptions::new().write(true).create_new(true).open(&path);
                file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            });
            written.map_err(|error| DomainError::Unwritable {
                path: path.clone(),
                message: error.to_string(),
            })?;
            files.push(path);
            Ok::<_, DomainError>(())
        };
        write("loopgate.toml", &parts.domain_file())?;
        for (name, text) in parts.samples() {
            write(name, text)?;
        }
        let (name, text) = self.template.item();
        write(name, text)?;
        Ok(Scaffolded { item: folder.join(name), files })
    }

    /// Makes the folder where it is not there. One that holds something belongs to its owner.
    fn take(&self, folder: &Path) -> Result<(), DomainError> {
        let unwritable = |message: String| DomainError::Unwritable { path: folder.to_owned(), message };
        match fs::read_dir(folder) {
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => Err(DomainError::Taken { path: folder.to_owned() }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(folder).map_err(|error| unwritable(error.to_string()))
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                Err(DomainError::Taken { path: folder.to_owned() })
            }
            Err(error) => Err(unwritable(error.to_string())),
        }
    }
}

/// A place as the domain file names it: relative where it is below the folder, else absolute.
fn seen_from(folder: &Path, path: &Path) -> PathBuf {
    let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (folder, path) = (whole(folder), whole(path));
    path.strip_prefix(&folder).map(Path::to_owned).unwrap_or(path)
}
