//! The signals that ask for the end.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use loop_core::Outcome;
use loop_core::types::StopClass;
use loop_runtime::run::{Remote, StopMode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::output::stream;

/// The signals that ask for the end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal is gone. None where the program was started so that it outlives one, as `nohup` does.
    hangup: Option<Signal>,
    /// The last one by which a run was asked to stop.
    received: Option<ReceivedSignal>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedSignal {
    Interrupt,
    Terminate,
    HangUp,
}

impl ReceivedSignal {
    /// What a shell shows for a program that it has ended.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => SIGTERM_EXIT,
            Self::HangUp => 129,
        }
    }
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        let hangup = if is_ignored(SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hangup, received: None })
    }

    pub(crate) async fn next(&mut self) -> ReceivedSignal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => ReceivedSignal::Interrupt,
            Some(()) = self.terminate.recv() => ReceivedSignal::Terminate,
            Some(()) = of(&mut self.hangup) => ReceivedSignal::HangUp,
            else => std::future::pending().await,
        }
    }

    /// Waits for this; a signal before it ends the program. One that has stopped the run already and comes from no terminal is
    /// not sent twice: what is left has a few seconds then.
    pub(crate) async fn unless_received<T>(&mut self, work: impl Future<Output = T>) -> T {
        let stopped = self.received.filter(|received| *received != ReceivedSignal::Interrupt);
        let late = async {
            match stopped {
                Some(received) => {
                    tokio::time::sleep(LEFT_AFTER_SIGNAL).await;
                    received
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            done = work => done,
            received = self.next() => stream::exit(received.exit_code().into()),
            received = late => stream::exit(received.exit_code().into()),
        }
    }

    /// The signal by which a run was asked to stop, if one was heard.
    pub(crate) fn received(&self) -> Option<ReceivedSignal> {
        self.received
    }

    /// The exit code for what a run came to: that of its class, or what a shell shows for SIGTERM where that stopped it.
    pub(crate) fn exit_code(&self, outcome: &Outcome) -> ExitCode {
        match (outcome.stop.class, self.received) {
            (StopClass::Cancelled, Some(ReceivedSignal::Terminate)) => ExitCode::from(SIGTERM_EXIT),
            (class, _) => ExitCode::from(class.exit_code()),
        }
    }

    /// The first Ctrl-C stops at the next gate, the second at once; SIGTERM and SIGHUP stop at once.
    pub(crate) async fn stop(&mut self, remote: &Remote) -> Infallible {
        let mut is_first = true;
        loop {
            let received = self.next().await;
            self.received = Some(received);
            if is_first && received == ReceivedSignal::Interrupt {
                remote.stop(StopMode::AtGate);
                // Not waited for: a terminal that takes nothing must not keep the next signal out.
                spawn_blocking(|| {
                    stream::note("");
                    stream::note("stopping at the next gate; press Ctrl-C again to stop at once");
                });
            } else {
                remote.stop(StopMode::Now);
            }
            is_first = false;
        }
    }
}

/// The next of a signal that is listened for; otherwise none comes.
async fn of(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Makes a write beyond the largest permitted size of a file an error that is reported, instead of the program's end.
pub(crate) fn survive_file_limits() {
    // Once it is listened for, the signal ends nothing. Where that fails it is as it was.
    _ = signal(SignalKind::from_raw(SIGXFSZ));
}

/// Whether this program was started with a signal ignored. Where the system does not tell, it was not.
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal - 1)) != 0
}

/// How long what is left of a program may take that SIGTERM or SIGHUP has stopped, such as output that is not read.
const LEFT_AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// What a shell shows for a program that SIGTERM has ended.
const SIGTERM_EXIT: u8 = 143;

const SIGHUP: u32 = 1;

/// The same number on Linux and macOS.
const SIGXFSZ: i32 = 25;
