//! A program of the operator that receives what happened to a run, by its standard input.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::thread;

use tokio::sync::oneshot;

use super::group::{KillOnDrop, ProcessGroup};
use super::run::{NoKnownEnd, ProgramEnd, ProgramJob, work};

/// How many bytes of what it says are read.
const MAX_BYTES: usize = 4_096;

/// A program with fixed arguments, which take nothing from a run.
#[derive(Clone, Debug)]
pub struct HookCommand {
    program: String,
    args: Vec<String>,
    folder: PathBuf,
}

impl HookCommand {
    /// A program and its arguments, which runs in this folder with the whole environment of this process.
    ///
    /// # Errors
    /// It names no program.
    pub fn new(command: &[String], folder: impl Into<PathBuf>) -> Result<Self, String> {
        match command {
            [program, args @ ..] if !program.trim().is_empty() => {
                Ok(Self { program: program.clone(), args: args.to_vec(), folder: folder.into() })
            }
            _ => Err("it names no program; write the program and its arguments".to_owned()),
        }
    }

    /// Runs it with this on its standard input, and these variables of the environment in addition. When the future is
    /// dropped, the program is killed with all that it has started.
    ///
    /// # Errors
    /// Why it did not succeed, as one line.
    pub async fn run(&self, input: String, variables: Vec<(String, String)>) -> Result<(), String> {
        let program = &self.program;
        let inherited =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let variables = variables.into_iter().map(|(name, value)| (name, OsString::from(value)));
        let job = ProgramJob {
            program: program.into(),
            args: self.args.clone(),
            env: inherited.chain(variables).collect(),
            folder: self.folder.clone(),
            stdin: Some(input),
            sandbox: None,
            max_bytes: MAX_BYTES,
            is_killed_at_max: false,
        };
        let group = ProcessGroup::new();
        let _guard = KillOnDrop(group.clone());
        let (send, receive) = oneshot::channel();
        let begun = thread::Builder::new().name("hook".to_owned()).spawn(move || {
            // Where the delivery was given up, its result is of no use.
            let _ = send.send(work(&job, &group));
        });
        let failed = |error: io::Error| format!("`{program}` cannot be run: {error}; correct the command");
        begun.map_err(failed)?;
        let ProgramEnd { status, stderr, .. } = match receive.await {
            Ok(Ok(ended)) => ended,
            Ok(Err(NoKnownEnd::NotBegun(error) | NoKnownEnd::Begun(error))) => return Err(failed(error)),
            Err(_) => return Err(format!("the thread of `{program}` panicked")),
        };
        if status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&stderr);
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
        let last: String = last.map_or_else(String::new, |line| format!(": {}", line.trim()));
        Err(format!("`{program}` failed ({status}){}", last.chars().take(MAX_CHARS).collect::<String>()))
    }
}

/// How much of its last line is shown, in characters.
const MAX_CHARS: usize = 200;
