//! One case: a process is started, ended at a place, and followed by others until the runs are over.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::child::{STORAGE_FAILED, Task};
use crate::journal::{Place, Plant};
use crate::server::Server;

/// The variable that marks all processes of a case.
pub const MARK: &str = "LOOPGATE_CRASH_MARK";

/// How long a process may take: a bound for one that hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a process that was left behind may take to notice that its parent is gone.
const GRACE: Duration = Duration::from_secs(10);

/// A case: a scenario, and where each of its processes is ended. A last process is ended nowhere.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: &'static str,
    pub places: Vec<Place>,
    pub plant: Plant,
}

/// What is known of a case when its last process has ended.
#[derive(Debug)]
pub struct Played {
    pub journal: PathBuf,
    pub server: Server,
    /// By run: what was acknowledged, the sequence number and the hash.
    pub acks: BTreeMap<String, BTreeMap<u64, String>>,
    pub kills: u64,
    /// Processes whose journal failed.
    pub failures: u64,
    /// Appends and requests of the first process.
    pub appends: u64,
    pub requests: u64,
    pub problems: Vec<String>,
}

/// How a process of a case is started: directly, or by a program that limits or traces it.
pub type Wrap<'a> = &'a dyn Fn(&mut Command);

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Case {
    /// Plays the case in a folder. `wrap` may change how the first process is started.
    pub fn play(&self, folder: &Path, wrap: Option<Wrap<'_>>) -> Played {
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("crash-{}-{nth}", std::process::id());
        let server = Server::start();
        let mut played = Played {
            journal: folder.join("journal.db"),
            server: server.clone(),
            acks: BTreeMap::new(),
            kills: 0,
            failures: 0,
            appends: 0,
            requests: 0,
            problems: Vec::new(),
        };
        for (at, place) in self.places.iter().chain([&Place::Never]).enumerate() {
            let task = Task {
                scenario: self.scenario,
                address: server.address.clone(),
                journal: played.journal.display().to_string(),
                place: *place,
                mark: mark.clone(),
                plant: self.plant,
            };
            let is_last = at == self.places.len();
            let wrap = wrap.filter(|_| at == 0 && !is_last);
            played.process(&task, wrap, is_last);
        }
        played
    }
}

impl Played {
    fn process(&mut self, task: &Task, wrap: Option<Wrap<'_>>, is_last: bool) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(task.args()).env(MARK, &task.mark);
        if let Some(wrap) = wrap {
            wrap(&mut command);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        self.server.arm(if let Place::Request(n) = task.place { Some(n) } else { None }, pid);
        if let Place::Timer(micros) = task.place {
            // It may have ended by itself; it is not reaped yet, so the number is still its own.
            thread::sleep(Duration::from_micros(micros));
            let _ = kill_process(pid, Signal::KILL);
        }
        let lines = lines_of(&mut child);
        if lines.is_none() {
            child.kill().unwrap();
            self.problems.push(format!("the process at {} hangs", task.place));
        }
        let requests = self.server.disarm();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap_or_default();
        let status = child.wait().unwrap();
        let (appends, refused) = self.read(lines.unwrap_or_default());
        if self.appends == 0 {
            (self.appends, self.requests) = (appends, requests);
        }
        match (status.signal(), status.code()) {
            (Some(9), _) => self.kills += 1,
            (None, Some(0)) => {}
            (None, Some(STORAGE_FAILED)) if !is_last => self.failures += 1,
            _ => self.problems.push(format!("the process at {} ended with {status}: {refused} {err}", task.place)),
        }
        let left = left_behind(&task.mark);
        if !left.is_empty() {
            self.problems.push(format!("left behind by the process at {}: {}", task.place, left.join(", ")));
        }
    }

    /// Takes in what a process reported; gives the number of its appends, and why its journal refused.
    fn read(&mut self, lines: Vec<String>) -> (u64, String) {
        let (mut appends, mut refused) = (0, String::new());
        for line in lines {
            match line.split_once(' ') {
                Some(("ack", rest)) => {
                    let words: Vec<&str> = rest.split(' ').collect();
                    let [run, seq, hash] = words[..] else { continue };
                    let of_run = self.acks.entry(run.to_owned()).or_default();
                    of_run.insert(seq.parse().unwrap(), hash.to_owned());
                }
                Some(("appends", rest)) => appends = rest.parse().unwrap(),
                Some(("refused", rest)) => refused = rest.to_owned(),
                _ => {}
            }
        }
        (appends, refused)
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
pub fn left_behind(mark: &str) -> Vec<String> {
    let started = Instant::now();
    loop {
        let alive = alive(mark);
        if alive.is_empty() || started.elapsed() > GRACE {
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
