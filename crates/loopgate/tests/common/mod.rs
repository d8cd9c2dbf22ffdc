//! Runs the command as a person would, with a state folder of its own.

pub mod provider;
pub mod rows;
#[cfg(all(unix, feature = "server"))]
pub mod server;
pub mod service;
pub mod terminal;
pub mod versions;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub struct Shell {
    pub state: TempDir,
}

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Shell {
    pub fn new() -> Self {
        Self { state: tempfile::tempdir().unwrap() }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        // A test of the load is run by hand with a release build.
        let binary = std::env::var_os("LOOPGATE_LOAD_BINARY");
        let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_loopgate").into()));
        command
            .args(args)
            .current_dir(root())
            .env("XDG_STATE_HOME", self.state.path())
            .env("XDG_CACHE_HOME", self.state.path().join("cache"))
            .env("XDG_CONFIG_HOME", self.state.path().join("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }

    #[track_caller]
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Runs and reads the outcome that `--json` prints.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.out, ran.err))
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.state.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A copy of a domain folder, to be spoiled.
    pub fn copy_of(&self, domain: &str) -> PathBuf {
        let to = self.state.path().join("copy");
        copy(&root().join(domain), &to);
        to
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// It failed before a run began, with one line that says all of this.
    #[track_caller]
    pub fn fails_with(&self, parts: &[&str]) {
        assert_eq!(self.code, 1, "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is missing in: {}", self.err);
        }
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub fn ticket(id: u32) -> String {
    format!("examples/helpdesk/tickets/T-{id}.json")
}

/// Copies a folder without what runs leave in it: other tests may be saving there.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if ["saved", ".loopgate"].iter().any(|left| entry.file_name() == *left) {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The outcome without what may differ between two equal runs: its id, its nonce's traces, times.
pub fn timeless(mut outcome: Value) -> Value {
    outcome["run"] = Value::Null;
    // A run without a trace of its caller's is traced under its own id.
    outcome["trace_id"] = Value::Null;
    outcome["otel_trace_id"] = Value::Null;
    for pass in outcome["passes"].as_array_mut().into_iter().flatten() {
        pass["unix_ms"] = Value::Null;
    }
    for section in outcome["document"]["sections"].as_array_mut().into_iter().flatten() {
        section["updated_unix_ms"] = Value::Null;
    }
    outcome["totals"]["wall_ms"] = Value::Null;
    for tool in outcome["tools"].as_array_mut().into_iter().flatten() {
        tool["ms"] = Value::Null;
    }
    if let Some(value) = outcome["saved"].get_mut("location") {
        *value = Value::Null;
    }
    outcome
}
