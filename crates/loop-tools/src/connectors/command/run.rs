//! One run of a program: it is started, fed, read and reaped by a thread of its own.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::ToolContext;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::sync::oneshot;

use crate::connectors::command::group::{KillOnDrop, ProcessGroup};
use crate::connectors::command::sandbox::{self, Sandbox};

/// How many bytes of the end of what a program says about its failure are kept.
const ERROR_BYTES: usize = 8_192;
/// How long the output of a program that has ended is read on: what left its group may keep it open for ever.
const GRACE: Duration = Duration::from_millis(200);
/// How long a wait for output takes before the program itself is looked at.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How often, and after which time, a program that is just being written is tried again.
const BUSY_TRIES: u32 = 10;
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How many bytes are read at once.
const CHUNK: usize = 65_536;

/// What is run, and how far.
#[derive(Debug)]
pub(crate) struct ProgramJob {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The whole environment.
    pub(crate) env: Vec<(String, OsString)>,
    pub(crate) folder: PathBuf,
    pub(crate) stdin: Option<String>,
    pub(crate) sandbox: Option<Arc<Sandbox>>,
    pub(crate) max_bytes: usize,
    /// Whether it is killed when it has said more than that. Else the rest is read and dropped.
    pub(crate) is_killed_at_max: bool,
}

/// How a program ended, and what it said.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    pub(crate) status: ExitStatus,
    /// At most `max_bytes`.
    pub(crate) stdout: Vec<u8>,
    /// Whether there was more of it.
    pub(crate) is_cut: bool,
    /// The end of the other output.
    pub(crate) stderr: Vec<u8>,
}

/// Why a run has no end that is known.
#[derive(Debug)]
pub(crate) enum NoKnownEnd {
    /// The program was not started.
    NotBegun(io::Error),
    /// It was, and then the system failed. It was killed.
    Begun(io::Error),
}

/// Runs the job. When the future is dropped, everything that the program started in its group is killed.
///
/// # Errors
/// The program cannot be started, or the system fails.
pub(crate) async fn run(job: ProgramJob, context: &ToolContext) -> Result<ProgramEnd, NoKnownEnd> {
    let group = ProcessGroup::new();
    let _guard = KillOnDrop(group.clone());
    let (send, mut receive) = oneshot::channel();
    let of_thread = group.clone();
    // Not one of the runtime's threads: the restrictions stay with the thread.
    let begun = thread::Builder::new().name("command".to_owned()).spawn(move || {
        // Where the call is gone, so is the one who wants to know.
        let _ = send.send(work(&job, &of_thread));
    });
    begun.map_err(NoKnownEnd::NotBegun)?;
    let panicked = || NoKnownEnd::Begun(io::Error::other("the thread of the program panicked"));
    let ended = match context.cancel.run_until_cancelled(&mut receive).await {
        Some(ended) => ended,
        None => {
            group.kill();
            if context.remaining().is_some() {
                // The dispatcher drops this now, and says that the call was cancelled.
                std::future::pending::<()>().await;
            }
            receive.await
        }
    };
    ended.unwrap_or_else(|_| Err(panicked()))
}

pub(crate) fn work(job: &ProgramJob, group: &ProcessGroup) -> Result<ProgramEnd, NoKnownEnd> {
    // On all errors from here on, nothing that was started stays.
    let _guard = KillOnDrop(group.clone());
    sandbox::restrict_thread(job.sandbox.as_deref()).map_err(NoKnownEnd::NotBegun)?;
    let Some(mut child) = group.begin(|| spawn_when_written(job)).map_err(NoKnownEnd::NotBegun)? else {
        return Err(NoKnownEnd::NotBegun(io::Error::other("cancelled")));
    };
    let mut pipes = Pipes::of(&mut child, job);
    let read = pipes.serve(&child, group);
    // Reaped in any case: a zombie would stay until this process ends.
    let status = group.end(&mut child).map_err(NoKnownEnd::Begun)?;
    read.map_err(NoKnownEnd::Begun)?;
    Ok(ProgramEnd { status, stdout: pipes.output, is_cut: pipes.is_cut, stderr: pipes.error })
}

/// Starts the program; one that is just being written, such as a script that is deployed, a moment later.
fn spawn_when_written(job: &ProgramJob) -> io::Result<Child> {
    for _ in 0..BUSY_TRIES {
        match spawn(job) {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::sleep(BUSY_WAIT),
            begun => return begun,
        }
    }
    spawn(job)
}

