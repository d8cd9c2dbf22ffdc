//! `cargo xtask explore`: the walk over the reachable states of small runs, wider than in a test run.

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

/// Walks every alphabet of `crates/loop-core/tests/explore`, optimised, and prints a line about each.
pub(crate) fn run() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    println!(
        "states, edges and ends by alphabet; `cut` where the walk was ended before it had seen everything"
    );
    let walk = cmd!(shell, "cargo test --release --locked -p loop-core --test explore -- --nocapture");
    Ok(walk.env("LOOPGATE_EXPLORE", "wide").run()?)
}
