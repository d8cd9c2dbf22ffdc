//! `loopgate chat`: a conversation over standard input, as a person would hold it.

use crate::common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use common::Shell;
use common::provider::{Provider, Says, call, text};
use common::terminal::Terminal;
use serde_json::json;

#[test]
fn a_chat_shows_its_tools_and_limits_and_takes_another_model() {
    let shell = Shell::new();
    let typed = "/tools\n/limits\n/model\n/model offline/other\n/model nowhere/x\nSearch user\\\nAlice\n/history\n/quit\n";
    let ran = shell.run_with_input(&["chat", "examples/crm"], typed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for said in [
        "search_user  (read): ",
        "limits: 10 passes",
        "model: offline/",
        "model: offline/other, from the next turn on",
        "; the model stays",
        "you:    Search user Alice",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    assert!(ran.out.contains("15 rows; the first: id 3"), "{}", ran.out);
}

#[test]
fn people_are_found_and_changed_in_a_conversation() {
    // S1-42, S1-43, S1-7
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    // Whoever tried the example has changed their own copy of the register.
    std::fs::remove_dir_all(domain.join(".loopgate")).ok();
    let typed = "Search user Alice\nsearch_user Bob, get_user_by_id 42, update_user 42 EPAM\n/bill\n/quit\n";
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap(), "--profile", "trusted"], typed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("`search_user`: 15 rows") && ran.out.contains("company EPAM"), "{}", ran.out);
    let calls: Vec<&str> = ran
        .err
        .lines()
        .filter_map(|line| line.strip_prefix("  run     ")?.split_once(" {").map(|(tool, _)| tool))
        .collect();
    assert_eq!(calls, ["search_user", "search_user", "get_user_by_id", "update_user"], "{}", ran.err);
    // W4: of each answer it is said what was done.
    let effects: Vec<&str> = ran.err.lines().filter(|line| line.contains("effect")).collect();
    assert_eq!(effects, ["· no effect was requested", "· effects: 1 executed"]);
    assert!(ran.err.contains("session: 2 turns, 6 passes"), "{}", ran.err);
    // Each turn is a run.
    let runs = shell.run(&["runs"]);
    assert_eq!(runs.out.lines().filter(|line| line.contains("completed")).count(), 2, "{}", runs.out);
}

#[test]
fn a_conversation_goes_on_as_long_as_a_person_does() {
    // S1-39: the limit of messages is there for a turn that goes on without end.
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    let settings = domain.join("loopgate.toml");
    let written = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, written + "\n[limits]\nmessages = 10\n").unwrap();
    let typed = "Search user Alice\n".repeat(8) + "/history\n/quit\n";
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap()], &typed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("max_messages"), "{}", ran.err);
    assert!(ran.err.contains("session: 8 turns, 16 passes"), "{}", ran.err);
    assert_eq!(ran.err.matches("you:    Search user Alice").count(), 8, "{}", ran.err);
}

#[test]
fn a_question_that_does_not_fit_is_not_kept() {
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    let long = "Find Alice ".repeat(60_000);
    let typed = format!("Search user Alice\n{long}\n/history\nSearch user Alice\n/quit\n");
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap()], &typed);
    assert!(ran.err.contains("token_limit"), "{}", ran.err);
    assert!(ran.err.contains("the question is not kept") && ran.err.contains("/clear"), "{}", ran.err);
    assert_eq!(ran.err.matches("you:    ").count(), 1, "{}", ran.err);
    assert_eq!(ran.out.matches("`search_user`: 15 rows").count(), 2, "{}", ran.out);
}

#[test]
fn a_domain_that_writes_documents_is_no_conversation() {
    let ran = Shell::new().run_with_input(&["chat", "examples/helpdesk"], "Hello\n");
    assert_ne!(ran.code, 0);
    assert_eq!(ran.err.trim().lines().count(), 1, "{}", ran.err);
}

