//! The command as its users meet it: output, errors, signals, the journal.

use crate::common;

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Shell, ticket};
use serde_json::Value;

const HELPDESK: &str = "examples/helpdesk";

#[test]
fn the_document_goes_to_standard_output_and_the_reason_to_standard_error() {
    // S0-13
    let ran = Shell::new().run(&["run", HELPDESK, &ticket(1042)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("## 🔍 Situation") && ran.out.contains("[E1]"), "{}", ran.out);
    assert!(!ran.out.contains("analysis_confidence") && !ran.out.contains('\u{1b}'));
    assert!(ran.err.contains("stopped: confident (answered)") && ran.err.contains("totals:"), "{}", ran.err);
}

#[test]
fn a_slip_in_an_option_is_said_with_what_is_expected() {
    let shell = Shell::new();
    for (args, expected) in [
        (&["fork", "last", "--at", "x"][..], "invalid value 'x' for '--at <ENTRY>': expected a whole number"),
        (&["run", HELPDESK, "x", "--jobs", "many"], "expected a whole number"),
        (&["show", "--evidence", "last"], "the run comes first: loopgate show last --evidence"),
        (&["view", "--listen", "localhost:x"], "expected ADDRESS:PORT, for example 127.0.0.1:8080"),
        (&["serve", HELPDESK, "--listen", "400000"], "expected ADDRESS:PORT"),
    ] {
        let ran = shell.run(args);
        assert!(ran.code == 2 && ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
    let two = "limits.passes=2,limits.tool_calls=3";
    for args in [&["plan", HELPDESK, "--set", two][..], &["backtest", "last", "--set", two]] {
        shell.run(args).fails_with(&["--set limits.passes: it holds `limits.tool_calls` as well; give each"]);
    }
    assert_eq!(shell.run(&["plan", HELPDESK, "--set", "goal=a, b.c=d"]).code, 0);
    let named = shell.run(&["plan", HELPDESK, "-m", "werk-7b", "--base-url", "http://127.0.0.1:9/v1"]);
    assert!(named.err.contains("or, with --base-url URL, compatible/werk-7b, or TIER="), "{}", named.err);
    let known = shell.run(&["plan", HELPDESK, "-m", "werk/7b", "--base-url", "http://127.0.0.1:9/v1"]);
    assert!(
        known.err.contains("unknown provider `werk`; a server of your own that speaks Chat"),
        "{}",
        known.err
    );
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut mock = shell.command(&["mock", HELPDESK, "--listen", &port]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(Instant::now() < deadline, "nothing listens on {port}");
        std::thread::sleep(Duration::from_millis(50));
    }
    mock.kill().unwrap();
    mock.wait().unwrap();
}

#[test]
fn the_live_view_shows_selects_results_sections_decisions_and_the_spend() {
    // S0-18, S0-34
    let ran = Shell::new().run(&["run", HELPDESK, &ticket(1042), "-v", "--progress", "always"]);
    let parts = [
        "starts:  ticket T-1042 of helpdesk with offline/offline-1; journal ",
        "limits:  5 passes",
        "selecting tools",
        "run     fetch_device_info",
        "names HAR-LT-014",
        "fetch_device_info: Found 1 items",
        "│ ## 🔍 Situation",
        "gate after pass 1: confidence medium; continue",
        "gate after pass 2: confidence high; stop, confident",
        "passes 2/5",
    ];
    for part in parts {
        assert!(ran.err.contains(part), "`{part}` is missing in:\n{}", ran.err);
    }
    assert!(!ran.err.contains("analysis_confidence"));
}

#[test]
fn events_and_notes_are_json_lines() {
    let shell = Shell::new();
    let ran = shell.run(&["run", HELPDESK, &ticket(1042), "--events"]);
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["event"]["type"], "started");
    assert!(lines.iter().any(|line| line["note"]["type"] == "gate_decided"));
    let shown = shell.run(&["show", "last", "--events"]);
    assert_eq!(shown.out, ran.out, "the journal holds what was printed");
}

#[test]
fn the_json_holds_as_much_of_each_result_as_is_wanted() {
    let shell = Shell::new();
    let first = |detail: &[&str]| {
        let outcome = shell.json(&[&["show", "last", "--json"], detail].concat());
        outcome["evidence"].get(0).cloned()
    };
    let ran = shell.json(&["run", HELPDESK, &ticket(1042), "--json", "--evidence", "summary"]);
    let summary = ran["evidence"][0].clone();
    assert_eq!((&summary["summary"], summary.get("data")), (&"Found 1 items".into(), None));
    assert_eq!(first(&["--evidence", "summary"]), Some(summary));
    let full = first(&[]).unwrap();
    assert_eq!(full["data"][0]["hostname"], "HAR-LT-014");
    assert!(full["markdown"].as_str().unwrap().starts_with("## Device info"), "{full}");
    assert_eq!(first(&["--evidence", "none"]), None);
    let ran = shell.run(&["show", "last", "--evidence", "none"]);
    assert!(ran.code == 2 && ran.err.contains("--json"), "{}", ran.err);
}

#[test]
fn a_run_is_shown_again_from_the_journal() {
    // S0-13
    let shell = Shell::new();
    let outcome = shell.json(&["run", HELPDESK, &ticket(1043), "--json"]);
    let run = outcome["run"].as_str().unwrap();
    assert_eq!(shell.json(&["show", run, "--json"]), outcome);
    let shown = shell.run(&["show", &run[..13]]);
    assert!(
        shown.out.contains("ticket T-1043") && shown.out.contains("Conditions at the stop"),
        "{}{}",
        shown.out,
        shown.err
    );
    let runs = shell.run(&["runs"]);
    assert!(runs.out.contains(run) && runs.out.contains("confident"), "{}", runs.out);
    shell.run(&["show", "nothing-like-it"]).fails_with(&["no run nothing-like-it", "loopgate runs"]);
}

#[test]
fn an_item_comes_from_a_file_or_from_standard_input_as_json_or_markdown() {
    let shell = Shell::new();
    let text = std::fs::read_to_string(common::root().join(ticket(1041))).unwrap();
    let ran = shell.run_with_input(&["run", HELPDESK, "-", "--no-save"], &format!("\n  {text}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = shell.run_with_input(&["run", HELPDESK, "-"], "# Please close\n\nAll is well, thank you.\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("Please close [E0]"), "{}", ran.out);
    shell.run_with_input(&["run", HELPDESK, "-"], "{\"id\": ").fails_with(&["1:"]);
    shell.run_with_input(&["run", HELPDESK, "-"], "  \n").fails_with(&["empty"]);
    shell.run(&["run", HELPDESK, "no/such.json"]).fails_with(&["no/such.json", "No such file"]);
}

#[test]
fn settings_profiles_and_limits_can_be_changed_for_one_run() {
    // S0-43, S1-48
    let shell = Shell::new();
    let base = ["run", HELPDESK, &ticket(1043), "--json"];
    let outcome = shell.json(&[&base[..], &["--set", "limits.max_passes=2"]].concat());
    assert_eq!(
        (&outcome["stop"]["reason"], &outcome["totals"]["passes"]),
        (&"max_passes".into(), &2.into()),
        "{outcome:#}"
    );
    let outcome = shell.json(&[&base[..], &["--profile", "quick"]].concat());
    assert_eq!(outcome["totals"]["passes"], 2);
    let outcome = shell.json(&[&base[..], &["--set", "limits.passes=0"]].concat());
    assert_eq!(
        (&outcome["stop"]["reason"], &outcome["totals"]["model_calls"]),
        (&"max_passes".into(), &0.into())
    );
    let outcome = shell.json(&[&base[..], &["--set", "limits.tool_calls=0"]].concat());
    assert_eq!(outcome["totals"]["tool_calls"], 0);
    shell.run(&["run", HELPDESK, &ticket(1042), "--set", "limits.pases=2"]).fails_with(&["pases", "passes"]);
    shell.run(&["run", HELPDESK, &ticket(1042), "--set", "limits"]).fails_with(&["KEY=VALUE"]);
    shell.run(&["run", HELPDESK, &ticket(1042), "--profile", "fast"]).fails_with(&["fast", "quick"]);
    shell
        .run(&["run", HELPDESK, &ticket(1042), "--model", "base=nobody/x"])
        .fails_with(&["nobody", "offline"]);
}

#[test]
fn tools_are_listed_and_called_by_hand() {
    let shell = Shell::new();
    let listed = shell.run(&["tools", HELPDESK]);
    for tool in [
        "fetch_device_info",
        "fetch_user_info",
        "fetch_backup_status",
        "fetch_ticket_history",
        "fetch_sop_docs",
    ] {
        assert!(listed.out.contains(tool), "{}", listed.out);
    }
    let item = ticket(1042);
    let called = shell.run(&[
        "tools",
        HELPDESK,
        "call",
        "fetch_device_info",
        r#"{"target": "HAR-LT-014"}"#,
        "--item",
        &item,
    ]);
    assert!(
        called.code == 0
            && called.out.contains("Harbor & Pine Shipping")
            && called.err.contains("Found 1 items"),
        "{}{}",
        called.out,
        called.err
    );
    let other = shell.run(&[
        "tools",
        HELPDESK,
        "call",
        "fetch_device_info",
        r#"{"target": "HAR-LT-014"}"#,
        "--scope",
        "account=fenwick",
    ]);
    assert!(
        other.err.contains("empty: No data found"),
        "another account's device is not shown: {}{}",
        other.out,
        other.err
    );
    let unknown = shell.run(&["tools", HELPDESK, "call", "fetch_device_inf"]);
    assert!(unknown.code == 1 && unknown.out.contains("fetch_device_info"), "{}{}", unknown.out, unknown.err);
    let invalid = shell.run(&["tools", HELPDESK, "call", "fetch_device_info", "{}"]);
    assert!(invalid.code == 1 && invalid.err.contains("invalid_input"), "{}", invalid.err);
    shell.run(&["tools", HELPDESK, "call", "fetch_device_info", "{target}"]).fails_with(&["not JSON"]);
}

#[test]
fn a_wrong_use_names_what_there_is_and_no_type_of_the_program() {
    let shell = Shell::new();
    for (args, says) in [
        (&["domain", "examples/crm"][..], "tip: there is `domain check`"),
        (&["journal", "delete"], "`journal stats`, `journal prune`, `journal export`, `journal import`"),
        (&["policy", "chek"], "'check'"),
        (&["schema", "domian"], "'domain'"),
    ] {
        let ran = shell.run(args);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(says), "{}", ran.err);
    }
    shell.run(&["run", "examples/crm", "--text", "x"]);
    shell.run(&["verify", "/no/such.db"]).fails_with(&["/no/such.db: there is no such file; "]);
    shell.run(&["journal", "import", "/no/such"]).fails_with(&["/no/such: ", "; correct the path"]);
    shell.run(&["run", "examples/crm", "--text", "x", "--set", "x"]).fails_with(&["limits.passes=3"]);
    let call = shell.run(&["tools", "examples/crm", "call", "nope"]);
    assert!(call.err.contains("the tools of the domain are search_user, "), "{}", call.err);
    // Each value has the wrong type.
    let case = |member: &str| format!(r#"{{ "case_id": "a", "goal": "x", {member} }}"#);
    for member in [
        r#""expected": 5"#,
        r#""expected": { "answer": 5 }"#,
        r#""expected": { "document": { "a": "x" } }"#,
        r#""expected": { "counts": "x" }"#,
        r#""expected": { "actions": [5] }"#,
        r#""expected": { "evidence": [5] }"#,
        r#""expected": { "output": [5] }"#,
        r#""mocked_tools": { "a": [5] }"#,
        r#""people": [5]"#,
        r#""stop": 5"#,
        r#""replies": [5]"#,
        r#""replies": [{ "calls": [5] }]"#,
    ] {
        let file = shell.file("a.case.json", &case(member)).display().to_string();
        let ran = shell.run(&["eval", &file]);
        let is_plain =
            !["struct", "Check", "Scripted", "Case", "Outcome"].iter().any(|it| ran.err.contains(it));
        assert!(ran.code != 0 && ran.err.contains("expected an object") && is_plain, "{member}: {}", ran.err);
    }
    for script in
        ["[]", r#"{ "version": 1, "replies": [5] }"#, r#"{ "version": 1, "replies": [{ "usage": 5 }] }"#]
    {
        let model = format!("base=scripted/{}", shell.file("s.json", script).display());
        let ran = shell.run(&["run", "examples/crm", "--text", "x", "--model", &model]);
        assert!(ran.err.contains("expected an object") && !ran.err.contains("struct"), "{}", ran.err);
    }
}

#[test]
fn a_domain_is_checked_and_every_fault_points_at_its_place() {
    let shell = Shell::new();
    let checked = shell.run(&["domain", "check", HELPDESK]);
    assert!(checked.code == 0 && checked.out.contains("6 tools"), "{}{}", checked.out, checked.err);
    shell.run(&["domain", "check", "no/such"]).fails_with(&["no/such"]);

    let folder = shell.copy_of(HELPDESK);
    let file = folder.join("loopgate.toml");
    let whole = std::fs::read_to_string(&file).unwrap();
    let spoiled = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        std::fs::write(&file, whole.replacen(from, to, 1)).unwrap();
        shell.run(&["domain", "check", folder.to_str().unwrap()])
    };
    spoiled("goal =", "gaol =").fails_with(&["loopgate.toml:6:", "gaol", "goal"]);
    spoiled("FROM devices", "FROM gadgets").fails_with(&["loopgate.toml:", "fetch_device_info", "gadgets"]);
    spoiled("effect = \"read\"\n", "").fails_with(&["loopgate.toml:", "fetch_device_info", "effect"]);
    spoiled("version = 1", "version = 9").fails_with(&["loopgate.toml:", "newer"]);
    spoiled("folder = \"sops\"", "folder = \"sopz\"").fails_with(&["loopgate.toml:", "sopz"]);

    std::fs::create_dir(folder.join("prompts")).unwrap();
    std::fs::write(folder.join("prompts/selector.md"), "Select some.\n<!-- user -->\n{{ item }}\n").unwrap();
    spoiled("[selection]", "[prompts]\nfolder = \"prompts\"\n\n[selection]")
        .fails_with(&["selector.md", "{{ tools }}"]);
}

/// A script whose main call takes its time.
fn slow_script(shell: &Shell, delay_ms: u64) -> String {
    let reply = "## Situation\n\nSlow.\n\n## Next steps\n\n1. Wait [E0].\n\n```json\n{\"nonce\": \"{{nonce}}\", \
        \"analysis_confidence\": \"medium\", \"confidence_reason\": \"\", \"ai_actions\": [{\"action_id\": \"a\", \
        \"action_type\": \"fetch_account_info\", \"reason\": \"\", \"parameters\": {}, \"priority\": \"required\"}]}\n```\n";
    let script = serde_json::json!({"version": 1, "replies": [
        {"for": "select", "text": "[]"},
        {"for": "main", "text": reply, "delay_ms": delay_ms},
    ]});
    shell.file("slow.json", &script.to_string()).display().to_string()
}

fn interrupt(pid: u32) {
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
}

/// Starts a run whose main call is slow and waits until that call is on its way.
fn start_slow(shell: &Shell, delay_ms: u64) -> std::process::Child {
    let script = slow_script(shell, delay_ms);
    let folder = shell.copy_of(HELPDESK);
    let toml = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    assert!(text.contains("file = \"saved/{item}.json\""), "{text}");
    let text = text.replace("file = \"saved/{item}.json\"", "file = \"out/{item}.json\"");
    std::fs::write(&toml, text).unwrap();
    let tiers = [format!("selector=scripted/{script}"), format!("base=scripted/{script}")];
    let (folder, item) = (folder.display().to_string(), ticket(1042));
    let args = ["run", &folder, &item, "--model", &tiers[0], "--model", &tiers[1], "--events"];
    let mut child = shell.command(&args).spawn().unwrap();
    let mut seen = String::new();
    let out = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    while !seen.contains("\"key\":\"1/main\"") {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{seen}");
        seen.push(char::from(byte[0]));
    }
    child
}

#[test]
fn the_first_interrupt_stops_at_the_gate_with_the_document_saved() {
    // S0-46, S0-31, H9
    let shell = Shell::new();
    // The interrupt comes before the reply, also where it is late.
    let child = start_slow(&shell, 5_000);
    interrupt(child.id());
    let ran: common::Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert!(
        ran.err.contains("stopping at the next gate") && ran.err.contains("stopped: manual_stop"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("undone:  fetch_account_info"), "{}", ran.err);
    let saved = std::fs::read_to_string(shell.state.path().join("copy/out/T-1042.json")).unwrap();
    let saved: Value = serde_json::from_str(&saved).unwrap();
    assert_eq!((&saved["stop"]["reason"], &saved["totals"]["passes"]), (&"manual_stop".into(), &1.into()));
}

#[test]
fn the_second_interrupt_stops_at_once() {
    // S0-46, H9
    let shell = Shell::new();
    let mut child = start_slow(&shell, 600_000);
    let began = Instant::now();
    interrupt(child.id());
    // Two that are not told apart count as one: the first has been seen.
    let mut seen = String::new();
    let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
    while !seen.contains("stopping at the next gate") {
        assert_ne!(std::io::BufRead::read_line(&mut err, &mut seen).unwrap(), 0, "{seen}");
    }
    interrupt(child.id());
    err.read_to_string(&mut seen).unwrap();
    let ran: common::Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 130, "{seen}");
    assert!(began.elapsed() < Duration::from_secs(120), "a hanging call does not hold it up");
    assert!(shell.state.path().join("copy/out/T-1042.json").exists(), "what there is is saved");
}

#[test]
fn a_run_that_was_killed_is_shown_as_far_as_it_came() {
    // H1
    let shell = Shell::new();
    let mut child = start_slow(&shell, 60_000);
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = shell.run(&["show", "last"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    for part in
        ["not ended: calling\n", "interrupted: no process writes it\n", "so far: 0 passes, 2 model calls, "]
    {
        assert!(shown.out.contains(part), "`{part}` is missing in: {}", shown.out);
    }
    let (_, reserved) = shown.out.split_once("\nreserved for what was in flight: ").unwrap();
    let tokens: u64 = reserved.split(' ').next().unwrap().parse().unwrap();
    assert!(tokens > 500 && reserved.contains(" output tokens, $0.0"), "{reserved}");
    shell.run(&["show", "last", "--json"]).fails_with(&["has not ended"]);
    assert!(shell.run(&["runs"]).out.contains("\tinterrupted, "));
}

#[test]
fn a_run_that_goes_on_is_told_from_one_whose_process_is_gone() {
    // H1
    let shell = Shell::new();
    let mut child = start_slow(&shell, 60_000);
    assert!(shell.run(&["runs"]).out.contains("\trunning, "));
    let shown = shell.run(&["show", "last"]);
    assert!(shown.out.contains("\nrunning: a process writes it\n"), "{}", shown.out);
    // Being asked took nothing from it.
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shell.run(&["runs"]).out.contains("\tinterrupted, "));
}

#[test]
fn a_server_that_never_answers_holds_no_signal_up_and_its_secret_path_is_not_told() {
    // U7, S0-46
    let shell = Shell::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let url = format!("save={{ url = \"http://{address}/hooks/s3cret?key=s3cret\" }}");
    let child = shell.command(&["run", HELPDESK, &ticket(1042), "--set", &url]).spawn().unwrap();
    let (connection, _) = server.accept().unwrap();
    let began = Instant::now();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let ran: common::Ran = child.wait_with_output().unwrap().into();
    drop(connection);
    assert!(began.elapsed() < Duration::from_secs(20), "one try alone takes 30 s");
    assert_eq!(ran.code, 0, "the run had ended before: {}", ran.err);
    assert!(ran.err.contains("saved:   no: stopped before it was saved; the journal has it"), "{}", ran.err);
    assert!(!ran.err.contains("s3cret"), "{}", ran.err);
}

#[test]
fn saving_has_the_limit_of_the_domain_and_says_what_it_waits_for() {
    // W6
    let shell = Shell::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("save={{ url = \"http://{}/in\", limit_ms = 4000 }}", server.local_addr().unwrap());
    let ran = shell.run(&["run", HELPDESK, &ticket(1042), "--set", &url]);
    assert_eq!(ran.code, 0, "the outcome is what it is: {}", ran.err);
    let reported: Vec<&str> =
        ran.err.lines().filter(|line| line.starts_with("saving:") || line.starts_with("saved:")).collect();
    let slow = "saving:  not done yet; Ctrl-C ends it, and the journal has the outcome";
    assert_eq!(reported, [slow, "saved:   no: not saved after 4 s; the journal has it"], "{}", ran.err);
}

#[test]
fn a_save_that_is_tried_again_says_so() {
    // W6
    let shell = Shell::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("save={{ url = \"http://{}/in\" }}", server.local_addr().unwrap());
    let answers = std::thread::spawn(move || {
        for answer in ["503 Busy\r\nretry-after: 0", "204 No Content"] {
            let (mut stream, _) = server.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        }
    });
    let ran = shell.run(&["run", HELPDESK, &ticket(1042), "--set", &url]);
    answers.join().unwrap();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let reported: Vec<&str> =
        ran.err.lines().filter(|line| line.starts_with("saving:") || line.starts_with("saved:")).collect();
    let [again, saved] = reported[..] else { panic!("{}", ran.err) };
    assert!(again.contains("503") && again.ends_with("; it is tried again"), "{again}");
    assert!(saved.starts_with("saved:   http://127.0.0.1:"), "{saved}");
}

#[test]
fn a_reader_that_takes_nothing_does_not_keep_a_signal_from_ending_it() {
    // S0-46
    for (signal, flag, code) in [("-TERM", "--events", 143), ("-INT", "--no-save", 130)] {
        let shell = Shell::new();
        // More than a pipe holds, in the events and in the document.
        let item =
            shell.file("long.md", &format!("# {}\n\n{}\n", "Please close", "All is well. ".repeat(9_000)));
        let item = item.display().to_string();
        let reply =
            format!("## Situation\n\n{}\n\n## Next steps\n\n1. Wait [E0].\n", "Well. ".repeat(20_000));
        let script = serde_json::json!({"version": 1, "replies": [
            {"for": "select", "text": "[]"},
            {"for": "main", "text": reply}, {"for": "repair", "text": "{\"analysis_confidence\": \"high\"}"}]});
        let script = shell.file("long.json", &script.to_string()).display().to_string();
        let tiers = [format!("selector=scripted/{script}"), format!("base=scripted/{script}")];
        let room = "limits.output_tokens=100000";
        let args = ["run", HELPDESK, &item, "--model", &tiers[0], "--model", &tiers[1], "--set", room, flag];
        let mut child = shell.command(&args).spawn().unwrap();
        let began = Instant::now();
        let is_late = || began.elapsed() > Duration::from_secs(300);
        let has_stopped = || {
            let runs = shell.run(&["runs"]);
            runs.code == 0 && !runs.out.is_empty() && !runs.out.contains("running, ")
        };
        while !has_stopped() && !is_late() {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "{flag}: it waits for its reader");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if is_late() => break None,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        // Otherwise it would stay behind.
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(ended, Some(code), "{signal} {flag}");
    }
}

#[test]
fn a_save_replaces_no_device_and_the_terminal_obeys_no_title() {
    let shell = Shell::new();
    let place = shell.state.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&place).unwrap();
    let set = format!("save.file={}", place.display());
    let ran = shell.run(&["run", HELPDESK, &ticket(1041), "--set", &set]);
    assert!(ran.err.contains("saved:   no: ") && ran.err.contains("no file"), "{}", ran.err);
    let title = "# All \u{9b}31mfine\u{202e}, please close";
    let ran = shell.run_with_input(&["run", HELPDESK, "-", "--progress", "always"], title);
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains(['\u{9b}', '\u{202e}']), "{text:?}");
    }
    let runs = shell.run(&["runs"]);
    assert!(runs.out.contains("fine, please close") && !runs.out.contains('\u{9b}'), "{:?}", runs.out);
}

#[test]
fn a_work_item_without_an_end_is_refused_in_one_line() {
    // B10
    let shell = Shell::new();
    for item in ["/dev/zero", "-"] {
        let text = "x".repeat((1 << 20) + 1);
        let ran = shell.run_with_input(&["run", HELPDESK, item], if item == "-" { &text } else { "" });
        let origin = if item == "-" { "-" } else { "/dev/zero" };
        // Issue 40, H5: a device is not read at all.
        let why = match item {
            "-" => "the work item has more than 1048576 bytes, which is the domain's limit; ",
            _ => "it is a pipe or a device; name a regular file; ",
        };
        let expected = format!("loopgate: {origin}: {why}");
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.starts_with(&expected) && ran.err.trim_end().lines().count() == 1, "{}", ran.err);
    }
}
