//! `loopgate why`, `loopgate diff` and `loopgate plan`.

use crate::common;

use common::{Ran, Shell, ticket};
use loop_runtime::journal::StoredJournal;
use serde_json::Value;

const CRM_REQUEST: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";

#[track_caller]
fn ran(shell: &Shell, set: &[&str]) -> String {
    let item = ticket(1042);
    let mut args = vec!["run", "examples/helpdesk", &item, "--no-save"];
    set.iter().for_each(|set| args.extend(["--set", set]));
    let ran = shell.run(&args);
    ran.err
        .lines()
        .find_map(|line| line.strip_prefix("run:     "))
        .unwrap_or_else(|| panic!("{}", ran.err))
        .to_owned()
}

fn lines_after<'a>(ran: &'a Ran, title: &str) -> Vec<&'a str> {
    let mut lines = ran.out.lines().skip_while(|line| *line != title);
    assert!(lines.next().is_some(), "{title} is missing:\n{}", ran.out);
    lines.take_while(|line| !line.is_empty()).map(str::trim).collect()
}

// ---- why ----

#[test]
fn an_answer_that_is_complete_is_continued_by_no_setting() {
    let shell = Shell::new();
    ran(&shell, &[]);
    let why = shell.json(&["why", "last", "--json"]);
    assert_eq!(why["continuation"]["would_continue"], "no_setting", "{why:#}");
    let words = shell.run(&["why", "last"]);
    assert_eq!(lines_after(&words, "What is left:"), ["nothing"]);
    assert!(
        lines_after(&words, "At the end:")
            .iter()
            .any(|line| line.starts_with("limits.passes") && line.ends_with("2 of 5"))
    );
}

#[test]
fn a_run_that_waits_says_for_whom_and_with_which_command_it_continues() {
    // S4-36, K8
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    let waits = shell.run(&["run", folder.to_str().unwrap(), "--text", CRM_REQUEST]);
    assert_eq!(waits.code, 5, "{}", waits.err);
    let why = shell.json(&["why", "last", "--json"]);
    assert_eq!(why["status"], "waiting", "{why:#}");
    assert_eq!(why.get("continuation"), None);
    let waiting = &why["waiting"][0];
    let action = waiting["action"].as_str().unwrap();
    let words = shell.run(&["why", "last"]);
    assert!(words.out.contains("not ended: it waits for a person"), "{}", words.out);
    let run = why["run"].as_str().unwrap();
    let approve = format!("loopgate approve {run} {action} --binding ");
    assert!(
        lines_after(&words, "How to continue:").iter().any(|line| line.starts_with(&approve)),
        "{}",
        words.out
    );
    // Once it is answered, and no process has continued it, it is to be resumed.
    let answered = shell.run(&["approve", run, action, "--no-wait"]);
    assert_eq!(answered.code, 0, "{}", answered.err);
    let why = shell.json(&["why", "last", "--json"]);
    assert_eq!(why["status"], "open", "{why:#}");
    let words = shell.run(&["why", "last"]);
    assert!(words.out.contains("not ended: no process drives it"), "{}", words.out);
    assert_eq!(lines_after(&words, "How to continue:"), [format!("loopgate resume {run}")]);
}

#[test]
fn what_is_left_names_actions_that_did_not_run_and_sections_that_are_weak() {
    let shell = Shell::new();
    let item = "examples/helpdesk/tickets/T-1042.json";
    let script = "models.base.script=examples/helpdesk/scripts/max-passes.json";
    let selector = "models.selector.script=examples/helpdesk/scripts/max-passes.json";
    let args = [
        "run",
        "examples/helpdesk",
        item,
        "--profile",
        "scripted",
        "--no-save",
        "--set",
        script,
        "--set",
        selector,
    ];
    shell.run(&args);
    let why = shell.json(&["why", "last", "--json"]);
    let words = shell.run(&["why", "last"]);
    let left = lines_after(&words, "What is left:");
    let counted = |what: &str| left.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!(counted("not run:"), why["undone"].as_array().unwrap().len(), "{}", words.out);
    assert_eq!(counted("weak:"), why["weak_sections"].as_array().unwrap().len(), "{}", words.out);
    assert_eq!(counted("missing:"), why["missing"].as_array().unwrap().len(), "{}", words.out);
    assert!(!left.is_empty() && left != ["nothing"], "{}", words.out);
}

// ---- bad input ----

#[test]
fn what_cannot_be_explained_is_one_line() {
    let shell = Shell::new();
    for args in [&["why", "last"][..], &["diff", "last", "last"]] {
        shell.run(args).fails_with(&["journal.db"]);
    }
    // A journal without a run.
    let empty = shell.state.path().join("empty.db");
    drop(StoredJournal::open(&empty).unwrap());
    let empty = empty.to_str().unwrap();
    for args in [&["why", "last"][..], &["diff", "last", "last"]] {
        let args = [args, &["--journal", empty]].concat();
        shell.run(&args).fails_with(&["the journal holds no run yet"]);
    }
    let run = ran(&shell, &[]);
    shell.run(&["why", "nope"]).fails_with(&["no run nope", "loopgate runs"]);
    shell.run(&["diff", &run, "nope"]).fails_with(&["no run nope"]);
    shell.run(&["diff", &run, "last", "--journal-b", "/nowhere/j.db"]).fails_with(&["/nowhere/j.db"]);
    // A journal of a later format.
    let later = shell.state.path().join("later.db");
    drop(StoredJournal::open(&later).unwrap());
    rusqlite::Connection::open(&later).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let later = later.to_str().unwrap();
    shell.run(&["why", "last", "--journal", later]).fails_with(&["written by a newer loopgate"]);
    shell.run(&["diff", &run, "last", "--journal-b", later]).fails_with(&["written by a newer loopgate"]);
    shell.run(&["plan", "examples/nope"]).fails_with(&["examples/nope"]);
    shell.run(&["plan", "examples/helpdesk", "nope.json"]).fails_with(&["nope.json"]);
}

