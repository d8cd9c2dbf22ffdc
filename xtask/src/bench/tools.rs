//! What a call of a tool costs beyond the work that it does.

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

pub(super) fn run() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    Ok(cmd!(shell, "cargo bench --locked -p loop-tools --features command,files,http --bench tools").run()?)
}
