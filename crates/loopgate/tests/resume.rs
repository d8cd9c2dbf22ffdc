//! `loopgate resume --all`: every run that is not over, and none that hides another.

use crate::common;

use std::path::Path;

use common::Shell;
use common::provider::{Provider, Says, call, text};
use common::versions::on_engine;
use loop_runtime::journal::StoredJournal;
use serde_json::json;

const USER_REQUEST: &str = "Set the company of user 42 to EPAM.";

/// The people register, where a person allows each change.
fn register(shell: &Shell) -> String {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    folder.display().to_string()
}

/// A run whose process is killed in its first model call; its id.
fn killed(shell: &Shell, folder: &str, provider: &Provider, more: &[&str]) -> String {
    let url = format!("base={}", provider.url);
    let args = ["run", folder, "--text", USER_REQUEST, "--model", "base=compatible/m", "--base-url", &url];
    let mut child = shell.command(&[&args[..], more].concat()).spawn().unwrap();
    provider.wait();
    child.kill().unwrap();
    child.wait().unwrap();
    last(shell)
}

fn last(shell: &Shell) -> String {
    shell.run(&["runs"]).out.split_whitespace().next().unwrap().to_owned()
}

fn journal(shell: &Shell) -> rusqlite::Connection {
    let path = shell.state.path().join("loopgate/journal.db");
    assert!(path.exists(), "{path:?}");
    rusqlite::Connection::open(path).unwrap()
}

/// Damages what the journal holds of a run.
fn damage(shell: &Shell, run: &str) {
    let changed = journal(shell).execute("UPDATE runs SET entries = -1 WHERE run = ?1", [run]).unwrap();
    assert_eq!(changed, 1);
}

