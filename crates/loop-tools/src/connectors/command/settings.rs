//! What a command tool is made from.

use std::path::PathBuf;

use crate::connectors::command::environment::Variables;
use crate::connectors::command::sandbox::SandboxFolders;

/// The most bytes of a program's output that are kept, unless the settings give another number.
pub const COMMAND_BYTES_MAX: usize = 262_144;

/// The settings of a command tool. Placeholders `{name}` in `args` and `stdin` are parameters of the tool,
/// `{scope.account}`, `{scope.account_name}`, `{scope.asset}`, `{scope.item}`, `{scope.person}` or `{call_key}`.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// The program: a name that is looked for in `PATH` once, when the tool is made, or an absolute path.
    pub program: String,
    /// The arguments. An element never becomes more than one argument, except an array that is alone in its element.
    pub args: Vec<String>,
    /// The working folder. It must exist when the tool is made.
    pub folder: PathBuf,
    /// Variables that the program gets as they are in the environment of this process. Those that are not set are left out.
    pub env: Vec<String>,
    /// Variables with their values.
    pub set: Vec<(String, String)>,
    /// Variables whose values come from the tool's [`Credentials`](crate::Credentials) and are masked in its output.
    pub secret_env: Vec<String>,
    /// How the output is read.
    pub output: CommandOutput,
    /// Exit codes that mean that nothing was found.
    pub empty_exit: Vec<u8>,
    /// Exit codes of a failure that may pass.
    pub retry_exit: Vec<u8>,
    /// The most bytes of output that are kept. A program that only reads is killed beyond them.
    pub max_bytes: usize,
    /// What the program reads from its standard input. `None`: nothing, it is closed.
    pub stdin: Option<String>,
    /// The folders that the program may use, where the kernel has Landlock. `None`: all that its user may use.
    pub sandbox: Option<SandboxFolders>,
}

/// How the output of a program is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandOutput {
    /// As a text.
    #[default]
    Text,
    /// As a list of lines. Blank lines are left out.
    Lines,
    /// As one JSON value.
    Json,
}

impl CommandSettings {
    /// The settings of a program without arguments that works in `folder` with an empty environment.
    pub fn new(program: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            folder: folder.into(),
            env: Vec::new(),
            set: Vec::new(),
            secret_env: Vec::new(),
            output: CommandOutput::default(),
            empty_exit: Vec::new(),
            retry_exit: Vec::new(),
            max_bytes: COMMAND_BYTES_MAX,
            stdin: None,
            sandbox: None,
        }
    }

    pub(crate) fn variables(&self) -> Variables<'_> {
        Variables { env: &self.env, set: &self.set, secret_env: &self.secret_env }
    }
}
