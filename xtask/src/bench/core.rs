//! What a gate decision, a clone of the state and a whole offline run cost.

use std::path::Path;

use xshell::{Shell, cmd};

use super::{built, has_valgrind, instructions};
use crate::workspace::{self, Failure};

/// Cases of the bench program of `loop-core` whose instructions are counted.
const COUNTED: [&str; 4] = ["gate-10", "gate-100", "gate-1000", "reply-10KB"];
/// How often a counted case is done; the bench program has that many copies at most.
const TIMES: u64 = 40;

pub(super) fn run() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    cmd!(shell, "cargo bench --locked -p loop-core --bench core").run()?;
    cmd!(shell, "cargo bench --locked -p loop-runtime --bench offline").run()?;
    println!("\n{:12} {:>12}", "case", "instructions");
    if !has_valgrind(&shell) {
        println!("valgrind is not here");
        return Ok(());
    }
    for (case, instructions) in counted(&built(&shell)?.core)? {
        println!("{case:12} {instructions:12}");
    }
    Ok(())
}

/// The instructions of each counted case.
pub(super) fn counted(program: &Path) -> Result<Vec<(&'static str, u64)>, Failure> {
    COUNTED.iter().map(|case| Ok((*case, instructions(program, case, TIMES)?))).collect()
}