// B2
#[test]
fn all_runs_that_are_not_over_are_resumed_and_none_hides_another() {
    let shell = Shell::new();
    let folder = register(&shell);
    let moved = shell.state.path().join("moved");
    common::copy(Path::new(&folder), &moved);
    let change = json!({"id": 42, "company": "EPAM"});
    let mut replies: Vec<Says> = (0..4).map(|_| Says::Nothing).collect();
    replies.push(text("m", "There is nothing to change."));
    replies.push(call("m", "update_user", &change));
    replies.push(text("m", "There is nothing to change."));
    let provider = Provider::replying(replies);
    let first = killed(&shell, &folder, &provider, &[]);
    let gone = killed(&shell, moved.to_str().unwrap(), &provider, &[]);
    let damaged = killed(&shell, &folder, &provider, &[]);
    let asks = killed(&shell, &folder, &provider, &[]);
    std::fs::remove_dir_all(&moved).unwrap();
    damage(&shell, &damaged);

    let ran = shell.run(&["resume", "--all"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    let [one, two, three, four] = lines[..] else { panic!("{}{}", ran.out, ran.err) };
    assert_eq!(one, format!("{first}  stopped: completed (answered)"));
    assert!(two.starts_with(&format!("{gone}  not resumed: ")) && two.contains("--domain"), "{two}");
    assert!(three.starts_with(&format!("{damaged}  not resumed: damaged: ")), "{three}");
    let waits = format!("{asks}  waiting: a person has to answer; `loopgate pending {asks}` shows what");
    assert_eq!(four, waits);
    assert_eq!(ran.code, 1, "{}", ran.err);

    // What is over is over, and what waits is left waiting, with nothing added to it.
    let entries = shell.run(&["show", &asks, "--events"]).out;
    let ran = shell.run(&["resume", "--all"]);
    assert_eq!(ran.out.lines().collect::<Vec<_>>(), [two, three, &waits], "{}", ran.err);
    assert_eq!(shell.run(&["show", &asks, "--events"]).out, entries);
    assert_eq!(provider.received().len(), 6);

    // B2: nor do they hide each other in what is listed.
    let ran = shell.run(&["pending", "--json"]);
    assert!(ran.err.contains(&damaged), "{}", ran.err);
    let pending: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &pending["pending"][0]["run"]), (0, &json!(asks)));
    let ran = shell.run(&["runs"]);
    let states = ran.out.lines().map(|line| {
        let state =
            ["completed", "interrupted", "damaged", "waiting"].into_iter().find(|state| line.contains(state));
        (line.split_whitespace().next().unwrap(), state.unwrap())
    });
    let expected =
        [(&*asks, "waiting"), (&*damaged, "damaged"), (&*gone, "interrupted"), (&*first, "completed")];
    assert_eq!(states.collect::<Vec<_>>(), expected);
    let ran = shell.run(&["show", "last"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains(&asks), "{}", ran.out);

    // Where each run is well, so is all.
    for run in [&gone, &damaged] {
        let journal = journal(&shell);
        journal.execute("DELETE FROM entries WHERE run = ?1", [run]).unwrap();
        journal.execute("DELETE FROM runs WHERE run = ?1", [run]).unwrap();
    }
    let ran = shell.run(&["resume", "--all"]);
    assert_eq!((ran.code, ran.out.trim_end()), (0, &*waits), "{}", ran.err);
    assert_eq!(shell.run(&["deny", &asks, "1/action-0"]).code, 3);
    let ran = shell.run(&["resume", "--all"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", "no run is to be resumed\n"));
    // One or all, and no more than a line each.
    for args in [&["resume"][..], &["resume", &first, "--all"], &["resume", "--all", "--json"]] {
        assert_eq!(shell.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn a_run_that_an_engine_drives_is_left_to_it_and_the_line_says_how_to_answer() {
    // I-11, I-12; issue 20, part 1
    let shell = Shell::new();
    let folder = register(&shell);
    assert_eq!(
        shell
            .run(&["run", &folder, "--text", "search_user Bob, get_user_by_id 42, update_user 42 EPAM"])
            .code,
        5
    );
    let own = last(&shell);
    let journal = StoredJournal::open(shell.state.path().join("loopgate/journal.db")).unwrap();
    let run = on_engine(&journal, &own);
    let shown = shell.run(&["show", &run]).out;
    assert!(shown.contains(" on restate"), "{shown}");
    let before = shell.run(&["show", &run, "--events"]).out;
    let all = shell.run(&["resume", "--all"]);
    assert_eq!(all.code, 0, "{}{}", all.out, all.err);
    assert!(all.out.contains(&format!("{own}  waiting: ")), "{}", all.out);
    assert!(all.out.contains(&format!("{run}  running: restate drives it")), "{}", all.out);
    let refused = [run.as_str(), "is driven by restate", "--ingress URL"];
    shell.run(&["resume", &run]).fails_with(&refused);
    shell.run(&["approve", &run, "1/action-0"]).fails_with(&refused);
    shell.run(&["tell", &run, "Look again."]).fails_with(&refused);
    let pending = shell.run(&["pending", &run]);
    assert!(pending.err.contains(&format!("run {run} is driven by restate")), "{}", pending.err);
    assert_eq!(shell.run(&["show", &run, "--events"]).out, before, "nothing is recorded");
}

// B2: what was seen of 50 starting runs, in a small form.
#[test]
fn what_waits_is_listed_while_other_runs_start() {
    let shell = Shell::new();
    let folder = register(&shell);
    let user_request = ["run", &folder, "--text", "search_user Bob, get_user_by_id 42, update_user 42 EPAM"];
    let ran = shell.run(&user_request);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let waiting = last(&shell);
    for _ in 0..3 {
        let mut starting: Vec<_> = (0..4)
            .map(|_| shell.command(&["run", &folder, "--text", "Search user Alice"]).spawn().unwrap())
            .collect();
        let mut looks = 0;
        while looks < 3 || starting.iter_mut().any(|run| run.try_wait().unwrap().is_none()) {
            let pending = shell.json(&["pending", "--json"]);
            let runs = pending["pending"].as_array().unwrap();
            assert_eq!(runs.iter().map(|it| &it["run"]).collect::<Vec<_>>(), [&json!(waiting)]);
            assert_eq!(shell.run(&["runs"]).code, 0);
            looks += 1;
        }
        for run in starting {
            let ran: common::Ran = run.wait_with_output().unwrap().into();
            assert_eq!(ran.code, 0, "{}", ran.err);
        }
    }
}

// B2
#[test]
fn a_damaged_run_that_is_the_newest_hides_no_older_one() {
    let shell = Shell::new();
    let folder = register(&shell);
    let find = ["run", &folder, "--text", "Search user Alice"];
    assert_eq!(shell.run(&find).code, 0);
    let whole = last(&shell);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(shell.run(&find).code, 0);
    let damaged = last(&shell);
    damage(&shell, &damaged);
    let ran = shell.run(&["show", "last"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains(&whole) && !ran.out.contains(&damaged), "{}", ran.out);
    assert!(ran.err.contains(&format!("run {damaged} is newer, and damaged: ")), "{}", ran.err);
    shell.run(&["show", &damaged]).fails_with(&[&damaged]);
    assert_eq!(shell.run(&["pending"]).code, 0);
}
