//! What a program can do to the one who runs it, and what is left of it afterwards.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stderr)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{Registry, ToolContext};
use loop_core::types::{Observation, Scope, Status};

use super::*;
use crate::connectors::command::sandbox::SandboxSupport;
use crate::connectors::command::settings::CommandOutput;

/// What the tests run: a script of the operator's own, which is a program like any other.
const PROBE: &str = r#"#!/bin/sh
what=$1; shift
case $what in
args) for one; do printf '[%s]\n' "$one"; done ;;
say) printf "$1" ;;
complain) printf "$1" >&2; exit "$2" ;;
code) exit "$1" ;;
kill) kill -"$1" $$ ;;
sleep) exec sleep 1000 ;;
flood) exec yes "a line that is said again and again" ;;
flood_errors) exec yes >&2 ;;
count) cat | wc -c | tr -d ' ' ;;
deaf) sleep 0.2; echo heard nothing ;;
close) exec >&- 2>&-; exec sleep 1000 ;;
family) sleep 1000 & (sleep 1000 & sleep 1000) & echo begun; wait ;;
family_flood) sleep 1000 & (sleep 1000 & sleep 1000) & exec yes ;;
orphan) sleep 1000 & echo done ;;
daemon) setsid sleep 30 & echo done ;;
read) cat "$1" ;;
write) echo new > "$1" ;;
where) pwd ;;
rights) grep NoNewPrivs /proc/self/status ;;
esac
"#;

/// The script, written before any program of the tests begins: a file that is still being written cannot be run.
fn probe() -> &'static str {
    static FILE: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    let (_, path) = FILE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe");
        fs::write(&path, PROBE).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (folder, path)
    });
    path
}

fn settings(args: &[&str]) -> CommandSettings {
    let mut settings = CommandSettings::new(probe(), std::env::temp_dir());
    settings.args = args.iter().map(|arg| arg.replace('{', "{{").replace('}', "}}")).collect();
    settings.env = vec!["PATH".to_owned()];
    settings
}

fn declared(effect: Effect) -> ToolDeclaration {
    let schema = json!({ "type": "object", "properties": {} });
    ToolDeclaration::new("run_probe").title("Probe").schema(schema).effect(effect)
}

async fn call_with(
    effect: Effect,
    settings: CommandSettings,
    credentials: &Credentials,
    timeout_ms: u64,
) -> Observation {
    let registry =
        Registry::builder().tool(CommandTool::new(declared(effect), settings).unwrap()).build().unwrap();
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    registry.dispatch("run_probe", &json!({}), context, credentials, timeout_ms, 4_000).await
}

async fn read(settings: CommandSettings) -> Observation {
    call_with(Effect::Read, settings, &Credentials::none(), 10_000).await
}

#[track_caller]
fn check(seen: &Observation, status: Status, text: &str) {
    assert_eq!(seen.status, status, "{seen:?}");
    assert!(seen.text().contains(text), "{seen:?}");
}

/// A mark in the environment of a program and of all that it starts.
fn marked(mut settings: CommandSettings) -> (CommandSettings, String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mark = format!("loopgate-{}-{}-mark", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
    settings.set.push(("LOOPGATE_TEST_MARK".to_owned(), mark.clone()));
    (settings, mark)
}

/// The processes with the mark that are not yet gone.
fn alive(mark: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains(mark)
    })
    .collect()
}

