//! `loopgate doctor`: one line for each thing that is missing.

use crate::common;

use std::net::TcpListener;

use common::Shell;

const DOMAIN: &str = r#"
version = 1
name = "desk"
[[section]]
id = "answer"
heading = "Answer"
[limits]
cost_usd = "none"
[models.base]
provider = "compatible"
model = "m"
base_url = "URL"
api_key_env = "DESK_KEY"
"#;

fn desk(shell: &Shell, url: &str) -> String {
    let file = shell.file("desk/loopgate.toml", &DOMAIN.replace("URL", url));
    file.parent().unwrap().display().to_string()
}

#[test]
fn a_machine_where_nothing_is_missing_says_so() {
    let shell = Shell::new();
    let doctor = shell.run(&["doctor", "examples/helpdesk"]);
    assert_eq!((doctor.code, doctor.err.as_str()), (0, ""), "{}", doctor.out);
    assert!(doctor.out.lines().all(|line| line.starts_with("ok ")), "{}", doctor.out);
    assert!(doctor.out.contains("the first run makes "), "{}", doctor.out);
    shell.run(&["run", "examples/helpdesk", &common::ticket(1042), "--no-save"]);
    let doctor = shell.run(&["doctor"]);
    assert!(doctor.out.contains("journal.db, 1 run\n"), "{}", doctor.out);
}

#[test]
fn a_key_a_price_and_a_server_that_are_missing_have_a_line_each() {
    let shell = Shell::new();
    // A port that was taken and given back: nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = desk(&shell, &format!("http://127.0.0.1:{port}/v1?key=hush-hush-hush"));
    let doctor = shell.run(&["doctor", &folder]);
    assert_eq!(doctor.code, 1, "{}", doctor.out);
    let found = |start: &str, part: &str| {
        let has = doctor.out.lines().any(|line| line.starts_with(start) && line.contains(part));
        assert!(has, "{start} {part}:\n{}", doctor.out);
    };
    found("missing  key ", "`DESK_KEY` is not set");
    found("ok       price ", "compatible/m: local server: cost 0 (");
    found(
        "missing  server ",
        &format!("model base: http://127.0.0.1:{port}/v1: connection refused (is it running?)"),
    );
    assert!(!doctor.out.contains("hush-hush"), "an address may hold a credential: {}", doctor.out);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = desk(&shell, &format!("http://{}/v1", listener.local_addr().unwrap()));
    let mut command = shell.command(&["doctor", &folder]);
    let ran = command.env("DESK_KEY", "a-key-of-the-desk").output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{out}");
    assert!(out.contains("takes connections (model base)"), "{out}");
}

#[test]
fn what_is_wrong_with_a_domain_is_its_line() {
    let shell = Shell::new();
    let file = shell.file("desk/loopgate.toml", "version = 1\n");
    let doctor = shell.run(&["doctor", file.to_str().unwrap()]);
    assert_eq!((doctor.code, doctor.err.as_str()), (1, ""), "{}", doctor.out);
    assert!(doctor.out.lines().last().unwrap().starts_with("missing  domain "), "{}", doctor.out);
}

// 45-5
#[test]
fn what_is_about_to_be_run_is_checked_and_called_once_on_request() {
    let shell = Shell::new();
    let helpdesk = "examples/helpdesk";
    let off = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{off}/v1");
    let settings = ["-m", "openai-chat/own", "--base-url", &url, "--set", "limits.cost_usd=1"];
    let doctor = shell.run(&[&["doctor", helpdesk], &settings[..]].concat());
    assert_eq!(doctor.code, 1, "{}", doctor.out);
    let server = format!("missing  server   model base: {url}: connection refused (is it running?)\n");
    assert!(doctor.out.contains(&server) && !doctor.out.contains(" call "), "{}", doctor.out);
    let doctor = shell.run(&[&["doctor", helpdesk, "--call"], &settings[..]].concat());
    let call =
        format!("missing  call     openai-chat/own (model base): connection: {url}: connection refused");
    assert!(doctor.out.contains(&call), "{}", doctor.out);
    assert!(
        doctor.out.contains("ok       call     offline/offline-1 (model selector) replied: $0"),
        "{}",
        doctor.out
    );
    let typo = shell.run(&["doctor", helpdesk, "-m", "anthropic/claude-sonet-4-5"]);
    assert!(
        typo.out.contains("warning  price    --model base=anthropic/claude-sonet-4-5: did you mean"),
        "{}",
        typo.out
    );
    let without = shell.run(&["doctor", "--call"]);
    assert!(without.code == 1 && without.err.contains("write `loopgate doctor DOMAIN`"), "{}", without.err);
    let unknown = shell.run(&["doctor", helpdesk, "--profile", "none"]);
    assert!(unknown.out.contains("there is no such profile"), "{}", unknown.out);
}
