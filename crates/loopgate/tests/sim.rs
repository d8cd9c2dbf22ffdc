//! The pages on simulations: their commands are run, of a page the first one unless everything is tried, and what they print
//! is compared with them.
//! `UPDATE_SIMULATE=1` writes what they print into them; read the difference before you keep it.

use loop_testkit::is_full;

use crate::common::{Shell, root};

#[test]
fn the_page_on_a_domain_shows_what_its_commands_print() {
    compare("docs/how-to/simulate.md");
}

#[test]
fn the_page_on_a_fleet_shows_what_its_commands_print() {
    compare("docs/how-to/plan-a-fleet.md");
}

fn compare(page_path: &str) {
    let path = root().join(page_path);
    let page = std::fs::read_to_string(&path).unwrap();
    let (shell, mut made, mut blocks) = (Shell::new(), String::new(), 0);
    let is_update = std::env::var_os("UPDATE_SIMULATE").is_some();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        made.push_str(&format!("{line}\n"));
        let Some(command) = line.strip_prefix("$ loopgate ") else { continue };
        blocks += 1;
        if blocks > 1 && !is_full() && !is_update {
            continue;
        }
        let ran = shell.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.err, "", "{command}");
        let printed = ran.out.lines().map(|line| format!("{}\n", line.trim_end()));
        made.extend(printed);
        made.push_str("```\n");
        for end in lines.by_ref() {
            if end == "```" {
                break;
            }
        }
    }
    assert!(blocks >= 2, "{blocks}");
    if is_update {
        std::fs::write(&path, &made).unwrap();
        return;
    }
    for (line, (there, printed)) in (1..).zip(page.lines().zip(made.lines())) {
        assert_eq!(there, printed, "{page_path}:{line}; UPDATE_SIMULATE=1 writes it anew");
    }
    assert_eq!(page.lines().count(), made.lines().count(), "{page_path} has a line too many or too few");
}

#[test]
fn each_example_is_simulated_without_a_key() {
    let shell = Shell::new();
    for domain in ["helpdesk", "crm", "refunds"] {
        let folder = root().join("examples").join(domain);
        let json = shell.json(&["sim", folder.to_str().unwrap(), "--runs", "30", "--json"]);
        assert_eq!((json["version"].as_u64(), json["runs"].as_u64()), (Some(1), Some(30)));
        assert!(json["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()));
        assert_eq!(json["assumptions"][0]["name"], "done");
    }
}

#[test]
fn a_wrong_assumption_is_one_line_that_says_what_is_right() {
    let shell = Shell::new();
    let sim = |assume: &str| shell.run(&["sim", "examples/helpdesk", "--runs", "1", "--assume", assume]);
    sim("done").fails_with(&["--assume done: expected NAME=NUMBER, for example done=30"]);
    sim("done=900").fails_with(&["done = 900: expected a whole number from 0 to 100"]);
    sim("luck=3").fails_with(&["luck: not an assumption; they are done, done_more, calls"]);
}

#[test]
fn a_fleet_that_cannot_be_simulated_is_one_line_that_says_why() {
    let shell = Shell::new();
    let fleet = |more: &[&str]| {
        let domain = root().join("examples/helpdesk");
        let mut arguments = vec!["fleet", domain.to_str().unwrap()];
        arguments.extend(more);
        shell.run(&arguments)
    };
    fleet(&["--arrivals", "1000000", "--hours", "2"]).fails_with(&["are 2,000,000 runs; at most 1,000,000"]);
    fleet(&["--assume", "luck=3"]).fails_with(&["luck: not an assumption"]);
    fleet(&["--policy", "nowhere.toml"]).fails_with(&["nowhere.toml"]);
}
