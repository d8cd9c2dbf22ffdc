//! A server that is started as a program: its process group, its pipes, and what it said when it failed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Credentials;
use crate::text::clean;
use loop_core::secrets::Secrets;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use crate::connectors::command::environment::{Variables, secrets_of};
use crate::connectors::command::group::ProcessGroup;
use crate::connectors::command::program;
use crate::connectors::command::sandbox::{Sandbox, SandboxFolders};
use crate::connectors::command::tool::existing;
use crate::connectors::error::{ConnectorError, one_line, short_line};
use crate::connectors::mcp::settings::McpProgram;

/// The variables of this process that every server gets: what a program needs to find its files and to speak a language.
const ENVIRONMENT: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
/// How many bytes of the end of what a server writes to its error output are kept.
const ERROR_BYTES: usize = 4_096;
/// The most characters of that in a message.
const ERROR_CHARS: usize = 300;
/// How long a server may take to end by itself once its input is closed.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A program that was found, and how it is started.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    path: PathBuf,
    sandbox: Option<Arc<Sandbox>>,
    settings: McpProgram,
}

/// A server that was started. Dropped, it is killed with everything that it started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    group: ProcessGroup,
    status: Option<ExitStatus>,
    said: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
    mask: Secrets,
}

/// Our ends of the pipes that the protocol uses.
pub(crate) type Pipes = (pipe::Receiver, pipe::Sender);

impl Recipe {
    /// The recipe of these settings.
    ///
    /// # Errors
    /// The program is not there or runs what it is given, a folder is not there, or a variable cannot be one.
    pub(crate) fn new(settings: &McpProgram) -> Result<Self, ConnectorError> {
        let path = program::find(&settings.program)?;
        let wrong = |key, message: String| Err(ConnectorError::Setting { key, message });
        let folder = existing(&settings.folder)?;
        if !folder.is_dir() {
            let message = format!("{}: is not a folder; name the folder to work in", folder.display());
            return wrong("folder", message);
        }
        if settings.args.iter().any(|arg| arg.contains('\0')) {
            return wrong("args", "an argument has a NUL character in it; take that out".to_owned());
        }
        variables(settings).check()?;
        let sandbox = settings.sandbox.as_ref().map(|named| {
            let all = |folders: &[PathBuf]| -> Result<Vec<PathBuf>, ConnectorError> {
                folders.iter().map(|folder| existing(folder)).collect()
            };
            let folders = SandboxFolders { read: all(&named.read)?, write: all(&named.write)? };
            Ok(Arc::new(Sandbox::new(folders, path.clone(), folder.clone())))
        });
        let settings = McpProgram { folder, ..settings.clone() };
        Ok(Self { path, sandbox: sandbox.transpose()?, settings })
    }

    /// What the thread that starts it has to be restricted to.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        self.sandbox.as_deref()
    }

    /// Starts the program, on a thread that is restricted.
    ///
    /// # Errors
    /// A secret is not there, or the system does not start it.
    pub(crate) fn start(&self, credentials: &Credentials) -> Result<(Running, Pipes), String> {
        let environment = self.environment(credentials)?;
        let group = ProcessGroup::new();
        let spawn = || {
            Command::new(&self.path)
                .args(&self.settings.args)
                .env_clear()
                .envs(environment)
                .current_dir(&self.settings.folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .process_group(0)
                .spawn()
        };
        let shown = self.path.display();
        let failed = |error: std::io::Error| format!("`{shown}` could not be started: {}", one_line(error));
        let begun = group.begin(spawn).map_err(failed)?;
        let mut child = begun.ok_or_else(|| "this process is ending".to_owned())?;
        let ends = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let opened = (|| {
            let (Some(stdin), Some(stdout), Some(stderr)) = ends else {
                return Err(std::io::Error::other("a pipe is missing"));
            };
            let pipes = (
                pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?,
                pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?,
            );
            Ok((pipes, pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?))
        })();
        let (pipes, stderr) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // Reaped, for what began must not stay.
                let _ = group.end(&mut child);
                return Err(failed(error));
            }
        };
        let reader = tokio::spawn(keep_end(stderr, Arc::clone(&said)));
        let mask = self.mask(credentials);
        Ok((Running { child, group, status: None, said, reader, mask }, pipes))
    }

    /// The secrets of its environment.
    pub(crate) fn mask(&self, credentials: &Credentials) -> Secrets {
        secrets_of(&self.settings.secret_env, credentials)
    }

    fn environment(&self, credentials: &Credentials) -> Result<Vec<(String, OsString)>, String> {
        let given = ENVIRONMENT.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
        let mut all: Vec<(String, OsString)> = given.collect();
        // A later one of the same name replaces an earlier one.
        all.extend(variables(&self.settings).values(credentials)?);
        Ok(all)
    }
}

impl Running {
    /// Waits a moment for it to end by itself, kills what is left of it, and says how it ended and what it said last.
    pub(crate) async fn end(&mut self) -> String {
        let leader = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let deadline = tokio::time::Instant::now() + LAST_WORDS;
        while self.status.is_none()
            && matches!(waitid(WaitId::Pid(leader), options), Ok(None))
            && tokio::time::Instant::now() < deadline
        {
            tokio::time::sleep(LOOK).await;
        }
        self.kill();
        // What it wrote last is in the pipe, which has no other end any more.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.reader).await;
        let how = match self.status {
            Some(status) => format!("the program ended ({status})"),
            None => "the program ended".to_owned(),
        };
        match self.last_words() {
            Some(words) => format!("{how}: {words}"),
            None => how,
        }
    }

    /// The last line of what it wrote to its error output.
    fn last_words(&self) -> Option<String> {
        let said: Vec<u8> =
            self.said.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&said);
        let text = self.mask.mask_message_by(&clean(&text).0, "[masked]", /*is_cut*/ true);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(short_line(line, ERROR_CHARS))
    }

    fn kill(&mut self) {
        if self.status.is_none() {
            self.status = self.group.end(&mut self.child).ok();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        self.reader.abort();
    }
}

fn variables(settings: &McpProgram) -> Variables<'_> {
    Variables { env: &settings.env, set: &settings.set, secret_env: &settings.secret_env }
}

/// Reads what a server writes to its error output, so that it never waits for us, and keeps the end.
async fn keep_end(mut pipe: pipe::Receiver, said: Arc<Mutex<VecDeque<u8>>>) {
    let mut chunk = [0_u8; 4_096];
    while let Ok(read) = pipe.read(&mut chunk).await {
        if read == 0 {
            return;
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(chunk.iter().take(read));
        let too_many = said.len().saturating_sub(ERROR_BYTES);
        said.drain(..too_many);
    }
}