#[test]
fn whoever_is_asked_sees_every_byte_and_why_they_are_asked() {
    // K8
    let shell = Shell::new();
    let text = r#"
version = 1
name = "mailroom"
goal = "Answer mails."
[protocol]
type = "conversation"
[gate]
people = true
approved = ["send_mail"]
[tools.read_mail]
kind = "mock"
effect = "read"
description = "Read a mail"
returns_untrusted = true
[tools.send_mail]
kind = "mock"
effect = "egress"
description = "Send a mail"
authority = ["to"]
parameters.to = { required = true }
[tools.ask]
kind = "question"
description = "Ask the person"
[models.base]
provider = "offline"
"#;
    let file = shell.file("mailroom/loopgate.toml", text);
    let call = |name: &str, arguments: serde_json::Value| serde_json::json!({"calls": [{"id": "c", "name": name, "arguments": arguments.to_string()}]});
    let replies = serde_json::json!({"version": 1, "replies": [
        call("read_mail", serde_json::json!({})),
        call("send_mail", serde_json::json!({"to": "ada\u{200b}\u{202e}\u{3164}@x.example"})),
        call("ask", serde_json::json!({"question": "Send it\nto\u{202e} whom?"})),
        {"text": "Done."},
    ]});
    let script = shell.file("replies.json", &replies.to_string());
    let model = format!("base=scripted/{}", script.display());
    let domain = file.parent().unwrap().to_str().unwrap();
    // S1-53: a person is asked with `You: `, before each turn.
    let mut person = Terminal::run(shell.command(&["chat", domain, "--model", &model]));
    person.wait_for("You: ");
    person.press("Send it\n");
    person.wait_for("to allow send_mail, or n: ");
    person.press("n\n");
    person.wait_for("Answer: ");
    person.press("nobody\n");
    person.wait_for("You: ");
    person.press("/quit\n");
    let (code, screen) = person.end();
    assert_eq!(code, 3, "{screen}");
    for shown in [
        "send_mail  (effect egress)\n  it does: Send a mail\n  {\n    \"to\": \"ada\\u200b\\u202e\\u3164@x.example\"\n  }\n  31 bytes, 1 value\n",
        "\n  mind: /to holds 3 characters that do not show: U+200B, U+202E, U+3164\n",
        "\n  /to, which says whom it reaches: the model wrote it\n",
        "\n  asked because: the run has read untrusted text; /to is\n    \"ada\\u200b\\u202e\\u3164@x.example\", which was given",
        " to allow send_mail, or n: n\n",
        "ask  (a question)\n  it does: Ask the person\n  {\n    \"question\": \"Send it\\nto\\u202e whom?\"\n  }\n",
        "Answer: nobody\n",
    ] {
        assert!(screen.contains(shown), "{shown}\n{screen}");
    }
}

