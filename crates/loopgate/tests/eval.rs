//! `loopgate eval` as a person runs it: tables, exit codes, reports, recorded runs, slips.

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Ran, Shell};
use serde_json::{Value, json};

/// A case of one lookup, with this reason expected.
fn case(name: &str, reason: &str) -> String {
    json!({
        "case_id": name,
        "shows": "One lookup, and an answer.",
        "covers": ["S4-82"],
        "goal": "When does the shop open?",
        "replies": [{ "calls": [{ "name": "read_hours" }] }, { "text": "At nine." }],
        "mocked_tools": { "read_hours": [{ "data": { "opens": "9:00" } }] },
        "expected": { "stop_reason": reason },
    })
    .to_string()
}

#[test]
fn one_command_runs_the_example_and_one_runs_its_tests() {
    // S4-71: `npm run agent-loop`, `npm run agent-loop:test`
    let shell = Shell::new();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    for args in [
        &["run", "examples/refunds", "examples/refunds/orders/O-104.json"][..],
        &["eval", "examples/refunds"],
    ] {
        let command = format!("cargo run --release -p loopgate -- {}\n", args.join(" "));
        assert!(page.contains(&command), "examples/README.md lacks: {command}");
        let ran = shell.run(args);
        assert_eq!(ran.code, 0, "{command}{}{}", ran.out, ran.err);
    }
}

/// A server that refuses every key, and how many calls it received.
fn refusing() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 65_536]);
            counted.fetch_add(1, Ordering::Relaxed);
            let body = "{\"error\":{\"message\":\"Incorrect API key\",\"code\":\"invalid_api_key\"}}";
            let head = "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-type: application/json";
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    (url, calls)
}

#[test]
fn a_refused_key_ends_an_eval_at_once_and_a_call_without_a_key_says_so() {
    let shell = Shell::new();
    for nth in 0..9 {
        shell.file(&format!("evals/{nth}.json"), &case(&format!("c{nth}"), "completed"));
    }
    let folder = shell.state.path().join("evals").display().to_string();
    let baseline = shell.file("base.json", &shell.run(&["eval", &folder, "--json"]).out);
    let (url, calls) = refusing();
    let model = ["-m", "openai/gpt-4o-mini", "--base-url", &url, "--jobs", "1"];
    let eval = [&["eval", &folder, "--baseline", baseline.to_str().unwrap()], &model[..]].concat();
    let ran: Ran = shell.command(&eval).env("OPENAI_API_KEY", "sk-wrong").output().unwrap().into();
    assert_eq!((ran.code, calls.load(Ordering::Relaxed)), (1, 1), "{}{}", ran.out, ran.err);
    let last = ran.err.lines().last().unwrap();
    assert!(
        last.starts_with("loopgate: --model: base=openai/gpt-4o-mini: ")
            && last.contains("auth: Incorrect API key"),
        "{last}"
    );
    assert!(!last.contains("no key was sent"), "{last}");
    let ran = shell.run(&eval);
    assert!(
        ran.err.contains("auth: no key was sent; `api_key_env` names its variable: Incorrect API key"),
        "{}",
        ran.err
    );
    // A server without TLS.
    let url = url.replace("http:", "https:");
    let model = ["-m", "openai-chat/m", "--base-url", &url];
    let ran =
        shell.run(&[&["run", "examples/helpdesk", &common::ticket(1042), "--no-save"], &model[..]].concat());
    assert!(
        ran.err.contains(&format!("{url}: the server speaks http: write http:// in place of https://")),
        "{}",
        ran.err
    );
}

