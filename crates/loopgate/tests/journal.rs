//! The journal as a tool: lists with filters and totals, pruning, exports and imports, saving later.

use crate::common::{Shell, ticket};

use std::path::{Path, PathBuf};

use serde_json::Value;

fn id(err: &str) -> String {
    err.lines().find_map(|line| line.strip_prefix("run:     ")).unwrap().to_owned()
}

/// Runs of several kinds: two documents with tags, one under a small budget, a refusal, one that waits and its fork.
fn some(shell: &Shell) -> Vec<String> {
    let document = |more: &[&str]| {
        let (item, args) = (ticket(1042), ["run", "examples/helpdesk", "--no-save"]);
        id(&shell.run(&[&args[..], &[&item], more].concat()).err)
    };
    let mut runs = vec![document(&["--tag", "night", "--tag", "a"]), document(&["--tag", "night"])];
    runs.push(document(&["--set", "limits.passes=1"]));
    runs.push(id(&shell.run(&["run", "examples/crm", "--text", "Search user Alice"]).err));
    let change = "search_user Bob, get_user_by_id 42, update_user 42 EPAM";
    runs.push(id(&shell.run(&["run", "examples/crm", "--text", change]).err));
    runs.push(id(&shell.run(&["fork", runs.last().unwrap(), "--no-save"]).err));
    runs
}