#[test]
fn calls_are_shown_in_the_order_in_which_they_were_asked_for() {
    // W7: a refused call is known at once, and one before it that runs only later.
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(domain.join(".loopgate")).ok();
    let call = |id: &str, name: &str, arguments: serde_json::Value| serde_json::json!({"id": id, "name": name, "arguments": arguments.to_string()});
    let replies = serde_json::json!({"version": 1, "replies": [
        {"calls": [
            call("a", "search_user", serde_json::json!({"name": "Bob"})),
            call("b", "drop_users", serde_json::json!({})),
            call("c", "get_user_by_id", serde_json::json!({"id": 42})),
            call("d", "get_user_by_id", serde_json::json!({"id": "none"})),
        ]},
        {"text": "Done."},
    ]});
    let script = shell.file("replies.json", &replies.to_string());
    let model = format!("base=scripted/{}", script.display());
    let shown = |execution: &str| {
        let set = format!("protocol.execution={execution}");
        let args = ["chat", domain.to_str().unwrap(), "--model", &model, "--set", &set];
        let ran = shell.run_with_input(&args, "Go on\n");
        let verdicts = ["  run     ", "  unknown_tool ", "  invalid_arguments "];
        let judged = ran.err.lines().filter_map(|line| verdicts.iter().find_map(|it| line.strip_prefix(it)));
        judged.map(|line| line.split_inclusive('}').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let [search, drop, get, none] = [
        "search_user {\"name\":\"Bob\"}",
        "drop_users {}",
        "get_user_by_id {\"id\":42}",
        "get_user_by_id {\"id\":\"none\"}",
    ];
    for execution in ["ordered", "parallel"] {
        assert_eq!(shown(execution), [search, drop, get, none], "{execution}");
    }
}

#[test]
fn a_question_that_was_answered_is_shown_once() {
    // S4-37: it has settled with its answer, and nothing of it runs.
    let shell = Shell::new();
    let domain = shell.copy_of("examples/refunds");
    let script = domain.join("scripts/asks-the-customer.json");
    let model = format!("base=scripted/{}", script.display());
    let folder = domain.to_str().unwrap();
    let mut person =
        Terminal::run(shell.command(&["chat", folder, "--profile", "people", "--model", &model]));
    person.wait_for("You: ");
    person.press("Please refund order O-104\n");
    person.wait_for("Answer: ");
    person.press("I never postponed it.\n");
    person.wait_for("You: ");
    person.press("/quit\n");
    let (code, screen) = person.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("The evidence is sufficient"), "{screen}");
    assert_eq!(screen.matches("ask_customer_clarifying_question").count(), 1, "{screen}");
}

/// The people register, where changes are allowed and cannot be taken back, and a holder of the lock that they wait for.
fn locked_register(shell: &Shell) -> (String, rusqlite::Connection) {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let file = folder.join("loopgate.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    let change = "effect = \"write_idempotent\"";
    assert!(written.contains(change));
    std::fs::write(&file, written.replace(change, "effect = \"write_irreversible\"\ntimeout_ms = 300"))
        .unwrap();
    let folder = folder.display().to_string();
    assert_eq!(shell.run(&["tools", &folder, "call", "search_user", r#"{"name": "Bob"}"#]).code, 0);
    let mut copies =
        std::fs::read_dir(format!("{folder}/.loopgate")).unwrap().map(|entry| entry.unwrap().path());
    let copy = copies.find(|path| path.extension().is_some_and(|it| it == "db")).unwrap();
    let holder = rusqlite::Connection::open(copy).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    (folder, holder)
}

#[test]
fn a_turn_that_ends_in_doubt_says_so_at_its_end_and_in_the_exit_code() {
    // W5
    let shell = Shell::new();
    let (folder, _holder) = locked_register(&shell);
    let change = json!({"id": 42, "company": "EPAM"});
    let provider = Provider::replying(vec![
        call("m", "update_user", &change),
        text("m", "It is done."),
        text("m", "You are welcome."),
    ]);
    let url = format!("base={}", provider.url);
    let args = ["chat", &folder, "--profile", "trusted", "--model", "base=compatible/m", "--base-url", &url];
    // A later turn that ends well takes nothing back.
    let ran = shell.run_with_input(&args, "Set the company of user 42 to EPAM.\nThank you\n/quit\n");
    assert_eq!(ran.code, 7, "{}", ran.err);
    let doubt = "in doubt: 1/action-0 update_user: it may or may not have happened; look before anything is done again";
    assert_eq!(ran.err.lines().filter(|line| *line == doubt).count(), 1, "{}", ran.err);
    assert!(ran.err.contains("session: 2 turns"), "{}", ran.err);
}

#[test]
fn a_line_that_is_longer_than_a_work_item_may_be_ends_a_piped_chat_with_one_line() {
    // B10
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    let folder = folder.to_str().unwrap();
    let args = ["chat", folder, "--set", "item.max_bytes=64"];
    let fits = "Find user named Alice, and tell me all that is known of her 12345";
    assert_eq!(fits.len(), 65);
    let ran = shell.run_with_input(&args, &format!("{}\n", &fits[..64]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = shell.run_with_input(&args, &format!("{fits}\nSearch user Alice\n"));
    let expected = "loopgate: standard input: a line has more than 64 bytes, which is the domain's limit of a work item; shorten \
                    it, or raise `item.max_bytes` in loopgate.toml";
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!((ran.out.as_str(), ran.err.lines().next_back()), ("", Some(expected)), "{}", ran.err);
    // One that never ends is not read on: memory and time are bounded.
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let ran: common::Ran = shell.command(&["chat", folder]).stdin(zeros).output().unwrap().into();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("a line has more than 1048576 bytes"), "{}", ran.err);
}

#[test]
fn a_text_that_is_longer_than_a_work_item_may_be_is_no_turn_at_a_terminal() {
    // B10: a paste is one text, however many lines it has.
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    let mut person =
        Terminal::run(shell.command(&["chat", folder.to_str().unwrap(), "--set", "item.max_bytes=64"]));
    person.wait_for("You: ");
    person.press(&format!("\x1b[200~{}\x1b[201~\n", "Search user Alice\n".repeat(40)));
    person.wait_for("a message has more than 64 bytes, which is the domain's limit of a work item;");
    person.wait_for("You: ");
    person.press("Search user Alice\n");
    person.wait_for("`search_user`: 15 rows");
    person.wait_for("You: ");
    person.press("/quit\n");
    let (code, screen) = person.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("session: 1 turn,"), "{screen}");
}

#[test]
fn a_provider_that_sends_nothing_is_told_about_in_a_chat() {
    // W6: how soon is in the tests of loop-runtime, where time is moved by hand.
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    let provider = Provider::replying(vec![Says::Nothing]);
    let url = format!("base={}", provider.url);
    let args = ["chat", folder.to_str().unwrap(), "--model", "base=compatible/m", "--base-url", &url];
    let mut child = shell.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"Search user Alice\n").unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let price = lines.next().unwrap();
    assert!(price.starts_with("price:   compatible/m: local server: cost 0 ("), "{price}");
    let first = lines.next().unwrap();
    assert!(first.starts_with("  the provider has sent nothing for "), "{first}");
    // H9: the turn ends with its outcome, and the program with what a shell shows for the signal.
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(143), "{rest:?}");
    assert_eq!(shell.json(&["show", "last", "--json"])["stop"]["reason"], "manual_stop", "{rest:?}");
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(out, "");
}

// Issue 40, R4
#[test]
fn a_chat_is_continued_after_it_ended_with_a_turn_that_waits_and_after_a_kill() {
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let folder = folder.to_str().unwrap();
    // The domain asks before it changes anything.
    let typed = "Search user Alice\nsearch_user Bob, get_user_by_id 42, update_user 42 EPAM\n";
    let ran = shell.run_with_input(&["chat", folder], typed);
    assert_eq!(ran.code, 5, "{}", ran.err);
    let run = shell.json(&["runs", "--json"])["runs"][0]["run"].as_str().unwrap().to_owned();
    assert!(ran.err.contains(&format!("to continue: loopgate chat --continue {run}")), "{}", ran.err);
    // Nobody can be asked here: it is shown again, and waits.
    let again = shell.run_with_input(&["chat", "--continue"], "/history\n");
    assert_eq!(again.code, 5, "{}", again.err);
    assert!(again.err.contains("update_user") && again.err.contains("waiting:"), "{}", again.err);
    let pending = shell.json(&["pending", "--json"]);
    let action = pending["pending"][0]["action"].as_str().unwrap();
    assert_eq!(shell.run(&["approve", &run, action]).code, 0);
    let typed = "/history\nSearch user Alice\n/quit\n";
    let ran = shell.run_with_input(&["chat", "--continue", &run], typed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for said in ["you:    Search user Alice", "you:    search_user Bob", "agent:  `search_user`: id 42"] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    assert!(ran.out.contains("`search_user`: 15 rows"), "{}", ran.out);

    // Killed in the middle of a turn.
    let provider = Provider::replying(vec![
        text("m", "Good morning."),
        Says::Nothing,
        text("m", "It is ten."),
        text("m", "You are welcome."),
    ]);
    let url = format!("base={}", provider.url);
    let args = ["chat", folder, "--model", "base=compatible/m", "--base-url", &url];
    let mut child = shell.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"Hello\nWhat time is it?\n").unwrap();
    provider.wait();
    provider.wait();
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = shell.run_with_input(&["chat", "--continue"], "/history\nThanks\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("It is ten.") && ran.out.contains("You are welcome."), "{}", ran.out);
    assert!(ran.err.contains("you:    Hello") && ran.err.contains("you:    What time"), "{}", ran.err);
    let last = provider.received().pop().unwrap();
    let (_, body) = last.split_once("\r\n\r\n").unwrap();
    let last: serde_json::Value = serde_json::from_str(body).unwrap();
    let roles: Vec<&str> =
        last["messages"].as_array().unwrap().iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles[1..], ["user", "assistant", "user", "assistant", "user"], "{last}");
    shell.run(&["chat", "--continue", "zz"]).fails_with(&["no run zz"]);
    assert_eq!(shell.run(&["chat"]).code, 2);
}

#[test]
fn the_arrow_keys_bring_back_the_messages_before() {
    // Issue 46, row 6
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    let chat = ["chat", folder.to_str().unwrap()];
    let mut person = Terminal::run(shell.command(&chat));
    person.wait_for("You: ");
    person.press("Search user Alice\r");
    person.wait_for("`search_user`: 15 rows");
    person.wait_for("You: ");
    person.press("/approve\r");
    person.wait_for("nothing waits for an answer");
    person.wait_for("You: ");
    // Up twice, past the command; a key of the editor at its end, so that another message is sent.
    person.press("\x1b[A\x1b[A");
    person.wait_for("Search user Alice");
    person.press("\x17Bob\r");
    person.wait_for("`search_user`: ");
    person.wait_for("You: ");
    // What was begun is given up with Ctrl-C, which the second time ends the chat.
    person.press("never sent\x03");
    person.wait_for("press Ctrl-C again, or Ctrl-D, to end the chat");
    person.wait_for("You: ");
    person.press("\x03");
    let (code, screen) = person.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("session: 2 turns,"), "{screen}");
    assert!(screen.trim_end().ends_with("\x1b[?2004l"), "{screen:?}");
    // A chat that is continued has the messages of the turns before.
    let mut person = Terminal::run(shell.command(&["chat", "--continue"]));
    person.wait_for("You: ");
    person.press("\x1b[A");
    person.wait_for("Search user Bob");
    person.press("\x1b[A");
    person.wait_for("Search user Alice");
    person.press("\x04\x15/quit\r");
    let (code, screen) = person.end();
    assert_eq!(code, 0, "{screen}");
}
