//! The pages for the first days: the recipes of the cookbook are run, the pieces of domain files load, and the messages of
//! the page on troubleshooting are messages of the program.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::common::{Shell, root};

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The blocks of code in this language, in their order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(found) = line.strip_prefix("```") {
            let text: String =
                lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
            if found == language {
                blocks.push(text);
            }
        }
    }
    blocks
}

/// Runs a block of a page as a shell would, in this folder.
#[track_caller]
fn run(shell: &Shell, folder: &Path, script: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_loopgate")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(folder).env("PATH", path);
    let ended =
        bash.env("XDG_STATE_HOME", shell.state.path()).env("HOME", shell.state.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{script}\n{out}{err}");
    out.into_owned()
}

fn is_here(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ended| ended.status.success())
}

// Issue 45, row 15
#[test]
fn the_recipes_run_in_their_order_without_a_model() {
    let (shell, folder) = (Shell::new(), tempfile::tempdir().unwrap());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let missing: Vec<&str> = ["jq", "curl"].into_iter().filter(|program| !is_here(program)).collect();
    let recipes = blocks(&page("docs/how-to/cookbook.md"), "sh");
    let mut printed = String::new();
    for recipe in &recipes {
        let needs = missing.iter().any(|program| recipe.contains(&format!("{program} ")));
        if needs || recipe.contains("loopgate serve") && cfg!(not(feature = "server")) {
            continue;
        }
        printed +=
            &run(&shell, folder.path(), &recipe.replace("127.0.0.1:8787", &format!("127.0.0.1:{port}")));
    }
    assert!(recipes.len() >= 6, "{recipes:?}");
    if missing.is_empty() {
        let approved = printed.contains("## ") && printed.contains("answered\tconfident");
        assert!(approved && printed.contains("completion             100.0 %"), "{printed}");
        assert_eq!(printed.contains("ended\n"), cfg!(feature = "server"), "{printed}");
    }
}

// Issue 45, row 15
#[test]
fn the_script_of_the_page_on_the_stub_is_played() {
    let (shell, folder) = (Shell::new(), tempfile::tempdir().unwrap());
    let text = page("docs/how-to/offline.md");
    let (_, text) = text.split_once("## Replies that you write").unwrap();
    fs::write(folder.path().join("replies.json"), &blocks(text, "json")[0]).unwrap();
    run(&shell, folder.path(), "loopgate init my-desk --yes");
    let document = run(&shell, folder.path(), &blocks(text, "sh")[0]);
    assert!(document.contains("Lost parcels are refunded [E1]."), "{document}");
}

// Issue 45, row 15
#[test]
fn the_pieces_for_gateways_load() {
    const DOMAIN: &str = "version = 1\nname = \"d\"\ngoal = \"Answer.\"\n\n[[section]]\nid = \"a\"\nheading = \"A\"\n\n[limits]\ncost_usd = 1\n\n";
    let pieces = blocks(&page("docs/how-to/models.md"), "toml");
    let pieces: Vec<String> = pieces.into_iter().filter(|piece| piece.starts_with("[models.base]")).collect();
    assert!(pieces.len() >= 3, "{pieces:?}");
    for piece in pieces {
        let shell = Shell::new();
        let domain = shell.file("d/loopgate.toml", &(DOMAIN.to_owned() + &piece));
        let checked = shell.run(&["domain", "check", domain.parent().unwrap().to_str().unwrap()]);
        assert_eq!(checked.code, 0, "{piece}{}{}", checked.out, checked.err);
    }
}

/// The texts of the program, without the breaks and escapes of its source.
fn sources() -> String {
    fn add(folder: &Path, all: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(&path, all);
            } else if path.extension().is_some_and(|it| it == "rs") {
                all.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut all = String::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        add(&entry.unwrap().path().join("src"), &mut all);
    }
    let mut joined = all.split("\\\n");
    let first = joined.next().unwrap_or_default().to_owned();
    joined.fold(first, |text, line| text + line.trim_start())
}

// Issue 45, row 15
#[test]
fn every_message_of_the_page_on_troubleshooting_is_one_of_the_program() {
    let sources = sources();
    let text = page("docs/how-to/troubleshooting.md");
    let mut messages = 0;
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split(" | ").next().unwrap().trim_start_matches("| ");
        // A message that has backticks itself is between two.
        let ticks = if cell.contains("``") { "``" } else { "`" };
        for message in cell.split(ticks).skip(1).step_by(2) {
            for part in message.split("NAME").flat_map(|part| part.split('…')).map(str::trim) {
                assert!(part.len() < 4 || sources.contains(part), "{message}: `{part}` is in no source");
            }
            messages += 1;
        }
    }
    assert!(messages >= 20, "{messages}");
}
