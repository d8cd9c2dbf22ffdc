//! The text of a generated `loopgate.toml`.

use std::path::{Path, PathBuf};

use super::data::{Data, plain};
use super::{Scaffold, Template};

/// The parts of a domain file.
pub(super) struct Parts<'a> {
    pub(super) scaffold: &'a Scaffold,
    pub(super) name: String,
    /// The given folder of documents, as the file names it.
    pub(super) documents: Option<PathBuf>,
    /// The given database, as the file names it.
    pub(super) database: Option<PathBuf>,
    pub(super) data: &'a Data,
}

impl Parts<'_> {
    /// The names and texts of the sample files, for data that was not given.
    pub(super) fn samples(&self) -> Vec<(&'static str, &'static str)> {
        let mut samples = Vec::new();
        if self.has_documents() && self.documents.is_none() {
            samples.push(("documents/refunds.md", include_str!("samples/refunds.md")));
            samples.push(("documents/delivery.md", include_str!("samples/delivery.md")));
        }
        if self.scaffold.template.has_database() && !self.scaffold.has_own() {
            samples.push(("customers.sql", include_str!("samples/customers.sql")));
        }
        if self.scaffold.template == Template::Extract && !self.scaffold.has_own() {
            samples.push(("value.schema.json", include_str!("samples/value.schema.json")));
        }
        samples
    }

    fn has_documents(&self) -> bool {
        let is_sample = self.scaffold.template.has_documents() && !self.scaffold.has_own();
        is_sample || self.documents.is_some()
    }

    pub(super) fn domain_file(&self) -> String {
        let Scaffold { template, goal, .. } = self.scaffold;
        let is_own = self.scaffold.has_own();
        let source =
            match (self.has_documents(), self.database.is_some() || template.has_database() && !is_own) {
                (true, true) => "records and documents",
                (true, false) => "documents",
                (false, _) => "records",
            };
        let kind = self.scaffold.kind();
        let goal = goal.clone().unwrap_or_else(|| default_goal(*template, kind, source, is_own));
        let mut text = include_str!("parts/head.toml").to_owned();
        let mut put = |part: &str| {
            text.push_str(&format!("\n{part}"));
        };
        put(&format!("version = 1\nname = {}\ngoal = {}\n", toml(&self.name), toml(&goal)));
        let protocol = match template {
            Template::Support | Template::Documents if self.scaffold.reports() => {
                include_str!("parts/report.toml")
            }
            Template::Support => include_str!("parts/support.toml"),
            Template::Documents => include_str!("parts/documents.toml"),
            Template::Agent => {
                "[protocol]\ntype = \"conversation\"\n\n[item]\nkind = KIND\n# A JSON pointer: where an item has its title.\ntitle = \"/title\"\n"
            }
            Template::Turn => include_str!("parts/turn.toml"),
            Template::Step => include_str!("parts/step.toml"),
            Template::Extract => include_str!("parts/extract.toml"),
        };
        put(&protocol.replace("SOURCE", source).replace("KIND", &toml(kind)));
        if self.has_documents() {
            let folder = self.documents.as_deref().unwrap_or(Path::new("documents"));
            let examples = if is_own { "" } else { "examples = [\"lost parcel\"]\n" };
            let search = include_str!("parts/search.toml").replace("EXAMPLES", examples);
            put(&search.replace("FOLDER", &place(folder)));
            if template.has_documents() {
                put(include_str!("parts/selection.toml"));
            }
        }
        match &self.database {
            Some(file) => put(&self.data.entries(&place(file))),
            None if template.has_database() && !is_own => put(include_str!("parts/customers.toml")),
            None => {}
        }
        put(include_str!("parts/tail.toml"));
        text
    }
}

/// A path as TOML, followed by a comment if it is absolute.
fn place(path: &Path) -> String {
    let why = if path.is_absolute() {
        " # Absolute: the domain folder has only the root in common with it."
    } else {
        ""
    };
    format!("{}{why}", toml(&path.to_string_lossy()))
}

fn default_goal(template: Template, kind: &str, source: &str, is_own: bool) -> String {
    match template {
        Template::Support if is_own => {
            format!("Prepare a short report on a {kind}: what the {source} say, and what follows.")
        }
        Template::Support => {
            format!(
                "Prepare the answer to a {kind} for the person who sends it: what is known, and what to reply."
            )
        }
        Template::Documents => {
            format!("Answer a {kind} from the {source}, and say so when they do not answer it.")
        }
        Template::Agent | Template::Turn | Template::Step => {
            format!("Answer a {kind} with what the tools return.")
        }
        Template::Extract => format!("Read a {kind} and give what it says as one value."),
    }
}

/// A text as TOML writes it.
pub(super) fn toml(text: &str) -> String {
    ::toml::Value::String(text.to_owned()).to_string()
}

/// A folder's name as the name of a domain.
pub(super) fn name_of(folder: &Path) -> String {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = plain(&name).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    match name.trim_matches('-') {
        "" => "domain".to_owned(),
        name => name.to_owned(),
    }
}
