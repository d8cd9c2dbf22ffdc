//! One case: a process is started, ended at a place, and followed by others until the runs are over.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::child::{STORAGE_FAILED, Task};
use crate::journal::{CrashPoint, Plant};
use crate::server::Server;

/// The variable that marks all processes of a case.
pub const MARK: &str = "LOOPGATE_CRASH_MARK";

/// How long a process may take: a bound for one that hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a process that was left behind may take to notice that its parent is gone.
pub const GRACE: Duration = Duration::from_secs(60);

/// A case: a scenario, and where each of its processes is ended. A last process is ended nowhere.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: &'static str,
    pub places: Vec<CrashPoint>,
    pub plant: Plant,
}

/// The world around the first process of a case.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// How it is started: directly, or by a program that limits or traces it.
    pub wrap: &'a dyn Fn(Command) -> Command,
    /// What is done before the last process is started, for example a disk that is made larger.
    pub heal: &'a dyn Fn(),
}

impl std::fmt::Debug for Around<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Around")
    }
}

/// What is known of a case when its last process has ended.
#[derive(Debug)]
pub struct Played {
    pub journal: PathBuf,
    pub server: Server,
    /// What marks its processes.
    pub mark: String,
    /// By run: what was acknowledged, the sequence number and the hash.
    pub acks: BTreeMap<String, BTreeMap<u64, String>>,
    pub kills: u64,
    /// Processes whose journal failed.
    pub failures: u64,
    /// Appends and requests of the first process.
    pub appends: u64,
    pub requests: u64,
    pub problems: Vec<String>,
    /// Whether a process did not end by itself. No other follows it.
    pub hangs: bool,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Case {
    pub fn at(scenario: &'static str, places: &[CrashPoint]) -> Self {
        Self { scenario, places: places.to_vec(), plant: Plant::Nothing }
    }

    /// Plays the case in a folder.
    pub fn play(&self, folder: &Path, around: Option<Around<'_>>) -> Played {
        let mut played = Played::new(folder.join("journal.db"));
        for (at, place) in self.places.iter().chain([&CrashPoint::Never]).enumerate() {
            let task = Task {
                scenario: self.scenario,
                address: played.server.address.clone(),
                journal: played.journal.display().to_string(),
                place: *place,
                mark: played.mark.clone(),
                plant: self.plant,
            };
            let is_last = at == self.places.len();
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(task.args());
            match around {
                Some(around) if at == 0 && !is_last => command = (around.wrap)(command),
                Some(around) if is_last => (around.heal)(),
                Some(_) | None => {}
            }
            let grace = if self.plant == Plant::Orphan { Duration::from_millis(50) } else { GRACE };
            let ended = played.process(command, *place, grace);
            let is_expected = match (ended.status.signal(), ended.status.code()) {
                (Some(9), _) => !is_last,
                (None, Some(0)) => true,
                (None, Some(STORAGE_FAILED)) => !is_last,
                _ => false,
            };
            if !is_expected {
                let Ended { status, refused, err } = ended;
                played.problems.push(format!("the process at {place} ended with {status}: {refused} {err}"));
            }
            if played.hangs {
                break;
            }
        }
        played
    }
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Why its journal refused. Empty: it did not.
    pub refused: String,
    pub err: String,
}

impl Played {
    pub fn new(journal: PathBuf) -> Self {
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            journal,
            server: Server::start(),
            mark: format!("crash-{}-{nth}", std::process::id()),
            acks: BTreeMap::new(),
            kills: 0,
            failures: 0,
            appends: 0,
            requests: 0,
            problems: Vec::new(),
            hangs: false,
        }
    }

