//! `cargo xtask ci`: every check, one after another; a step that fails does not hide the next.

use std::time::{Duration, Instant};

use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};
use crate::{explore, layers, requirements, test, tidy};

/// All checks; the tests among them, unless they have just been `tested`.
pub(crate) fn run(tested: bool) -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    shell.set_var("INSTA_UPDATE", "no");

    let mut done = Vec::new();
    done.push(step("fmt", || Ok(cmd!(shell, "cargo fmt --all --check").run()?)));
    done.push(step("clippy", || {
        Ok(cmd!(shell, "cargo clippy --workspace --all-targets --locked -- -D warnings").run()?)
    }));
    done.push(step("doc", || {
        let doc = cmd!(shell, "cargo doc --workspace --no-deps --locked");
        Ok(doc.env("RUSTDOCFLAGS", "-D warnings").run()?)
    }));
    // Each on its own, as who depends on it builds it: in a build of the whole workspace one crate's features can hide what
    // another forgot.
    for package in workspace::packages(workspace::root())? {
        done.push(step(&format!("check {package}"), || {
            Ok(cmd!(shell, "cargo check -p {package} --locked").run()?)
        }));
    }
    if !tested {
        done.push(step("test", || test::run(None, false)));
    }
    done.push(step("explore", || explore::run(false, false)));
    done.push(step("layers", layers::run));
    done.push(step("requirements", || requirements::run(false, None)));
    done.push(step("tidy", tidy::run));

    println!("\n{}", table(&done));
    match done.iter().filter(|step| step.failure.is_some()).count() {
        0 => Ok(()),
        failed => Err(Failure::Check(format!("ci: {failed} of {} steps failed", done.len()))),
    }
}

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
    let took = start.elapsed();
    match &failure {
        None => println!("== {name}: ok, {:.1} s", took.as_secs_f64()),
        Some(failure) => println!("== {name}: FAILED, {:.1} s: {failure}", took.as_secs_f64()),
    }
    Step { name: name.to_owned(), took, failure }
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
