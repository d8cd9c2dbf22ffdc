//! Questions at a terminal: what answers them, and what was typed or pasted and must not (B1).

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common;

use common::Shell;
use common::terminal::Terminal;
use serde_json::{Value, json};

const USER_REQUEST: &str = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";

/// The people register, where a person allows each change.
fn register(shell: &Shell) -> PathBuf {
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    folder
}

/// A conversation that may send mail, which cannot be undone: its model sends one, and then says that it has.
fn mailroom(shell: &Shell) -> [String; 4] {
    let domain = r#"
version = 1
name = "mailroom"
goal = "Answer mails."
[protocol]
type = "conversation"
[gate]
people = true
[tools.send_mail]
kind = "mock"
effect = "egress"
description = "Send a mail"
parameters.to = { required = true }
[models.base]
provider = "offline"
"#;
    let file = shell.file("mailroom/loopgate.toml", domain);
    let send =
        json!({"calls": [{"id": "c", "name": "send_mail", "arguments": "{\"to\": \"ada@x.example\"}"}]});
    let replies = json!({"version": 1, "replies": [send, {"text": "That was it."}]});
    let script = shell.file("replies.json", &replies.to_string());
    let domain = file.parent().unwrap().to_str().unwrap().to_owned();
    [
        "--progress=always".to_owned(),
        domain,
        "--model".to_owned(),
        format!("base=scripted/{}", script.display()),
    ]
}

fn terminal(shell: &Shell, args: &[&str]) -> Terminal {
    Terminal::run(shell.command(args))
}

/// What people said in the newest run, each with its answer.
#[track_caller]
fn stated(shell: &Shell) -> Vec<String> {
    let events = shell.run(&["show", "last", "--events"]);
    let lines = events.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answers = lines.filter_map(|line| match line["event"]["type"].as_str()? {
        "approved_by" => Some("approved".to_owned()),
        "person_answered" => Some(line["event"]["answer"]["answer"].as_str().unwrap_or("?").to_owned()),
        _ => None,
    });
    answers.collect()
}

