//! `cargo xtask crash`: runs `crates/loopgate/tests/crash`, which kills real processes at exact places and makes
//! journals fail.

use crate::teed::teed;
use crate::test::FEATURES;
use crate::workspace::Failure;

/// Runs a seeded share of the scenarios, or with `full` all of them, which takes a quarter of an hour.
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
