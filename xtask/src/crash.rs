//! `cargo xtask crash`: real processes that are killed at exact places, and journals that fail: `crates/loopgate/tests/crash`.

use crate::teed::teed;
use crate::test::FEATURES;
use crate::workspace::Failure;

/// Plays a seeded share, or with `full` everything, which takes a quarter of an hour and is for a person to start.
pub(crate) fn run(full: bool, seed: Option<u64>, part: Option<&str>) -> Result<(), Failure> {
    let seed = seed.map(|seed| format!("--seed={seed}"));
    let mut arguments = vec!["test", "--locked", "-p", "loopgate", "--features", FEATURES];
    arguments.extend(["--test", "crash", "--"]);
    arguments.extend(full.then_some("--full"));
    arguments.extend(seed.as_deref());
    arguments.extend(part);
    match teed("cargo", &arguments, &[])? {
        (_, true) => Ok(()),
        (_, false) => {
            Err(Failure::Check("crash: something does not hold after a kill or a failure".to_owned()))
        }
    }
}