/// How often a tool was begun in the newest run.
fn begun(shell: &Shell, tool: &str) -> u64 {
    let ran = shell.run(&["show", "last", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let tools = report["tools"].as_array().unwrap();
    tools.iter().filter(|used| used["tool"] == tool).map(|used| used["calls"].as_u64().unwrap()).sum()
}

#[test]
fn what_was_typed_before_the_question_of_a_run_does_not_answer_it() {
    // B1
    let shell = Shell::new();
    let folder = register(&shell);
    for _ in 0..3 {
        let mut person = terminal(&shell, &["run", folder.to_str().unwrap(), "--text", USER_REQUEST]);
        person.press("y\ny\ny");
        person.wait_for("Allow update_user? [y/N] ");
        person.press("n\n");
        let (_, screen) = person.end();
        assert_eq!(
            (stated(&shell), begun(&shell, "update_user")),
            (vec!["denied".to_owned()], 0),
            "{screen}"
        );
    }
    let mut person = terminal(&shell, &["run", folder.to_str().unwrap(), "--text", USER_REQUEST]);
    person.press("n\nn\n");
    person.wait_for("Allow update_user? [y/N] ");
    person.press("y\n");
    let (code, screen) = person.end();
    assert_eq!((code, begun(&shell, "update_user")), (0, 1), "{screen}");
}

#[test]
fn a_pasted_mail_with_lines_that_say_y_allows_nothing_in_a_chat() {
    // B1
    let shell = Shell::new();
    let folder = register(&shell);
    let mut person = terminal(&shell, &["chat", folder.to_str().unwrap()]);
    person.wait_for("You: ");
    // A terminal that does not mark what is pasted: each line counts as typed.
    person.press(&format!("{USER_REQUEST}\ny\ny\nyes\ny\n"));
    person.wait_for("Allow update_user? [y/N] ");
    person.press("n\n");
    person.wait_for("You: ");
    assert_eq!((stated(&shell), begun(&shell, "update_user")), (vec!["denied".to_owned()], 0));
    // One that marks it: the whole mail is one message, and no line of it an answer.
    person.press(&format!("\x1b[200~{USER_REQUEST}\ny\n/quit\ny\x1b[201~\n"));
    person.wait_for("Allow update_user? [y/N] ");
    person.press("\x1b[200~y\n\x1b[201~\n");
    person.wait_for("pasted text is not an answer; type it");
    person.wait_for("Allow update_user? [y/N] ");
    person.press("y\n");
    person.wait_for("You: ");
    assert_eq!((stated(&shell), begun(&shell, "update_user")), (vec!["approved".to_owned()], 1));
    person.press("/quit\n");
    let (code, screen) = person.end();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("session: 2 turns"), "{screen}");
    assert!(screen.contains("\x1b[?2004h") && screen.trim_end().ends_with("\x1b[?2004l"), "{screen:?}");
}

#[test]
fn what_cannot_be_undone_is_allowed_by_its_short_key_and_by_no_yes() {
    // B1
    let shell = Shell::new();
    let [progress, domain, model, script] = mailroom(&shell);
    let run = ["run", &*progress, &*domain, &*model, &*script, "--text", "Write to Ada"];
    let chat = ["chat", &*domain, &*model, &*script];
    for (args, first) in [(&run[..], ""), (&chat[..], "Write to Ada\n")] {
        let mut person = terminal(&shell, args);
        person.press(first);
        person.wait_for("send_mail  (effect egress)");
        person.wait_for("It cannot be undone. Type ");
        person.press("y\n");
        person.wait_for("It cannot be undone. Type ");
        let waiting = shell.json(&["pending", "last", "--json"]);
        let binding = waiting["pending"][0]["binding"].as_str().unwrap();
        person.press(&format!("{}\n", &binding[..4]));
        person.wait_for("That was it.");
        if !first.is_empty() {
            person.wait_for("You: ");
            person.press("/quit\n");
        }
        let (_, screen) = person.end();
        assert_eq!(
            (stated(&shell), begun(&shell, "send_mail")),
            (vec!["approved".to_owned()], 1),
            "{screen}"
        );
    }
}

#[test]
fn the_rest_of_a_paste_that_a_question_cut_in_two_answers_it_at_no_time() {
    // B1: a slow link, on which the rest of a mail comes only when the question is there.
    let shell = Shell::new();
    let folder = register(&shell);
    let mut person = terminal(&shell, &["run", folder.to_str().unwrap(), "--text", USER_REQUEST]);
    person.press("\x1b[200~Dear all,\ny\n");
    person.wait_for("Allow update_user? [y/N] ");
    for piece in ["y\n", "yes\ny\n", "y\n"] {
        // Longer than a program waits for quiet, and longer than a pause within one paste.
        std::thread::sleep(Duration::from_millis(1_200));
        person.press(piece);
    }
    person.press("y\x1b[201~\n");
    person.wait_for("pasted text is not an answer; type it");
    person.wait_for("Allow update_user? [y/N] ");
    person.press("n\n");
    let (_, screen) = person.end();
    assert_eq!((stated(&shell), begun(&shell, "update_user")), (vec!["denied".to_owned()], 0), "{screen}");
}

#[test]
fn two_questions_are_not_both_answered_by_what_was_typed_at_once() {
    // B1
    let shell = Shell::new();
    let folder = register(&shell);
    let change = |id: u32| {
        let arguments = json!({"id": id, "company": "EPAM"}).to_string();
        json!({"id": format!("c{id}"), "name": "update_user", "arguments": arguments})
    };
    let replies =
        json!({"version": 1, "replies": [{"calls": [change(42), change(43)]}, {"text": "That was it."}]});
    let script = shell.file("replies.json", &replies.to_string());
    let model = format!("base=scripted/{}", script.display());
    let folder = folder.to_str().unwrap();
    let run = ["run", folder, "--text", "Set the company of users 42 and 43 to EPAM", "--model", &model];
    let chat = ["chat", folder, "--model", &model];
    for (args, first) in [(&run[..], ""), (&chat[..], "Set the company of users 42 and 43 to EPAM\n")] {
        let mut person = terminal(&shell, args);
        person.press(first);
        person.wait_for("Allow update_user? [y/N] ");
        person.press("y\ny\n");
        person.wait_for("Allow update_user? [y/N] ");
        person.press("n\n");
        person.wait_for("That was it.");
        if !first.is_empty() {
            person.wait_for("You: ");
            person.press("/quit\n");
        }
        let (_, screen) = person.end();
        assert_eq!(stated(&shell), ["approved", "denied"], "{screen}");
    }
}

#[test]
fn what_is_piped_into_a_chat_answers_no_question() {
    // B1, W7
    for answer in ["y", "/history", "/help"] {
        let shell = Shell::new();
        let folder = register(&shell);
        let typed = format!("{USER_REQUEST}\n{answer}\n/quit\n");
        let ran = shell.run_with_input(&["chat", folder.to_str().unwrap()], &typed);
        assert_eq!(ran.code, 5, "{}", ran.err);
        assert_eq!((stated(&shell), begun_so_far(&shell)), (Vec::<String>::new(), 0), "{}", ran.err);
        assert!(ran.err.contains("standard input is not a terminal"), "{}", ran.err);
        assert!(!ran.err.contains("Allow update_user?"), "{}", ran.err);
        // The command that is printed goes on with the turn.
        let command = ran.err.lines().find_map(|line| line.trim().strip_prefix("loopgate approve ")).unwrap();
        let arguments: Vec<&str> = std::iter::once("approve").chain(command.split(' ')).collect();
        let ran = shell.run(&arguments);
        assert!(ran.code == 0 && ran.out.ends_with("company EPAM\n"), "{}{}", ran.out, ran.err);
    }
}

/// How many tools with an effect were begun in the newest run, which waits.
fn begun_so_far(shell: &Shell) -> usize {
    let events = shell.run(&["show", "last", "--events"]);
    events.out.matches("\"type\":\"tool_started\"").count()
}

#[test]
fn a_question_whose_screen_is_not_seen_is_not_asked() {
    // B1: standard error is where questions stand.
    let shell = Shell::new();
    let folder = register(&shell);
    let invisible = |folder: &Path| {
        let line = format!("exec \"$0\" chat '{}' 2>/dev/null", folder.display());
        let mut command = shell.command(&[]);
        let program = command.get_program().to_owned();
        let environment: Vec<_> =
            command.get_envs().map(|(key, value)| (key.to_owned(), value.unwrap().to_owned())).collect();
        command = std::process::Command::new("sh");
        command.args(["-c", &line]).arg(program).envs(environment).current_dir(common::root());
        command
    };
    let mut person = Terminal::run(invisible(&folder));
    person.press(&format!("{USER_REQUEST}\ny\ny\n"));
    let (code, screen) = person.end();
    assert_eq!((code, stated(&shell), begun_so_far(&shell)), (5, Vec::new(), 0), "{screen}");
}
