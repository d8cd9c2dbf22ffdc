//! `loopgate backtest`: recorded runs under other policies.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use loop_core::{Note, WorkItem};
use loop_runtime::journal::{Durability, Entry, Header, Journal, StoredJournal, SyncPolicy};
use loop_testkit::{Numbers, World, random_run, random_setup};

use crate::common::{Shell, ticket};

const EARLY: &str = "[limits]\npasses = 1\n\n[gate]\nfinal_pass = false\n";

/// A run of the help desk, whose replies a script holds: three passes, with prices.
fn three_passes(shell: &Shell) -> String {
    let script = "examples/helpdesk/scripts/confident-after-three-passes.json";
    let (base, selector) =
        (format!("models.base.script={script}"), format!("models.selector.script={script}"));
    let item = ticket(1042);
    let args =
        ["run", "examples/helpdesk", &item, "--profile", "scripted", "--no-save", "--set", &base, "--set"];
    let ran = shell.run(&[&args[..], &[&selector]].concat());
    let id = ran.err.lines().find_map(|line| line.strip_prefix("run:     "));
    id.unwrap_or_else(|| panic!("{}", ran.err)).to_owned()
}

/// Writes runs of random numbers into a journal.
pub(crate) async fn write(path: &Path, count: u64) {
    let journal = StoredJournal::open(path).unwrap().with_sync(SyncPolicy::None);
    for seed in 0..count {
        // The same few hundred runs again and again, each under a name of its own.
        let mut numbers = Numbers(seed % 500);
        let setup =
            random_setup(&mut numbers).item(WorkItem::new(format!("T-{seed}"), "ticket", "T", "Slow."));
        let world = random_run(setup, &mut numbers);
        write_one(&journal, &format!("run-{seed:06}"), &world).await;
    }
}

async fn write_one(journal: &StoredJournal, name: &str, world: &World) {
    let manifest = loop_core::types::Digest::of("manifest", b"[]");
    let renamed = |entry: (usize, &(loop_core::Event, Vec<Note>, loop_core::run::State))| {
        let (seq, (event, notes, _)) = entry;
        let mut event = event.clone();
        if let loop_core::EventKind::Started(started) = &mut event.kind {
            started.run = loop_core::types::RunId::new(name);
            started.tools = manifest;
        }
        Arc::new(Entry { seq: seq as u64, event, notes: notes.clone() })
    };
    let entries: Vec<Arc<Entry>> = world.journal.iter().enumerate().map(renamed).collect();
    let started = world.run.started();
    let header = Header {
        run: loop_core::types::RunId::new(name),
        unix_ms: started.unix_ms,
        item: Arc::clone(&started.item.id),
        title: Arc::clone(&started.item.title),
        spec: Arc::clone(&world.spec),
        manifest_hash: manifest,
        manifest: "[]".into(),
        origin: None,
        request_key: None,
    };
    let mut writer = journal.create(&header, &entries[0]).await.unwrap();
    writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
}

#[test]
fn a_journal_is_named_by_its_file_and_settings_are_a_policy() {
    let shell = Shell::new();
    let run = three_passes(&shell);
    let file = shell.state.path().join("loopgate/journal.db");
    let (all, named) = (["backtest", "--all"], ["backtest", file.to_str().unwrap()]);
    let set = ["--set", "limits.cost_usd=0.003", "--set", "gate.final_pass=false", "--json"];
    let reports = [all, named].map(|args| shell.json(&[&args[..], &set[..]].concat()));
    assert_eq!(reports[0], reports[1]);
    let policy = &reports[0]["policies"][0];
    assert_eq!(policy["name"], "limits.cost_usd=0.003 gate.final_pass=false");
    assert_eq!(reports[0]["runs"][0]["under"][0]["reason"], "budget_exceeded", "{:#}", reports[0]);
    // An id that is given twice is one run.
    let twice = shell.json(&[&["backtest", &run, "last"], &set[..]].concat());
    assert_eq!(twice["recorded"]["runs"], 1);
}

#[test]
fn the_page_is_written_and_holds_all_that_it_shows() {
    let shell = Shell::new();
    three_passes(&shell);
    let (early, page) = (shell.file("early.toml", EARLY), shell.state.path().join("page.html"));
    let args = ["backtest", "last", "--policy", early.to_str().unwrap(), "--html", page.to_str().unwrap()];
    assert_eq!(shell.run(&args).code, 0);
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(
        written.contains("<svg")
            && written.contains("early.toml")
            && !written.contains("http:")
            && !written.contains("https:"),
        "{written}"
    );
    shell.run(&args);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), written);
}