fn spawn(job: &ProgramJob) -> io::Result<Child> {
    let stdin = if job.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    Command::new(&job.program)
        .args(&job.args)
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&job.folder)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Our ends of the program's pipes, and what came through them.
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// What the program is still to read.
    input: Vec<u8>,
    written: usize,
    output: Vec<u8>,
    error: Vec<u8>,
    max_bytes: usize,
    is_killed_at_max: bool,
    is_cut: bool,
    chunk: Vec<u8>,
}

impl Pipes {
    fn of(child: &mut Child, job: &ProgramJob) -> Self {
        Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            input: job.stdin.clone().unwrap_or_default().into_bytes(),
            written: 0,
            output: Vec::new(),
            error: Vec::new(),
            max_bytes: job.max_bytes,
            is_killed_at_max: job.is_killed_at_max,
            is_cut: false,
            chunk: vec![0; CHUNK],
        }
    }

    /// Reads and writes until the program has ended and what it said is read.
    fn serve(&mut self, child: &Child, group: &ProcessGroup) -> io::Result<()> {
        let ends = [
            self.stdin.as_ref().map(AsFd::as_fd),
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        for end in ends.into_iter().flatten() {
            ioctl_fionbio(end, true)?;
        }
        let leader = Pid::from_child(child);
        let mut ended: Option<Instant> = None;
        loop {
            if ended.is_none() && has_ended(leader, self.is_closed())? {
                // What it left behind must not outlive it, and must not keep its output open.
                group.kill();
                ended = Some(Instant::now());
            }
            let is_late = ended.is_some_and(|since| since.elapsed() > GRACE);
            let all_is_read = self.stdout.is_none() && self.stderr.is_none();
            if ended.is_some() && (all_is_read || is_late) {
                return Ok(());
            }
            self.wait()?;
            self.read_output(group)?;
            self.read_error()?;
            self.write()?;
        }
    }

    fn is_closed(&self) -> bool {
        self.stdin.is_none() && self.stdout.is_none() && self.stderr.is_none()
    }

    /// Waits until a pipe is ready, a short time at most.
    fn wait(&self) -> io::Result<()> {
        let mut ends = Vec::with_capacity(3);
        ends.extend(self.stdout.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
        ends.extend(self.stderr.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
        ends.extend(self.stdin.as_ref().map(|end| PollFd::new(end, PollFlags::OUT)));
        if ends.is_empty() {
            return Ok(());
        }
        match poll(&mut ends, Some(&WAIT)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn read_output(&mut self, group: &ProcessGroup) -> io::Result<()> {
        let Some(end) = &mut self.stdout else { return Ok(()) };
        match end.read(&mut self.chunk) {
            Ok(0) => self.stdout = None,
            Ok(read) => {
                let room = self.max_bytes.saturating_sub(self.output.len());
                self.output.extend(self.chunk.iter().take(read.min(room)));
                if read > room {
                    self.is_cut = true;
                    if self.is_killed_at_max {
                        group.kill();
                        self.stdout = None;
                    }
                }
            }
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn read_error(&mut self) -> io::Result<()> {
        let Some(end) = &mut self.stderr else { return Ok(()) };
        match end.read(&mut self.chunk) {
            Ok(0) => self.stderr = None,
            Ok(read) => {
                self.error.extend(self.chunk.iter().take(read));
                let too_many = self.error.len().saturating_sub(ERROR_BYTES);
                self.error.drain(..too_many);
                if too_many > 0 {
                    // Of a character that is drained in part, nothing is kept.
                    let part = self.error.iter().take(3).take_while(|byte| *byte & 0xc0 == 0x80).count();
                    self.error.drain(..part);
                }
            }
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(end) = &mut self.stdin else { return Ok(()) };
        let rest = self.input.get(self.written..).unwrap_or_default();
        if rest.is_empty() {
            self.stdin = None;
            return Ok(());
        }
        match end.write(rest) {
            Ok(written) => self.written += written,
            // It need not read all that it is given.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.stdin = None,
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether the leader has ended, without reaping it; with `waits`, not before it has.
fn has_ended(leader: Pid, waits: bool) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let options = if waits { options } else { options | WaitIdOptions::NOHANG };
    match waitid(WaitId::Pid(leader), options) {
        Ok(status) => Ok(status.is_some()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
