//! Generates a new domain folder that loads and runs at once: what `loopgate init` writes.

mod data;
mod item;
#[cfg(test)]
mod tests;
mod text;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use loop_tools::connectors::{Database, documents_below};

use crate::error::DomainError;
use data::Data;
use item::FirstItem;
use text::Parts;

/// The kind of domain to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// A document about a ticket, from a database and from documents.
    Support,
    /// An answer to a question, from documents.
    Documents,
    /// A conversation with tools.
    Agent,
    /// A turn of a chat, by the preset `turn`.
    Turn,
    /// One checked action a step, by the preset `step`.
    Step,
    /// A value that fits a schema, extracted from a message.
    Extract,
}

impl Template {
    /// All templates, in the order in which they are offered.
    pub const ALL: [Self; 6] =
        [Self::Support, Self::Documents, Self::Agent, Self::Turn, Self::Step, Self::Extract];

    /// The template's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Support => "support",
            Self::Documents => "documents",
            Self::Agent => "agent",
            Self::Turn => "turn",
            Self::Step => "step",
            Self::Extract => "extract",
        }
    }

    /// The purpose of the template, in one line.
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Support => "a document about a ticket, from a database and from documents",
            Self::Documents => "an answer to a question, from documents",
            Self::Agent => "a conversation with tools",
            Self::Turn => "a chat whose turns are runs of their own, with limits against repeats",
            Self::Step => "one action a step, each checked before it runs; what is denied ends the run",
            Self::Extract => "a value that fits a schema, from a message",
        }
    }

    /// The default word for a work item.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Support => "ticket",
            Self::Documents => "question",
            Self::Agent | Self::Turn | Self::Step => "request",
            Self::Extract => "message",
        }
    }

    /// Whether its runs are conversations, which `loopgate chat` continues.
    pub fn is_conversation(self) -> bool {
        matches!(self, Self::Agent | Self::Turn | Self::Step)
    }

    /// Whether a sample database is written if no data is given.
    pub fn has_database(self) -> bool {
        self == Self::Support || self.is_conversation()
    }

    /// Whether sample documents are written if no data is given.
    pub fn has_documents(self) -> bool {
        matches!(self, Self::Support | Self::Documents)
    }
}

/// The options for a new domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaffold {
    /// The kind of domain.
    pub template: Template,
    /// Its name. `None`: the name of the folder.
    pub name: Option<String>,
    /// The word for a work item, for example `ticket`. `None`: the template's.
    pub kind: Option<String>,
    /// What the runs are for. The model reads it. `None`: a sentence of the template.
    pub goal: Option<String>,
    /// A folder with documents. It must exist. `None`: samples are written if the template has documents and no
    /// database is given.
    pub documents: Option<PathBuf>,
    /// A SQLite file. It must exist. Each table and foreign key gets a tool, and the first row becomes the work item.
    /// `None`: a sample is written if the template has a database and no documents are given.
    pub database: Option<PathBuf>,
}

/// The files of a generated domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDomain {
    /// The files that were written, in the order of writing.
    pub files: Vec<PathBuf>,
    /// The sample work item among them.
    pub item: PathBuf,
}

/// The data that the caller gives, as it was found.
#[derive(Debug, Default)]
struct DataSources {
    /// The documents below the folder.
    documents: Vec<String>,
    data: Data,
}

impl Scaffold {
    /// Checks the options, and writes nothing.
    ///
    /// # Errors
    /// `folder` is not empty, a text is empty, or a path cannot be read or has no data.
    pub fn check(&self, folder: &Path) -> Result<(), DomainError> {
        self.given().and_then(|_| is_free(folder))
    }

