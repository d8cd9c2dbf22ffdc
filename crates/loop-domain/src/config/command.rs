//! `command` of a tool: the program that it runs, and with what.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::OrderedTable;

/// A program, its arguments, and what it may use.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(all(feature = "command", unix)), allow(dead_code, reason = "only its form is checked"))]
pub(crate) struct CommandConfig {
    /// The program: a name that is looked for in `PATH` when the domain is read, an absolute path, or a path with a `/` from the
    /// domain's folder. A shell is refused, and so is a program that runs another one.
    pub(crate) program: String,
    /// The arguments, never seen by a shell. `{target}` is the parameter `target`; `{scope.account}`, `{scope.account_name}`,
    /// `{scope.asset}`, `{scope.item}` and `{scope.person}` are what the work item concerns; `{call_key}` is the key that all
    /// tries of one call share. `{{` is a brace. An array alone in its element becomes several arguments. Default: none.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The folder in which it works. Default: the domain's folder.
    pub(crate) folder: Option<String>,
    /// The variables of the environment that it gets as they are. Default: none.
    #[serde(default)]
    pub(crate) env: Vec<String>,
    /// Variables with their values. Default: none.
    #[serde(default)]
    pub(crate) set: OrderedTable<String>,
    /// The variables of the environment that it gets and whose values are masked in all that a run reads. Default: none.
    #[serde(default)]
    pub(crate) secret_env: Vec<String>,
    /// How its output is read: as a `text`, as `lines`, or as one `json` value. Default: `text`.
    #[serde(default)]
    pub(crate) output: OutputForm,
    /// Exit codes that mean that nothing was found. Default: none.
    #[serde(default)]
    pub(crate) empty_exit: Vec<u8>,
    /// Exit codes of a failure that may pass. Default: none.
    #[serde(default)]
    pub(crate) retry_exit: Vec<u8>,
    /// The most bytes of its output. A program that only reads is stopped there. Default: 262,144.
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: Option<usize>,
    /// A text that it reads from its standard input, with placeholders. Default: none.
    pub(crate) stdin: Option<String>,
    /// The only folders that it may use, where the kernel has Landlock. Default: all that its user may use.
    pub(crate) sandbox: Option<SandboxConfig>,
}

/// The forms of a program's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputForm {
    /// A text.
    #[default]
    Text,
    /// A list of lines.
    Lines,
    /// One JSON value.
    Json,
}

/// The only folders that a program may use, besides its working folder and the system's own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(not(all(feature = "command", unix)), allow(dead_code, reason = "only its form is checked"))]
pub(crate) struct SandboxConfig {
    /// Folders and files that it may read and run. Default: none.
    pub(crate) read: Vec<String>,
    /// Folders and files that it may read and change. Default: none.
    pub(crate) write: Vec<String>,
}
