//! Makes a tool that runs a program, from the table `command` of a tool.

use std::sync::Arc;

use loop_tools::{Tool, ToolDeclaration};

use crate::config::CommandConfig;
use crate::error::DomainError;
use crate::file::File;

/// A tool that runs a program, with warnings for the author of the domain.
pub(crate) struct MadeCommand {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) warnings: Vec<String>,
}

/// Kills every program that the tools of domains have started. For a process that exits at once.
pub fn kill_commands() {
    #[cfg(all(feature = "command", unix))]
    loop_tools::connectors::kill_commands();
}

/// Makes the tool `name`.
#[cfg(all(feature = "command", unix))]
pub(crate) fn make(
    file: &File,
    name: &str,
    config: &CommandConfig,
    declaration: ToolDeclaration,
) -> Result<MadeCommand, DomainError> {
    use loop_tools::connectors::{
        CommandOutput, CommandSettings, CommandTool, ConnectorError, SandboxFolders,
    };

    use crate::config::OutputForm;

    let at = |key: &'static str| ["tools", name, "command", key];
    let resolve = |path: &[&str], text: &str| file.resolve(path, text);
    let folder = match &config.folder {
        Some(folder) => resolve(&at("folder"), folder),
        None => file.folder.clone(),
    };
    let program = resolved(file, &at("program"), &config.program);
    let sandbox = config.sandbox.as_ref().map(|folders| {
        let all = |key: &str, named: &[String]| {
            let path = ["tools", name, "command", "sandbox", key];
            named.iter().map(|folder| resolve(&path, folder)).collect()
        };
        SandboxFolders { read: all("read", &folders.read), write: all("write", &folders.write) }
    });
    let mut settings = CommandSettings::new(program, folder);
    settings.args.clone_from(&config.args);
    settings.env.clone_from(&config.env);
    settings.set = config.set.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    settings.secret_env.clone_from(&config.secret_env);
    settings.output = match config.output {
        OutputForm::Text => CommandOutput::Text,
        OutputForm::Lines => CommandOutput::Lines,
        OutputForm::Json => CommandOutput::Json,
    };
    settings.empty_exit.clone_from(&config.empty_exit);
    settings.retry_exit.clone_from(&config.retry_exit);
    settings.max_bytes = config.max_bytes.unwrap_or(settings.max_bytes);
    settings.stdin.clone_from(&config.stdin);
    settings.sandbox = sandbox;
    let tool = CommandTool::new(declaration, settings).map_err(|error| match error {
        ConnectorError::Setting { key, message } => file.error(&at(key), message),
        error => {
            // A folder that is not there: one of the sandbox, unless the working folder is the one.
            let missing = config.folder.as_ref().map(|named| resolve(&at("folder"), named));
            let key = if missing.is_some_and(|path| !path.exists()) { "folder" } else { "sandbox" };
            file.error(&at(key), error.to_string())
        }
    })?;
    Ok(MadeCommand {
        tool: Arc::new(tool),
        warnings: program_warnings(&format!("tool `{name}`"), config.sandbox.is_some(), &config.env),
    })
}

/// Fails: this program was built without such tools.
#[cfg(not(all(feature = "command", unix)))]
pub(crate) fn make(
    file: &File,
    name: &str,
    _: &CommandConfig,
    _: ToolDeclaration,
) -> Result<MadeCommand, DomainError> {
    let message = if cfg!(unix) {
        "tools of kind `command` are not in this build; build it with `--features command`"
    } else {
        "tools of kind `command` need a Unix system; take the tool out"
    };
    Err(file.error(&["tools", name, "kind"], message))
}

/// The absolute path of the program that the text at `path` names. A name without a slash is looked up in `PATH` when
/// it is run.
#[cfg(all(feature = "command", unix))]
pub(crate) fn resolved(file: &File, path: &[&str], program: &str) -> String {
    if !program.contains('/') || program.starts_with('/') {
        return program.to_owned();
    }
    let path = file.resolve(path, program);
    std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned()
}

/// Warnings for the author of a `command`. `owner` is the tool or server in the wording of messages.
#[cfg(all(feature = "command", unix))]
pub(crate) fn program_warnings(owner: &str, has_sandbox: bool, env: &[String]) -> Vec<String> {
    use loop_tools::connectors::SandboxSupport;

    let mut warnings = Vec::new();
    if has_sandbox {
        let missing = match SandboxSupport::of_this_system() {
            SandboxSupport::Full => None,
            SandboxSupport::Partial => {
                Some("this kernel is too old for all of Landlock, so only a part of it is enforced")
            }
            _ => Some("this kernel has no Landlock, so it is not enforced"),
        };
        warnings.extend(missing.map(|missing| format!("{owner}: `command.sandbox`: {missing}")));
    }
    for variable in env.iter().filter(|variable| crate::secret::sounds_secret(variable)) {
        warnings.push(format!(
            "{owner}: `{variable}` in `command.env` sounds like a secret and is not masked; move it to `secret_env`"
        ));
    }
    warnings
}
