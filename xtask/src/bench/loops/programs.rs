//! The programs of the bench as processes of their own: each is ended by the value that holds it, and none outlives the
//! bench.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{CALLGRIND, Programs, collected};
use crate::workspace::Failure;

/// A loop as the server makes it.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Shape {
    pub(in crate::bench) passes: u32,
    /// In each pass but the last.
    pub(in crate::bench) calls: u32,
    /// Until a reply begins.
    pub(in crate::bench) delay_ms: u32,
    /// Between two events of a reply; with none a reply comes at once.
    pub(in crate::bench) pace_ms: u32,
}

/// Which client runs, and how.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) enum Client<'a> {
    /// Ours, with this journal, and tools that take so long.
    Load { journal: &'a str, tool_ms: u32 },
    /// Ours, with a journal in this file, and what of it is synced.
    File { journal: &'a str, sync: &'a str },
    /// Ours, with tools that take so long, one after another or side by side, and may start early if they are cheap.
    Early { tool_ms: u32, ordered: bool, cheap: bool },
    /// The lean loop by hand, with nothing of ours.
    ByHand,
    /// The least loop over our model client.
    LeastLoop,
    /// The bare one, with the bodies of this folder.
    Bare { bodies: &'a Path },
}

/// How many loops.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Work {
    pub(in crate::bench) loops: u32,
    pub(in crate::bench) concurrency: u32,
    pub(in crate::bench) warmup: u32,
}

/// Where a loop is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Place {
    /// In a task of a runtime with one thread.
    OneThread,
    /// In a task of a runtime with two threads.
    Task,
    /// In the future that a runtime with two threads blocks on, as `#[tokio::main]` does.
    Root,
}

/// What a client reported in its line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct Line {
    pub(in crate::bench) loops: f64,
    pub(in crate::bench) wall_s: f64,
    pub(in crate::bench) cpu_s: f64,
    pub(in crate::bench) peak_rss_kb: f64,
    pub(in crate::bench) tool_calls: f64,
    /// Journal entries and syncs; `None`: the client has no journal in a file.
    pub(in crate::bench) entries: Option<f64>,
    pub(in crate::bench) syncs: Option<f64>,
    pub(in crate::bench) ttft_ms: Option<f64>,
}

/// The server, while it is held.
pub(in crate::bench) struct Server {
    child: Child,
    base_url: String,
}

/// A child that is ended with its holder.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends this child, and no other process.
fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

impl Server {
    /// Starts it; with `record`, the bodies that come in are written there.
    pub(in crate::bench) fn start(
        programs: &Programs,
        shape: Shape,
        record: Option<&Path>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(&programs.loops);
        command.arg("serve");
        let Shape { passes, calls, delay_ms, pace_ms } = shape;
        for (name, number) in
            [("--passes", passes), ("--calls", calls), ("--delay-ms", delay_ms), ("--pace-ms", pace_ms)]
        {
            command.arg(name).arg(number.to_string());
        }
        if let Some(folder) = record {
            command.arg("--record").arg(folder);
        }
        // It ends when its input does, so it cannot outlive this process either.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut server = Self {
            child: child.map_err(|error| cannot("start the server", error))?,
            base_url: String::new(),
        };
        if let Some(stdout) = server.child.stdout.take() {
            let reported = BufReader::new(stdout).read_line(&mut server.base_url);
            reported.map_err(|error| cannot("read the server's address", error))?;
        }
        Ok(server)
    }

    /// A client that does its work against this server; `program` says how a program is started.
    pub(in crate::bench) fn command(
        &self,
        programs: &Programs,
        client: Client<'_>,
        work: Work,
        program: impl Fn(&PathBuf) -> Command,
    ) -> Command {
        let mut command = match client {
            Client::Load { journal, tool_ms } => {
                let mut command = program(&programs.load);
                command.args(["--model", "bench-1", "--journal", journal]);
                command.env("BENCH_TOOL_MS", tool_ms.to_string());
                command
            }
            Client::File { journal, sync } => {
                let mut command = program(&programs.load);
                command.args(["--model", "bench-1", "--journal", journal, "--sync", sync]);
                command
            }
            Client::Early { tool_ms, ordered, cheap } => {
                let mut command = program(&programs.load);
                command.args(["--model", "bench-1"]);
                command.env("BENCH_TOOL_MS", tool_ms.to_string());
                for (name, is_set) in [("BENCH_ORDERED", ordered), ("BENCH_CHEAP", cheap)] {
                    command.env(name, u32::from(is_set).to_string());
                }
                command
            }
            Client::ByHand => {
                let mut command = program(&programs.loops);
                command.arg("by-hand");
                command
            }
            Client::LeastLoop => {
                let mut command = program(&programs.loops);
                command.arg("by-hand-over-client");
                command
            }
            Client::Bare { bodies } => {
                let mut command = program(&programs.loops);
                command.args(["bare", "--bodies"]).arg(bodies);
                command
            }
        };
        command
            .args(["--base-url", self.base_url.trim()])
            .env_remove("BENCH_THREADS")
            .env_remove("BENCH_ROOT");
        for (name, number) in
            [("--loops", work.loops), ("--concurrency", work.concurrency), ("--warmup", work.warmup)]
        {
            command.arg(name).arg(number.to_string());
        }
        command
    }

    /// Lets a client do its work against this server, and reads its line.
    ///
    /// # Errors
    /// When a loop did not end as expected, or the client takes longer than it may.
    pub(in crate::bench) fn ask(
        &self,
        programs: &Programs,
        client: Client<'_>,
        work: Work,
    ) -> Result<Line, Failure> {
        self.ask_at(Place::OneThread, programs, client, work)
    }

    /// The same, with the loops awaited elsewhere.
    pub(in crate::bench) fn ask_at(
        &self,
        place: Place,
        programs: &Programs,
        client: Client<'_>,
        work: Work,
    ) -> Result<Line, Failure> {
        let mut command = self.command(programs, client, work, |path| Command::new(path));
        if place != Place::OneThread {
            command.env("BENCH_THREADS", "2");
        }
        if place == Place::Root {
            command.env("BENCH_ROOT", "1");
        }
        let (succeeded, reported, complaint) = ended(command, client)?;
        match Line::read(&reported).filter(|_| succeeded) {
            Some(line) => Ok(line),
            None => Err(Failure::Check(format!("{client:?} failed\n{reported}{complaint}"))),
        }
    }

    /// The instructions of a client that does its work, from its start to its end, user space only.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); and when valgrind is not here.
    pub(in crate::bench) fn instructions(
        &self,
        programs: &Programs,
        client: Client<'_>,
        work: Work,
    ) -> Result<u64, Failure> {
        let watched = |program: &PathBuf| {
            let mut command = Command::new("valgrind");
            command.args(CALLGRIND).arg(program);
            command
        };
        let (succeeded, reported, complaint) = ended(self.command(programs, client, work, watched), client)?;
        let is_done = succeeded && Line::read(&reported).is_some();
        collected(&complaint).filter(|_| is_done).ok_or_else(|| {
            Failure::Check(format!("valgrind counted nothing of {client:?}\n{reported}{complaint}"))
        })
    }
}

