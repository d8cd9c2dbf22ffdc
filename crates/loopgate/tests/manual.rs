//! `loopgate completions` and `loopgate man`.

use crate::common;

use std::fs;

use common::Shell;

#[test]
fn each_shell_gets_completions_of_every_command() {
    let shell = Shell::new();
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = shell.run(&["completions", name]);
        assert_eq!((script.code, script.err.as_str()), (0, ""));
        for command in ["replay", "redteam", "completions"] {
            assert!(script.out.contains(command), "{name} does not know {command}");
        }
    }
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
