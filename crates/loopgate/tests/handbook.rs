//! Questions to a folder of Markdown that nobody made for the purpose.

use crate::common;

use common::{Shell, timeless};

fn folder(shell: &Shell) -> String {
    shell.file("manual/install.md", "# Installing\n\n## On Linux\n\nUnpack the archive into /opt and run the setup program once as root.\n\n## On a Mac\n\nDrag the program into Applications.\n");
    shell.file("manual/backup/nightly.md", "# Nightly backups\n\nBackups run every night at two and are kept for thirty days.\n\n## Restoring\n\nChoose a day, choose a file, press Restore. A restore never overwrites a newer file.\n");
    shell.file("manual/.hidden.md", "# Secret\n\nBackups are a secret.\n");
    shell.state.path().join("manual").display().to_string()
}

#[test]
fn a_question_is_answered_with_passages_that_are_cited() {
    // S0-3: another kind of work item, another data layer, the same loop.
    let shell = Shell::new();
    let folder = folder(&shell);
    let question = shell.file(
        "question.md",
        "# How long are nightly backups kept?\n\nAnd does a restore overwrite newer files?\n",
    );
    let (set, question) = (format!("tools.search.folder={folder}"), question.display().to_string());
    let args = ["run", "examples/handbook", &question, "--set", &set, "--json"];
    let outcome = shell.json(&args);
    assert_eq!(outcome["stop"]["reason"], "confident", "{outcome:#}");
    let sections = outcome["document"]["sections"].as_array().unwrap();
    let answer = sections.iter().find(|section| section["type"] == "answer").unwrap();
    assert!(answer["body"].as_str().unwrap().contains("thirty days"), "{answer:#}");
    assert_eq!(answer["evidence"], serde_json::json!(["E1"]));
    assert_eq!(timeless(outcome), timeless(shell.json(&args)));
}

#[test]
fn a_question_that_nothing_speaks_of_is_not_answered() {
    let shell = Shell::new();
    let folder = folder(&shell);
    let question = shell.file("question.md", "# Which colour has the submarine?\n");
    let (set, question) = (format!("tools.search.folder={folder}"), question.display().to_string());
    let outcome = shell.json(&["run", "examples/handbook", &question, "--set", &set, "--json"]);
    assert_eq!(outcome["stop"]["class"], "partial", "{outcome:#}");
    assert_eq!(outcome["evidence"][0]["status"], "empty");
}

#[test]
fn the_example_question_is_answered_from_the_projects_own_documents() {
    let outcome = Shell::new().json(&["run", "examples/handbook", "examples/handbook/question.md", "--json"]);
    assert_eq!(outcome["stop"]["class"], "answered", "{outcome:#}");
}
