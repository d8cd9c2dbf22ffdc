//! `cargo xtask ci`: runs every check. Steps that wait run in parallel with steps that compute, and a failed step does
//! not stop the others.

use std::io;
use std::process::{Command, ExitStatus, Output};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use xshell::{Shell, cmd};

use crate::flags::Release;
use crate::test::FEATURES;
use crate::workspace::{self, Failure};
use crate::{bench, browser, explore, features, layers, release, requirements, servers, site, test, tidy};

/// Runs all checks. The tests are skipped if they have just been `tested`.
pub(crate) fn run(tested: bool) -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    shell.set_var("INSTA_UPDATE", "no");

    let mut done = Vec::new();
    // Registries are waited for while the processors are busy.
    let fetching = std::thread::spawn(|| servers::fetched(None));
    let installing = std::thread::spawn(site::installed);
    done.push(step("fmt", || Ok(cmd!(shell, "cargo fmt --all --check").run()?)));
    // While cargo works for one, it lets no other call look into the same folder.
    let mut programs = None;
    if tested {
        done.push(step("test programs", || {
            programs = Some(servers::test_programs()?);
            Ok(())
        }));
    }
    // After the tests, browsers and servers are waited for while cargo builds.
    let building =
        tested.then(|| std::thread::spawn(|| Ok(calls().iter().map(Call::kept).collect::<Vec<_>>())));
    if !tested {
        done.extend(calls().iter().map(Call::shown));
        done.push(step("test", || test::run(None, /*full*/ true)));
    }
    // Counted instructions do not depend on what else the machine does. Their build has the walk of `explore` in it.
    let counting = std::thread::spawn(counted);
    done.push(step("browser", || browser::run(/*write*/ false, tested.then_some(AS_TESTED))));
    done.push(step("servers", || servers::run(joined(fetching)?, programs.as_ref())));
    done.push(step("site", || site::run(&joined(installing)?, /*all*/ false)));
    if let Some(building) = building {
        for (step, printed) in joined(building)? {
            println!("\n{printed}{}", step.end());
            done.push(step);
        }
    }
    done.push(step("release", || {
        let binary = Some(workspace::root().join(AS_TESTED));
        release::run(&Release { target: None, binary, out: None, check: true })
    }));
    done.push(step("explore", || explore::run(false, false, programs.as_ref())));
    done.push(step("bench check", || printed(joined(counting)?)));
    done.push(step("features", features::run));
    done.push(step("layers", layers::run));
    done.push(step("requirements", || requirements::run(false, None)));
    done.push(step("tidy", tidy::run));

    println!("\n{}", table(&done));
    match done.iter().filter(|step| step.failure.is_some()).count() {
        0 => Ok(()),
        failed => Err(Failure::Check(format!("ci: {failed} of {} steps failed", done.len()))),
    }
}

/// Builds the crates that users depend on alone, and the released binary, each with its user's features.
///
/// In a build of the whole workspace, the features that one crate enables hide missing ones of another. So each is a
/// separate call of cargo, which joins features within a call. The remaining crates always depend on these, so the
/// workspace build is enough for them. Tests are included where they need no crate that the workspace build has not
/// made with the same features.
const ALONE: [(&str, &[&str]); 7] = [
    ("loop-core", &["--all-targets"]),
    ("loop-prompts", &[]),
    ("loop-tools", &[]),
    ("loop-journal", &[]),
    // A client and nothing else: no recordings, no schemas.
    ("loop-llm", &[]),
    // Without the offline stub.
    ("loop-runtime", &["--no-default-features"]),
    // Without `loopgate mock`.
    ("loopgate", &["--no-default-features"]),
];

/// A check that runs cargo.
#[derive(Debug)]
struct Call {
    name: String,
    arguments: Vec<String>,
}