async fn until(what: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !what() {
        if start.elapsed() > Duration::from_secs(5) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    true
}

#[tokio::test]
async fn a_program_gets_its_arguments_as_they_are_and_its_output_is_the_result() {
    let seen = read(settings(&["args", "a b", "$(id)", "`id`;id", "*", ""])).await;
    check(&seen, Status::Ok, "## Probe\n\n```\n[a b]\n[$(id)]\n[`id`;id]\n[*]\n[]\n```");
    assert_eq!((&*seen.summary, seen.warnings.len()), ("5 lines", 0));
    check(&read(settings(&["say", "one line\\n"])).await, Status::Ok, "one line");
}

#[tokio::test]
async fn the_output_is_read_as_it_is_declared() {
    let lines = CommandSettings { output: CommandOutput::Lines, ..settings(&["say", "a\\n\\nb\\n"]) };
    assert_eq!(&*read(lines).await.data, r#"["a","b"]"#);
    let json = |text: &str| CommandSettings { output: CommandOutput::Json, ..settings(&["say", text]) };
    let rows = read(json(r#"[{"name":"a","n":1},{"name":"b"}]"#)).await;
    check(&rows, Status::Ok, "| name | n |\n| --- | --- |\n| a | 1 |");
    check(&read(json(r#"{"a":[1]}"#)).await, Status::Ok, "```json\n{\n  \"a\": [\n    1\n  ]\n}\n```");
    check(&read(json("7")).await, Status::Ok, "7");
    for nothing in ["null", "[]", "", " \\n"] {
        check(&read(json(nothing)).await, Status::Empty, "No data found");
    }
    check(
        &read(json("{nothing")).await,
        Status::PermanentError,
        "its output is not JSON: key must be a string",
    );
    let long = CommandSettings { max_bytes: 3, ..json(r#"{"a":[1]}"#) };
    check(&read(long).await, Status::PermanentError, "longer than 3 bytes");
    // What was changed was changed, whatever is said about it.
    let written = call_with(Effect::WriteIrreversible, json("done"), &Credentials::none(), 10_000).await;
    check(&written, Status::Ok, "done");
    assert!(written.warnings[0].contains("its output is not JSON"), "{:?}", written.warnings);
}

#[tokio::test]
async fn exit_codes_have_the_status_that_the_operator_gives_them() {
    let with =
        |args: &[&str]| CommandSettings { empty_exit: vec![1], retry_exit: vec![75], ..settings(args) };
    check(&read(with(&["code", "0"])).await, Status::Empty, "No data found");
    check(&read(with(&["code", "1"])).await, Status::Empty, "No data found");
    check(&read(with(&["code", "75"])).await, Status::RetryableError, "`probe` ended with exit code 75");
    check(&read(with(&["code", "3"])).await, Status::PermanentError, "`probe` ended with exit code 3");
    let said = read(with(&["complain", "\\033[31mno such ref\\033[0m\\a\\n", "2"])).await;
    check(&said, Status::PermanentError, "`probe` ended with exit code 2: no such ref");
    let long = format!("{}the end", "x".repeat(9_000));
    let said = read(with(&["complain", &long, "2"])).await;
    check(&said, Status::PermanentError, "xxxthe end");
    assert!(said.text().chars().count() < 700, "{}", said.text());
    let said = read(with(&["complain", "Zo\\353", "2"])).await;
    check(&said, Status::PermanentError, "code 2: Zo\u{fffd} (bytes that are not UTF-8 were replaced)");
    let long = format!("x{}", "\\303\\251".repeat(5_000));
    let said = read(with(&["complain", &long, "2"])).await;
    assert!(said.text().ends_with('é'), "{}", said.text());
    let silent = call_with(Effect::WriteIdempotent, with(&["code", "0"]), &Credentials::none(), 10_000).await;
    check(&silent, Status::Ok, "Done, without any output");
}

#[tokio::test]
async fn a_write_that_was_killed_is_in_doubt_and_a_read_has_failed() {
    check(&read(settings(&["kill", "9"])).await, Status::PermanentError, "was killed by signal 9 (killed");
    for (effect, status) in [
        // What may run twice runs again.
        (Effect::WriteIdempotent, Status::RetryableError),
        (Effect::WriteIrreversible, Status::InDoubt),
        (Effect::Egress, Status::InDoubt),
        (Effect::Exec, Status::InDoubt),
    ] {
        let seen = call_with(effect, settings(&["kill", "TERM"]), &Credentials::none(), 10_000).await;
        check(&seen, status, "`probe` was killed by signal 15");
        let late = call_with(effect, settings(&["sleep"]), &Credentials::none(), 100).await;
        // The core takes it for a doubt.
        check(&late, Status::Timeout, "timeout after 100 ms");
    }
}

#[tokio::test]
async fn nothing_of_a_call_stays_when_its_time_is_up() {
    // K12: the grandchildren are gone as well.
    let (settings, mark) = marked(settings(&["family"]));
    let none = Credentials::none();
    let call = call_with(Effect::Read, settings, &none, 2_000);
    let watch = until(|| alive(&mark).len() >= 4);
    let (seen, began) = tokio::join!(call, watch);
    check(&seen, Status::Timeout, "timeout after 2000 ms");
    assert!(began, "the family never began");
    assert!(until(|| alive(&mark).is_empty()).await, "{:?} are still there", alive(&mark));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_call_stays_when_it_is_cancelled_or_dropped() {
    for is_dropped in [false, true] {
        let (settings, mark) = marked(settings(&["family"]));
        let tool = CommandTool::new(declared(Effect::Read), settings).unwrap();
        let registry = Registry::builder().tool(tool).build().unwrap();
        let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
        let cancel = context.cancel.clone();
        let task = tokio::spawn(async move {
            registry.dispatch("run_probe", &json!({}), context, &Credentials::none(), 60_000, 4_000).await
        });
        assert!(until(|| alive(&mark).len() >= 4).await, "the family never began");
        if is_dropped {
            task.abort();
        } else {
            cancel.cancel();
            check(&task.await.unwrap(), Status::Cancelled, "cancelled");
        }
        assert!(until(|| alive(&mark).is_empty()).await, "{:?} are still there", alive(&mark));
    }
}

#[tokio::test]
async fn nothing_of_a_call_stays_when_it_says_too_much() {
    let (settings, mark) = marked(settings(&["family_flood"]));
    let seen = read(CommandSettings { max_bytes: 10_000, ..settings }).await;
    check(&seen, Status::Ok, "_Only the first 10000 bytes are shown; there is more._");
    assert!(until(|| alive(&mark).is_empty()).await, "{:?} are still there", alive(&mark));
}

#[tokio::test]
async fn nothing_of_a_call_stays_when_the_program_ends_before_its_children() {
    // They hold its output open, which does not keep the result back.
    let start = Instant::now();
    let (settings, mark) = marked(settings(&["orphan"]));
    check(&read(settings).await, Status::Ok, "done");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(until(|| alive(&mark).is_empty()).await, "{:?} are still there", alive(&mark));
}

#[tokio::test]
async fn what_begins_a_session_of_its_own_escapes_and_does_not_hold_the_result_back() {
    // The page says so.
    let start = Instant::now();
    let (settings, mark) = marked(settings(&["daemon"]));
    check(&read(settings).await, Status::Ok, "done");
    assert!(start.elapsed() < Duration::from_secs(5));
    for pid in alive(&mark) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_begins_starts_nothing() {
    let (settings, mark) = marked(settings(&["sleep"]));
    let tool = CommandTool::new(declared(Effect::Read), settings).unwrap();
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    context.cancel.cancel();
    let result = tool.call(json!({}), &context, &Credentials::none()).await;
    assert!(!result.success);
    assert!(until(|| alive(&mark).is_empty()).await);
    let group = crate::connectors::command::group::ProcessGroup::new();
    group.kill();
    assert!(group.begin(|| panic!("it began")).unwrap().is_none());
}

#[tokio::test]
async fn a_program_that_floods_is_cut_and_one_that_only_complains_costs_no_memory() {
    let flood = read(CommandSettings { max_bytes: 100, ..settings(&["flood"]) }).await;
    check(
        &flood,
        Status::Ok,
        "_Only the first 100 bytes are shown; there is more._\n\n```\na line that is said",
    );
    assert!((99..=100).contains(&flood.data.as_text().unwrap().len()));
    let errors = call_with(Effect::Read, settings(&["flood_errors"]), &Credentials::none(), 300).await;
    check(&errors, Status::Timeout, "timeout after 300 ms");
    // A write is not cut off for what it says.
    let text = "x".repeat(5_000);
    let long = CommandSettings { max_bytes: 10, ..settings(&["say", &text]) };
    let seen = call_with(Effect::WriteIrreversible, long, &Credentials::none(), 10_000).await;
    check(&seen, Status::Ok, "```\nxxxxxxxxxx\n```");
}

#[tokio::test]
async fn a_program_gets_what_it_reads_and_need_not_read_it() {
    let large = "y".repeat(1_000_000);
    let with = |args: &[&str]| CommandSettings { stdin: Some(large.clone()), ..settings(args) };
    check(&read(with(&["count"])).await, Status::Ok, "1000000");
    check(&read(with(&["deaf"])).await, Status::Ok, "heard nothing");
    check(&read(settings(&["count"])).await, Status::Ok, "0");
    let (closes, mark) = marked(with(&["close"]));
    let seen = call_with(Effect::Read, closes, &Credentials::none(), 300).await;
    check(&seen, Status::Timeout, "timeout after 300 ms");
    assert!(until(|| alive(&mark).is_empty()).await);
}

#[tokio::test]
async fn what_is_no_text_is_made_one_and_said() {
    let seen = read(settings(&["say", "a\\377b\\033[31mred\\033[0m\\a\\r\\n"])).await;
    check(&seen, Status::Ok, "```\na\u{fffd}bred\n```");
    assert_eq!(seen.data.as_text().map(|text| &**text), Some("a\u{fffd}bred"));
    assert!(seen.warnings[0].contains("bytes that are not UTF-8 were replaced"), "{:?}", seen.warnings);
    let notice = "_bytes that are not UTF-8 were replaced: the output is not UTF-8, and names no charset_";
    check(&seen, Status::Ok, notice);
    // Issue 43, K3: what it is can be seen, also where the cap cuts it.
    let wide = "\\377\\376Z\\0\\353\\0";
    check(&read(settings(&["say", wide])).await, Status::Ok, "```\nZë\n```");
    let cut = read(CommandSettings { max_bytes: 5, ..settings(&["say", wide]) }).await;
    check(&cut, Status::Ok, "```\nZ\n```");
    // A character that the cap cuts in two is not one that the program got wrong.
    let cut = read(CommandSettings { max_bytes: 2, ..settings(&["say", "a\\303\\274\\303\\274"]) }).await;
    check(&cut, Status::Ok, "Only the first 2 bytes");
    assert!(cut.warnings.is_empty(), "{:?}", cut.warnings);
}

#[tokio::test]
async fn the_environment_is_what_the_settings_name_and_nothing_else() {
    let mut settings = CommandSettings::new("printenv", std::env::temp_dir());
    settings.env = vec!["PATH".to_owned(), "LOOPGATE_TEST_NOT_SET".to_owned()];
    settings.set = vec![("LC_ALL".to_owned(), "C.UTF-8".to_owned())];
    settings.secret_env = vec!["TOKEN".to_owned()];
    settings.output = CommandOutput::Lines;
    let credentials: Credentials = [("TOKEN", "t0ken-of-mine"), ("OTHER", "n0t-given")].into_iter().collect();
    let seen = call_with(Effect::Read, settings.clone(), &credentials, 10_000).await;
    let lines: Vec<String> = serde_json::from_str(&seen.data).unwrap();
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    assert_eq!(lines, ["LC_ALL=C.UTF-8", path.as_str(), "TOKEN=[masked]"]);
    let seen = call_with(Effect::Read, settings, &Credentials::none(), 10_000).await;
    check(&seen, Status::PermanentError, "the secret `TOKEN` is not there");
    assert!(std::env::var_os("HOME").is_some(), "or nothing was taken out");
}

#[tokio::test]
async fn a_secret_is_masked_wherever_the_program_says_it() {
    // K13
    let credentials: Credentials = [("TOKEN", "t0ken-of-mine")].into_iter().collect();
    let with = |output, args: &[&str]| CommandSettings {
        output,
        secret_env: vec!["TOKEN".to_owned()],
        ..settings(args)
    };
    let text = r#"{"t0ken-of-mine":["x t0ken-of-mine y"],"z":"t0ken-\\u006ff-mine"}"#;
    for (output, args) in [
        (CommandOutput::Text, vec!["say", "t0ken-of-mine, t0ken\\033[0m-of-mine"]),
        (CommandOutput::Lines, vec!["say", "x t0ken-of-mine\\n"]),
        (CommandOutput::Json, vec!["say", text]),
        (CommandOutput::Text, vec!["complain", "no: t0ken-of-mine", "1"]),
    ] {
        let seen = call_with(Effect::Read, with(output, &args), &credentials, 10_000).await;
        let shown = format!("{seen:?}");
        assert!(shown.contains("[masked]") && !shown.contains("t0ken"), "{shown}");
    }
    // The cap does not leave the half of one either.
    for max_bytes in 1..14 {
        let settings =
            CommandSettings { max_bytes, ..with(CommandOutput::Text, &["say", "t0ken-of-mine and more"]) };
        let shown = format!("{:?}", call_with(Effect::Read, settings, &credentials, 10_000).await);
        assert!(!shown.contains("t0k"), "{max_bytes}: {shown}");
    }
    let tool = CommandTool::new(declared(Effect::Read), with(CommandOutput::Text, &["code", "0"])).unwrap();
    assert!(format!("{tool:?}").contains("run_probe"));
}

#[tokio::test]
async fn a_program_works_in_its_folder_and_gains_no_rights() {
    let folder = tempfile::tempdir().unwrap();
    let at = CommandSettings { folder: folder.path().to_owned(), ..settings(&["where"]) };
    let place = folder.path().canonicalize().unwrap();
    check(&read(at).await, Status::Ok, place.to_str().unwrap());
    if cfg!(target_os = "linux") {
        check(&read(settings(&["rights"])).await, Status::Ok, "NoNewPrivs:\t1");
        let own = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(own.contains("NoNewPrivs:\t0"), "the restriction stays with the thread of the program");
    }
}

#[tokio::test]
async fn a_sandboxed_program_uses_only_its_folders() {
    let support = SandboxSupport::of_this_system();
    if support == SandboxSupport::None {
        eprintln!("skipped: this kernel has no Landlock");
        return;
    }
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shared = tempfile::tempdir().unwrap();
    for folder in [&inside, &outside, &shared] {
        fs::write(folder.path().join("a.txt"), "content").unwrap();
    }
    let with = |args: &[&str], write: bool| CommandSettings {
        folder: inside.path().to_owned(),
        sandbox: Some(SandboxFolders {
            read: vec![shared.path().to_owned()],
            write: if write { vec![inside.path().to_owned()] } else { Vec::new() },
        }),
        ..settings(args)
    };
    let path = |folder: &tempfile::TempDir| folder.path().join("a.txt").to_str().unwrap().to_owned();
    check(&read(with(&["read", "a.txt"], false)).await, Status::Ok, "content");
    check(&read(with(&["read", &path(&shared)], false)).await, Status::Ok, "content");
    check(&read(with(&["read", &path(&outside)], false)).await, Status::PermanentError, "Permission denied");
    check(
        &read(with(&["read", "/proc/self/environ"], false)).await,
        Status::PermanentError,
        "Permission denied",
    );
    check(&read(with(&["write", "b.txt"], false)).await, Status::PermanentError, "Permission denied");
    check(&read(with(&["write", &path(&shared)], true)).await, Status::PermanentError, "Permission denied");
    check(&read(with(&["write", &path(&outside)], true)).await, Status::PermanentError, "Permission denied");
    assert!(!inside.path().join("b.txt").exists());
    check(&read(with(&["write", "b.txt"], true)).await, Status::Empty, "No data found");
    assert_eq!(fs::read_to_string(inside.path().join("b.txt")).unwrap(), "new\n");
    // This process itself is as free as before.
    assert_eq!(fs::read_to_string(outside.path().join("a.txt")).unwrap(), "content");
}

#[test]
fn a_setting_that_is_wrong_is_said_when_the_tool_is_made() {
    let with = |change: &dyn Fn(&mut CommandSettings)| {
        let mut settings = settings(&["code", "0"]);
        change(&mut settings);
        let error = CommandTool::new(declared(Effect::Read), settings).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let program = |name: &str| with(&|settings| settings.program = name.to_owned());
    for shell in ["sh", "/bin/sh", "bash", "env", "/usr/bin/env", "xargs", "setsid", "timeout"] {
        assert!(program(shell).contains("runs what it is given; name the program itself"), "{shell}");
    }
    let link = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", link.path().join("tool")).unwrap();
    assert!(program(link.path().join("tool").to_str().unwrap()).contains("runs what it is given"));
    // Where all small programs are one, a link to it is the program of its name.
    fs::copy("/bin/true", link.path().join("busybox")).unwrap();
    std::os::unix::fs::symlink("busybox", link.path().join("ls")).unwrap();
    std::os::unix::fs::symlink("busybox", link.path().join("ash")).unwrap();
    assert!(crate::connectors::command::program::find(link.path().join("ls").to_str().unwrap()).is_ok());
    for name in ["busybox", "ash"] {
        assert!(
            program(link.path().join(name).to_str().unwrap()).contains("runs what it is given"),
            "{name}"
        );
    }
    fs::write(link.path().join("text"), "x").unwrap();
    assert!(program(link.path().join("text").to_str().unwrap()).contains("cannot be executed"));
    assert!(program("/nowhere/git").contains("there is no program `/nowhere/git`"));
    assert!(program("bin/git").contains("`bin/git` is a relative path"));
    assert!(program("no-such-program-here").contains("there is no program `no-such-program-here` in PATH"));
    assert!(program("{x}").contains("without placeholders"));
    assert!(program("").contains("is not a program"));
    assert!(with(&|it| it.folder = "/nowhere".into()).contains("/nowhere: there is no such folder"));
    assert!(with(&|it| it.folder = "/bin/sh".into()).contains("is not a folder"));
    assert!(
        with(&|it| it.env = vec!["A B".to_owned()])
            .contains("`A B` is not the name of an environment variable")
    );
    assert!(with(&|it| it.secret_env = vec!["PATH".to_owned()]).contains("`PATH` is named twice"));
    assert!(with(&|it| it.set = vec![("A".to_owned(), "\0".to_owned())]).contains("NUL"));
    assert!(with(&|it| it.empty_exit = vec![0]).contains("the exit code 0 is a success"));
    assert!(
        with(&|it| (it.empty_exit, it.retry_exit) = (vec![1], vec![1])).contains("in `empty_exit` as well")
    );
    assert!(with(&|it| it.max_bytes = 0).contains("nothing could be read"));
    let none = SandboxFolders { read: vec!["/nowhere".into()], write: Vec::new() };
    assert!(with(&|it| it.sandbox = Some(none.clone())).contains("/nowhere: there is no such folder"));
    let keyed =
        CommandTool::new(declared(Effect::WriteKeyed), settings(&["code", "0"])).unwrap_err().to_string();
    assert!(keyed.contains("the program must get `{call_key}`"), "{keyed}");
    assert_eq!(
        CommandTool::new(declared(Effect::Read), settings(&["code"])).unwrap().program(),
        Path::new(probe())
    );
}
