//! Retries commands that download from a registry, which may fail temporarily.

use std::time::Duration;

use xshell::Cmd;

use crate::workspace::Failure;

/// The pauses before the retries.
const PAUSES: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(20), Duration::from_secs(60)];

/// Runs the command until it succeeds, at most four times.
pub(crate) fn fetch(command: &Cmd<'_>) -> Result<(), Failure> {
    tried(&command.to_string(), &PAUSES, || command.run())
}

fn tried<E: std::fmt::Display>(
    command: &str,
    pauses: &[Duration],
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<(), Failure> {
    for pause in pauses {
        let Err(error) = run() else { return Ok(()) };
        println!("fetch: {error}; tried again in {} s", pause.as_secs());
        std::thread::sleep(*pause);
    }
    run().map_err(|error| {
        let tries = pauses.len() + 1;
        Failure::Check(format!(
            "fetch: {error}, {tries} times; run it by hand and see whether this machine reaches the registry: {command}"
        ))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_fails_is_tried_again_and_not_for_ever() {
        let mut runs = 0;
        let mut fails = |times: u32| {
            runs = 0;
            let result = tried("npm ci", &[Duration::ZERO; 2], || {
                runs += 1;
                if runs > times { Ok(()) } else { Err("no network") }
            });
            (result, runs)
        };
        assert!(matches!(fails(0), (Ok(()), 1)));
        assert!(matches!(fails(2), (Ok(()), 3)));
        let (result, runs) = fails(9);
        assert_eq!(runs, 3);
        assert_eq!(
            result.unwrap_err().to_string(),
            "fetch: no network, 3 times; run it by hand and see whether this machine reaches the registry: npm ci"
        );
    }
}