// ---- diff ----

#[test]
fn a_difference_is_named_by_setting_pass_section_and_stop() {
    let shell = Shell::new();
    let (a, b) = (ran(&shell, &[]), ran(&shell, &["limits.passes=2", "limits.cost_usd=0.2"]));
    let diff = shell.run(&["diff", &a, &b]);
    assert_eq!(diff.code, 1, "{}", diff.err);
    assert_eq!(lines_after(&diff, "Settings:"), ["limits.cost_usd: 0.1 -> 0.2", "limits.passes: 5 -> 2"]);
    assert!(
        lines_after(&diff, "Pass 2:").contains(&"gate: stops: confident -> stops: max_passes"),
        "{}",
        diff.out
    );
    assert!(lines_after(&diff, "Stop:").contains(&"reason: confident -> max_passes"), "{}", diff.out);
    // The other way round it is the same, with its sides exchanged.
    let (there, back) = (shell.json(&["diff", &a, &b, "--json"]), shell.json(&["diff", &b, &a, "--json"]));
    let exchanged = |values: &Value| {
        let mut values = values.clone();
        for value in values.as_array_mut().unwrap() {
            let (a, b) = (value["a"].take(), value["b"].take());
            (value["a"], value["b"]) = (b, a);
        }
        values
    };
    for part in ["item", "versions", "settings", "evidence", "totals", "stop"] {
        assert_eq!(exchanged(&there[part]), back[part], "{part}");
    }
}

#[test]
fn runs_of_different_work_are_compared_line_by_line_and_across_journals() {
    let shell = Shell::new();
    let a = ran(&shell, &[]);
    let other = shell.state.path().join("other.db");
    let other = other.to_str().unwrap();
    let item = ticket(1043);
    shell.run(&["run", "examples/helpdesk", &item, "--no-save", "--journal", other]);
    shell.run(&["diff", &a, "last", "--journal", other]).fails_with(&["no run"]);
    let diff = shell.json(&["diff", &a, "last", "--journal-b", other, "--json"]);
    assert_eq!(diff["equal"], false);
    assert!(
        diff["item"].as_array().unwrap().iter().any(|value| value["name"] == "id" && value["b"] == "T-1043")
    );
    let lines: Vec<&str> = diff["document"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|change| change["lines"].as_array().unwrap())
        .map(|line| line.as_str().unwrap())
        .collect();
    assert!(lines.iter().any(|line| line.starts_with('+')) && lines.iter().any(|line| line.starts_with('-')));
    assert!(diff["evidence"].as_array().unwrap().iter().any(|value| value["a"].is_null()), "{diff:#}");
    assert_eq!(diff["settings"], serde_json::json!([]));
}

// ---- plan ----

#[test]
fn a_plan_says_what_a_run_may_use_before_any_key_exists() {
    // S4-62
    let shell = Shell::new();
    let item = ticket(1042);
    let dear = ["--model", "base=openai/gpt-4.1-mini", "--model", "selector=openai/gpt-4.1-mini"];
    let plan = |more: &[&str]| {
        shell.json(&[&["plan", "examples/helpdesk", &item, "--json"], &dear[..], more].concat())
    };
    let estimated = plan(&[]);
    let limit = 100_000_000_000_u64;
    let over = estimated["at_most"]["cost_over_limit_pico_usd"].as_u64().unwrap();
    assert!(over > 0, "{estimated:#}");
    assert_eq!(estimated["at_most"]["cost_pico_usd"], limit + over);
    let strict = plan(&["--set", "limits.cost_mode=strict"]);
    assert_eq!(strict["at_most"]["cost_pico_usd"], limit, "{strict:#}");
    assert_eq!(strict["at_most"]["cost_over_limit_pico_usd"], 0);
    let tight = plan(&["--set", "limits.cost_usd=0.01"]);
    assert_eq!(tight["passes_that_fit"][0]["setting"], "limits.cost_usd", "{tight:#}");
    let none = plan(&["--set", "limits.passes=0"]);
    assert_eq!((&none["at_most"]["model_calls"], &none["at_most"]["cost_pico_usd"]), (&0.into(), &0.into()));
    // Without an item its size is not counted, and the plan says so.
    let words = shell.run(&["plan", "examples/helpdesk"]);
    assert_eq!((words.code, words.err.as_str()), (0, ""));
    assert!(
        words.out.contains("of any work item") && words.out.contains("This counts no work item"),
        "{}",
        words.out
    );
    // Nothing was journaled.
    shell.run(&["runs"]).fails_with(&["journal.db"]);
}

#[test]
fn a_domain_with_people_says_how_often_they_may_be_asked() {
    let of = |set: &[&str]| Shell::new().run(&[&["plan", "examples/crm"], set].concat()).out;
    let words = of(&[]);
    assert!(words.contains("requests, which wait until they are answered"), "{words}");
    let words = of(&["--set", "limits.person_ms=60000"]);
    assert!(words.contains("requests, and 600 s of waiting more"), "{words}");
}
