//! Many items in one command: one journal, one budget, each item once; and budgets of a day over runs.

use crate::common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command};

use common::provider::{Provider, Says};
use common::{Ran, Shell};
use loop_runtime::journal::{Journal as _, StoredJournal};
use serde_json::Value;

const HELPDESK: &str = "examples/helpdesk";

/// A mock of the help desk's models that lies like this, and its base URL.
struct Mock {
    child: Child,
    url: String,
}

impl Mock {
    fn lying(shell: &Shell, behaviour: Option<&str>) -> Self {
        let mut args = vec!["mock", HELPDESK, "--quiet"];
        args.extend(behaviour.iter().flat_map(|name| ["--behaviour", name]));
        let mut child = shell.command(&args).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim_end().to_owned() }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The help desk with its base model at this URL, with a price, and these lines of settings.
fn priced(shell: &Shell, url: &str, settings: &str) -> String {
    let folder = shell.state.path().join("priced");
    common::copy(&common::root().join(HELPDESK), &folder);
    let file = folder.join("loopgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let offline = "[models.base]\nprovider = \"offline\"\n";
    assert!(text.contains(offline));
    let base = format!(
        "[models.base]\nprovider = \"compatible\"\nmodel = \"offline-1\"\nbase_url = \"{url}\"\n\
         price = {{ input_usd_per_million = 0.5, output_usd_per_million = 2 }}\n\n\
         [limits]\ncost_usd = 0.5\ncost_mode = \"strict\"\n\n{settings}\n"
    );
    std::fs::write(file, text.replace(offline, &base)).unwrap();
    folder.display().to_string()
}

/// So many tickets that need one pass each.
fn tickets(shell: &Shell, count: usize) -> Vec<String> {
    let text = std::fs::read_to_string(common::root().join(common::ticket(1041))).unwrap();
    let mut ticket: Value = serde_json::from_str(&text).unwrap();
    (0..count)
        .map(|nth| {
            ticket["id"] = format!("T-{}", 5_000 + nth).into();
            let path = shell.file(&format!("items/{nth:04}.json"), &ticket.to_string());
            path.display().to_string()
        })
        .collect()
}

fn args<'a>(domain: &'a str, items: &'a [String], options: &[&'a str]) -> Vec<&'a str> {
    let items = items.iter().map(String::as_str);
    ["run", domain].into_iter().chain(items).chain(options.iter().copied()).collect()
}

