//! Processes that are ended from outside: what they leave, and what going on with it comes to.

use crate::common;

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use common::provider::{Provider, Says, call, text};
use common::{Ran, Shell};
use serde_json::json;

const USER_REQUEST: &str = "Set the company of user 42 to EPAM.";

/// The people register, where changes are allowed and cannot be taken back.
fn register(shell: &Shell) -> String {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("effect = \"write_idempotent\""));
    std::fs::write(file, text.replace("write_idempotent", "write_irreversible")).unwrap();
    folder.display().to_string()
}

fn start(shell: &Shell, folder: &str, provider: &Provider, more: &[&str]) -> Child {
    let url = format!("base={}", provider.url);
    let args =
        ["run", folder, "--profile", "trusted", "--text", USER_REQUEST, "--model", "base=compatible/m"];
    shell.command(&[&args[..], &["--base-url", &url], more].concat()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

// B14
#[test]
fn four_kills_in_one_model_call_do_not_end_the_run() {
    let shell = Shell::new();
    let folder = register(&shell);
    let mut replies: Vec<Says> = (0..4).map(|_| Says::Nothing).collect();
    replies.push(text("m", "There is nothing to change."));
    let provider = Provider::replying(replies);
    let mut child = start(&shell, &folder, &provider, &[]);
    for _ in 0..3 {
        provider.wait();
        child.kill().unwrap();
        child.wait().unwrap();
        child = shell.command(&["resume", "last"]).spawn().unwrap();
    }
    provider.wait();
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = shell.run(&["resume", "last"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    assert!(resumed.out.contains("There is nothing to change."), "{}", resumed.out);
    assert_eq!(provider.received().len(), 5);
    let outcome = shell.json(&["show", "last", "--json"]);
    assert_eq!(
        (&outcome["stop"]["reason"], &outcome["totals"]["model_calls"]),
        (&json!("completed"), &json!(5))
    );
    let attempts: Vec<u64> =
        outcome["calls"].as_array().unwrap().iter().map(|call| call["attempt"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5], "each call is told");
}

/// A command that hears SIGHUP, also where these tests are run by something that ignores it, such as `nohup`.
fn hearing_hangups(command: Command) -> Command {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    if ignored & 1 == 0 {
        return command;
    }
    through("env", &["--default-signal=HUP"], &command)
}

/// A command that another program starts in its own place, for example with other limits.
fn through(program: &str, args: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(program);
    wrapped.args(args).arg(command.get_program()).args(command.get_args());
    wrapped.current_dir(command.get_current_dir().unwrap());
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wrapped
}

// B14, H9
#[test]
fn a_terminal_that_is_gone_ends_the_run_with_an_outcome() {
    let shell = Shell::new();
    let folder = register(&shell);
    let provider = Provider::replying(vec![Says::Nothing]);
    let url = format!("base={}", provider.url);
    let args =
        ["run", &folder, "--profile", "trusted", "--text", USER_REQUEST, "--model", "base=compatible/m"];
    let command = shell.command(&[&args[..], &["--base-url", &url, "--json"]].concat());
    let child = hearing_hangups(command).spawn().unwrap();
    provider.wait();
    signal(&child, "-HUP");
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 130, "{}{}", ran.out, ran.err);
    let outcome: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(outcome["stop"]["reason"], "manual_stop");
    assert_eq!(shell.json(&["show", "last", "--json"])["stop"]["class"], "cancelled");
}

// W5
#[test]
fn a_kill_in_the_middle_of_a_write_leaves_it_in_doubt_with_an_exit_code_of_its_own() {
    let shell = Shell::new();
    let folder = register(&shell);
    // The working copy is there, and its writers have to wait.
    assert_eq!(shell.run(&["tools", &folder, "call", "search_user", r#"{"name": "Bob"}"#]).code, 0);
    let copy = std::fs::read_dir(format!("{folder}/.loopgate")).unwrap().map(|entry| entry.unwrap().path());
    let copy = copy.into_iter().find(|path| path.extension().is_some_and(|it| it == "db")).unwrap();
    let holder = rusqlite::Connection::open(copy).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let change = json!({"id": 42, "company": "EPAM"});
    let provider = Provider::replying(vec![call("m", "update_user", &change), text("m", "It is done.")]);
    let mut child = start(&shell, &folder, &provider, &["--events"]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = lines.map_while(Result::ok).any(|line| line.contains("\"tool_started\""));
    assert!(begun, "the write is announced before it begins");
    child.kill().unwrap();
    child.wait().unwrap();
    holder.execute_batch("ROLLBACK").unwrap();
    // Issue 45: nothing says that it did not run.
    for args in [&["report", "last"][..], &["show", "last", "--effects"]] {
        let shown = shell.run(args);
        assert!(shown.out.contains("begun, its outcome is not recorded"), "{}{}", shown.out, shown.err);
    }
    let resumed = shell.run(&["resume", "last"]);
    assert_eq!(resumed.code, 7, "{}{}", resumed.out, resumed.err);
    assert!(resumed.err.contains("in doubt: 1/action-0 update_user"), "{}", resumed.err);
    let company: String =
        holder.query_row("SELECT company FROM users WHERE id = 42", [], |row| row.get(0)).unwrap();
    assert_ne!(company, "EPAM", "nothing is done again");
    assert_eq!(shell.json(&["show", "last", "--json"])["stop"]["effects"]["in_doubt"], 1);
}

// W6
#[test]
fn an_outcome_that_cannot_be_printed_is_told_and_is_in_the_journal() {
    let shell = Shell::new();
    let folder = register(&shell);
    let provider = Provider::replying(vec![text("m", "There is nothing to change.")]);
    let url = format!("base={}", provider.url);
    let args = [
        "run",
        &folder,
        "--text",
        USER_REQUEST,
        "--model",
        "base=compatible/m",
        "--base-url",
        &url,
        "--json",
    ];
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran: Ran = shell.command(&args).stdout(full).output().unwrap().into();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("standard output cannot be written") && ran.err.contains("loopgate runs"),
        "{}",
        ran.err
    );
    assert_eq!(shell.json(&["show", "last", "--json"])["stop"]["reason"], "completed");
}

// W3
#[test]
fn an_outcome_names_provider_models_overridden_settings_and_the_program() {
    let shell = Shell::new();
    let folder = register(&shell);
    let provider = Provider::replying(vec![
        call("m-2024-08-06", "search_user", &json!({"name": "Bob"})),
        text("m-mini", "There is nothing to change."),
    ]);
    let ran: Ran = start(&shell, &folder, &provider, &["--json", "--set", "limits.max_passes=4"])
        .wait_with_output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let warning = "compatible was asked for m, and m-mini served";
    assert!(ran.err.contains(&format!("\nwarning: {warning}\n")), "{}", ran.err);
    let printed: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let shown = shell.json(&["show", "last", "--json"]);
    for outcome in [printed, shown] {
        assert_eq!(outcome["program"], concat!("loopgate ", env!("CARGO_PKG_VERSION")));
        let overridden = json!([
            {"setting": "profile", "value": "trusted"},
            {"setting": "limits.max_passes", "value": "4"},
            {"setting": "models.base", "value": "compatible/m"},
            {"setting": "models.base.base_url", "value": provider.url},
        ]);
        assert_eq!(outcome["overridden"], overridden);
        let call = |key: &str, served: &str, other: bool| {
            json!({"call": key, "attempt": 1, "tier": "base", "provider": "compatible", "model": "m",
                   "served_model": served, "other_model": other})
        };
        assert_eq!(
            outcome["calls"],
            json!([call("1/main", "m-2024-08-06", false), call("2/main", "m-mini", true)])
        );
        let pass = &outcome["passes"][1];
        assert_eq!(
            (&pass["provider"], &pass["model"], &pass["served_model"]),
            (&json!("compatible"), &json!("m"), &json!("m-mini"))
        );
        assert_eq!(outcome["warnings"], json!([warning]), "a snapshot of the same model is none");
    }
    let text = shell.run(&["show", "last"]).out;
    for line in [
        "- model: base compatible m (2 calls), served by m-2024-08-06, m-mini (another model)",
        concat!("- program: loopgate ", env!("CARGO_PKG_VERSION")),
        "- overridden: profile = trusted",
        "- overridden: limits.max_passes = 4",
        "- 1/main (base): compatible m, served by m-2024-08-06",
        "- 2/main (base): compatible m, served by another model: m-mini",
    ] {
        assert!(text.lines().any(|shown| shown == line), "`{line}` is missing in: {text}");
    }
}

// B14: SIGXFSZ
#[test]
fn a_journal_that_may_not_grow_ends_the_run_with_its_outcome_and_advice() {
    let with_limit = |kilobytes: u32| {
        let shell = Shell::new();
        let folder = register(&shell);
        let provider = Provider::replying(vec![
            call("m", "search_user", &json!({"name": "Bob"})),
            text("m", "There is nothing to change."),
        ]);
        let url = format!("base={}", provider.url);
        let args =
            ["run", &folder, "--text", USER_REQUEST, "--model", "base=compatible/m", "--base-url", &url];
        let limit = format!("ulimit -f {kilobytes}; exec \"$0\" \"$@\"");
        let ran: Ran = through("bash", &["-c", &limit], &shell.command(&args)).output().unwrap().into();
        (ran.code, ran.err)
    };
    // The journal takes about 100 KB: the limit is reached before the run began, then in the middle of it.
    let (code, reported) = with_limit(16);
    assert_eq!(code, 1, "{reported}");
    assert!(reported.contains("raise it (`ulimit -f`)"), "{reported}");
    let in_the_middle: Vec<String> = [48, 64, 80, 96]
        .into_iter()
        .map(with_limit)
        .filter_map(|(code, reported)| {
            assert!([0, 1, 6].contains(&code), "ended by a signal, or otherwise: {code} {reported}");
            (code == 6).then_some(reported)
        })
        .collect();
    assert!(!in_the_middle.is_empty(), "no limit was reached in the middle of a run");
    for reported in in_the_middle {
        assert!(reported.contains("stopped: storage_failed (failed)"), "{reported}");
        assert!(reported.contains("raise it (`ulimit -f`)") && reported.contains("totals:"), "{reported}");
    }
    assert_eq!(with_limit(4096).0, 0);
}

// H9
#[test]
fn sigterm_ends_a_run_at_work_with_its_outcome_and_143() {
    let shell = Shell::new();
    let folder = register(&shell);
    let provider = Provider::replying(vec![Says::Nothing]);
    let child = start(&shell, &folder, &provider, &["--json"]);
    provider.wait();
    signal(&child, "-TERM");
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 143, "{}{}", ran.out, ran.err);
    let outcome: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(outcome["stop"]["reason"], "manual_stop");
    assert_eq!(shell.json(&["show", "last", "--json"])["stop"]["class"], "cancelled");
}

// B14
#[test]
fn a_journal_that_cannot_be_written_is_read_and_says_so_where_it_is_to_be_written() {
    let shell = Shell::new();
    let folder = register(&shell);
    let provider = Provider::replying(vec![text("m", "There is nothing to change.")]);
    assert_eq!(start(&shell, &folder, &provider, &[]).wait().unwrap().code(), Some(0));
    let at = shell.state.path().join("loopgate");
    // SQLite writes its log and its index beside the file, and here it cannot, whoever runs this test.
    for name in ["journal.db-wal", "journal.db-shm"] {
        std::fs::remove_file(at.join(name)).ok();
    }
    std::fs::create_dir(at.join("journal.db-shm")).unwrap();
    let runs = shell.run(&["runs"]);
    assert_eq!(runs.code, 0, "{}", runs.err);
    assert!(runs.out.contains("completed") && runs.out.lines().count() == 1, "{}", runs.out);
    let shown = shell.run(&["show", "last"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert!(shown.out.contains("There is nothing to change."), "{}", shown.out);
    assert_eq!(shell.run(&["pending"]).code, 0);
    let ran: Ran = start(&shell, &folder, &provider, &[]).wait_with_output().unwrap().into();
    ran.fails_with(&["journal.db: the journal cannot be written", "another file with --journal"]);
    assert_eq!(provider.received().len(), 1, "no call is made that could not be journaled");
}

/// A conversation whose model replies with this, and with a write that is begun and of which nobody hears how it ended.
fn desk(shell: &Shell, replies: &serde_json::Value, more: &str) -> String {
    let text = format!(
        r#"
version = 1
name = "desk"
goal = "Help."
[protocol]
type = "conversation"
[gate]
approved = ["wipe"]
[tools.wipe]
kind = "command"
effect = "write_irreversible"
description = "Wipe it"
timeout_ms = 300
command = {{ program = "sleep", args = ["20"] }}
[tools.look]
kind = "mock"
effect = "read"
description = "Look"
[tools.send]
kind = "mock"
effect = "egress"
description = "Send it"
[models.base]
provider = "scripted"
script = "replies.json"
{more}
"#
    );
    shell.file("desk/replies.json", &json!({"version": 1, "replies": replies}).to_string());
    let folder = shell.file("desk/loopgate.toml", &text);
    folder.parent().unwrap().display().to_string()
}

#[cfg(all(unix, feature = "server"))]
#[test]
fn every_list_and_the_server_name_the_class_that_the_outcome_has() {
    // Issue 40, T6b: lists took the class that was fixed with the reason, before the effects had settled.
    use common::server::Server;
    let shell = Shell::new();
    let wants = |name: &str| json!({"calls": [{"id": "c", "name": name, "arguments": "{}"}]});
    let done = json!({"text": "It is done."});
    let mut runs: Vec<(String, &str, i32)> = Vec::new();
    for (class, code, replies, set) in [
        ("answered", 0, json!([done]), ""),
        ("partial", 3, json!([wants("look"), wants("look")]), "[limits]\npasses = 2\n"),
        ("refused", 4, json!([{"text": "No.", "finish": "refusal"}]), ""),
        ("needs_human", 5, json!([wants("send"), done]), ""),
        ("failed", 6, json!([]), ""),
        ("in_doubt", 7, json!([wants("wipe"), done]), ""),
    ] {
        let folder = desk(&shell, &replies, set);
        let ran = shell.run(&["run", &folder, "--text", "Do it."]);
        assert_eq!(ran.code, code, "{class}: {}", ran.err);
        let shown = shell.json(&["show", "last", "--json"]);
        assert_eq!(shown["stop"]["class"], class, "{}", ran.err);
        runs.push((shown["run"].as_str().unwrap().to_owned(), class, code));
    }
    let folder = register(&shell);
    let provider = Provider::replying(vec![Says::Nothing]);
    let mut child = start(&shell, &folder, &provider, &["--progress", "always"]);
    provider.wait();
    signal(&child, "-INT");
    // The first ends it at the gate, after a call that gets no reply here; the second ends it at once.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("press Ctrl-C again")));
    signal(&child, "-INT");
    assert_eq!((lines.count() > 0, child.wait().unwrap().code()), (true, Some(130)));
    let cancelled = shell.json(&["show", "last", "--json"])["run"].as_str().unwrap().to_owned();
    runs.push((cancelled, "cancelled", 130));

    let listed = shell.json(&["runs", "--json"]);
    let stats = shell.json(&["journal", "stats", "--json"]);
    let text = shell.run(&["runs"]);
    let server = Server::start(&shell, &[desk(&shell, &json!([]), "").as_str(), &folder]);
    let served = server.get("/v1/runs?limit=50");
    for (run, class, code) in &runs {
        let place = format!("{class} {run}");
        let of = |list: &serde_json::Value| {
            list["runs"].as_array().unwrap().iter().find(|it| it["run"] == **run).unwrap()["class"].clone()
        };
        assert_eq!((of(&listed), of(&served)), (json!(class), json!(class)), "{place}");
        assert_eq!(listed["totals"]["by_outcome"][class], 1, "{place}");
        assert_eq!(stats["totals"]["by_outcome"][class], 1, "{place}");
        let only = shell.json(&["runs", "--reason", class, "--json"]);
        assert!(only["runs"].as_array().unwrap().iter().any(|it| it["run"] == **run), "{place}");
        assert!(text.err.contains(&format!("1 {class}")), "{place}: {}", text.err);
        let why = shell.json(&["why", run, "--json"]);
        assert_eq!(why["class"], **class, "{place}");
        let view = server.get(&format!("/v1/runs/{run}"));
        assert_eq!((&view["class"], &view["state"]), (&json!(class), &json!("ended")), "{place}");
        let waited = server.ask(&format!("GET /v1/runs/{run}"), "prefer: wait=1\r\n", "").json();
        assert_eq!(waited["class"], **class, "{place}");
        let outcome = server.get(&format!("/v1/runs/{run}/outcome"));
        assert_eq!(outcome["stop"]["class"], **class, "{place}");
        assert_eq!(
            loop_core::types::StopClass::ALL.iter().find(|it| it.name() == *class).unwrap().exit_code(),
            *code as u8
        );
    }
    assert_eq!(runs.len(), loop_core::types::StopClass::ALL.len(), "each class is tried");
    for class in ["in_doubt", "answered"] {
        let only = server.get(&format!("/v1/runs?reason={class}"));
        assert_eq!(only["runs"].as_array().unwrap().len(), 1, "{only}");
    }
    let line = text.out.lines().find(|line| line.starts_with(&*runs[5].0)).unwrap();
    assert!(line.contains("completed (in_doubt)"), "{line}");
    let page = server.ask("GET /", "accept: text/html\r\n", "");
    assert!(page.body.contains("in doubt"), "{}", page.status);
    assert_eq!(server.end().0, 0);
}

// Issue 40, T14
#[test]
fn a_worse_outcome_of_the_same_item_is_saved_beside_the_better_one() {
    let shell = Shell::new();
    let (good, bad) = (json!([{"text": "It is done."}]), json!([]));
    let saves = "[save]\nfile = \"out/{item}.json\"\n";
    let item = shell.file("item.json", r#"{"id": "T-1", "title": "Do it", "text": "Do it."}"#);
    let item = item.to_str().unwrap();
    let read = |path: &std::path::Path| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let run = |replies: &serde_json::Value, item: &str| {
        let folder = desk(&shell, replies, saves);
        let ran = shell.run(&["run", &folder, item]);
        let run = shell.json(&["show", "last", "--json"])["run"].as_str().unwrap().to_owned();
        (std::path::PathBuf::from(folder).join("out"), ran, run)
    };
    let (out, ran, first) = run(&good, item);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let path = out.join("T-1.json");
    assert_eq!(read(&path)["run"], first);
    let (_, ran, second) = run(&bad, item);
    assert_eq!(ran.code, 6, "{}", ran.err);
    let beside = out.join(format!("T-1.json.{second}"));
    assert!(ran.err.contains(&format!("saved:   {}", beside.display())), "{}", ran.err);
    assert_eq!((&read(&path)["run"], &read(&beside)["stop"]["class"]), (&json!(first), &json!("failed")));
    // What is as good replaces it, and so does an item that has changed.
    let (_, ran, third) = run(&good, item);
    assert_eq!((ran.code, &read(&path)["run"]), (0, &json!(third)));
    std::fs::write(item, r#"{"id": "T-1", "title": "Do it", "text": "Do something else."}"#).unwrap();
    let (_, ran, fourth) = run(&bad, item);
    assert_eq!((ran.code, &read(&path)["run"]), (6, &json!(fourth)));
}
