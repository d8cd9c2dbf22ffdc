//! Runs a program, and captures its output while it is shown.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::workspace::{self, Failure};

/// The output of a program on both streams, line by line in order, and whether it succeeded.
pub(crate) fn teed(
    program: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<(Vec<String>, bool), Failure> {
    teed_in(workspace::root(), program, arguments, environment)
}

/// The same in this folder.
pub(crate) fn teed_in(
    folder: &Path,
    program: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<(Vec<String>, bool), Failure> {
    let failed = |error: io::Error| Failure::Check(format!("{program}: {error}"));
    println!("$ {program} {}", arguments.join(" "));
    let (output, input) = io::pipe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().copied()).current_dir(folder);
    command.stdout(input.try_clone().map_err(failed)?).stderr(input);
    let mut child = command.spawn().map_err(failed)?;
    // It holds the ends that are written to; without this the reading would never end.
    drop(command);
    let (sends, receives) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            if sends.send(line).is_err() {
                break;
            }
        }
    });
    let mut lines = Vec::new();
    loop {
        match receives.recv_timeout(AFTER_END) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line.map_err(failed)?).into_owned();
                println!("{line}");
                lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // What a failed test has left behind may hold the other end of the pipe for ever.
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().map_err(failed)?.is_some() {
                    println!("{program} has ended, and a process that it started still holds its output");
                    break;
                }
            }
        }
    }
    let status = child.wait().map_err(failed)?;
    Ok((lines, status.success()))
}

/// How long to wait for more output after a program has ended.
const AFTER_END: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 10 });

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn both_outputs_are_kept_in_their_order() {
        let script = ["-c", "echo a; echo b >&2; echo \"$C\"; exit 3"];
        let (lines, passed) = teed("sh", &script, &[("C", "c")]).unwrap();
        assert_eq!((lines, passed), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], false));
    }

    #[cfg(unix)]
    #[test]
    fn a_process_that_stays_behind_holds_nothing_up() {
        // Otherwise this does not end for ten minutes.
        let (lines, passed) = teed("sh", &["-c", "sleep 600 & echo $!"], &[]).unwrap();
        assert!(passed && lines.len() == 1, "{lines:?}");
        assert!(Command::new("kill").arg(lines.concat()).status().unwrap().success());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let reported = teed("no-such-program", &[], &[]).unwrap_err().to_string();
        assert!(reported.starts_with("no-such-program: "), "{reported}");
    }
}
