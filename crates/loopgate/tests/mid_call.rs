//! Runs that are ended in the middle of a tool's work: what is left of it, and what a resumed run does about it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::provider::{Provider, Says, call, text};
use crate::common::{Ran, Shell};

/// How long a test waits for what must come: a bound for a test that fails, not for one that passes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that keeps its first request waiting until the connection is closed, and answers the others.
struct Slow {
    address: String,
    requests: Receiver<String>,
    closed: Receiver<()>,
}

impl Slow {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ((request, requests), (close, closed)) = (channel(), channel());
        thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let (request, close) = (request.clone(), close.clone());
                thread::spawn(move || serve(stream.unwrap(), at == 0, &request, &close));
            }
        });
        Self { address, requests, closed }
    }

    #[track_caller]
    fn request(&self) -> String {
        self.requests.recv_timeout(PATIENCE).expect("no request comes")
    }
}

fn serve(mut stream: TcpStream, waits: bool, request: &Sender<String>, close: &Sender<()>) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    request.send(head).unwrap();
    if waits {
        // What else comes is the body. A client that was killed may reset the connection.
        let _ = reader.read_to_end(&mut Vec::new());
        close.send(()).unwrap();
    } else {
        let body = r#"{"shop": "web-1"}"#;
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
        let _ = write!(stream, "{head} {}\r\n\r\n{body}", body.len());
    }
}

/// A domain with one tool, which the model calls once.
struct Desk {
    shell: Shell,
    folder: PathBuf,
    provider: Provider,
}

impl Desk {
    fn new(shell: Shell, tool: &str, arguments: &Value) -> Self {
        let file = shell.file(
            "desk/loopgate.toml",
            &format!(
                "version = 1\nname = \"desk\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n\
                 [gate]\napproved = [\"act\"]\n[models.base]\nprovider = \"compatible\"\nmodel = \"m\"\n\
                 base_url = \"http://127.0.0.1:9/v1\"\n[tools.act]\ntimeout_ms = 600000\ndescription = \"Act\"\n{tool}"
            ),
        );
        let replies: Vec<Says> = vec![call("m", "act", arguments), text("m", "It is done.")];
        let folder = file.parent().unwrap().to_owned();
        Self { shell, folder, provider: Provider::replying(replies) }
    }

    fn run(&self, more: &[&str]) -> Child {
        let url = format!("base={}", self.provider.url);
        let args = ["run", self.folder.to_str().unwrap(), "--text", "Act.", "--base-url", &url];
        self.shell.command(&[&args[..], more].concat()).spawn().unwrap()
    }

    /// Sends the signal that ends a run at once: of Ctrl-C that is the second one.
    #[track_caller]
    fn end(&self, mut child: Child, signal: Signal) -> Ran {
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut shown = String::new();
        if signal == Signal::INT {
            while !shown.contains("Ctrl-C again") {
                assert!(err.read_line(&mut shown).unwrap() > 0, "{shown}");
            }
            kill_process(pid, signal).unwrap();
        }
        let rest = thread::spawn(move || {
            let mut rest = String::new();
            err.read_to_string(&mut rest).map(|_| rest)
        });
        let ran: Ran = child.wait_with_output().unwrap().into();
        Ran { err: shown + &rest.join().unwrap().unwrap(), ..ran }
    }

    fn effects(&self) -> Value {
        self.shell.json(&["show", "last", "--json"])["stop"]["effects"].clone()
    }
}

fn http(effect: &str, slow: &Slow) -> Desk {
    let address = &slow.address;
    let method = if effect == "read" { "GET" } else { "POST" };
    let tool = format!(
        "kind = \"http\"\neffect = \"{effect}\"\n[tools.act.http]\nmethod = \"{method}\"\nurl = \"http://{address}/shop\"\n\
         private = [\"{address}\"]\nplain_http = true\n"
    );
    Desk::new(Shell::new(), &tool, &json!({}))
}

fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

