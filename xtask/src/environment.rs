//! The environment in which the commands start `cargo`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, ExitCode};

/// What the variables of a package begin with that `cargo run` sets for the program that it starts.
const OF_A_PACKAGE: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// Starts this program again without the variables of its package, where there are any.
///
/// Build scripts may ask to be run again when such a variable changes, and that of `ring` does. With these variables
/// `cargo xtask` would build `ring` and all crates that need it again after `cargo`, and `cargo` after `cargo xtask`.
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

/// The program takes the place of this one, so that a signal to this process reaches it.
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
