//! Handles the signals that end a run or the program: Ctrl-C, SIGTERM and SIGHUP.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use loop_core::Outcome;
use loop_core::types::StopClass;
use loop_runtime::run::{Remote, StopMode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::output::stream;

/// The signals that the program handles.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// SIGHUP. `None` if the program was started to ignore it, for example with `nohup`.
    hangup: Option<Signal>,
    /// The last signal that stopped a run.
    received: Option<ReceivedSignal>,
}

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedSignal {
    Interrupt,
    Terminate,
    HangUp,
}

impl ReceivedSignal {
    /// The exit code that shells use for a program that this signal ended.
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

    /// Awaits `work`. A signal before that ends the program. If a run was already stopped by a signal that does not
    /// come from a terminal, the work gets a few seconds instead.
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

    /// The signal that stopped a run, if any.
    pub(crate) fn received(&self) -> Option<ReceivedSignal> {
        self.received
    }

    /// The exit code of a run: that of its outcome's class, or that of SIGTERM if it stopped the run.
    pub(crate) fn exit_code(&self, outcome: &Outcome) -> ExitCode {
        match (outcome.stop.class, self.received) {
            (StopClass::Cancelled, Some(ReceivedSignal::Terminate)) => ExitCode::from(SIGTERM_EXIT),
            (class, _) => ExitCode::from(class.exit_code()),
        }
    }

    /// Stops a run by signals: the first Ctrl-C at its next gate, the second at once, and SIGTERM and SIGHUP at once.
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

/// The next signal. Pending forever if it is not handled.
async fn of(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Turns SIGXFSZ into a write error that is reported.
pub(crate) fn survive_file_limits() {
    // Once it is listened for, the signal ends nothing. Where that fails it is as it was.
    _ = signal(SignalKind::from_raw(SIGXFSZ));
}

/// Whether this signal was ignored when the program started. False if the system does not tell.
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal - 1)) != 0
}

/// How long the rest of the program may take after SIGTERM or SIGHUP stopped a run.
const LEFT_AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// The exit code for SIGTERM.
const SIGTERM_EXIT: u8 = 143;

const SIGHUP: u32 = 1;

/// It has the same number on Linux and macOS.
const SIGXFSZ: i32 = 25;
