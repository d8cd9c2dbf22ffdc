//! Files that a command is given: what is not a journal is left as it is, and two reports need two files.

use crate::common::Shell;

#[test]
fn a_command_that_reads_leaves_an_empty_file_as_it_is() {
    // H8: a file that is not a journal is not made one.
    let shell = Shell::new();
    let file = shell.file("not-a-journal", "");
    let at = file.to_str().unwrap();
    for args in [
        &["runs"][..],
        &["show", "last"],
        &["journal", "stats"],
        &["journal", "prune", "--older-than", "1d"],
        &["verify", "--all"],
    ] {
        shell.run(&[args, &["--journal", at]].concat()).fails_with(&[at, "not a journal", "--journal"]);
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 0, "{args:?}");
    }
    // A file of a journal in place of a run.
    let ran = shell.run(&["backtest", at, "--set", "limits.passes=1"]);
    assert!(ran.code != 0 && ran.err.contains("not a journal"), "{}", ran.err);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    let names = std::fs::read_dir(shell.state.path()).unwrap();
    assert_eq!(names.count(), 1, "nothing is made next to it");
}

#[test]
fn two_reports_need_two_files() {
    let shell = Shell::new();
    let folder = shell.state.path().display();
    let (one, same) = (format!("{folder}/report"), format!("{folder}/./report"));
    let ran = shell.run(&["eval", "examples/crm/evals/finds-alice.json", "--html", &one, "--junit", &same]);
    ran.fails_with(&["--junit and --html name one file", "name two"]);
    assert!(!shell.state.path().join("report").exists());
}

#[test]
fn an_item_that_is_json_by_its_name_is_an_object() {
    let shell = Shell::new();
    let deep = "[".repeat(200) + &"]".repeat(200);
    for text in ["[{\"id\": \"T-1\"}]", "17", "\"text\"", &deep] {
        let item = shell.file("items/one.json", text).display().to_string();
        for more in [&[][..], &["--jobs", "1"]] {
            let ran = shell.run(&[&["run", "examples/helpdesk", &item, "--no-save"], more].concat());
            ran.fails_with(&[&item, "not a JSON object; put one item on each line of a .jsonl file"]);
        }
    }
    let text = shell.file("items/one.md", "[1] The backup failed.").display().to_string();
    let ran = shell.run(&["run", "examples/helpdesk", &text, "--no-save"]);
    assert!(ran.code != 1 && ran.err.contains("\nstopped: "), "{}", ran.err);
    let folder = shell.state.path().join("items").display().to_string();
    shell
        .run(&["run", "examples/helpdesk", &folder])
        .fails_with(&["a folder; name the files in it", &format!("{folder}/*.json")]);
}

#[test]
fn settings_that_do_nothing_are_refused_with_their_place() {
    let shell = Shell::new();
    let domain = shell.copy_of("examples/crm");
    let file = domain.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let hook = |line: &str| format!("{text}\n[hooks.a]\non = [\"ended\"]\ncommand = [\"true\"]\n{line}\n");
    let of_id = "[tools.get_user_by_id.parameters.id]\n";
    assert!(text.contains(of_id) && text.contains("\npeople = true\n"));
    for (text, said) in [
        (
            text.replace("\npeople = true\n", "\napprovals = 2\n"),
            "runs ask a person only with `people = true`",
        ),
        (hook("private = [\"127.0.0.1:80\"]"), "it is for a `url`; take it out"),
        (hook("plain_http = true"), "it is for a `url`; take it out"),
        (
            text.replace(of_id, &format!("{of_id}pattern = \"x\"\n")),
            "a pattern is for a parameter of type `string`",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = shell.run(&["domain", "check", domain.to_str().unwrap()]);
        ran.fails_with(&["loopgate.toml:", said]);
    }
    std::fs::write(&file, text.replace("\npeople = true\n", "\npeople = true\napprovals = 2\n")).unwrap();
    assert_eq!(shell.run(&["domain", "check", domain.to_str().unwrap()]).code, 0);
}