#[test]
fn what_is_wrong_is_one_line() {
    let shell = Shell::new();
    three_passes(&shell);
    let slip = shell.file("slip.toml", "[limits]\npases = 1\n");
    let tool = shell.file("tool.toml", "[gate]\nrequired_tools = [\"fetch_devic_info\"]\n");
    let [slip, tool] = [&slip, &tool].map(|path| path.to_str().unwrap());
    shell
        .run(&["backtest", "last", "--policy", slip])
        .fails_with(&["slip.toml:2:1: unknown key `pases`", "`passes`"]);
    shell
        .run(&["backtest", "last", "--policy", tool])
        .fails_with(&["tool.toml:2:19: helpdesk has no tool", "did you mean `fetch_device_info`?"]);
    shell.run(&["backtest", "last", "--policy", "none.toml"]).fails_with(&["none.toml: cannot be read"]);
    shell.run(&["backtest", "last", "--set", "limits.passes"]).fails_with(&["expected KEY=VALUE"]);
    shell.run(&["backtest", "zzz", "--set", "limits.passes=1"]).fails_with(&["no run zzz in this journal"]);
    shell
        .run(&["backtest", "last", "--set", "limits.passes=1,two"])
        .fails_with(&["--set limits.passes=two: "]);
    shell
        .run(&["backtest", "last", "--set", "limits.passes=1,2", "--set", "limits.tool_calls=1,2"])
        .fails_with(&["limits.passes has several values already"]);
    for args in [&["backtest", "last"][..], &["backtest", "--set", "limits.passes=1"]] {
        assert_eq!(shell.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn several_values_of_a_setting_are_one_row_each() {
    let shell = Shell::new();
    three_passes(&shell);
    let set = ["--set", "gate.final_pass=false", "--set", "limits.passes=1,2,3"];
    let report = shell.json(&[&["backtest", "last"], &set[..], &["--json"]].concat());
    let under = report["runs"][0]["under"].as_array().unwrap();
    let found: Vec<_> =
        under.iter().map(|it| [&it["policy"], &it["finding"]].map(|it| it.as_str().unwrap())).collect();
    assert_eq!(
        found,
        [
            ["limits.passes=1", "stops_earlier"],
            ["limits.passes=2", "stops_earlier"],
            ["limits.passes=3", "same"],
        ]
    );
    let saved: Vec<_> = report["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["saved_pico_usd"].as_u64().unwrap())
        .collect();
    assert!(saved.is_sorted_by(|more, fewer| more >= fewer) && saved[0] > saved[2], "{saved:?}");
    let words = shell.run(&[&["backtest", "last"], &set[..]].concat()).out;
    let rows = words.lines().filter(|line| line.starts_with("limits.passes=") && !line.contains(": "));
    assert_eq!(rows.count(), 3, "{words}");
}

/// How many runs the next test reads. `LOOPGATE_BACKTEST_RUNS=10000` measures what the page on testing says.
fn measured_runs() -> u64 {
    std::env::var("LOOPGATE_BACKTEST_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(60)
}

#[test]
fn many_journals_are_tested_in_one_go() {
    // Issue 16, part 6: ten thousand journals in seconds; the same policy gives no difference in any of them.
    let (shell, count) = (Shell::new(), measured_runs());
    let path = shell.state.path().join("many.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(write(&path, count));
    let (same, early) = (shell.file("same.toml", ""), shell.file("early.toml", EARLY));
    let policies = ["--policy", same.to_str().unwrap(), "--policy", early.to_str().unwrap()];
    let began = Instant::now();
    let report = shell.json(&[&["backtest", path.to_str().unwrap()], &policies[..], &["--json"]].concat());
    let took = began.elapsed();
    if count > 60 {
        writeln!(std::io::stderr(), "{count} runs under 2 policies: {took:?}").unwrap();
    }
    assert_eq!(report["not_tested"], serde_json::json!([]));
    assert_eq!(report["recorded"]["runs"], count);
    assert_eq!(report["policies"][0]["findings"], serde_json::json!([{ "finding": "same", "runs": count }]));
    assert!(report["policies"][1]["saved_pico_usd"].as_u64() > Some(0));
}
