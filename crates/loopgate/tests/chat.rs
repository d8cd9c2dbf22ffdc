//! `loopgate chat`: a conversation over standard input, as a person would hold it.

use crate::common;

use common::Shell;
use common::terminal::Terminal;

#[test]
fn people_are_found_and_changed_in_a_conversation() {
    // S1-42, S1-43, S1-7
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    // Whoever tried the example has changed their own copy of the register.
    std::fs::remove_dir_all(domain.join(".loopgate")).ok();
    let typed = "Find user named Alice\nFind Bob and update his company to EPAM\n/bill\n/quit\n";
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap(), "--profile", "trusted"], typed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("Found 15 users named Alice") && ran.out.contains("Updated Bob"), "{}", ran.out);
    let calls: Vec<&str> = ran
        .err
        .lines()
        .filter_map(|line| line.strip_prefix("· ")?.split_once(" {").map(|(tool, _)| tool))
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
    let typed = "Find user named Alice\n".repeat(8) + "/history\n/quit\n";
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap()], &typed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("max_messages"), "{}", ran.err);
    assert!(ran.err.contains("session: 8 turns, 16 passes"), "{}", ran.err);
    assert_eq!(ran.err.matches("you:    Find user named Alice").count(), 8, "{}", ran.err);
}

#[test]
fn a_question_that_does_not_fit_is_not_kept() {
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    let long = "Find Alice ".repeat(60_000);
    let typed = format!("Find user named Alice\n{long}\n/history\nFind user named Alice\n/quit\n");
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap()], &typed);
    assert!(ran.err.contains("token_limit"), "{}", ran.err);
    assert!(ran.err.contains("the question is not kept") && ran.err.contains("/clear"), "{}", ran.err);
    assert_eq!(ran.err.matches("you:    Find").count(), 1, "{}", ran.err);
    assert_eq!(ran.out.matches("Found 15 users named Alice").count(), 2, "{}", ran.out);
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
    assert_eq!(code, 0, "{screen}");
    for shown in [
        "send_mail  (effect egress)\n  {\n    \"to\": \"ada\\u200b\\u202e\\u3164@x.example\"\n  }\n  31 bytes, 1 value\n",
        "\n  mind: /to holds 3 characters that do not show: U+200B, U+202E, U+3164\n",
        "\n  asked because: the run has read what anybody may have written; /to is \"ada\\u200b\\u202e\\u3164@x.example\", which was given",
        " to allow send_mail, or n: n\n",
        "ask  (a question)\n  {\n    \"question\": \"Send it\\nto\\u202e whom?\"\n  }\n",
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
        let calls = ran
            .err
            .lines()
            .filter_map(|line| line.strip_prefix("· ")?.split_once(" … ").map(|(call, _)| call));
        calls.map(str::to_owned).collect::<Vec<_>>()
    };
    let [search, drop, get, none] = [
        "search_user {\"name\":\"Bob\"}",
        "drop_users {}",
        "get_user_by_id {\"id\":42}",
        "get_user_by_id {\"id\":\"none\"}",
    ];
    assert_eq!(shown("ordered"), [search, drop, get, none]);
    // Side by side each that runs is shown when it ends.
    let shown = shown("parallel");
    let at = |call: &str| shown.iter().position(|line| line == call).unwrap();
    assert!(at(search) < at(drop) && at(drop) < at(none) && at(get) < at(none), "{shown:?}");
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
