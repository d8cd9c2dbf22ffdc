//! `cargo xtask wire FILE.jsonl`: our codecs against recorded exchanges with providers. See `docs/reference/recorded-exchanges.md`.
//!
//! The command is a package of its own, `loop-wirecheck`, which is built when it is asked for.

use std::ffi::OsString;
use std::process::Command;

use crate::workspace::{self, Failure};

/// Starts the command with these arguments where the caller stands, so that its paths are the caller's.
pub(crate) fn run(arguments: &[OsString]) -> Result<(), Failure> {
    let manifest = workspace::root().join("Cargo.toml");
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "--package", "loop-wirecheck", "--manifest-path"]);
    command.arg(manifest).arg("--").args(arguments);
    let status = command.status().map_err(|error| Failure::Check(format!("cargo: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Failure::Encoded(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
    }
}
