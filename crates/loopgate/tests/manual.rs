//! `loopgate completions` and `loopgate man`.

use crate::common;

use std::fs;

use common::Shell;

#[test]
fn each_shell_gets_a_script_that_asks_the_program_for_commands_runs_domains_and_tiers() {
    let shell = Shell::new();
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = shell.run(&["completions", name]);
        assert_eq!((script.code, script.err.as_str()), (0, ""));
        assert!(script.out.contains("LOOPGATE_COMPLETE"), "{name}: {}", script.out);
    }
    // As the script of fish asks.
    let completed = |line: &[&str]| -> Vec<String> {
        let mut command = shell.command(&[&["--", "loopgate"], line].concat());
        let output = command.env("LOOPGATE_COMPLETE", "fish").output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    assert!(completed(&["re"]).iter().any(|line| line.starts_with("redteam\t")));
    assert_eq!(completed(&["why", "la"]), ["last"], "without a journal there is no run");
    let ran = shell.json(&["run", "examples/helpdesk", &common::ticket(1041), "--no-save", "--json"]);
    let run = ran["run"].as_str().unwrap();
    let offered = format!("{run}\tT-1041 All fine now, please close");
    for command in ["show", "why", "approve", "diff", "replay", "resume", "fork"] {
        assert!(completed(&[command, &run[..6]]).contains(&offered), "{command}");
    }
    assert_eq!(completed(&["runs", "--domain", "he"]), ["helpdesk"]);
    assert_eq!(completed(&["run", "examples/cr"]), ["examples/crm/"]);
    assert_eq!(completed(&["run", "examples/crm", "--model", "b"]), ["base="]);
    let unknown = shell.run(&["completions", "tcsh"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("bash, elvish, fish, powershell, zsh"), "{}", unknown.err);
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let shell = Shell::new();
    let folder = shell.file("keep", "").with_file_name("man").join("man1");
    let place = folder.display().to_string();
    let written = shell.run(&["man", "--out", &place]);
    assert_eq!((written.code, written.out.as_str()), (0, ""), "{}", written.err);
    for page in ["loopgate.1", "loopgate-run.1", "loopgate-tools-call.1", "loopgate-policy-check.1"] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".TH loopgate") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    // The main page names each command that has a page of its own.
    let main = shell.run(&["man"]).out;
    for file in fs::read_dir(&folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let command = name.trim_end_matches(".1").trim_start_matches("loopgate").trim_start_matches('-');
        if !command.is_empty() && !command.contains('-') {
            assert!(main.contains(&format!("loopgate\\-{command}(1)")), "{command} is not on {main}");
        }
    }
    let taken = shell.file("taken", "").display().to_string();
    shell.run(&["man", "--out", &taken]).fails_with(&["cannot be written", "--out"]);
}
