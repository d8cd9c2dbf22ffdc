//! `loopgate run --key`: one run for each key, and a second request attaches to it (U2).

use crate::common::provider::{Provider, Says, text};
use crate::common::{Ran, Shell, ticket};

use std::collections::BTreeSet;

fn id(ran: &Ran) -> String {
    let line = ran.err.lines().find_map(|line| line.strip_prefix("run:     "));
    line.unwrap_or_else(|| panic!("{}", ran.err)).to_owned()
}

fn runs(shell: &Shell) -> usize {
    shell.run(&["runs"]).out.lines().count()
}

#[test]
fn a_second_request_returns_the_run_that_has_ended() {
    let shell = Shell::new();
    let args = ["run", "examples/helpdesk", &ticket(1042), "--key", "order-17"];
    let first = shell.run(&args);
    assert_eq!(first.code, 0, "{}", first.err);
    for more in [&[][..], &["--trace", "t-2", "--caller", "ada"]] {
        let second = shell.run(&[&args[..], more].concat());
        assert_eq!((second.code, &second.out, id(&second)), (0, &first.out, id(&first)), "{}", second.err);
        assert!(second.err.contains("attached: the key `order-17` is of run"), "{}", second.err);
        assert!(second.err.contains("nothing was run again"), "{}", second.err);
    }
    let events = shell.run(&[&args[..], &["--events"]].concat());
    assert_eq!(events.out, shell.run(&["show", &id(&first), "--events"]).out);
    assert_eq!(runs(&shell), 1);
    // Another item, another domain, another key.
    let other = ["run", "examples/helpdesk", &ticket(1041), "--key", "order-17"];
    shell.run(&other).fails_with(&[
        "the key `order-17` belongs to run",
        "another work item",
        "a key of its own",
    ]);
    let other = ["run", "examples/crm", "--text", "Search user Alice", "--key", "order-17"];
    shell.run(&other).fails_with(&["another domain"]);
    shell.run(&["run", "examples/helpdesk", &ticket(1042), "--key", " "]).fails_with(&["--key"]);
    assert_eq!(runs(&shell), 1);
    assert_eq!(shell.run(&["run", "examples/helpdesk", &ticket(1042), "--key", "order-18"]).code, 0);
    assert_eq!((runs(&shell), shell.run(&["verify", "--all"]).code), (2, 0));
    // A run that ended otherwise than answered keeps its exit code.
    let few = [&args[..4], &["short", "--set", "limits.passes=0"]].concat();
    let (first, second) = (shell.run(&few), shell.run(&few));
    assert_eq!((first.code, second.code), (second.code, first.code));
    assert!(first.code != 0 && id(&first) == id(&second), "{}", second.err);
}

#[test]
fn of_many_processes_at_once_one_begins_the_run_and_all_return_it() {
    let shell = Shell::new();
    let item = ticket(1042);
    let args = ["run", "examples/helpdesk", &item, "--key", "k"];
    let started: Vec<_> = (0..6).map(|_| shell.command(&args).spawn().unwrap()).collect();
    let ran: Vec<Ran> = started.into_iter().map(|child| child.wait_with_output().unwrap().into()).collect();
    for it in &ran {
        assert_eq!(it.code, 0, "{}", it.err);
    }
    let (ids, texts): (BTreeSet<_>, BTreeSet<_>) = ran.iter().map(|it| (id(it), it.out.clone())).unzip();
    assert_eq!((ids.len(), texts.len(), runs(&shell)), (1, 1, 1));
}

#[test]
fn a_run_whose_process_was_killed_is_resumed_and_one_that_waits_says_so() {
    // H1
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Nothing, text("m", "There is nothing to change.")]);
    let url = format!("base={}", provider.url);
    let folder = shell.copy_of("examples/crm").display().to_string();
    let args = ["run", &folder, "--text", "Set the company of user 42 to EPAM.", "--key", "k"];
    let args = [&args[..], &["--model", "base=compatible/m", "--base-url", &url]].concat();
    let mut child = shell.command(&args).spawn().unwrap();
    provider.wait();
    // Another process drives it: a second request waits for it, and is not a second run.
    let waits = shell.command(&args).spawn().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let ran: Ran = waits.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("it is resumed here"), "{}", ran.err);
    assert_eq!((runs(&shell), provider.received().len()), (1, 2));

    let args = [
        "run",
        "examples/crm",
        "--text",
        "search_user Bob, get_user_by_id 42, update_user 42 EPAM",
        "--key",
        "w",
    ];
    let (first, second) = (shell.run(&args), shell.run(&args));
    assert_eq!((first.code, second.code), (5, 5), "{}", second.err);
    assert!(second.err.contains("waiting: a person has to answer"), "{}", second.err);
    assert_eq!((id(&first), runs(&shell)), (id(&second), 2));
}
