//! `loopgate stop`: the end of a run that another command drives, that a server drives or has queued, and that no process
//! drives.

use crate::common;

use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use common::Shell;
use common::provider::{Provider, Says, text};
#[cfg(feature = "server")]
use common::server::{LONG, Server, path};
use serde_json::{Value, json};

const REQUEST: &str = "Set the company of user 42 to EPAM.";

/// A run of the command that waits for its model.
fn begun(shell: &Shell, provider: &Provider) -> Child {
    let url = format!("base={}", provider.url);
    let args = ["run", "examples/crm", "--text", REQUEST, "--model", "base=compatible/m", "--base-url", &url];
    let child = shell.command(&args).spawn().unwrap();
    provider.wait();
    child
}

/// The reason and the class with which the newest run stopped.
fn ending(shell: &Shell) -> (Value, Value) {
    let stop = shell.json(&["show", "last", "--json"])["stop"].clone();
    (stop["reason"].clone(), stop["class"].clone())
}

#[test]
fn a_run_of_another_command_is_stopped_there_at_once_or_at_its_gate() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Nothing]);
    let child = begun(&shell, &provider);
    let stopped = shell.run(&["stop", "last", "--now"]);
    assert_eq!((stopped.code, stopped.out.as_str()), (0, ""), "{}", stopped.err);
    assert!(
        stopped.err.starts_with("stopped: run ") && stopped.err.ends_with(": manual_stop\n"),
        "{}",
        stopped.err
    );
    assert_eq!(stopped.err.lines().count(), 1);
    let ran: common::Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert!(ran.err.contains("stopped: manual_stop (cancelled)"), "{}", ran.err);
    assert_eq!(ending(&shell), (json!("manual_stop"), json!("cancelled")));
    shell.run(&["stop", "last"]).fails_with(&["is over (manual_stop)", "loopgate show "]);
    shell.run(&["stop", "nothing"]).fails_with(&["nothing"]);
    // The reply that is under way is read first, as after the first Ctrl-C.
    let provider =
        Provider::replying(vec![Says::Refused { status: 429, retry_after: 2 }, text("m", "Nothing to do.")]);
    let child = begun(&shell, &provider);
    let stopped = shell.run(&["stop", "last"]);
    assert_eq!(stopped.code, 0, "{}", stopped.err);
    let ran: common::Ran = child.wait_with_output().unwrap().into();
    assert!(ran.err.contains("stopped: "), "{}", ran.err);
    assert!(shell.run(&["show", "last", "--events"]).out.contains("stop_requested"));
}

#[test]
fn a_run_that_no_process_drives_is_ended_here() {
    // One that waits for a person, and one whose process was killed.
    let shell = Shell::new();
    let ran = shell.run(&[
        "run",
        "examples/crm",
        "--text",
        "search_user Bob, get_user_by_id 42, update_user 42 EPAM",
    ]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let stopped = shell.run(&["stop", "last"]);
    assert_eq!((stopped.code, stopped.out.as_str()), (0, ""), "{}", stopped.err);
    assert!(stopped.err.ends_with(": manual_stop (cancelled)\n"), "{}", stopped.err);
    assert_eq!(shell.run(&["pending"]).err, "nothing waits for a person\n");
    let provider = Provider::replying(vec![Says::Nothing]);
    let mut child = begun(&shell, &provider);
    child.kill().unwrap();
    child.wait().unwrap();
    let stopped = shell.run(&["stop", "last"]);
    assert_eq!(stopped.code, 0, "{}", stopped.err);
    assert_eq!(ending(&shell), (json!("manual_stop"), json!("cancelled")));
    assert_eq!(provider.received().len(), 1, "no call is made again for a run that is to end");
}

#[test]
fn a_process_that_does_not_take_the_stop_is_named_in_bounded_time() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Nothing]);
    let mut child = begun(&shell, &provider);
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let since = Instant::now();
    let refused = shell.run(&["stop", "last", "--now"]);
    signal("-CONT");
    refused.fails_with(&["is driven by another process, which did not take the stop within 10 s"]);
    assert!(since.elapsed() < Duration::from_secs(40));
    // It was withdrawn.
    thread::sleep(Duration::from_secs(2));
    assert!(child.try_wait().unwrap().is_none());
    assert_eq!(shell.run(&["stop", "last", "--now"]).code, 0);
    child.wait().unwrap();
}

#[cfg(feature = "server")]
#[test]
fn a_run_of_a_server_is_stopped_where_it_is_driven_or_queued() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Nothing]);
    let (folder, url) = (shell.copy_of("examples/crm"), format!("base={}", provider.url));
    let args = [path(Path::new(&folder)), "--jobs", "1", "--model", "base=compatible/m", "--base-url", &url];
    let server = Server::start(&shell, &args);
    let submit = || {
        let answered = server.ask("POST /v1/runs", "", &json!({ "item": REQUEST }).to_string());
        answered.json()["run"].as_str().unwrap().to_owned()
    };
    let driven = submit();
    provider.wait();
    let queued = submit();
    let stopped = shell.run(&["stop", &queued]);
    assert!(stopped.code == 0 && stopped.err.contains("has not begun"), "{}", stopped.err);
    let stopped = shell.run(&["stop", &driven, "--now"]);
    assert_eq!((stopped.code, stopped.err), (0, format!("stopped: run {driven}: manual_stop\n")));
    let since = Instant::now();
    while server.get(&format!("/v1/runs/{queued}"))["state"] != "ended" {
        assert!(since.elapsed() < LONG, "{}", server.get(&format!("/v1/runs/{queued}")));
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(provider.received().len(), 1, "the queued one ended without a call");
    assert_eq!(ending(&shell), (json!("manual_stop"), json!("cancelled")));
    assert_eq!(server.end().0, 0);
}
