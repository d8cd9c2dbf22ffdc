//! The page `docs/tutorial/first-domain.md`: its commands are run one after the other in an empty folder, as a new user
//! would, and what they print is compared with it. `UPDATE_TUTORIAL=1` writes what they print into it.

use crate::common;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use common::root;

const PAGE: &str = "docs/tutorial/first-domain.md";
/// The command that a user installs the program with. Here it is built already, as the same package.
const INSTALL: &str = "cargo install --path crates/loopgate";
/// From install to a domain of one's own (issue 17, part 11).
const MAX_COMMANDS: usize = 5;

/// What a command prints on a terminal: both streams in their order. `HOME` is the folder around it, so that the journal is
/// where it would be.
fn printed(command: &str, home: &Path) -> String {
    let folder = home.join("work");
    let path = home.join("terminal.txt");
    File::create(&path).unwrap();
    let terminal = || Stdio::from(OpenOptions::new().append(true).open(&path).unwrap());
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    let status = Command::new(env!("CARGO_BIN_EXE_loopgate"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(terminal())
        .stderr(terminal())
        .status()
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(status.success(), "{command}: {text}");
    text
}

/// What differs between two equal runs, or two builds, under one name.
fn timeless(text: &str, home: &Path, run: &mut Option<String>) -> String {
    let mut text = text.replace(home.to_str().unwrap(), "~");
    if let Some(id) = text.lines().find_map(|line| line.strip_prefix("run:     ")) {
        *run = Some(id.to_owned());
    }
    if let Some(id) = run {
        text = text.replace(id.as_str(), "RUN");
    }
    let line = |line: &str| {
        let is_program = line.split_whitespace().nth(1) == Some("program");
        if let Some((before, _)) = line.split_once(" with ").filter(|_| is_program) {
            format!("{before} with FEATURES")
        } else if let Some((before, _)) = line.rsplit_once(", ").filter(|_| line.starts_with("totals:")) {
            format!("{before}, TIME s")
        } else if let Some((_, limit)) =
            line.split_once(" ms of ").filter(|_| line.starts_with("  limits.wall_ms"))
        {
            format!("  {:<20} TIME ms of {limit}", "limits.wall_ms")
        } else {
            line.trim_end().to_owned()
        }
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn the_tutorial_shows_what_its_commands_print_in_an_empty_folder() {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let home = tempfile::tempdir().unwrap();
    // The state folder's name is the same on every machine.
    let home_path = home.path().canonicalize().unwrap();
    std::fs::create_dir(home_path.join("work")).unwrap();
    let (mut commands, mut run, mut made) = (Vec::new(), None, String::new());
    for (at, part) in page.split("```").enumerate() {
        let command = part.strip_prefix("console\n$ ").and_then(|rest| rest.lines().next());
        made.push_str(if at > 0 { "```" } else { "" });
        match command.filter(|_| at % 2 == 1) {
            Some(INSTALL) => {
                commands.push(INSTALL);
                made.push_str(part);
            }
            Some(command) => {
                commands.push(command);
                let output = timeless(&printed(command, &home_path), &home_path, &mut run);
                made.push_str(&format!("console\n$ {command}\n{output}"));
            }
            None => made.push_str(part),
        }
    }
    assert_eq!(commands.first(), Some(&INSTALL));
    assert!(commands.len() <= MAX_COMMANDS && commands.len() > 3, "{commands:?}");
    let manifest = std::fs::read_to_string(root().join("crates/loopgate/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"loopgate\""), "{INSTALL} would install something else");
    if std::env::var_os("UPDATE_TUTORIAL").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == made, "{PAGE} is stale; run this test with UPDATE_TUTORIAL=1\n{made}");
}
