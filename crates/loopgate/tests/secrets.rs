//! Keys: nothing that the program shows, writes or sends holds one, and none goes over a network unencrypted.

use crate::common;

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::provider::{Provider, Says, call, text};
use common::{Ran, Shell};
use serde_json::json;

const KEY: &str = "sk-test-Zq8Lr4Xw9Tb2Nv6Yc1Hm3";
const OTHER_KEY: &str = "sk-ant-Pd7Kf2Js5Gu8Qe0Ra4Wi1";

/// A conversation with a tool that reads notes, behind the provider `p`, whose key stands in `CANARY_KEY`.
fn notes(shell: &Shell, url: &str, note: &str) -> PathBuf {
    let toml = format!(
        "version = 1\nname = \"notes\"\ngoal = \"Answer from the notes.\"\n\
         [protocol]\ntype = \"conversation\"\n[item]\nkind = \"question\"\n\
         [save]\nfile = \"out/{{run}}.json\"\n\
         [models.base]\nprovider = \"compatible\"\nmodel = \"m\"\nbase_url = \"{url}\"\napi_key_env = \"CANARY_KEY\"\n\
         [tools.read_notes]\nkind = \"docs\"\nfolder = \"notes\"\neffect = \"read\"\ntitle = \"Notes\"\n\
         description = \"Search the notes\"\nwhen = \"always\"\n\
         [tools.read_notes.parameters.query]\ndescription = \"A few words\"\nexamples = [\"server\"]\n\
         required = true\nmin_length = 1\n"
    );
    shell.file("notes/notes/server.md", &format!("# Server\n\nThe server is called web-1.\n{note}\n"));
    shell.file("notes/loopgate.toml", &toml).parent().unwrap().to_owned()
}

fn run(shell: &Shell, args: &[&str]) -> Ran {
    let mut command = shell.command(args);
    command.env("CANARY_KEY", KEY).env("ANTHROPIC_API_KEY", OTHER_KEY);
    command.output().unwrap().into()
}