    /// Starts a process, ends it at a place, and takes in what it reported.
    pub fn process(&mut self, mut command: Command, place: CrashPoint, grace: Duration) -> Ended {
        command.env(MARK, &self.mark).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        self.server.arm(if let CrashPoint::Request(n) = place { Some(n) } else { None }, pid);
        let killer = CrashPoint::micros(place).map(|micros| {
            // It may have ended by itself. It is reaped only behind this, so the number is still its own.
            thread::spawn(move || {
                thread::sleep(Duration::from_micros(micros));
                let _ = kill_process(pid, Signal::KILL);
            })
        });
        let err = child.stderr.take().unwrap();
        let err = thread::spawn(move || {
            let mut text = String::new();
            BufReader::new(err).read_to_string(&mut text).map(|_| text).unwrap_or_default()
        });
        let lines = lines_of(&mut child);
        if lines.is_none() {
            child.kill().unwrap();
            self.hangs = true;
            self.problems.push(format!("the process at {place} hangs"));
        }
        if let Some(killer) = killer {
            killer.join().unwrap();
        }
        let requests = self.server.disarm();
        let status = child.wait().unwrap();
        let (appends, refused) = self.read(lines.unwrap_or_default());
        if self.appends == 0 {
            (self.appends, self.requests) = (appends, requests);
        }
        self.kills += u64::from(status.signal() == Some(9));
        self.failures += u64::from(status.code() == Some(STORAGE_FAILED));
        let left = left_behind(&self.mark, grace);
        if !left.is_empty() {
            self.problems.push(format!("I-14: left behind by the process at {place}: {}", left.join(", ")));
        }
        // Behind the kill of what was left, which may hold the other end of the pipe.
        Ended { status, refused, err: err.join().unwrap() }
    }

    /// Takes in what a process reported; gives the number of its appends, and why its journal refused.
    fn read(&mut self, lines: Vec<String>) -> (u64, String) {
        let (mut appends, mut refused, mut run) = (0, String::new(), String::new());
        for line in lines {
            match line.split_once(' ') {
                Some(("ack", rest)) => {
                    let words: Vec<&str> = rest.split(' ').collect();
                    let [run, seq, hash] = words[..] else { continue };
                    let of_run = self.acks.entry(run.to_owned()).or_default();
                    // What was acknowledged first counts: a later process that writes another entry there has lost it.
                    of_run.entry(seq.parse().unwrap()).or_insert_with(|| hash.to_owned());
                }
                Some(("appends", rest)) => appends = rest.parse().unwrap(),
                Some(("refused", rest)) => refused = rest.to_owned(),
                // The command's own events: each is printed once its entry is durable.
                Some(_) if line.starts_with('{') => self.read_event(&line, &mut run),
                _ => {}
            }
        }
        (appends, refused)
    }
}

impl Played {
    /// An entry that `loopgate run --events` printed. The first one names the run.
    fn read_event(&mut self, line: &str, run: &mut String) {
        let Ok(printed) = serde_json::from_str::<serde_json::Value>(line) else { return };
        let event = &printed["event"];
        if let Some(started) = event["run"].as_str() {
            *run = started.to_owned();
        }
        // A note is printed behind its event.
        if let (Some(seq), false) = (printed["seq"].as_u64(), event.is_null()) {
            let of_run = self.acks.entry(run.clone()).or_default();
            of_run.entry(seq).or_insert_with(|| event.to_string());
        }
    }
}

/// All lines that a process writes until it ends. `None`: it does not end. A line that a kill cut off is left out.
fn lines_of(child: &mut Child) -> Option<Vec<String>> {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut lines = Vec::new();
        let mut line = String::new();
        while out.read_line(&mut line).unwrap_or(0) > 0 {
            if let Some(whole) = line.strip_suffix('\n') {
                lines.push(whole.to_owned());
            }
            line.clear();
        }
        let _ = send.send(lines);
    });
    receive.recv_timeout(PATIENCE).ok()
}

/// The processes of a case that are alive although it has none, after some time to notice it. They are killed.
pub fn left_behind(mark: &str, grace: Duration) -> Vec<String> {
    let started = Instant::now();
    loop {
        let alive = alive(mark);
        if alive.is_empty() || started.elapsed() > grace {
            for (pid, _) in &alive {
                let _ = kill_process(*pid, Signal::KILL);
            }
            return alive.into_iter().map(|(_, what)| what).collect();
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The processes whose environment has the mark. One that has ended and is not reaped has no environment.
fn alive(mark: &str) -> Vec<(Pid, String)> {
    let wanted = format!("{MARK}={mark}\0");
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let is_marked = environment.windows(wanted.len()).any(|part| part == wanted.as_bytes());
        let what = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " ");
        is_marked.then_some((Pid::from_raw(pid)?, what))
    });
    numbers.collect()
}