/// Waits for a client: whether it succeeded, and what it wrote to standard output and standard error.
fn ended(mut command: Command, client: Client<'_>) -> Result<(bool, String, String), Failure> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = Held(child.map_err(|error| cannot("start a client", error))?);
    let ends = Instant::now() + LONGEST;
    let status = loop {
        match child.0.try_wait().map_err(|error| cannot("wait for a client", error))? {
            Some(status) => break status,
            None if Instant::now() > ends => {
                return Err(Failure::Check(format!("{client:?} was not done after {} s", LONGEST.as_secs())));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let (mut reported, mut complaint) = (String::new(), String::new());
    if let (Some(mut stdout), Some(mut stderr)) = (child.0.stdout.take(), child.0.stderr.take()) {
        stdout.read_to_string(&mut reported).map_err(|error| cannot("read a client's line", error))?;
        stderr.read_to_string(&mut complaint).map_err(|error| cannot("read a client's complaint", error))?;
    }
    Ok((status.success(), reported, complaint))
}

impl Line {
    /// The line of a client whose loops all ended as expected.
    fn read(reported: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(reported.trim()).ok()?;
        let number = |name: &str| line.get(name)?.as_f64();
        line.get("ok")?.as_bool().filter(|ok| *ok)?;
        Some(Self {
            loops: number("loops")?,
            wall_s: number("wall_s")?,
            cpu_s: number("cpu_s")?,
            peak_rss_kb: number("peak_rss_kb")?,
            tool_calls: number("tool_calls")?,
            entries: number("entries"),
            syncs: number("syncs"),
            ttft_ms: number("ttft_ms"),
        })
    }

    /// Microseconds of processor time a loop.
    pub(in crate::bench) fn cpu_us(&self) -> f64 {
        self.cpu_s / self.loops * 1e6
    }

    /// Microseconds a loop, as one waits for it.
    pub(in crate::bench) fn wall_us(&self) -> f64 {
        self.wall_s / self.loops * 1e6
    }
}

fn cannot(what: &str, error: std::io::Error) -> Failure {
    Failure::Check(format!("cannot {what}: {error}"))
}

/// How long a client may take. In CI it is counted by valgrind beside tests, with what they leave of the processors.
const LONGEST: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_line_counts_only_when_all_loops_ended_as_expected() {
        let line = |ok: bool| {
            format!(
                "{{\"loops\":4,\"wall_s\":2.0,\"cpu_s\":0.002,\"startup_cpu_s\":0.1,\"peak_rss_kb\":900,\
                 \"tool_calls\":48,\"ttft_ms\":null,\"ok\":{ok}}}\n"
            )
        };
        let read = Line::read(&line(true));
        assert_eq!(
            read.map(|line| (line.cpu_us(), line.wall_us(), line.ttft_ms)),
            Some((500.0, 500_000.0, None))
        );
        assert_eq!(Line::read(&line(false)), None);
        assert_eq!(Line::read("error: no server"), None);
    }
}