fn ids(listed: &Value) -> Vec<String> {
    listed["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_list_has_filters_and_totals() {
    let shell = Shell::new();
    let runs = some(&shell);
    let listed = |args: &[&str]| shell.json(&[&["runs", "--json"], args].concat());
    let all = listed(&[]);
    assert_eq!(ids(&all), runs.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(all["totals"]["runs"], 6);
    assert_eq!(all["totals"]["by_domain"], serde_json::json!({"crm": 3, "helpdesk": 3}));
    assert_eq!(all["totals"]["by_outcome"]["waiting"], 2, "{all:#}");
    assert_eq!(ids(&listed(&["--domain", "crm"])).len(), 3);
    assert_eq!(ids(&listed(&["--tag", "night"])), [runs[1].clone(), runs[0].clone()]);
    assert_eq!(ids(&listed(&["--tag", "night", "--tag", "a"])), [runs[0].clone()]);
    assert_eq!(ids(&listed(&["--reason", "waiting"])).len(), 2);
    assert_eq!(ids(&listed(&["--reason", "max_passes", "--reason", "completed"])).len(), 2);
    assert_eq!(ids(&listed(&["--reason", "answered", "--domain", "helpdesk"])).len(), 2);
    assert_eq!(ids(&listed(&["--since", "1h"])).len(), 6);
    assert_eq!(ids(&listed(&["--since", "2020-01-01T10:30"])).len(), 6);
    assert_eq!(ids(&listed(&["--cost-over", "0.01"])).len(), 0);
    let ran = shell.run(&["runs", "--tag", "a"]);
    assert!(ran.out.contains(" #night #a\t"), "{}", ran.out);
    assert!(ran.err.starts_with("totals:  1 run (1 answered), "), "{}", ran.err);
    assert!(shell.run(&["show", &runs[0]]).out.starts_with("tags: night, a\n"));
    // What is no name, no time and no cost.
    shell.run(&["runs", "--reason", "answred"]).fails_with(&["did you mean `answered`?"]);
    shell.run(&["runs", "--reason", "xyzzyxyzzy"]).fails_with(&["answered, partial, refused"]);
    for args in [
        ["--since", "yesterday"],
        ["--since", "-1d"],
        ["--since", "2100-01-01"],
        ["--since", "9999999999999999d"],
        ["--cost-over", "much"],
    ] {
        assert_eq!(shell.run(&["runs", args[0], args[1]]).code, 2, "{args:?}");
    }
    let long = "x".repeat(201);
    for tag in ["", " ", "a\nb", &long] {
        shell.run(&["run", "examples/helpdesk", &ticket(1042), "--tag", tag]).fails_with(&["--tag"]);
    }
    let stats = shell.json(&["journal", "stats", "--json"]);
    assert_eq!((&stats["totals"], &stats["open"]), (&all["totals"], &2.into()));
    assert!(shell.run(&["journal", "stats"]).out.contains("3 of helpdesk"));
}

#[test]
fn what_is_exported_comes_in_whole_and_what_is_pruned_comes_back() {
    // H2, H8: through the command: export, import elsewhere, prune, import again; each journal verifies.
    let shell = Shell::new();
    let runs = some(&shell);
    let file = shell.state.path().join("export.jsonl");
    let file = file.to_str().unwrap();
    let exported = shell.run(&["journal", "export", "--all", "--out", file]);
    assert_eq!((exported.code, &*exported.out), (0, ""), "{}", exported.err);
    shell
        .run(&["journal", "export", "--all", "--out", file])
        .fails_with(&["name a file that is not there yet"]);
    // Elsewhere.
    let other = Shell::new();
    let imported = other.run(&["journal", "import", file]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    assert!(
        imported.err.starts_with("imported: 6 runs, 0 of them made by this journal; 0 were there"),
        "{}",
        imported.err
    );
    for run in &runs {
        let (here, there) = (shell.run(&["show", run, "--events"]), other.run(&["show", run, "--events"]));
        assert_eq!(here.out, there.out, "{run}");
    }
    let verified = other.run(&["verify", "--all"]);
    assert_eq!(verified.code, 0, "{}", verified.out);
    assert!(verified.out.lines().all(|line| line.ends_with(" (imported)")), "{}", verified.out);
    other.run(&["resume", &runs[4]]).fails_with(&["cannot be resumed", "imported"]);
    assert_eq!(other.run(&["resume", "--all"]).err.trim(), "no run is to be resumed");
    assert_eq!(other.run(&["pending"]).err.trim(), "nothing waits for a person");
    // Here: what is open, and what an open run continues, is kept.
    let dry = shell.run(&["journal", "prune", "--older-than", "0s", "--dry-run"]);
    assert_eq!(dry.out.lines().count(), 4, "{}", dry.out);
    assert!(dry.err.contains(&format!("kept:    {}: run {} continues it", runs[4], runs[5])), "{}", dry.err);
    assert_eq!(ids(&shell.json(&["runs", "--json"])).len(), 6, "a dry run deletes nothing");
    let pruned = shell.run(&["journal", "prune", "--older-than", "0s", "--tag", "night"]);
    assert!(pruned.err.contains("pruned: 2 runs"), "{}", pruned.err);
    shell.run(&["show", &runs[0]]).fails_with(&[&runs[0]]);
    assert_eq!(shell.run(&["verify", "--all"]).code, 0);
    assert_eq!(shell.json(&["journal", "stats", "--json"])["pruned"], 2);
    assert_eq!(
        shell.run(&["journal", "prune", "--older-than", "7d"]).err.trim(),
        "pruned: 0 runs with 0 entries; kept: 0"
    );
    let again = shell.run(&["journal", "import", file]);
    assert!(
        again.err.starts_with("imported: 2 runs, 2 of them made by this journal; 4 were there"),
        "{}",
        again.err
    );
    assert_eq!(shell.run(&["verify", "--all"]).code, 0);
    assert!(!shell.run(&["verify", "--all"]).out.contains("imported"));
    assert_eq!(shell.run(&["journal", "prune"]).code, 2);
    assert_eq!(shell.run(&["journal", "export"]).code, 2);
}

#[test]
fn trajectories_have_the_calls_of_each_run() {
    let shell = Shell::new();
    let runs = some(&shell);
    let file = shell.state.path().join("runs.jsonl");
    let file = file.to_str().unwrap();
    let args = ["journal", "export", "--all", "--domain", "helpdesk", "--trajectories", "--out", file];
    assert_eq!(shell.run(&args).code, 0);
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["id"], &lines[0]["success"]), (&runs[0].clone().into(), &true.into()));
    assert_eq!(lines[2]["success"], Value::Null, "a partial document is neither");
    let outcome = shell.json(&["show", &runs[0], "--json"]);
    assert_eq!(lines[0]["steps"].as_array().unwrap().len(), outcome["evidence"].as_array().unwrap().len());
    // The members that `crates/loop-core/examples/score.rs` reads.
    let (effects, step) = (lines[0]["effects"].as_object().unwrap(), &lines[0]["steps"][0]);
    assert_eq!(effects[step["tool"].as_str().unwrap()], "read");
    assert!(step["turn"] == 1 && step["arguments"].is_object() && step["result"].is_string(), "{step}");
    assert!(step["is_error"] == false && step["status"] == "ok", "{step}");
}

#[test]
fn an_outcome_is_saved_later_once() {
    let shell = Shell::new();
    let folder = shell.copy_of("examples/helpdesk");
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text: String = match text.split_once("[save]") {
        Some((before, after)) => {
            let after = after.split_once("\n[").map_or_else(String::new, |(_, rest)| format!("[{rest}"));
            format!("{before}{after}")
        }
        None => text,
    };
    std::fs::write(&file, format!("{text}\n[save]\nfile = \"out/{{run}}.json\"\n")).unwrap();
    let (folder, item) = (folder.to_str().unwrap(), ticket(1042));
    let run = id(&shell.run(&["run", folder, &item, "--no-save"]).err);
    let out = Path::new(folder).join(format!("out/{run}.json"));
    let place = |ran: &crate::common::Ran| {
        ran.err.lines().find_map(|line| line.strip_prefix("saved:   ")).unwrap().to_owned()
    };
    let ran = shell.run(&["resume", &run, "--save"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let saved = if out.exists() { out } else { PathBuf::from(place(&ran)) };
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(report["run"], *run);
    let own = id(&shell.run(&["run", folder, &item]).err);
    let ran = shell.run(&["resume", &own, "--save"]);
    assert!(ran.code == 0 && ran.err.contains("by the run itself"), "{}", ran.err);
    assert_eq!(shell.run(&["resume", &own, "--save=again"]).code, 0);
    let text = id(&shell
        .run(&["run", "examples/crm", "--text", "search_user Bob, get_user_by_id 42, update_user 42 EPAM"])
        .err);
    shell.run(&["resume", &text, "--save"]).fails_with(&["has not ended", "loopgate resume"]);
    let ended = id(&shell.run(&["run", "examples/crm", "--text", "Search user Alice"]).err);
    shell.run(&["resume", &ended, "--save"]).fails_with(&["does not say where to save"]);
}

#[test]
fn a_long_list_is_read_once() {
    // `LOOPGATE_LISTED_RUNS=5000` measures the first list, which reads the notes, and the ones after it, which do not.
    let count: u64 =
        std::env::var("LOOPGATE_LISTED_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(40);
    let shell = Shell::new();
    let path = shell.state.path().join("many.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(crate::backtest::write(&path, count));
    let list = ["runs", "--json", "--journal", path.to_str().unwrap()];
    let mut lists = Vec::new();
    for nth in ["first", "second", "third"] {
        let began = std::time::Instant::now();
        lists.push(shell.json(&list));
        if count > 40 {
            let line = format!("{nth} list of {count} runs: {:?}\n", began.elapsed());
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        }
    }
    assert_eq!(lists[0]["totals"]["runs"], count);
    assert_eq!((&lists[0], &lists[0]), (&lists[1], &lists[2]));
    let kept: i64 = {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.query_row("SELECT count(*) FROM run_summaries", [], |row| row.get(0)).unwrap()
    };
    let has_ended = |run: &&Value| run["state"] == "ended";
    let ended = lists[0]["runs"].as_array().unwrap().iter().filter(has_ended).count();
    assert_eq!(kept, i64::try_from(ended).unwrap());
}
