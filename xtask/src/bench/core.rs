//! What a gate decision, a clone of the state and a whole offline run cost.

use xshell::{Shell, cmd};

use super::{has_valgrind, program, watched};
use crate::workspace::{self, Failure};

/// Cases of the bench program of `loop-core` whose instructions are counted.
const COUNTED: [&str; 4] = ["gate-10", "gate-100", "gate-1000", "reply-10KB"];
/// How often a counted case is done; the bench program has that many copies at most.
const TIMES: u64 = 40;
const TOOL: [&str; 2] = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];

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
    let messages =
        cmd!(shell, "cargo bench --locked -p loop-core --bench core --no-run --message-format=json")
            .read()?;
    let program = program(&messages, "bench")?;
    for case in COUNTED {
        // What is done before the case is the same in both, so the difference is the case itself.
        let whole = watched(&shell, &TOOL, &program, case, TIMES, collected)?;
        let nothing = watched(&shell, &TOOL, &program, case, 0, collected)?;
        println!("{case:12} {:12}", whole.saturating_sub(nothing) / TIMES);
    }
    Ok(())
}

/// The instructions in what callgrind tells at its end.
fn collected(reported: &str) -> Option<u64> {
    let (_, rest) = reported.split_once("Collected : ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_tells() {
        let reported =
            "==7== Events    : Ir\n==7== Collected : 4291547\n==7== \n==7== I   refs:      4,291,547\n";
        assert_eq!(collected(reported), Some(4_291_547));
        assert_eq!(collected("==7== an error"), None);
    }
}