/// Letters and digits in lower case, without what escapes or hides: so no spelling is missed.
fn plain(text: &str) -> String {
    let text = text.replace("\\n", "").replace("%5F", "").replace("\\u200b", "").to_ascii_lowercase();
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

#[track_caller]
fn holds_no_key(what: &str, text: &str) {
    let text = plain(text);
    for key in [KEY, OTHER_KEY] {
        let key = plain(key);
        // The last half is as telling as the whole.
        assert!(!text.contains(&key[8..]), "{what} holds a key");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

// B13, K13
#[test]
fn a_key_in_a_tools_result_or_in_a_reply_is_shown_saved_and_sent_nowhere_however_it_is_spelt() {
    let shell = Shell::new();
    let invisible: String = KEY.chars().flat_map(|c| [c, '\u{200b}']).collect();
    let note = format!(
        "Server keys: {KEY}, {invisible}, {}, {OTHER_KEY}, {}\u{2060}{}",
        KEY.to_uppercase(),
        &OTHER_KEY[..12],
        &OTHER_KEY[12..]
    );
    let stated = format!("It is web-1. The server key is {} or {invisible}.", KEY.replace("9", "9\n"));
    let provider = Provider::replying(vec![
        call("m", "read_notes", &json!({"query": "server keys"})),
        text("m", &stated),
    ]);
    let folder = notes(&shell, &provider.url, &note);
    let folder = folder.to_str().unwrap();
    let item = format!("Which server has the key {invisible}?");
    let ran = run(&shell, &["run", folder, "--text", &item, "--caller", KEY, "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("It is web-1. The server key is [masked] or [masked]"), "{}", ran.out);
    let events = run(&shell, &["show", "last", "--events"]);
    assert!(events.out.contains("Server keys: [masked], [masked]"), "{}", events.out);
    for (what, ran) in [
        ("run --json", ran),
        ("show", run(&shell, &["show", "last"])),
        ("show --json", run(&shell, &["show", "last", "--json"])),
        ("show --events", events),
        ("tools call", run(&shell, &["tools", folder, "call", "read_notes", r#"{"query": "server keys"}"#])),
    ] {
        assert!(ran.out.contains("web-1"), "{what}: {}{}", ran.out, ran.err);
        holds_no_key(what, &ran.out);
        holds_no_key(what, &ran.err);
    }
    for path in files(shell.state.path()) {
        if !path.ends_with("server.md") {
            holds_no_key(
                &path.display().to_string(),
                &String::from_utf8_lossy(&std::fs::read(&path).unwrap()),
            );
        }
    }
    let calls = provider.received();
    assert_eq!(calls.len(), 2);
    for call in calls {
        let (head, body) = call.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(KEY), "the key is sent where it belongs");
        holds_no_key("a call", body);
    }
}

// B13
#[test]
fn what_is_saved_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let shell = Shell::new();
    let provider = Provider::replying(vec![text("m", "It is web-1.")]);
    let folder = notes(&shell, &provider.url, "");
    let ran = run(&shell, &["run", folder.to_str().unwrap(), "--text", "Which server?"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let saved = files(&folder.join("out"));
    assert_eq!(saved.len(), 1, "{}", ran.err);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&saved[0]), mode(&folder.join("out"))), (0o600, 0o700));
    let state = shell.state.path().join("loopgate");
    for path in files(&state) {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

// B13
#[test]
fn a_key_in_a_base_url_is_journaled_and_shown_nowhere_and_asked_for_again_on_resume() {
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Nothing, text("m", "It is web-1.")]);
    let folder = notes(&shell, "http://127.0.0.1:9/v1", "");
    let secret = provider.url.replace("/v1", &format!("/{KEY}/v1?api-key={OTHER_KEY}&region=eu"));
    let given = format!("base={secret}");
    let args = ["run", folder.to_str().unwrap(), "--text", "Which server?", "--base-url", &given];
    let mut child = shell.command(&args).env("CANARY_KEY", "another-key").spawn().unwrap();
    provider.wait();
    child.kill().unwrap();
    let killed: Ran = child.wait_with_output().unwrap().into();
    holds_no_key("standard error", &killed.err);
    let show = shell.run(&["show", "last"]);
    let withheld = "overridden: models.base.base_url = (withheld: it holds a credential)";
    assert!(show.out.contains(withheld), "{}", show.out);
    holds_no_key("show", &show.out);
    let without = run(&shell, &["resume", "last"]);
    without.fails_with(&["credential in --base-url", "not kept"]);
    let resumed = run(&shell, &["resume", "last", "--base-url", &given]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert!(provider.received()[1].contains(KEY), "the address is called as it was given");
    for path in files(shell.state.path()) {
        holds_no_key(&path.display().to_string(), &String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
    }
}

// B13
#[test]
fn a_key_for_another_machine_is_refused_unencrypted_and_no_proxy_gets_one_for_this_machine() {
    let shell = Shell::new();
    let folder = notes(&shell, "http://model.example:8000/v1", "");
    let ran = run(&shell, &["run", folder.to_str().unwrap(), "--text", "Which server?"]);
    ran.fails_with(&["loopgate.toml:", "unencrypted", "https://"]);
    holds_no_key("standard error", &ran.err);
    let call = ["model", "call", "--provider", "compatible", "--request", "-", "--base-url"];
    let ran = run(&shell, &[&call[..], &["http://me:word@model.example/v1"]].concat());
    ran.fails_with(&["--base-url: the key of `compatible` would go over the network unencrypted"]);

    // A proxy of the environment sees nothing of a call to this machine.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let provider = Provider::replying(vec![text("m", "It is web-1.")]);
    let folder = notes(&shell, &provider.url, "");
    let run_behind = |command: &mut Command| -> Ran {
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env(name, &address);
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy").env("CANARY_KEY", KEY);
        command.output().unwrap().into()
    };
    let args = ["run", folder.to_str().unwrap(), "--text", "Which server?"];
    let ran = run_behind(&mut shell.command(&args));
    assert_eq!((ran.code, provider.received().len()), (0, 1), "{}", ran.err);
    proxy.set_nonblocking(true).unwrap();
    let came = proxy.accept().map(|(mut stream, _)| {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    });
    assert!(came.is_err(), "the proxy was asked: {came:?}");
}
