//! What is looked at: the list of runs at a terminal and in a pipe, evidence, effects, and lines that fit a terminal.

use crate::common;

use common::terminal::Terminal;
use common::{Shell, ticket};
use serde_json::{Value, json};

const HELPDESK: &str = "examples/helpdesk";

/// Columns of a line as a terminal shows it.
fn columns(line: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(line)
}

#[track_caller]
fn at_terminal(shell: &Shell, args: &[&str], width: u16) -> String {
    let mut command = shell.command(args);
    command.env_remove("COLUMNS");
    Terminal::of_width(command, width).end().1
}

fn item(shell: &Shell, id: &str, subject: &str) -> String {
    let item = json!({"id": id, "subject": subject, "description": "Please close, all is well."});
    shell.file(&format!("{id}.json"), &item.to_string()).display().to_string()
}

#[test]
fn the_list_of_runs_fits_a_terminal_and_is_whole_in_a_pipe() {
    let shell = Shell::new();
    let wide = item(&shell, "T-7", "端末が遅い、そして画面が消える。至急お願いします 🔥🔥🔥");
    for item in [&ticket(1041), &wide, &ticket(1041)] {
        shell.run(&["run", HELPDESK, item, "--no-save"]);
    }
    let piped = shell.run(&["runs"]);
    let rows: Vec<Vec<&str>> = piped.out.lines().map(|row| row.split('\t').collect()).collect();
    assert!(rows.len() == 3 && rows.iter().all(|row| row.len() == 7), "{}", piped.out);
    assert_eq!(rows[0][2..5], ["confident", "T-1041 All fine now, please close", "$0.0000"]);
    assert!(rows[0][5].ends_with('s') && rows[0][6] == "helpdesk", "{:?}", rows[0]);
    for width in [40, 60, 80, 120, 200] {
        let shown = at_terminal(&shell, &["runs"], width);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].contains("RUN"), "{shown}");
        for (line, row) in lines[1..4].iter().zip(&rows) {
            assert!(
                columns(line) <= width.into() && line.contains(&row[0][..18]) && line.starts_with("✓ "),
                "{line}"
            );
        }
        if width >= 80 {
            for title in ["AGE", "REASON", "ITEM", "COST", "TIME", "DOMAIN"] {
                assert!(lines[0].contains(title), "{width}: {shown}");
            }
        }
    }
    // The variable says more than the terminal.
    let mut command = shell.command(&["runs"]);
    command.env("COLUMNS", "50");
    let shown = Terminal::of_width(command, 120).end().1;
    assert!(shown.lines().take(4).all(|line| columns(line) <= 50), "{shown}");
    // Colours: never in a pipe, unless they are forced.
    assert!(!piped.out.contains('\u{1b}'));
    let forced = shell.command(&["runs"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(String::from_utf8(forced.stdout).unwrap().contains("\u{1b}[32m✓"));
    // What is left out, and one item.
    let two = shell.run(&["runs", "--limit", "2"]);
    assert!(
        two.out.lines().count() == 2 && two.err.ends_with("… 1 more: --limit 3\n"),
        "{}{}",
        two.out,
        two.err
    );
    assert!(two.err.starts_with("totals:  3 runs (3 answered), "), "{}", two.err);
    assert_eq!(shell.run(&["runs", "--item", "T-7"]).out.lines().count(), 1);
    assert_eq!(shell.run(&["runs", "--limit", "0"]).code, 2);
    assert_eq!(shell.json(&["runs", "--json", "--limit", "1"])["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn lines_are_wrapped_at_words_at_a_terminal_and_stay_whole_in_a_pipe() {
    let shell = Shell::new();
    let piped = shell.run(&["run", HELPDESK, &ticket(1042), "--no-save", "--progress", "always"]);
    assert!(piped.err.lines().any(|line| line.chars().count() > 100), "{}", piped.err);
    for width in [80, 40] {
        for args in [&["show", "last"][..], &["why", "last"], &["run", HELPDESK, &ticket(1041), "--no-save"]]
        {
            let mut command = shell.command(args);
            command.env_remove("COLUMNS").env("CI", "1");
            let shown = Terminal::of_width(command, width).end().1;
            for line in shown.lines().filter(|line| columns(line) > width.into()) {
                // A word that no row takes.
                assert!(!line.trim().contains(' '), "{args:?} at {width}: {line}");
            }
        }
    }
}

#[test]
fn a_limit_is_named_once_most_of_it_is_used_and_not_before() {
    let shell = Shell::new();
    let err = |more: &[&str]| shell.run(&[&["run", HELPDESK, &ticket(1042), "--no-save"], more].concat()).err;
    let few = err(&[]);
    assert!(few.starts_with("starts:  ticket T-1042 of helpdesk with ") && !few.contains("limits:"), "{few}");
    let most = err(&["--set", "limits.tool_calls=7"]);
    assert_eq!(most.matches("limits:  ").count(), 1, "{most}");
    assert!(most.contains("limits:  71 % of limits.tool_calls is used: passes "), "{most}");
    assert!(err(&["-v"]).lines().nth(1).is_some_and(|line| line.starts_with("limits:  5 passes, ")));
}

#[test]
fn evidence_is_read_whole_by_its_number() {
    let shell = Shell::new();
    shell.run(&["run", HELPDESK, &ticket(1042), "--no-save"]);
    let first = shell.run(&["show", "last", "E1"]);
    assert_eq!(first.code, 0, "{}", first.err);
    for part in [
        "id: E1\ntool: fetch_",
        "\nwhen: 20",
        "\nuntrusted: false\n",
        "\nstatus: ok\n",
        "{\"target\":",
        "\n  | ## ",
    ] {
        assert!(first.out.contains(part), "`{part}` is missing in: {}", first.out);
    }
    let all = shell.run(&["show", "last", "--evidence"]);
    assert!(all.out.contains(&first.out) && all.out.contains("\nid: E7\n"), "{}", all.out);
    let json = shell.json(&["show", "last", "--evidence", "--json"]);
    assert_eq!(json["evidence"].as_array().unwrap().len(), 8);
    let one = shell.json(&["show", "last", "e1", "--json"]);
    let one = &one["evidence"][0];
    assert_eq!(*one, json["evidence"][1]);
    assert!(one["unix_ms"].is_u64() && one["untrusted"] == false && one["data"].is_array(), "{one:#}");
    assert!(shell.run(&["show", "last", "E0"]).out.contains("tool: the work item\n"));
    shell.run(&["show", "last", "E99"]).fails_with(&["no evidence E99 in run ", "it has E0 to E7"]);
    assert_eq!(shell.run(&["show", "last", "--effects"]).out, "none\n");
}

#[test]
fn untrusted_evidence_says_so_and_shows_what_cannot_be_seen() {
    let shell = Shell::new();
    let folder = shell.copy_of(HELPDESK);
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let named = "[tools.fetch_device_info]\n";
    assert!(text.contains(named));
    std::fs::write(&file, text.replace(named, &format!("{named}returns_untrusted = true\n"))).unwrap();
    let hostile = item(&shell, "T-8", "HAR-LT-014 pays\u{202e} now\u{1b}[2J");
    let ran = shell.run(&["run", folder.to_str().unwrap(), &hostile, "--no-save"]);
    assert!(ran.err.contains("run:     "), "{}", ran.err);
    let shown = shell.run(&["show", "last", "--evidence"]);
    assert!(shown.out.contains("untrusted: true\n"), "{}", shown.out);
    let json = shell.json(&["show", "last", "--evidence", "--json"]);
    for evidence in json["evidence"].as_array().unwrap() {
        assert_eq!(evidence["untrusted"] == true, evidence["tool"] == "fetch_device_info", "{evidence:#}");
    }
    let first = shell.run(&["show", "last", "E0"]);
    assert!(first.out.contains("pays\\u202e now\\u001b[2J"), "{:?}", first.out);
}

#[test]
fn each_effect_has_its_target_its_arguments_its_state_and_who_approved_it() {
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let text = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";
    let ran = shell.json(&["run", folder.to_str().unwrap(), "--text", text, "--json"]);
    let run = ran["run"].as_str().unwrap();
    let effects = || shell.run(&["show", run, "--effects"]).out;
    let shown = effects();
    let head = "action: 3/action-0\ntool: update_user\neffect: write_idempotent\ntarget: source crm";
    assert!(shown.starts_with(head) && shown.contains("\nstate: waiting\n"), "{shown}");
    assert!(shown.contains("{\"company\":\"EPAM\"") && shown.contains("needs a person's consent"), "{shown}");
    assert_eq!(shell.run(&["approve", run, "3/action-0", "--as", "Ada"]).code, 0);
    let shown = effects();
    let approved = "\ndecided: approved by an unverified account as `Ada` (unverified)\nwhen: 20";
    assert!(shown.contains("\nstate: executed\n") && shown.contains(approved), "{shown}");
    let json = shell.json(&["show", run, "--effects", "--json"]);
    let effect: &Value = &json["effects"][0];
    assert_eq!((&effect["state"], &effect["tool"]), (&json!("executed"), &json!("update_user")));
    assert!(effect["target"].is_string() && effect["unix_ms"].is_u64(), "{effect:#}");
}

#[test]
fn a_report_says_where_it_is_and_an_error_leaves_no_file() {
    let shell = Shell::new();
    shell.run(&["run", HELPDESK, &ticket(1041), "--no-save"]);
    let page = shell.state.path().join("page.html");
    let place = page.to_str().unwrap();
    let failed = ["backtest", "no-such-run", "--set", "limits.passes=2", "--html", place];
    shell.run(&failed).fails_with(&["no run no-such-run"]);
    assert!(!page.exists());
    let written = shell.run(&["backtest", "last", "--set", "limits.passes=2", "--html", place]);
    assert!(written.code == 0 && written.err.contains(&format!("wrote {place}\n")), "{}", written.err);
    // What was there stays.
    let before = std::fs::read_to_string(&page).unwrap();
    assert_eq!(shell.run(&failed).code, 1);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), before);
    // A shorter one replaces all of it.
    std::fs::write(&page, "x".repeat(1_000_000)).unwrap();
    assert_eq!(shell.run(&["show", "last", "--html", place]).err, format!("wrote {place}\n"));
    assert!(std::fs::read_to_string(&page).unwrap().trim_end().ends_with("</html>"));
    let all = shell.run(&["verify", "--all"]);
    assert_eq!((all.out.lines().count(), all.err.as_str()), (1, ""));
    shell.run(&["run", HELPDESK, &ticket(1041), "--no-save"]);
    assert_eq!(shell.run(&["verify", "--all"]).err, "totals:  2 ok, 0 wrong, 0 missing\n");
    let url = "https://shop.example/openapi.json";
    shell.run(&["tools", "import", "openapi", url]).fails_with(&["it is a URL", "curl -fsSL "]);
}
