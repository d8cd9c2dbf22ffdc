//! `loopgate replay`: three depths, and the run as it was after an entry.

use crate::common;

use std::fs;

use common::{Shell, ticket};

/// A folder of the help desk's domain, and a run of it.
fn ran(shell: &Shell) -> std::path::PathBuf {
    let folder = shell.copy_of("examples/helpdesk");
    let domain = folder.display().to_string();
    let ran = shell.run(&["run", &domain, &ticket(1042), "--no-save"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    folder
}

#[test]
fn a_run_is_replayed_at_three_depths() {
    // S4-55
    let shell = Shell::new();
    let folder = ran(&shell);
    for depth in ["gate", "prompts", "tools"] {
        let replayed = shell.run(&["replay", "last", "--depth", depth]);
        assert_eq!((replayed.code, replayed.err.as_str()), (0, ""), "{}", replayed.out);
        assert!(replayed.out.contains("all decided as they were"), "{}", replayed.out);
        assert_eq!(replayed.out.contains("all the bytes that were sent"), depth != "gate");
        assert_eq!(replayed.out.contains("called again, nothing differs"), depth == "tools");
        let json = shell.json(&["replay", "last", "--depth", depth, "--json"]);
        assert_eq!((&json["equal"], &json["depth"]), (&true.into(), &depth.into()), "{json:#}");
    }
    // The world goes on: a row changes.
    let rows = folder.join("helpdesk.sql");
    let text = fs::read_to_string(&rows).unwrap();
    assert!(text.contains("Tarnwell T14 G2"));
    fs::write(&rows, text.replace("Tarnwell T14 G2", "Tarnwell T14 G3")).unwrap();
    fs::remove_dir_all(folder.join(".loopgate")).ok();
    let replayed = shell.run(&["replay", "last", "--depth", "tools"]);
    assert_eq!(replayed.code, 1, "{}", replayed.out);
    assert!(replayed.out.contains("1 differs\n"), "{}", replayed.out);
    assert!(replayed.out.contains("fetch_device_info {\"target\":\"HAR-LT-014\"}:"), "{}", replayed.out);
    for line in
        ["    -| HAR-LT-014 | laptop | Tarnwell T14 G2 |", "    +| HAR-LT-014 | laptop | Tarnwell T14 G3 |"]
    {
        assert!(replayed.out.contains(line), "{}", replayed.out);
    }
    // The gate and the prompts know nothing of that.
    assert_eq!(shell.run(&["replay", "last", "--depth", "prompts"]).code, 0);
    // A domain that is gone is needed for no decision.
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(shell.run(&["replay", "last"]).code, 0);
    shell
        .run(&["replay", "last", "--depth", "prompts"])
        .fails_with(&["there is no domain folder", "--domain"]);
}

#[test]
fn a_run_is_shown_as_it_was_after_each_of_its_entries() {
    // S4-55
    let shell = Shell::new();
    ran(&shell);
    let entries = shell.json(&["replay", "last", "--json"])["entries"].as_u64().unwrap();
    let mut passes = 0;
    for at in 0..entries {
        let at = at.to_string();
        let shown = shell.run(&["replay", "last", "--at", &at]);
        assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{at}: {}", shown.out);
        let last = entries - 1;
        assert!(shown.out.contains(&format!("after entry {at} of {last}, ")), "{}", shown.out);
        let json = shell.json(&["replay", "last", "--at", &at, "--json"]);
        let so_far = json["state"]["draft"]["passes"].as_array().unwrap().len();
        assert!(so_far >= passes, "{json:#}");
        passes = so_far;
        let is_over = json["phase"] == "done";
        assert_eq!(is_over, json["commands"].as_array().unwrap().is_empty(), "{json:#}");
    }
    assert!(passes >= 2);
    let missing = shell.run(&["replay", "last", "--at", &entries.to_string()]);
    missing.fails_with(&["has the entries 0 to", "loopgate show"]);
    shell.run(&["replay", "last", "--at", "1", "--depth", "tools"]);
}
