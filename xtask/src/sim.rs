//! `cargo xtask sim`: simulations of the real core and of the real driver, and the planted bugs that they must find.

use crate::teed::teed;
use crate::workspace::Failure;

/// What runs where nothing else is named: a share that a build machine has time for.
const SHARE: Asked<'static> =
    Asked { seeds: Some("0..200000"), driver: Some("0..2000"), seed: None, bug: Some("all") };
/// What `--full` runs.
const FULL: Asked<'static> =
    Asked { seeds: Some("0..1000000"), driver: Some("0..20000"), seed: None, bug: Some("all") };

/// What is simulated. A part that is not named is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    /// Seeds of the core, as `A..B`.
    pub(crate) seeds: Option<&'a str>,
    /// Seeds of the driver, as `A..B`.
    pub(crate) driver: Option<&'a str>,
    /// One seed of the core, or of the bug.
    pub(crate) seed: Option<&'a str>,
    /// The number of a planted bug, or `all`.
    pub(crate) bug: Option<&'a str>,
}

/// Simulates what is asked for, or a share of everything.
pub(crate) fn run(asked: Asked<'_>, full: bool) -> Result<(), Failure> {
    let is_nothing = asked == Asked::default();
    let asked = match is_nothing {
        true if full => FULL,
        true => SHARE,
        false => asked,
    };
    let arguments = arguments(&asked);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match teed("cargo", &arguments, &[])? {
        (_, true) => Ok(()),
        (_, false) => {
            Err(Failure::Check("sim: an invariant does not hold, or a planted bug was not found".to_owned()))
        }
    }
}

fn arguments(asked: &Asked<'_>) -> Vec<String> {
    let cargo =
        ["bench", "--locked", "-q", "-p", "loop-eval", "--features", "planted-bugs", "--bench", "sim", "--"];
    let named =
        [("--bug", asked.bug), ("--seed", asked.seed), ("--seeds", asked.seeds), ("--driver", asked.driver)];
    let named = named.into_iter().filter_map(|(name, value)| value.map(|value| [name, value]));
    cargo.into_iter().chain(named.flatten()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_simulated() {
        let asked = Asked { seed: Some("7"), bug: Some("3"), ..Asked::default() };
        assert!(arguments(&asked).ends_with(&["--", "--bug", "3", "--seed", "7"].map(str::to_owned)));
    }
}