// W5
#[test]
fn a_read_over_http_that_was_killed_is_made_again_and_no_connection_stays() {
    let slow = Slow::start();
    let desk = http("read", &slow);
    let child = desk.run(&[]);
    slow.request();
    killed(child);
    slow.closed.recv_timeout(PATIENCE).expect("the connection stays");
    let resumed = desk.shell.run(&["resume", "last"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    slow.request();
    assert!(slow.requests.try_recv().is_err(), "it is made once more");
    assert!(desk.provider.received()[1].contains("web-1"), "the model reads the second answer");
}

// W5
#[test]
fn a_write_over_http_that_was_killed_is_in_doubt_and_is_not_made_again() {
    for effect in ["write_irreversible", "egress", "exec"] {
        let slow = Slow::start();
        let desk = http(effect, &slow);
        let child = desk.run(&[]);
        slow.request();
        killed(child);
        slow.closed.recv_timeout(PATIENCE).expect("the connection stays");
        let resumed = desk.shell.run(&["resume", "last"]);
        assert_eq!(resumed.code, 7, "{effect}: {}{}", resumed.out, resumed.err);
        assert!(resumed.err.contains("in doubt: 1/action-0 act"), "{effect}: {}", resumed.err);
        assert!(slow.requests.try_recv().is_err(), "{effect} is made again");
        assert_eq!(desk.effects()["in_doubt"], 1);
    }
}

// W5
#[test]
fn a_write_with_a_key_that_was_killed_is_made_again_with_the_same_key() {
    let slow = Slow::start();
    let desk = http("write_keyed", &slow);
    let child = desk.run(&[]);
    let key = |head: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("idempotency-key:"));
        line.unwrap().to_owned()
    };
    let first = key(&slow.request());
    killed(child);
    slow.closed.recv_timeout(PATIENCE).expect("the connection stays");
    let resumed = desk.shell.run(&["resume", "last"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert_eq!(key(&slow.request()), first);
    assert_eq!((&desk.effects()["executed"], &desk.effects()["in_doubt"]), (&json!(1), &json!(0)));
}

// W5, H9
#[test]
fn a_signal_in_the_middle_of_a_request_ends_the_run_with_an_outcome_and_no_connection_stays() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for (effect, in_doubt) in [("read", 0), ("write_irreversible", 1)] {
            let slow = Slow::start();
            let desk = http(effect, &slow);
            let child = desk.run(&["--json"]);
            slow.request();
            let ran = desk.end(child, signal);
            assert_eq!(ran.code, code, "{effect}: {}{}", ran.out, ran.err);
            slow.closed.recv_timeout(PATIENCE).expect("the connection stays");
            let outcome: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(outcome["stop"]["reason"], "manual_stop", "{effect}");
            assert_eq!(outcome["stop"]["also"] == json!(["in_doubt"]), in_doubt == 1, "{effect}");
            assert_eq!(outcome["stop"]["effects"]["in_doubt"], in_doubt, "{effect}");
            // The journal is free, and knows it.
            assert_eq!(desk.effects()["in_doubt"], in_doubt, "{effect}");
        }
    }
}

#[cfg(target_os = "linux")]
/// The processes that have the mark in their environment.
fn alive(mark: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let environs = entries.map(|entry| fs::read(entry.path().join("environ")).unwrap_or_default());
    environs.filter(|environ| String::from_utf8_lossy(environ).contains(mark)).count()
}

// W5, K12
#[cfg(target_os = "linux")]
#[test]
fn a_signal_in_the_middle_of_a_program_ends_the_run_with_an_outcome_and_no_process_stays() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for (effect, in_doubt) in [("read", 0), ("write_irreversible", 1)] {
            let shell = Shell::new();
            let mark = format!("loopgate-mid-call-{}-{code}-{effect}", std::process::id());
            let (begun, path) = (shell.state.path().join("begun"), std::env::var("PATH").unwrap());
            let script = format!("#!/bin/sh\nsleep 600 &\necho begun > {}\nsleep 600\n", begun.display());
            let script = shell.file("desk/act.sh", &script);
            fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
            let fifo = rustix::fs::mknodat(
                rustix::fs::CWD,
                &begun,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                0,
            );
            fifo.unwrap();
            let tool = format!(
                "kind = \"command\"\neffect = \"{effect}\"\n\
                 command = {{ program = \"./act.sh\", set = {{ MARK = \"{mark}\", PATH = \"{path}\" }} }}\n"
            );
            let desk = Desk::new(shell, &tool, &json!({}));
            let child = desk.run(&["--json"]);
            // It is written once the program runs.
            assert_eq!(fs::read_to_string(&begun).unwrap(), "begun\n");
            let ran = desk.end(child, signal);
            assert_eq!(ran.code, code, "{effect}: {}{}", ran.out, ran.err);
            // What was killed takes a moment to be gone where the machine is busy.
            let until = Instant::now() + PATIENCE;
            while alive(&mark) > 0 {
                assert!(Instant::now() < until, "{effect}: a process stays");
                thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(desk.effects()["in_doubt"], in_doubt, "{effect}");
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

// W5
#[test]
fn a_write_of_a_file_that_was_killed_leaves_the_old_or_the_new_one_and_the_next_clears_the_rest() {
    let (old, new) = ("old ".repeat(4_000), "new ".repeat(4_000));
    let tool =
        "kind = \"files\"\neffect = \"write_idempotent\"\nfiles = { folder = \"notes\", do = \"write\" }\n";
    // Each is killed at another moment of its work: at its start, or once something is to be seen in the folder.
    for round in 0..12 {
        let shell = Shell::new();
        shell.file("desk/notes/a.md", &old);
        let desk = Desk::new(shell, tool, &json!({"path": "a.md", "content": new}));
        let notes = desk.folder.join("notes");
        let mut child = desk.run(&["--events"]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let begun = lines.map_while(Result::ok).any(|line| line.contains("\"tool_started\""));
        assert!(begun, "the write is announced before it begins");
        while round % 2 == 1
            && names(&notes).len() < 2
            && fs::read(notes.join("a.md")).unwrap() == old.as_bytes()
        {
            thread::yield_now();
        }
        killed(child);
        let text = fs::read_to_string(notes.join("a.md")).unwrap();
        assert!(text == old || text == new, "round {round}: half of it, {} bytes", text.len());
        let resumed = desk.shell.run(&["resume", "last"]);
        let is_done = resumed.code == 0 || resumed.err.contains("is over (completed)");
        assert!(is_done, "round {round}: {}{}", resumed.out, resumed.err);
        assert_eq!(fs::read_to_string(notes.join("a.md")).unwrap(), new, "round {round}");
        let arguments = r#"{"path": "a.md", "content": "later"}"#;
        let ran = desk.shell.run(&["tools", desk.folder.to_str().unwrap(), "call", "act", arguments]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert_eq!(names(&notes), ["a.md"], "round {round}");
    }
}
