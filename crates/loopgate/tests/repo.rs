//! `examples/repo`: an issue is triaged in a git repository, in this checkout and in another one.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Shell, root, timeless};

const DOMAIN: &str = "examples/repo";
const ITEM: &str = "examples/repo/items/long-line.json";
/// What the example gives git as well, so that no configuration of the machine counts.
const ENVIRONMENT: [(&str, &str); 2] = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")];

fn git(folder: &Path, args: &[&str]) -> bool {
    let date = "2026-03-01T12:00:00Z";
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(args).current_dir(folder);
    git.env("GIT_AUTHOR_DATE", date).env("GIT_COMMITTER_DATE", date).envs(ENVIRONMENT);
    git.output().unwrap().status.success()
}

/// A shop's repository, and an issue about it.
fn shop(shell: &Shell) -> (String, String) {
    let issue = shell.file(
        "issue.json",
        r#"{"number": 7, "title": "Refund is paid twice", "author": {"login": "sam"},
            "body": "A refund that is retried is paid twice, see `src/refund.py`."}"#,
    );
    let file = shell.file(
        "shop/src/refund.py",
        "def refund(order):\n    # A retried refund is paid again.\n    pay(order)\n",
    );
    let folder = file.parent().unwrap().parent().unwrap().to_owned();
    assert!(git(&folder, &["init", "-q"]) && git(&folder, &["add", "."]));
    for at in 0..12 {
        let title =
            if at == 4 { "Pay a refund when it is retried".to_owned() } else { format!("Version {at}") };
        assert!(git(&folder, &["commit", "-q", "--allow-empty", "-m", &title]));
    }
    (folder.display().to_string(), issue.display().to_string())
}

/// The settings of the README that name another repository.
fn elsewhere(folder: &str) -> Vec<String> {
    let keys = ["search_code.command", "fetch_commits.command", "read_file.files"];
    keys.iter().flat_map(|key| ["--set".to_owned(), format!("tools.{key}.folder={folder}")]).collect()
}

fn body<'a>(outcome: &'a Value, section: &str) -> &'a str {
    let mut sections = outcome["document"]["sections"].as_array().unwrap().iter();
    sections.find(|known| known["type"] == section).unwrap()["body"].as_str().unwrap()
}

fn statuses(outcome: &Value) -> Vec<(&str, &str)> {
    let evidence = outcome["evidence"].as_array().unwrap().iter();
    let mut all: Vec<_> =
        evidence.map(|one| (one["tool"].as_str().unwrap(), one["status"].as_str().unwrap())).collect();
    all.sort_unstable();
    all
}

#[test]
fn an_issue_of_another_repository_is_triaged_there() {
    // S0-2, S0-60, S0-76, S0-77
    let shell = Shell::new();
    let (folder, issue) = shop(&shell);
    let run = || {
        let settings = elsewhere(&folder);
        let settings = settings.iter().map(String::as_str);
        let args: Vec<&str> =
            ["run", DOMAIN, &issue, "--json", "--no-save"].into_iter().chain(settings).collect();
        shell.json(&args)
    };
    let outcome = run();
    assert_eq!(statuses(&outcome), [("fetch_commits", "ok"), ("read_file", "ok"), ("search_code", "ok")]);
    let conclusion = body(&outcome, "conclusion");
    for line in [
        "`2     # A retried refund is paid again.`",
        "`src/refund.py:2:    # A retried refund is paid again.`",
        "2026-03-01 Pay a refund when it is retried`",
    ] {
        assert!(conclusion.contains(line), "`{line}` is missing in: {conclusion}");
    }
    assert_eq!(outcome["stop"]["reason"], "confident", "{outcome:#}");
    assert_eq!(timeless(outcome), timeless(run()));
}

#[test]
fn the_checkout_of_the_reader_is_triaged_as_the_readme_says() {
    let shell = Shell::new();
    let check = shell.run(&["domain", "check", DOMAIN]);
    let warning =
        "warning: selecting has no defaults: nothing runs before the first pass where choosing fails";
    assert_eq!((check.code, check.err.trim()), (0, warning));
    let outcome = shell.json(&["run", DOMAIN, ITEM, "--json", "--no-save"]);
    // An archive of the sources has no commits, and a checkout of another user is refused by git.
    let status = if git(&root(), &["rev-parse", "HEAD"]) { "ok" } else { "permanent_error" };
    let expected = [("fetch_commits", status), ("read_file", "ok"), ("search_code", status)];
    assert_eq!(statuses(&outcome), expected, "{outcome:#}");
    assert!(
        body(&outcome, "conclusion")
            .contains("Searching: the lines that a text or a regular expression matches.")
    );
}

#[test]
fn words_to_search_for_are_never_options_patterns_or_commands() {
    // K12
    let shell = Shell::new();
    let (folder, _) = shop(&shell);
    let set = format!("tools.search_code.command.folder={folder}");
    let call = |words: &str| {
        let parameters = serde_json::json!({ "words": words }).to_string();
        shell.run(&["tools", DOMAIN, "--set", &set, "call", "search_code", &parameters])
    };
    assert!(call("retried PAID").out.contains("src/refund.py:2:    # A retried refund is paid again."));
    for words in [
        "$(touch made) `touch made` ;touch made",
        "-O --open-files-in-pager=touch",
        "-- --",
        "r.*d [a-z]",
        "\\(order\\n",
        "/*.p?",
    ] {
        let ran = call(words);
        assert!(ran.err.starts_with("empty: "), "{words}: {}{}", ran.out, ran.err);
    }
    let is_there = |name: &str| Path::new(&folder).join(name).exists();
    assert!(is_there("src") && !is_there("made"), "a word was run");
    let none = shell.state.path().display().to_string();
    let set = format!("tools.search_code.command.folder={none}");
    let ran = shell.run(&["tools", DOMAIN, "--set", &set, "call", "search_code", r#"{"words": "refund"}"#]);
    assert!(ran.err.contains("ended with exit code 128: fatal: not a git repository"), "{}", ran.err);
}
