//! A tool that runs one program with an array of arguments, and never a shell.
//!
//! ```text
//! parameters ─▶ arguments ─▶ own thread ─▶ program in a group ─▶ output ─▶ result
//!                  │          │                │      ▲
//!                  ▼          ▼                ▼      │ kill, also when the call is dropped
//!            invalid input   no new rights,  more programs
//!                            Landlock
//! ```

pub(crate) mod environment;
pub(crate) mod group;
mod hook;
pub(crate) mod output;
pub(crate) mod program;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod settings;
mod template;
pub(crate) mod tool;

pub use self::group::kill_commands;
pub use self::hook::HookCommand;
pub use self::sandbox::{SandboxFolders, SandboxSupport};
pub use self::settings::{COMMAND_BYTES_MAX, CommandOutput, CommandSettings};
pub use self::tool::CommandTool;
