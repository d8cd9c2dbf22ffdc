//! The tests of the built programs: what each reaches and how long it takes, and whether some fail under a mutant.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::build::{ACTIVE, REACHED};

/// Bytes of memory, in KiB, that a mutant may take: one that never ends must not take the machine.
const MAX_MEMORY_KIB: u64 = 3_000_000;
/// How long tests may take that use no processor: they wait for each other, or others use it.
const MAX_WAIT: Duration = Duration::from_secs(900);
/// The signal that ends a program which has used up its seconds of the processor.
const SIGXCPU: i32 = 24;

/// One test of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Test {
    pub(crate) program: PathBuf,
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// The mutants whose place it reaches.
    pub(crate) reaches: Vec<u32>,
}

/// What a run of some tests under a mutant showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// This test failed, or the program ended before its end.
    Failed(String),
    TimedOut,
}

/// Runs each test alone without a mutant. Returns those that pass, and the names of the others.
pub(crate) fn measure(
    programs: &[PathBuf],
    folder: &Path,
    out: &Path,
) -> Result<(Vec<Test>, Vec<String>), String> {
    let (mut tests, mut failing) = (Vec::new(), Vec::new());
    let reached = out.join("reached.txt");
    for program in programs {
        let list =
            command(program, folder, None).arg("--list").output().map_err(|error| error.to_string())?;
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        for name in list.lines().filter_map(|line| line.strip_suffix(": test")) {
            let start = Instant::now();
            let mut command = command(program, folder, None);
            command.args(["--exact", name]).env(REACHED, &reached);
            let output = command.output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                failing.push(name.to_owned());
                continue;
            }
            let ids = fs::read_to_string(&reached).unwrap_or_default();
            tests.push(Test {
                program: program.clone(),
                name: name.to_owned(),
                seconds: start.elapsed().as_secs_f64(),
                reaches: ids.lines().filter_map(|line| line.parse().ok()).collect(),
            });
            // A test that reaches nothing writes no file.
            let _ = fs::remove_file(&reached);
        }
    }
    Ok((tests, failing))
}

/// The tests that reach each mutant.
pub(crate) fn reaching(tests: &[Test]) -> BTreeMap<u32, Vec<usize>> {
    let mut reaching: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, test) in tests.iter().enumerate() {
        for id in &test.reaches {
            reaching.entry(*id).or_default().push(index);
        }
    }
    reaching
}

/// Runs tests of one program, one after the other, and ends at the first that fails. `limit` is time of the processor, so
/// that a busy machine is not taken for an endless test.
pub(crate) fn run(
    program: &Path,
    folder: &Path,
    names: &[&str],
    id: u32,
    limit: Duration,
) -> Result<Verdict, String> {
    let mut command = command(program, folder, Some(limit));
    command.arg("--exact").args(names).arg("--test-threads=1").env(ACTIVE, id.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let Some(output) = child.stdout.take() else { return Err("a test program has no output".to_owned()) };
    let (lines, read) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let deadline = Instant::now() + MAX_WAIT;
    let mut current = String::new();
    let verdict = loop {
        match read.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.split(' ').next()) {
                    current = name.to_owned();
                }
                if line.starts_with("test ") && line.ends_with("FAILED") {
                    break Verdict::Failed(current);
                }
                if line.starts_with("test result: ok") {
                    break Verdict::Passed;
                }
            }
            Err(RecvTimeoutError::Timeout) => break Verdict::TimedOut,
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().map_err(|error| error.to_string())?;
                break match status.signal() {
                    Some(SIGXCPU) => Verdict::TimedOut,
                    _ => Verdict::Failed(format!("the program, at {current}")),
                };
            }
        }
    };
    end(&mut child);
    drop(read);
    // It ends with the output of the program.
    let _ = reader.join();
    Ok(verdict)
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// A program whose memory and time of the processor are limited, in the folder in which `cargo test` runs it.
fn command(program: &Path, folder: &Path, limit: Option<Duration>) -> Command {
    let seconds = limit.map_or_else(|| "unlimited".to_owned(), |limit| (limit.as_secs() + 1).to_string());
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit -v {MAX_MEMORY_KIB}; ulimit -t {seconds}; exec \"$0\" \"$@\""))
        .arg(program);
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").env("PROPTEST_RNG_SEED", "1");
    // A share of the cases would miss what all of them notice.
    command.env("LOOPGATE_TESTS", "full").env("INSTA_UPDATE", "no").stderr(Stdio::null());
    command
}