fn calls() -> Vec<Call> {
    let call = |name: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Call { name: name.to_owned(), arguments }
    };
    let lints = ["--all-targets", "--locked", "--", "-D", "warnings"];
    let mut calls = vec![
        call("clippy", &[&["clippy", "--workspace", "--features", FEATURES], &lints[..]].concat()),
        call("doc", &["doc", "--workspace", "--no-deps", "--locked"]),
    ];
    calls.extend(ALONE.map(|(package, more)| {
        call(&format!("check {package}"), &[&["check", "--locked", "-p", package], more].concat())
    }));
    calls
}

impl Call {
    fn command(&self) -> Command {
        let mut command = Command::new("cargo");
        command.args(&self.arguments).current_dir(workspace::root()).env("RUSTDOCFLAGS", "-D warnings");
        command
    }

    fn checked(&self, ended: io::Result<ExitStatus>) -> Result<(), Failure> {
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                Err(Failure::Check(format!("`cargo {}` ended with {status}", self.arguments.join(" "))))
            }
            Err(error) => Err(Failure::Check(format!("cargo did not start: {error}"))),
        }
    }

    /// Runs it and shows its output.
    fn shown(&self) -> Step {
        step(&self.name, || self.checked(self.command().status()))
    }

    /// Runs it and captures its output.
    fn kept(&self) -> (Step, String) {
        let start = Instant::now();
        let output = self.command().output();
        let printed = output
            .as_ref()
            .map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it.stderr).into_owned());
        let failure = self.checked(output.map(|it| it.status)).err();
        (Step { name: self.name.clone(), took: start.elapsed(), failure }, printed)
    }
}

/// The output of `cargo xtask bench check` in a separate process, and whether it passed. `None`: it cannot run here.
fn counted() -> Result<Option<Output>, Failure> {
    if !bench::can_count()? {
        return Ok(None);
    }
    let failed = |error| Failure::Check(format!("bench check did not start: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    Command::new(program).args(["bench", "check"]).output().map(Some).map_err(failed)
}

/// Waits for a parallel step.
fn joined<T>(meanwhile: JoinHandle<Result<T, Failure>>) -> Result<T, Failure> {
    meanwhile.join().unwrap_or_else(|_| Err(Failure::Check("what was done meanwhile panicked".to_owned())))
}

/// Prints the output of the parallel count.
fn printed(counted: Option<Output>) -> Result<(), Failure> {
    let Some(Output { status, stdout, stderr }) = counted else {
        println!("valgrind is not here: instructions are not counted");
        return Ok(());
    };
    print!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Check("bench check failed".to_owned())),
    }
}

/// The command with its server, as the workspace's tests built it.
const AS_TESTED: &str = "target/debug/loopgate";

#[derive(Debug)]
struct Step {
    name: String,
    took: Duration,
    failure: Option<Failure>,
}

fn step(name: &str, work: impl FnOnce() -> Result<(), Failure>) -> Step {
    println!("\n== {name}");
    let start = Instant::now();
    let failure = work().err();
    let step = Step { name: name.to_owned(), took: start.elapsed(), failure };
    println!("{}", step.end());
    step
}

impl Step {
    /// The summary line.
    fn end(&self) -> String {
        let (name, seconds) = (&self.name, self.took.as_secs_f64());
        match &self.failure {
            None => format!("== {name}: ok, {seconds:.1} s"),
            Some(failure) => format!("== {name}: FAILED, {seconds:.1} s: {failure}"),
        }
    }
}

fn table(steps: &[Step]) -> String {
    let width = steps.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let rows = steps.iter().map(|step| {
        let state = if step.failure.is_some() { "FAILED" } else { "ok" };
        format!("{:width$}  {state:6}  {:7.1} s", step.name, step.took.as_secs_f64())
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_kept_and_shown() {
        let steps = [step("good", || Ok(())), step("not good", || Err(Failure::Check("broken".to_owned())))];
        let shown = table(&steps);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(shown.starts_with("good      ok "), "{shown}");
        assert!(shown.contains("\nnot good  FAILED "), "{shown}");
    }
}
