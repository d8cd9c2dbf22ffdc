//! What decoding, encoding and a whole exchange cost.

use xshell::{Shell, cmd};

use super::{built, has_valgrind, watched};
use crate::workspace::{self, Failure};

/// How often a counted case is done; the bench program has that many copies at most.
const TIMES: u64 = 2;
const TOOL: [&str; 2] = ["--tool=memcheck", "--leak-check=no"];

pub(super) fn run() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    cmd!(shell, "cargo bench --locked -p loop-llm --bench wire").run()?;
    println!("\n{:32} {:>9} {:>12} {:>8}", "case", "units", "allocations", "a unit");
    if !has_valgrind(&shell) {
        println!("valgrind is not here");
        return Ok(());
    }
    let program = built(&shell)?.wire;
    for row in cmd!(shell, "{program} cases").quiet().read()?.lines() {
        let Some((case, units)) = row.split_once(' ') else { continue };
        // What is done before the case is the same in both, so the difference is the case itself.
        let whole = watched(&TOOL, &program, case, TIMES, allocations)?;
        let nothing = watched(&TOOL, &program, case, 0, allocations)?;
        let count = whole.saturating_sub(nothing) / TIMES;
        let each = units.parse::<f64>().map_or(0.0, |units| count as f64 / units);
        println!("{case:32} {units:>9} {count:>12} {each:>8.2}");
    }
    Ok(())
}

/// The allocations in what memcheck tells at its end.
fn allocations(reported: &str) -> Option<u64> {
    let (_, rest) = reported.split_once("total heap usage: ")?;
    let (count, _) = rest.split_once(" allocs")?;
    count.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_memcheck_tells() {
        let reported =
            "==7== in use at exit: 0 bytes\n==7==   total heap usage: 12,345 allocs, 12 frees, 9 bytes\n";
        assert_eq!(allocations(reported), Some(12_345));
        assert_eq!(allocations("==7== an error"), None);
    }
}
