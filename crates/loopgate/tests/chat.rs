//! `loopgate chat`: a conversation over standard input, as a person would hold it.

use crate::common;

use common::Shell;

#[test]
fn people_are_found_and_changed_in_a_conversation() {
    // S1-53, S1-42, S1-43, S1-7
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    // Whoever tried the example has changed their own copy of the register.
    std::fs::remove_dir_all(domain.join(".loopgate")).ok();
    let typed = "Find user named Alice\nFind Bob and update his company to EPAM\n/bill\n/quit\n";
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap()], typed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("Found 15 users named Alice") && ran.out.contains("Updated Bob"), "{}", ran.out);
    let calls: Vec<&str> =
        ran.err.lines().filter_map(|line| line.strip_prefix("· ")?.split(' ').next()).collect();
    assert_eq!(calls, ["search_user", "search_user", "get_user_by_id", "update_user"], "{}", ran.err);
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
