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
    let ran = shell.run_with_input(&["chat", domain.to_str().unwrap(), "--profile", "trusted"], typed);
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
fn a_domain_that_writes_documents_is_no_conversation() {
    let ran = Shell::new().run_with_input(&["chat", "examples/helpdesk"], "Hello\n");
    assert_ne!(ran.code, 0);
    assert_eq!(ran.err.trim().lines().count(), 1, "{}", ran.err);
}
