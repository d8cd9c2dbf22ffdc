//! Cleans the environment in which the commands run `cargo`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, ExitCode};

/// Prefixes of the variables that `cargo run` sets for the program's package.
const OF_A_PACKAGE: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// Restarts this program without these variables, if there are any.
///
/// Some build scripts, such as that of `ring`, run again when such a variable changes. With them, `cargo xtask` and
/// `cargo` would each rebuild `ring` and its dependents after the other.
pub(crate) fn cleaned() -> Option<io::Result<ExitCode>> {
    let set: Vec<OsString> =
        std::env::vars_os().map(|(name, _)| name).filter(|it| is_of_a_package(it)).collect();
    if set.is_empty() {
        return None;
    }
    Some(std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1));
        for name in set {
            command.env_remove(name);
        }
        replaced(command)
    }))
}

/// Replaces this process by the command, so that signals reach it.
#[cfg(unix)]
fn replaced(mut command: Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(&mut command))
}

#[cfg(not(unix))]
fn replaced(mut command: Command) -> io::Result<ExitCode> {
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn is_of_a_package(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| OF_A_PACKAGE.iter().any(|start| name.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_cargo_stay_and_variables_of_the_package_go() {
        for name in ["CARGO_PKG_NAME", "CARGO_PKG_VERSION_PRE", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"] {
            assert!(is_of_a_package(OsStr::new(name)), "{name}");
        }
        for name in
            ["CARGO", "CARGO_HOME", "CARGO_INCREMENTAL", "CARGO_TARGET_DIR", "CARGO_TERM_COLOR", "PATH"]
        {
            assert!(!is_of_a_package(OsStr::new(name)), "{name}");
        }
    }
}
