//! Makes a tool that works on the files of a folder, from the table `files` of a tool.

use std::sync::Arc;

use loop_tools::{Tool, ToolDeclaration};
use serde_json::Value;

use crate::config::FilesConfig;
use crate::error::DomainError;
use crate::file::File;

/// Makes the tool `name`.
#[cfg(feature = "files")]
pub(crate) fn make(
    file: &File,
    name: &str,
    config: &FilesConfig,
    declaration: ToolDeclaration,
) -> Result<Arc<dyn Tool>, DomainError> {
    use loop_tools::connectors::{ConnectorError, FilesSettings, FilesTool};

    let at = |key: &'static str| ["tools", name, "files", key];
    let mut settings = FilesSettings::new(file.resolve(&at("folder"), &config.folder), work(config));
    settings.include.clone_from(&config.include);
    settings.max_bytes = config.max_bytes.unwrap_or(settings.max_bytes);
    settings.max_results = config.max_results.unwrap_or(settings.max_results);
    let made = FilesTool::new(declaration, &settings).map_err(|error| match error {
        ConnectorError::Setting { key: "parameters", message } => {
            file.error(&["tools", name, "parameters"], message)
        }
        ConnectorError::Setting { key, message } => file.error(&at(key), message),
        error => file.error(&at("folder"), error.to_string()),
    })?;
    Ok(Arc::new(made))
}

/// The JSON Schema of the parameters that this kind of work always has.
#[cfg(feature = "files")]
pub(crate) fn schema(config: &FilesConfig) -> Option<Value> {
    Some(work(config).schema())
}

#[cfg(feature = "files")]
fn work(config: &FilesConfig) -> loop_tools::connectors::FilesWork {
    use loop_tools::connectors::FilesWork;

    use crate::config::FilesWorkConfig;

    match config.work {
        FilesWorkConfig::List => FilesWork::List,
        FilesWorkConfig::Read => FilesWork::Read,
        FilesWorkConfig::Search => FilesWork::Search,
        FilesWorkConfig::Write => FilesWork::Write,
        FilesWorkConfig::Patch => FilesWork::Patch,
    }
}

/// Fails: this program was built without such tools.
#[cfg(not(feature = "files"))]
pub(crate) fn make(
    file: &File,
    name: &str,
    _: &FilesConfig,
    _: ToolDeclaration,
) -> Result<Arc<dyn Tool>, DomainError> {
    let message = "tools of kind `files` are not in this build; build it with `--features files`";
    Err(file.error(&["tools", name, "kind"], message))
}

/// `None`: this program was built without such tools.
#[cfg(not(feature = "files"))]
pub(crate) fn schema(_: &FilesConfig) -> Option<Value> {
    None
}
