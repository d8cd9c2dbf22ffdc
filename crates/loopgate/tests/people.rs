//! Runs that wait for people: left with exit code 5, and driven on from the journal by whoever answers.

use crate::common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Ran, Shell};
use serde_json::{Value, json};

const USER_REQUEST: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";

/// The people register, where a person allows each change.
fn asking(shell: &Shell, more: &str) -> PathBuf {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("people = true"));
    std::fs::write(file, text + more).unwrap();
    folder
}

/// A run that waits, and its id.
#[track_caller]
fn waiting(shell: &Shell, folder: &Path, flags: &[&str]) -> (Ran, String) {
    let ran = shell.run(&[&["run", folder.to_str().unwrap(), "--text", USER_REQUEST], flags].concat());
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let id = ran.err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap().to_owned();
    (ran, id)
}

fn pending(shell: &Shell) -> Vec<Value> {
    shell.json(&["pending", "--json"])["pending"].as_array().unwrap().clone()
}

fn facts(shell: &Shell, run: &str) -> Vec<String> {
    let ran = shell.run(&["show", run, "--events"]);
    let lines = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| Some(line["event"].get("type")?.as_str()?.to_owned())).collect()
}

fn company(folder: &Path) -> String {
    let copy =
        walk(&folder.join(".loopgate")).into_iter().find(|path| path.to_string_lossy().ends_with(".db"));
    let database = rusqlite::Connection::open(copy.unwrap()).unwrap();
    database.query_row("SELECT company FROM users WHERE id = 42", [], |row| row.get(0)).unwrap()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_run_that_waits_ends_its_process_and_an_approval_drives_it_to_its_end() {
    // I-26, K8, S4-36
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let before = company_before(&shell, &folder);
    let (ran, run) = waiting(&shell, &folder, &[]);
    assert!(ran.out.contains("update_user  (effect write_idempotent"), "{}", ran.out);
    assert!(ran.out.contains("\"company\": \"EPAM\""), "{}", ran.out);
    assert!(ran.err.contains("waiting: a person has to answer"), "{}", ran.err);
    assert!(!ran.err.contains("over: "), "{}", ran.err);
    assert_eq!(company(&folder), before, "nothing has happened");
    assert!(shell.run(&["runs"]).out.contains("waiting, "));
    assert!(shell.run(&["show", &run]).out.contains("waiting for a person"));
    // The command that was printed is the one that goes on.
    let command = ran.out.lines().find_map(|line| line.trim().strip_prefix("loopgate approve ")).unwrap();
    let arguments: Vec<&str> = std::iter::once("approve").chain(command.split(' ')).collect();
    let ran = shell.run(&arguments);
    assert!(ran.code == 0 && ran.out.ends_with("company EPAM\n"), "{}{}", ran.out, ran.err);
    let says = "stopped: completed (answered). The reply calls no tool. Effects: 1 executed.";
    assert!(ran.err.contains(says), "{}", ran.err);
    assert_eq!(company(&folder), "EPAM");
    assert!(pending(&shell).is_empty());
    // An approval counts once (U4).
    for again in [&arguments[..], &["deny", &run, "3/action-0"]] {
        shell.run(again).fails_with(&["3/action-0", "approved already", "counts once"]);
    }
    let instructions = facts(&shell, &run);
    assert_eq!(instructions.iter().filter(|kind| *kind == "approved_by").count(), 1, "{instructions:?}");
}

/// What stands in the register before anything is changed: its working copy is made when it is first read.
fn company_before(shell: &Shell, folder: &Path) -> String {
    let ran = shell.run(&["tools", folder.to_str().unwrap(), "call", "get_user_by_id", r#"{"id": 42}"#]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    company(folder)
}

#[test]
fn a_run_that_ended_for_want_of_a_person_says_that_nothing_waits() {
    // The exit code is that of a run that waits.
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let ran =
        shell.run(&["run", folder.to_str().unwrap(), "--text", USER_REQUEST, "--set", "gate.people=false"]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("over:    nothing waits in this run any more"), "{}", ran.err);
    shell.run(&["resume", "last"]).fails_with(&["is over (needs_human)"]);
}

#[test]
fn a_reply_that_claims_a_write_is_not_a_write() {
    // W4
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let model = script(&shell, &json!([{"text": "I have updated Bob's company to EPAM."}]));
    let args = ["run", folder.to_str().unwrap(), "--text", USER_REQUEST, "--model", &model];
    let ran = shell.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("The reply calls no tool. No effect was requested."), "{}", ran.err);
    let ran = shell
        .run_with_input(&["chat", folder.to_str().unwrap(), "--model", &model], &format!("{USER_REQUEST}\n"));
    assert!(ran.err.contains("no effect was requested"), "{}", ran.err);
}

#[test]
fn what_waits_has_no_deadline_unless_one_is_set_and_then_says_how_long_is_left() {
    // Issue 40, R3
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let (_, run) = waiting(&shell, &folder, &[]);
    let listed = shell.run(&["pending", &run]).out;
    assert!(listed.contains("no deadline: it waits until it is answered"), "{listed}");
    assert!(listed.contains(&format!("loopgate approve {run}")), "{listed}");
    let (_, run) = waiting(&shell, &folder, &["--set", "limits.person_ms=600000"]);
    let listed = shell.run(&["pending", &run]).out;
    assert!(listed.contains("(9 min left), then it counts as a denial"), "{listed}");
}

#[test]
fn what_waits_is_printed_as_json_as_well() {
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let (ran, run) = waiting(&shell, &folder, &["--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["stop"]["reason"], "needs_human");
    let listed = &pending(&shell)[0];
    for member in ["action", "tool", "parameters", "effect", "binding", "until_unix_ms", "question"] {
        assert_eq!(listed[member], report["waiting"][0][member], "{member}");
    }
    assert_eq!(listed["run"], *run);
    assert_eq!(listed["parameters"], json!({"company": "EPAM", "id": 42}));
    // Of events, standard output holds nothing else.
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", USER_REQUEST, "--events"]);
    assert_eq!(ran.code, 5);
    assert!(ran.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", ran.out);
    assert!(ran.err.contains("loopgate approve"), "{}", ran.err);
    assert_eq!(pending(&shell).len(), 2);
}

#[test]
fn arguments_that_were_edited_in_the_journal_are_not_run() {
    // K8, I-29
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let before = company_before(&shell, &folder);
    let (_, run) = waiting(&shell, &folder, &[]);
    let database = rusqlite::Connection::open(shell.state.path().join("loopgate/journal.db")).unwrap();
    let edit =
        "UPDATE entries SET event = replace(event, 'EPAM', 'EVIL'), notes = replace(notes, 'EPAM', 'EVIL')";
    assert!(database.execute(edit, []).unwrap() > 0);
    shell.run(&["approve", &run, "3/action-0"]).fails_with(&[&run, "changed since it was written"]);
    assert_eq!(company(&folder), before);
}

#[test]
fn a_run_goes_on_only_with_the_tools_and_settings_that_it_was_begun_with() {
    // K8
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let (_, run) = waiting(&shell, &folder, &["--set", "limits.max_passes=7"]);
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let with = |from: &str, to: &str| {
        assert!(text.contains(from));
        std::fs::write(&file, text.replace(from, to)).unwrap();
        shell.run(&["approve", &run, "3/action-0"])
    };
    with("Update the company of one user", "Change the company of one user")
        .fails_with(&["begun with other tools (update_user)"]);
    // G3: what the tool does, and does not show.
    let before = company(&folder);
    for (from, to) in [
        ("SET company = trim(:company)", "SET company = 'EVIL'"),
        ("WHERE id = :id\nRETURNING", "WHERE id > :id - :id\nRETURNING"),
    ] {
        with(from, to).fails_with(&["begun with other tools (update_user)", "which asks again"]);
    }
    assert_eq!(company(&folder), before);
    with("people = true", "people = true\nno_progress = 9").fails_with(&["begun with other settings"]);
    std::fs::remove_file(&file).unwrap();
    // Issue 40, R2: the answer needs the journal alone, and the run is left.
    let left = shell.run(&["approve", &run, "3/action-0"]);
    assert_eq!(left.code, 5, "{}", left.err);
    assert!(left.err.contains("recorded, and not continued here") && left.err.contains("loopgate.toml"));
    // Somewhere else, as it was.
    let elsewhere = shell.state.path().join("elsewhere");
    std::fs::write(&file, &text).unwrap();
    std::fs::rename(&folder, &elsewhere).unwrap();
    let ran = shell.run(&["resume", &run, "--domain", elsewhere.to_str().unwrap()]);
    assert!(ran.code == 0 && ran.out.ends_with("company EPAM\n"), "{}{}", ran.out, ran.err);
}

const QUESTION: &str = "
[tools.ask]
kind = \"question\"
description = \"Ask the person who wants this\"
when = \"It is not clear what is wanted\"
";

/// A model that says these things in this order, over all processes that drive the run.
fn script(shell: &Shell, replies: &Value) -> String {
    let path = shell.file("replies.json", &json!({"version": 1, "replies": replies}).to_string());
    format!("base=scripted/{}", path.display())
}

#[test]
fn a_question_is_answered_and_a_run_is_told_things() {
    // S4-37
    let shell = Shell::new();
    let folder = asking(&shell, QUESTION);
    let asks = json!({"calls": [{"name": "ask", "arguments": {"question": "Which Bob?"}}]});
    let model = script(&shell, &json!([asks, {"text": "It is done."}]));
    let (ran, run) = waiting(&shell, &folder, &["--model", &model]);
    assert!(ran.out.contains("a question") && ran.out.contains("Which Bob?"), "{}", ran.out);
    assert!(ran.out.contains(&format!("loopgate answer {run} 1/action-0 TEXT")), "{}", ran.out);
    shell.run(&["approve", &run, "1/action-0"]).fails_with(&["it is a question", "loopgate answer"]);
    shell.run(&["answer", &run, "1/action-0", "  "]).fails_with(&["empty", "loopgate deny"]);
    shell.run(&["tell", &run, " \n"]).fails_with(&["the instruction is empty"]);
    // Told while it waits: it waits on, and reads it after the answer.
    let ran = shell.run(&["tell", &run, "Be brief"]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert_eq!(shell.run(&["tell", &run, "and kind", "--no-wait"]).code, 0);
    let id = pending(&shell)[0]["id"].as_str().unwrap().to_owned();
    let ran = shell.run(&["answer", &run, &id, "The one in Minsk"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "It is done.\n"), "{}", ran.err);
    let instructions = facts(&shell, &run);
    assert_eq!(instructions.iter().filter(|kind| *kind == "instruction").count(), 2, "{instructions:?}");
    let outcome = shell.json(&["show", &run, "--json"]);
    assert_eq!(outcome["evidence"][0]["status"], "ok");
    assert!(shell.run(&["show", &run, "--events"]).out.contains("The one in Minsk"));
    shell.run(&["tell", &run, "late"]).fails_with(&["is over"]);
}

#[test]
fn what_does_not_fit_gets_one_clear_line() {
    let shell = Shell::new();
    let folder = asking(&shell, QUESTION);
    shell.run(&["pending"]).fails_with(&["no journal here"]);
    let (_, run) = waiting(&shell, &folder, &[]);
    waiting(&shell, &folder, &[]);
    let common: String = run.chars().take(4).collect();
    shell.run(&["approve", "nope", "3/action-0"]).fails_with(&["no run nope"]);
    shell.run(&["approve", &common, "3/action-0"]).fails_with(&["several runs begin with", "more of the id"]);
    shell
        .run(&["approve", &run, "7/action-0"])
        .fails_with(&["no action 7/action-0", "what waits: 3/action-0"]);
    shell.run(&["approve", &run, "wipe"]).fails_with(&["no action wipe"]);
    shell.run(&["approve", &run, "1/action-0"]).fails_with(&["no person is asked about it", "`run`"]);
    shell.run(&["answer", &run, "3/action-0", "yes"]).fails_with(&["not a question", "loopgate approve"]);
    shell.run(&["deny", &run, "3/action-0", "--why", " "]).fails_with(&["--why is empty"]);
    shell.run(&["resume", &run, "--journal", "/nowhere.db"]).fails_with(&["/nowhere.db", "no journal here"]);
    assert_eq!(shell.run(&["approve", &run]).code, 2);
}

#[test]
fn a_password_on_the_command_line_is_not_written_down() {
    // K13
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let secret = "item.kind=http://ada:s3cret@host";
    let (_, run) = waiting(&shell, &folder, &["--set", secret]);
    let database = rusqlite::Connection::open(shell.state.path().join("loopgate/journal.db")).unwrap();
    let origin: String = database.query_row("SELECT origin FROM runs", [], |row| row.get(0)).unwrap();
    assert!(!origin.contains("s3cret") && origin.contains("withheld"), "{origin}");
    let left = shell.run(&["approve", &run, "3/action-0"]);
    assert_eq!(left.code, 5, "{}", left.err);
    assert!(left.err.contains("credential in --set") && left.err.contains("not kept"), "{}", left.err);
    shell.run(&["resume", &run]).fails_with(&["credential in --set", "not kept"]);
}

#[test]
fn an_answer_needs_the_journal_alone_and_whoever_drives_the_run_has_the_secrets() {
    // Issue 40, R2
    let shell = Shell::new();
    let folder = asking(
        &shell,
        "\n[models.escalated]\nprovider = \"compatible\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
         api_key_env = \"DESK_KEY\"\n[secrets.DESK_KEY]\nfile = \"desk.key\"\n",
    );
    let (key, elsewhere) = (folder.join("desk.key"), shell.state.path().join("elsewhere"));
    let begun = || {
        std::fs::write(&key, "Violet-Harbour-2291").unwrap();
        let (_, run) = waiting(&shell, &folder, &[]);
        std::fs::remove_file(&key).unwrap();
        run
    };
    // Both, because the second finds nothing to do once the first has done it.
    let (run, other) = (begun(), begun());
    let noted = shell.run(&["approve", &run, "3/action-0", "--no-wait"]);
    assert_eq!(noted.code, 0, "{}", noted.err);
    shell.run(&["resume", &run]).fails_with(&["desk.key"]);
    std::fs::write(&key, "Violet-Harbour-2291").unwrap();
    assert_eq!(shell.run(&["resume", &run]).code, 0);
    // Without the option it is recorded as well, and the run is left.
    std::fs::remove_file(&key).unwrap();
    let run = other;
    let left = shell.run(&["deny", &run, "3/action-0"]);
    assert_eq!(left.code, 5, "{}", left.err);
    assert!(left.err.contains("recorded, and not continued here") && left.err.contains("desk.key"));
    assert_eq!(facts(&shell, &run).last().unwrap(), "person_answered");
    // The domain itself is not needed either.
    std::fs::rename(&folder, &elsewhere).unwrap();
    let noted = shell.run(&["tell", &run, "be brief", "--no-wait"]);
    assert_eq!(noted.code, 0, "{}", noted.err);
    assert_eq!(facts(&shell, &run).last().unwrap(), "instruction");
}

#[test]
fn what_people_said_stands_in_what_is_shown_of_a_run() {
    // K8
    let shell = Shell::new();
    let folder = asking(&shell, QUESTION);
    let replies = json!([
        {"calls": [{"name": "ask", "arguments": {"question": "Which Bob?"}}]},
        {"calls": [{"name": "update_user", "arguments": {"id": 42, "company": "EPAM"}}]},
        {"calls": [{"name": "update_user", "arguments": {"id": 41, "company": "EPAM"}}]},
        {"text": "It is done."}
    ]);
    let model = script(&shell, &replies);
    let (_, run) = waiting(&shell, &folder, &["--model", &model]);
    assert_eq!(shell.run(&["tell", &run, "Be brief"]).code, 5);
    assert_eq!(shell.run(&["answer", &run, "1/action-0", "The one in Minsk"]).code, 5);
    assert_eq!(shell.run(&["approve", &run, "2/action-0"]).code, 5);
    let open = shell.run(&["show", &run]).out;
    assert!(open.contains("2/action-0 update_user approved"), "{open}");
    assert_eq!(shell.run(&["deny", &run, "3/action-0", "--why", "not this one"]).code, 3);

    let shown = shell.run(&["show", &run]).out;
    let (_, people) = shown.split_once("\nPeople:\n").unwrap();
    for line in [
        r#"asked about 1/action-0 ask {"question":"Which Bob?"}"#,
        "UTC instruction, from pass 2 on: Be brief",
        "UTC 1/action-0 ask answered: The one in Minsk",
        r#"asked about 2/action-0 update_user {"company":"EPAM","id":42}: "#,
        "UTC 2/action-0 update_user approved",
        "UTC 3/action-0 update_user denied: not this one",
    ] {
        assert!(people.contains(line), "{line}: {shown}");
    }
    assert!(shown.contains("run, a person approved it"), "{shown}");
    assert!(shown.contains("denied, a person denied it: not this one"), "{shown}");

    let people = &shell.json(&["show", &run, "--json"])["people"];
    let requested = |at: usize, member: &str| people["requested"][at][member].clone();
    assert_eq!(requested(0, "text"), "The one in Minsk");
    assert_eq!(
        [requested(0, "answer"), requested(1, "answer"), requested(2, "answer")],
        ["answered", "approved", "denied"]
    );
    assert_eq!((requested(0, "question"), requested(1, "question")), (true.into(), false.into()));
    assert!(requested(1, "answered_unix_ms").as_u64() >= requested(1, "requested_unix_ms").as_u64());
    assert_eq!(
        (&people["instructions"][0]["text"], &people["instructions"][0]["from_pass"]),
        (&"Be brief".into(), &2.into())
    );
}

#[test]
fn a_run_without_people_shows_none_and_silence_is_shown_as_such() {
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let (_, run) = waiting(&shell, &folder, &["--set", "limits.person_ms=300"]);
    assert!(shell.run(&["show", &run]).out.contains("asked about 3/action-0 update_user"));
    std::thread::sleep(Duration::from_millis(400));
    shell.run(&["resume", &run]);
    let shown = shell.run(&["show", &run]).out;
    assert!(shown.contains("3/action-0 update_user no answer in time"), "{shown}");
    assert_eq!(shell.json(&["show", &run, "--json"])["people"]["requested"][0]["answer"], "expired");
    let ran = shell.run(&["run", folder.to_str().unwrap(), "--text", "Search user Alice"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!shell.run(&["show", "last"]).out.contains("People:"));
    assert!(shell.json(&["show", "last", "--json"]).get("people").is_none());
}

#[test]
fn what_is_asked_for_again_after_a_no_is_not_said_to_have_run() {
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let update = json!({"calls": [{"name": "update_user", "arguments": {"id": 42, "company": "EPAM"}}]});
    let model = script(&shell, &json!([update.clone(), update, {"text": "Not done."}]));
    // The same call once more is refused as a repeat.
    let flags = ["--model", &model, "--set", "gate.repeats=never_rerun"];
    let (_, run) = waiting(&shell, &folder, &flags);
    let ran = shell.run(&["deny", &run, "1/action-0", "--why", "not he"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let shown = shell.run(&["show", &run]).out;
    assert!(
        shown.contains("duplicate, already asked for as 1/action-0 and denied: not he; see E1"),
        "{shown}"
    );
    assert!(!shown.contains("already run"), "{shown}");
}

#[test]
fn the_commands_that_are_printed_name_the_journal_and_the_domain_that_has_moved() {
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let journal = shell.state.path().join("my journal.db");
    let at = ["--journal", journal.to_str().unwrap()];
    let (_, run) = waiting(&shell, &folder, &at);
    let with = |command: &[&str]| shell.run(&[command, &at[..]].concat());
    let quoted = format!(" --journal '{}'", journal.display());
    let pending = with(&["show", &run]).out;
    assert!(pending.contains(&format!("loopgate pending {run}{quoted}")), "{pending}");
    let elsewhere = shell.state.path().join("elsewhere");
    std::fs::rename(&folder, &elsewhere).unwrap();
    let left = with(&["approve", &run, "3/action-0"]);
    assert_eq!(left.code, 5, "{}", left.err);
    assert!(left.err.contains("there is no domain folder") && left.err.contains("--domain"), "{}", left.err);
    std::fs::rename(&elsewhere, &folder).unwrap();
    let ran = with(&["tell", &run, "hurry", "--no-wait"]);
    assert!(ran.err.contains(&format!("loopgate resume {run}{quoted}")), "{}", ran.err);
    // One whose time is over.
    let (_, run) = waiting(&shell, &folder, &[&at[..], &["--set", "limits.person_ms=300"]].concat());
    std::thread::sleep(Duration::from_millis(400));
    with(&["approve", &run, "3/action-0"]).fails_with(&[&format!("loopgate resume {run}{quoted}")]);
    assert_eq!(with(&["resume", &run]).code, 3);
    with(&["resume", &run]).fails_with(&["is over", &format!("loopgate show {run}{quoted}")]);
}

#[test]
fn the_example_of_a_question_waits_as_its_page_says() {
    // S4-37
    let shell = Shell::new();
    let folder = shell.copy_of("examples/refunds");
    let order = folder.join("orders/O-104.json");
    let model = format!("base=scripted/{}", folder.join("scripts/asks-the-customer.json").display());
    let (folder, order) = (folder.to_str().unwrap(), order.to_str().unwrap());
    let ran = shell.run(&["run", folder, order, "--profile", "people", "--model", &model]);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("3/action-0  ask_customer_clarifying_question"), "{}", ran.out);
    // A tool gets the scope without the model: whoever answers sees it all the same.
    assert!(ran.out.contains("a tool may use as well: account C-31, asset O-104"), "{}", ran.out);
    // `last` may be another run by now: with it goes what was shown.
    shell.run(&["answer", "last", "3/action-0", "No"]).fails_with(&["`last`", "--binding"]);
    let bound = ran.out.split("--binding ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let ran = shell.run(&["answer", "last", "3/action-0", "It came on the nineteenth", "--binding", bound]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("The evidence is sufficient"), "{}", ran.out);
}

#[test]
fn last_is_answered_only_together_with_what_was_shown() {
    // B14: another run may be newer than the one that a person was shown.
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let (_, run) = waiting(&shell, &folder, &[]);
    let before = facts(&shell, &run);
    for args in [
        &["approve", "last", "3/action-0"][..],
        &["deny", "last", "3/action-0"],
        &["answer", "last", "3/action-0", "yes"],
    ] {
        let parts =
            ["`last` may be another run than the one that you were shown", "--binding", "loopgate pending"];
        shell.run(args).fails_with(&parts);
    }
    shell
        .run(&["approve", "last", "3/action-0", "--binding", "000000000000"])
        .fails_with(&["is not its own"]);
    assert_eq!(facts(&shell, &run), before, "nothing is journaled");
    let binding = pending(&shell)[0]["binding"].as_str().unwrap().to_owned();
    let ran = shell.run(&["approve", "last", "3/action-0", "--binding", &binding]);
    assert!(ran.code == 0 && ran.out.ends_with("company EPAM\n"), "{}{}", ran.out, ran.err);
}

/// A library that sets the wall clock back by `CLOCK_BACK` seconds, for a program that cannot see since when the
/// machine has been up, because it cannot name the boot.
fn clocks_back(shell: &Shell) -> PathBuf {
    let source = shell.file(
        "clock.c",
        "#include <errno.h>\n#include <fcntl.h>\n#include <stdarg.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/syscall.h>\n\
         #include <time.h>\n#include <unistd.h>\n\
         int open64(const char *path, int flags, ...) {\n\
           va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more);\n\
           if (strcmp(path, \"/proc/sys/kernel/random/boot_id\") == 0) { errno = ENOENT; return -1; }\n\
           return syscall(SYS_openat, AT_FDCWD, path, flags, mode);\n}\n\
         int clock_gettime(clockid_t id, struct timespec *at) {\n\
           int told = syscall(SYS_clock_gettime, id, at);\n\
           const char *back = getenv(\"CLOCK_BACK\");\n\
           if (told == 0 && back && id == CLOCK_REALTIME) at->tv_sec -= atoi(back);\n\
           return told;\n}\n",
    );
    let library = shell.state.path().join("clock.so");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-D_GNU_SOURCE", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().unwrap().success());
    library
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_seen_to_be_over_stays_over_whatever_the_clock_is_set_to() {
    // B11
    let shell = Shell::new();
    let folder = asking(&shell, "");
    let before = company_before(&shell, &folder);
    let library = clocks_back(&shell);
    let back = |args: &[&str], seconds: &str| -> Ran {
        let mut command = shell.command(args);
        command.env("LD_PRELOAD", &library).env("CLOCK_BACK", seconds).output().unwrap().into()
    };
    let (_, run) = waiting(&shell, &folder, &["--set", "limits.person_ms=1500"]);
    // The library does what it is to do: before its time is over the action waits, however late it is.
    std::thread::sleep(Duration::from_millis(1_600));
    assert!(back(&["pending", &run], "3600").out.contains("loopgate approve"), "the clocks are set back");
    // It is seen to be over.
    let listed = shell.run(&["pending", &run]);
    assert!(listed.out.contains("which counts as a denial"), "{}", listed.out);
    let listed = back(&["pending", &run], "3600");
    assert!(
        listed.out.contains("which counts as a denial") && !listed.out.contains("approve"),
        "{}",
        listed.out
    );
    let ran = back(&["approve", &run, "3/action-0"], "3600");
    ran.fails_with(&["counts as a denial", "loopgate resume"]);
    let ran = back(&["resume", &run], "3600");
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert_eq!(company(&folder), before);
}