#[test]
fn recorded_runs_are_left_out_of_what_does_not_apply_to_them() {
    let shell = Shell::new();
    let folder = shell.state.path().join("evals").display().to_string();
    shell.file("evals/own.json", &case("own", "completed"));
    assert_eq!(shell.run(&["run", "examples/helpdesk", &common::ticket(1042), "--no-save"]).code, 0);
    let recorded = format!("{folder}/recorded.case.json");
    assert_eq!(shell.run(&["eval", "record", "last", "-o", &recorded]).code, 0);
    let both = ["eval", &format!("{folder}/own.json"), &recorded];
    let ran = shell.run(&[&both[..], &["--set", "limits.passes=1"]].concat());
    assert!(
        ran.err.contains("1 recorded run not run: --model, --set and --profile do not apply"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("max_steps 1") && !ran.out.contains("recorded"), "{}", ran.out);
    shell
        .run(&["eval", &recorded, "-m", "offline/x"])
        .fails_with(&["is a recorded run", "leave the option out"]);
}

#[test]
fn the_exit_code_tells_whether_all_ended_as_expected() {
    // S4-47, S4-59: the table of metrics.
    let shell = Shell::new();
    let good = shell.file("evals/good.json", &case("good", "completed"));
    let ran = shell.run(&["eval", good.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(ran.err, "[1/1] ok good\n");
    for part in [
        "ok   good",
        "passed                 1 of 1",
        "completion             100.0 % (1 of 1)",
        "replay                 100.0 % (1 of 1)",
    ] {
        assert!(ran.out.contains(part), "`{part}` is missing in {}", ran.out);
    }
    shell.file("evals/bad.json", &case("bad", "needs_human"));
    let folder = shell.state.path().to_str().unwrap().to_owned();
    let ran = shell.run(&["eval", &folder, "--jobs", "1"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("FAIL bad") && ran.out.contains("it stopped with completed"), "{}", ran.out);
    assert!(ran.out.contains("correct stop reason    50.0 % (1 of 2)"), "{}", ran.out);
    let filtered = shell.run(&["eval", &folder, "--filter", "good", "--trace"]);
    assert_eq!(filtered.code, 0);
    assert!(filtered.out.contains("  step:0:validation:execute\n"), "{}", filtered.out);
    shell
        .run(&["eval", &folder, "--filter", "not there"])
        .fails_with(&["--filter not there: no case's name or file holds it"]);
    let listed = shell.run(&["eval", &folder, "--list"]);
    assert_eq!((listed.code, listed.err.as_str()), (0, ""));
    assert!(listed.out.contains("One lookup, and an answer. (S4-82)\n2 cases\n"), "{}", listed.out);
}

#[test]
fn reports_are_for_programs_and_build_servers() {
    let shell = Shell::new();
    shell.file("evals/good.json", &case("good", "completed"));
    shell.file("evals/bad.json", &case("bad", "needs_human"));
    let folder = shell.state.path().to_str().unwrap().to_owned();
    let xml = shell.state.path().join("junit.xml");
    let ran = shell.run(&["eval", &folder, "--json", "--junit", xml.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["version"], &report["metrics"]["passed"]), (&json!(1), &json!(1)));
    assert_eq!(report["metrics"]["correct_stop_reason"], json!({ "part": 1, "of": 2 }));
    assert_eq!(report["cases"][0]["case_id"], "bad");
    assert_eq!(report["cases"][1]["trace"][1], "step:0:validation:execute");
    let xml = std::fs::read_to_string(xml).unwrap();
    assert!(
        xml.contains("tests=\"2\" failures=\"1\" errors=\"0\"") && xml.contains("name=\"good\""),
        "{xml}"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_runs() {
    let shell = Shell::new();
    let file = shell.file("evals/good.json", &case("good", "completed"));
    let ran = shell.run(&["eval", file.to_str().unwrap(), "--junit", "no/such/folder/x.xml"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("--junit no/such/folder/x.xml: ") && !ran.err.contains("[1/1]"), "{}", ran.err);
}

#[test]
fn a_run_of_the_journal_becomes_a_case_that_passes() {
    // S4-69
    let shell = Shell::new();
    let ran = shell.run(&["run", "examples/refunds", "examples/refunds/orders/O-104.json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file = shell.state.path().join("evals/late.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let file = file.to_str().unwrap();
    let ran = shell.run(&["eval", "record", "last", "-o", file]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    assert!(ran.err.contains("ends with completed again"), "{}", ran.err);
    // B13: it holds what the run has read.
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let ran = shell.run(&["eval", file]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    shell.run(&["eval", "record", "last", "-o", file]).fails_with(&["name a file that is not there yet"]);
    shell.run(&["eval", "record", "zz", "-o", "x.json"]).fails_with(&["no run zz"]);
}

#[test]
fn slips_are_told_in_one_line() {
    let shell = Shell::new();
    shell.run(&["eval", "examples/none"]).fails_with(&["examples/none: cannot be read"]);
    shell.run(&["eval", "examples/helpdesk/tickets"]).fails_with(&["there is no case in it"]);
    shell
        .run(&["eval", "examples/helpdesk/tickets/T-1041.json"])
        .fails_with(&["T-1041.json:2:", "unknown field"]);
    let bad = shell.file("bad.case.json", &case("bad", "done"));
    shell
        .run(&["eval", bad.to_str().unwrap()])
        .fails_with(&["bad.case.json: /expected/stop_reason: there is no reason `done`"]);
    for wrong in [
        &["eval"][..],
        &["eval", "x", "--jobs", "0"],
        &["eval", "x", "--list", "--json"],
        &["eval", "record", "last"],
    ] {
        assert_eq!(shell.run(wrong).code, 2, "{wrong:?}");
    }
}
