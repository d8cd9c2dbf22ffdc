//! The tool over one program.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use async_trait::async_trait;
use loop_core::types::Effect;
use serde_json::{Value, json};

use crate::connectors::command::environment::secrets_of;
use crate::connectors::command::output::Reader;
use crate::connectors::command::program;
use crate::connectors::command::run::{self, NoKnownEnd, ProgramJob};
use crate::connectors::command::sandbox::{Sandbox, SandboxFolders};
use crate::connectors::command::settings::CommandSettings;
use crate::connectors::command::template::Template;
use crate::connectors::error::{ConnectorError, one_line};
use crate::connectors::placeholders::Values;

/// A tool that runs one program: its parameters are filled into an array of arguments, its output is the result.
///
/// The program runs without a shell, in an empty environment but for what the settings name, and cannot gain rights that this
/// process does not have. It and everything in its process group are killed when it ends, and when the call is cancelled,
/// dropped or out of time.
#[derive(Clone)]
pub struct CommandTool {
    declaration: ToolDeclaration,
    program: PathBuf,
    template: Template,
    sandbox: Option<Arc<Sandbox>>,
    settings: Arc<CommandSettings>,
}

impl CommandTool {
    /// The tool over the program of `settings`, whose parameters are the properties of the declared schema.
    ///
    /// # Errors
    /// The program is not there or runs what it is given, a folder is not there, a placeholder is unknown or in a place
    /// where a caller could choose an option, or a setting contradicts another. With the effect `write_keyed`, the key
    /// of the call is not given to the program.
    pub fn new(declaration: ToolDeclaration, settings: CommandSettings) -> Result<Self, ConnectorError> {
        let program = program::find(&settings.program)?;
        let folder = existing(&settings.folder)?;
        if !folder.is_dir() {
            let message = format!("{}: is not a folder; name the folder to work in", folder.display());
            return Err(ConnectorError::Setting { key: "folder", message });
        }
        settings.variables().check()?;
        check_numbers(&settings)?;
        let stdin = settings.stdin.as_deref();
        let target = declaration.target.as_deref();
        let template = Template::read(&program, &settings.args, stdin, &declaration.schema, target)?;
        if declaration.effect == Some(Effect::WriteKeyed) && !template.has_key() {
            let message = "with the effect `write_keyed` the program must get `{call_key}`; add it, or correct the effect";
            return Err(ConnectorError::Setting { key: "args", message: message.to_owned() });
        }
        let sandbox = settings.sandbox.as_ref().map(|named| {
            let all = |folders: &[PathBuf]| -> Result<Vec<PathBuf>, ConnectorError> {
                folders.iter().map(|folder| existing(folder)).collect()
            };
            let folders = SandboxFolders { read: all(&named.read)?, write: all(&named.write)? };
            Ok(Arc::new(Sandbox::new(folders, program.clone(), folder.clone())))
        });
        let declaration = declaration.defined_by(&json!({
            "kind": "command", "program": settings.program, "args": settings.args, "stdin": settings.stdin,
        }));
        let settings = Arc::new(CommandSettings { folder, ..settings });
        Ok(Self { declaration, program, template, sandbox: sandbox.transpose()?, settings })
    }

    /// The absolute path of the program.
    pub fn program(&self) -> &Path {
        &self.program
    }
}

#[async_trait]
impl Tool for CommandTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, parameters: Value, context: &ToolContext, credentials: &Credentials) -> ToolResult {
        let (name, title) = (&*self.declaration.name, &*self.declaration.title);
        let values = Values { parameters: &parameters, scope: &context.scope, key: &context.key };
        let filled = match self.template.fill(&values) {
            Ok(filled) => filled,
            Err(message) => return ToolResult::invalid_input(name, title, message),
        };
        let env = match self.settings.variables().values(credentials) {
            Ok(env) => env,
            Err(message) => return ToolResult::failed(name, title, message),
        };
        let job = ProgramJob {
            program: self.program.clone(),
            args: filled.args,
            env,
            folder: self.settings.folder.clone(),
            stdin: filled.stdin,
            sandbox: self.sandbox.clone(),
            max_bytes: self.settings.max_bytes,
            // A change that is cut off for what it says would be half a change.
            is_killed_at_max: self.declaration.effect == Some(Effect::Read),
        };
        let ended = run::run(job, context).await;
        let mask = secrets_of(&self.settings.secret_env, credentials);
        match ended {
            Ok(ended) => self.reader().result(&ended, &context.scope, &mask),
            Err(NoKnownEnd::NotBegun(error)) if error.raw_os_error() == Some(TOO_LONG) => {
                let message = "the arguments are longer than the system permits; give shorter ones";
                ToolResult::invalid_input(name, title, message)
            }
            Err(NoKnownEnd::NotBegun(error)) => {
                let program = self.program.display();
                ToolResult::failed(
                    name,
                    title,
                    format!("`{program}` could not be started: {}", one_line(error)),
                )
            }
            Err(NoKnownEnd::Begun(error)) => {
                let message = format!("the program was killed: {}", one_line(error));
                ToolResult::in_doubt(name, title, message)
            }
        }
    }
}

impl CommandTool {
    fn reader(&self) -> Reader<'_> {
        Reader {
            declaration: &self.declaration,
            program: &self.program,
            output: self.settings.output,
            empty_exit: &self.settings.empty_exit,
            retry_exit: &self.settings.retry_exit,
            max_bytes: self.settings.max_bytes,
        }
    }
}

impl fmt::Debug for CommandTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of variables are not shown.
        let named = (&self.declaration.name, &self.program, &self.settings.args);
        f.debug_tuple("CommandTool").field(&named).finish()
    }
}

/// The number of the error "argument list too long".
const TOO_LONG: i32 = rustix::io::Errno::TOOBIG.raw_os_error();

pub(crate) fn existing(path: &Path) -> Result<PathBuf, ConnectorError> {
    path.canonicalize()
        .map_err(|_| ConnectorError::Missing { what: "folder", path: path.display().to_string() })
}

fn check_numbers(settings: &CommandSettings) -> Result<(), ConnectorError> {
    let wrong = |key: &'static str, message: String| Err(ConnectorError::Setting { key, message });
    if settings.max_bytes == 0 {
        return wrong("max_bytes", "nothing could be read; write at least 1".to_owned());
    }
    for (key, codes) in [("empty_exit", &settings.empty_exit), ("retry_exit", &settings.retry_exit)] {
        if codes.contains(&0) {
            return wrong(key, "the exit code 0 is a success; take it out".to_owned());
        }
    }
    match settings.retry_exit.iter().find(|code| settings.empty_exit.contains(code)) {
        Some(code) => {
            wrong("retry_exit", format!("the exit code {code} is in `empty_exit` as well; keep one"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