fn lines(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn journal(shell: &Shell) -> StoredJournal {
    StoredJournal::open_existing(shell.state.path().join("loopgate/journal.db")).unwrap()
}

/// What is taken from the one budget of a batch in the journal: spent, and spent with what is reserved.
fn taken(shell: &Shell) -> (u64, u64) {
    let database = rusqlite::Connection::open(journal(shell).path()).unwrap();
    let sum = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    let batches: i64 = database
        .query_row("SELECT count(DISTINCT budget) FROM shared_reservations", [], |row| row.get(0))
        .unwrap();
    assert!(batches <= 1, "{batches}");
    let spent = sum("SELECT coalesce(sum(spent), 0) FROM shared_budgets");
    (spent, spent + sum("SELECT coalesce(sum(amount), 0) FROM shared_reservations"))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn each_item_is_done_once_and_a_second_start_does_nothing() {
    // U2
    let shell = Shell::new();
    let mut items = tickets(&shell, 5);
    // The same content under another name is the same item.
    let same = shell.file("again.json", &std::fs::read_to_string(&items[1]).unwrap()).display().to_string();
    items.push(same.clone());
    let first = shell.run(&args(HELPDESK, &items, &["--jobs", "3", "--json"]));
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);
    assert!(
        first.err.contains("items:   6, 3 at a time") && first.err.contains("batch:   6 answered"),
        "{}",
        first.err
    );
    let reported = lines(&first.out);
    assert_eq!(reported.len(), 6);
    let run_of = |lines: &[Value], origin: &str| {
        lines.iter().find(|line| line["origin"] == origin).unwrap()["run"].as_str().unwrap().to_owned()
    };
    assert_eq!(run_of(&reported, &items[1]), run_of(&reported, &same));
    assert!(
        reported.iter().all(|line| line["state"] == "ended" && line["done_before"] == false),
        "{reported:?}"
    );
    assert_eq!(shell.run(&["runs"]).out.matches("T-500").count(), 5);

    let second = shell.run(&args(HELPDESK, &items, &["--json"]));
    assert_eq!(second.code, 0, "{}{}", second.out, second.err);
    assert!(second.err.contains("batch:   6 answered; 6 were done before"), "{}", second.err);
    let again = lines(&second.out);
    assert!(again.iter().all(|line| line["done_before"] == true), "{again:?}");
    assert!(items.iter().all(|item| run_of(&again, item) == run_of(&reported, item)));

    // Another setting is another domain, and an item more is one run more.
    let other = shell.run(&args(HELPDESK, &items[..2], &["--set", "limits.passes=2"]));
    assert!(!other.err.contains("done before"), "{}", other.err);
    let more = tickets(&shell, 6);
    let third = shell.run(&args(HELPDESK, &more, &["--progress", "never"]));
    assert!(third.err.contains("batch:   6 answered; 5 were done before"), "{}", third.err);
    let table: Vec<&str> = third.out.lines().collect();
    assert_eq!(table.len(), 7, "{}", third.out);
    assert!(
        table[0].starts_with("item    outcome            reason     passes  cost       run"),
        "{}",
        table[0]
    );
    assert!(table[1].starts_with("T-5000  answered (before)  confident  1       $0.000000"), "{}", table[1]);
    assert!(table[6].starts_with("T-5005  answered           confident"), "{}", table[6]);
}

#[test]
fn a_file_with_one_item_a_line_is_a_batch() {
    let shell = Shell::new();
    let file = shell.file(
        "work.v2.jsonl",
        "{\"id\": \"T-1\", \"subject\": \"All fine now\", \"description\": \"Please close.\"}\n\n{\"subject\": \"Thanks\", \"description\": \"Close it.\"}\n",
    );
    let ran = shell.run(&["run", HELPDESK, file.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let mut found: Vec<(String, String)> = lines(&ran.out)
        .iter()
        .map(|line| (line["item"].as_str().unwrap().to_owned(), line["origin"].as_str().unwrap().to_owned()))
        .collect();
    found.sort();
    let origin = |nth: u32| format!("{}:{nth}", file.display());
    assert_eq!(found[0], ("T-1".to_owned(), origin(1)));
    assert_eq!(found[1], ("work_v2:3".to_owned(), origin(3)));
}

#[test]
fn bad_input_is_one_clear_line_and_nothing_is_started() {
    let shell = Shell::new();
    let items = tickets(&shell, 2);
    for (budget, says) in [
        ("0", "a budget of 0 lets no run call a model"),
        ("-1", "is not an amount of dollars"),
        ("abc", "is not an amount of dollars"),
        ("1e400", "is not an amount of dollars"),
        ("99999999999", "is too much"),
    ] {
        let ran = shell.run(&args(HELPDESK, &items, &["--budget-usd", budget]));
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{budget}: {}", ran.err);
        assert!(ran.err.lines().next().unwrap().contains(says), "{budget}: {}", ran.err);
    }
    let broken = shell.file("items/broken.json", "{\"id\": ").display().to_string();
    let with_broken = [items[0].clone(), broken.clone(), items[1].clone()];
    shell.run(&args(HELPDESK, &with_broken, &[])).fails_with(&[&broken, "nothing was started"]);
    let folder = shell.state.path().join("items").display().to_string();
    shell
        .run(&args(HELPDESK, &[folder.clone(), items[0].clone()], &[]))
        .fails_with(&["a folder", &format!("{folder}/*.json")]);
    shell.run(&args(HELPDESK, &items, &["--key", "k"])).fails_with(&["--key is for one work item"]);
    shell
        .run(&args(HELPDESK, &items, &["--events"]))
        .fails_with(&["--events is for one work item", "--json"]);
    let lines = shell.file("bad.jsonl", "{\"id\": 1}\nnonsense\n").display().to_string();
    let ran = shell.run(&args(HELPDESK, &[lines], &[]));
    assert_eq!((ran.code, ran.err.lines().count()), (1, 2), "one line for each: {}", ran.err);
    assert!(ran.err.contains("bad.jsonl:2: not a JSON object; give one item a line"), "{}", ran.err);
    let unpriced = shell.run(&args(
        HELPDESK,
        &items,
        &[
            "--budget-usd",
            "1",
            "--model",
            "base=compatible/m",
            "--base-url",
            "base=https://models.corp/v1",
            "--set",
            "limits.cost_usd=none",
        ],
    ));
    unpriced.fails_with(&[
        "--base-url base: what https://models.corp/v1 charges for m is not known",
        "--budget-usd cannot be kept",
        "or leave --budget-usd out",
    ]);
    assert!(shell.run(&["runs"]).out.is_empty() || !shell.run(&["runs"]).out.contains("T-500"));
}

#[test]
fn a_batch_belongs_to_one_process_and_an_interrupted_one_continues() {
    // H8, H9: nothing is lost.
    let shell = Shell::new();
    let provider = Provider::replying(vec![Says::Nothing]);
    let domain = priced(&shell, &provider.url, "");
    let items = tickets(&shell, 3);
    let all = args(&domain, &items, &["--jobs", "2", "--budget-usd", "1"]);
    let mut child = shell.command(&all).spawn().unwrap();
    (0..2).for_each(|_| provider.wait());
    let pid = child.id().to_string();
    shell.run(&all).fails_with(&[
        "another process works this batch off",
        &format!("(pid {pid})"),
        "wait for it, or stop it",
    ]);
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut until = |words: &str| {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(err.read_line(&mut line).unwrap() > 0, "`{words}` was not said");
        }
        line
    };
    interrupt(&child);
    let said = until("no more items are started");
    assert!(said.contains("2 under way continue") && said.contains("press Ctrl-C again"), "{said}");
    interrupt(&child);
    let said = until("left: ");
    assert!(said.contains("the same command continues"), "{said}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // What was in flight stays reserved until its run is resumed, and is spent then.
    let (spent, total) = taken(&shell);
    assert!(spent == 0 && total > 0, "{spent} {total}");
    drop(provider);
    let mock = Mock::lying(&shell, None);
    let domain = priced(&shell, &mock.url, "");
    let continued = shell.run(&args(&domain, &items, &["--jobs", "2", "--budget-usd", "1"]));
    assert_eq!(continued.code, 0, "{}{}", continued.out, continued.err);
    assert!(continued.err.contains("batch:   3 answered\n"), "{}", continued.err);
    assert_eq!(block_on(journal(&shell).runs()).unwrap().len(), 3, "each item has one run");
    let (after, all) = taken(&shell);
    assert!(after == all && after > 0, "{after} of {all}");
}

#[test]
fn a_failed_item_ends_the_batch_if_asked_and_is_begun_again_if_asked() {
    let shell = Shell::new();
    let mock = Mock::lying(&shell, Some("html-page"));
    let domain = priced(&shell, &mock.url, "");
    let items = tickets(&shell, 3);
    let failed = shell.run(&args(&domain, &items, &["--jobs", "1", "--fail-fast", "--json"]));
    assert_eq!(failed.code, 6, "the highest code of its runs: {}{}", failed.out, failed.err);
    let states: Vec<_> =
        lines(&failed.out).iter().map(|line| line["state"].as_str().unwrap().to_owned()).collect();
    assert_eq!(states, ["ended", "not_started", "not_started"], "{}", failed.out);
    assert!(failed.err.contains("--retry-failed begins 1 failed item again"), "{}", failed.err);
    drop(mock);
    let mock = Mock::lying(&shell, None);
    let domain = priced(&shell, &mock.url, "");
    let without = shell.run(&args(&domain, &items, &[]));
    assert_eq!(without.code, 6, "a failed run is done: {}{}", without.out, without.err);
    assert!(without.err.contains("batch:   2 answered, 1 failed; 1 was done before"), "{}", without.err);
    let with = shell.run(&args(&domain, &items, &["--retry-failed"]));
    assert_eq!(with.code, 0, "{}{}", with.out, with.err);
    assert!(with.err.contains("batch:   3 answered; 2 were done before"), "{}", with.err);
    let once_more = shell.run(&args(&domain, &items, &["--retry-failed"]));
    assert!(once_more.err.contains("3 were done before"), "{}", once_more.err);
}

#[test]
fn a_budget_of_a_day_ends_runs_with_a_reason_of_its_own() {
    let shell = Shell::new();
    let mock = Mock::lying(&shell, None);
    let domain = priced(&shell, &mock.url, "[budget]\nday_usd = 0.02\nmonth_usd = 5");
    let items = tickets(&shell, 30);
    let mut last = None;
    for item in &items {
        let ran = shell.run(&["run", &domain, item, "--no-save"]);
        if ran.err.contains("shared_budget_exceeded") {
            last = Some(ran);
            break;
        }
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    let Ran { err, .. } = last.expect("the budget of the day is never used up");
    assert!(err.contains("the budget that runs share lets this one cost $"), "{err}");
    assert!(
        err.contains("budget:  of this day by UTC: $0.0") && err.contains(" of $0.020000 spent"),
        "{err}"
    );
    let why = shell.run(&["why", "last"]);
    assert!(why.out.contains("shared_budget_exceeded"), "{}", why.out);
    assert_eq!(shell.run(&["verify", "--all"]).code, 0);
    for (settings, says) in [
        ("[budget]\nday_usd = 0", "a budget of 0 lets no run call a model"),
        ("[budget]\nmonth_usd = \"much\"", "is not an amount of dollars"),
        ("[budget]\nweek_usd = 1", "week_usd"),
    ] {
        let domain = priced(&shell, &mock.url, settings);
        let ran = shell.run(&["run", &domain, &items[0]]);
        ran.fails_with(&["loopgate.toml", says]);
    }
}

#[test]
fn many_items_under_one_budget_with_a_provider_that_lies_and_a_process_that_is_killed() {
    // I-1, H1, U2: the budget is never passed, and each item is done once. LOOPGATE_MANY=full is the whole figure.
    let is_full = std::env::var("LOOPGATE_MANY").is_ok_and(|value| value == "full");
    let (count, jobs, kills) = if is_full { (500, "16", 5) } else { (40, "8", 2) };
    for (behaviour, usd, is_enough) in [
        ("zero-usage", if is_full { "36" } else { "3" }, true),
        ("huge-usage", if is_full { "2" } else { "0.15" }, false),
    ] {
        let shell = Shell::new();
        let mock = Mock::lying(&shell, Some(behaviour));
        let domain = priced(&shell, &mock.url, "");
        let items = tickets(&shell, count);
        let limit: loop_core::types::PicoUsd = usd.parse().unwrap();
        let all = args(&domain, &items, &["--jobs", jobs, "--budget-usd", usd, "--json", "--no-save"]);
        for kill in 0..kills {
            let mut child = shell.command(&all).spawn().unwrap();
            let mut out = BufReader::new(child.stdout.take().unwrap());
            // A part of the items each time.
            for _ in 0..count / (kills + 2) {
                let mut line = String::new();
                if out.read_line(&mut line).unwrap() == 0 {
                    break;
                }
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let (_, total) = taken(&shell);
            assert!(total <= limit.0, "{behaviour}, after kill {kill}: {total} of {limit}");
        }
        let last = shell.run(&all);
        let expected = if is_enough { 0 } else { 3 };
        assert_eq!(last.code, expected, "{behaviour}: {}", last.err);
        let (spent, total) = taken(&shell);
        assert!(spent == total && spent <= limit.0, "{behaviour}: {spent} and {total} of {limit}");
        let (runs, cost) = done(&shell);
        // An item without an answer is reported as left, with the run that was begun for it.
        for line in lines(&last.out).iter().filter(|line| line["state"] == "not_started") {
            let begun = runs.contains_key(line["item"].as_str().unwrap());
            assert_eq!(line["run"].is_string(), begun, "{line}");
        }
        let done_once = runs.values().filter(|ended| **ended == 1).count();
        let done_twice = runs.values().filter(|ended| **ended > 1).count();
        assert_eq!(done_twice, 0, "{behaviour}: {runs:?}");
        assert!(!is_enough || done_once == count, "{behaviour}: {done_once} of {count}");
        // A call that was reserved as the process was killed may not have been sent.
        assert!(cost <= spent, "{behaviour}: {cost} and {spent}");
        if is_full {
            let _ = writeln!(
                std::io::stderr(),
                "{behaviour}: {done_once} of {count} items done, {cost} by the runs, {spent} by the ledger, of {limit}"
            );
        }
    }
}

/// How many answered runs each item has, and what all runs cost.
fn done(shell: &Shell) -> (BTreeMap<String, u32>, u64) {
    let journal = journal(shell);
    block_on(async {
        let (mut runs, mut cost) = (BTreeMap::new(), 0);
        for line in journal.runs().await.unwrap() {
            let recorded = journal.read(&line.run).await.unwrap();
            let run = loop_runtime::journal::replay(&line.run, &recorded).unwrap();
            // One that was killed in the middle does not go on once the budget is used up; what it cost counts.
            cost += run.totals().cost.known.0;
            let answered = run
                .outcome()
                .is_some_and(|outcome| outcome.stop.class == loop_core::types::StopClass::Answered);
            *runs.entry(line.item.to_string()).or_default() += u32::from(answered);
        }
        (runs, cost)
    })
}
