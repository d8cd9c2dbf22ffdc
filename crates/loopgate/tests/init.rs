//! `loopgate init`: a new folder that runs at once.

use crate::common;

use std::fs;

use common::Shell;
use common::terminal::Terminal;

/// The path of a folder that is not there yet.
fn new_folder(shell: &Shell, name: &str) -> String {
    shell.file("keep", "").with_file_name(name).display().to_string()
}

#[test]
fn each_template_is_checked_and_runs_without_a_key() {
    let shell = Shell::new();
    for template in ["support", "documents", "agent", "extract"] {
        let folder = new_folder(&shell, template);
        let made = shell.run(&["init", &folder, "--template", template]);
        assert_eq!(made.code, 0, "{}", made.err);
        let item = made.out.lines().last().unwrap().to_owned();
        assert_eq!(
            made.err.lines().next().unwrap().split("; ").next().unwrap(),
            format!("next: loopgate run {folder} {item}")
        );
        assert_eq!(shell.run(&["domain", "check", &folder]).code, 0);
        let ran = shell.run(&["run", &folder, &item]);
        assert_eq!(ran.code, 0, "{template}: {}{}", ran.out, ran.err);
        assert!(!ran.out.contains("nothing was found"), "{}", ran.out);
        // A second time nothing is touched.
        shell.run(&["init", &folder]).fails_with(&["something is there already", "nothing is overwritten"]);
    }
}

#[test]
fn at_a_terminal_it_asks_and_an_empty_answer_takes_the_default() {
    let shell = Shell::new();
    let folder = new_folder(&shell, "asked");
    let mut person = Terminal::run(shell.command(&["init", &folder]));
    person.wait_for("What is it for? [1] ");
    person.press("9\n");
    person.wait_for("answer with a number from 1 to 4, or with a name");
    person.press("documents\n");
    person.wait_for("What is one item called? [question] ");
    person.press("request\n");
    person.wait_for("[a sentence of the template] ");
    person.press("\n");
    person.wait_for("[samples] ");
    person.press("\n");
    person.wait_for("[none] ");
    person.press("\n");
    let (code, screen) = person.end();
    assert_eq!(code, 0, "{screen}");
    let text = fs::read_to_string(format!("{folder}/loopgate.toml")).unwrap();
    assert!(text.contains("kind = \"request\"") && text.contains("[tools.search_documents]"), "{text}");
    assert!(!text.contains("[sources"), "{text}");
    // Whoever goes away in the middle has made nothing.
    let left = new_folder(&shell, "left");
    let mut person = Terminal::run(shell.command(&["init", &left]));
    person.wait_for("What is it for? [1] ");
    person.press("\u{4}");
    let (code, screen) = person.end();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("nothing was made") && fs::metadata(&left).is_err(), "{screen}");
}