    fn given(&self) -> Result<DataSources, DomainError> {
        let wrong =
            |option: &str, message: String| DomainError::Option { option: option.to_owned(), message };
        for (option, text) in [("--name", &self.name), ("--kind", &self.kind), ("--goal", &self.goal)] {
            if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                return Err(wrong(option, "it is empty; write a word, or leave it out".to_owned()));
            }
        }
        let mut given = DataSources::default();
        if let Some(folder) = &self.documents {
            given.documents =
                documents_below(folder).map_err(|error| wrong("--documents", error.to_string()))?;
        }
        if let Some(file) = &self.database {
            let tables = Database::open(file).and_then(|database| database.tables());
            let tables = tables.map_err(|error| wrong("--database", error.to_string()))?;
            if tables.iter().all(|table| table.columns.is_empty()) {
                let message = format!("{}: it holds no table; name a database that does", file.display());
                return Err(wrong("--database", message));
            }
            given.data = Data::new(tables);
        }
        Ok(given)
    }

    /// Writes the domain into `folder`, which must not exist or be empty. No file is overwritten.
    ///
    /// # Errors
    /// As [`check`](Self::check), or a file cannot be written. Files that were written before stay.
    pub fn write(&self, folder: &Path) -> Result<NewDomain, DomainError> {
        let DataSources { documents, data } = self.given()?;
        is_free(folder)?;
        let unwritable = |path: &Path, error: &dyn std::fmt::Display| DomainError::Unwritable {
            path: path.to_owned(),
            message: error.to_string(),
        };
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        let parts = Parts {
            scaffold: self,
            name: self.name.clone().unwrap_or_else(|| text::name_of(folder)),
            documents: self.documents.as_deref().map(|path| seen_from(folder, path)),
            database: self.database.as_deref().map(|path| seen_from(folder, path)),
            data: &data,
        };
        let first = FirstItem::new(self, &documents, &data);
        let mut files = Vec::new();
        let mut write = |name: &str, text: &str| {
            let path = folder.join(name);
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = written.and_then(|()| {
                let file = fs::OpenOptions::new().write(true).create_new(true).open(&path);
                file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            });
            written.map_err(|error| unwritable(&path, &error))?;
            files.push(path);
            Ok::<_, DomainError>(())
        };
        write("loopgate.toml", &parts.domain_file())?;
        write("domain.schema.json", &format!("{:#}\n", crate::schema()))?;
        write(".gitignore", include_str!("samples/gitignore"))?;
        for (name, text) in parts.samples() {
            write(name, text)?;
        }
        if self.template == Template::Extract && self.has_own() {
            write("value.schema.json", &first.schema())?;
        }
        write("evals/first.json", &first.case(self))?;
        write(&first.file, &first.text)?;
        Ok(NewDomain { item: folder.join(&first.file), files })
    }

    /// The word for a work item.
    fn kind(&self) -> &str {
        let own = if self.database.is_some() && self.template == Template::Support {
            "record"
        } else {
            self.template.kind()
        };
        self.kind.as_deref().unwrap_or(own)
    }

    /// Whether its runs write a report about a row or a document, and not an answer to a person.
    fn reports(&self) -> bool {
        match self.template {
            Template::Support => self.has_own(),
            Template::Documents => self.database.is_some(),
            Template::Agent | Template::Turn | Template::Step | Template::Extract => false,
        }
    }

    /// Whether the caller gives data, so that no samples are written.
    fn has_own(&self) -> bool {
        self.documents.is_some() || self.database.is_some()
    }
}

/// Fails if a folder exists and is not empty.
fn is_free(folder: &Path) -> Result<(), DomainError> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(DomainError::Taken { path: folder.to_owned() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(DomainError::Taken { path: folder.to_owned() })
        }
        Err(error) => Err(DomainError::Unwritable { path: folder.to_owned(), message: error.to_string() }),
    }
}

/// A path for the domain file: relative to the folder, so that both can be moved together, or absolute if they share
/// only the root. Symbolic links are not resolved.
fn seen_from(folder: &Path, path: &Path) -> PathBuf {
    let whole = |path: &Path| fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let (Ok(from), Ok(to)) = (whole(folder), std::path::absolute(path)) else { return path.to_owned() };
    let to = match (to.parent().map(whole), to.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => whole(path).unwrap_or(to),
    };
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    if common < 2 {
        return to;
    }
    let up = from.components().skip(common).map(|_| std::path::Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}
